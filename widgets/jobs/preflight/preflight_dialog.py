"""The preflight check: all findings that prevent a start, with their fixes."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QSize, Qt, Signal, Slot
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QLayout, QWidget

from backend.records.jobs.placement import Placement
from backend.records.library.packages import module_of, package_of
from backend.records.nodes.preflight import TrialResult, Preflight, PreflightFinding
from widgets.common import formats
from widgets.common.buttons import Button, IconButton
from widgets.common.cards import ProgressLine, VerticalScrollArea, Separator, StyledFrame
from widgets.common.dialog import Dialog
from widgets.common.labels import IconLabel, Label
from widgets.common.layout import STRETCH, clear, col, row
from widgets.common.theme import ICON_LARGE, ICON_NAV, S1, S2, S3, S4, S6
from widgets.jobs.preflight import preflight_text as words
from widgets.jobs.preflight.preflight_row import DoneRow, PreflightRow

_WIDTH = 720
_LEAST_ROWS_H, _MOST_ROWS_H, _MOST_TRACE_H = 96, 400, 120
_AROUND = 48
"""The height of the window that stays visible above and below the dialog."""

_Key = tuple[str, tuple[str, ...], tuple[str, ...]]


class PreflightDialog(Dialog):
    """Closing it cancels a check; fixes that are under way continue.

    Signals:
        fix_requested: A `PreflightFinding`.
        fix_all_requested: A tuple of them.
        check_again_requested: Check everything again.
        start_requested: Start the job as it is.
        start_on_requested: A tuple of `Placement`.
        canary_requested: Run one batch on the real ranks.
        install_requested: Install the package of this module, which the batch did not find.
        cancel_requested: Cancel the check that is under way.
    """

    fix_requested = Signal(object)
    fix_all_requested = Signal(object)
    check_again_requested = Signal()
    start_requested = Signal()
    start_on_requested = Signal(object)
    canary_requested = Signal()
    install_requested = Signal(str)
    cancel_requested = Signal()

    def __init__(self, can_try: bool, parent: QWidget | None = None) -> None:
        """Create the dialog; ``can_try``: the job exists, so one of its batches can be tried."""
        super().__init__("Preflight check", _WIDTH, parent)
        # Otherwise the first button would have the focus ring before a key is pressed.
        self.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        self._can_try = can_try
        self._found: Preflight | None = None
        self._placement: tuple[Placement, ...] = ()
        self._canary: TrialResult | None = None
        self._rows: dict[PreflightFinding, PreflightRow] = {}
        self._asked: set[_Key] = set()
        self._done: dict[_Key, PreflightFinding] = {}
        self._is_busy = False
        self._make_parts()
        whole = col(
            row(self._icon, (self._title, 1), self._cross, gap=10),
            self._sentence,
            S2,
            self._scroll,
            self._passed_row,
            self._trial,
            self._refusal,
            self._progress,
            S2,
            row(
                *(self._copy, STRETCH, self._repair_all, self._smaller, self._install, self._try),
                *(self._again, self._start),
                gap=S2,
            ),
            gap=S2,
            margins=(S6, S4, S6, S4),
        )
        # Wrapped text requests the height of a narrow page; `_fit` knows the width.
        whole.setSizeConstraint(QLayout.SizeConstraint.SetNoConstraint)
        self.setLayout(whole)
        self.show_busy("Checking the nodes")
        self.setFocus()

    def _make_parts(self) -> None:
        self._icon = IconLabel("info-fill", "text3", ICON_LARGE)
        self._title = Label("Preflight check", "title", elide="right")
        self._cross = IconButton("x", "Close")
        self._cross.clicked.connect(self.reject)
        self._sentence = Label("", "body", "text2", wrap=True)
        self._list = col(gap=0)
        self._holder = QWidget()
        self._holder.setLayout(col(self._list, STRETCH, gap=0))
        self._scroll = VerticalScrollArea(self._holder)
        self._passed = Label("", "body", "text2", elide="right")
        self._passed_count = Label("", "strong", "good")
        self._passed_row = QWidget()
        self._passed_row.setLayout(
            row(
                IconLabel("check-circle-fill", "good", ICON_NAV),
                self._passed_count,
                (self._passed, 1),
                gap=S3,
                margins=(0, S1, 0, S1),
            )
        )
        self._trial_icon = IconLabel("check-circle-fill", "good", ICON_NAV)
        self._trial_words = Label("", "body", "text2", wrap=True, selectable=True)
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
                    (self._trial_words, 1),
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
        self._copy = Button("Copy report", kind="quiet", icon="copy")
        self._copy.clicked.connect(self._copy_report)
        self._repair_all = Button("")
        self._repair_all.clicked.connect(self._request_all)
        self._smaller = Button("")
        self._smaller.clicked.connect(self._request_smaller)
        self._try = Button(
            "Try one batch",
            tip="Run one batch on the real ranks; write a checkpoint and read it back",
        )
        self._try.clicked.connect(self.canary_requested)
        self._install = Button("", icon="download-simple")
        self._install.clicked.connect(lambda: self.install_requested.emit(self._lacks))
        self._again = Button("Check again", icon="arrow-clockwise")
        self._again.clicked.connect(self.check_again_requested)
        self._start = Button("Start", kind="primary", icon="play")
        self._start.clicked.connect(self.start_requested)
        acts = (self._repair_all, self._smaller, self._install, self._try, self._again, self._start)
        for one in (self._copy, *acts):
            one.setAutoDefault(False)

    # -- input

    def show_found(self, found: Preflight, placement: Sequence[Placement]) -> None:
        """Show the findings, and where the job would run."""
        self._note_done(found, placement)
        working = {self._key(one) for one, line in self._rows.items() if line.is_working}
        self._found, self._placement = found, tuple(placement)
        self._canary = None
        self._trial.hide()
        self._scroll.hide()
        clear(self._list)
        self._rows.clear()
        for finding in (*found.blocking_findings, *found.warnings):
            self._make(finding)
            if self._key(finding) in working:
                self._rows[finding].show_working("")
        if self._done:
            if self._rows:
                self._put(Separator())
            self._list.addSpacing(S1)
        for key, finding in self._done.items():
            self._put(DoneRow(finding, key in self._asked))
        passed = words.passed(found)
        self._passed_count.setText(f"{len(passed)} passed:")
        self._passed.setText(" · ".join(passed))
        self.show_busy("")

    def _make(self, finding: PreflightFinding) -> None:
        if self._rows:
            self._put(Separator())
        if finding.is_warning and all(not one.is_warning for one in self._rows):
            hint = Label("Warnings (the job can still start)", "small", "text3")
            self._list.addLayout(col(S2, hint, gap=0))
        line = self._rows[finding] = PreflightRow(finding)
        line.fix_requested.connect(self._request_fix)
        self._put(line)

    def _put(self, part: QWidget) -> None:
        self._list.addWidget(part)
        # A part added to a visible page is hidden until the next event, and has no height.
        part.show()

    def show_busy(self, sentence: str, share: float | None = None) -> None:
        """Show the action under way ("Checking 3 nodes"), which can be cancelled; "" for none."""
        self._is_busy = bool(sentence)
        if sentence:
            self._refusal.hide()
            self._progress.set_can_cancel(True)
            self._progress.set_progress(share, formats.with_ellipsis(sentence))
        self._settle()

    def show_fixing(self, findings: Sequence[PreflightFinding], sentence: str = "") -> None:
        """Show that these are being fixed; ``sentence`` is the progress."""
        lines = [line for one, line in self._rows.items() if one in findings]
        has_answers = not all(line.is_working for line in lines)
        for line in lines:
            line.show_working(sentence)
        if has_answers:
            self._settle()

    def show_not_repaired(self, finding: PreflightFinding, sentence: str, remedy: str = "") -> None:
        """Show why a finding could not be fixed."""
        self._asked.discard(self._key(finding))
        row_of = self._rows.get(finding)
        if row_of is not None:
            row_of.show_idle(f"{sentence} {remedy}".strip())
        self._settle()

    def show_error(self, sentence: str, remedy: str = "") -> None:
        """Show why a check, a trial or a start failed."""
        self.show_busy("")
        self._refusal.setText(f"{sentence} {remedy}".strip())
        self._refusal.setVisible(bool(sentence))
        self._settle()

    def show_canary(self, canary: TrialResult) -> None:
        """Show the result of the trial."""
        self._canary = canary
        icon, tone = ("check-circle-fill", "good") if canary.succeeded else ("x-circle-fill", "bad")
        self._trial_icon.set_icon(icon, tone)
        self._trial_words.setText(canary.message)
        self._trace.setText(canary.traceback.rstrip())
        high = self._trace.sizeHint().height() + 2 * S2
        self._trace_scroll.setFixedHeight(min(high, _MOST_TRACE_H))
        self._trace_scroll.setVisible(bool(canary.traceback))
        self._trial.show()
        self.show_busy("")

    # -- layout

    def _settle(self) -> None:
        found = self._found
        fixing = any(line.is_working for line in self._rows.values())
        rests = not (self._is_busy or fixing)
        self._progress.setVisible(self._is_busy)
        self._scroll.setVisible(found is not None and bool(self._rows or self._done))
        self._passed_row.setVisible(found is not None)
        for line in self._rows.values():
            line.set_able(not self._is_busy)
        self._copy.setVisible(found is not None)
        passed = found is not None and found.succeeded
        self._start.setVisible(passed)
        self._start.setEnabled(rests)
        self._start.set_kind("plain" if self._canary_failed else "primary")
        self._try.setVisible(passed and self._can_try)
        self._try.setEnabled(rests)
        self._install.setText(f"Install {package_of(self._lacks)}…")
        self._install.setVisible(bool(self._lacks))
        self._install.setEnabled(rests)
        self._again.setVisible(found is not None)
        self._again.setEnabled(rests)
        self._again.set_kind("plain" if passed else "primary")
        mendable = self._mendable()
        self._repair_all.setText(f"Fix all {len(mendable)}")
        self._repair_all.setVisible(len(mendable) > 1)
        self._repair_all.setEnabled(not self._is_busy)
        smaller = found.smaller if found is not None else ()
        self._smaller.setVisible(bool(smaller))
        self._smaller.setEnabled(rests)
        if found is not None:
            self._show_result(found, smaller)
        self._fit()

    def _show_result(self, found: Preflight, smaller: Sequence[Placement]) -> None:
        icon, tone = ("check-circle-fill", "good")
        if not found.succeeded or self._canary_failed:
            icon, tone = ("warning-octagon-fill", "bad")
        self._icon.set_icon(icon, tone)
        one_batch = "One batch of this job could not be trained"
        self._title.setText(one_batch if self._canary_failed else words.heading(found))
        self._sentence.setText(words.circumstances(found))
        self._start.setText(f"Start on {words.slots(self._placement)}")
        if smaller:
            self._smaller.setText(words.start_on(smaller, found.nodes))

    def _fit(self) -> None:
        """Set the height that the findings need, up to that of a small window."""
        wanted = self._rows_height()
        own, above = self.layout(), self.parentWidget()
        if own is None:
            return
        # A scroll area gives wrapped text the height that it had on a narrow page.
        self._holder.setFixedHeight(wanted)
        self._scroll.setFixedHeight(0)
        own.activate()
        room = _MOST_ROWS_H
        if above is not None:
            room = min(room, above.window().height() - _AROUND - own.totalHeightForWidth(_WIDTH))
        self._scroll.setFixedHeight(max(0, min(wanted, max(_LEAST_ROWS_H, room))))
        own.activate()
        self.resize(QSize(_WIDTH, own.totalHeightForWidth(_WIDTH)))

    def _rows_height(self) -> int:
        layout = self._holder.layout()
        width = _WIDTH - 2 * S6 - S2
        return max(0, layout.totalHeightForWidth(width)) if layout is not None else 0

    @property
    def _lacks(self) -> str:
        """The module that the tried batch did not find, "" for none."""
        return module_of(self._canary.traceback) if self._canary is not None else ""

    @property
    def _canary_failed(self) -> bool:
        return self._canary is not None and not self._canary.succeeded

    def _mendable(self) -> tuple[PreflightFinding, ...]:
        return tuple(
            finding
            for finding, line in self._rows.items()
            if not (finding.fix.needs_a_person or line.is_working)
        )

    def _note_done(self, found: Preflight, placement: Sequence[Placement]) -> None:
        if self._found is None:
            return
        now = {self._key(one) for one in (*found.blocking_findings, *found.warnings)}
        there = {one.node for one in placement}
        for finding in (*self._found.blocking_findings, *self._found.warnings):
            key = self._key(finding)
            # A finding that is gone because its node was left out was not fixed.
            if key not in now and (key in self._asked or there.issuperset(finding.nodes)):
                self._done[key] = finding
        for key in now:
            self._done.pop(key, None)

    @staticmethod
    def _key(finding: PreflightFinding) -> _Key:
        return finding.check, finding.nodes, finding.gpus

    # -- events

    @Slot(object)
    def _request_fix(self, finding: PreflightFinding) -> None:
        self._asked.add(self._key(finding))
        self.fix_requested.emit(finding)

    @Slot()
    def _request_all(self) -> None:
        wanted = self._mendable()
        self._asked.update(self._key(finding) for finding in wanted)
        self.fix_all_requested.emit(wanted)

    @Slot()
    def _request_smaller(self) -> None:
        if self._found is not None:
            self.start_on_requested.emit(self._found.smaller)

    @Slot()
    def _copy_report(self) -> None:
        if self._found is not None:
            QGuiApplication.clipboard().setText(words.report(self._found, self._canary))
