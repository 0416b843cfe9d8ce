"""One finding of the preflight check: what, where, why, and the button that fixes it."""

from __future__ import annotations

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QWidget

from backend.records.jobs.state import JobState
from backend.records.nodes.preflight import Fix, PreflightFinding
from widgets.common.buttons import Button
from widgets.common.labels import IconLabel, Label
from widgets.common.layout import STRETCH, col, row
from widgets.common.state_badge import StateGlyph
from widgets.common.theme import ICON, ICON_NAV, S1, S2, S3
from widgets.jobs.preflight import preflight_text as words


class PreflightRow(QWidget):
    """A fault or a warning.

    Signals:
        fix_requested: Fix this `PreflightFinding`.
    """

    fix_requested = Signal(object)

    def __init__(self, finding: PreflightFinding, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.finding = finding
        icon, tone = ("warning-fill", "warn") if finding.is_warning else ("x-circle-fill", "bad")
        self._remedy = Label("", "small", "text2", wrap=True, selectable=True)
        self._turning = StateGlyph(JobState.STARTING, 0.0, ICON)
        self._working = Label("", "small", "live")
        self.button = Button(words.button(finding))
        self.button.setAutoDefault(False)
        self.button.clicked.connect(self._request)
        text = col(
            row(
                Label(finding.label, "strong"),
                (Label(words.names(finding.nodes), "small", "text3", elide="right"), 1),
                gap=S2,
            ),
            Label(finding.message, "body", "text2", wrap=True, selectable=True),
            self._remedy,
            gap=2,
        )
        side = col(self.button, row(self._turning, self._working, gap=6), STRETCH, gap=0)
        self.setLayout(
            row(
                col(1, IconLabel(icon, tone, ICON_NAV), STRETCH, gap=0),
                (text, 1),
                side,
                gap=S3,
                margins=(0, 10, 0, 10),
            )
        )
        self.setAccessibleName(f"{finding.label}, {finding.message}")
        self.show_idle()

    def show_idle(self, refusal: str = "") -> None:
        """Show that nothing is under way; ``refusal``: why it could not be fixed."""
        # If a button fixes it, the manual remedy is only in the button's tool tip.
        alone = self.finding.fix in (Fix.NONE, Fix.LEAVE_OUT, Fix.ACCEPT_HOST_KEY)
        said = refusal or (self.finding.remedy if alone else "")
        self._remedy.setText(said)
        self._remedy.set_color_role("bad" if refusal else "text2")
        self._remedy.setVisible(bool(said))
        self.button.set_tip(self.finding.remedy)
        self.button.setVisible(bool(self.button.text()))
        self._turning.hide()
        self._working.hide()

    def show_working(self, sentence: str = "") -> None:
        """Show that it is being fixed; ``sentence`` is the progress."""
        self.button.hide()
        self._remedy.hide()
        self._working.setText(sentence or words.working(self.finding))
        self._turning.show()
        self._working.show()

    @property
    def is_working(self) -> bool:
        return not self._working.isHidden()

    def set_able(self, able: bool) -> None:
        self.button.setEnabled(able)

    @Slot()
    def _request(self) -> None:
        self.fix_requested.emit(self.finding)


class DoneRow(QWidget):
    """A finding that has been fixed."""

    def __init__(
        self, finding: PreflightFinding, was_asked: bool, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        where = words.names(finding.nodes)
        said = words.outcome(finding, was_asked)
        self.sentence = f"{finding.label}: {where} {said}" if where else f"{said}"
        self.setLayout(
            row(
                IconLabel("check-circle-fill", "good", ICON_NAV),
                Label(finding.label, "strong"),
                (Label(f"{where} {said}".strip(), "body", "text2", elide="right"), 1),
                gap=S3,
                margins=(0, S1, 0, S1),
            )
        )
        self.setAccessibleName(self.sentence)
