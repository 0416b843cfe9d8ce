"""A data root that the nodes see no more, or can no longer write to, while they train on it."""

from __future__ import annotations

import os
import re
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path, PurePosixPath

import pytest

from backend.datastore import run_state
from backend.datastore.checkpoint_files import verify
from backend.records.job_view import JobView
from backend.records.state import JobState
from tests.cluster.commands import wait_for
from tests.cluster.ready import ReadyCluster
from tests.cluster.runs import everyone_is_online, grows, of_runs, tells
from tests.cluster.seeding import read_only_over
from tests.integration.conftest import WORKING

pytest_plugins = ["tests.cluster.runs_fixtures"]

NODES = ("node1", "node2")
PATIENCE_S = 3.0
OUTAGE_S = 60.0
LIVE = (*WORKING, JobState.STOPPING)
NO_NEWS = re.compile(r"no news since \d\d:\d\d")
Taken = Callable[[ReadyCluster], AbstractContextManager[None]]


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
    """For whatever is opened from now on: the kernel leaves files that are being written alone."""
    with ExitStack() as stack:
        for node in NODES:
            stack.enter_context(read_only_over(ready, node, ready.cluster.data_root))
        yield


def written(ready: ReadyCluster, node: str) -> set[str]:
    """Names of the files of the data root that processes of runs there hold open for writing."""
    found = set()
    for name, process in of_runs(ready):
        if name != node:
            continue
        for one in Path(f"/proc/{process.host_pid}/fd").iterdir():
            with suppress(OSError):
                path, opened = os.readlink(one), one.lstat().st_mode
                if path.startswith(f"{ready.cluster.data_root}/") and opened & stat.S_IWUSR:
                    found.add(PurePosixPath(path).name)
    return found


@pytest.mark.timeout(400)
def test_f34_of_a_data_root_that_is_back_after_a_minute_a_run_loses_nothing(
    stocked: ReadyCluster, run: Callable[..., JobView]
) -> None:
    jobs = stocked.services.jobs
    view = run(*NODES, checkpoint={"every_steps": 10})
    wait_for(lambda: len(jobs.checkpoints(view.id)) > 1, "There were no two checkpoints", 90)
    with unmounted(stocked):
        end = time.monotonic() + OUTAGE_S
        update = jobs.look(view.id)
        while time.monotonic() < end:
            threading.Event().wait(0.5)
            update = jobs.look(view.id, update.cursor)
            assert update.view.state in LIVE
        assert NO_NEWS.fullmatch(update.view.doubt)
    view = grows(stocked, view.id, update.view.step + 20)
    assert view.state in LIVE
    # What it had to say about a checkpoint is over with the next one.
    tells(stocked, view.id, "")
    jobs.stop(view.id)
    view = jobs.wait(view.id)
    assert (view.state, view.error) == (JobState.INTERRUPTED, None)
    (newest,) = (one for one in jobs.checkpoints(view.id) if one.is_latest)
    verify(newest)
    assert newest.step == view.step
    assert list(jobs.history(view.id).steps) == list(range(1, view.step + 1))
    wait_for(lambda: not of_runs(stocked), "Something is left on a node", 10)


def test_f33_all_that_a_run_keeps_open_for_writing_are_its_logs(
    stocked: ReadyCluster, run: Callable[..., JobView]
) -> None:
    """So a bind mount that is read-only keeps from it all else that a read-only disk would."""
    view = run(*NODES, checkpoint={"every_steps": 10})
    kept = {node: written(stocked, node) for node in NODES}
    for _ in range(20):
        view = grows(stocked, view.id, view.step)
        for node in NODES:
            kept[node] &= written(stocked, node)
    assert "mpirun.log" in kept["node1"]
    for names in kept.values():
        assert all(name.endswith(".log") for name in names), names


@pytest.mark.timeout(400)
@pytest.mark.parametrize("taken", [unmounted, read_only])
def test_f32_f33_f34_without_its_data_root_a_run_goes_on_and_nobody_takes_it_for_failed(
    stocked: ReadyCluster,
    run: Callable[..., JobView],
    taken: Taken,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jobs = stocked.services.jobs
    view = run(*NODES, checkpoint={"every_steps": 10})
    wait_for(lambda: len(jobs.checkpoints(view.id)) > 1, "There were no two checkpoints", 90)
    # The desktop says sooner that it has no news; the run knows nothing of that time.
    monkeypatch.setattr(run_state, "DOUBT_AFTER_S", PATIENCE_S)
    update = jobs.look(view.id)
    with taken(stocked):
        while not update.view.doubt:
            update = jobs.look(view.id, update.cursor)
            assert update.view.state in LIVE
        assert NO_NEWS.fullmatch(update.view.doubt)
        silent_at = update.view.step
    view = grows(stocked, view.id, silent_at + 20)
    assert view.state in LIVE
    # What it had to say about a checkpoint is over with the next one.
    tells(stocked, view.id, "")

    with taken(stocked):
        # The wish is heeded when the data root is back, or its checkpoint is written then.
        jobs.stop(view.id)
        update = jobs.look(view.id)
        while not update.view.doubt:
            update = jobs.look(view.id, update.cursor)
            assert update.view.state is JobState.STOPPING
    view = jobs.wait(view.id)
    assert (view.state, view.error) == (JobState.INTERRUPTED, None)
    (newest,) = (one for one in jobs.checkpoints(view.id) if one.is_latest)
    verify(newest)
    assert newest.step == view.step
    assert list(jobs.history(view.id).steps) == list(range(1, view.step + 1))
    wait_for(lambda: not of_runs(stocked), "Something is left on a node", 10)
    wait_for(lambda: everyone_is_online(stocked), "A node is still missed", 20)
