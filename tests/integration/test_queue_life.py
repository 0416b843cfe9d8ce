"""Queued jobs start by themselves: real files, a real keeper, real mpirun, and no desktop."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from math import nextafter
from pathlib import Path
from typing import Any

import pytest

from backend.base.errors import BackendError
from backend.base.progress import Progress
from backend.datastore.queue import files as queue_files
from backend.node.queue.keeper import lock_of
from backend.node.system import process_cleanup, process_identity
from backend.records.base.account import user_name
from backend.records.base.atomic_files import read_json
from backend.records.base.layout import DataRoot, run_tag
from backend.records.base.timestamps import stamp
from backend.records.jobs.launch import Launch
from backend.records.jobs.state import JobState
from backend.records.jobs.status import ProcessIdentity
from backend.records.jobs.view import JobView
from backend.records.library.item import Kind
from backend.records.queue.entry import Cause, QueueEntry
from backend.services.context.container import Services
from backend.services.preflight.service import PreflightFailed
from tests.integration.conftest import is_training
from tests.integration.test_cli import Cli
from tests.integration.tiny import ALONE, ENDLESS, raw_job
from tests.waiting import wait_for

MAIN = Path(__file__).parents[2] / "main.py"
CORES = os.cpu_count() or 1
HALF_CORES = max(1, CORES // 2)


def keeper(root: DataRoot) -> ProcessIdentity | None:
    return lock_of(root).holder()


@pytest.fixture
def queue(services: Services) -> Iterator[Services]:
    yield services
    keeper_process = keeper(services.data_root)
    if keeper_process is not None:
        process_identity.send_signal(keeper_process, signal.SIGKILL)
        wait_for(lambda: not process_identity.is_alive(keeper_process))
    lock_of(services.data_root).path.unlink(missing_ok=True)


@pytest.fixture
def command(services: Services, tmp_path: Path) -> Callable[..., Any]:
    """A subcommand in a process of its own; what it printed as JSON."""

    common_args = ["--data-root", str(services.data_root.path)]
    common_args += ["--catalogue", str(tmp_path / "another" / "catalogue.sqlite")]

    def call(*args: str) -> Any:
        completed = subprocess.run(
            [sys.executable, str(MAIN), *args, "--json", *common_args],
            capture_output=True,
            text=True,
            check=False,
        )
        assert completed.returncode == 0, completed.stdout + completed.stderr
        return json.loads(completed.stdout)

    (tmp_path / "another").mkdir()
    return call


@pytest.fixture
def cli(workplace: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Return the command line of another desktop."""
    return Cli(workplace, capsys)


def create_job(services: Services, name: str, **changes: Any) -> JobView:
    return services.jobs.create(raw_job(name=name, **changes))


def wait_reasons(services: Services) -> dict[str, tuple[Cause | None, str]]:
    return {
        queued_job.entry.name: (
            queued_job.wait_reason and queued_job.wait_reason.cause,
            queued_job.message,
        )
        for queued_job in services.queue.read().jobs
    }


@pytest.mark.slow
def test_s1_three_jobs_on_two_slots_run_by_priority_with_no_desktop_and_a_killed_keeper(
    queue: Services, tmp_path: Path, command: Callable[..., Any]
) -> None:
    root = queue.data_root
    queue.queue.pause()
    # However long a new keeper takes to come, the first one is still there to be beside.
    changes_by_name: dict[str, dict[str, Any]] = {
        "least": {"epochs": 1},
        "most": ENDLESS if CORES > 1 else {"epochs": 1},
        "middle": {"epochs": 1},
    }
    views = {
        name: create_job(
            queue, name, processes=HALF_CORES, **(_alone_if(HALF_CORES == 1) | changes)
        )
        for name, changes in changes_by_name.items()
    }
    for name, priority in (("least", 0), ("most", 5), ("middle", 1)):
        queue.queue.enqueue(views[name].id, priority)
    # What is imported later is another version: a queued job is made of what it was queued with.
    (tmp_path / "sources" / "model" / "bks_model.py").write_text("raise SystemExit('edited')")
    queue.library.import_item(Kind.MODEL, tmp_path / "sources" / "model", "tiny")
    assert [p.entry.name for p in queue.queue.read().jobs] == ["most", "middle", "least"]
    queue.close()

    queue_view = command("queue", "resume")
    assert queue_view["paused"] == ""
    folders = {name: root.job(view.id) for name, view in views.items()}
    wait_for(folders["most"].attempt(1).supervisor.exists, "the first to be started")
    first_keeper = keeper(root)
    assert first_keeper is not None
    process_identity.send_signal(first_keeper, signal.SIGKILL)
    wait_for(lambda: not process_identity.is_alive(first_keeper))
    assert not folders["least"].attempt(1).path.exists()
    command("queue", "list")
    if CORES > 1:
        wait_for(folders["middle"].attempt(1).supervisor.exists, "the second to be started")
        command("job", "stop", views["most"].id)

    exit_files = {name: folder.attempt(1).exit for name, folder in folders.items()}
    wait_for(
        lambda: all(exit_file.exists() for exit_file in exit_files.values()), "all runs to end"
    )
    states = {name: read_json(exit_file)["state"] for name, exit_file in exit_files.items()}
    expected_end = "INTERRUPTED" if CORES > 1 else "FINISHED"
    assert states == {"least": "FINISHED", "most": expected_end, "middle": "FINISHED"}
    started_ns = {
        name: folder.attempt(1).supervisor.stat().st_mtime_ns for name, folder in folders.items()
    }
    assert sorted(started_ns, key=lambda name: started_ns[name]) == ["most", "middle", "least"]
    first_end = min(folders[name].attempt(1).exit.stat().st_mtime_ns for name in ("most", "middle"))
    if CORES > 1:
        assert started_ns["middle"] < first_end < started_ns["least"]
    last_keeper = keeper(root)
    wait_for(
        lambda: last_keeper is None or not process_identity.is_alive(last_keeper),
        "the keeper to go home",
    )
    assert list(root.queue.iterdir()) == []


def test_s1_a_killed_keeper_is_replaced(queue: Services) -> None:
    tomorrow = datetime.now().astimezone() + timedelta(days=1)
    queue.queue.enqueue(create_job(queue, "later", processes=1, **ALONE).id, not_before=tomorrow)
    first_keeper = wait_for(lambda: keeper(queue.data_root), "a keeper")
    process_identity.send_signal(first_keeper, signal.SIGKILL)
    wait_for(lambda: not process_identity.is_alive(first_keeper), "its end")
    queue.queue.ensure_keeper()
    assert wait_for(lambda: keeper(queue.data_root), "another keeper") != first_keeper


def test_a_reservation_keeps_its_place_from_others_until_it_is_given_up(
    queue: Services, cli: Cli
) -> None:
    thesis, other, third = (
        create_job(queue, name, processes=1, **ALONE).id for name in ("thesis", "other", "third")
    )
    now = datetime.now().astimezone()
    tomorrow = f"{now + timedelta(days=1):%Y-%m-%d} 12:00"
    cli.json("job", "queue", thesis, "--not-before", tomorrow, "--hours", "2")
    queue.queue.enqueue(other)
    cause, message = wait_reasons(queue)["other"]
    assert cause is Cause.RESERVED
    assert message.startswith(f"This computer is reserved for “thesis” by {user_name()} from 12:00")
    (_, waiting) = queue.queue.read().jobs
    assert waiting.starts_in_s is not None
    begin = now + timedelta(hours=0.5)
    for reserve, job_id in ((queue.queue.enqueue, third), (queue.queue.change, other)):
        with pytest.raises(BackendError, match="this computer is reserved for “thesis”"):
            reserve(job_id, not_before=begin, length_s=48 * 3600.0)
    with pytest.raises(BackendError, match="up to 8784 hours, not 9000"):
        queue.queue.change(thesis, length_s=9000 * 3600.0)
    assert queue.jobs.queries.show(third).state is JobState.CREATED
    queue.queue.dequeue(thesis)
    queue.jobs.queries.wait(other, is_finished=lambda view: view.run == 1)


def test_what_becomes_of_a_reservation(queue: Services, cli: Cli) -> None:
    job_id = create_job(queue, "thesis", processes=1, **(ALONE | ENDLESS)).id
    now = datetime.now().astimezone()
    refusal = "The reserved time would be over already."
    with pytest.raises(BackendError, match=refusal):
        queue.queue.enqueue(job_id, not_before=now - timedelta(hours=3), length_s=7200.0)

    def reservation() -> tuple[str, float] | None:
        queued_job = queue.queue.read().find_job(job_id)
        return queued_job and (queued_job.entry.not_before, queued_job.entry.length_s)

    begin = now + timedelta(hours=1)
    queue.queue.enqueue(job_id, not_before=begin, length_s=7200.0)
    reserved_time = (stamp(begin, "seconds"), 7200.0)
    queue.queue.pause()
    assert reservation() == reserved_time, "a paused queue changes nothing"
    queue.queue.resume()
    with pytest.raises(BackendError, match=refusal):
        queue.queue.change(job_id, not_before=now - timedelta(hours=3))
    queue.queue.change(job_id, 5)
    assert reservation() == reserved_time, "another priority changes nothing"
    assert queue.jobs.audit_entries(job_id)[0].action == "Changed in the queue: priority 0 → 5"
    queue.queue.dequeue(job_id)
    queue.queue.enqueue(job_id, not_before=now + timedelta(hours=3))
    assert reservation() == (stamp(now + timedelta(hours=3), "seconds"), 0.0), "it was given up"
    queue.queue.change(job_id, not_before=now - timedelta(hours=1), length_s=7200.0)
    queue.jobs.queries.wait(job_id, is_finished=lambda view: bool(view.run) and is_training(view))
    launch = Launch.from_dict(read_json(queue.data_root.job(job_id).launch))
    expected_time = (stamp(now - timedelta(hours=1), "seconds"), 7200.0)
    assert (launch.reserved_from, launch.reserved_s) == expected_time, "for a next run"
    queue.jobs.lifecycle.stop(job_id)
    queue.jobs.queries.wait(job_id)
    assert reservation() is None
    queue.queue.pause()
    queue.queue.enqueue(job_id)
    assert reservation() == ("", 0.0), "Stop gave it up"


def test_a_start_by_hand_into_a_reservation_is_warned_of_and_the_window_asks_first(
    queue: Services, cli: Cli
) -> None:
    thesis, other = (create_job(queue, name, processes=1, **ALONE).id for name in "ab")
    queue.queue.pause()
    begin = datetime.now().astimezone() + timedelta(hours=0.5)
    queue.queue.enqueue(thesis, not_before=begin, length_s=7200.0)
    warning = f"This computer is reserved for “a” by {user_name()} from {begin:%H:%M} to "
    progress = Progress()
    progress.can_ask = True
    for start in (
        partial(queue.jobs.lifecycle.start, other),
        partial(queue.jobs.create_and_start, raw_job(name="c", processes=1, **ALONE)),
    ):
        with pytest.raises(PreflightFailed, match=warning) as refusal:
            start(progress=progress)
        assert refusal.value.preflight.succeeded, "it can be started all the same"
    (finding,) = queue.preflight.run(queue.queries.show(other).config, other).warnings
    assert finding.message.startswith(warning)
    assert queue.preflight.run(queue.queries.show(thesis).config, thesis).warnings == ()
    code, _, notes = cli("job", "start", other)
    assert (code, f"Warning: {warning}" in notes) == (0, True)
    queue.jobs.queries.wait(other)


def test_s2_each_waiting_job_says_why_and_the_next_one_starts_when_the_way_is_free(
    queue: Services, cli: Cli
) -> None:
    running_job = create_job(queue, "resnet", processes=CORES, **(_alone_if(CORES == 1) | ENDLESS))
    queue.jobs.lifecycle.start(running_job.id)
    queue.jobs.queries.wait(running_job.id, is_finished=is_training)
    first_job, second_job, late_job = (
        create_job(queue, name, processes=1, **(ALONE | ENDLESS))
        for name in ("first", "second", "late")
    )
    assert queue.queue.enqueue(first_job.id, 1).number == 1
    queue.queue.enqueue(second_job.id)
    queue.queue.enqueue(late_job.id, not_before=datetime.now().astimezone() + timedelta(hours=3))
    reasons = wait_reasons(queue)
    assert reasons["first"][0] is Cause.BUSY
    assert reasons["first"][1].startswith("This computer is busy with “resnet”: 0 of")
    assert reasons["second"] == (
        Cause.TURN,
        "Waiting for “first”, which is before it in the queue on this computer.",
    )
    assert reasons["late"][0] is Cause.NOT_BEFORE
    assert queue.jobs.queries.show(first_job.id).state is JobState.QUEUED

    queue.queue.pause()
    assert {cause for cause, _ in wait_reasons(queue).values()} == {Cause.PAUSED}
    queue.jobs.lifecycle.stop(running_job.id)
    queue.jobs.queries.wait(running_job.id)
    assert queue.queue.dequeue(second_job.id).state is JobState.CREATED
    # The second poll of the keeper finds free GPUs, and the queue paused.
    assert queue.jobs.queries.show(first_job.id).state is JobState.QUEUED
    # The first may be started before the rest is listed.
    assert [job["name"] for job in cli.json("queue", "resume")["jobs"]][-1] == "late"
    started_view = queue.jobs.queries.wait(
        first_job.id, is_finished=lambda view: view.state is not JobState.QUEUED
    )
    assert started_view.run == 1
    wait_for(lambda: list(wait_reasons(queue)) == ["late"], "the queue to know that it left")
    queue.jobs.queries.wait(first_job.id, is_finished=is_training)
    queue.jobs.lifecycle.stop(first_job.id)
    assert queue.jobs.queries.wait(first_job.id).state is JobState.INTERRUPTED

    # What ran before goes on where it was; by hand, too, and then it waits no longer.
    queue.queue.pause()
    queued_view = cli.json("job", "queue", first_job.id, "--priority", "7", "--not-before", "+1h")
    assert (queued_view["place"], queued_view["priority"], queued_view["cause"]) == (1, 7, "paused")
    queue.jobs.lifecycle.resume(first_job.id)
    assert list(wait_reasons(queue)) == ["late"]
    queue.jobs.lifecycle.stop(first_job.id)
    assert queue.jobs.queries.wait(first_job.id).run == 2


def _alone_if(is_single: bool) -> dict[str, Any]:
    return ALONE if is_single else {}


def test_a_job_that_can_never_fit_is_refused_when_it_is_queued(queue: Services) -> None:
    view = create_job(queue, "large", processes=CORES)
    folder = queue.data_root.job(view.id)
    config = folder.config.read_text().replace(f"processes = {CORES}", f"processes = {CORES * 5}")
    folder.config.write_text(config)
    with pytest.raises(BackendError, match=f"enough for {CORES * 4} processes; the job asks for"):
        queue.queue.enqueue(view.id)
    assert queue.queue.read().jobs == ()
    assert queue.jobs.queries.show(view.id).state is JobState.CREATED


def test_a_queue_is_ordered_by_hand(queue: Services, cli: Cli) -> None:
    queue.queue.pause()
    ids = {name: create_job(queue, name, processes=1, **ALONE).id for name in "abc"}
    for job_id in ids.values():
        queue.queue.enqueue(job_id)

    def order() -> str:
        return "".join(queued_job.entry.name for queued_job in queue.queue.read().jobs)

    assert order() == "abc"
    assert cli.json("job", "reorder", ids["c"], "--before", ids["b"])["place"] == 2
    assert order() == "acb"
    assert cli.json("job", "reorder", ids["a"], "--after", "b")["place"] == 3
    assert order() == "cba"
    # Between two neighbours there is room only so often; then all get new places.
    for name, position in (("c", 1.0), ("b", nextafter(1.0, 2.0)), ("a", 5.0)):
        entry = QueueEntry.from_dict(read_json(queue.data_root.job(ids[name]).queued))
        queue_files.put(queue.data_root, replace(entry, position=position))
    queue.queue.reorder(ids["a"], before_id=ids["b"])
    assert order() == "cab"
    queue.queue.change(ids["b"], 9)
    assert order() == "bca"
    queued_job = queue.queue.reorder(ids["a"], before_id=ids["b"])
    assert (queued_job.number, queued_job.entry.priority) == (1, 9)
    assert queue.queue.to_top(ids["c"]).number == 1
    with pytest.raises(BackendError, match="between -100 and 100, not 101"):
        queue.queue.change(ids["c"], 101)
    with pytest.raises(BackendError, match="is not in the queue"):
        queue.queue.reorder(create_job(queue, "d", processes=1).id, before_id=ids["c"])


def test_parts_of_a_queued_job_cannot_be_removed_and_a_trashed_job_is_not_started(
    queue: Services,
) -> None:
    queue.queue.pause()
    view = create_job(queue, "waits", processes=1, **ALONE)
    queue.queue.enqueue(view.id)
    with pytest.raises(BackendError, match="which is queued"):
        queue.library.remove(Kind.MODEL, "tiny")
    queue.jobs.remove(view.id)
    assert queue.queue.read().jobs == ()
    assert not (queue.data_root.trash / "jobs" / view.id / "queued.json").exists()


@pytest.mark.parametrize("victim", ["rank", "supervisor"])
def test_a_job_on_this_computer_tries_again_after_a_process_was_killed(
    queue: Services, victim: str
) -> None:
    queries = queue.jobs.queries
    raw = raw_job(1, on_failure={"retries": 1}, checkpoint={"every_steps": 5}, **ALONE, **ENDLESS)
    view = queue.jobs.create_and_start(raw)
    queries.wait(view.id, is_finished=lambda v: is_training(v) and v.step > 10)
    ranks = (
        process
        for process in process_cleanup.tagged(run_tag(view.id, 1))
        if b"rank_bootstrap.py" in Path(f"/proc/{process.pid}/cmdline").read_bytes()
    )
    supervisor = queue.data_root.job(view.id).attempt(1).supervisor
    is_rank = victim == "rank"
    killed_process = next(ranks) if is_rank else ProcessIdentity.from_dict(read_json(supervisor))
    process_identity.send_signal(killed_process, signal.SIGKILL)
    if not is_rank:
        # Any desktop that polls its jobs does this.
        wait_for(lambda: queue.reaper.reap(view.id), "the end of the run")

    view = queries.wait(view.id, is_finished=lambda v: v.run == 2 and v.step > 15)

    assert view.state.is_live
    assert view.status.continuation is not None
    assert view.status.continuation.reason.endswith("Tries again on the same nodes, 1 of 1.")
    queue.jobs.lifecycle.stop(view.id)
    view = queries.wait(view.id)
    assert list(queries.history(view.id).steps) == list(range(1, view.step + 1))
