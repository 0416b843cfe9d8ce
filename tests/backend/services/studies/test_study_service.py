"""A study as a sweep: what is made of a study file, what is kept, shown and exported."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from backend.base.errors import BackendError
from backend.cli.main import run
from backend.records.base.atomic_files import replace_json
from backend.records.jobs.placement import Placement
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RunExit
from backend.records.library.item import Kind
from backend.records.studies.study import FormName, GalleryPart, library_of, read_study
from backend.records.sweeps.spec import sweep_of
from backend.services.context.container import Services, open_services
from backend.services.jobs.queries import JobQueries
from backend.services.queue.service import QueueService
from backend.services.studies import measures
from backend.services.studies import service as studies
from backend.services.tools import tool_process
from backend.services.tools.tool_process import ToolError
from tests.integration.tiny import write_sources

STUDY: dict[str, Any] = {
    "title": "Rates",
    "question": "Which rate?",
    "source": "A paper",
    "measure": "error",
    "x": "Rate",
    "job": {
        "epochs": 2,
        "batch_size": 8,
        "strategy": {"name": "alone"},
        "optimizer": {"name": "sgd", "lr": 0.1},
    },
    "rows": [
        {"name": "slow", "published": 3.5},
        {"name": "fast", "job": {"optimizer": {"lr": 0.5}}},
    ],
    "small": {"minutes": 1, "seeds": [1, 2]},
    "full": {"minutes": 60},
}
SHIPPED = sorted(path.parent.name for path in studies.GALLERY.glob("*/study.toml"))


@pytest.fixture
def paths(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "root", tmp_path / "here" / "c.sqlite"


@pytest.fixture
def services(paths: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[Services]:
    def measure(*_: object, **__: object) -> None:
        raise ToolError("not now")

    # Nothing is measured in a process with torch, and no queued job starts.
    monkeypatch.setattr(tool_process, "count_samples", measure)
    monkeypatch.setattr(QueueService, "ensure_keeper", lambda self: None)
    container = open_services(*paths)
    container.queue.pause()
    yield container
    container.close()


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """A study file of a user, with a model, a loader and a dataset of its own."""
    folder = tmp_path / "rates"
    write_sources(folder)
    (folder / "study.toml").write_text(tomli_w.dumps(STUDY))
    return folder / "study.toml"


def end_run(services: Services, job_id: str, state: JobState = JobState.FINISHED) -> None:
    """Write what a run that is over leaves."""
    folder = services.data_root.job(job_id)
    folder.attempt(1).path.mkdir(parents=True)
    run_exit = RunExit(1, state, "")
    replace_json(folder.attempt(1).exit, run_exit.to_dict())


def test_a_started_study_is_a_sweep_with_a_copy_of_its_file(
    services: Services, study: Path
) -> None:
    new_study = services.studies.start(str(study))
    assert [view.name for view in new_study.jobs] == [
        f"Rates · {row} seed={seed}" for seed in (1, 2) for row in ("slow", "fast")
    ]
    assert {sweep_of(view.tags) for view in new_study.jobs} == {new_study.tag}
    assert {view.state for view in new_study.jobs} == {JobState.QUEUED}
    assert new_study.jobs[0].pins["model"].reference == "rates@1"
    old_text = study.read_text()
    study.write_text("something else")
    (started,) = services.studies.started_studies()
    assert (started.text, started.form) == (old_text, FormName.SMALL)
    assert (
        services.studies.find(new_study.tag) == started == services.studies.find_started("rates-")
    )
    assert [row.jobs for row in services.studies.table(started).rows] == [2, 2]


def test_a_second_start_uses_the_same_versions(services: Services, study: Path) -> None:
    first, second = (services.studies.start(str(study.parent)) for _ in range(2))
    assert first.tag != second.tag
    assert first.jobs[0].pins == second.jobs[0].pins


def test_a_study_without_parts_of_its_own_trains_the_digits(
    services: Services, tmp_path: Path
) -> None:
    (tmp_path / "mine.toml").write_text(tomli_w.dumps(STUDY))
    started = services.studies.start(str(tmp_path / "mine.toml"))
    assert {pin.reference for pin in started.jobs[0].pins.values()} == {"digits@1"}


def test_the_table_has_the_results_of_finished_jobs(
    services: Services, study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new_study = services.studies.start(str(study))
    for number in (0, 1, 2):
        services.queue.dequeue(new_study.jobs[number].id)
    end_run(services, new_study.jobs[0].id)
    end_run(services, new_study.jobs[2].id)
    monkeypatch.setattr(
        measures, "measures_of", lambda config, _: {studies.Measure.ERROR: config.seed * 10.0}
    )
    (started,) = services.studies.started_studies()
    slow, fast = services.studies.table(started).rows
    assert (slow.value.n, slow.value.mean, slow.difference) == (2, 15.0, 11.5)
    assert (fast.value.n, fast.value.mean, fast.jobs) == (0, None, 2)
    monkeypatch.setattr(JobQueries, "history", None)
    assert services.studies.table(started).rows == (slow, fast), "a finished job is read once"


def test_stop_takes_waiting_jobs_from_the_queue_and_resume_brings_them_back(
    services: Services, study: Path
) -> None:
    started = services.studies.start(str(study))
    services.queue.dequeue(started.jobs[0].id)
    end_run(services, started.jobs[0].id)
    stopped = services.sweeps.stop(started.tag)
    assert [view.id for view in stopped] == [view.id for view in started.jobs]
    created = JobState.CREATED
    assert [view.state for view in stopped] == [JobState.FINISHED, created, created, created]
    resumed = services.sweeps.resume(started.tag)
    queued = JobState.QUEUED
    assert [view.state for view in resumed] == [JobState.FINISHED, queued, queued, queued]
    waiting_ids = [slot.entry.job_id for slot in services.queue.read().jobs]
    assert waiting_ids == [view.id for view in started.jobs[1:]]


def test_a_job_that_was_stopped_before_it_had_a_checkpoint_is_resumed_from_its_beginning(
    services: Services, study: Path
) -> None:
    started = services.studies.start(str(study))
    services.sweeps.stop(started.tag)
    end_run(services, started.jobs[0].id, JobState.INTERRUPTED)
    assert services.sweeps.resume(started.tag)[0].state is JobState.QUEUED
    assert services.queue.read().jobs[0].entry.run == 2


def test_a_study_without_jobs_is_not_listed(services: Services, study: Path) -> None:
    started = services.studies.start(str(study))
    services.sweeps.cancel(started.tag)
    assert services.studies.started_studies() == ()


@pytest.mark.parametrize(
    ("name", "message", "remedy"),
    [
        ("staleness-", "There is no study “staleness-”", "Did you mean “staleness”"),
        ("/nowhere/study.toml", "There is no study", "study list"),
    ],
)
def test_an_unknown_study_is_refused(
    services: Services, name: str, message: str, remedy: str
) -> None:
    with pytest.raises(BackendError, match=message) as error:
        services.studies.start(name)
    assert remedy in error.value.remedy


def test_a_refused_start_makes_nothing(services: Services, study: Path) -> None:
    study.write_text(tomli_w.dumps({**STUDY, "rows": [{"name": "a", "device": "cpu"}]}))
    with pytest.raises(BackendError, match="no row runs on GPUs"):
        services.studies.start(str(study), placement=[Placement("a", gpus=("GPU-0",))])
    study.write_text(tomli_w.dumps({**STUDY, "measure": "luck"}))
    with pytest.raises(BackendError, match=r"study\.toml: .*measure: it is not a known value\."):
        services.studies.start(str(study))
    assert services.jobs.queries.list() == ()
    assert services.library.list(Kind.MODEL) == ()


def test_an_export_is_never_written_over_a_file(
    services: Services, study: Path, tmp_path: Path
) -> None:
    services.studies.start(str(study))
    (started,) = services.studies.started_studies()
    path = services.studies.export(started, tmp_path / "table.md")
    assert path.read_text().startswith("# Rates\n\nWhich rate?\n")
    with pytest.raises(BackendError, match="exists already and was not changed"):
        services.studies.export(started, path)
    assert services.studies.export(started, tmp_path / "t.csv").read_text().startswith("Row,Seed")
    with pytest.raises(BackendError, match=r"table\.pdf is no name for an export") as error:
        services.studies.export(started, tmp_path / "table.pdf")
    assert error.value.remedy == "End a table in .md or .csv."
    with pytest.raises(BackendError) as error:
        services.studies.export(started, tmp_path / "table.gif", draw_plot=lambda *_: b"")
    assert error.value.remedy.endswith("or a picture in .png, .svg, .pdf.")
    plot_path = services.studies.export(
        started, tmp_path / "t.PNG", draw_plot=lambda _, end: end.encode()
    )
    assert plot_path.read_bytes() == b"png"


def test_the_command_line_starts_shows_stops_and_exports(
    services: Services,
    paths: tuple[Path, Path],
    study: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def run_command(*arguments: str, fails: bool = False) -> Any:
        argv = [*arguments, "--json", "--data-root", str(paths[0]), "--catalogue", str(paths[1])]
        assert run(argv, lambda *_: 2) == int(fails)
        return json.loads(capsys.readouterr().out)

    sweep = run_command("study", "start", str(study))["sweep"]
    listing = run_command("study", "list")
    assert [s["name"] for s in listing["studies"]] == SHIPPED
    assert listing["started"] == [{"sweep": sweep, "form": "small", "jobs": 4}]
    shown_study = run_command("study", "show", "rates")
    assert shown_study["measure"] == {"label": "Error", "unit": "%"}
    assert shown_study["rows"][0] == {
        "name": "slow",
        "series": "",
        "place": 1.0,
        "jobs": 2,
        "n": 0,
        "mean": None,
        "sd": None,
        "interval": None,
        "published": 3.5,
        "difference": None,
        "best": False,
        "busy": None,
        "against": "",
        "seed_difference": {"n": 0, "mean": None, "sd": None, "interval": None},
        "also": [],
    }
    assert {s["state"] for s in run_command("study", "stop", sweep)} == {"CREATED"}
    assert {s["state"] for s in run_command("study", "resume", sweep)} == {"QUEUED"}
    assert run_command("study", "export", sweep, "--output", str(tmp_path / "t.csv"))["bytes"] > 30
    error = run_command("study", "show", "other", fails=True)["error"]
    assert error["sentence"] == "There is no started study “other”."


def test_a_row_trains_an_entry_of_the_gallery_with_its_settings(
    services: Services, study: Path
) -> None:
    small = {"minutes": 1, "seeds": [1], "job": {"model": {"classes": 3}}}
    rows = [
        {"name": "one", "job": {"model": {"side": 16}}},
        {"name": "two", "job": {"model": {"side": 32, "classes": 4}}},
    ]
    job = {**STUDY["job"], "model": {"gallery": "lenet-5", "classes": 9}}
    study.write_text(tomli_w.dumps({**STUDY, "job": job, "rows": rows, "small": small}))
    first, second = (services.studies.start(str(study)) for _ in range(2))
    names = ["lenet-5-side-16@1", "lenet-5-side-32-classes-4@1"]
    assert [view.pins["model"].reference for view in first.jobs] == names
    assert [view.pins for view in first.jobs] == [view.pins for view in second.jobs]
    assert first.jobs[0].pins["loader"].reference == "rates@1"
    code = [services.library.text(Kind.MODEL, name, "bks_model.py") for name in names]
    assert ["CLASSES = 3\n" in text for text in code] == [True, False]
    assert ["CLASSES = 4\n" in text for text in code] == [False, True]
    assert {item.name for item in services.library.list(Kind.MODEL)} == {
        name.partition("@")[0] for name in names
    }, "neither the study's own model nor the digits"


@pytest.mark.parametrize(
    ("job", "message", "remedy"),
    [
        ({"dataset": "cifar-10"}, "There is no dataset “cifar-10”", "as a dataset named cifar-10"),
        ({"loader": "mine"}, "There is no loader “mine”", "Import it as a loader"),
        ({"model": {"gallery": "lenet"}}, "The gallery has no “lenet”", "lenet-5"),
        ({"model": {"gallery": "lenet-5", "depth": 3}}, "no setting “depth”", "gallery show"),
        ({"model": {"gallery": "lenet-5", "side": 9}}, "side must be a whole number", "show"),
        ({"loader": {"gallery": "lenet-5"}}, "is a model, not a loader", ""),
        ({"model": {"side": 16}}, "model must be a name, or a table with “gallery”", "Change"),
        ({"dataset": {"gallery": "digits"}}, r"dataset must be a name\.", "Change"),
    ],
)
def test_a_row_that_names_a_missing_entry_makes_nothing(
    services: Services, study: Path, job: dict[str, Any], message: str, remedy: str
) -> None:
    good = {"name": "good", "job": {"model": {"gallery": "lenet-5", "side": 16}}}
    study.write_text(tomli_w.dumps({**STUDY, "rows": [good, {"name": "odd", "job": job}]}))
    with pytest.raises(BackendError, match=message) as error:
        services.studies.start(str(study))
    assert "row “odd”" in error.value.message
    assert remedy in error.value.remedy
    assert not services.jobs.queries.list()
    assert not any(services.library.list(kind) for kind in Kind)


@pytest.mark.parametrize("name", SHIPPED)
def test_each_shipped_study_names_entries_of_the_gallery_with_valid_settings(
    services: Services, name: str
) -> None:
    study = read_study(tomllib.loads((studies.GALLERY / name / studies.FILE).read_text()))
    for form in FormName:
        for row in study.rows_of(form):
            for part in library_of(study, form, row).values():
                if isinstance(part, GalleryPart):
                    services.gallery.values(part.entry, dict(part.settings), part.kind)


@pytest.mark.parametrize("name", ["activations", "deep-activations", "module-variants"])
def test_the_full_form_asks_for_the_data_of_the_source(services: Services, name: str) -> None:
    with pytest.raises(BackendError, match=r"There is no dataset “cifar-100?”") as error:
        services.studies.start(name, FormName.FULL)
    assert re.search("Import it as a dataset named cifar-100? first", error.value.remedy)
    assert not services.jobs.queries.list()
    assert not any(services.library.list(kind) for kind in Kind)
