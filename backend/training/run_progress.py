"""Epochs, status and checkpoints of a run: equal for every way to train."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from backend.records.jobs.heartbeat import Phase, RankHeartbeat
from backend.records.jobs.launch import Launch
from backend.records.jobs.state import JobState
from backend.training.checkpoint import fit_weights, load_checkpoint, load_weights, write_out
from backend.training.checkpoint_content import content
from backend.training.step_recorder import StepRecorder
from backend.training.subject import Subject
from backend.training.train_state import Outcome, Rank0Services, TrainState


class RunProgress:
    """A rank's position in the job, which rank 0 reports and saves.

    Attributes:
        services: None on other ranks; they call the same, and nothing is written there.
        state: The position; replaced by that of a checkpoint.
        saved_step: That of the last checkpoint.
    """

    def __init__(self, launch: Launch, beat: RankHeartbeat, services: Rank0Services | None) -> None:
        self.services = services
        self.state = TrainState()
        self.saved_step = 0
        self._launch = launch
        self._config = launch.config
        self._beat = beat
        self._last_save = time.monotonic()

    def load_weights(self, subject: Subject) -> None:
        """Begin with the weights that the job names."""
        source = Path(self._launch.start_from)
        weights = load_weights(source)
        sentence = fit_weights(subject.model, weights, source.name, subject.pass_batch)
        if sentence and self.services is not None:
            sys.stdout.write(f"{sentence}\n")

    def plan(
        self,
        *,
        left: int,
        steps_per_epoch: int,
        evaluation_batches: int,
        step_samples: int | None = None,
    ) -> None:
        """Begin the run; ``left`` are the steps of the current epoch that are to be made."""
        self._last_save = time.monotonic()
        self.saved_step = self.state.step
        if self.services is None:
            return
        step, epochs = self.state.step, self._config.epochs
        left += (epochs - self.state.epoch) * steps_per_epoch
        self.services.reporter.plan(
            step=step,
            epoch=min(self.state.epoch, epochs),
            total_steps=step + max(0, left),
            steps_per_epoch=steps_per_epoch,
            evaluation_batches=evaluation_batches,
            step_samples=step_samples,
        )

    def report(self, state: JobState, message: str = "") -> None:
        if self.services is not None:
            self.services.reporter.state(state, message)

    @property
    def wants_stop(self) -> bool:
        return self.services is not None and self.services.watcher.wanted

    @property
    def unsaved_s(self) -> float:
        """The time since the last checkpoint, or the begin."""
        return time.monotonic() - self._last_save

    @property
    def is_due(self) -> bool:
        """Whether rank 0's clock says that a checkpoint is due."""
        minutes = self._config.checkpoint.every_minutes
        return self.services is not None and minutes is not None and self.unsaved_s >= minutes * 60

    def make_epochs(
        self, epoch: Callable[[], bool], save: Callable[[str], None], stop: bool = False
    ) -> Outcome:
        """Make the epochs that are left, until one returns that a stop was requested."""
        while not stop and not self._is_over:
            stop = epoch()
        if not stop:
            return Outcome.FINISHED
        self.report(JobState.STOPPING, "Saving a checkpoint")
        save("stop")
        return Outcome.INTERRUPTED

    @property
    def _is_over(self) -> bool:
        return self.state.epoch > self._config.epochs or self.state.ended_early

    def begin_epoch(self, has_validation: bool) -> None:
        self.report(JobState.TRAINING)
        if self.services is not None:
            epoch = self.state.epoch
            evaluations = self._config.epochs - epoch + 1 if has_validation else 0
            self.services.reporter.epoch(epoch, evaluations)

    def end_epoch(self, is_due: bool) -> str:
        """Go to the next epoch; return the reason of the checkpoint that is due, or ""."""
        every = self._config.checkpoint.every_epochs
        is_due |= every is not None and self.state.epoch % every == 0
        self.state.next_epoch()
        return "last" if self._is_over else "policy" if is_due else ""

    # --- checkpoints ---------------------------------------------------------------------------

    def begin_save(self) -> bool:
        """Wait for the checkpoint before; return whether it could not be written."""
        self._beat.beat(Phase.SAVING)
        self._last_save = time.monotonic()
        self.saved_step = self.state.step
        if self.services is None:
            return False
        self.services.checkpointer.wait()
        return bool(self.services.checkpointer.trouble)

    def save(
        self,
        states: tuple[dict[str, Any], dict[str, Any]],
        optimized: Sequence[str],
        scaler: torch.amp.GradScaler,
        ranks: Sequence[Any],
        measured: Mapping[str, float],
        reason: str,
    ) -> None:
        """Write a checkpoint; ``states`` are those of model and optimizer."""
        if self.services is None:
            return
        self.report(JobState.SAVING)
        state = self.state
        between = state.epoch_step == 0
        self.services.checkpointer.save(
            content(*states, optimized, scaler, state, list(ranks), dict(measured), self._launch),
            epoch=state.epoch - 1 if between else state.epoch,
            step=state.step,
            epoch_step=state.epoch_step,
            metrics=measured,
            reason=reason,
        )
        self.services.reporter.saved(self.unsaved_s)

    def has_to_be_saved(self, has_failed: bool, reason: str) -> bool:
        """Return whether a second checkpoint that fails ends the job; ``has_failed``: the first."""
        return has_failed and reason == "policy" and not self._config.continue_unsaved

    def unsaved(self) -> tuple[str, str]:
        """Wait for the last checkpoint; return why it was not written, and the newest one."""
        if self.services is None:
            return "", ""
        checkpointer = self.services.checkpointer
        checkpointer.wait()
        return checkpointer.trouble, checkpointer.newest_name()

    def write_out(self, book: StepRecorder) -> None:
        """Wait until the last checkpoint and the last step are on the disk."""
        self._beat.beat(Phase.SAVING)
        if self.services is not None:
            checkpointer = self.services.checkpointer
            trouble = write_out(checkpointer, self._beat, self._config.stall_limit_s)
            saved = checkpointer.saved
            if self._launch.steps_limit and saved is not None and not trouble:
                load_checkpoint(Path(saved.path))
        book.release({})
