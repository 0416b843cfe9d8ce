"""The preflight check: all findings that prevent a start, with their fixes."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QSize, Qt, Signal, Slot
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QLayout, QWidget

from backend.records.jobs.placement import Placement
from backend.records.library.packages import module_of, package_of
from backend.records.nodes.preflight import Preflight, PreflightFinding, TrialResult
from widgets.common import formats
from widgets.common.buttons import Button, IconButton
from widgets.common.cards import ProgressLine, Separator, StyledFrame, VerticalScrollArea
from widgets.common.dialog import Dialog
from widgets.common.labels import IconLabel, Label
from widgets.common.layout import STRETCH, clear, col, row
from widgets.common.theme import ICON_LARGE, ICON_NAV, S1, S2, S3, S4, S6
from widgets.jobs.preflight import preflight_text
from widgets.jobs.preflight.preflight_row import FixedRow, PreflightRow

_WIDTH = 720
_MIN_ROWS_H, _MAX_ROWS_H, _MAX_TRACE_H = 96, 400, 120
_WINDOW_MARGIN_H = 48
"""The height of the window that stays visible above and below the dialog."""

_Key = tuple[str, tuple[str, ...], tuple[str, ...]]


class PreflightDialog(Dialog):
    """The findings of a preflight check; closing cancels a check, while fixes continue.

    Signals:
        fix_requested: A `PreflightFinding`.
        fix_all_requested: A tuple of them.
        check_again_requested: Check everything again.
        start_requested: Start the job as it is.
        start_on_requested: A tuple of `Placement`.
        trial_requested: Run one batch on the real ranks.
        install_requested: Install the package of this module, which the batch did not find.
        cancel_requested: Cancel the check that is under way.
    """

    fix_requested = Signal(object)
    fix_all_requested = Signal(object)
    check_again_requested = Signal()
    start_requested = Signal()
    start_on_requested = Signal(object)
    trial_requested = Signal()
    install_requested = Signal(str)
    cancel_requested = Signal()

    def __init__(self, can_try: bool, parent: QWidget | None = None) -> None:
        """Create the dialog; ``can_try``: the job exists, so one of its batches can be tried."""
        super().__init__("Preflight check", _WIDTH, parent)
        # Otherwise the first button would have the focus ring before a key is pressed.
        self.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        self._can_try = can_try
        self._preflight: Preflight | None = None
        self._placement: tuple[Placement, ...] = ()
        self._trial_result: TrialResult | None = None
        self._rows: dict[PreflightFinding, PreflightRow] = {}
        self._requested_fixes: set[_Key] = set()
        self._fixed_findings: dict[_Key, PreflightFinding] = {}
        self._is_busy = False
        self._make_parts()
        content = col(
            row(self._icon, (self._title, 1), self._close_icon, gap=10),
            self._summary,
            S2,
            self._scroll,
            self._passed_row,
            self._trial,
            self._refusal,
            self._progress,
            S2,
            row(
                *(
                    self._copy,
                    STRETCH,
                    self._repair_all,
                    self._start_smaller,
                    self._install,
                    self._try_batch,
                ),
                *(self._check_again, self._start),
                gap=S2,
            ),
            gap=S2,
            margins=(S6, S4, S6, S4),
        )
        # Wrapped text requests the height of a narrow page; `_fit_height` knows the width.
        content.setSizeConstraint(QLayout.SizeConstraint.SetNoConstraint)
        self.setLayout(content)
        self.show_busy("Checking the nodes")
        self.setFocus()

    def _make_parts(self) -> None:
        self._icon = IconLabel("info-fill", "text3", ICON_LARGE)
        self._title = Label("Preflight check", "title", elide="right")
        self._close_icon = IconButton("x", "Close")
        self._close_icon.clicked.connect(self.reject)
        self._summary = Label("", "body", "text2", wrap=True)
        self._list = col(gap=0)
        self._holder = QWidget()
        self._holder.setLayout(col(self._list, STRETCH, gap=0))
        self._scroll = VerticalScrollArea(self._holder)
        self._passed_checks = Label("", "body", "text2", elide="right")
        self._passed_count = Label("", "strong", "good")
        self._passed_row = QWidget()
        self._passed_row.setLayout(
            row(
                IconLabel("check-circle-fill", "good", ICON_NAV),
                self._passed_count,
                (self._passed_checks, 1),
                gap=S3,
                margins=(0, S1, 0, S1),
            )
        )
        self._make_trial()
        self._make_buttons()

    def _make_trial(self) -> None:
        self._trial_icon = IconLabel("check-circle-fill", "good", ICON_NAV)
        self._trial_message = Label("", "body", "text2", wrap=True, selectable=True)
        self._trace = Label("", "mono", "text2", selectable=True)
        self._trace_box = StyledFrame("sunken", col(self._trace, STRETCH, margins=(S3, S2, S3, S2)))
        self._trace_scroll = VerticalScrollArea(self._trace_box)
        self._trace_scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAsNeeded)
        self._trial = QWidget()
        self._trial.setLayout(
            col(
                row(
                    col(self._trial_icon, STRETCH, gap=0),
                    col(Label("Trial", "strong"), STRETCH, gap=0),
                    (self._trial_message, 1),
                    gap=S3,
                ),
                self._trace_scroll,
                gap=S2,
            )
        )
        self._trial.hide()
        self._refusal = Label("", "body", "bad", wrap=True, selectable=True)
        self._refusal.hide()
        self._progress = ProgressLine("")
        self._progress.cancelled.connect(self.cancel_requested)

    def _make_buttons(self) -> None:
        self._copy = Button("Copy report", kind="quiet", icon="copy")
        self._copy.clicked.connect(self._copy_report)
        self._repair_all = Button("")
        self._repair_all.clicked.connect(self._request_all)
        self._start_smaller = Button("")
        self._start_smaller.clicked.connect(self._request_smaller)
        self._try_batch = Button(
            "Try one batch",
            tip="Run one batch on the real ranks; write a checkpoint and read it back",
        )
        self._try_batch.clicked.connect(self.trial_requested)
        self._install = Button("", icon="download-simple")
        self._install.clicked.connect(lambda: self.install_requested.emit(self._missing_module))
        self._check_again = Button("Check again", icon="arrow-clockwise")
        self._check_again.clicked.connect(self.check_again_requested)
        self._start = Button("Start", kind="primary", icon="play")
        self._start.clicked.connect(self.start_requested)
        for button in (
            *(self._copy, self._repair_all, self._start_smaller, self._install),
            *(self._try_batch, self._check_again, self._start),
        ):
            button.setAutoDefault(False)

    # -- input

    def show_preflight(self, preflight: Preflight, placement: Sequence[Placement]) -> None:
        """Show the findings, and where the job would run."""
        self._record_fixed(preflight, placement)
        working_keys = {
            self._key(f) for f, finding_row in self._rows.items() if finding_row.is_working
        }
        self._preflight, self._placement = preflight, tuple(placement)
        self._trial_result = None
        self._trial.hide()
        self._scroll.hide()
        clear(self._list)
        self._rows.clear()
        for finding in (*preflight.blocking_findings, *preflight.warnings):
            self._add_row(finding)
            if self._key(finding) in working_keys:
                self._rows[finding].show_working("")
        if self._fixed_findings:
            if self._rows:
                self._add_widget(Separator())
            self._list.addSpacing(S1)
        for key, finding in self._fixed_findings.items():
            self._add_widget(FixedRow(finding, key in self._requested_fixes))
        checks = preflight_text.passed_checks(preflight)
        self._passed_count.setText(f"{len(checks)} passed:")
        self._passed_checks.setText(" · ".join(checks))
        self.show_busy("")

    def _add_row(self, finding: PreflightFinding) -> None:
        if self._rows:
            self._add_widget(Separator())
        if finding.is_warning and all(not f.is_warning for f in self._rows):
            hint = Label("Warnings (the job can still start)", "small", "text3")
            self._list.addLayout(col(S2, hint, gap=0))
        finding_row = self._rows[finding] = PreflightRow(finding)
        finding_row.fix_requested.connect(self._request_fix)
        self._add_widget(finding_row)

    def _add_widget(self, widget: QWidget) -> None:
        self._list.addWidget(widget)
        # A part added to a visible page is hidden until the next event, and has no height.
        widget.show()

    def show_busy(self, message: str, share: float | None = None) -> None:
        """Show the action under way ("Checking 3 nodes"), which can be cancelled; "" for none."""
        self._is_busy = bool(message)
        if message:
            self._refusal.hide()
            self._progress.set_can_cancel(True)
            self._progress.set_progress(share, formats.with_ellipsis(message))
        self._update_state()

    def show_fixing(self, findings: Sequence[PreflightFinding], message: str = "") -> None:
        """Show that these findings are being fixed; ``message`` is the progress."""
        rows = [finding_row for finding, finding_row in self._rows.items() if finding in findings]
        has_idle_rows = not all(finding_row.is_working for finding_row in rows)
        for finding_row in rows:
            finding_row.show_working(message)
        if has_idle_rows:
            self._update_state()

    def show_fix_error(self, finding: PreflightFinding, message: str, remedy: str = "") -> None:
        """Show why a finding could not be fixed."""
        self._requested_fixes.discard(self._key(finding))
        finding_row = self._rows.get(finding)
        if finding_row is not None:
            finding_row.show_idle(f"{message} {remedy}".strip())
        self._update_state()

    def show_error(self, message: str, remedy: str = "") -> None:
        """Show why a check, a trial or a start failed."""
        self.show_busy("")
        self._refusal.setText(f"{message} {remedy}".strip())
        self._refusal.setVisible(bool(message))
        self._update_state()

    def show_trial(self, trial: TrialResult) -> None:
        """Show the result of the trial."""
        self._trial_result = trial
        icon, color_role = (
            ("check-circle-fill", "good") if trial.succeeded else ("x-circle-fill", "bad")
        )
        self._trial_icon.set_icon(icon, color_role)
        self._trial_message.setText(trial.message)
        self._trace.setText(trial.traceback.rstrip())
        height = self._trace.sizeHint().height() + 2 * S2
        self._trace_scroll.setFixedHeight(min(height, _MAX_TRACE_H))
        self._trace_scroll.setVisible(bool(trial.traceback))
        self._trial.show()
        self.show_busy("")

    # -- layout

    def _update_state(self) -> None:
        preflight = self._preflight
        is_fixing = any(finding_row.is_working for finding_row in self._rows.values())
        is_idle = not (self._is_busy or is_fixing)
        self._progress.setVisible(self._is_busy)
        self._scroll.setVisible(preflight is not None and bool(self._rows or self._fixed_findings))
        self._passed_row.setVisible(preflight is not None)
        for finding_row in self._rows.values():
            finding_row.set_fixable(not self._is_busy)
        self._copy.setVisible(preflight is not None)
        can_start = preflight is not None and preflight.succeeded
        self._start.setVisible(can_start)
        self._start.setEnabled(is_idle)
        self._start.set_kind("plain" if self._trial_failed else "primary")
        self._try_batch.setVisible(can_start and self._can_try)
        self._try_batch.setEnabled(is_idle)
        self._install.setText(f"Install {package_of(self._missing_module)}…")
        self._install.setVisible(bool(self._missing_module))
        self._install.setEnabled(is_idle)
        self._check_again.setVisible(preflight is not None)
        self._check_again.setEnabled(is_idle)
        self._check_again.set_kind("plain" if can_start else "primary")
        fixable_findings = self._fixable_findings()
        self._repair_all.setText(f"Fix all {len(fixable_findings)}")
        self._repair_all.setVisible(len(fixable_findings) > 1)
        self._repair_all.setEnabled(not self._is_busy)
        smaller_placements = preflight.smaller_placement if preflight is not None else ()
        self._start_smaller.setVisible(bool(smaller_placements))
        self._start_smaller.setEnabled(is_idle)
        if preflight is not None:
            self._show_result(preflight, smaller_placements)
        self._fit_height()

    def _show_result(self, preflight: Preflight, smaller_placements: Sequence[Placement]) -> None:
        icon, color_role = ("check-circle-fill", "good")
        if not preflight.succeeded or self._trial_failed:
            icon, color_role = ("warning-octagon-fill", "bad")
        self._icon.set_icon(icon, color_role)
        failure_title = "One batch of this job could not be trained"
        self._title.setText(
            failure_title if self._trial_failed else preflight_text.heading_text(preflight)
        )
        self._summary.setText(preflight_text.summary_text(preflight))
        self._start.setText(f"Start on {preflight_text.slots_text(self._placement)}")
        if smaller_placements:
            self._start_smaller.setText(
                preflight_text.start_text(smaller_placements, preflight.nodes)
            )

    def _fit_height(self) -> None:
        """Set the height that the findings need, up to that of a small window."""
        rows_h = self._rows_height()
        layout, parent = self.layout(), self.parentWidget()
        if layout is None:
            return
        # A scroll area gives wrapped text the height that it had on a narrow page.
        self._holder.setFixedHeight(rows_h)
        self._scroll.setFixedHeight(0)
        layout.activate()
        available_h = _MAX_ROWS_H
        if parent is not None:
            available_h = min(
                available_h,
                parent.window().height() - _WINDOW_MARGIN_H - layout.totalHeightForWidth(_WIDTH),
            )
        self._scroll.setFixedHeight(max(0, min(rows_h, max(_MIN_ROWS_H, available_h))))
        layout.activate()
        self.resize(QSize(_WIDTH, layout.totalHeightForWidth(_WIDTH)))

    def _rows_height(self) -> int:
        layout = self._holder.layout()
        width = _WIDTH - 2 * S6 - S2
        return max(0, layout.totalHeightForWidth(width)) if layout is not None else 0

    @property
    def _missing_module(self) -> str:
        """The module that the tried batch did not find, "" for none."""
        return module_of(self._trial_result.traceback) if self._trial_result is not None else ""

    @property
    def _trial_failed(self) -> bool:
        return self._trial_result is not None and not self._trial_result.succeeded

    def _fixable_findings(self) -> tuple[PreflightFinding, ...]:
        return tuple(
            finding
            for finding, finding_row in self._rows.items()
            if not (finding.fix.needs_a_person or finding_row.is_working)
        )

    def _record_fixed(self, preflight: Preflight, placement: Sequence[Placement]) -> None:
        if self._preflight is None:
            return
        current_keys = {self._key(f) for f in (*preflight.blocking_findings, *preflight.warnings)}
        placement_nodes = {p.node for p in placement}
        for finding in (*self._preflight.blocking_findings, *self._preflight.warnings):
            key = self._key(finding)
            # A finding that is gone because its node was left out was not fixed.
            if key not in current_keys and (
                key in self._requested_fixes or placement_nodes.issuperset(finding.nodes)
            ):
                self._fixed_findings[key] = finding
        for key in current_keys:
            self._fixed_findings.pop(key, None)

    @staticmethod
    def _key(finding: PreflightFinding) -> _Key:
        return finding.check, finding.nodes, finding.gpus

    # -- events

    @Slot(object)
    def _request_fix(self, finding: PreflightFinding) -> None:
        self._requested_fixes.add(self._key(finding))
        self.fix_requested.emit(finding)

    @Slot()
    def _request_all(self) -> None:
        findings = self._fixable_findings()
        self._requested_fixes.update(self._key(finding) for finding in findings)
        self.fix_all_requested.emit(findings)

    @Slot()
    def _request_smaller(self) -> None:
        if self._preflight is not None:
            self.start_on_requested.emit(self._preflight.smaller_placement)

    @Slot()
    def _copy_report(self) -> None:
        if self._preflight is not None:
            QGuiApplication.clipboard().setText(
                preflight_text.report_text(self._preflight, self._trial_result)
            )
