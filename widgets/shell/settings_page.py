"""The settings: appearance, units, notifications, SSH, locations, and this installation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from PySide6.QtCore import QSignalBlocker, Signal, Slot
from PySide6.QtWidgets import QWidget

from backend.records.nodes.reading import Finding
from widgets.common import formats
from widgets.common.buttons import Button, SegmentedControl, Switch
from widgets.common.cards import PageHeader, VerticalScrollArea
from widgets.common.formats import Units
from widgets.common.labels import IconLabel, Label, plain_tip
from widgets.common.layout import STRETCH, clear, col, row
from widgets.common.theme import FORM_MAX_W, ICON_NAV, PAGE_MARGIN, S1, S3, S4
from widgets.common.theme_manager import SCALES
from widgets.shell.notification_settings import NoticeSettings
from widgets.shell.settings_rows import SettingsRow, path_line, section
from widgets.shell.ssh_settings import SshSettings
from widgets.shell.verify_section import VerifySection

"""Percent of the system's size."""
_THEMES = (("system", "Follow the system"), ("light", "Light"), ("dark", "Dark"))
_SIZES = (
    (formats.MIXED, "GiB in memory, GB on disks"),
    (formats.DECIMAL, "GB"),
    (formats.BINARY, "GiB"),
)
_TEMPERATURES = ((formats.CELSIUS, "°C"), (formats.FAHRENHEIT, "°F"))
_OWNER_RULE = "Other users of the data root then stop and remove no job of another one."
_CLOCKS = ((formats.HOURS_24, "14:02"), (formats.HOURS_12, "2:02 PM"))


@dataclass(frozen=True)
class SettingsValues:
    """The present settings."""

    theme: str = "system"
    scale_percent: int = 100
    high_contrast: bool = False
    reduced_motion: bool = False
    units: Units = field(default_factory=Units)
    notifies_finished: bool = True
    stays_in_tray: bool = False


@dataclass(frozen=True)
class SettingsPaths:
    """Locations that the user can open."""

    data_root: str
    catalogue: str
    settings: str
    log: str


class SettingsPage(QWidget):
    """Settings that apply at once, without confirmation.

    Signals:
        scale_chosen: Percent; takes effect after a restart of the window.
        units_chosen: `Units`.
        path_opened: A path, for the file manager.
        checks_requested: Check the installation again.

    Attributes:
        theme, restart, contrast, motion, owner_switch, keys, help, report: Controls; the window
            connects them.
    """

    scale_chosen = Signal(int)
    units_chosen = Signal(Units)
    path_opened = Signal(str)
    checks_requested = Signal()

    def __init__(self, version: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("page")
        self._make_controls()
        body = QWidget()
        body.setMaximumWidth(FORM_MAX_W)
        margins = (PAGE_MARGIN, 0, PAGE_MARGIN, PAGE_MARGIN)
        body.setLayout(col(*self._sections(version), STRETCH, gap=S4, margins=margins))
        holder = QWidget()
        holder.setLayout(row((body, 100), STRETCH, gap=0, top=False))
        self.setLayout(col(PageHeader("Settings"), (VerticalScrollArea(holder), 1), gap=0))
        self._restart_line.hide()

    def _make_controls(self) -> None:
        self.theme = SegmentedControl(_THEMES, "system", name="Theme")
        self._scale = SegmentedControl(
            [(str(scale), f"{scale} %") for scale in SCALES], "100", name="Size"
        )
        for key, tip in (("Ctrl++", "Zoom in"), ("Ctrl+-", "Zoom out"), ("Ctrl+0", "100 %")):
            self._scale.add_tip(plain_tip(tip, key))
        self._scale.key_chosen.connect(self._choose_scale)
        self._active_scale = 100
        self.restart = Button("Restart the window", icon="arrow-clockwise")
        self._restart_line = SettingsRow(
            "The size applies after a restart of the window", "Jobs keep running.", self.restart
        )
        self.contrast = Switch(name="More contrast")
        self.motion = Switch(name="Reduce motion")
        self._sizes = SegmentedControl(_SIZES, name="Sizes")
        self._temperature = SegmentedControl(_TEMPERATURES, name="Temperatures")
        self._clock = SegmentedControl(_CLOCKS, name="Time of day")
        for control in (self._sizes, self._temperature, self._clock):
            control.key_chosen.connect(
                lambda: self.units_chosen.emit(
                    Units(self._sizes.key(), self._temperature.key(), self._clock.key())
                )
            )
        self.notices = NoticeSettings()
        self.ssh = SshSettings()
        self.ssh.path_opened.connect(self.path_opened)
        self.verify = VerifySection()
        self.owner_switch = Switch(name="Only the owner stops")
        self._owner_row = SettingsRow("Only the owner stops a job", _OWNER_RULE, self.owner_switch)
        self._paths = col(gap=0)
        self._checks = col()
        self._recheck = Button("Check again")
        self._recheck.clicked.connect(self._refresh)
        self.keys = Button("Shortcuts", icon="keyboard", tip=plain_tip("Keyboard shortcuts", "?"))
        self.help = Button("Help", icon="question", tip=plain_tip("Help", "F1"))
        self.report = Button("Report a problem…", icon="first-aid")

    def _sections(self, version: str) -> tuple[QWidget, ...]:
        return (
            section(
                "Appearance",
                SettingsRow("Theme", "", self.theme),
                SettingsRow("Size", "Text and controls", self._scale),
                self._restart_line,
                SettingsRow(
                    "More contrast",
                    "Darker lines and text, and edges in place of tints. Follows the system "
                    "setting too.",
                    self.contrast,
                ),
                SettingsRow("Reduce motion", "No animations", self.motion),
            ),
            section(
                "Units",
                SettingsRow("Sizes", "", self._sizes),
                SettingsRow("Temperatures", "", self._temperature),
                SettingsRow("Time of day", "", self._clock),
            ),
            section("Notifications", self.notices),
            section("SSH", self.ssh),
            section("Locations", self._paths),
            section("Data root", self.verify, self._owner_row),
            section(
                "This installation",
                self._checks,
                row(Label(f"Ringmaster {version}", "small", "text3"), STRETCH, self._recheck),
            ),
            section(
                "Help",
                SettingsRow("Help", "The guide, the nodes, and a glossary", self.help),
                SettingsRow("Keyboard shortcuts", "All of them, by page", self.keys),
                SettingsRow(
                    "Problem report",
                    "Saves one file with logs and versions. It contains no secrets, and "
                    "nothing is sent.",
                    self.report,
                ),
            ),
        )

    def show_choices(self, choices: SettingsValues) -> None:
        self.theme.choose(choices.theme)
        self._scale.choose(str(choices.scale_percent))
        for switch, is_on in (
            (self.contrast, choices.high_contrast),
            (self.motion, choices.reduced_motion),
        ):
            with QSignalBlocker(switch):
                switch.setChecked(is_on)
        self._sizes.choose(choices.units.sizes)
        self._temperature.choose(choices.units.temperature)
        self._clock.choose(choices.units.clock)
        self.notices.show_finished(choices.notifies_finished)
        self.notices.show_stays_in_tray(choices.stays_in_tray)
        self._restart_line.setVisible(choices.scale_percent != self._active_scale)

    def set_active_scale(self, percent: int) -> None:
        """Set the size with which this window was opened."""
        self._active_scale = percent

    def show_paths(self, paths: SettingsPaths) -> None:
        clear(self._paths)
        for caption, path in (
            ("Data root", paths.data_root),
            ("Catalogue", paths.catalogue),
            ("These settings", paths.settings),
            ("Log of this window", paths.log),
        ):
            self._paths.addLayout(path_line(caption, path, self.path_opened.emit))

    def show_owner_rule(self, is_set: bool, refusal: str) -> None:
        """Show whether only its owner stops a job, and why this user may not change that."""
        self.owner_switch.setChecked(is_set)
        self.owner_switch.setEnabled(not refusal)
        self._owner_row.description.setText(f"{_OWNER_RULE} {refusal}".rstrip())

    def show_checks(self, findings: Sequence[Finding]) -> None:
        """Show the state of this installation, one line each; problems with their remedy."""
        self._recheck.setEnabled(True)
        clear(self._checks)
        for finding in findings:
            icon, color_role = (
                ("check-circle-fill", "good") if finding.ok else ("warning-fill", "warn")
            )
            texts = col(Label(finding.message, "body", wrap=True), gap=S1)
            if finding.remedy and not finding.ok:
                remedy = Label(finding.remedy, "small", "text2", wrap=True, selectable=True)
                texts.addWidget(remedy)
            self._checks.addLayout(
                row(IconLabel(icon, color_role, ICON_NAV), (texts, 1), gap=S3, top=True)
            )

    def show_checking(self) -> None:
        self._recheck.setEnabled(False)
        clear(self._checks)
        self._checks.addWidget(Label("Checking…", "body", "text3"))

    @Slot(str)
    def _choose_scale(self, key: str) -> None:
        self.scale_chosen.emit(int(key))

    @Slot()
    def _refresh(self) -> None:
        self.show_checking()
        self.checks_requested.emit()
