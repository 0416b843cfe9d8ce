"""One batch on real ranks of this computer, in a folder that is gone afterwards."""

from __future__ import annotations

import pytest

from backend.base.errors import Cancelled
from backend.records.jobs.state import JobState
from backend.services.context.container import Services
from tests.integration.tiny import ALONE, raw_job


def list_leftovers(services: Services) -> list[str]:
    return [path.name for path in services.data_root.jobs.glob(".canary*")]


@pytest.mark.parametrize("strategy", ["allreduce", "downpour"])
def test_a_trial_makes_one_step_and_leaves_the_job_as_it_was(
    services: Services, strategy: str
) -> None:
    job = services.jobs.create(raw_job(strategy={"name": strategy}))
    states: list[JobState] = []
    trial = services.trial_runs.run(job.id, states.append)
    assert trial.succeeded, trial.message
    assert trial.message.startswith("2 ranks trained one batch together")
    assert states[-1] is JobState.FINISHED
    assert JobState.EVALUATING not in states
    assert services.jobs.queries.show(job.id).state is JobState.CREATED
    assert [view.id for view in services.jobs.queries.list()] == [job.id]
    assert list_leftovers(services) == []


def test_a_trial_that_fails_has_the_words_of_its_rank(services: Services) -> None:
    job = services.jobs.create(raw_job(1, environment={"PAUSE_S": "a while"}, **ALONE))
    trial = services.trial_runs.run(job.id)
    assert not trial.succeeded
    assert trial.message.startswith("Rank ")
    assert "a while" in trial.message
    assert "bks_dataset.py" in trial.traceback
    assert list_leftovers(services) == []


def test_a_trial_can_be_cancelled_and_sweeps_the_rest_of_a_killed_desktop(
    services: Services,
) -> None:
    job = services.jobs.create(raw_job())
    finished_canary, live_canary = (
        services.data_root.jobs / f".canary-{name}" for name in ("over", "live")
    )
    for folder in (finished_canary, live_canary):
        (folder / "attempts" / "1").mkdir(parents=True)
    (finished_canary / "attempts" / "1" / "exit.json").write_text("{}")
    with pytest.raises(Cancelled):
        services.trial_runs.run(job.id, is_cancelled=lambda: True)
    assert list_leftovers(services) == [live_canary.name]
