"""The choices of the axes for the plots of a page: the unit of x, and logarithms."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt, Signal, SignalInstance
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMenu

from widgets.common.buttons import Button, SegmentedControl
from widgets.common.labels import native_key
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


LOG_Y_KEY, LOG_X_KEY = "L", "Shift+L"
_LABELS = {
    (False, False): "Linear",
    (False, True): "Log y",
    (True, False): "Log x",
    (True, True): "Log x, y",
}
_TIP = f"Logarithmic axes: y ({native_key(LOG_Y_KEY)}), x ({native_key(LOG_X_KEY)})"


class ScaleButton(Button):
    """A menu with an entry for each axis; the button shows which are logarithmic.

    The page has the keys: a shortcut of a menu's entry would work on every page.

    Signals:
        log_x_changed, log_y_changed: True if that axis is logarithmic now.
    """

    log_x_changed = Signal(bool)
    log_y_changed = Signal(bool)

    def __init__(self) -> None:
        super().__init__("", kind="quiet", icon="caret-down")
        self.setLayoutDirection(Qt.LayoutDirection.RightToLeft)
        menu = QMenu(self)
        self._y = self._add_action(menu, "Log y", LOG_Y_KEY, self.log_y_changed)
        self._x = self._add_action(menu, "Log x", LOG_X_KEY, self.log_x_changed)
        self.setMenu(menu)
        self._update_text()

    def toggle_log_y(self) -> None:
        self._y.toggle()

    def toggle_log_x(self) -> None:
        if self._x.isEnabled():
            self._x.toggle()

    def set_has_log_x(self, available: bool) -> None:
        """Set whether x can be logarithmic: the time of day cannot. The choice is kept."""
        self._x.setEnabled(available)
        self._update_text()

    def _add_action(self, menu: QMenu, label: str, key: str, on_toggle: SignalInstance) -> QAction:
        action = menu.addAction(f"{label}\t{native_key(key)}")
        action.setCheckable(True)
        action.toggled.connect(on_toggle)
        action.toggled.connect(self._update_text)
        return action

    def sizeHint(self) -> QSize:
        """The size that fits each label, so that neighbours do not move."""
        metrics, hint = self.fontMetrics(), super().sizeHint()
        max_label_width = max(metrics.size(0, label).width() for label in _LABELS.values())
        return QSize(
            hint.width() + max_label_width - metrics.size(0, self.text()).width(), hint.height()
        )

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def _update_text(self) -> None:
        has_log_x = self._x.isChecked() and self._x.isEnabled()
        self.setText(_LABELS[has_log_x, self._y.isChecked()])
        self.set_tip(_TIP)
