"""A turn of a search: ``python -m backend.node.queue.search_turn JOB… FOLDER``.

Only the program that keeps the queue starts it, and a lock admits one at a time, so a journal has
one writer. A turn reads the new values of each open trial, reports them to Optuna, requests the
stop of a trial that the pruner gives up, and reports each end. Then it asks the sampler for the
values of the jobs that wait for them. A job is in the journal before it has its values, and has
these before it starts; so whatever a killed turn has not done, the next one does.

The sampler's random numbers start again with the seed, the number of each trial and of each axis:
with the same seed the same results lead to the same proposals, whichever process asks.

With `searches.IMPORTANCE` in place of the jobs it prints the importance of the settings as JSON,
from a copy of the journal.
"""

from __future__ import annotations

import json
import signal
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backend.base.errors import BackendError
from backend.base.log import suppress, swallowed
from backend.node.queue import entries as queue_entries
from backend.node.queue.next_run import next_launch
from backend.node.run.give_way import request_stop
from backend.node.system.background_service import ServiceLock
from backend.records.base.atomic_files import read_json, replace_json, stored_record
from backend.records.base.layout import DataRoot, JobFolder, SearchFolder
from backend.records.base.local_files import Files
from backend.records.base.program_name import COMMAND
from backend.records.base.validation import sanitize
from backend.records.jobs.audit_entry import add_entry
from backend.records.jobs.history import epoch_values
from backend.records.jobs.job_file import with_changes
from backend.records.jobs.launch import Launch
from backend.records.jobs.metric_names import matching_metric
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RunExit
from backend.records.sweeps import search as searches
from backend.records.sweeps.search import (
    Proposal,
    SearchProgress,
    StoredSearch,
)
from backend.records.sweeps.spec import applicable_axes, sweep_name
from backend.records.sweeps.values import LOG, Axis, value_text

if TYPE_CHECKING:
    from optuna import Study
    from optuna.samplers import BaseSampler
    from optuna.trial import FrozenTrial, Trial

_TURN_LIMIT_S = 300
_STUDY = "search"
"""Equal for all searches: Hyperband derives the bracket of a trial from it."""
_JOB, _REASON, _GOALLESS = "job", "reason", "goalless"
"""What a trial of the journal says about its job, why it was given up, and of other metrics."""


class SearchTurn:
    """The turn of one search; errors of the journal become `BackendError`."""

    def __init__(self, folder: SearchFolder) -> None:
        self._folder = folder
        self._root = DataRoot(folder.path.parent.parent)
        self._record = StoredSearch.from_dict(read_json(folder.definition))
        self._search = self._record.search

    def run(self, waiting_ids: Sequence[str]) -> None:
        study = _open_study(self._folder, self._record)
        for trial in _open_trials(study):
            if _JOB in trial.user_attrs:
                self._follow(study, trial)
        try:
            if waiting_ids:
                self._require_goal(study)
            for folder in map(self._root.job, waiting_ids):
                if queue_entries.entry_of(folder) is not None and not folder.proposal.exists():
                    self._propose(study, folder)
        finally:
            self._write_progress(study)

    def _write_progress(self, study: Study) -> None:
        open_jobs = (trial.user_attrs.get(_JOB, "") for trial in _open_trials(study))
        progress = SearchProgress(tuple(filter(None, open_jobs)))
        replace_json(self._folder.progress, progress.to_dict())

    def _require_goal(self, study: Study) -> None:
        """Refuse further trials if those that finished have no such metric."""
        trials = study.get_trials(deepcopy=False)
        metrics = [t.user_attrs[_GOALLESS] for t in trials if _GOALLESS in t.user_attrs]
        if metrics and not any(trial.intermediate_values for trial in trials):
            cancel = f"{COMMAND} job sweep --cancel {sweep_name(self._record.tag)}"
            raise BackendError(
                searches.unknown_goal(self._search.metric, metrics[0].split(", ")),
                f"Cancel the search ({cancel}), and begin one whose goal is one of these.",
            )

    # A trial that has begun.

    def _follow(self, study: Study, frozen: FrozenTrial) -> None:
        """Report the new values of a trial to the pruner, and its end to the sampler."""
        folder = self._root.job(frozen.user_attrs[_JOB])
        trial = _trial(study, frozen)
        run = folder.newest_run()
        is_queued = queue_entries.entry_of(folder) is not None
        if not run:
            if not is_queued:
                reason = "it left the queue" if folder.path.is_dir() else "its job was removed"
                self._close(study, trial, folder, None, searches.FAILED, reason)
            return
        values, names, newest_epoch = epoch_values(folder.history, self._search.metric)
        run_exit = stored_record(RunExit, folder.attempt(run).exit)
        # A run that failed or gave way may be followed by another one.
        has_ended = run_exit is not None and not is_queued
        reason = str(frozen.user_attrs.get(_REASON, ""))
        last_epoch = self._last_epoch(folder, run)
        unit = "epoch" if newest_epoch else "step"
        for epoch in sorted(values.keys() - frozen.intermediate_values.keys()):
            # An epoch has its last value when the next one has begun.
            if not has_ended and (reason or epoch == newest_epoch):
                break
            trial.report(values[epoch], epoch)
            # A run that has ended can no longer be stopped.
            if epoch != last_epoch and not has_ended and trial.should_prune():
                reason = self._reason(f"{unit} {epoch}")
                trial.set_user_attr(_REASON, reason)
        if reason and not has_ended:
            request_stop(folder, run, reason=reason)
        if has_ended and run_exit is not None:
            best_of = min if self._search.mode == "min" else max
            value = best_of(values.values()) if values else None
            state, reason = self._end(run_exit, value, reason, names)
            if state == searches.FAILED and names and not self._has_goal(names):
                trial.set_user_attr(_GOALLESS, ", ".join(sorted(names)))
            self._close(study, trial, folder, value, state, reason)

    def _has_goal(self, names: frozenset[str]) -> bool:
        return bool(matching_metric(self._search.metric, names))

    def _last_epoch(self, folder: JobFolder, run: int) -> int:
        launch = stored_record(Launch, folder.launch)
        return launch.config.epochs if launch is not None and launch.run == run else 0

    def _reason(self, position: str) -> str:
        if self._search.pruner == searches.MEDIAN:
            side = "below" if self._search.mode == "max" else "above"
            return f"{side} the median at {position}"
        return f"not among the best at {position}"

    def _end(
        self, run_exit: RunExit, value: float | None, reason: str, names: frozenset[str]
    ) -> tuple[str, str]:
        # A short run may finish before its stop arrives.
        if reason and run_exit.state is not JobState.FINISHED:
            return searches.PRUNED, reason
        if run_exit.state is JobState.ERROR or value is None:
            goal_error = f"{sanitize(self._search.metric)} has no finite value"
            if not self._has_goal(names):
                goal_error = searches.unknown_goal(self._search.metric, names or ["none"])
            return searches.FAILED, run_exit.message if run_exit.error is not None else goal_error
        if run_exit.state is JobState.INTERRUPTED:
            return searches.PRUNED, run_exit.message
        return searches.COMPLETE, ""

    def _close(
        self,
        study: Study,
        trial: Trial,
        folder: JobFolder,
        value: float | None,
        state: str,
        reason: str,
    ) -> None:
        from optuna.trial import TrialState

        # Before the journal: the next turn repeats what a killed one did not finish.
        if folder.path.is_dir():
            proposal = stored_record(Proposal, folder.proposal)
            if proposal is not None and not proposal.state:
                ended_proposal = replace(proposal, state=state, value=value, reason=reason)
                replace_json(folder.proposal, ended_proposal.to_dict())
        study.sampler = self._sampler(trial.number)
        if reason:
            trial.set_user_attr(_REASON, reason)
        # A grid that is complete ends the loop of Optuna, which does not run here.
        with suppress(RuntimeError):
            if state == searches.COMPLETE:
                study.tell(trial, value)
            else:
                is_pruned = state == searches.PRUNED
                study.tell(trial, state=TrialState.PRUNED if is_pruned else TrialState.FAIL)

    # A trial whose turn has come.

    def _sampler(self, number: int, axis_number: int = 0) -> BaseSampler:
        import numpy as np
        from optuna import samplers

        kind, seed = self._search.sampler, self._record.seed
        if kind == searches.GRID:
            grid = {axis.path: [*_choices(axis)] for axis in self._record.axes}
            return samplers.GridSampler(grid, seed=seed)
        # TPE draws its first trials independently: one seed would draw the same values each time.
        trial_seed = int(
            np.random.SeedSequence([seed % 2**32, number, axis_number]).generate_state(1)[0]
        )
        if kind == searches.RANDOM:
            return samplers.RandomSampler(seed=trial_seed)
        if kind == searches.CMA_ES:
            return samplers.CmaEsSampler(seed=trial_seed, warn_independent_sampling=False)
        return samplers.TPESampler(seed=trial_seed)

    def _propose(self, study: Study, folder: JobFolder) -> None:
        """Ask for the values of a job, and put them into its launch."""
        trials = study.get_trials(deepcopy=False)
        # A trial without a job, or with this one, is that of a turn that was killed.
        open_trials = [t for t in trials if not t.state.is_finished()]
        own_trials = [t for t in open_trials if t.user_attrs.get(_JOB, "") in ("", folder.job_id)]
        # It samples what depends on other trials when the trial is made.
        study.sampler = self._sampler(own_trials[0].number if own_trials else len(trials))
        trial = _trial(study, own_trials[0]) if own_trials else study.ask()
        trial.set_user_attr(_JOB, folder.job_id)
        values = self._values(study, trial)
        self._write_progress(study)
        launch = Launch.from_dict(read_json(folder.queued_launch))
        parsed_job = with_changes(launch.config, values)
        proposal = Proposal(folder.job_id, trial.number + 1, values)
        if parsed_job.config is None:
            replace_json(folder.proposal, proposal.to_dict())
            reason = " ".join(error.message for error in parsed_job.errors)
            self._close(study, trial, folder, None, searches.FAILED, reason)
            self._add_entry(folder, f"{proposal.message} cannot be used: {reason}")
            queue_entries.remove_entry(self._root, folder)
            return
        previous_launch = replace(launch, run=launch.run - 1)
        new_launch = next_launch(previous_launch, parsed_job.config, launch.resume_from, {})
        replace_json(folder.queued_launch, new_launch.to_dict())
        self._add_entry(folder, f"Proposed as trial {proposal.number}: {proposal.message}")
        replace_json(folder.proposal, proposal.to_dict())

    def _values(self, study: Study, trial: Trial) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for number, axis in enumerate(applicable_axes(self._record.axes, values)):
            # A turn that continues after a killed one draws as that would have.
            study.sampler = self._sampler(trial.number, number)
            if not axis.is_drawn_only:
                choices = _choices(axis)
                values[axis.path] = choices[trial.suggest_categorical(axis.path, [*choices])]
                continue
            low, high = axis.ends()
            is_log = axis.span is not None and axis.span.scale == LOG
            if axis.is_whole:
                values[axis.path] = trial.suggest_int(axis.path, low, high, log=is_log)
            else:
                # Four digits, as of values that are drawn; the journal has all of them.
                exact_value = trial.suggest_float(axis.path, low, high, log=is_log)
                values[axis.path] = min(max(float(f"{exact_value:.4g}"), low), high)
        return values

    def _add_entry(self, folder: JobFolder, action: str) -> None:
        try:
            add_entry(folder, Files(), action)
        except OSError as error:
            swallowed(error)

    def refuse(self, waiting_ids: Sequence[str], error: BackendError | None) -> None:
        """Write on the jobs that wait why they get no values, or that nothing prevents it."""
        refusal = "" if error is None else error.with_remedy
        for folder in map(self._root.job, waiting_ids):
            entry = queue_entries.entry_of(folder)
            if entry is not None and entry.refusal != refusal:
                replace_json(folder.queued, replace(entry, refusal=refusal).to_dict())

    def importance(self) -> dict[str, float]:
        """Return the share of each setting, by PED-ANOVA.

        That is Optuna's default; its fANOVA needs scikit-learn and SciPy, 150 MB more.
        """
        import optuna

        study = _open_study(self._folder, self._record)
        with suppress(ValueError, RuntimeError):
            shares = optuna.importance.get_param_importances(study)
            # Without differences between the trials, no setting has a share.
            return {path: share for path, share in shares.items() if share == share}
        return {}


def _choices(axis: Axis) -> dict[Any, Any]:
    """Return the values of a list by what Optuna stores of them: text for lists and tables."""
    is_stored = (bool, int, float, str)
    return {
        value if isinstance(value, is_stored) else value_text(value): value
        for value in axis.points()
    }


def _open_trials(study: Study) -> list[FrozenTrial]:
    return [t for t in study.get_trials(deepcopy=False) if not t.state.is_finished()]


def _trial(study: Study, trial: FrozenTrial) -> Trial:
    from optuna.trial import Trial

    return Trial(study, trial._trial_id)


def _open_study(folder: SearchFolder, record: StoredSearch) -> Study:
    """Open the journal.

    Raises:
        BackendError: Optuna is missing, or the journal is locked or damaged.
    """
    try:
        import optuna
        from optuna import pruners
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
    except ImportError as error:
        raise BackendError(
            f"Optuna, which proposes the values, cannot be imported here: {error}.",
            "Set up the first node of the job again.",
        ) from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    directions = optuna.study.StudyDirection
    kinds: Mapping[str, Any] = {
        searches.MEDIAN: pruners.MedianPruner,
        searches.HALVING: pruners.SuccessiveHalvingPruner,
        searches.HYPERBAND: pruners.HyperbandPruner,
    }
    pruner = kinds.get(record.search.pruner, pruners.NopPruner)()
    try:
        _cut_torn_line(folder.journal)
        # A turn that was killed leaves its lock, and this turn is the only one.
        lock = JournalFileOpenLock(str(folder.journal), grace_period=3)
        return optuna.create_study(
            storage=JournalStorage(JournalFileBackend(str(folder.journal), lock_obj=lock)),
            study_name=_STUDY,
            direction=directions.MAXIMIZE if record.search.mode == "max" else directions.MINIMIZE,
            load_if_exists=True,
            pruner=pruner,
        )
    except OSError as error:
        raise BackendError(
            f"The journal of the search, {folder.journal}, cannot be used: {error.strerror}.",
            "Make it writable for the user of the queue; the search then continues by itself.",
        ) from error
    except (ValueError, KeyError, TypeError, AssertionError) as error:
        raise BackendError(
            f"The journal of the search, {folder.journal}, is damaged: {error}.",
            "Restore it from a backup. Or move it away: the sampler then starts again, and all "
            "jobs keep their results.",
        ) from error


def _cut_torn_line(journal: Path) -> None:
    """Remove the line that a killed turn did not finish: Optuna would append to it."""
    with suppress(FileNotFoundError), journal.open("r+b") as file:
        data = file.read()
        if not data.endswith(b"\n"):
            file.truncate(data.rfind(b"\n") + 1)


def main(arguments: Sequence[str]) -> int:
    # Optuna warns of what is experimental; no user of the program reads it here.
    warnings.simplefilter("ignore")
    signal.alarm(_TURN_LIMIT_S)
    *waiting_ids, path = arguments
    folder = SearchFolder(Path(path))
    turn = SearchTurn(folder)
    try:
        if waiting_ids == [searches.IMPORTANCE]:
            sys.stdout.write(json.dumps(turn.importance()))
            return 0
        if not ServiceLock(folder.path).take():
            return 1
        turn.run(waiting_ids)
    except BackendError as error:
        sys.stderr.write(error.with_remedy)
        turn.refuse(waiting_ids, error)
        return 1
    turn.refuse(waiting_ids, None)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
