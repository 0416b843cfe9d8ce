"""The choice of the horizontal axis of a page's curves."""

from __future__ import annotations

from widgets.common.buttons import SegmentedControl
from widgets.plots.curve_data import XAxis

_TIPS = {
    XAxis.STEP: ("Step", "Optimizer steps"),
    XAxis.EPOCH: ("Epoch", "Epochs done"),
    XAxis.TIME: ("Time", "Time since the job began"),
    XAxis.CLOCK: ("Clock", "Date and time of day"),
}


def axis_choice(selected_axis: XAxis) -> SegmentedControl:
    """A choice of all x axes, by the values of `XAxis`."""
    axes = [(axis.value, label) for axis, (label, _) in _TIPS.items()]
    control = SegmentedControl(axes, selected_axis.value, name="Horizontal axis")
    for axis, (_, tip) in _TIPS.items():
        control.set_tip(axis.value, tip)
    return control
