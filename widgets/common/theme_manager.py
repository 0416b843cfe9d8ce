"""Choose between light and dark, and apply changes through Qt.

The one object that changes the appearance of the application. It is created once, in the bootstrap,
after the `QApplication`, and lives as long. Widgets do not need it: see `theme`.
"""

from __future__ import annotations

from enum import Enum

from PySide6.QtCore import QObject, Qt, Signal, Slot
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import QApplication, QStyleFactory

from widgets.common import formats, style, theme
from widgets.common.page_stack import restyle


class ThemeChoice(Enum):
    """The user's choice. The value is stored in the settings."""

    SYSTEM = "system"
    LIGHT = "light"
    DARK = "dark"


class ThemeManager(QObject):
    """Style the application, and again whenever the system or the user changes a setting.

    Signals:
        changed: Theme, contrast or motion changed. Everything was repainted already; connect only
        what *shows* the choice, as the button with moon or sun.
    """

    changed = Signal()

    def __init__(
        self,
        app: QApplication,
        choice: ThemeChoice = ThemeChoice.SYSTEM,
        reduced_motion: bool = False,
        high_contrast: bool = False,
    ) -> None:
        super().__init__()
        self._app = app
        self._choice = choice
        self._reduced_motion = reduced_motion
        self._high_contrast = high_contrast
        self._hints = app.styleHints()
        self._system = self._hints.colorScheme()
        # Fusion is the one style that looks the same everywhere, so whatever the sheet does not
        # style looks the same too.
        app.setStyle(QStyleFactory.create("Fusion"))
        app.setFont(theme.font("body"))
        # Qt 6.10 and newer report whether more contrast is requested.
        self._accessibility = getattr(self._hints, "accessibility", lambda: None)()
        self._follow_system()
        self._dress()
        self._hints.colorSchemeChanged.connect(self._scheme_changed)
        if self._accessibility is not None:
            self._accessibility.contrastPreferenceChanged.connect(self._contrast_changed)

    @property
    def choice(self) -> ThemeChoice:
        """The user's choice; the application stores it."""
        return self._choice

    @property
    def is_dark(self) -> bool:
        """Return True if the window is dark now."""
        return theme.current().name == "dark"

    @property
    def reduced_motion(self) -> bool:
        return self._reduced_motion

    def choose(self, choice: ThemeChoice) -> None:
        """Follow the system, or not."""
        self._choice = choice
        self._follow_system()
        self._refresh()

    @Slot()
    def toggle(self) -> None:
        """Switch between dark and light: the action of the button in the side bar."""
        self.choose(ThemeChoice.LIGHT if self.is_dark else ThemeChoice.DARK)

    def reduce_motion(self, reduced: bool) -> None:
        """Disable animations."""
        self._reduced_motion = reduced
        self._refresh()

    def heighten_contrast(self, high: bool) -> None:
        """Use more contrast, even if the system does not request it."""
        self._high_contrast = high
        self._refresh()

    def set_units(self, units: formats.Units) -> None:
        """Use other units everywhere.

        As with another theme, every widget gets a ``StyleChange``; widgets that store figures as
        text format them again then.
        """
        if units != formats.units():
            formats.set_units(units)
            self._dress_again()

    @Slot(Qt.ColorScheme)
    def _scheme_changed(self, scheme: Qt.ColorScheme) -> None:
        self._system = scheme
        self._refresh()

    @Slot()
    def _contrast_changed(self) -> None:
        self._refresh()

    def _follow_system(self) -> None:
        """Make the title bar and the system's own dialogs as dark as the window."""
        if self._choice is ThemeChoice.SYSTEM:
            self._hints.unsetColorScheme()
            self._system = self._hints.colorScheme()
        else:
            dark = self._choice is ThemeChoice.DARK
            self._hints.setColorScheme(Qt.ColorScheme.Dark if dark else Qt.ColorScheme.Light)

    def _refresh(self) -> None:
        if self._dress():
            self.changed.emit()

    def _wanted(self) -> theme.Theme:
        dark = self._choice is ThemeChoice.DARK or (
            self._choice is ThemeChoice.SYSTEM and self._system is Qt.ColorScheme.Dark
        )
        wanted = theme.DARK if dark else theme.LIGHT
        is_high = self._high_contrast or self._system_wants_contrast()
        return wanted.contrasted() if is_high else wanted

    def _system_wants_contrast(self) -> bool:
        hints = self._accessibility
        return (
            hints is not None and hints.contrastPreference() is Qt.ContrastPreference.HighContrast
        )

    def _dress(self) -> bool:
        wanted, still = self._wanted(), self._reduced_motion
        dressed = bool(self._app.styleSheet())
        if dressed and wanted == theme.current() and still == theme.motion_reduced():
            return False
        theme.set_theme(wanted)
        theme.reduce_motion(still)
        self._app.setPalette(palette(wanted))
        self._dress_again()
        return True

    def _dress_again(self) -> None:
        # Qt would style each of 3,000 widgets twice, and lay it out twice: 0.7 s. So their marks
        # say meanwhile that no widget needs it, and `restyle` styles those that are shown.
        polished, has_own = Qt.WidgetAttribute.WA_WState_Polished, Qt.WidgetAttribute.WA_SetStyle
        widgets = [
            widget
            for widget in self._app.allWidgets()
            if widget.testAttribute(polished) and not widget.testAttribute(has_own)
        ]
        for widget in widgets:
            widget.setAttribute(polished, False)
            widget.setAttribute(has_own)
        self._app.setStyleSheet("")
        self._app.setStyleSheet(style.sheet(theme.current()))
        for widget in widgets:
            widget.setAttribute(polished)
            widget.setAttribute(has_own, False)
        for window in self._app.topLevelWidgets():
            if window.parentWidget() is None:
                restyle(window)


def palette(t: theme.Theme) -> QPalette:
    """The palette, for what no style sheet reaches: placeholders, selections, links."""
    result = QPalette()
    role = QPalette.ColorRole
    for where, token in (
        (role.Window, "canvas"),
        (role.Base, "surface"),
        (role.AlternateBase, "hover"),
        (role.Button, "surface"),
        (role.WindowText, "text"),
        (role.Text, "text"),
        (role.ButtonText, "text"),
        (role.BrightText, "bad"),
        (role.PlaceholderText, "text3"),
        (role.ToolTipBase, "ink"),
        (role.ToolTipText, "on_ink"),
        (role.Highlight, "selected"),
        (role.HighlightedText, "text"),
        (role.Link, "live"),
        (role.LinkVisited, "live"),
        (role.Light, "line"),
        (role.Midlight, "line"),
        (role.Mid, "line"),
        (role.Dark, "line_strong"),
        (role.Shadow, "shadow"),
        (role.Accent, "ink"),
    ):
        result.setColor(where, t.q(token))
    for where in (role.WindowText, role.Text, role.ButtonText):
        result.setColor(QPalette.ColorGroup.Disabled, where, t.q("text3"))
    return result
