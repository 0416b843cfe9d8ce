"""Who comes second to start a job learns whether it runs as wanted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from backend.base.errors import BackendError
from backend.records.jobs.placement import Placement
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RunStatus
from backend.records.jobs.view import JobView
from backend.services.jobs.lifecycle import JobLifecycle
from tests.backend.training.training_rig import job, parsed

VIEW = JobView("j1", "test", parsed(job()), "", RunStatus(JobState.TRAINING, run=2))
OTHER_PLACEMENT = (Placement("gpu02", 1),)
MESSAGE = "The job j1 runs already: its nodes and settings were not changed."


def lifecycle() -> JobLifecycle:
    """Of a job that runs, and whose next run another desktop has claimed."""
    file = SimpleNamespace(id="j1", config=VIEW.config)
    known_settings: dict[str, Any] = {
        "queries": SimpleNamespace(show=lambda _id: VIEW),
        "reaper": SimpleNamespace(read_reaped=lambda _id: (None, file, VIEW)),
        "starter": SimpleNamespace(start=lambda *_, **__: False),
        **dict.fromkeys(("validator", "preflight", "sizes", "launchers")),
    }
    return JobLifecycle(**known_settings)


@pytest.mark.parametrize(
    ("placement", "changes", "is_refused"),
    [
        ((), {}, False),
        ((), {"gives_way": True}, True),
        ((), {"gives_way": False}, True),
        ((), {"quiet_minutes": 1.0}, True),
        (OTHER_PLACEMENT, {}, True),
        (OTHER_PLACEMENT, {"gives_way": True}, True),
    ],
)
def test_the_second_of_two_desktops_learns_that_its_changes_were_not_made(
    placement: tuple[Placement, ...], changes: dict[str, Any], is_refused: bool
) -> None:
    second = lifecycle()
    file: Any = SimpleNamespace(id="j1", config=VIEW.config)
    folder: Any = None
    calls = [
        lambda: second.resume("j1", placement=placement, changes=changes),
        lambda: second.run(folder, file, 2, bool(placement or changes)),
    ]
    if not changes:
        calls.append(lambda: second.start("j1", placement=placement))
    for call in calls:
        if is_refused:
            with pytest.raises(BackendError) as caught:
                call()
            assert caught.value.message == MESSAGE
        else:
            assert call() is VIEW


def test_a_live_job_is_not_started_over_and_says_so() -> None:
    with pytest.raises(BackendError, match="runs already and was not started over"):
        lifecycle().start("j1", start_over=True)
