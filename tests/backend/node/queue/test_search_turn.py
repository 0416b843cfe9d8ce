"""The turns of a search: what is proposed, given up and reported, with the journal of Optuna."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from backend.base.errors import BackendError
from backend.node.queue.entries import entry_of
from backend.node.queue.search_turn import SearchTurn, _open_study
from backend.node.run.run_start import claim
from backend.records.base.atomic_files import read_json, replace_json
from backend.records.base.layout import JobFolder, SearchFolder
from backend.records.base.local_files import Files
from backend.records.jobs.history import Block, encode
from backend.records.jobs.launch import Launch
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RankError, RunExit
from backend.records.jobs.stop_request import stop_reason, stop_requested
from backend.records.library.item import Kind
from backend.records.sweeps.search import (
    COMPLETE,
    PRUNED,
    Proposal,
    Search,
    SearchProgress,
    SearchResult,
)
from backend.records.sweeps.spec import Sweep, sweep_name
from backend.records.sweeps.values import Axis, parse_axis
from backend.services.context.container import Services, open_services
from backend.services.queue.service import QueueService
from backend.services.tools import tool_process
from backend.services.tools.tool_process import ToolError
from tests.integration.tiny import raw_job, write_sources

GOAL = "validation/accuracy"
RATE = parse_axis("optimizer.lr", "1e-4..1:log")
BATCH = Axis("batch_size", (8, 16, 32))
pytestmark = pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")


@pytest.fixture
def services(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Services]:
    def measure(*_: object, **__: object) -> None:
        raise ToolError("not now")

    monkeypatch.setattr(tool_process, "count_samples", measure)
    monkeypatch.setattr(QueueService, "ensure_keeper", lambda self: None)
    (tmp_path / "root").mkdir()
    container = open_services(tmp_path / "root", tmp_path / "c.sqlite")
    sources = write_sources(tmp_path / "sources")
    for kind, source in zip((Kind.MODEL, Kind.LOADER, Kind.DATASET), sources, strict=True):
        container.library.import_item(kind, source, "tiny")
    yield container
    container.close()


class Played:
    """A search whose trials report what ``curve`` returns for their values."""

    def __init__(
        self,
        services: Services,
        curve: Callable[[dict[str, Any]], Sequence[float]],
        *axes: Axis,
        seed: int = 1,
        epochs: int = 6,
        **search: Any,
    ) -> None:
        self.curve, self.services = curve, services
        sweep = Sweep(raw_job(1, epochs=epochs), axes, seed=seed, search=Search(GOAL, **search))
        queued_sweep = services.sweeps.queue(sweep)
        root = services.data_root
        self.folders = [root.job(view.id) for view in queued_sweep.jobs]
        self.folder = SearchFolder(root.search(sweep_name(queued_sweep.tag)).path)

    def turn(self, *waiting: JobFolder) -> None:
        SearchTurn(self.folder).run([folder.job_id for folder in waiting])

    def propose(self, folder: JobFolder) -> dict[str, Any]:
        self.turn(folder)
        return dict(proposal(folder).values)

    def begin(self, folder: JobFolder) -> None:
        """Do what the starter does."""
        assert claim(folder, 1, Files())
        replace_json(folder.launch, read_json(folder.queued_launch))
        folder.queued.unlink()

    def report(self, folder: JobFolder, values: Sequence[float], metric: str = GOAL) -> None:
        with folder.history.open("ab") as file:
            for epoch, value in enumerate(values, 1):
                metrics = {"loss": [1.0, 1.0], metric: [math.nan, value]}
                file.write(encode(Block("TRAINING", 1, epoch, 2, 2 * epoch - 1, "t", metrics)))

    def end(self, folder: JobFolder, state: JobState = JobState.FINISHED, **exit_: Any) -> None:
        exit_record = RunExit(1, state, exit_.pop("message", ""), **exit_)
        replace_json(folder.attempt(1).exit, exit_record.to_dict())

    def play(self) -> list[Proposal]:
        """Run all trials one after the other; return their proposals."""
        for folder in self.folders:
            values = self.propose(folder)
            self.begin(folder)
            self.report(folder, self.curve(values))
            self.turn()
            is_stopped = stop_requested(folder.stop_request, 1)
            self.end(folder, JobState.INTERRUPTED if is_stopped else JobState.FINISHED)
            self.turn()
        return [proposal(folder) for folder in self.folders]


def proposal(folder: JobFolder) -> Proposal:
    return Proposal.from_dict(read_json(folder.proposal))


def peak(values: dict[str, Any]) -> list[float]:
    """Be best at a rate of 0.03 and a batch of 16, and better with each epoch."""
    distance = abs(math.log10(values["optimizer.lr"] / 0.03)) + (values["batch_size"] != 16)
    return [(1 - distance / 6) * (0.7 + epoch / 20) for epoch in range(6)]


@pytest.mark.parametrize(
    # The first ten trials of TPE are random; the values of a grid do not depend on results.
    ("sampler", "trials"),
    [("tpe", 14), ("cma-es", 14), ("random", 5), ("grid", 5)],
)
def test_the_same_seed_proposes_the_same_trials_and_another_seed_others(
    services: Services, sampler: str, trials: int
) -> None:
    rate = parse_axis("optimizer.lr", "1e-4..1:5:log") if sampler == "grid" else RATE

    def values(seed: int, trials: int) -> list[Any]:
        played = Played(services, peak, rate, BATCH, seed=seed, sampler=sampler, trials=trials)
        return [(trial.values, trial.state, trial.reason) for trial in played.play()]

    first, again = values(1, trials), values(1, trials)
    assert first == again
    assert first[:3] != values(2, 3)
    assert len({str(trial[0]) for trial in first}) == trials, "no two trials are equal"


@pytest.mark.parametrize("pruner", ["median", "halving", "hyperband", "never"])
def test_a_trial_that_is_given_up_is_stopped_with_the_reason_on_the_job(
    services: Services, pruner: str
) -> None:
    played = Played(services, peak, RATE, BATCH, pruner=pruner, trials=16)
    states = [trial.state for trial in played.play()]
    pruned = [played.folders[n] for n, state in enumerate(states) if state == "pruned"]
    assert bool(pruned) is (pruner != "never")
    for folder in pruned:
        reason = proposal(folder).reason
        expected = "below the median at epoch" if pruner == "median" else "not among the best at"
        assert reason.startswith(expected)
        assert stop_reason(folder.stop_request) == reason


def test_values_are_in_the_launch_the_job_and_its_actions_before_it_starts(
    services: Services,
) -> None:
    played = Played(services, peak, RATE, BATCH, trials=2)
    folder = played.folders[0]
    assert services.queries.show(folder.job_id).config.optimizer.lr == 0.05, "the base has it"
    values = played.propose(folder)
    view = services.queries.show(folder.job_id)
    launch = Launch.from_dict(read_json(folder.queued_launch))
    assert launch.config == view.config
    assert values == {
        "optimizer.lr": view.config.optimizer.lr,
        "batch_size": view.config.batch_size,
    }
    assert (
        "Proposed as trial 1: Learning rate"
        in services.jobs.audit_entries(folder.job_id)[0].message
    )
    assert services.jobs.clone(folder.job_id)["optimizer"]["lr"] == values["optimizer.lr"]


@pytest.mark.parametrize("progress", ["asked", "named", "half", "proposed"])
def test_a_turn_that_was_killed_loses_and_doubles_no_trial(
    services: Services, monkeypatch: pytest.MonkeyPatch, progress: str
) -> None:
    undisturbed = Played(services, peak, RATE, BATCH, trials=3).play()
    played = Played(services, peak, RATE, BATCH, trials=3)
    killed_at = {
        "asked": "optuna.trial.Trial.set_user_attr",
        "named": "optuna.trial.Trial.suggest_float",
        "half": "optuna.trial.Trial.suggest_categorical",
        "proposed": "backend.node.queue.search_turn.add_entry",
    }

    def kill(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(killed_at[progress], kill)
        with pytest.raises(KeyboardInterrupt):
            played.turn(played.folders[0])
    trials = played.play()
    assert [t.number for t in trials] == [1, 2, 3]
    assert [t.values for t in trials] == [t.values for t in undisturbed]


def test_the_sampler_learns_an_end_of_each_kind(services: Services) -> None:
    played = Played(services, peak, RATE, BATCH, trials=6)
    good, failed, stopped, nan, removed, dequeued = played.folders
    for folder in played.folders:
        played.propose(folder)
    for folder in (good, failed, stopped, nan):
        played.begin(folder)
    played.report(good, [0.5, 0.9, 0.8])
    played.end(good)
    played.end(failed, JobState.ERROR, message="gpu01 was lost.", error=RankError("lost"))
    played.report(stopped, [0.4, 0.5])
    played.end(stopped, JobState.INTERRUPTED, message="Stopped by ben.")
    played.report(nan, [math.nan, math.nan])
    played.end(nan)
    services.queue.dequeue(dequeued.job_id)
    services.queue.dequeue(removed.job_id)
    services.jobs.remove(removed.job_id)
    played.turn()
    result = services.sweeps.trials(played.folder.path.name)
    assert result is not None
    assert [(trial.state, trial.value, trial.reason) for trial in result.trials] == [
        ("complete", 0.9, ""),
        ("failed", None, "gpu01 was lost."),
        ("pruned", 0.5, "Stopped by ben."),
        ("failed", None, f"{GOAL} has no finite value"),
        ("failed", None, "it left the queue"),
    ]
    assert result.best is not None
    assert result.best.job == good.job_id
    # A job in the trash is not listed, and the sampler knows its end, too.
    progress = SearchProgress.from_dict(read_json(played.folder.progress))
    assert progress.open_jobs == ()


def test_an_epoch_is_judged_as_soon_as_the_next_one_has_begun(services: Services) -> None:
    played = Played(services, peak, RATE, BATCH, trials=1)
    folder = played.folders[0]
    played.propose(folder)
    played.begin(folder)

    def reported() -> dict[int, float]:
        study = _open_study(played.folder, SearchTurn(played.folder)._record)
        return dict(study.trials[0].intermediate_values)

    played.report(folder, [0.5])
    played.turn()
    assert reported() == {}
    with folder.history.open("ab") as file:
        file.write(encode(Block("TRAINING", 1, 2, 1, 3, "t", {"loss": [1.0]})))
    played.turn()
    assert reported() == {1: 0.5}


@pytest.mark.parametrize(
    ("read_before_end", "state", "expected"),
    [
        (6, JobState.FINISHED, ("complete", 0.1, "")),
        (0, JobState.FINISHED, ("complete", 0.1, "")),
        (4, JobState.INTERRUPTED, ("pruned", 0.1, "below the median at epoch 1")),
        (0, JobState.INTERRUPTED, ("pruned", 0.1, "Stopped.")),
    ],
)
def test_a_run_that_finished_is_complete_and_only_a_stopped_one_is_pruned(
    services: Services,
    monkeypatch: pytest.MonkeyPatch,
    read_before_end: int,
    state: JobState,
    expected: tuple[str, float, str],
) -> None:
    # A script does not say how many epochs it has.
    monkeypatch.setattr(SearchTurn, "_last_epoch", lambda *_: 0)
    played = Played(services, peak, RATE, BATCH, trials=6)
    *good, bad = played.folders
    for folder in good:
        played.propose(folder)
        played.begin(folder)
        played.report(folder, [0.9] * 6)
        played.end(folder)
        played.turn()
    played.propose(bad)
    played.begin(bad)
    if read_before_end:
        played.report(bad, [0.1] * read_before_end)
        played.turn()
        assert stop_requested(bad.stop_request, 1)
        bad.history.unlink()
    played.report(bad, [0.1] * 6)
    played.end(bad, state, message="Stopped.")
    played.turn()
    ended = proposal(bad)
    assert (ended.state, ended.value, ended.reason) == expected


def test_a_run_that_is_followed_by_another_one_is_no_end(services: Services) -> None:
    played = Played(services, peak, RATE, BATCH, trials=1)
    folder = played.folders[0]
    played.propose(folder)
    queued = read_json(folder.queued)
    played.begin(folder)
    played.end(folder, JobState.INTERRUPTED, pause="Paused: ben uses GPU 0.")
    replace_json(folder.queued, {**queued, "run": 2})
    played.turn()
    assert proposal(folder).state == ""


def test_a_goal_that_no_trial_reports_ends_the_proposals_and_names_those_that_exist(
    services: Services,
) -> None:
    played = Played(services, peak, RATE, BATCH, trials=3)
    first, second, _ = played.folders
    played.propose(first)
    played.begin(first)
    played.report(first, [0.5], metric="validation/acc")
    played.end(first)
    with pytest.raises(BackendError, match=r"they report loss, validation/acc\."):
        played.turn(second)
    assert not second.proposal.exists()


@pytest.mark.parametrize("name", ["VAL_ACC", "Val acc", "validation/acc", "validation acc"])
def test_a_goal_may_be_spelled_as_people_do(services: Services, name: str) -> None:
    played = Played(services, peak, RATE, BATCH, trials=1)
    played.folder.definition.write_text(played.folder.definition.read_text().replace(GOAL, name))
    (folder,) = played.folders
    played.propose(folder)
    played.begin(folder)
    played.report(folder, [0.5, 0.7], metric="validation/acc")
    played.end(folder)
    played.turn()
    assert (proposal(folder).state, proposal(folder).value) == ("complete", 0.7)


def test_a_trial_without_values_is_not_started_by_hand(services: Services) -> None:
    played = Played(services, peak, RATE, BATCH, trials=1)
    (folder,) = played.folders
    services.queue.dequeue(folder.job_id)
    with pytest.raises(BackendError, match=r"trial 1 is a trial: the search .* gives it its") as e:
        services.jobs.lifecycle.start(folder.job_id)
    assert f"job queue {folder.job_id}" in e.value.with_remedy
    assert not folder.newest_run()


@pytest.mark.parametrize(
    ("axes", "complete", "missing"), [(1, 0, 8), (1, 7, 1), (1, 8, 0), (4, 8, 1), (4, 9, 0)]
)
def test_the_importance_needs_more_trials_than_chance(axes: int, complete: int, missing: int):
    trials = tuple(Proposal("j", n, {}, COMPLETE, 0.5) for n in range(complete))
    trials += (Proposal("j", 99, {}, PRUNED, 0.5),) * 9
    result = SearchResult(Search(GOAL), (RATE,) * axes, trials)
    assert result.missing_trials == missing
    assert (f"still needs: {missing}." in result.importance_message) is bool(missing)


def damage(played: Played) -> None:
    lines = played.folder.journal.read_bytes().splitlines(keepends=True)
    played.folder.journal.write_bytes(b"".join([*lines[:3], b"\0garbage\n", *lines[3:]]))


def tear(played: Played) -> None:
    with played.folder.journal.open("ab") as journal:
        journal.write(b'{"op_code":5,"wor')


def leave_lock(played: Played) -> None:
    played.folder.path.joinpath("journal.log.lock").touch()


@pytest.mark.parametrize("spoil", [tear, leave_lock])
def test_what_a_killed_turn_leaves_in_the_journal_is_no_damage(
    services: Services, spoil: Callable[[Played], None]
) -> None:
    played = Played(services, peak, RATE, BATCH, trials=2)
    played.propose(played.folders[0])
    spoil(played)
    assert played.propose(played.folders[1])
    assert proposal(played.folders[1]).number == 2


def test_a_damaged_journal_is_named_on_the_jobs_that_wait_until_it_is_moved_away(
    services: Services,
) -> None:
    played = Played(services, peak, RATE, BATCH, trials=2)
    first, second = played.folders
    played.propose(first)
    damage(played)
    with pytest.raises(BackendError, match=r"journal\.log, is damaged: ") as failure:
        played.turn(second)
    turn = SearchTurn(played.folder)
    turn.refuse([second.job_id], failure.value)
    [reason] = [job.message for job in services.queue.read().jobs if job.entry.name.endswith("2")]
    assert reason == failure.value.with_remedy
    with pytest.raises(BackendError, match="is damaged"):
        services.sweeps.importance(played.folder.path.name)
    assert services.sweeps.trials(played.folder.path.name), "the jobs have their values"
    played.folder.journal.unlink()
    turn.run([second.job_id])
    turn.refuse([second.job_id], None)
    entry = entry_of(second)
    assert entry is not None
    assert entry.refusal == ""
    assert proposal(second).values
