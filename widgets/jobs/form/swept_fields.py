"""The fields of the job form that have several values, and how they show them."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import QEvent, QObject, QPoint, QRectF, Qt, Signal
from PySide6.QtGui import QContextMenuEvent, QEnterEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QAbstractButton, QApplication, QMenu, QWidget

from backend.records.jobs.config import with_value
from backend.records.sweeps.values import Axis, axis_text
from widgets.common.buttons import Switch
from widgets.common.fields import ComboBox, Field, LineEdit
from widgets.common.icons import paint_icon
from widgets.common.labels import plain_tip
from widgets.common.theme import TARGET_MIN
from widgets.jobs.form.multi_value_editor import SeveralValues

_ONE_EACH = ("name", "start_from")
_ICON, _EDGE = 13, 2
_ROOM_W = 22
"""The icon with a gap: the button is larger, to be hit."""
_MOVES = frozenset(
    {QEvent.Type.ParentChange, QEvent.Type.Move, QEvent.Type.Resize, QEvent.Type.ShowToParent}
)
_LIGHTS = frozenset(
    {QEvent.Type.Enter, QEvent.Type.Leave, QEvent.Type.FocusIn, QEvent.Type.FocusOut}
)
_APPEARS = frozenset({QEvent.Type.ShowToParent, QEvent.Type.HideToParent})


class SeveralButton(QAbstractButton):
    """The button that opens the several values of a field; visible on hover and on focus.

    It is over the end of the control, which keeps room for it then. Tab passes it by: the menu key
    of the field does the same.
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

    def watch(self, part: QWidget) -> None:
        part.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if watched is self._field and event.type() in _APPEARS:
            self.setVisible(not self._field.isHidden())
        if event.type() in _MOVES:
            self._follow()
        elif event.type() in _LIGHTS:
            self._light()
        return super().eventFilter(watched, event)

    def enterEvent(self, event: QEnterEvent) -> None:
        self._light()

    def leaveEvent(self, event: QEvent) -> None:
        self._light()

    def _light(self) -> None:
        shown = self._field.visible_control
        if isinstance(shown, LineEdit | ComboBox):
            shown.reserve_width(_ROOM_W if self.is_lit() else 0)
        self.update()

    def is_lit(self) -> bool:
        """Return whether the button is visible."""
        if self.underMouse() or self._field.underMouse():
            return True
        focus = QApplication.focusWidget()
        return focus is not None and self._field.isAncestorOf(focus)

    def paintEvent(self, _event: QPaintEvent) -> None:
        if not self.is_lit():
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        box = QRectF(0, 0, _ICON, _ICON)
        box.moveCenter(QRectF(self.rect()).center())
        paint_icon(painter, box, "list-plus", "text" if self.underMouse() else "text3")

    def _follow(self) -> None:
        """Stay at the field, in the same part of the page."""
        field, page = self._field, self._field.parentWidget()
        if page is None:
            return
        if self.parentWidget() is not page:
            self.setParent(page)
            self.setVisible(not field.isHidden())
        shown = field.visible_control
        left = shown.width()  # a switch has no room inside
        if isinstance(shown, LineEdit | ComboBox):
            left -= self.width() + _EDGE
        if isinstance(shown, ComboBox):
            left -= shown.arrow_width()
        high = (shown.height() - self.height()) // 2
        self.move(field.pos() + shown.pos() + QPoint(left, high))
        self.raise_()


class SweptFields(QObject):
    """Opens the popover on the field's button, a right click or the menu key.

    Attributes:
        draws_at_random: A range then needs no steps.

    Signals:
        changed: A field has other values than before.
    """

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._fields: dict[str, tuple[Field, str]] = {}
        self._buttons: dict[str, SeveralButton] = {}
        self._axes: dict[str, Axis] = {}
        self.draws_at_random = False
        self.popover: SeveralValues | None = None

    def watch(self, path: str, field: Field, label: str) -> None:
        """Let this field have several values."""
        if path not in _ONE_EACH:
            self._fields[path] = (field, label)
            for part in (field, field.control):
                part.installEventFilter(self)
            self._buttons[path] = button = SeveralButton(field, label)
            button.clicked.connect(lambda: self.open(path))

    def axes(self) -> tuple[Axis, ...]:
        """Return the axes in the order of the fields."""
        return tuple(self._axes[path] for path in self._fields if path in self._axes)

    def take(self, axis: Axis) -> None:
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

    def give_up(self, path: str) -> None:
        """Return the field to one value."""
        if self._axes.pop(path, None) is not None:
            self._fields[path][0].replace_control(None)
            self.changed.emit()

    def clear(self) -> None:
        for path in tuple(self._axes):
            self.give_up(path)

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
        now, options = "", []
        if isinstance(control, ComboBox):
            keys = [control.itemData(n) for n in range(control.count())]
            options = [(key, control.itemText(n)) for n, key in enumerate(keys) if key]
            now = control.key()
        elif isinstance(control, Switch):
            options = [("yes", "On"), ("no", "Off")]
            now = "yes" if control.isChecked() else "no"
        elif isinstance(control, LineEdit):
            now = control.text()
        if self.popover is not None:
            self.popover.close()
        popover = self.popover = SeveralValues(
            path,
            label,
            self._axes.get(path),
            now,
            options,
            window=field.window(),
            draws_at_random=self.draws_at_random,
        )
        self.popover.chosen.connect(self.take)
        self.popover.one_requested.connect(lambda: self.give_up(path))
        popover.closed.connect(lambda: self._forget_popover(popover, field))
        self.popover.open_at(field.visible_control)

    def _forget_popover(self, popover: SeveralValues, field: Field) -> None:
        if self.popover is popover:
            self.popover = None
        # Otherwise Qt gives the focus to the first widget of the window.
        field.visible_control.setFocus(Qt.FocusReason.PopupFocusReason)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        # Tested first: forty fields get many events while a page is built, and only these matter.
        if event.type() not in (QEvent.Type.ContextMenu, QEvent.Type.MouseButtonRelease):
            return False
        path = self._path_of(watched)
        if not path:
            return False
        if isinstance(event, QContextMenuEvent):
            self.menu(path).popup(event.globalPos())
            return True
        if watched is self._fields[path][0].visible_control and path in self._axes:
            self.open(path)
        return False

    def menu(self, path: str) -> QMenu:
        """Return the menu of a right click on a field."""
        field, _ = self._fields[path]
        shown = field.visible_control
        menu = shown.createStandardContextMenu() if isinstance(shown, LineEdit) else QMenu(shown)
        if menu.actions():
            menu.addSeparator()
        menu.addAction("Several values…", lambda: self.open(path))
        if path in self._axes:
            menu.addAction("One value", lambda: self.give_up(path))
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        return menu

    def _path_of(self, watched: QObject) -> str:
        if not isinstance(watched, QWidget):
            return ""
        for path, (field, _) in self._fields.items():
            if watched in (field, field.control, field.visible_control):
                return path
        return ""


def with_first_values(raw: Mapping[str, object], axes: tuple[Axis, ...]) -> dict[str, object]:
    """Return the job file of the first job: the first value of each swept field."""
    whole = dict(raw)
    for axis in axes:
        if points := axis.points():
            whole = with_value(whole, axis.path, points[0])
    return whole
