"""Sweeps fold: a plain walk over the rows gives the same ones, whatever joins, leaves and ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.jobs.wiring import job_entry
from app.shell.command_search import CommandSearch
from backend.records.jobs.state import JobState
from backend.records.jobs.summary import JobQuery, JobSummary, make_summary
from backend.records.sweeps.spec import sweep_of
from backend.records.sweeps.summary import MAX_UNFOLDED_JOBS, FoldState, sweep_summary
from backend.services.jobs.index import JobIndex

S = JobState


def line(number, tag="", state=S.FINISHED, best=None, **fields):
    settings = {"checkpoint": {"best_mode": fields.pop("mode", "min")}}
    return make_summary(
        settings,
        {},
        **{
            "id": f"job-{number:02d}",
            "name": f"digits lr={number}",
            "state": state,
            "best_metric": None if best is None else ("validation/loss", best),
            "created_s": 1e9 + number,
            "ended_s": 2e9 - number if state.is_over else 0.0,
            "tags": (tag,) if tag else (),
            **fields,
        },
    )


def rows(index, query=JobQuery(), folds=FoldState()):  # noqa: B008 - both are frozen
    folded = index.fold(index.find(query), query, folds)
    return [folded.summaries[slot].id for slot in folded.order.tolist()]


def index_of(*lines):
    index = JobIndex()
    index.update(lines)
    return index


SIX = [line(number, "sweep:lr") for number in range(6)]


def test_a_long_sweep_is_one_row_where_its_first_job_would_stand():
    index = index_of(line(90, ended_s=3e9), *SIX, line(91, ended_s=1.0))
    assert rows(index) == ["job-90", "sweep:lr", "job-91"]


def test_a_short_sweep_is_unfolded_until_the_user_folds_it():
    index = index_of(*SIX[:MAX_UNFOLDED_JOBS])
    assert rows(index) == ["sweep:lr", "job-00", "job-01", "job-02"]
    assert rows(index, folds=FoldState({"sweep:lr": True})) == ["sweep:lr"]


def test_one_job_alone_is_no_sweep():
    assert rows(index_of(SIX[0])) == ["job-00"]


def test_jobs_of_a_sweep_stay_together_in_the_order():
    index = index_of(*SIX, line(90, ended_s=2e9 - 2.5))
    names = rows(index, folds=FoldState({"sweep:lr": False}))
    assert names == ["sweep:lr", *(f"job-0{n}" for n in range(6)), "job-90"]


def test_a_search_shows_hits_in_a_folded_sweep_unless_all_its_jobs_match():
    index = index_of(*SIX)
    assert rows(index, JobQuery("lr=4")) == ["sweep:lr", "job-04"]
    assert rows(index, JobQuery("sweep:lr")) == ["sweep:lr"]
    assert rows(index, JobQuery("lr=4"), FoldState(search_folds={"sweep:lr": True})) == ["sweep:lr"]


def test_sorted_by_a_metric_a_sweep_stands_where_its_best_job_would():
    swept = [line(n, "sweep:lr", best=0.1 * n + 0.05) for n in range(4)]
    index = index_of(line(90, best=0.01), line(91, best=0.2), *swept)
    assert rows(index, JobQuery(order="best")) == ["job-90", "sweep:lr", "job-91"]


def test_a_job_that_gets_the_tag_later_joins_and_one_that_goes_leaves():
    index = index_of(*SIX[:2], line(7))
    update = index.update([line(7, "sweep:lr")])
    assert update.order_changed
    assert not update.jobs_added_or_removed
    assert index.summaries[index.slot("sweep:lr")].sweep.ids == ("job-00", "job-01", "job-07")
    assert index.update([], ["job-00", "job-01"]).order_changed
    assert rows(index) == ["job-07"]


def test_an_update_of_one_job_is_an_update_of_its_sweep():
    index = index_of(*SIX)
    update = index.update([line(3, "sweep:lr", S.TRAINING, progress=0.5)])
    assert set(update.changed_slots) == {index.slot("job-03"), index.slot("sweep:lr")}
    head = index.summaries[index.slot("sweep:lr")]
    assert (head.state, head.sweep.live, head.sweep.finished) == (S.TRAINING, 1, 5)
    assert head.progress == pytest.approx(5.5 / 6)


def test_no_count_and_no_other_search_knows_of_the_row_of_a_sweep():
    index = index_of(*SIX)
    result = index.find(JobQuery())
    assert (result.total_count, result.match_count, len(result.order)) == (6, 6, 6)
    assert [s.id for s in index.find_by_name("lr", 9)] == [f"job-0{n}" for n in (5, 4, 3, 2, 1, 0)]
    assert index.choices().tags == ("sweep:lr",)


STATES = st.sampled_from(list(JobState))
jobs = st.builds(
    line,
    st.integers(0, 15),
    st.sampled_from(["", "sweep:a", "sweep:b"]),
    STATES,
    st.none() | st.floats(0, 1),
)


@given(
    st.lists(
        st.tuples(
            st.lists(jobs, max_size=8, unique_by=lambda s: s.id),
            st.sets(st.integers(0, 15), max_size=3),
        ),
        max_size=4,
    ),
    st.dictionaries(st.sampled_from(["sweep:a", "sweep:b", "sweep:c"]), st.booleans()),
    st.sampled_from(["", "lr=1", "lr=3"]),
    st.sampled_from(["", "best", "name"]),
)
def test_folding_equals_a_plain_walk(steps, kept_tags, text, order):
    index = JobIndex()
    present: dict[str, JobSummary] = {}
    for lines, removed_ids in steps:
        names = [f"job-{number:02d}" for number in removed_ids]
        index.update(lines, names)
        for name in names:
            present.pop(name, None)
        present.update((s.id, s) for s in lines)
    query = JobQuery(text, order=order)
    plain = [index.summaries[slot] for slot in index.find(query).order.tolist()]
    assert rows(index, query, FoldState(kept_tags)) == list(
        folded_by_walk(plain, list(present.values()), query, kept_tags)
    )
    for tag in {sweep_of(s.tags) for s in present.values()} - {""}:
        members = [s for s in present.values() if sweep_of(s.tags) == tag]
        assert index.summaries[index.slot(tag)] == sweep_summary(tag, members)


def folded_by_walk(matches, every, query, kept_tags):
    seen_tags = set()
    for summary in matches:
        tag = sweep_of(summary.tags)
        size = sum(sweep_of(s.tags) == tag for s in every)
        if not tag or size < 2:
            yield summary.id
        elif tag not in seen_tags:
            seen_tags.add(tag)
            yield tag
            hits = [s.id for s in matches if sweep_of(s.tags) == tag]
            folded = kept_tags.get(tag, size > MAX_UNFOLDED_JOBS)
            if not folded or (query.is_search and len(hits) < size):
                yield from hits


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ([S.FINISHED, S.ERROR, S.TRAINING], S.TRAINING),
        ([S.FINISHED, S.ERROR, S.QUEUED], S.QUEUED),
        ([S.FINISHED, S.CREATED], S.CREATED),
        ([S.FINISHED, S.INTERRUPTED, S.ERROR], S.ERROR),
        ([S.FINISHED, S.FINISHED], S.FINISHED),
    ],
)
def test_a_sweep_has_finished_when_all_of_it_has(states, expected):
    head = sweep_summary("sweep:x", [line(n, state=state) for n, state in enumerate(states)])
    assert head.state is expected


@pytest.mark.parametrize(("mode", "expected"), [("min", 0.1), ("max", 0.3)])
def test_the_best_metric_is_the_best_by_the_jobs_own_rule(mode, expected):
    values = (0.2, 0.1, 0.3, float("nan"))
    head = sweep_summary("sweep:x", [line(n, best=v, mode=mode) for n, v in enumerate(values)])
    assert head.best_metric == ("validation/loss", expected)
    assert head.sweep.best_job == f"lr={values.index(expected)}"


def test_jobs_judged_by_different_metrics_have_no_best_job():
    other_line = line(1)._replace(best_metric=("mAP", 0.5))
    assert sweep_summary("sweep:x", [line(0, best=0.2), other_line]).best_metric is None


def test_a_sweep_is_found_by_its_name():
    index = index_of(*SIX, line(90))
    name = index.summaries[index.slot("sweep:lr")].name
    assert [s.id for s in index.find_sweeps(name.upper(), 50)] == ["sweep:lr"]
    assert index.find_sweeps("zeppelin", 50) == ()


@pytest.mark.parametrize(
    ("text", "sweeps", "jobs"),
    [
        ("sweep:lr", ["sweep:lr"], 6),
        ("LR", ["sweep:lr"], 6),
        ("lr paper", ["sweep:lr"], 6),
        ("paper", ["sweep:lr"], 7),
        ("paper old", [], 1),
        ("zeppelin", [], 0),
    ],
)
def test_ctrl_k_finds_jobs_by_words_of_name_and_tags(text, sweeps, jobs):
    tagged = [line(number, tags=("sweep:lr", "paper")) for number in range(6)]
    index = index_of(*tagged, line(90, tags=("paper", "old"), name="night"))
    assert [s.id for s in index.find_sweeps(text, 50)] == sweeps
    matches = index.find_by_name(text, 50)
    assert len(matches) == jobs
    search = CommandSearch()
    entries = tuple(map(job_entry, (*index.find_sweeps(text, 50), *matches)))
    assert {s.key for s in search.find(text, entries)} == {s.key for s in entries}


def test_the_gpu_time_of_a_sweep_is_that_of_all_its_jobs():
    gpus = {"uses_gpus": True, "world_size": 4, "run": 1}
    ended_job = line(1, state=S.FINISHED, started_s=1e9, ended_s=1e9 + 100, energy_j=50.0, **gpus)
    resumed = line(2, state=S.TRAINING, started_s=1e9 + 70, earlier_gpu_s=40.0, **gpus)
    starting_job = line(3, state=S.SETUP, started_s=1e9 + 90, **{**gpus, "world_size": 2})
    draft = line(4, state=S.QUEUED, uses_gpus=True, world_size=4)
    for jobs in ((ended_job,), (ended_job, resumed), (ended_job, resumed, starting_job, draft)):
        summary = sweep_summary("sweep:lr", jobs)
        for now in (1e9 + 100, 1e9 + 500):
            assert summary.gpu_s(now) == sum(j.gpu_s(now) for j in jobs if j.run)
    assert sweep_summary("sweep:lr", (ended_job, ended_job)).energy_j == 100.0
    assert sweep_summary("sweep:lr", (ended_job, resumed)).energy_j is None
    unknown = ended_job._replace(earlier_gpu_s=None)
    assert sweep_summary("sweep:lr", (ended_job, unknown)).gpu_s(2e9) is None
    on_processors = line(5, started_s=1e9, run=1, world_size=4)
    assert sweep_summary("sweep:lr", (ended_job, on_processors)).gpu_s(2e9) == 400.0
    assert sweep_summary("sweep:lr", (on_processors,)).gpu_s(2e9) is None
