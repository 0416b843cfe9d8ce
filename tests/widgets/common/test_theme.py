"""The colours keep what the window promises about them.

Contrast is WCAG 2.x.  Distances of curves are CIEDE2000, as people with full sight and with each
of the three colour-vision deficiencies see them (Machado, Oliveira and Fernandes 2009, severity
1.0, applied to linear RGB).
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from widgets.common.theme import DARK, FAMILIES, LIGHT, SOLID_CURVES, Theme

Array = NDArray[np.float64]

GROUNDS = ("surface", "canvas", "hover", "selected")
TEXTS = ("text", "text2", "text3", "live", "good", "rest", "warn", "bad", "idle")
TINTS = ("sunken", *(f"{family}_tint" for family in FAMILIES))
TEXT_LEAST, GRAPHIC_LEAST = 4.5, 3.0

VISIONS: dict[str, Array] = {
    "normal": np.eye(3),
    "protan": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deutan": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritan": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}


def linear(colour: str) -> Array:
    """#RRGGBB as linear RGB."""
    c = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def contrast(a: str, b: str) -> float:
    weights = np.array([0.2126, 0.7152, 0.0722])
    low, high = sorted((float(linear(a) @ weights), float(linear(b) @ weights)))
    return (high + 0.05) / (low + 0.05)


def lab(rgb: Array) -> Array:
    to_xyz = np.array(
        [
            [0.4124564, 0.3575761, 0.1804375],
            [0.2126729, 0.7151522, 0.0721750],
            [0.0193339, 0.1191920, 0.9503041],
        ]
    )
    xyz = rgb @ to_xyz.T / np.array([0.95047, 1.0, 1.08883])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    x, y, z = np.moveaxis(f, -1, 0)
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], -1)


def ciede2000(p: Array, q: Array) -> Array:
    (l1, a1, b1), (l2, a2, b2) = np.moveaxis(p, -1, 0), np.moveaxis(q, -1, 0)
    mean = (np.hypot(a1, b1) + np.hypot(a2, b2)) / 2
    g = 0.5 * (1 - np.sqrt(mean**7 / (mean**7 + 25.0**7)))
    a1, a2 = a1 * (1 + g), a2 * (1 + g)
    c1, c2 = np.hypot(a1, b1), np.hypot(a2, b2)
    h1, h2 = np.degrees(np.arctan2(b1, a1)) % 360, np.degrees(np.arctan2(b2, a2)) % 360
    step = (h2 - h1 + 180) % 360 - 180
    d_hue = 2 * np.sqrt(c1 * c2) * np.sin(np.radians(step / 2))
    lm, cm, hm = (l1 + l2) / 2, (c1 + c2) / 2, (h1 + step / 2) % 360
    t = (
        1
        - 0.17 * np.cos(np.radians(hm - 30))
        + 0.24 * np.cos(np.radians(2 * hm))
        + 0.32 * np.cos(np.radians(3 * hm + 6))
        - 0.20 * np.cos(np.radians(4 * hm - 63))
    )
    sl = 1 + 0.015 * (lm - 50) ** 2 / np.sqrt(20 + (lm - 50) ** 2)
    sc, sh = 1 + 0.045 * cm, 1 + 0.015 * cm * t
    turn = np.sin(np.radians(60 * np.exp(-(((hm - 275) / 25) ** 2))))
    rt = -turn * 2 * np.sqrt(cm**7 / (cm**7 + 25.0**7))
    dl, dc, dh = (l2 - l1) / sl, (c2 - c1) / sc, d_hue / sh
    result: Array = np.sqrt(dl**2 + dc**2 + dh**2 + rt * dc * dh)
    return result


def nearest_pair(colours: tuple[str, ...], vision: str) -> float:
    """The smallest distance of any two colours as seen with `vision`."""
    visible_colours = np.stack([linear(colour) for colour in colours]) @ VISIONS[vision].T
    points = lab(np.clip(visible_colours, 0, 1))
    i, j = np.triu_indices(len(colours), 1)
    return float(ciede2000(points[i], points[j]).min())


both_themes = pytest.mark.parametrize("t", [LIGHT, DARK], ids=lambda t: t.name)


def test_ciede2000_gives_the_published_figures_of_its_test_pairs() -> None:
    # Sharma, Wu, Dalal 2005, table 1: four of its pairs.
    pairs = [
        ((50.0, 2.6772, -79.7751), (50.0, 0.0, -82.7485), 2.0425),
        ((50.0, 0.0, 0.0), (50.0, -1.0, 2.0), 2.3669),
        ((50.0, 2.5, 0.0), (73.0, 25.0, -18.0), 27.1492),
        ((60.2574, -34.0099, 36.2677), (60.4626, -34.1751, 39.4387), 1.2644),
    ]
    for a, b, distance in pairs:
        assert float(ciede2000(np.array(a), np.array(b))) == pytest.approx(distance, abs=1e-4)


@both_themes
@pytest.mark.parametrize("token", TEXTS)
def test_text_can_be_read_on_every_ground(t: Theme, token: str) -> None:
    assert min(contrast(t.hex(token), t.hex(background)) for background in GROUNDS) >= TEXT_LEAST


@both_themes
@pytest.mark.parametrize("token", ["text", "text2", "text3"])
def test_plain_text_can_be_read_on_every_tint(t: Theme, token: str) -> None:
    assert min(contrast(t.hex(token), t.hex(background)) for background in TINTS) >= TEXT_LEAST


@both_themes
@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_can_be_read_on_its_own_tint(t: Theme, family: str) -> None:
    assert contrast(t.hex(family), t.hex(f"{family}_tint")) >= TEXT_LEAST


@both_themes
@pytest.mark.parametrize("ink", ["ink", "ink_hover"])
def test_the_primary_button_can_be_read(t: Theme, ink: str) -> None:
    assert contrast(t.on_ink, t.hex(ink)) >= TEXT_LEAST


@both_themes
@pytest.mark.parametrize("token", ["line_strong", "focus", "live", "bad"])
def test_graphics_stand_out_from_every_ground(t: Theme, token: str) -> None:
    grounds = (*GROUNDS, "sunken", "idle_tint")
    assert min(contrast(t.hex(token), t.hex(background)) for background in grounds) >= GRAPHIC_LEAST


@both_themes
def test_the_amber_of_graphics_stands_out_and_so_does_the_hole_in_it(t: Theme) -> None:
    for background in ("surface", "canvas", "warn_tint", "live_tint"):
        assert contrast(t.warn_fill, t.hex(background)) >= GRAPHIC_LEAST


@both_themes
@pytest.mark.parametrize("index", range(8))
def test_a_curve_stands_out_from_the_plot(t: Theme, index: int) -> None:
    assert contrast(t.curves[index], t.surface) >= GRAPHIC_LEAST


@both_themes
@pytest.mark.parametrize("vision", VISIONS)
def test_curves_differ_for_every_kind_of_sight(t: Theme, vision: str) -> None:
    assert nearest_pair(t.curves, vision) >= 10
    assert nearest_pair(t.curves[:SOLID_CURVES], vision) >= 12


@both_themes
def test_high_contrast_gives_up_tints_and_keeps_text_readable(t: Theme) -> None:
    strong = t.with_high_contrast()
    for family in FAMILIES:
        assert strong.hex(f"{family}_tint") == t.surface
    assert contrast(strong.line, strong.surface) >= GRAPHIC_LEAST
    assert contrast(strong.text2, strong.surface) > contrast(t.text2, t.surface)
    assert contrast(strong.grid, strong.surface) < contrast(strong.line, strong.surface)


def test_a_report_has_the_colours_of_the_window() -> None:
    source = (Path(__file__).parents[3] / "resources" / "report.html").read_text("utf-8")
    for theme, colours in zip((LIGHT, DARK), re.findall(r":root\{(--.+?)\}", source), strict=True):
        for name, value in re.findall(r"--(\w+):(#\w{6})", colours):
            number = re.fullmatch(r"c(\d)", name)
            assert value == (theme.curves[int(number[1])] if number else theme.hex(name))
