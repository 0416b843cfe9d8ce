"""The fields of the job form that have several values, and how they show them."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import QEvent, QObject, QPoint, QRectF, Qt, Signal
from PySide6.QtGui import QContextMenuEvent, QEnterEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QAbstractButton, QApplication, QMenu, QWidget

from backend.records.jobs.job_file import with_value
from backend.records.sweeps.values import Axis, axis_text
from widgets.common.buttons import Switch
from widgets.common.fields import ComboBox, Field, LineEdit
from widgets.common.icons import paint_icon
from widgets.common.labels import plain_tip
from widgets.common.theme import TARGET_MIN
from widgets.jobs.form.multi_value_editor import MultiValueEditor

_SINGLE_VALUED = ("name", "start_from")
_ICON, _EDGE = 13, 2
_RESERVED_W = 22
"""The icon with a gap: the button is larger, to be hit."""
_MOVE_EVENTS = frozenset(
    {QEvent.Type.ParentChange, QEvent.Type.Move, QEvent.Type.Resize, QEvent.Type.ShowToParent}
)
_HOVER_EVENTS = frozenset(
    {QEvent.Type.Enter, QEvent.Type.Leave, QEvent.Type.FocusIn, QEvent.Type.FocusOut}
)
_VISIBILITY_EVENTS = frozenset({QEvent.Type.ShowToParent, QEvent.Type.HideToParent})


class MultiValueButton(QAbstractButton):
    """The button that opens the several values of a field; visible on hover and on focus.

    The button is over the end of the control, which reserves its width. Tab skips the button: the
    menu key of the field opens the values, too.
    """

    def __init__(self, field: Field, label: str) -> None:
        super().__init__(field)
        self._field = field
        self.setFixedSize(TARGET_MIN, TARGET_MIN)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setAccessibleName(f"Several values of {label}")
        self.setToolTip(plain_tip("Several values: one job per value"))
        self.watch(field)
        self.watch(field.control)

    def watch(self, widget: QWidget) -> None:
        widget.installEventFilter(self)

    def eventFilter(self, receiver: QObject, event: QEvent) -> bool:
        if receiver is self._field and event.type() in _VISIBILITY_EVENTS:
            self.setVisible(not self._field.isHidden())
        if event.type() in _MOVE_EVENTS:
            self._follow_field()
        elif event.type() in _HOVER_EVENTS:
            self._update_highlight()
        return super().eventFilter(receiver, event)

    def enterEvent(self, event: QEnterEvent) -> None:
        self._update_highlight()

    def leaveEvent(self, event: QEvent) -> None:
        self._update_highlight()

    def _update_highlight(self) -> None:
        control = self._field.visible_control
        if isinstance(control, LineEdit | ComboBox):
            control.reserve_width(_RESERVED_W if self.is_highlighted() else 0)
        self.update()

    def is_highlighted(self) -> bool:
        """Return whether the button is visible."""
        if self.underMouse() or self._field.underMouse():
            return True
        focus = QApplication.focusWidget()
        return focus is not None and self._field.isAncestorOf(focus)

    def paintEvent(self, _event: QPaintEvent) -> None:
        if not self.is_highlighted():
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        box = QRectF(0, 0, _ICON, _ICON)
        box.moveCenter(QRectF(self.rect()).center())
        paint_icon(painter, box, "list-plus", "text" if self.underMouse() else "text3")

    def _follow_field(self) -> None:
        """Stay at the field, in the same part of the page."""
        field, page = self._field, self._field.parentWidget()
        if page is None:
            return
        if self.parentWidget() is not page:
            self.setParent(page)
            self.setVisible(not field.isHidden())
        control = field.visible_control
        x = control.width()  # a switch has no room inside
        if isinstance(control, LineEdit | ComboBox):
            x -= self.width() + _EDGE
        if isinstance(control, ComboBox):
            x -= control.arrow_width()
        y = (control.height() - self.height()) // 2
        self.move(field.pos() + control.pos() + QPoint(x, y))
        self.raise_()


class SweptFields(QObject):
    """Opens the editor on the field's button, a right click or the menu key.

    Attributes:
        draws_at_random: Jobs are drawn at random, so a range needs no steps.

    Signals:
        changed: A field has other values than before.
    """

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._fields: dict[str, tuple[Field, str]] = {}
        self._buttons: dict[str, MultiValueButton] = {}
        self._axes: dict[str, Axis] = {}
        self.draws_at_random = False
        self.popover: MultiValueEditor | None = None

    def watch(self, path: str, field: Field, label: str) -> None:
        """Let this field have several values."""
        if path not in _SINGLE_VALUED:
            self._fields[path] = (field, label)
            for widget in (field, field.control):
                widget.installEventFilter(self)
            self._buttons[path] = button = MultiValueButton(field, label)
            button.clicked.connect(lambda: self.open(path))

    def axes(self) -> tuple[Axis, ...]:
        """Return the axes in the order of the fields."""
        return tuple(self._axes[path] for path in self._fields if path in self._axes)

    def show_axis(self, axis: Axis) -> None:
        """Show the values of a field; unknown fields are ignored."""
        if axis.path not in self._fields:
            return
        self._axes[axis.path] = axis
        field, label = self._fields[axis.path]
        line = LineEdit(axis_text(axis), name=f"{label}, several values")
        line.setReadOnly(True)
        line.setCursorPosition(0)
        line.setToolTip(plain_tip(f"{axis_text(axis)}\nClick to change"))
        line.installEventFilter(self)
        field.replace_control(line)
        self._buttons[axis.path].watch(line)
        self.changed.emit()

    def restore_single(self, path: str) -> None:
        """Return the field to one value."""
        if self._axes.pop(path, None) is not None:
            self._fields[path][0].replace_control(None)
            self.changed.emit()

    def clear(self) -> None:
        for path in tuple(self._axes):
            self.restore_single(path)

    def remove(self, path: str) -> None:
        """Forget a field that is about to be deleted."""
        self._fields.pop(path, None)
        button = self._buttons.pop(path, None)
        if button is not None:
            button.hide()
            button.deleteLater()
        if self._axes.pop(path, None) is not None:
            self.changed.emit()

    def open(self, path: str) -> None:
        """Open the popover at a field."""
        field, label = self._fields[path]
        control = field.control
        current_value, options = "", []
        if isinstance(control, ComboBox):
            keys = [control.itemData(n) for n in range(control.count())]
            options = [(key, control.itemText(n)) for n, key in enumerate(keys) if key]
            current_value = control.key()
        elif isinstance(control, Switch):
            options = [("yes", "On"), ("no", "Off")]
            current_value = "yes" if control.isChecked() else "no"
        elif isinstance(control, LineEdit):
            current_value = control.text()
        if self.popover is not None:
            self.popover.close()
        popover = self.popover = MultiValueEditor(
            path,
            label,
            self._axes.get(path),
            current_value,
            options,
            window=field.window(),
            draws_at_random=self.draws_at_random,
        )
        self.popover.axis_chosen.connect(self.show_axis)
        self.popover.single_requested.connect(lambda: self.restore_single(path))
        popover.closed.connect(lambda: self._forget_popover(popover, field))
        self.popover.open_at(field.visible_control)

    def _forget_popover(self, popover: MultiValueEditor, field: Field) -> None:
        if self.popover is popover:
            self.popover = None
        # Otherwise Qt gives the focus to the first widget of the window.
        field.visible_control.setFocus(Qt.FocusReason.PopupFocusReason)

    def eventFilter(self, receiver: QObject, event: QEvent) -> bool:
        # Tested first: forty fields get many events while a page is built, and only these matter.
        if event.type() not in (QEvent.Type.ContextMenu, QEvent.Type.MouseButtonRelease):
            return False
        path = self._path_of(receiver)
        if not path:
            return False
        if isinstance(event, QContextMenuEvent):
            self.menu(path).popup(event.globalPos())
            return True
        if receiver is self._fields[path][0].visible_control and path in self._axes:
            self.open(path)
        return False

    def menu(self, path: str) -> QMenu:
        """Return the menu of a right click on a field."""
        field, _ = self._fields[path]
        control = field.visible_control
        menu = (
            control.createStandardContextMenu() if isinstance(control, LineEdit) else QMenu(control)
        )
        if menu.actions():
            menu.addSeparator()
        menu.addAction("Several values…", lambda: self.open(path))
        if path in self._axes:
            menu.addAction("One value", lambda: self.restore_single(path))
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        return menu

    def _path_of(self, widget: QObject) -> str:
        if not isinstance(widget, QWidget):
            return ""
        for path, (field, _) in self._fields.items():
            if widget in (field, field.control, field.visible_control):
                return path
        return ""


def with_first_values(raw: Mapping[str, object], axes: tuple[Axis, ...]) -> dict[str, object]:
    """Return the job file of the first job: the first value of each swept field."""
    first_raw = dict(raw)
    for axis in axes:
        if points := axis.points():
            first_raw = with_value(first_raw, axis.path, points[0])
    return first_raw
