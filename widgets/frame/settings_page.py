"""Settings: appearance, notices, where things are, and what this installation can do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from backend.records.node import Finding
from widgets.common.buttons import Button, IconButton, SegmentedControl, Switch
from widgets.common.cards import Card, PageHeader, Rule, Scroll
from widgets.common.layout import STRETCH, clear, col, row
from widgets.common.text import IconLabel, Label, plain_tip
from widgets.common.theme import FORM_MAX_W, ICON_NAV, PAGE_MARGIN, S1, S2, S3, S4
from widgets.frame.notice_settings import NoticeSettings

SCALES = (100, 110, 125, 150, 175, 200)
"""Percent of what the system says."""
_THEMES = (("system", "As the system"), ("light", "Light"), ("dark", "Dark"))


@dataclass(frozen=True)
class Places:
    """Where things are, as paths that a person can open."""

    data_root: str
    catalogue: str
    settings: str
    known_hosts: str
    log: str


class SettingsPage(QWidget):
    """Every choice applies at once; there is nothing to confirm.

    Signals:
        theme_chosen: ``system``, ``light`` or ``dark``.
        scale_chosen: Percent; seen from the window's next start on.
        restart_requested: Close the window and open it anew; jobs go on.
        motion_chosen: Whether nothing may turn or slide.
        place_opened: A path, for the file manager.
        checks_requested: Look again at what is installed.
        report_requested: A file for whoever is to help.
        keys_requested: The sheet of all keys.
        help_requested: The pages of the help.
    """

    theme_chosen = Signal(str)
    scale_chosen = Signal(int)
    restart_requested = Signal()
    motion_chosen = Signal(bool)
    place_opened = Signal(str)
    checks_requested = Signal()
    report_requested = Signal()
    keys_requested = Signal()
    help_requested = Signal()

    def __init__(self, version: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("page")
        self._theme = SegmentedControl(_THEMES, "system", name="Theme")
        self._theme.chosen.connect(self.theme_chosen)
        self._scale = SegmentedControl(
            [(str(scale), f"{scale} %") for scale in SCALES], "100", name="Size"
        )
        for key, does in (("Ctrl++", "Larger"), ("Ctrl+-", "Smaller"), ("Ctrl+0", "100 %")):
            self._scale.add_tip(plain_tip(does, key))
        self._scale.chosen.connect(self._choose_scale)
        self._scale_now = 100
        self._restart = Button("Restart the window", icon="arrow-clockwise")
        self._restart.clicked.connect(self.restart_requested)
        self._restart_line = _Line(
            "The size is used from the next start on", "Jobs go on meanwhile.", self._restart
        )
        self._motion = Switch(name="Reduce motion")
        self._motion.toggled.connect(self.motion_chosen)
        self.notices = NoticeSettings()
        self._places = QVBoxLayout()
        self._places.setSpacing(0)
        self._checks = QVBoxLayout()
        self._checks.setSpacing(S2)
        self._again = Button("Look again")
        self._again.clicked.connect(self._look_again)
        keys = Button("Keys", icon="keyboard", tip=plain_tip("All keys", "?"))
        keys.clicked.connect(self.keys_requested)
        pages = Button("Help", icon="question", tip=plain_tip("Help", "F1"))
        pages.clicked.connect(self.help_requested)
        report = Button("Report a problem…", icon="first-aid")
        report.clicked.connect(self.report_requested)
        body = QWidget()
        body.setMaximumWidth(FORM_MAX_W)
        body.setLayout(
            col(
                _section(
                    "Appearance",
                    _Line("Theme", "", self._theme),
                    _Line("Size", "Of texts and everything else.", self._scale),
                    self._restart_line,
                    _Line("Reduce motion", "Nothing turns or slides.", self._motion),
                ),
                _section("Notices", self.notices),
                _section("Where things are", self._places),
                _section(
                    "This installation",
                    self._checks,
                    row(Label(f"Ringmaster {version}", "small", "text3"), STRETCH, self._again),
                ),
                _section(
                    "Help",
                    _Line("Help", "The guide, the nodes, and what the words mean.", pages),
                    _Line("Keys", "All of them, by place.", keys),
                    _Line(
                        "Something does not work",
                        "Writes one file with logs and versions; secrets are left out, and "
                        "nothing is sent.",
                        report,
                    ),
                ),
                STRETCH,
                gap=S4,
                margins=(PAGE_MARGIN, 0, PAGE_MARGIN, PAGE_MARGIN),
            )
        )
        holder = QWidget()
        holder.setLayout(row((body, 100), STRETCH, gap=0, top=False))
        self.setLayout(col(PageHeader("Settings"), (Scroll(holder), 1), gap=0))
        self._restart_line.hide()

    def show_choices(
        self,
        theme: str,
        scale_percent: int,
        reduced_motion: bool,
        tells_finished: bool,
        stays_in_tray: bool,
    ) -> None:
        """What is chosen now."""
        self._theme.choose(theme)
        self._scale.choose(str(scale_percent))
        blocked = self._motion.blockSignals(True)
        self._motion.setChecked(reduced_motion)
        self._motion.blockSignals(blocked)
        self.notices.show_finished(tells_finished)
        self.notices.show_stays(stays_in_tray)
        self._restart_line.setVisible(scale_percent != self._scale_now)

    def set_scale_now(self, percent: int) -> None:
        """The size with which this window was opened."""
        self._scale_now = percent

    def show_places(self, places: Places) -> None:
        clear(self._places)
        for caption, path in (
            ("Data root", places.data_root),
            ("Catalogue", places.catalogue),
            ("Host keys that were accepted", places.known_hosts),
            ("These settings", places.settings),
            ("Log of this window", places.log),
        ):
            self._places.addLayout(self._place_line(caption, path))

    def show_checks(self, findings: Sequence[Finding]) -> None:
        """What is installed here, one line each; what is missing with what mends it."""
        self._again.setEnabled(True)
        clear(self._checks)
        for finding in findings:
            icon, tone = ("check-circle-fill", "good") if finding.ok else ("warning-fill", "warn")
            words = col(Label(finding.sentence, "body", wrap=True), gap=S1)
            if finding.remedy and not finding.ok:
                remedy = Label(finding.remedy, "small", "text2", wrap=True, selectable=True)
                words.addWidget(remedy)
            self._checks.addLayout(
                row(IconLabel(icon, tone, ICON_NAV), (words, 1), gap=S3, top=True)
            )

    def show_checking(self) -> None:
        self._again.setEnabled(False)
        clear(self._checks)
        self._checks.addWidget(Label("Looking…", "body", "text3"))

    @Slot(str)
    def _choose_scale(self, key: str) -> None:
        self.scale_chosen.emit(int(key))

    @Slot()
    def _look_again(self) -> None:
        self.show_checking()
        self.checks_requested.emit()

    def _place_line(self, caption: str, path: str) -> QHBoxLayout:
        button = IconButton("folder-open", f"Open {caption.lower()}")
        button.setEnabled(bool(path))
        button.clicked.connect(lambda: self.place_opened.emit(path))
        return row(
            Label(caption, "body"),
            S3,
            (Label(path or "none", "mono", "text2", elide="middle", align="right"), 1),
            button,
            gap=S2,
        )


def _section(title: str, *lines: QWidget | QHBoxLayout | QVBoxLayout) -> QWidget:
    """A card under its heading, a rule between its lines."""
    parts: list[QWidget | QHBoxLayout | QVBoxLayout] = []
    for line in lines:
        if parts and isinstance(line, _Line):
            line.set_ruled()
        parts.append(line)
    holder = QWidget()
    holder.setLayout(col(Label(title, "heading"), Card(*parts, gap=S3), gap=S2))
    return holder


class _Line(QWidget):
    """Words on the left, what is chosen on the right."""

    def __init__(self, title: str, sentence: str, control: QWidget) -> None:
        super().__init__()
        words = col(Label(title, "body"), gap=S1)
        if sentence:
            words.addWidget(Label(sentence, "small", "text2", wrap=True))
        self._rule = Rule()
        self._rule.hide()
        line = row((words, 1), control, gap=S4)
        line.setAlignment(control, Qt.AlignmentFlag.AlignVCenter)
        self.setLayout(col(self._rule, line, gap=S3))

    def set_ruled(self) -> None:
        self._rule.show()
