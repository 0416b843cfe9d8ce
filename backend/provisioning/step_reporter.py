"""Report the progress of setting up a node: outcome, time and output of each step."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from backend.base.errors import BackendError, Cancelled
from backend.records.nodes.entry import SetUp, SetUpStep, StepState
from backend.ssh.interface import CommandResult, HostKeyChanged, HostKeyUnknown, Machine

_REPORT_S = 0.2
"""Shortest interval of reports of bytes and lines; a change of state is reported at once."""
_OUTPUT_LIMIT = 200_000
_FULL = ("No space left on device", "Disk quota exceeded")


def with_key(state: SetUp, error: BackendError) -> SetUp:
    """Add the host key at which a set-up stopped, if one stopped it."""
    if isinstance(error, HostKeyUnknown):
        return replace(state, key=error.key)
    if isinstance(error, HostKeyChanged):
        return replace(state, key=error.key, accepted_fingerprint=error.accepted_fingerprint)
    return state


class StepReporter:
    """The steps of one node, in order. ``on_change`` gets each new state whole.

    ``is_cancelled`` is called before each command and while bytes and lines arrive.
    """

    def __init__(
        self,
        node: str,
        titles: Sequence[str],
        on_change: Callable[[SetUp], None],
        is_cancelled: Callable[[], bool],
    ) -> None:
        self._state = SetUp(node, tuple(SetUpStep(title) for title in titles))
        self._on_change = on_change
        self._is_cancelled = is_cancelled
        self._index = -1
        self._started_s = self._reported_s = 0.0

    def start(self) -> None:
        self._on_change(self._state)

    def run_step(self, work: Callable[[], str]) -> None:
        """Run the next step; ``work`` returns the outcome as a sentence, or raises.

        Raises:
            BackendError: Raised by ``work`` and reported as the step's failure.
        """
        self._index += 1
        self._started_s = time.monotonic()
        self._change(state=StepState.RUNNING)
        try:
            self.stop_if_cancelled()
            outcome = work()
        except Cancelled:
            message = "Cancelled. Completed steps stay; the next set-up continues from here."
            self._change(state=StepState.CANCELLED, message=message)
            raise
        except BackendError as error:
            self._state = with_key(self._state, error)
            self._change(state=StepState.FAILED, message=error.message, remedy=error.remedy)
            raise
        except BaseException as error:
            message = f"An error in Ringmaster ended this step: {type(error).__name__}: {error}"
            self._change(state=StepState.FAILED, message=message)
            raise
        self._change(state=StepState.DONE, message=outcome)

    def stop_if_cancelled(self) -> None:
        if self._is_cancelled():
            raise Cancelled

    def add_line(self, text: str) -> None:
        """Add a line of output."""
        self.stop_if_cancelled()
        self._output(f"{self._step.output}{text}\n")

    def show_message(self, message: str) -> None:
        """Report what the running step does or waits for; figures follow a colon."""
        self.stop_if_cancelled()
        # What begins now may take minutes without another report.
        is_new = message.partition(":")[0] != self._step.message.partition(":")[0]
        (self._change if is_new else self._change_later)(message=message)

    def run_command(
        self, shell: Machine, argv: Sequence[str], limit_s: float = 60.0
    ) -> CommandResult:
        """Run a command on the node; its output becomes the step's output."""
        self.add_line(f"$ {shlex.join(argv)}")
        earlier_output = self._step.output
        answer = shell.run(argv, limit_s=limit_s, on_line=self.add_line)
        parts = (text.rstrip("\n") for text in (answer.out, answer.err))
        output = "".join(f"{text}\n" for text in parts if text)
        # The complete output replaces the lines that arrived while it ran.
        self._change(output=f"{earlier_output}{output}"[-_OUTPUT_LIMIT:])
        return answer

    def require_output(
        self,
        shell: Machine,
        argv: Sequence[str],
        failure: str,
        remedy: str = "",
        limit_s: float = 60.0,
    ) -> str:
        """Run a command that must succeed; return its output.

        Raises:
            BackendError: ``failure`` and the command's last line, or that the disk is full.
        """
        answer = self.run_command(shell, argv, limit_s)
        if answer.ok:
            return answer.out
        if any(phrase in answer.out + answer.err for phrase in _FULL):
            raise BackendError(
                f"{failure}: the disk of the home folder on {self._state.node} is full.",
                "Free some space on it, then set the node up again; it continues from here.",
            )
        raise BackendError(f"{failure}: {answer.complaint.rstrip('.')}.", remedy)

    @property
    def _step(self) -> SetUpStep:
        return self._state.steps[self._index]

    def _output(self, text: str) -> None:
        self._change_later(output=text[-_OUTPUT_LIMIT:])

    def _change_later(self, **values: str) -> None:
        self._set_values(**values)
        if time.monotonic() - self._reported_s >= _REPORT_S:
            self._report()

    def _change(self, **values: object) -> None:
        self._set_values(**values)
        self._report()

    def _set_values(self, **values: object) -> None:
        steps = list(self._state.steps)
        seconds = time.monotonic() - self._started_s
        steps[self._index] = replace(self._step, **values, seconds=seconds)  # type: ignore[arg-type]
        self._state = replace(self._state, steps=tuple(steps))

    def _report(self) -> None:
        self._reported_s = time.monotonic()
        self._on_change(self._state)
