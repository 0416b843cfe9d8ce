"""Derive the state of a job's newest run from its files.

In order of precedence: ``exit.json``; a supervisor that is gone (the run is over, and
`backend.datastore.jobs.reaper` ends and records it); a heartbeat that advances by this reader's own
clock. A status of TRAINING proves nothing: its writer may have died a week ago. Clocks of two
machines are never compared. A file that cannot be read changes no state; it is reported as doubt.
Nothing here signals a process or writes a file of the run.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from backend.base.errors import BackendError
from backend.base.log import suppress, swallowed
from backend.datastore.access.root_access import OpenJob
from backend.datastore.nodes.files import SILENT_AFTER_S
from backend.node.queue import entries as queue_entries
from backend.node.run.finalize import ENDED_UNRECORDED, Supervision, supervision_of
from backend.records.base import number_format
from backend.records.base.atomic_files import read_json, stored_record
from backend.records.base.layout import JobFolder
from backend.records.jobs.checkpoint import Checkpoint
from backend.records.jobs.history import HistoryUpdate, last_written
from backend.records.jobs.launch import launch_of
from backend.records.jobs.placement import THIS_COMPUTER
from backend.records.jobs.schedulers import has_number, scheduler_of_run
from backend.records.jobs.state import JobState
from backend.records.jobs.status import (
    START_LIMIT_S,
    Condition,
    ProcessIdentity,
    RunExit,
    RunStatus,
    UnrecordedEnd,
)
from backend.records.jobs.stop_request import (
    pause_requested,
    stop_requested,
    stop_requested_by,
)
from backend.records.queue.entry import QueueEntry

DOUBT_AFTER_S = SILENT_AFTER_S
_STOP_SEEN_S = 8.0
"""Rank 0 asks for a stop request every 0.1 s; a share may hide a new file for some seconds."""
_BEFORE_STOPPING = (JobState.TRAINING, JobState.EVALUATING)
_UNSEEN = (
    "The run continues, because its ranks do not see the stop request or may not read it "
    "(job.lock). Kill the run: that replaces the request."
)


@dataclass(frozen=True)
class RunObservation:
    """The input of `derive_state`. ``run`` is 0 before the first start.

    ``status`` is the last one that was readable, ``problems`` list what was not readable since.
    ``stopped_by`` is the user who requested the stop, or "", ``pause`` why the job gives way;
    ``is_stop_unseen``: the ranks train as if nothing was requested.
    ``silent_s`` counts since the heartbeat last advanced, ``claimed_s`` since the run was claimed.
    ``silent_nodes`` are the nodes without a sign of life of a run that stands still.
    ``condition`` is the state of a run that was submitted to a scheduler, None without news.
    """

    run: int = 0
    exit: RunExit | None = None
    status: RunStatus | None = None
    supervision: Supervision = Supervision.NOT_SEEN
    claimed_s: float = 0.0
    silent_s: float = 0.0
    last_news: str = ""
    silent_nodes: tuple[str, ...] = ()
    stop_requested: bool = False
    is_stop_unseen: bool = False
    stopped_by: str = ""
    pause: str = ""
    is_queued: bool = False
    problems: tuple[str, ...] = ()
    condition: Condition | None = None


@dataclass(frozen=True)
class RunState:
    """The derived state: ``status`` has the state, message and error with the last figures.

    ``uncertainty`` is "no news since 14:02" or ""; it is no state. ``unrecorded_end`` is set for a
    run that is over and recorded no end: it has to be reaped.
    """

    status: RunStatus
    uncertainty: str = ""
    problems: tuple[str, ...] = ()
    unrecorded_end: UnrecordedEnd | None = None

    @property
    def state(self) -> JobState:
        return self.status.state


def derive_state(observation: RunObservation) -> RunState:
    """Derive the state from the facts. Pure."""
    run = observation.run
    status = observation.status
    if run == 0:
        state = JobState.QUEUED if observation.is_queued else JobState.CREATED
        return RunState(RunStatus(state), problems=observation.problems)
    if status is None or status.run != run:
        status = RunStatus(JobState.STARTING, run=run)
    condition = observation.condition
    if observation.exit is not None:
        end_status = status.with_exit(observation.exit)
        if condition is not None and condition.state is not None:
            is_waiting = condition.state.is_queued
            error = None if is_waiting else end_status.error
            end_status = replace(
                end_status, state=condition.state, message=condition.message, error=error
            )
        if observation.is_queued:
            state = JobState.PAUSED if observation.pause else JobState.QUEUED
            end_status = replace(
                status, state=state, message=observation.pause, error=None, eta_s=None
            )
        return RunState(end_status, problems=observation.problems)
    if condition is not None and condition.state is not None:
        status = replace(status, state=condition.state, message=condition.message)
        if not status.state.is_live:
            return RunState(status, problems=observation.problems)
    unrecorded_end = _unrecorded_end(observation)
    if unrecorded_end is not None:
        end_status = replace(status, state=JobState.ERROR, message=unrecorded_end.message)
        return RunState(end_status, problems=observation.problems, unrecorded_end=unrecorded_end)
    if observation.stop_requested and status.state.is_live:
        requester_message = (
            f"Stop requested by {observation.stopped_by}." if observation.stopped_by else ""
        )
        own_message = status.message if status.state is JobState.STOPPING else ""
        message = (
            _UNSEEN
            if observation.is_stop_unseen
            else observation.pause or own_message or requester_message
        )
        status = replace(status, state=JobState.STOPPING, message=message)
    silence_message = _silence_message(observation, status)
    return RunState(
        _without_forecast(status) if silence_message else status,
        silence_message,
        observation.problems,
    )


def _unrecorded_end(run_facts: RunObservation) -> UnrecordedEnd | None:
    if run_facts.supervision is Supervision.NOT_SEEN and run_facts.claimed_s > START_LIMIT_S:
        return UnrecordedEnd.NEVER_STARTED
    return ENDED_UNRECORDED.get(run_facts.supervision)


def _without_forecast(status: RunStatus) -> RunStatus:
    """Return the status without its forecast, which holds only while news arrives."""
    return replace(status, eta_s=None, samples_per_second=None)


def _silence_message(run_facts: RunObservation, status: RunStatus) -> str:
    if not status.state.is_live:
        return ""
    if run_facts.silent_nodes:
        verb = "gives" if len(run_facts.silent_nodes) == 1 else "give"
        return f"{number_format.name_list(run_facts.silent_nodes)} {verb} no sign of life"
    if run_facts.silent_s <= DOUBT_AFTER_S:
        return ""
    # Rank 0 writes the first heartbeat; until then a living supervisor is news enough.
    if run_facts.supervision is Supervision.ALIVE and status.heartbeat == 0:
        return ""
    return f"no news since {run_facts.last_news}" if run_facts.last_news else "no news"


class RunStateReader:
    """A reader of one job's state that remembers what it saw between two reads."""

    def __init__(
        self,
        folder: OpenJob,
        monotonic: Callable[[], float] = time.monotonic,
        silent_nodes: Callable[[Sequence[str]], tuple[str, ...]] = lambda nodes: (),
        submitted_condition: Callable[[OpenJob, int], Condition | None] = lambda folder, run: None,
    ) -> None:
        """Store the parts.

        See `StatusWatch.silent_nodes` and `LauncherService.condition`.
        """
        self._folder = folder
        self._submitted_condition = submitted_condition
        self._find_silent = silent_nodes
        self._nodes: tuple[int, Sequence[str]] = (0, ())
        self._progress: object = None
        self._moved_s = -math.inf
        self._monotonic = monotonic
        self._last_state: RunState | None = None
        self._status: RunStatus | None = None
        self._heartbeat: tuple[int, int] = (0, 0)
        self._run = 0
        self._run_seen_s = monotonic()
        self._heartbeat_s = monotonic()
        self._last_news = ""

    def read(self) -> RunState:
        """Read the state now.

        Raises:
            BackendError: The folder cannot be read, and never could.
        """
        try:
            self._folder.files.refresh_job(self._folder)
            run_facts = self.collect()
        except OSError as error:
            message = f"The job's folder {self._folder.path} cannot be read: {error.strerror}."
            read_error = BackendError(message, "Check that the data root is mounted.")
            read_error.__cause__ = error
            return self.without_news(read_error)
        except BackendError as error:
            if self._last_state is None and self._folder.files.is_mounted:
                # The node that stages the run is silent: nothing is concluded from that.
                state = derive_state(replace(self.collect(), claimed_s=0.0))
                self._last_state = replace(state, unrecorded_end=None)
            return self.without_news(error)
        self._last_state = derive_state(run_facts)
        return self._last_state

    def without_news(self, error: BackendError) -> RunState:
        """Return the state that was read last, marked as doubtful for this reason.

        Raises:
            BackendError: ``error``; nothing was ever read.
        """
        if self._last_state is None:
            raise error
        state = self._last_state
        if state.state.is_live:
            status = _without_forecast(state.status)
            state = replace(state, status=status, uncertainty=f"no news since {self._last_news}")
        return replace(state, problems=(error.message,))

    def collect(self) -> RunObservation:
        """Read everything that `derive_state` needs.

        Raises:
            OSError, BackendError: The job's folder cannot be read.
        """
        folder, now_s = self._folder, self._monotonic()
        problems: list[str] = []
        # Read first: the claim of a run ends the waiting, and neither would be seen after it.
        queue_entry = queue_entries.entry_of(folder)
        run = folder.newest_run()
        if run != self._run:
            self._run, self._run_seen_s = run, now_s
        self._read_status(problems)
        self._note_progress(now_s)
        supervision = self._supervision(run, problems)
        is_submitted = run > 0 and scheduler_of_run(folder.attempt(run)) is not None
        # Read last: a supervisor writes it before it goes, so that one that is gone without it
        # has left none.
        run_exit = self._read_exit(run, problems)
        condition = None
        if is_submitted and (run_exit is None or run_exit.pause):
            condition = self._submitted_condition(folder, run)
        is_state_known = condition is not None and condition.state is not None
        if run_exit is not None and run_exit.pause and is_submitted and not is_state_known:
            # The scheduler has it in its queue as long as nothing else is known, also by its last
            # answer before the end.
            condition = Condition(JobState.PAUSED, run_exit.pause)
        if run_exit is not None and not self._has_ended(run):
            # It came between the two reads; the figures before it are not the last ones.
            self._folder.files.refresh_job(folder)
            self._read_status(problems)
        if run_exit is None and folder.newest_run() != run:
            # Another desktop moved the run away, or started the next one, between two reads.
            return self.collect()
        try:
            is_stop_requested = run > 0 and stop_requested(folder.stop_request, run)
        except OSError as error:
            swallowed(error)
            # A request that this user may not read is one, too.
            is_stop_requested = isinstance(error, PermissionError)
        return RunObservation(
            run=run,
            exit=run_exit,
            status=self._status,
            supervision=supervision,
            # A job may wait in the queue of a scheduler for days.
            claimed_s=0.0 if has_number(folder.attempt(run)) else now_s - self._run_seen_s,
            silent_s=now_s - self._heartbeat_s,
            last_news=self._last_news,
            silent_nodes=()
            if run_exit is not None or is_submitted
            else self._silent_nodes(run, now_s),
            stop_requested=is_stop_requested,
            is_stop_unseen=is_stop_requested and self._is_stop_unseen(),
            stopped_by=stop_requested_by(folder.stop_request) if is_stop_requested else "",
            pause=_pause(folder, run, queue_entry) if is_stop_requested or queue_entry else "",
            is_queued=queue_entry is not None,
            problems=tuple(problems),
            condition=condition,
        )

    def _note_progress(self, now_s: float) -> None:
        """Note when the heartbeat of the status, and its step, last moved."""
        if self._status is None:
            return
        heartbeat = (self._status.run, self._status.heartbeat)
        if heartbeat != self._heartbeat or not self._last_news:
            self._heartbeat, self._heartbeat_s = heartbeat, now_s
            self._last_news = f"{datetime.now(UTC).astimezone():%H:%M}"
        progress = (self._status.run, self._status.epoch, self._status.step)
        if progress != self._progress:
            # What moved before the first look is not known.
            self._moved_s = -math.inf if self._progress is None else now_s
            self._progress = progress

    def _is_stop_unseen(self) -> bool:
        """Return whether rank 0, long after the request, reports that it trains on."""
        if self._status is None or self._status.state not in _BEFORE_STOPPING:
            return False
        with suppress(OSError, BackendError):
            changed_s = self._folder.files.changed_s
            return (
                changed_s(self._folder.status) - changed_s(self._folder.stop_request) > _STOP_SEEN_S
            )
        return False

    def _silent_nodes(self, run: int, now_s: float) -> tuple[str, ...]:
        if now_s <= self._moved_s + DOUBT_AFTER_S:
            return ()
        if run != self._nodes[0]:
            launch = launch_of(self._folder.launch, run)
            if launch is not None:
                nodes = (
                    () if launch.is_staged else dict.fromkeys(plan.node for plan in launch.ranks)
                )
                self._nodes = run, [node for node in nodes if node != THIS_COMPUTER]
        return self._find_silent(self._nodes[1])

    def _has_ended(self, run: int) -> bool:
        status = self._status
        return status is not None and status.run == run and status.state.is_over

    def _read_status(self, problems: list[str]) -> None:
        try:
            self._status = RunStatus.from_dict(read_json(self._folder.status))
        except FileNotFoundError:
            if self._status is not None:
                problems.append("status.json is gone; the values are the last ones seen.")
        except (OSError, ValueError) as error:
            value_label = "the last good ones" if self._status is not None else "missing"
            problems.append(
                f"status.json cannot be read, so the values are {value_label}: {error}."
            )

    def _read_exit(self, run: int, problems: list[str]) -> RunExit | None:
        if run == 0:
            return None
        try:
            return RunExit.from_dict(read_json(self._folder.attempt(run).exit))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            problems.append(f"exit.json of run {run} cannot be read: {error}.")
            return None

    def _supervision(self, run: int, problems: list[str]) -> Supervision:
        if run == 0:
            return Supervision.NOT_SEEN
        try:
            raw = read_json(self._folder.attempt(run).supervisor)
            supervisor = ProcessIdentity.from_dict(raw)
        except FileNotFoundError:
            return Supervision.NOT_SEEN
        except (OSError, ValueError) as error:
            problems.append(f"supervisor.json of run {run} cannot be read: {error}.")
            return Supervision.ON_OTHER_HOST
        return supervision_of(supervisor)


def _pause(folder: JobFolder, run: int, queue_entry: QueueEntry | None) -> str:
    """Return why a job gives way, or waits because it did; "" if a user queued it since."""
    if queue_entry is None:
        return pause_requested(folder.stop_request, run)
    return queue_entry.reason if queue_entry.quiet_s else ""


def with_progress(
    status: RunStatus, folder: JobFolder, checkpoints: Sequence[Checkpoint]
) -> RunStatus:
    """Return the status with the last step on record: it is old where it could not be written."""
    positions = [(checkpoint.run, checkpoint.epoch, checkpoint.step) for checkpoint in checkpoints]
    with suppress(OSError):
        positions.append(last_written(folder.history))
    run, epoch, step = max(
        positions, key=lambda position: (position[0], position[2]), default=(0, 0, 0)
    )
    if run != status.run or step <= status.step:
        return status
    return replace(status, epoch=epoch, step=step)


def with_ends(history: HistoryUpdate, folder: JobFolder) -> HistoryUpdate:
    """Add to each run of ``history`` how the run before it ended, where that is recorded."""
    if not history.run_starts:
        return history
    starts = (
        replace(start, previous_state=_ended_as(folder, start.run - 1))
        for start in history.run_starts
    )
    return replace(history, run_starts=tuple(starts))


def _ended_as(folder: JobFolder, run: int) -> JobState | None:
    run_exit = stored_record(RunExit, folder.attempt(run).exit) if run > 0 else None
    return run_exit.state if run_exit is not None else None
