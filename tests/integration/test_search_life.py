"""A search runs by itself: real files, a real keeper that is killed, real training, no desktop."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator

import pytest

from backend.node.queue.keeper import lock_of
from backend.node.system import process_identity
from backend.records.base.atomic_files import stored_record
from backend.records.jobs.state import JobState
from backend.records.sweeps.search import Proposal, Search
from backend.records.sweeps.spec import Sweep
from backend.records.sweeps.values import parse_axis
from backend.services.context.container import Services
from tests.integration.test_queue_life import keeper, queue
from tests.integration.tiny import ALONE, raw_job
from tests.waiting import wait_for

__all__ = ["queue"]
AXES = (parse_axis("optimizer.lr", "1e-4..1:log"), parse_axis("optimizer.momentum", "0..0.9"))
TRIALS = 12
FINISHED = JobState.FINISHED


@pytest.fixture
def searching(queue: Services) -> Iterator[Services]:
    yield queue
    wait_for(lambda: keeper(queue.data_root) is None, "the keeper to go home")


def kill_keeper(services: Services) -> None:
    process = keeper(services.data_root)
    assert process is not None
    process_identity.send_signal(process, signal.SIGKILL)
    wait_for(lambda: not process_identity.is_alive(process), "the end of the keeper")
    assert lock_of(services.data_root).holder() is None


@pytest.mark.slow
def test_a_search_of_twelve_trials_survives_a_killed_keeper_and_finds_a_better_value(
    searching: Services, open_desktop: Callable[[], Services]
) -> None:
    base = raw_job(1, epochs=200, batch_size=32, **ALONE)
    search = Search("validation/loss", trials=TRIALS)
    queued = searching.sweeps.queue(Sweep(base, AXES, seed=3, search=search))
    ids = [view.id for view in queued.jobs]

    folders = [searching.data_root.job(view.id) for view in queued.jobs]

    def proposals() -> list[Proposal]:
        stored = (stored_record(Proposal, folder.proposal) for folder in folders)
        return [proposal for proposal in stored if proposal is not None]

    wait_for(lambda: len(proposals()) == TRIALS // 2, "half of the trials", 300)
    kill_keeper(searching)
    # Another desktop starts another keeper.
    open_desktop().queue.ensure_keeper()
    wait_for(lambda: sum(bool(p.state) for p in proposals()) == TRIALS, "all ends", 300)

    result = searching.sweeps.trials(queued.tag)
    assert result is not None
    trials = result.trials
    assert [trial.job for trial in trials] == ids, "each job is one trial, in its order"
    assert [trial.number for trial in trials] == [*range(1, TRIALS + 1)]
    ends = {trial.job: searching.queries.show(trial.job).state for trial in trials}
    # A busy computer may finish a trial before its stop; its verdict stays.
    assert {ends[trial.job] for trial in trials if trial.state == "complete"} == {FINISHED}
    stopped_trials = [trial for trial in trials if ends[trial.job] is JobState.INTERRUPTED]
    assert {trial.state for trial in stopped_trials} == {"pruned"}
    best = result.best
    assert best is not None
    assert best.value is not None
    first = trials[0].value
    assert first is not None
    assert best.value < first, "it is better than where the sampler began"
    assert set(searching.sweeps.importance(queued.tag)) == {axis.path for axis in AXES}

    pruned = stopped_trials[0]
    view = searching.queries.show(pruned.job)
    assert view.status.message.startswith("Stopped: above the median at epoch ")
    assert searching.queries.checkpoints(pruned.job), "it can be continued"
    searching.jobs.lifecycle.resume(pruned.job)
    assert searching.queries.wait(pruned.job).state is JobState.FINISHED
    assert searching.sweeps.trials(queued.tag) == result, "what a user continues is no trial"
