"""What stands below the curves of a page."""

from __future__ import annotations

from widgets.common.buttons import SegmentedControl
from widgets.plots.curve_data import XAxis

_TIPS = {
    XAxis.STEP: ("Step", "Optimizer steps"),
    XAxis.EPOCH: ("Epoch", "Epochs done"),
    XAxis.TIME: ("Time", "Since the job began"),
    XAxis.CLOCK: ("Clock", "The time of day at which it happened"),
}


def axis_choice(chosen: XAxis) -> SegmentedControl:
    """A choice of all x axes, by the values of `XAxis`."""
    axes = [(axis.value, words) for axis, (words, _) in _TIPS.items()]
    choice = SegmentedControl(axes, chosen.value, name="What stands below the curves")
    for axis, (_, tip) in _TIPS.items():
        choice.set_tip(axis.value, tip)
    return choice
