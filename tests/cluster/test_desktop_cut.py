"""A desktop that has lost its network, with a remote data root: it knows nothing new, and says so;
what it does not know changes no state."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from backend.base.errors import BackendError
from backend.datastore.jobs import run_status
from backend.records.jobs.state import JobState
from backend.records.jobs.view import JobView, RunUpdate
from backend.records.nodes.reading import Presence
from backend.services.context.container import Services
from backend.services.jobs import queries
from backend.ssh import persistent_connection
from tests.cluster.ready import ReadyCluster
from tests.cluster.remote_desktop import remote_desktop
from tests.integration.conftest import WORKING
from tests.job_views import replace_fields
from tests.waiting import LIMIT_S, wait_for

pytest_plugins = ["tests.cluster.runs_fixtures"]

HOUR_S = 3600.0
SILENCE_S = 1.0
"""A connection to a host that is cut off is given up then."""
STALE = re.compile(r"no news since \d\d:\d\d")


class Clock:
    """This computer's own, but that an hour can be let go by."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """By which a desktop measures how long a run has been silent."""
    clock = Clock()
    reader = partial(run_status.RunStateReader, monotonic=clock)
    monkeypatch.setattr(queries, "RunStateReader", reader)
    return clock


@pytest.fixture
def desktop(stocked: ReadyCluster, clock: Clock, tmp_path: Path) -> Iterator[Services]:
    with remote_desktop(stocked.cluster, tmp_path / "remote") as services:
        yield services


def settled_update(desktop: Services, job: JobView) -> RunUpdate:
    """Poll until the status is as new as the history, which is read after it.

    Without an update, the last step in the history counts.
    """

    def poll() -> RunUpdate | None:
        update = desktop.jobs.queries.poll(job.id)
        steps = update.history.steps
        return update if len(steps) and update.view.step >= steps[-1] else None

    update = wait_for(poll, "a status that is as new as the history")
    assert update is not None
    return update


@pytest.mark.usefixtures("soon_missed")
def test_f09_a_cut_desktop_shows_no_wrong_state_and_catches_up_in_one_poll(
    stocked: ReadyCluster,
    run: Callable[..., JobView],
    desktop: Services,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    continuing_job, ending_job = run("node1", "node2"), run("node3", strategy={"name": "alone"})
    previous_update = settled_update(desktop, continuing_job)
    previous_end_update = settled_update(desktop, ending_job)
    assert previous_update.view.state in WORKING
    assert previous_update.view.contact_warning == ""
    assert previous_end_update.view.contact_warning == ""
    wait_for(
        lambda: {node.presence for node in desktop.nodes.list()} == {Presence.ONLINE},
        "the desktop to see the nodes",
    )
    steps = list(previous_update.history.steps)

    for node in stocked.cluster.nodes.values():
        node.block_desktop()
    monkeypatch.setattr(persistent_connection, "SILENCE_S", SILENCE_S)
    # Meanwhile one run ends, which another desktop asked it to.
    stocked.services.jobs.lifecycle.stop(ending_job.id)
    update, end_update = previous_update, previous_end_update
    for _ in range(3):
        update = desktop.jobs.queries.poll(continuing_job.id, update.cursor)
        end_update = desktop.jobs.queries.poll(ending_job.id, end_update.cursor)
        for view, previous_view in (
            (update.view, previous_update.view),
            (end_update.view, previous_end_update.view),
        ):
            assert STALE.fullmatch(view.contact_warning)
            # How long it takes and how fast it is are known only from updates.
            assert replace(view, contact_warning="") == replace_fields(
                previous_view, eta_s=None, samples_per_second=None
            )
        assert not len(update.history.steps)
        clock.ahead_s += HOUR_S
    remote_nodes = [node for node in desktop.nodes.list() if node.entry is not None]
    assert all(STALE.fullmatch(node.message) for node in remote_nodes)
    with pytest.raises(BackendError, match="did not answer"):
        desktop.jobs.lifecycle.stop(continuing_job.id)
    stocked.services.jobs.queries.wait(ending_job.id)

    for node in stocked.cluster.nodes.values():
        node.unblock_desktop()
    monkeypatch.setattr(persistent_connection, "SILENCE_S", LIMIT_S)

    def is_current() -> bool:
        nonlocal update
        update = desktop.jobs.queries.poll(continuing_job.id, update.cursor)
        # The history may be read before the status is: each part of it comes once.
        steps.extend(int(step) for step in update.history.steps)
        return not update.view.contact_warning

    wait_for(is_current, "an update of the job")
    true_view = stocked.services.jobs.queries.show(continuing_job.id)
    assert update.view.state in WORKING
    assert previous_update.view.step < update.view.step <= true_view.step
    assert steps == list(range(1, len(steps) + 1))
    # What is written comes twice a second, status and history one after the other.
    assert len(steps) >= update.view.step
    end_update = desktop.jobs.queries.poll(ending_job.id, end_update.cursor)
    assert (end_update.view.state, end_update.view.contact_warning) == (JobState.INTERRUPTED, "")
    desktop.jobs.lifecycle.stop(continuing_job.id)
    assert desktop.jobs.queries.wait(continuing_job.id).state is JobState.INTERRUPTED
