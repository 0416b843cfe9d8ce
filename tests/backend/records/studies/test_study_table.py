"""The table of a study: means and spreads, relations to the first row, and the exported bytes."""

from __future__ import annotations

import statistics
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.records.jobs.run_environment import RunEnvironment
from backend.records.studies.study import FormName, Measure, StartedStudy, StudyJob, read_study
from backend.records.studies.table import (
    Cell,
    JobMeasures,
    StudyTable,
    cell_of,
    csv_text,
    markdown_text,
    study_table,
)
from tests.backend.records.studies.test_study import RAW, changed

ROWS = [
    {"name": "a, 1", "series": "a"},
    {"name": "a, 2", "series": "a", "workers": 2, "published": 75.0},
    {"name": "b, 1", "series": "b"},
]


def table(measure: Measure, measures: dict[str, JobMeasures], *further: Measure) -> StudyTable:
    """Of jobs whose ids are the row's first letter, its workers and the seed: ``a21``."""
    raw = {**RAW, "rows": ROWS, "measure": measure.value, "also": [m.value for m in further]}
    study = read_study({**raw, "small": {"minutes": 1, "seeds": [1, 2]}})
    jobs = tuple(
        StudyJob(f"{row.name[0]}{row.workers}{seed}", row.name, seed)
        for seed in (1, 2)
        for row in study.rows
    )
    return study_table(study, StartedStudy("s-1", FormName.SMALL, "", jobs), measures)


def test_a_cell_has_the_mean_and_the_standard_deviation_of_finished_jobs() -> None:
    first_cell, two, three = table(
        Measure.ERROR,
        {
            "a11": {Measure.ERROR: 2.0},
            "a12": {Measure.ERROR: 4.0},
            "a21": {Measure.ERROR: 80.0, Measure.STALENESS: 1.5},
        },
        Measure.STALENESS,
    ).rows
    assert (first_cell.value.n, first_cell.value.mean, first_cell.value.sd) == (
        2,
        3.0,
        pytest.approx(2**0.5),
    )
    assert (two.value, two.difference, two.further_cells[0]) == (Cell(1, 80.0), 5.0, Cell(1, 1.5))
    assert (three.value, three.difference, three.jobs) == (Cell(), None, 2)


def test_growth_compares_jobs_of_one_seed_with_the_first_row_of_their_series() -> None:
    seconds = {"a11": 10.0, "a12": 20.0, "a21": 11.0, "a22": 21.0, "b11": 5.0}
    rows = table(Measure.GROWTH, {job: {Measure.EPOCH_TIME: s} for job, s in seconds.items()}).rows
    assert [row.value.mean for row in rows] == pytest.approx([0.0, 7.5, 0.0])


def test_efficiency_is_the_share_of_the_speed_of_as_many_single_workers() -> None:
    rates = {"a11": 100.0, "a21": 150.0, "a22": 150.0}
    rows = table(Measure.EFFICIENCY, {job: {Measure.RATE: r} for job, r in rates.items()}).rows
    assert (rows[1].value, rows[1].difference) == (Cell(1, 75.0), 0.0)


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True, width=32)))
def test_a_cell_counts_finite_values_only(study_result: list[float]) -> None:
    cell = cell_of(study_result)
    assert cell.n <= len(study_result)
    assert (cell.mean is None) == (cell.n == 0)
    assert (cell.sd is None) == (cell.n < 2)


def test_the_exported_bytes_have_measured_and_published_values() -> None:
    study_result = table(
        Measure.ERROR,
        {
            "a11": {Measure.ERROR: 2.0},
            "a12": {Measure.ERROR: 4.0},
            "a21": {Measure.ERROR: 80.0, Measure.STALENESS: 1.5},
        },
        Measure.STALENESS,
    )
    assert markdown_text(study_result) == (
        "# Rates\n\nWhich rate?\n\n**Source.** A paper.\n\n**Form.** small, seeds 1, 2.\n\n"
        "| | Error, % | 95 % interval | published | difference | jobs | Staleness, updates |\n"
        "|---|---|---|---|---|---|---|\n"
        "| a, 1 | 3.00 ± 1.41 | -9.71 to 15.71 |  |  | 2 of 2 |  |\n"
        "| a, 2 | 80.0 |  | 75.0 | +5.00 | 1 of 2 | 1.50 |\n"
        "| b, 1 |  |  |  |  | 0 of 2 |  |\n\n"
        "Mean ± standard deviation; the interval is that of the mean (Student's t).\n"
    )
    assert csv_text(study_result) == (
        'Row,Seed,Job,"Error, %","Staleness, updates",Busy,Device,PyTorch,Program\n'
        '"a, 1",1,a11,2.0,,,,,\n"a, 2",1,a21,80.0,1.5,,,,\n"a, 1",2,a12,4.0,,,,,\n'
    )


def test_the_values_of_each_seed_are_kept_with_where_they_were_measured() -> None:
    study = read_study({**RAW, "rows": ROWS, "small": {"minutes": 1, "seeds": [1, 2]}})
    jobs = tuple(StudyJob(f"x{seed}", "a, 1", seed) for seed in (1, 2))
    on_cpu = RunEnvironment(1, 1, 1, torch="2.6.0", device="EPYC", program="0.1.0 (4e4fa95)")
    on_gpu = replace(on_cpu, seed=2, cuda="12.8", device="H200", program="")
    study_result = study_table(
        study,
        StartedStudy("s-1", FormName.SMALL, "", jobs),
        {"x1": {Measure.ERROR: 1 / 3}, "x2": {Measure.ERROR: 4.0}},
        {"x1": 0.25},
        {"x1": on_cpu, "x2": on_gpu},
    )
    assert csv_text(study_result).splitlines()[1:] == [
        f'"a, 1",1,x1,{1 / 3!r},0.25,EPYC,2.6.0,0.1.0 (4e4fa95)',
        '"a, 1",2,x2,4.0,,H200,2.6.0,',
    ]
    assert study_result.remarks[1:] == (
        "Ran on CPU EPYC, PyTorch 2.6.0, program 0.1.0 (4e4fa95).",
        "Ran on GPU H200, PyTorch 2.6.0, program of an unknown version.",
    )


numbers = st.lists(st.floats(1, 1e3), min_size=2, max_size=5)


@given(numbers, st.floats(1, 1e3))
def test_the_first_row_of_a_series_shows_its_own_spread(
    seconds: list[float], other_seconds: float
) -> None:
    raw = {**RAW, "rows": ROWS, "measure": "growth"}
    seeds = list(range(len(seconds)))
    study = read_study({**raw, "small": {"minutes": 1, "seeds": seeds}})
    jobs = tuple(StudyJob(f"{row}{s}", row, s) for row in ("a, 1", "a, 2") for s in seeds)
    measures_by_job = {f"a, 1{seed}": {Measure.EPOCH_TIME: seconds[seed]} for seed in seeds}
    measures_by_job |= {f"a, 2{seed}": {Measure.EPOCH_TIME: other_seconds} for seed in seeds}
    started = StartedStudy("s-1", FormName.SMALL, "", jobs)
    base, second = (row.value for row in study_table(study, started, measures_by_job).rows[:2])
    mean = statistics.fmean(seconds)
    assert base.mean == pytest.approx(0, abs=1e-9)
    assert base.sd == pytest.approx(100 * statistics.stdev(seconds) / mean, abs=1e-6)
    assert second.mean == pytest.approx(
        statistics.fmean(100 * (other_seconds / own_value - 1) for own_value in seconds), abs=1e-6
    )


@given(st.dictionaries(st.tuples(st.sampled_from("ab"), st.integers(1, 9)), st.floats(0, 99)))
def test_rows_are_compared_by_the_seeds_that_both_have(
    errors: dict[tuple[str, int], float],
) -> None:
    rows = [{"name": "a"}, {"name": "b"}]
    form = {"minutes": 1, "seeds": list(range(1, 10))}
    study = read_study({**RAW, "rows": rows, "against": "a", "small": form})
    jobs = tuple(StudyJob(f"{row}{seed}", row, seed) for row, seed in errors)
    measures_by_job = {f"{row}{seed}": {Measure.ERROR: e} for (row, seed), e in errors.items()}
    first, second = study_table(
        study, StartedStudy("s-1", FormName.SMALL, "", jobs), measures_by_job
    ).rows
    common = [seed for seed in range(1, 10) if ("a", seed) in errors and ("b", seed) in errors]
    differences = [errors["b", seed] - errors["a", seed] for seed in common]
    assert (first.against, first.seed_difference, second.against) == ("", Cell(), "a")
    assert second.seed_difference == cell_of(differences)


def test_a_tuned_row_is_compared_with_the_best_of_another_series_on_the_test_set() -> None:
    form = {"minutes": 1, "seeds": [1], "also": ["error, test set"]}
    rows = [*ROWS[:2], {**ROWS[2], "against": "a"}]
    study = read_study({**RAW, "rows": rows, "best": True, "small": form})
    errors = {"a, 1": (3.0, 9.0), "a, 2": (2.0, 10.0), "b, 1": (1.0, 6.0)}
    jobs = tuple(StudyJob(name, name, 1) for name in errors)
    measures_by_job = {
        name: {Measure.ERROR: validation_error, Measure.TEST_ERROR: tested}
        for name, (validation_error, tested) in errors.items()
    }
    study_result = study_table(
        study, StartedStudy("s-1", FormName.SMALL, "", jobs), measures_by_job
    )
    assert study_result.rows[2].seed_difference == Cell(1, -4.0)
    assert "| -4.00 against a, 2 |" in markdown_text(study_result)
    assert any(
        "chosen by “Error”, not by the test set" in remark for remark in study_result.remarks
    )


@pytest.mark.parametrize(
    ("n", "t"),
    [(2, 12.7062), (3, 4.3027), (4, 3.1824), (5, 2.7764), (6, 2.5706), (30, 2.0452), (100, 1.9842)],
)
def test_the_interval_is_student_s(n: int, t: float) -> None:
    cell = cell_of([0.0] * (n - 1) + [float(n)])
    assert (cell.mean, cell.sd) == (1.0, pytest.approx(n**0.5))
    low, high = cell.interval or (0.0, 0.0)
    assert (1 - low, high - 1) == (pytest.approx(t, abs=1e-4), pytest.approx(t, abs=1e-4))


@pytest.mark.parametrize("key", ["published_on", "small/published_on"])
def test_results_on_other_data_have_no_difference_and_say_so(key: str) -> None:
    study = read_study(changed(key, "CIFAR-10"))
    started = StartedStudy("s-1", FormName.SMALL, "", (StudyJob("x", "one", 1),))
    study_result = study_table(study, started, {"x": {Measure.ERROR: 4.0}})
    assert (study_result.rows[0].published, study_result.rows[0].difference) == (3.5, None)
    text = markdown_text(study_result)
    assert "difference |" not in text
    assert "The published values are for CIFAR-10" in text
    own_value = StartedStudy("s-2", FormName.FULL, "", started.jobs)
    study_result = study_table(study, own_value, {"x": {Measure.ERROR: 4.0}})
    assert study_result.rows[0].difference == (0.5 if "small" in key else None)


def test_the_best_rate_of_each_series_is_marked() -> None:
    study = read_study({**RAW, "rows": ROWS, "best": True, "small": {"minutes": 1, "seeds": [1]}})
    jobs = tuple(StudyJob(row.name, row.name, 1) for row in study.rows)
    values = {"a, 1": 3.0, "a, 2": 2.0, "b, 1": 9.0}
    study_result = study_table(
        study,
        StartedStudy("s-1", FormName.SMALL, "", jobs),
        {name: {Measure.ERROR: value} for name, value in values.items()},
    )
    assert [row.label for row in study_result.rows] == ["a, 1", "a, 2, best", "b, 1, best"]


@pytest.mark.parametrize(
    ("measure", "busy", "is_marked"),
    [
        (Measure.EPOCH_TIME, {"a11": 0.4}, True),
        (Measure.EPOCH_TIME, {"a11": 0.02, "a12": 0.3}, True),
        (Measure.EPOCH_TIME, {"a11": 0.02}, False),
        (Measure.EPOCH_TIME, {}, False),
        (Measure.ERROR, {"a11": 0.4}, False),
        (Measure.EFFICIENCY, {"b11": 0.4}, False),
    ],
)
def test_a_time_measured_on_a_busy_computer_is_marked(
    measure: Measure, busy: dict[str, float], is_marked: bool
) -> None:
    raw = {**RAW, "rows": ROWS, "measure": measure.value}
    study = read_study({**raw, "small": {"minutes": 1, "seeds": [1, 2]}})
    jobs = (StudyJob("a11", "a, 1", 1), StudyJob("a12", "a, 1", 2), StudyJob("b11", "b, 1", 1))
    values = {Measure.EPOCH_TIME: 1.0, Measure.RATE: 1.0, Measure.ERROR: 1.0}
    started = StartedStudy("s-1", FormName.SMALL, "", jobs)
    study_result = study_table(study, started, dict.fromkeys(("a11", "a12", "b11"), values), busy)
    assert (study_result.rows[0].label == "a, 1 *") is is_marked
    assert ("are too long" in markdown_text(study_result)) is any(
        row.busy for row in study_result.rows
    )


def test_a_row_without_a_job_is_said_not_to_have_run() -> None:
    study = read_study(changed("rows/0/device", "gpu"))
    started = StartedStudy("s-1", FormName.SMALL, "", (StudyJob("x", "three", 1),))
    assert "| one |  |  | 3.50 |  | not run |" in markdown_text(study_table(study, started, {}))
