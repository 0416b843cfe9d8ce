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


def settled(desktop: Services, job: JobView) -> RunUpdate:
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
    goes_on, ends = run("node1", "node2"), run("node3", strategy={"name": "alone"})
    previous_update, before_end = settled(desktop, goes_on), settled(desktop, ends)
    assert previous_update.view.state in WORKING
    assert (previous_update.view.contact_warning, before_end.view.contact_warning) == ("", "")
    wait_for(
        lambda: {node.presence for node in desktop.nodes.list()} == {Presence.ONLINE},
        "the desktop to see the nodes",
    )
    steps = list(previous_update.history.steps)

    for node in stocked.cluster.nodes.values():
        node.leave_the_desktop()
    monkeypatch.setattr(persistent_connection, "SILENCE_S", SILENCE_S)
    # Meanwhile one run ends, which another desktop asked it to.
    stocked.services.jobs.lifecycle.stop(ends.id)
    seen, seen_end = previous_update, before_end
    for _ in range(3):
        seen = desktop.jobs.queries.poll(goes_on.id, seen.cursor)
        seen_end = desktop.jobs.queries.poll(ends.id, seen_end.cursor)
        for now, last in ((seen.view, previous_update.view), (seen_end.view, before_end.view)):
            assert STALE.fullmatch(now.contact_warning)
            # How long it takes and how fast it is are known only from updates.
            assert replace(now, contact_warning="") == replace_fields(
                last, eta_s=None, samples_per_second=None
            )
        assert not len(seen.history.steps)
        clock.ahead_s += HOUR_S
    remote = [node for node in desktop.nodes.list() if node.entry is not None]
    assert all(STALE.fullmatch(node.message) for node in remote)
    with pytest.raises(BackendError, match="did not answer"):
        desktop.jobs.lifecycle.stop(goes_on.id)
    stocked.services.jobs.queries.wait(ends.id)

    for node in stocked.cluster.nodes.values():
        node.find_the_desktop()
    monkeypatch.setattr(persistent_connection, "SILENCE_S", LIMIT_S)

    def is_current() -> bool:
        nonlocal seen
        seen = desktop.jobs.queries.poll(goes_on.id, seen.cursor)
        # The history may be read before the status is: each part of it comes once.
        steps.extend(int(step) for step in seen.history.steps)
        return not seen.view.contact_warning

    wait_for(is_current, "an update of the job")
    truth = stocked.services.jobs.queries.show(goes_on.id)
    assert seen.view.state in WORKING
    assert previous_update.view.step < seen.view.step <= truth.step
    assert steps == list(range(1, len(steps) + 1))
    # What is written comes twice a second, status and history one after the other.
    assert len(steps) >= seen.view.step
    seen_end = desktop.jobs.queries.poll(ends.id, seen_end.cursor)
    assert (seen_end.view.state, seen_end.view.contact_warning) == (JobState.INTERRUPTED, "")
    desktop.jobs.lifecycle.stop(goes_on.id)
    assert desktop.jobs.queries.wait(goes_on.id).state is JobState.INTERRUPTED
