"""The state of trying model, dataset and loader together, as a line of the form."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from PySide6.QtCore import Signal, Slot
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QWidget

from widgets.common import formats
from widgets.common.buttons import Button
from widgets.common.labels import IconLabel, Label
from widgets.common.layout import row
from widgets.common.theme import S2, ColorRole

_FAILURE_MESSAGE = "One batch was tried and failed"


class TrialState(Enum):
    UNKNOWN = "unknown"
    """Model, dataset or loader is not chosen."""
    UNTRIED = "untried"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


@dataclass(frozen=True)
class BatchTrial:
    """The result of one batch of the chosen model, dataset and loader.

    ``message`` is the current step, the result, or the error, which is in ``field``. ``package`` is
    not installed, and ``command`` installs it where the button failed; of an unknown package only
    the ``module`` is known.
    """

    state: TrialState = TrialState.UNKNOWN
    message: str = ""
    field: str = ""
    package: str = ""
    command: str = ""
    module: str = ""


_STYLES: dict[TrialState, tuple[str, ColorRole, str]] = {
    TrialState.UNKNOWN: ("info-fill", "text3", ""),
    TrialState.UNTRIED: ("info-fill", "text3", "Try one batch"),
    TrialState.RUNNING: ("info-fill", "text3", "Cancel"),
    TrialState.SUCCEEDED: ("check-circle-fill", "good", ""),
    TrialState.FAILED: ("warning-octagon-fill", "bad", "Try again"),
}


RESULTS: dict[TrialState, tuple[str, str, ColorRole]] = {
    TrialState.UNTRIED: ("Not tried together yet", "info-fill", "text3"),
    TrialState.RUNNING: ("Trying one batch…", "info-fill", "text3"),
    TrialState.FAILED: ("One batch fails", "warning-octagon-fill", "bad"),
}
"""The result that the form shows in these states: message, icon and color role."""


class TrialLine(QWidget):
    """The state of a trial as text, and the button that tries or cancels.

    Signals:
        try_requested: Try one batch.
        cancel_requested: Cancel the trial that is under way.
        install_requested: Install the package with this name.
        package_requested: Ask for the package of this module.
    """

    try_requested = Signal()
    cancel_requested = Signal()
    install_requested = Signal(str)
    package_requested = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._trial = BatchTrial()
        self._icon = IconLabel("info-fill", "text3")
        self._message = Label("", "small", "text2", elide="right")
        self.button = Button("", kind="quiet")
        self.button.clicked.connect(self._handle_press)
        self.copy = Button("Copy command", kind="quiet", icon="copy")
        self.copy.clicked.connect(self._copy)
        for widget in (self._icon, self.button):
            policy = widget.sizePolicy()
            policy.setRetainSizeWhenHidden(True)
            widget.setSizePolicy(policy)
        self.setLayout(row(self._icon, (self._message, 1), self.copy, self.button, gap=S2))
        self.show_trial(self._trial)

    def show_trial(self, trial: BatchTrial) -> None:
        self._trial = trial
        icon, color_role, button_text = _STYLES[trial.state]
        message = trial.message
        if trial.state is TrialState.UNTRIED:
            message = f"Not tried: {message}" if message else "One batch shows whether they fit"
        elif trial.state is TrialState.FAILED:
            # The whole message is shown at its field.
            message = _FAILURE_MESSAGE
        elif trial.state is TrialState.RUNNING:
            message = formats.with_ellipsis(message or "Waiting")
        self._icon.set_icon(icon, color_role)
        self._icon.setVisible(bool(message))
        self._message.setText(message)
        self._message.set_color_role("bad" if trial.state is TrialState.FAILED else "text2")
        if trial.package:
            button_text = f"Install {trial.package}"
        elif trial.module:
            button_text = "Install a package…"
        self.copy.setVisible(bool(trial.command))
        self.copy.set_tip(trial.command)
        if button_text:
            self.button.setText(button_text)
        self.button.setVisible(bool(button_text))

    @Slot()
    def _handle_press(self) -> None:
        if self._trial.package:
            self.install_requested.emit(self._trial.package)
            return
        if self._trial.module:
            self.package_requested.emit(self._trial.module)
            return
        is_under_way = self._trial.state is TrialState.RUNNING
        (self.cancel_requested if is_under_way else self.try_requested).emit()

    @Slot()
    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self._trial.command)
