"""The base of the controllers: run work for the user, and show the outcome if it still counts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

from PySide6.QtCore import QObject, Slot
from PySide6.QtWidgets import QWidget

from app.runtime.background import ReportCallback, Runner
from backend.base.errors import BackendError
from backend.base.progress import Progress
from widgets.common.dialog import Dialog, DialogHolder

T = TypeVar("T")
AnyDialog = TypeVar("AnyDialog", bound=Dialog)


def ignore(*_values: object) -> None:
    """Show nothing."""


class LatestRequest:
    """Requests of which only the last one counts: reports and outcomes of earlier ones are dropped.

    Attributes:
        is_open: The last request has no outcome yet.
    """

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._progress: Progress | None = None

    @property
    def is_open(self) -> bool:
        return self._progress is not None

    def run(
        self,
        queue_name: str,
        work: Callable[[Progress], T],
        on_success: Callable[[T], object],
        on_error: Callable[[BackendError], object],
        on_report: ReportCallback = ignore,
    ) -> None:
        """Cancel the earlier request, then run ``work`` in this queue."""
        self.cancel()

        def report(share: float | None, step: str) -> None:
            if self._progress is progress:
                on_report(share, step)

        def if_latest(callback: Callable[..., object], outcome: object) -> None:
            if self._progress is progress:
                self._progress = None
                callback(outcome)

        progress = self._progress = self._runner.progress(report)
        self._runner.run(
            queue_name,
            partial(work, progress),
            partial(if_latest, on_success),
            partial(if_latest, on_error),
        )

    def cancel(self) -> None:
        """Cancel the request; its outcome is shown, mostly as `Cancelled`."""
        if self._progress is not None:
            self._progress.cancel()

    def drop(self) -> None:
        """Cancel the request and show no outcome."""
        self.cancel()
        self._progress = None


class Controller(QObject):
    """Serves a part of the window with the work of services."""

    def __init__(self, runner: Runner, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._runner = runner

    def serve(
        self,
        queue_name: str,
        work: Callable[[], T],
        show: Callable[[T], object] = ignore,
        show_error: Callable[[str], object] | None = None,
    ) -> None:
        """Run ``work`` in this queue, and show its outcome.

        Args:
            show_error: Shows an error and its remedy. By default a message does.
        """
        on_error = show_error or self.show_error
        self._runner.run(queue_name, work, show, lambda error: on_error(error.with_remedy))

    def show_error(self, message: str) -> None:
        """Show an error that has no other target."""
        self._runner.notify(message)


class DialogController(Controller, Generic[AnyDialog]):
    """A controller that opens dialogs over ``window``, one at a time.

    A dialog has at most one task. Closing the dialog cancels the task.
    """

    def __init__(self, runner: Runner, window: QWidget, parent: QObject | None = None) -> None:
        super().__init__(runner, parent or window)
        self._window = window
        self._holder: DialogHolder[AnyDialog] = DialogHolder()
        self._task = LatestRequest(runner)

    @property
    def dialog(self) -> AnyDialog | None:
        """The open dialog."""
        return self._holder.dialog

    def open(self, dialog: AnyDialog) -> None:
        """Open a dialog; an open dialog is closed first."""
        self._holder.open(dialog)
        dialog.finished.connect(self.cancel_task)

    def if_open(self, dialog: AnyDialog, callback: Callable[..., Any]) -> Callable[..., None]:
        """Return ``callback``, which does nothing once this dialog was closed or replaced."""
        return self._holder.guard_callback(dialog, callback)

    def serve_dialog(
        self,
        dialog: AnyDialog,
        queue_name: str,
        work: Callable[[], T],
        show: Callable[[T], object] = ignore,
    ) -> None:
        """Run ``work`` in this queue, and show its outcome or its error in the dialog."""
        if_open = partial(self.if_open, dialog)
        self.serve(queue_name, work, if_open(show), if_open(dialog.show_error))

    def run_task(
        self,
        dialog: AnyDialog,
        queue_name: str,
        work: Callable[[Progress], T],
        show: Callable[[T], object],
        show_progress: ReportCallback,
    ) -> None:
        """Run ``work`` as the task of the dialog, which shows its progress and its outcome."""
        if_open = partial(self.if_open, dialog)
        self._task.run(
            queue_name,
            work,
            if_open(show),
            if_open(lambda error: dialog.show_error(error.with_remedy)),
            if_open(show_progress),
        )

    @Slot()
    def cancel_task(self) -> None:
        self._task.cancel()

    def show_error(self, message: str) -> None:
        """Show an error in the open dialog, or as a message."""
        dialog = self.dialog
        (self._runner.notify if dialog is None else dialog.show_error)(message)
