"""Jobs from start to end on this computer, with real mpirun, real ranks and real files."""

from __future__ import annotations

import hashlib
import random
import shutil
import threading
import tomllib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from backend.base.errors import BackendError
from backend.datastore.jobs.checkpoint_files import verify
from backend.records.base.atomic_files import read_json, replace_json
from backend.records.base.layout import JobFolder
from backend.records.jobs.checkpoint import Checkpoint
from backend.records.jobs.lr_schedule import learning_rate
from backend.records.jobs.state import JobState
from backend.records.jobs.view import JobView
from backend.records.library.item import Kind
from backend.services.context.container import Services
from tests.fakes.mounted_root import MOUNTED
from tests.integration.conftest import is_training, leftovers
from tests.integration.tiny import ALONE, ENDLESS, LOADER, MODEL, raw_job


def folder(services: Services, view: JobView) -> JobFolder:
    return services.data_root.job(view.id)


def newest_checkpoint(services: Services, view: JobView) -> Checkpoint:
    return next(c for c in services.jobs.queries.checkpoints(view.id) if c.is_latest)


def stopped(services: Services, job_id: str) -> JobView:
    services.jobs.queries.wait(job_id, is_finished=is_training)
    services.jobs.lifecycle.stop(job_id)
    return services.jobs.queries.wait(job_id)


def test_m02_the_form_gets_the_results_of_the_settings(services: Services, workplace: Path) -> None:
    shutil.rmtree(workplace / "desktop-0" / "catalogue.sqlite.cache")
    check = services.jobs.check(raw_job(schedule={"name": "cosine"}))
    assert check.may_start
    assert (check.global_batch, check.learning_rate) == (16, 0.1)
    assert check.steps_per_epoch is None
    services.jobs.create(raw_job())
    check = services.jobs.check(raw_job(schedule={"name": "cosine"}))
    assert check.steps_per_epoch == 32
    assert len(check.rates) == 128
    assert check.rates[0] == 0.1
    assert check.rates[-1] < 0.001
    check = services.jobs.check(raw_job(batch_size=257, epochs=0, model="nothing"))
    assert {error.path for error in check.errors} == {"batch_size", "epochs", "model"}
    check = services.jobs.check(raw_job(batch_size=257))
    assert [error.path for error in check.errors] == ["batch_size"]
    assert not check.may_start


def test_a_job_runs_to_its_end_and_says_so(services: Services, finished: str) -> None:
    view = services.jobs.queries.show(finished)
    assert (view.state, view.run, view.error) == (JobState.FINISHED, 1, None)
    assert (view.status.epoch, view.step, view.status.total_steps) == (3, 96, 96)
    assert view.progress == 1.0
    assert {"loss", "validation/loss", "validation/accuracy"} <= view.status.metrics.keys()
    history = services.jobs.queries.history(view.id)
    assert list(history.steps) == list(range(1, 97))
    assert list(np.unique(history.epochs)) == [1, 2, 3]
    rates = [learning_rate(view.config, 32, step) for step in range(96)]
    assert np.allclose(history.metrics["learning_rate"], rates, rtol=1e-6)  # S9
    validation_mask = ~np.isnan(history.metrics["validation/loss"])
    assert list(np.asarray(history.steps)[validation_mask]) == [32, 64, 96]
    assert tomllib.loads(folder(services, view).history.read_text())["entry"]
    assert leftovers(view) == []


@pytest.mark.parametrize("stops", [1, pytest.param(10, marks=pytest.mark.slow)])
def test_m08_random_stops_leave_a_checkpoint_and_no_process(services: Services, stops: int) -> None:
    view = services.jobs.create(raw_job(**ENDLESS))
    services.jobs.lifecycle.start(view.id)
    moments = random.Random(8)
    steps = [0]
    for run in range(1, stops + 1):
        goal_step = steps[-1] + moments.randrange(1, 9)
        services.jobs.queries.wait(
            view.id,
            is_finished=lambda v, goal_step=goal_step: v.step >= goal_step or v.state.is_over,
        )
        services.jobs.lifecycle.stop(view.id)
        view = services.jobs.queries.wait(view.id)
        assert (view.state, view.run) == (JobState.INTERRUPTED, run)
        record = newest_checkpoint(services, view)
        verify(MOUNTED, record)
        assert torch.load(record.path, weights_only=True)["course"]["step"] == view.step
        steps.append(record.step)
        attempt = folder(services, view).attempt(run)
        assert read_json(attempt.exit)["leftovers"] == []
        assert {read_json(attempt.rank_exit(rank))["outcome"] for rank in (0, 1)} == {"interrupted"}
        assert leftovers(view) == []
        if run < stops:
            services.jobs.lifecycle.resume(view.id)
    assert steps == sorted(set(steps))


@pytest.mark.slow  # of the training alone, tests/backend/training/test_resume.py shows it
def test_m09_a_stop_and_resume_change_nothing(services: Services, tmp_path: Path) -> None:
    gate_file = tmp_path / "go"
    pausing = {"PAUSE_S": "0.1", "PAUSED_UNTIL": str(gate_file)}
    straight_job = services.jobs.create(raw_job(epochs=6))
    broken_job = services.jobs.create(raw_job(epochs=6, environment=pausing))
    services.jobs.lifecycle.start(straight_job.id)
    assert services.jobs.queries.wait(straight_job.id).state is JobState.FINISHED
    services.jobs.lifecycle.start(broken_job.id)
    view = stopped(services, broken_job.id)
    assert view.state is JobState.INTERRUPTED
    assert 0 < view.step < 192
    gate_file.touch()
    services.jobs.lifecycle.resume(broken_job.id)
    assert services.jobs.queries.wait(broken_job.id).state is JobState.FINISHED
    histories = [services.jobs.queries.history(job.id) for job in (straight_job, broken_job)]
    for name in ("loss", "learning_rate", "validation/loss"):
        a, b = (history.metrics[name] for history in histories)
        assert np.array_equal(a, b, equal_nan=True), name
    assert [start.first_step for start in histories[1].run_starts] == [1, view.step + 1]
    a, b = (
        torch.load(newest_checkpoint(services, job).path, weights_only=True)["model"]
        for job in (straight_job, broken_job)
    )
    assert a.keys() == b.keys()
    assert all(torch.equal(a[name], b[name]) for name in a)


def test_m10_starting_over_keeps_every_byte_of_the_earlier_run(
    services: Services, finished: str
) -> None:
    with pytest.raises(BackendError, match="has run before"):
        services.jobs.lifecycle.start(finished)
    job = services.data_root.job(finished)
    previous_hashes = hashes(job.path)
    services.jobs.lifecycle.start(finished, start_over=True)
    view = services.jobs.queries.wait(finished)
    assert (view.state, view.run, view.step) == (JobState.FINISHED, 2, 96)
    kept_hashes = hashes(job.started_over_runs / "1")
    assert kept_hashes.items() <= previous_hashes.items()
    once = {
        name for name in previous_hashes.keys() - kept_hashes.keys() if not name.startswith("acts/")
    }
    assert once == {"config.toml", "meta.json"}


def hashes(path: Path) -> dict[str, str]:
    return {
        str(file.relative_to(path)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in path.rglob("*")
        if file.is_file()
    }


def test_a_new_job_of_a_model_with_weights_goes_on_learning_where_they_stand(
    services: Services, finished: str, tmp_path: Path
) -> None:
    first_job = services.jobs.queries.show(finished)
    learnt_weights = torch.load(newest_checkpoint(services, first_job).path, weights_only=True)[
        "model"
    ]
    torch.save(learnt_weights, tmp_path / "learnt.pt")
    services.library.add_weights("tiny", tmp_path / "learnt.pt")

    still_optimizer = {"name": "sgd", "lr": 1e-30}
    second_job = services.jobs.create(
        raw_job(1, epochs=1, batch_size=16, optimizer=still_optimizer, **ALONE)
    )
    services.jobs.lifecycle.start(second_job.id)
    assert services.jobs.queries.wait(second_job.id).state is JobState.FINISHED
    weights = torch.load(newest_checkpoint(services, second_job).path, weights_only=True)["model"]
    assert all(torch.equal(weights[name], learnt_weights[name]) for name in learnt_weights)
    first_losses, second_losses = (
        services.jobs.queries.history(job.id).metrics["loss"] for job in (first_job, second_job)
    )
    assert second_losses[0] < 0.7 * first_losses[0]


def test_m01_a_job_keeps_the_version_it_was_made_with(services: Services, tmp_path: Path) -> None:
    view = services.jobs.create(raw_job(1, epochs=1, **ALONE))
    second_model = tmp_path / "sources" / "model"
    (second_model / "bks_model.py").write_text(MODEL.replace("Linear(4, 2)", "Linear(4, 3)"))
    assert services.library.import_item(Kind.MODEL, second_model, "tiny").version == 2
    services.jobs.lifecycle.start(view.id)
    view = services.jobs.queries.wait(view.id)
    assert view.state is JobState.FINISHED
    assert view.pins["model"].version == 1
    weights = torch.load(newest_checkpoint(services, view).path, weights_only=True)["model"]
    assert weights["layer.weight"].shape == (2, 4)
    assert services.jobs.clone(view.id)["model"] == "tiny@1"
    source = services.library.content(Kind.MODEL, "tiny@1") / "bks_model.py"
    source.write_text(MODEL + "# changed\n")
    with pytest.raises(BackendError, match="tiny"):
        services.jobs.lifecycle.start(view.id, start_over=True)
    assert services.jobs.queries.show(view.id).run == 1


def test_s05_a_clone_with_another_rate_is_another_job(services: Services) -> None:
    first_job = services.jobs.create(raw_job(notes="why", tags=["a"], seed=7))
    raw = services.jobs.clone(first_job.id)
    raw["optimizer"]["lr"] = 0.01
    second_job = services.jobs.create(raw)
    assert second_job.id != first_job.id
    assert second_job.name == "tiny (copy)"
    assert services.jobs.clone(first_job.id)["name"] == "tiny (copy 2)"
    assert services.jobs.clone(second_job.id)["name"] == "tiny (copy 2)"
    third_job = services.jobs.create({**raw, "name": f"{'ä' * 120} (copy) (copy)"})
    fourth_job = services.jobs.create({**raw, "name": services.jobs.clone(third_job.id)["name"]})
    assert fourth_job.name == f"{'ä' * 120} (copy)"
    fifth_job = services.jobs.create({**raw, "name": "ä" * 127})
    assert services.jobs.clone(fifth_job.id)["name"] == f"{'ä' * 124} (copy)"
    assert (second_job.config.optimizer.lr, second_job.config.seed) == (0.01, 7)
    assert (second_job.notes, second_job.tags) == ("why", ("a",))
    assert dict(second_job.pins) == dict(first_job.pins)


def test_f22_a_stop_while_starting_ends_the_run_once(
    services: Services, open_desktop: Callable[[], Services]
) -> None:
    view = services.jobs.create(raw_job(**ENDLESS))
    assert services.jobs.lifecycle.stop(view.id).state is JobState.CREATED
    assert not folder(services, view).stop_request.exists()
    services.jobs.lifecycle.start(view.id)
    other_services = open_desktop()
    with ThreadPoolExecutor(4) as pool:
        requests = [
            pool.submit(s.jobs.lifecycle.stop, view.id)
            for s in (services, other_services, services, other_services)
        ]
    assert {request.result().state for request in requests} <= {
        JobState.STOPPING,
        JobState.INTERRUPTED,
    }
    view = services.jobs.queries.wait(view.id)
    assert (view.state, view.run) == (JobState.INTERRUPTED, 1), view
    assert services.jobs.lifecycle.stop(view.id).state is JobState.INTERRUPTED
    assert leftovers(view) == []


def test_f22_a_stop_while_saving_and_twice_is_one_stop(
    services: Services, open_desktop: Callable[[], Services]
) -> None:
    checkpoint_settings = {"every_steps": 1, "keep_latest": 2, "keep_best": 0}
    view = services.jobs.create(raw_job(1, checkpoint=checkpoint_settings, epochs=100_000, **ALONE))
    services.jobs.lifecycle.start(view.id)
    services.jobs.queries.wait(
        view.id, is_finished=lambda v: v.state is JobState.SAVING or not v.state.is_live
    )
    open_desktop().jobs.lifecycle.stop(view.id)
    services.jobs.lifecycle.stop(view.id)
    view = services.jobs.queries.wait(view.id)
    assert view.state is JobState.INTERRUPTED, view
    verify(MOUNTED, newest_checkpoint(services, view))


def test_f23_two_desktops_that_start_at_once_start_one_run(
    services: Services, open_desktop: Callable[[], Services], tmp_path: Path
) -> None:
    # It is not over before the last desktop has requested its start.
    gate_file = tmp_path / "go"
    pausing = {"PAUSE_S": "1", "PAUSED_UNTIL": str(gate_file)}
    view = services.jobs.create(raw_job(1, epochs=1, environment=pausing, **ALONE))
    desktops = [services, *(open_desktop() for _ in range(3))]
    barrier = threading.Barrier(len(desktops))

    def start(desktop: Services) -> JobView:
        barrier.wait()
        return desktop.jobs.lifecycle.start(view.id)

    with ThreadPoolExecutor(len(desktops)) as pool:
        views = [future.result() for future in [pool.submit(start, d) for d in desktops]]
    assert {v.run for v in views} == {1}
    assert services.jobs.lifecycle.start(view.id).run == 1
    gate_file.touch()
    view = services.jobs.queries.wait(view.id)
    assert (view.state, view.run) == (JobState.FINISHED, 1)
    log = services.jobs.queries.log(view.id, 0).text
    assert log.count("run 1, rank 0") == 1


def test_f29_f30_f31_a_spoiled_checkpoint_is_refused_and_the_one_before_offered(
    services: Services, finished: str, tmp_path: Path
) -> None:
    *_, older_checkpoint, last_checkpoint = services.jobs.queries.checkpoints(finished)
    path, content = Path(last_checkpoint.path), Path(last_checkpoint.path).read_bytes()
    bomb = f"cos\nsystem\n(S'touch {tmp_path / 'burst'}'\ntR.".encode()
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 1
    for spoiled_content, reason in (
        (content[:-100], "cut or replaced"),
        (bytes(flipped), "is damaged"),
        (bomb, "cut or replaced"),
        (bomb.ljust(len(content), b" "), "is damaged"),
    ):
        path.write_bytes(spoiled_content)
        with pytest.raises(BackendError, match=reason) as refusal:
            services.jobs.lifecycle.resume(finished, last_checkpoint.name)
        assert older_checkpoint.name in refusal.value.remedy
    # A bomb that brings a record of its own is not loaded either.
    path.write_bytes(bomb)
    sidecar = path.with_suffix(".json")
    forged_record = {**read_json(sidecar), "bytes": len(bomb)}
    replace_json(sidecar, {**forged_record, "sha256": hashlib.sha256(bomb).hexdigest()})
    services.jobs.lifecycle.resume(finished, last_checkpoint.name)
    assert services.jobs.queries.wait(finished).state is JobState.ERROR
    assert not (tmp_path / "burst").exists()
    services.jobs.lifecycle.resume(finished, older_checkpoint.name)
    assert services.jobs.queries.wait(finished).state is JobState.FINISHED


def test_f42_a_deleted_catalogue_is_rebuilt_from_the_files(
    services: Services, finished: str, open_desktop: Callable[[], Services]
) -> None:
    second_job = services.jobs.create(raw_job(name="draft"))
    services.jobs.annotate(second_job.id, notes="later", tags=("x",))
    other_services = open_desktop()
    other_services.library.rescan()
    for kind in Kind:
        assert other_services.library.list(kind) == services.library.list(kind)
    documents = [
        [v.to_json() for v in desktop.jobs.queries.list()] for desktop in (services, other_services)
    ]
    assert documents[0] == documents[1]
    assert [view.state for view in other_services.jobs.queries.list()] == [
        JobState.CREATED,
        JobState.FINISHED,
    ]


HARD = "a 'b' \"c\"; $(touch oops) `id` 😀 日本\t-- ..\\n"
LINES = "first line\nsecond $HOME\r\n'\""


@pytest.mark.slow
def test_f54_hard_names_and_variables_live_through_everything(
    services: Services, tmp_path: Path
) -> None:
    loader = tmp_path / "sources" / "loader"
    speaking = "import os\nprint(ascii(os.environ['X']), ascii(os.environ['Y']))\n" + LOADER
    (loader / "bks_dataset.py").write_text(speaking)
    services.library.import_item(Kind.LOADER, loader, "ünï cödé $(x); 'q'")
    name = HARD.replace("\t", " ").replace("\\n", "")
    raw = raw_job(
        1,
        name=name,
        epochs=1,
        loader="ünï cödé $(x); 'q'",
        environment={"X": HARD, "Y": LINES},
        tags=[HARD],
        notes=LINES,
        **ALONE,
    )
    view = services.jobs.create(raw)
    services.jobs.lifecycle.start(view.id)
    view = services.jobs.queries.wait(view.id)
    assert view.state is JobState.FINISHED, view
    assert services.jobs.queries.find(name) == view.id
    assert f"{HARD!a} {LINES!a}" in services.jobs.queries.log(view.id, 0).text
    changed_view = services.jobs.annotate(view.id, name=name[::-1])
    assert (changed_view.name, changed_view.notes, changed_view.tags) == (
        name[::-1],
        LINES,
        (HARD,),
    )
    copy = services.jobs.create(services.jobs.clone(view.id))
    assert copy.config.environment == {"X": HARD, "Y": LINES}
    output = tmp_path / "exported '$(x)' 😀.zip"
    services.jobs.export(view.id, "latest", "zip", output)
    assert output.stat().st_size > 0
    services.jobs.remove(view.id)
    assert [job.id for job in services.jobs.queries.list()] == [copy.id]
    assert not list(tmp_path.rglob("oops"))


@pytest.mark.parametrize("name", ["", " ", "two\nlines", "a\0b", "\x1b[2J", "ü" * 128])
def test_f54_a_name_that_cannot_be_is_refused_in_words(services: Services, name: str) -> None:
    with pytest.raises(BackendError, match="name"):
        services.jobs.create(raw_job(name=name))
    assert services.jobs.queries.list() == ()


def test_f28_f40_a_catalogue_that_cannot_be_written_keeps_no_job_from_stopping(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = services.jobs.create(raw_job(1, **ENDLESS, **ALONE))

    def refuse_changes(view: JobView) -> None:
        raise BackendError("The catalogue is locked by another program.")

    monkeypatch.setattr(services.catalogue, "put_job", refuse_changes)
    view = services.jobs.lifecycle.start(view.id)
    assert view.state.is_live
    assert "locked" in view.contact_warning
    assert stopped(services, view.id).state is JobState.INTERRUPTED
    monkeypatch.undo()
    assert services.jobs.queries.show(view.id).contact_warning == ""
    (catalogued_job,) = services.catalogue.jobs(view.id)
    assert catalogued_job == services.jobs.queries.list()[0]


def test_removing_a_job_moves_it_to_the_trash_and_not_while_it_lives(services: Services) -> None:
    view = services.jobs.create(raw_job(1, **ENDLESS, **ALONE))
    services.jobs.lifecycle.start(view.id)
    with pytest.raises(BackendError, match=r"is (starting|training|evaluating)") as refusal:
        services.jobs.remove(view.id)
    assert refusal.value.remedy == "Stop it first."
    services.jobs.lifecycle.stop(view.id)
    services.jobs.queries.wait(view.id)
    services.jobs.remove(view.id)
    assert services.jobs.queries.list() == ()
    assert (services.data_root.trash / "jobs" / view.id / "config.toml").exists()


def test_a_job_is_found_by_id_by_its_beginning_and_by_name(services: Services) -> None:
    first_job: Any = services.jobs.create(raw_job(name="first"))
    second_job = services.jobs.create(raw_job(name="second"))
    assert services.jobs.queries.find(first_job.id) == first_job.id
    assert services.jobs.queries.find(first_job.id[:12]) == first_job.id
    assert services.jobs.queries.find("second") == second_job.id
    for text in ("", "nothing", "../..", first_job.id[:5]):
        with pytest.raises(BackendError):
            services.jobs.queries.find(text)
