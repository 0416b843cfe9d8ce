"""Epochs, status and checkpoints of a run, the same for every strategy."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from backend.records.jobs.heartbeat import Phase, RankHeartbeat
from backend.records.jobs.launch import Launch
from backend.records.jobs.state import JobState
from backend.training.checkpoint import NotSaved, finish_writing, load_checkpoint
from backend.training.checkpoint_content import content, restore_buffers
from backend.training.finite import not_finite_names
from backend.training.fixed_samples import Answer, SampleRecorder
from backend.training.step_recorder import StepRecorder
from backend.training.subject import Subject
from backend.training.train_state import Outcome, Rank0Services, TrainState
from backend.training.weights_file import fit_weights, load_weights


class RunProgress:
    """A rank's position in the job. All ranks make the same calls; rank 0, with services, reports.

    Attributes:
        state: The position; from `open` on, the position of the checkpoint.
        saved_step: The step of the last checkpoint.
        step_recorder: The recorder of the steps, from `plan` on.
    """

    step_recorder: StepRecorder

    def __init__(
        self,
        launch: Launch,
        beat: RankHeartbeat,
        services: Rank0Services | None,
        gather: Callable[[Any], Sequence[Any]] = lambda value: (value,),
    ) -> None:
        """``gather``: returns the value of each rank that makes epochs, with rank 0's first."""
        self.state = TrainState()
        self.saved_step = 0
        self._launch = launch
        self._config = launch.config
        self._beat = beat
        self._services = services
        self._gather = gather
        self._last_save_s = time.monotonic()
        self._last_metrics: dict[str, float] = {}
        self._sample_recorder: SampleRecorder | None = None

    def open(self, subject: Subject, restore: Callable[[dict[str, Any]], None]) -> None:
        """Load the checkpoint or weights with which the run begins; ``restore`` gets the rest."""
        model, source = subject.model, Path(self._launch.resume_from or self._launch.start_from)
        if self._services is not None:
            reporter, data = self._services.reporter, subject.validation
            self._sample_recorder = SampleRecorder(data, reporter, self._beat) if data else None
            # Before a checkpoint is loaded, whose NaN would not be on purpose.
            self._services.checkpointer.expected_nan = not_finite_names(
                {"model": model.state_dict()}
            )
        if self._launch.resume_from:
            checkpoint = load_checkpoint(source)
            fit_weights(model, checkpoint.get("trained", checkpoint["model"]), source.name)
            self.state = TrainState.from_saved(checkpoint["course"])
            restore_buffers(model, checkpoint["ranks"][0]["buffers"])
            restore(checkpoint)
        elif self._launch.start_from:
            leave_out, weights = self._config.start_from_except, load_weights(source)
            message = fit_weights(model, weights, source.name, subject.pass_batch, leave_out)
            if message and self._services is not None:
                sys.stdout.write(f"{message}\n")

    def plan(
        self,
        remaining_steps: int,
        steps_per_epoch: int,
        evaluation_batches: int,
        step_samples: int,
        evaluation_batch_s: float | None = None,
    ) -> None:
        """Begin the run; ``remaining_steps`` are those of the current epoch."""
        state, epochs = self.state, self._config.epochs
        self._last_save_s, self.saved_step = time.monotonic(), state.step
        self.step_recorder = StepRecorder(self._config, state, self._services, step_samples)
        self._total_steps = state.step + max(
            0, remaining_steps + (epochs - state.epoch) * steps_per_epoch
        )
        if self._services is not None:
            self._services.reporter.plan(
                step=state.step,
                epoch=min(state.epoch, epochs),
                total_steps=self._total_steps,
                steps_per_epoch=steps_per_epoch,
                evaluation_batches=evaluation_batches,
                evaluation_batch_s=evaluation_batch_s,
                step_samples=step_samples,
            )

    def report(self, state: JobState, message: str = "") -> None:
        if self._services is not None:
            self._services.reporter.set_state(state, message)

    @property
    def stop_is_requested(self) -> bool:
        return self._services is not None and self._services.watcher.is_requested

    def is_unsaved_for(self, seconds: float) -> bool:
        """Return whether the last checkpoint is as old, by rank 0's clock."""
        return self._services is not None and time.monotonic() - self._last_save_s >= seconds

    @property
    def is_due(self) -> bool:
        """Return whether a checkpoint is due by time."""
        minutes = self._config.checkpoint.every_minutes
        return minutes is not None and self.is_unsaved_for(minutes * 60)

    # --- epochs --------------------------------------------------------------------------------

    @property
    def _is_over(self) -> bool:
        state = self.state
        return state.epoch > self._config.epochs or state.ended_early or state.has_converged

    def make_epochs(
        self, epoch: Callable[[], bool], save: Callable[[str], None], stop: bool = False
    ) -> Outcome:
        """Make the remaining epochs, until ``epoch`` returns that a stop was requested."""
        while not stop and not self._is_over:
            stop = epoch()
        if not stop:
            if self._services is not None and self.state.epoch <= self._config.epochs:
                self._services.reporter.finish_early(self.state.epoch - 1, self._early_finish())
            return Outcome.FINISHED
        self.report(JobState.STOPPING, "Saving a checkpoint")
        save("stop")
        return Outcome.INTERRUPTED

    def _early_finish(self) -> str:
        """Return why the job ends before its last epoch."""
        position_label, rule = (
            f"at step {self.state.step:,} of {self._total_steps:,}",
            self._config.early_stop,
        )
        if rule is None or self.state.has_converged:
            return f"Converged {position_label}: no step lowers the loss."
        count = self.state.epochs_without_gain
        epochs = f"{count} epoch{'s' if count > 1 else ''}"
        return f"Stopped early {position_label}: “{rule.metric}” has not improved for {epochs}."

    def converge(self, save: Callable[[str, dict[str, float]], None]) -> None:
        """End the job at its last step, and save that step if it is not saved."""
        self.state.has_converged = True
        if self.saved_step < self.state.step:
            save("last", self._last_metrics)

    def begin_epoch(self, has_validation: bool) -> None:
        self.report(JobState.TRAINING)
        if self._services is not None:
            evaluations = self._config.epochs - self.state.epoch + 1 if has_validation else 0
            self._services.reporter.begin_epoch(self.state.epoch, evaluations)

    def record_samples(self, answers: Mapping[int, Answer]) -> None:
        """Record the answers of a validation for the fixed samples."""
        if self._sample_recorder is not None:
            self._sample_recorder.record(self.state.step, self.state.epoch, answers)

    def end_epoch(
        self,
        validation: Mapping[str, float],
        is_due: bool,
        save: Callable[[str, dict[str, float]], None],
    ) -> None:
        """Apply the early stop, go to the next epoch, and save a checkpoint if it is due."""
        rule, epoch_interval = self._config.early_stop, self._config.checkpoint.every_epochs
        self._last_metrics = metrics = {**(self.state.held_metrics or {}), **validation}
        self.step_recorder.release(validation)
        if rule is not None:
            # Rank 0 has all values.
            self.state.check_early_stop(rule, self._gather(metrics.get(rule.metric))[0], metrics)
        if self._config.schedule.name == "plateau":
            metric = self._config.checkpoint.best_metric
            self.state.check_plateau(self._config, self._gather(metrics.get(metric))[0])
        is_due |= epoch_interval is not None and self.state.epoch % epoch_interval == 0
        self.state.next_epoch()
        if self._is_over or is_due:
            save("last" if self._is_over else "policy", metrics)

    # --- checkpoints ---------------------------------------------------------------------------

    def begin_save(self) -> bool:
        """Wait for the previous checkpoint; return whether it was not written, or is useless."""
        self._beat.beat(Phase.SAVING)
        self._last_save_s, self.saved_step = time.monotonic(), self.state.step
        return any(self._failures())

    def save(
        self,
        states: Mapping[str, Any],
        ranks: Sequence[Any],
        metrics: dict[str, float],
        reason: str,
        has_failed: bool,
    ) -> None:
        """Write a checkpoint.

        Args:
            states: What `training_states` returned.
            has_failed: What `begin_save` returned on rank 0.

        Raises:
            NotSaved: This is the second checkpoint that could not be written.
            NotANumber: This is the second checkpoint with NaN.
        """
        if self._services is not None:
            self.report(JobState.SAVING)
            state = self.state
            self._services.checkpointer.save(
                content(states, state, list(ranks), metrics, self._launch),
                epoch=state.epoch if state.epoch_step else state.epoch - 1,
                step=state.step,
                epoch_step=state.epoch_step,
                metrics=metrics,
                reason=reason,
            )
            self._services.reporter.add_save(time.monotonic() - self._last_save_s)
        if has_failed and reason == "policy":
            self._require_saved(may_be_unsaved=self._config.continue_unsaved)

    def finish_writing(self) -> None:
        """Wait until the last checkpoint and the last step are on the disk.

        Raises:
            NotSaved: The checkpoint could not be written.
            NotANumber: The checkpoint holds NaN.
        """
        self._beat.beat(Phase.SAVING)
        if self._services is not None:
            checkpointer = self._services.checkpointer
            failure = finish_writing(checkpointer, self._beat, self._config.stall_limit_s)
            checkpoint = checkpointer.last_checkpoint
            if self._launch.steps_limit and checkpoint is not None and not failure:
                load_checkpoint(Path(checkpoint.path))
        self.step_recorder.release({})
        self._beat.beat(Phase.WAITING_FOR_OTHERS)
        self._require_saved()

    def _failures(self) -> tuple[str, str]:
        """Return why the last checkpoint could not be written, and why it is useless, or ""."""
        if self._services is None:
            return "", ""
        checkpointer = self._services.checkpointer
        checkpointer.wait()
        return checkpointer.failure, checkpointer.nan_message if self._config.stop_on_nan else ""

    def _require_saved(self, *, may_be_unsaved: bool = False) -> None:
        """End all ranks if rank 0 could not write the last checkpoint, or it holds NaN."""
        newest_name = ""
        failure, nan_message = self._failures()
        if failure and self._services is not None:
            newest_name = self._services.checkpointer.newest_name()
        failure, nan_message, newest_name = self._gather((failure, nan_message, newest_name))[0]
        if failure and not may_be_unsaved:
            raise NotSaved(failure, newest_name)
        if nan_message:
            self.step_recorder.fail(nan_message)
