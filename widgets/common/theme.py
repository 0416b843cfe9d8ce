"""The table of colours, sizes and fonts of the window. No widget has constants of its own.

How the theme reaches a widget: painting code calls `current()` each time it paints and stores no
colour. When the theme changes, `ThemeManager` swaps the table, sets palette and style sheet of the
application, and sends every widget a repaint and a ``StyleChange`` event (in a hidden page of a
`PageStack` when the page is shown); so a widget that stores something coloured (an icon, a pen)
recreates it in ``changeEvent``, and no widget needs a theme passed in or a signal. The alternative,
a theme passed through every constructor, lengthens each delegate and paint function for one value
that is the same everywhere in the process.

Contrasts and distances of these colours are checked by ``tests/widgets/common/test_theme.py``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

from PySide6.QtGui import QColor, QFont, QFontDatabase

Family = Literal["idle", "live", "warn", "rest", "good", "bad"]
"""The six meanings of a colour; every job state belongs to one (`JobState.color_role`)."""

ColorRole = Literal[
    "text", "text2", "text3", "live", "good", "rest", "warn", "bad", "idle", "on_ink", "ink"
]
"""The possible colours of a text or an icon."""

FAMILY_COLOR_ROLES: dict[Family, ColorRole] = {
    "live": "live",
    "good": "good",
    "rest": "rest",
    "warn": "warn",
    "bad": "bad",
    "idle": "text2",
}
"""The text of a family on its own tint."""

Role = Literal[
    "wall",
    "far_large",
    "far",
    "ring",
    "title",
    "number",
    "name",
    "heading",
    "lead",
    "strong",
    "medium",
    "body",
    "small",
    "small_strong",
    "tiny",
    "mono",
]
"""The role of a text; decides its size and weight."""


@dataclass(frozen=True)
class Theme:
    """One set of colours, as ``#RRGGBB``.

    Attributes:
        name: ``light`` or ``dark``.
        curves: Colours of curves in order of use; from the fifth on drawn dashed.
        high_contrast: Dividers are as dark as edges; a 2 px edge replaces tints, also of selected
            rows. The grid of a plot stays paler than its curves.
    """

    name: Literal["light", "dark"]
    canvas: str
    surface: str
    sunken: str
    popup: str
    hover: str
    selected: str
    line: str
    line_strong: str
    grid: str
    text: str
    text2: str
    text3: str
    ink: str
    ink_hover: str
    on_ink: str
    focus: str
    live: str
    live_tint: str
    good: str
    good_tint: str
    rest: str
    rest_tint: str
    warn: str
    warn_fill: str
    warn_tint: str
    bad: str
    bad_tint: str
    idle: str
    idle_tint: str
    shadow: str
    curves: tuple[str, ...]
    high_contrast: bool = False

    def hex(self, token: str) -> str:
        """The colour of a token as ``#RRGGBB``; an unknown token is a bug and raises."""
        value = getattr(self, token)
        if not isinstance(value, str) or not value.startswith("#"):
            raise ValueError(f"{token} is not a colour")
        return value

    def q(self, token: str, alpha: float = 1.0) -> QColor:
        """The colour of a token, translucent if `alpha` is below 1."""
        colour = QColor(self.hex(token))
        if alpha < 1.0:
            colour.setAlphaF(alpha)
        return colour

    def fill(self, family: str) -> QColor:
        """The colour of a *graphic* of a family: amber is lighter there than in text."""
        return self.q("warn_fill" if family == "warn" else family)

    def tint(self, family: str) -> QColor:
        """The pale background of a family."""
        return self.q(f"{family}_tint")

    def curve(self, index: int, alpha: float = 1.0) -> QColor:
        """The colour of the n-th curve; from the ninth on grey."""
        colour = self.curves[index] if 0 <= index < len(self.curves) else self.line_strong
        result = QColor(colour)
        if alpha < 1.0:
            result.setAlphaF(alpha)
        return result

    def with_high_contrast(self) -> Theme:
        """This theme for users who set their system to more contrast."""
        background = self.surface
        return replace(
            self,
            line=self.line_strong,
            grid=self.line,
            text2=self.text,
            text3=self.text2,
            live_tint=background,
            good_tint=background,
            rest_tint=background,
            warn_tint=background,
            bad_tint=background,
            idle_tint=background,
            high_contrast=True,
        )


FAMILIES: tuple[Family, ...] = ("idle", "live", "warn", "rest", "good", "bad")

LIGHT = Theme(
    name="light",
    canvas="#F4F3F0",
    surface="#FFFFFF",
    sunken="#EAE8E3",
    popup="#FFFFFF",
    hover="#F0EEEA",
    selected="#E9E6E0",
    line="#E1DED8",
    line_strong="#85807A",
    grid="#ECEAE5",
    text="#1B1A18",
    text2="#524E48",
    text3="#67635C",
    ink="#1B1A18",
    ink_hover="#3A3732",
    on_ink="#FFFFFF",
    focus="#1F5FD6",
    live="#1F5FD6",
    live_tint="#E5EDFC",
    good="#1A7547",
    good_tint="#E2F3E9",
    rest="#6A4CB8",
    rest_tint="#EEE9FA",
    warn="#8F5600",
    warn_fill="#BC7405",
    warn_tint="#FCF0DA",
    bad="#BD2A22",
    bad_tint="#FCE8E6",
    idle="#67635C",
    idle_tint="#EAE8E3",
    shadow="#1B1A18",
    curves=(
        "#2B59DC",
        "#CF7434",
        "#076245",
        "#C7227B",
        "#5F6B02",
        "#AB6CF2",
        "#760710",
        "#2C85A1",
    ),
)
DARK = Theme(
    name="dark",
    canvas="#131211",
    surface="#1B1A18",
    sunken="#0D0C0B",
    popup="#24221F",
    hover="#23211E",
    selected="#2C2A26",
    line="#2E2B27",
    line_strong="#7B756C",
    grid="#262420",
    text="#F0EEEA",
    text2="#B9B4AB",
    text3="#9A958C",
    ink="#F0EEEA",
    ink_hover="#D6D2CA",
    on_ink="#131211",
    focus="#7FABFF",
    live="#7FABFF",
    live_tint="#18233A",
    good="#5CC98D",
    good_tint="#12301F",
    rest="#B7A3F7",
    rest_tint="#2A2245",
    warn="#F2B84B",
    warn_fill="#F2B84B",
    warn_tint="#2F230C",
    bad="#FF8077",
    bad_tint="#361818",
    idle="#9A958C",
    idle_tint="#2A2824",
    shadow="#000000",
    curves=(
        "#7291FE",
        "#FFBC89",
        "#13A174",
        "#FE7FB9",
        "#96B82D",
        "#A672B8",
        "#DB5951",
        "#76CDF6",
    ),
)
SOLID_CURVES = 4
"""Curves after these are dashed: their lightness repeats, and a print is grey."""
CURVE_DASH = (6.0, 3.0)

# Spacing: a grid of 4 px.
S1, S2, S3, S4, S5, S6, S8 = 4, 8, 12, 16, 20, 24, 32
PAGE_MARGIN = S6
SCROLL_BAR_W = 12
CARD_PADDING = S4
HEADED_CARD = (CARD_PADDING, S2, CARD_PADDING, CARD_PADDING)
"""Margins of a card whose header has buttons, which add eight pixels of their own."""
LABEL_GAP = S1

# Corners.
R_CELL, R_CONTROL, R_CARD = 4, 6, 10

# Heights of controls and rows.
CONTROL_H, SEGMENTED_H, SEGMENTED_SMALL_H, BIG_H, TARGET_MIN = 32, 28, 26, 42, 28
ROW_H, TABLE_ROW_H, TABLE_ROW_COMPACT_H, RACK_ROW_H = 52, 36, 30, 54
HEADER_H, TABS_H = 60, 36

# Icons, and the frame of the window.
ICON, ICON_NAV, ICON_SMALL, ICON_LARGE = 16, 18, 14, 24
SIDEBAR_W, SIDEBAR_WIDE_W, RAIL_W = 264, 320, 72
LIST_W, LIST_NARROW_W, LIST_WIDE_W, LIBRARY_LIST_W = 372, 324, 440, 308
FORM_MAX_W, TEXT_MAX_CHARS = 860, 90
RAIL_BELOW_W, ONE_PANE_BELOW_W, WIDE_FROM_W = 1180, 1000, 2400
FOCUS_W = 2

# Durations of animations.
TURN_MS, TOAST_MS = 1200, 6000

FONT_SIZES: dict[str, tuple[int, int]] = {
    "wall": (96, 600),
    "far_large": (40, 600),
    "far": (32, 600),
    "ring": (28, 600),
    "title": (20, 600),
    "number": (20, 600),
    "name": (17, 600),
    "heading": (15, 600),
    "lead": (15, 400),
    "strong": (13, 600),
    "medium": (13, 500),
    "body": (13, 400),
    "small": (12, 400),
    "small_strong": (12, 600),
    "tiny": (11, 500),
    "mono": (12, 400),
}
"""Role -> pixel size and weight."""

_current: Theme = LIGHT
_motion_reduced: bool = False


def current() -> Theme:
    """The current theme. Call it when painting; do not store it."""
    return _current


def set_theme(theme: Theme) -> None:
    """Make `theme` the current one. `ThemeManager` updates the running window."""
    global _current
    _current = theme


def motion_reduced() -> bool:
    """Return True if nothing may be animated, by the system's setting or the user's."""
    return _motion_reduced


def reduce_motion(is_reduced: bool) -> None:
    """Set the result of `motion_reduced`. `ThemeManager` updates the running window."""
    global _motion_reduced
    _motion_reduced = is_reduced


@cache
def font_family(kind: Literal["text", "mono"] = "text") -> str:
    """The font family: Inter and JetBrains Mono if installed, otherwise the system's own."""
    installed_families = set(QFontDatabase.families())
    preferred_families: tuple[str, ...]
    if kind == "mono":
        preferred_families = ("JetBrains Mono", "Noto Sans Mono", "DejaVu Sans Mono")
        system_font = QFontDatabase.SystemFont.FixedFont
    else:
        preferred_families = ("Inter",)
        system_font = QFontDatabase.SystemFont.GeneralFont
    system_family = QFontDatabase.systemFont(system_font).family()
    return next((name for name in preferred_families if name in installed_families), system_family)


@cache
def _font(role: str) -> QFont:
    size, weight = FONT_SIZES[role]
    font = QFont(font_family("mono" if role == "mono" else "text"))
    font.setPixelSize(size)
    font.setWeight(QFont.Weight(weight))
    if role != "mono":
        # Digits must not move while they count; a name looks as typed (Inter's calt turns 2x into
        # 2×); cv05 gives l a tail, so that l, I and 1 differ in names of nodes and files.
        for tag, value in (("tnum", 1), ("calt", 0), ("cv05", 1)):
            font.setFeature(QFont.Tag(tag), value)
        if size >= 20:
            font.setLetterSpacing(QFont.SpacingType.PercentageSpacing, 98)
    return font


def font(role: Role = "body") -> QFont:
    """The font of a role. Set it on widgets, never in the style sheet: a sheet drops `tnum`."""
    return QFont(_font(role))
