"""A finding of the preflight check: the check, its nodes, the cause, and a button for the fix."""

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
from widgets.jobs.preflight import preflight_text


class PreflightRow(QWidget):
    """A finding that prevents a start, or a warning.

    Signals:
        fix_requested: Fix this `PreflightFinding`.
    """

    fix_requested = Signal(object)

    def __init__(self, finding: PreflightFinding, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.finding = finding
        icon, color_role = (
            ("warning-fill", "warn") if finding.is_warning else ("x-circle-fill", "bad")
        )
        self._remedy = Label("", "small", "text2", wrap=True, selectable=True)
        self._spinner = StateGlyph(JobState.STARTING, 0.0, ICON)
        self._progress_label = Label("", "small", "live")
        self.button = Button(preflight_text.button_text(finding))
        self.button.setAutoDefault(False)
        self.button.clicked.connect(self._request)
        text = col(
            row(
                Label(finding.label, "strong"),
                (
                    Label(
                        preflight_text.node_names(finding.nodes), "small", "text3", elide="right"
                    ),
                    1,
                ),
                gap=S2,
            ),
            Label(finding.message, "body", "text2", wrap=True, selectable=True),
            self._remedy,
            gap=2,
        )
        side = col(self.button, row(self._spinner, self._progress_label, gap=6), STRETCH, gap=0)
        self.setLayout(
            row(
                col(1, IconLabel(icon, color_role, ICON_NAV), STRETCH, gap=0),
                (text, 1),
                side,
                gap=S3,
                margins=(0, 10, 0, 10),
            )
        )
        self.setAccessibleName(f"{finding.label}, {finding.message}")
        self.show_idle()

    def show_idle(self, refusal: str = "") -> None:
        """Show that nothing is under way; ``refusal``: why the finding could not be fixed."""
        # If a button fixes the finding, the manual remedy is only in the button's tool tip.
        needs_user = self.finding.fix in (Fix.NONE, Fix.LEAVE_OUT, Fix.ACCEPT_HOST_KEY)
        remedy = refusal or (self.finding.remedy if needs_user else "")
        self._remedy.setText(remedy)
        self._remedy.set_color_role("bad" if refusal else "text2")
        self._remedy.setVisible(bool(remedy))
        self.button.set_tip(self.finding.remedy)
        self.button.setVisible(bool(self.button.text()))
        self._spinner.hide()
        self._progress_label.hide()

    def show_working(self, message: str = "") -> None:
        """Show that the finding is being fixed; ``message`` is the progress."""
        self.button.hide()
        self._remedy.hide()
        self._progress_label.setText(message or preflight_text.progress_text(self.finding))
        self._spinner.show()
        self._progress_label.show()

    @property
    def is_working(self) -> bool:
        return not self._progress_label.isHidden()

    def set_fixable(self, is_fixable: bool) -> None:
        self.button.setEnabled(is_fixable)

    @Slot()
    def _request(self) -> None:
        self.fix_requested.emit(self.finding)


class FixedRow(QWidget):
    """A finding that has been fixed."""

    def __init__(
        self, finding: PreflightFinding, was_requested: bool, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        nodes_text = preflight_text.node_names(finding.nodes)
        outcome = preflight_text.outcome_text(finding, was_requested)
        self.message = f"{finding.label}: {nodes_text} {outcome}" if nodes_text else f"{outcome}"
        self.setLayout(
            row(
                IconLabel("check-circle-fill", "good", ICON_NAV),
                Label(finding.label, "strong"),
                (Label(f"{nodes_text} {outcome}".strip(), "body", "text2", elide="right"), 1),
                gap=S3,
                margins=(0, S1, 0, S1),
            )
        )
        self.setAccessibleName(self.message)
