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

_TRIED = "One batch was tried and failed"


class TrialState(Enum):
    UNKNOWN = "unknown"
    """Model, dataset or loader is not chosen."""
    UNTRIED = "untried"
    UNDER_WAY = "under way"
    PASSED = "passed"
    FAILED = "failed"


@dataclass(frozen=True)
class BatchTrial:
    """The result of one batch of the chosen model, dataset and loader.

    ``words`` is the current step, the result, or the error; ``field`` is then at fault.
    ``package`` is what is not installed, and ``command`` installs it where the button failed; of
    an unknown package only the ``module`` is known.
    """

    state: TrialState = TrialState.UNKNOWN
    words: str = ""
    field: str = ""
    package: str = ""
    command: str = ""
    module: str = ""


_STYLES: dict[TrialState, tuple[str, ColorRole, str]] = {
    TrialState.UNKNOWN: ("info-fill", "text3", ""),
    TrialState.UNTRIED: ("info-fill", "text3", "Try one batch"),
    TrialState.UNDER_WAY: ("info-fill", "text3", "Cancel"),
    TrialState.PASSED: ("check-circle-fill", "good", ""),
    TrialState.FAILED: ("warning-octagon-fill", "bad", "Try again"),
}


RESULTS: dict[TrialState, tuple[str, str, ColorRole]] = {
    TrialState.UNTRIED: ("Not tried together yet", "info-fill", "text3"),
    TrialState.UNDER_WAY: ("Trying one batch…", "info-fill", "text3"),
    TrialState.FAILED: ("One batch fails", "warning-octagon-fill", "bad"),
}
"""What the form says of the job in these states: words, icon and tone. Only here."""


class TrialLine(QWidget):
    """The state in words, and the button that tries or cancels.

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
        self._words = Label("", "small", "text2", elide="right")
        self.button = Button("", kind="quiet")
        self.button.clicked.connect(self._pressed)
        self.copy = Button("Copy command", kind="quiet", icon="copy")
        self.copy.clicked.connect(self._copy)
        for part in (self._icon, self.button):
            policy = part.sizePolicy()
            policy.setRetainSizeWhenHidden(True)
            part.setSizePolicy(policy)
        self.setLayout(row(self._icon, (self._words, 1), self.copy, self.button, gap=S2))
        self.show_trial(self._trial)

    def show_trial(self, trial: BatchTrial) -> None:
        self._trial = trial
        icon, tone, button = _STYLES[trial.state]
        words = trial.words
        if trial.state is TrialState.UNTRIED:
            words = f"Not tried: {words}" if words else "One batch shows whether they fit"
        elif trial.state is TrialState.FAILED:
            # The whole sentence is shown at its field.
            words = _TRIED
        elif trial.state is TrialState.UNDER_WAY:
            words = formats.with_ellipsis(words or "Waiting")
        self._icon.set_icon(icon, tone)
        self._icon.setVisible(bool(words))
        self._words.setText(words)
        self._words.set_color_role("bad" if trial.state is TrialState.FAILED else "text2")
        if trial.package:
            button = f"Install {trial.package}"
        elif trial.module:
            button = "Install a package…"
        self.copy.setVisible(bool(trial.command))
        self.copy.set_tip(trial.command)
        if button:
            self.button.setText(button)
        self.button.setVisible(bool(button))

    @Slot()
    def _pressed(self) -> None:
        if self._trial.package:
            self.install_requested.emit(self._trial.package)
            return
        if self._trial.module:
            self.package_requested.emit(self._trial.module)
            return
        is_under_way = self._trial.state is TrialState.UNDER_WAY
        (self.cancel_requested if is_under_way else self.try_requested).emit()

    @Slot()
    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self._trial.command)
