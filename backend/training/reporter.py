"""Output of rank 0: ``status.json``, ``history.toml`` and TensorBoard's files.

The loop passes plain numbers and continues; a thread writes them twice a second, as complete
blocks. A step costs the loop one append to a list. Steps are never lost: when the disk is full the
thread keeps them, reports it in the status, and tries again.

The heartbeat comes from that thread and shows that the process is alive; steps are shown by
``step`` in the status and, to the guard, by the rank's heartbeat.

TensorBoard gets one point of each curve per flush and every validation: a point costs 35 µs of the
interpreter, and every step of a fast job would be 2 % of it. ``history.toml`` has all of them.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from backend.base.errors import BackendError
from backend.base.log import suppress
from backend.records.base import timestamps
from backend.records.base.access_modes import make_folders, open_for_writing
from backend.records.base.atomic_files import PreallocatedFile
from backend.records.base.layout import JobFolder
from backend.records.base.schema import Record
from backend.records.jobs import history
from backend.records.jobs.history import Block
from backend.records.jobs.metric_names import VALIDATION
from backend.records.jobs.sample_history import SampleHistory, line, read_samples
from backend.records.jobs.state import JobState
from backend.records.jobs.status import Alarm, RunStatus
from backend.training.alerts import StandstillWatch
from backend.training.curve_files import EventFile, HistoryFile
from backend.training.eta import Eta
from backend.training.step_times import RankStep, SlowRanks, StepBreakdown

_WRITE_INTERVAL_S = 0.5
_MIN_INTERVAL_S = 0.1
"""Least interval between two writes of the status when the state changes quickly."""
_CLOSE_LIMIT_S = 30.0
_TENSORBOARD_AFTER_S = 3.0
"""Delay of loading TensorBoard's writer, which takes a second of the interpreter."""


@dataclass(frozen=True)
class Step:
    """One optimizer step of the history."""

    step: int
    epoch: int
    epoch_step: int
    metrics: Mapping[str, float]
    seconds: float
    rank_step_ms: Sequence[float]
    """Empty for a step of an earlier run, which is repeated with its validation."""
    rank_steps: Sequence[RankStep] = ()
    """The parts of these times; zeros for a server."""
    replaces: str = ""
    """`history.REPLACES` or `history.REPLACES_RUN` if a step at or after this one was written."""


class Reporter:
    """Only writer of the job's status and history, on rank 0.

    Every method except `close` returns at once. An error of the thread is in `failure` if the disk
    is the cause, and is otherwise raised by the next call.
    """

    def __init__(
        self,
        folder: JobFolder,
        *,
        run: int,
        epochs: int,
        world_size: int,
        global_batch: int,
        previous_status: RunStatus | None = None,
        times_exchange: bool = True,
        nodes: int = 2,
        has_servers: bool = False,
    ) -> None:
        """Start to write.

        Args:
            previous_status: The current status; of this run, with the figures of earlier runs.
            times_exchange, nodes, has_servers: As in `StepBreakdown`.
        """
        self._folder = folder
        self._run = run
        self._epochs = epochs
        self._world_size = world_size
        self._global_batch = global_batch
        self._state = JobState.SETUP
        self._message = self._early_finish = ""
        self.unused_s: float | None = None
        self._is_stopping = False
        first_status = (
            previous_status
            if previous_status is not None and previous_status.run == run
            else RunStatus(self._state)
        )
        self._total_steps = first_status.total_steps
        self._steps_per_epoch = first_status.steps_per_epoch
        self._epoch, self._step = first_status.epoch, first_status.step
        self._first_status, self._is_planned = first_status, False
        self._remaining_evaluations = 0
        self._has_evaluations = False
        self._metrics: dict[str, float | None] = dict(first_status.metrics)
        self._heartbeat = previous_status.heartbeat if previous_status is not None else 0
        self._clock = timestamps.EvenClock()
        self._started_at = self._clock.utc_now("microseconds")
        self._samples_per_second: float | None = None
        self._slow_ranks = SlowRanks()
        self._breakdown = StepBreakdown(
            times_exchange=times_exchange, nodes=nodes, has_servers=has_servers
        )
        self._is_first = True
        self._eta = Eta()
        self._alarms: dict[str, Alarm] = {}
        self._standstill = StandstillWatch()
        self._steps: list[Step] = []
        self._history = HistoryFile(folder.history)
        self._sample_lines: deque[bytes] = deque()
        self._tensorboard = EventFile(folder.tensorboard)
        self._tensorboard_start_s = math.inf
        self._tensorboard_points: list[Step] = []
        self.failure = ""
        self._status_failure = ""
        self.other_failure: Callable[[], str] = str
        """Return problems of other writers (the checkpoints) for each write of the status."""
        self.peak_memory: Callable[[], int | None] = lambda: None
        """Return the most memory in bytes that this rank has had."""
        self._thread_error: BaseException | None = None
        self._status_file = PreallocatedFile(folder.status)
        self._wake_event = threading.Event()
        self._is_closing = False
        self._thread = threading.Thread(target=self._work, name="reporter", daemon=True)
        self._thread.start()

    # --- calls of the loop ---------------------------------------------------------------------

    def set_state(self, state: JobState, message: str = "") -> None:
        self._raise()
        if self._is_stopping and state is not JobState.STOPPING:
            return
        if state is not self._state:
            self._standstill.add_progress()
        self._state = state
        self._message = message
        self._wake_event.set()

    def set_stopping(self) -> None:
        """Set the state STOPPING; it stays so from now on."""
        self._is_stopping = True
        self._state = JobState.STOPPING
        self._wake_event.set()

    def plan(
        self,
        *,
        step: int,
        epoch: int,
        total_steps: int,
        steps_per_epoch: int,
        evaluation_batches: int = 0,
        evaluation_batch_s: float | None = None,
        step_samples: int | None = None,
        epochs: int = 0,
    ) -> None:
        """Set the planned steps and evaluations.

        Args:
            evaluation_batches: The batches of one rank, 0 without an evaluation.
            evaluation_batch_s: The seconds of a batch, if the evaluation was rehearsed.
            epochs: The epochs of the job, if they became known now.
            step_samples: The samples of one step, if it is not a global batch.
        """
        self._global_batch = step_samples or self._global_batch
        self._eta.plan(evaluation_batches, evaluation_batch_s)
        self._step, self._epoch = step, epoch
        self._total_steps = total_steps
        self._steps_per_epoch = steps_per_epoch
        self._epochs = epochs or self._epochs
        self._is_planned = True

    def add_pace(self, steps: int, seconds: float) -> None:
        """Record the seconds of ``steps`` steps of a script, which has no own times."""
        self._eta.add_steps(steps, seconds)

    def begin_epoch(self, epoch: int, remaining_evaluations: int) -> None:
        self._epoch = epoch
        self._remaining_evaluations = remaining_evaluations
        self._has_evaluations |= remaining_evaluations > 0

    def finish_early(self, epoch: int, message: str) -> None:
        """Report that the job ends with this epoch, which is not its last; ``message`` is why."""
        self._epoch, self._early_finish = epoch, message

    def add_step(self, step: Step) -> None:
        self._raise()
        self._steps.append(step)

    def read_samples(self) -> SampleHistory:
        """Return what earlier runs recorded of the fixed samples."""
        return read_samples(self._folder.samples)

    def add_samples(self, *records: Record) -> None:
        self._sample_lines.extend(map(line, records))

    def add_alarm(self, alarm: Alarm) -> None:
        """Show a warning from now on, in place of an earlier one of its kind."""
        self._alarms[alarm.kind] = alarm
        self._wake_event.set()

    def remove_alarm(self, kind: str) -> None:
        """Show no warning of this kind from now on."""
        self._alarms.pop(kind, None)

    def begin_evaluation(self) -> None:
        self.set_state(JobState.EVALUATING)
        self._eta.begin_evaluation()

    def add_evaluated_batches(self, batches: int) -> None:
        self._eta.add_batches(batches)

    def add_save(self, seconds: float) -> None:
        """Record the seconds in which the ranks waited for a checkpoint."""
        self._eta.add_save(seconds)

    def end_evaluation(self, seconds: float) -> None:
        self._eta.end_evaluation(seconds)
        self._remaining_evaluations = max(0, self._remaining_evaluations - 1)

    def close(self) -> None:
        """Write the remaining steps.

        Raises:
            BackendError: They could not be written.
        """
        self._is_closing = True
        self._wake_event.set()
        self._thread.join(_CLOSE_LIMIT_S)
        self._raise()
        if self._thread.is_alive():
            raise BackendError(
                f"The job's folder {self._folder.path} does not respond; the last steps may be "
                "missing in the history."
            )
        if self.failure or self._status_failure:
            raise BackendError(self.failure or self._status_failure)

    def _raise(self) -> None:
        if self._thread_error is not None:
            bug, self._thread_error = self._thread_error, None
            raise bug

    # --- the thread ----------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            flushed_s = 0.0
            while not self._is_closing:
                if self._folder.attempt(self._run + 1).path.exists():
                    # This node stood still, and the job continues on others.
                    return
                if time.monotonic() - flushed_s >= _WRITE_INTERVAL_S:
                    self._flush()
                    flushed_s = time.monotonic()
                self._write_status()
                is_woken = self._wake_event.wait(_WRITE_INTERVAL_S)
                self._wake_event.clear()
                if is_woken and not self._is_closing:
                    time.sleep(_MIN_INTERVAL_S)
            self._flush()
            self._write_status()
            self._write_tensorboard()
            self._tensorboard.close()
            self._history.close()
        except BaseException as error:  # noqa: BLE001 - raised by the next call
            self._thread_error = error

    def _flush(self) -> None:
        steps, self._steps = self._steps, []
        if steps:
            self._process_steps(steps)
        self._write_samples()
        try:
            saved_at = self._clock.utc_now("microseconds")
            blocks = [
                _make_block(part, self._run, JobState.TRAINING, saved_at)
                for part in _split_by_epoch(steps)
            ]
            self._history.append(blocks, flush=self._is_closing)
            self.failure = ""
        except OSError as error:
            self.failure = (
                f"The history cannot be written and is kept in memory: {error.strerror or error} "
                f"({self._folder.history})."
            )

    def _process_steps(self, steps: Sequence[Step]) -> None:
        last_step = steps[-1]
        self._step, self._epoch = last_step.step, last_step.epoch
        for step in steps:
            if step.replaces == history.REPLACES_RUN:
                # Its curves may have other names now.
                self._metrics = {}
            self._metrics.update(step.metrics)
        timed_steps = [step for step in steps if step.rank_step_ms]
        # The first step of a run lays out buffers and starts workers.
        if self._is_first and len(timed_steps) > 1:
            del timed_steps[0]
        self._standstill.add_steps([step.seconds for step in timed_steps])
        if timed_steps:
            seconds = sum(step.seconds for step in timed_steps)
            self._eta.add_steps(len(timed_steps), seconds)
            self._samples_per_second = len(timed_steps) * self._global_batch / max(seconds, 1e-9)
            self._is_first = False
            self._slow_ranks.add_steps(step.rank_step_ms for step in timed_steps)
            self._breakdown.add_steps(step.rank_steps for step in timed_steps if step.rank_steps)
        if self._tensorboard_start_s is math.inf:
            self._tensorboard_start_s = time.monotonic() + _TENSORBOARD_AFTER_S
        self._tensorboard_points += [s for s in steps[:-1] if _has_validation(s)]
        self._tensorboard_points.append(last_step)
        if time.monotonic() >= self._tensorboard_start_s:
            self._write_tensorboard()

    def _write_status(self) -> None:
        self._heartbeat += 1
        step = self._step
        alarms = tuple(self._alarms.values())
        if self._state is JobState.TRAINING and not self._is_closing:
            standstill_alarm = self._standstill.check(step)
            alarms += (standstill_alarm,) if standstill_alarm is not None else ()
        failure = " ".join(text for text in (self.failure, self.other_failure()) if text)
        status = RunStatus(
            state=self._state,
            run=self._run,
            epoch=self._epoch,
            epochs=self._epochs,
            step=step,
            total_steps=self._total_steps,
            steps_per_epoch=self._steps_per_epoch,
            world_size=self._world_size,
            metrics=dict(self._metrics),
            message=failure or self._message,
            early_finish=self._early_finish,
            heartbeat=self._heartbeat,
            samples_per_second=self._samples_per_second,
            eta_s=self._eta.remaining_s(self._total_steps - step, self._remaining_evaluations),
            pace_s=self._eta.step_pace_s(self._steps_per_epoch, self._has_evaluations),
            rank_step_ms=self._slow_ranks.step_ms(),
            slow_ranks=self._slow_ranks.slow_ranks(),
            step_times=self._breakdown.times(),
            slow_cause=self._breakdown.cause(),
            alarms=alarms,
            started_at=self._started_at,
            earlier_s=self._first_status.earlier_s,
            earlier_gpu_s=self._first_status.earlier_gpu_s,
            earlier_energy_j=self._first_status.earlier_energy_j,
            gpus=self._first_status.gpus,
            waited_s=self._first_status.waited_s,
            unused_s=self.unused_s,
            is_planned=self._is_planned,
            continuation=self._first_status.continuation,
            peak_memory_bytes=self.peak_memory(),
            updated_at=self._clock.utc_now("microseconds"),
        )
        try:
            self._status_file.replace_json(status.to_dict())
            self._status_file.reserve()
            self._status_failure = ""
        except OSError as error:
            # Not for the status itself: its readers see that it was written.
            self._status_failure = (
                f"The status cannot be written: {error.strerror or error} ({self._folder.status})."
            )

    def _write_samples(self) -> None:
        """Append the answers for the fixed samples, before the steps that announce them."""
        lines = list(self._sample_lines)
        # A disk that refuses them refuses the history, too, which reports it.
        with suppress(OSError):
            if lines:
                make_folders(self._folder.samples.parent)
                with os.fdopen(open_for_writing(self._folder.samples), "ab") as file:
                    file.write(b"".join(lines))
            for _ in lines:
                self._sample_lines.popleft()

    def _write_tensorboard(self) -> None:
        if not self._tensorboard_points:
            return
        # A disk that refuses the points refuses the history, too, which reports it.
        with suppress(OSError):
            self._tensorboard.write((step.step, step.metrics) for step in self._tensorboard_points)
            self._tensorboard_points.clear()


def _split_by_epoch(steps: Sequence[Step]) -> list[list[Step]]:
    """Split the steps into consecutive runs within one epoch."""
    parts: list[list[Step]] = []
    for step in steps:
        last_step = parts[-1][-1] if parts else None
        is_next = last_step and (last_step.epoch, last_step.step + 1) == (step.epoch, step.step)
        if is_next and not step.replaces:
            parts[-1].append(step)
        else:
            parts.append([step])
    return parts


def _make_block(steps: Sequence[Step], run: int, state: JobState, timestamp: str) -> Block:
    names = dict.fromkeys(name for step in steps for name in step.metrics)
    last_step = steps[-1]
    return Block(
        state=state.value,
        run=run,
        epoch=last_step.epoch,
        epoch_step=last_step.epoch_step,
        first_step=steps[0].step,
        timestamp=timestamp,
        message=steps[0].replaces,
        metrics={name: [step.metrics.get(name, math.nan) for step in steps] for name in names},
    )


def _has_validation(step: Step) -> bool:
    return any(name.startswith(VALIDATION) for name in step.metrics)
