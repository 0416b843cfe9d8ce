"""A data root that the nodes see no more, or can no longer write to, while they train on it."""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path, PurePosixPath

import pytest

from backend.datastore.jobs import run_status
from backend.datastore.jobs.checkpoint_files import verify
from backend.records.jobs.state import JobState
from backend.records.jobs.view import JobView
from tests.cluster.node import Node, Process
from tests.cluster.ready import ReadyCluster
from tests.cluster.runs import (
    everyone_is_online,
    is_program,
    run_processes,
    wait_for_message,
    wait_for_no_processes,
    wait_for_step_after,
)
from tests.cluster.seeding import read_only_folder
from tests.fakes.mounted_root import MOUNTED
from tests.integration.conftest import WORKING
from tests.waiting import wait_for

pytestmark = pytest.mark.slow

pytest_plugins = ["tests.cluster.runs_fixtures"]

NODES = ("node1", "node2")
PATIENCE_S = 3.0
OUTAGE_S = 60.0
LIVE = (*WORKING, JobState.STOPPING)
STALE = re.compile(r"no news since \d\d:\d\d")
Outage = Callable[[ReadyCluster], AbstractContextManager[None]]


@contextmanager
def unmounted(ready: ReadyCluster) -> Iterator[None]:
    for node in NODES:
        ready[node].unmount_share()
    try:
        yield
    finally:
        for node in NODES:
            ready[node].mount_share()


@contextmanager
def read_only(ready: ReadyCluster) -> Iterator[None]:
    with ExitStack() as stack:
        for node in NODES:
            stack.enter_context(read_only_folder(ready, node, ready.cluster.data_root))
        yield


@contextmanager
def without_data_root(ready: ReadyCluster, outage: Outage) -> Iterator[None]:
    """Without the data root, for what the ranks have open there, too.

    The kernel leaves files that are being written alone, whatever becomes of their mount.
    """
    ranks = ranks_of(ready)
    assert ranks
    with outage(ready):
        try:
            for name, process in ranks:
                limit_file_size(ready[name], process, "0")
            yield
        finally:
            for name, process in ranks:
                limit_file_size(ready[name], process, "unlimited")


def limit_file_size(node: Node, process: Process, limit_bytes: str) -> None:
    """Limit the size of the files that a process writes; an ended process is left out."""
    completed = node.run(["prlimit", f"--pid={process.pid}", f"--fsize={limit_bytes}:"])
    assert not completed.returncode or process not in node.processes(), completed.stderr


def ranks_of(ready: ReadyCluster) -> list[tuple[str, Process]]:
    return [
        process_entry
        for process_entry in run_processes(ready)
        if is_program(process_entry[1], "rank_bootstrap.py")
    ]


def written_file_names(ready: ReadyCluster) -> set[str]:
    """Names of the files of the data root that runs hold open for writing, but for their ranks."""
    names = set()
    for _, process in set(run_processes(ready)) - set(ranks_of(ready)):
        for descriptor in Path(f"/proc/{process.host_pid}/fd").iterdir():
            with suppress(OSError):
                path, mode = os.readlink(descriptor), descriptor.lstat().st_mode
                if path.startswith(f"{ready.cluster.data_root}/") and mode & stat.S_IWUSR:
                    names.add(PurePosixPath(path).name)
    return names


def test_f34_a_run_loses_nothing_when_the_data_root_returns_after_a_minute(
    stocked: ReadyCluster, run: Callable[..., JobView]
) -> None:
    jobs = stocked.services.jobs
    view = run(*NODES, checkpoint={"every_steps": 10})
    wait_for(lambda: len(jobs.queries.checkpoints(view.id)) > 1, "two checkpoints")
    with without_data_root(stocked, unmounted):
        end = time.monotonic() + OUTAGE_S
        update = jobs.queries.poll(view.id)
        jobs.queries.wait(
            view.id, is_finished=lambda v: v.state not in LIVE or time.monotonic() > end
        )
        update = jobs.queries.poll(view.id, update.cursor)
        assert update.view.state in LIVE
        assert STALE.fullmatch(update.view.contact_warning)
    view = wait_for_step_after(stocked, view.id, update.view.step + 5)
    assert view.state in LIVE
    # What it had to say about a checkpoint is over with the next one.
    wait_for_message(stocked, view.id, "")
    jobs.lifecycle.stop(view.id)
    view = jobs.queries.wait(view.id)
    assert (view.state, view.error) == (JobState.INTERRUPTED, None)
    (newest,) = (
        checkpoint for checkpoint in jobs.queries.checkpoints(view.id) if checkpoint.is_latest
    )
    verify(MOUNTED, newest)
    assert newest.step == view.step
    assert list(jobs.queries.history(view.id).steps) == list(range(1, view.step + 1))
    wait_for_no_processes(stocked)


def test_the_share_that_a_node_loses_during_a_stop_is_named(
    stocked: ReadyCluster, run: Callable[..., JobView]
) -> None:
    jobs = stocked.services.jobs
    view = run(*NODES, checkpoint={"every_steps": 10})
    wait_for(lambda: len(jobs.queries.checkpoints(view.id)) > 1, "two checkpoints")
    stocked["node2"].unmount_share()
    try:
        jobs.lifecycle.stop(view.id)
        view = jobs.queries.wait(view.id)
    finally:
        stocked["node2"].mount_share()
    assert view.state is JobState.INTERRUPTED
    assert "node2 answers, but no longer sees the data root" in view.status.message
    assert "Saved at" in view.status.message
    wait_for_no_processes(stocked)


def test_f33_only_logs_are_open_for_writing_around_the_ranks(
    stocked: ReadyCluster, run: Callable[..., JobView]
) -> None:
    """So nothing but logs is left to a run `without` its data root."""
    view = run(*NODES, checkpoint={"every_steps": 10})
    open_names = written_file_names(stocked)
    for _ in range(20):
        view = wait_for_step_after(stocked, view.id, view.step)
        open_names &= written_file_names(stocked)
    assert "mpirun.log" in open_names
    assert all(name.endswith(".log") for name in open_names), open_names


@pytest.mark.parametrize("outage", [unmounted, read_only])
def test_f32_f33_f34_without_its_data_root_a_run_continues_and_is_not_shown_as_failed(
    stocked: ReadyCluster,
    run: Callable[..., JobView],
    outage: Outage,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jobs = stocked.services.jobs
    view = run(*NODES, checkpoint={"every_steps": 10})
    wait_for(lambda: len(jobs.queries.checkpoints(view.id)) > 1, "two checkpoints")
    # The desktop says sooner that the run is silent; the run knows nothing of that time.
    monkeypatch.setattr(run_status, "DOUBT_AFTER_S", PATIENCE_S)
    update = jobs.queries.poll(view.id)
    with without_data_root(stocked, outage):
        while not update.view.contact_warning:
            update = jobs.queries.poll(view.id, update.cursor)
            assert update.view.state in LIVE
        assert STALE.fullmatch(update.view.contact_warning)
        last_step = update.view.step
    view = wait_for_step_after(stocked, view.id, last_step + 5)
    assert view.state in LIVE
    # What it had to say about a checkpoint is over with the next one.
    wait_for_message(stocked, view.id, "")

    with without_data_root(stocked, outage):
        # The request is obeyed when the data root is back, or its checkpoint is written then.
        jobs.lifecycle.stop(view.id)
        update = jobs.queries.poll(view.id)
        while not update.view.contact_warning:
            update = jobs.queries.poll(view.id, update.cursor)
            assert update.view.state is JobState.STOPPING
    view = jobs.queries.wait(view.id)
    assert (view.state, view.error) == (JobState.INTERRUPTED, None)
    (newest,) = (
        checkpoint for checkpoint in jobs.queries.checkpoints(view.id) if checkpoint.is_latest
    )
    verify(MOUNTED, newest)
    assert newest.step == view.step
    assert list(jobs.queries.history(view.id).steps) == list(range(1, view.step + 1))
    wait_for_no_processes(stocked)
    wait_for(lambda: everyone_is_online(stocked), "every node to be online")
