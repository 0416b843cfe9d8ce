"""The keys of Compare, of a plot and of parallel coordinates."""

from __future__ import annotations

from operator import gt, lt

import pytest

from tests.app.key_desk import presses


@presses("Focus the smoothing slider", "Compare")
def _(desk, press):
    panel = next(iter(desk.compared().plots.panels().values()))
    smoothing = panel.smoothing
    press()
    desk.press("Right", times=5)
    assert panel.smoothing == pytest.approx(smoothing + 0.05)
    desk.press("Left", times=5)


@presses("Fit the curves", "Compare")
def _(desk, press):
    panel = next(iter(desk.compared().plots.panels().values()))
    desk.wait(lambda: panel.x_range()[1] > 1)
    panel.setFocus()
    desk.press("+")
    assert not panel.is_fitted
    press()
    assert panel.is_fitted


# A plot


PLOT = "A plot"


def _changes(first, read, compare):
    def check(desk, press):
        plot = desk.plot()
        desk.press(*first)
        value = read(plot)
        press()
        assert compare(read(plot), value)

    return check


def _reads_out(first, start):
    def check(desk, press):
        plot = desk.plot()
        desk.press(first)
        press()
        assert plot.accessibleDescription().startswith(start)

    return check


def _pointed_step(plot):
    return plot.pointer_x


def _width(plot):
    low, high = plot.x_range()
    return high - low


def _left_end(plot):
    return plot.x_range()[0]


ZOOMED = ("+", "+", "+")

presses("Move the read-out left", PLOT)(_changes(["End"], _pointed_step, lt))
presses("Move the read-out right", PLOT)(_changes(["Home"], _pointed_step, gt))
presses("Read out the first point in view", PLOT)(_reads_out("End", "step 1 "))
presses("Read out the last point in view", PLOT)(_reads_out("Home", "step 30 "))
presses("Zoom in", PLOT)(_changes([], _width, lt))
presses("Zoom out", PLOT)(_changes(ZOOMED, _width, gt))
presses("Pan to earlier steps", PLOT)(_changes(["End", *ZOOMED], _left_end, lt))
presses("Pan to later steps", PLOT)(_changes(["Home", *ZOOMED], _left_end, gt))


# Parallel coordinates


BRUSHES = "Parallel coordinates"


def _walked(first, rank):
    def check(desk, press):
        plot = desk.sweep()
        plot.highlight_job("")
        desk.press(*first)
        press()
        assert plot.current_job == plot._coordinates.ranked()[rank].job_id

    return check


presses("A better job", BRUSHES)(_walked(("Down", "Down", "Down"), 1))
presses("The next worse job", BRUSHES)(_walked(("Down", "Down"), 2))


def _next_axis(step):
    def check(desk, press):
        plot = desk.sweep()
        axes = [axis.label for axis in plot._coordinates.axes]
        assert len(axes) > 2, "else the one on the left is the one on the right"
        index = axes.index(_brushed_by_keys(plot))
        press()
        assert _brushed_by_keys(plot) == axes[(index + step) % len(axes)]

    return check


def _brushed_by_keys(plot):
    """The axis whose brush the keys move, as it is heard."""
    return plot.accessibleDescription().rpartition("Keys select a range of ")[2].removesuffix(".")


presses("The axis on the left", BRUSHES)(_next_axis(-1))
presses("The axis on the right", BRUSHES)(_next_axis(1))


def _brushed(first, is_narrower):
    def check(desk, press):
        plot = desk.sweep()
        desk.press("Right")
        for keys, times in first:
            desk.press(keys, times=times)
        press()
        assert is_narrower == bool(plot.brushes)

    return check


presses("Lower the upper end of the brush", BRUSHES)(_brushed((), is_narrower=True))
presses("Raise the upper end", BRUSHES)(_brushed([("Shift+Down", 1)], is_narrower=False))
presses("Raise the lower end", BRUSHES)(_brushed((), is_narrower=True))
presses("Lower the lower end", BRUSHES)(_brushed([("Ctrl+Up", 1)], is_narrower=False))


@presses("Remove this brush", BRUSHES)
def _(desk, press):
    plot = desk.sweep()
    desk.press("Shift+Down", "Right", "Shift+Down")
    assert len(plot.brushes) == 2
    press()
    assert len(plot.brushes) == 1


@presses("Remove all brushes", BRUSHES)
def _(desk, press):
    plot = desk.sweep()
    desk.press("Shift+Down", "Right", "Shift+Down")
    press()
    assert plot.brushes == {}
