"""The cost of painting a plot; the cheaper way paints the same pixels."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from pytestqt.qtbot import QtBot

from tests.widgets.plots.test_curve_panel import BLUE, curve, pixels, settle
from widgets.plots import curve_item
from widgets.plots.annotations import AxisSpan
from widgets.plots.curve_panel import CurvePanel
from widgets.plots.growable_array import Floats

pytestmark = pytest.mark.usefixtures("theme_manager")


@pytest.fixture
def panel(qtbot: QtBot) -> CurvePanel:
    panel = CurvePanel("Loss")
    qtbot.addWidget(panel)
    panel.resize(700, 300)
    panel.show()
    settle()
    return panel


def winding() -> Floats:
    return np.random.default_rng(1).uniform(0.0, 100.0, 150)


def test_a_winding_curve_in_segments_is_painted_like_one_stroke(
    panel: CurvePanel, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel.set_curve("use", "use", curve(winding()), with_label=False)
    in_segments = pixels(panel, BLUE)
    monkeypatch.setattr(curve_item, "_WINDING_VARIATION", math.inf)
    panel.clear()
    panel.set_curve("use", "use", curve(winding()), with_label=False)
    assert pixels(panel, BLUE) == pytest.approx(in_segments, rel=0.1)


@pytest.mark.parametrize(
    "change",
    [
        lambda panel: panel.set_x_range(20.0, 70.0),
        lambda panel: panel.set_curve("more", "more", curve([50.0] * 150), 1),
        lambda panel: panel.set_smoothing(0.9),
        lambda panel: panel.set_log_y(True),
        lambda panel: panel.set_marks(spans=(AxisSpan(10.0, 40.0),)),
        lambda panel: panel.resize(800, 400),
        lambda panel: panel.clear(),
    ],
)
def test_every_change_is_painted(panel: CurvePanel, change: Callable[[CurvePanel], object]) -> None:
    panel.set_curve("use", "use", curve(winding()))
    for _ in range(3):
        settle()
    previous_image = panel.grab().toImage()
    change(panel)
    settle()
    assert panel.grab().toImage() != previous_image
