"""Choose between light and dark, and the scale, and apply changes through Qt.

The one object that changes the appearance of the application. It is created once, in the bootstrap,
after the `QApplication`, and lives as long. Widgets do not need it: see `theme`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import Enum

from PySide6.QtCore import QObject, Qt, Signal, Slot
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import QApplication, QStyleFactory, QWidget

from widgets.common import formats, style, theme
from widgets.common.panes import restyle

_IS_POLISHED = Qt.WidgetAttribute.WA_WState_Polished
_HAS_OWN_STYLE = Qt.WidgetAttribute.WA_SetStyle


class ThemeChoice(Enum):
    """The user's choice. The value is stored in the settings."""

    SYSTEM = "system"
    LIGHT = "light"
    DARK = "dark"


class ThemeManager(QObject):
    """Style the application, and again whenever the system or the user changes a setting.

    Signals:
        changed: Theme, contrast or motion changed. The window was repainted already; connect only
        a widget that *shows* the choice, as the button with moon or sun.
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
        # Fusion is the one style that looks the same everywhere, so parts that the sheet does not
        # style look the same too.
        app.setStyle(QStyleFactory.create("Fusion"))
        app.setFont(theme.font("body"))
        # Qt 6.10 and newer report whether more contrast is requested.
        self._accessibility = getattr(self._hints, "accessibility", lambda: None)()
        self._follow_system()
        self._apply_theme()
        self._hints.colorSchemeChanged.connect(self._scheme_changed)
        if self._accessibility is not None:
            self._accessibility.contrastPreferenceChanged.connect(self._refresh)

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

    def reduce_motion(self, is_reduced: bool) -> None:
        """Disable animations."""
        self._reduced_motion = is_reduced
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
            self._restyle_widgets()

    @Slot(Qt.ColorScheme)
    def _scheme_changed(self, scheme: Qt.ColorScheme) -> None:
        self._system = scheme
        self._refresh()

    def _follow_system(self) -> None:
        """Make the title bar and the system's own dialogs as dark as the window."""
        if self._choice is ThemeChoice.SYSTEM:
            self._hints.unsetColorScheme()
            self._system = self._hints.colorScheme()
        else:
            is_dark = self._choice is ThemeChoice.DARK
            self._hints.setColorScheme(Qt.ColorScheme.Dark if is_dark else Qt.ColorScheme.Light)

    def _refresh(self) -> None:
        if self._apply_theme():
            self.changed.emit()

    def _selected_theme(self) -> theme.Theme:
        is_dark = self._choice is ThemeChoice.DARK or (
            self._choice is ThemeChoice.SYSTEM and self._system is Qt.ColorScheme.Dark
        )
        selected_theme = theme.DARK if is_dark else theme.LIGHT
        is_high = self._high_contrast or self._system_wants_contrast()
        return selected_theme.with_high_contrast() if is_high else selected_theme

    def _system_wants_contrast(self) -> bool:
        hints = self._accessibility
        return (
            hints is not None and hints.contrastPreference() is Qt.ContrastPreference.HighContrast
        )

    def _apply_theme(self) -> bool:
        selected_theme, motion_reduced = self._selected_theme(), self._reduced_motion
        is_styled = bool(self._app.styleSheet())
        if (
            is_styled
            and selected_theme == theme.current()
            and motion_reduced == theme.motion_reduced()
        ):
            return False
        theme.set_theme(selected_theme)
        theme.reduce_motion(motion_reduced)
        self._app.setPalette(palette(selected_theme))
        self._restyle_widgets()
        return True

    def _restyle_widgets(self) -> None:
        # Qt would style and lay out each of 3,000 widgets twice: 0.7 s. So `restyle` styles those
        # that are visible.
        sheet = style.sheet(theme.current())
        _set_style_sheets(self._app, _styled_widgets(self._app), "", sheet)
        for window in self._app.topLevelWidgets():
            if window.parentWidget() is None:
                restyle(window)


@contextmanager
def unstyled(app: QApplication) -> Iterator[None]:
    """Build widgets in the block without the style sheet; they get it when the block ends.

    With a style sheet, Qt styles a widget again whenever a layout puts a parent around it: half of
    the time that a page takes. Widgets that exist already are not styled again.
    """
    sheet, widgets = app.styleSheet(), _styled_widgets(app)
    _set_style_sheets(app, widgets, "")
    try:
        yield
    finally:
        _set_style_sheets(app, widgets, sheet)


def _styled_widgets(app: QApplication) -> list[QWidget]:
    return [
        widget
        for widget in app.allWidgets()
        if widget.testAttribute(_IS_POLISHED) and not widget.testAttribute(_HAS_OWN_STYLE)
    ]


def _set_style_sheets(app: QApplication, widgets: Sequence[QWidget], *sheets: str) -> None:
    """Set style sheets in turn; ``widgets`` say meanwhile that they need no style."""
    for widget in widgets:
        widget.setAttribute(_IS_POLISHED, False)
        widget.setAttribute(_HAS_OWN_STYLE)
    for sheet in sheets:
        app.setStyleSheet(sheet)
    for widget in widgets:
        widget.setAttribute(_IS_POLISHED)
        widget.setAttribute(_HAS_OWN_STYLE, False)


def palette(t: theme.Theme) -> QPalette:
    """The palette, for parts that no style sheet reaches: placeholders, selections, links."""
    result = QPalette()
    roles = QPalette.ColorRole
    for color_role, token in (
        (roles.Window, "canvas"),
        (roles.Base, "surface"),
        (roles.AlternateBase, "hover"),
        (roles.Button, "surface"),
        (roles.WindowText, "text"),
        (roles.Text, "text"),
        (roles.ButtonText, "text"),
        (roles.BrightText, "bad"),
        (roles.PlaceholderText, "text3"),
        (roles.ToolTipBase, "ink"),
        (roles.ToolTipText, "on_ink"),
        (roles.Highlight, "selected"),
        (roles.HighlightedText, "text"),
        (roles.Link, "live"),
        (roles.LinkVisited, "live"),
        (roles.Light, "line"),
        (roles.Midlight, "line"),
        (roles.Mid, "line"),
        (roles.Dark, "line_strong"),
        (roles.Shadow, "shadow"),
        (roles.Accent, "ink"),
    ):
        result.setColor(color_role, t.q(token))
    for color_role in (roles.WindowText, roles.Text, roles.ButtonText):
        result.setColor(QPalette.ColorGroup.Disabled, color_role, t.q("text3"))
    return result


SCALES = (100, 110, 125, 150, 175, 200)
SCALE_VARIABLE = "QT_SCALE_FACTOR"


def scale_for(percent: int) -> str:
    """Qt's factor on top of the system's scale; read once, when the application starts."""
    return f"{(percent if percent in SCALES else 100) / 100:g}"
