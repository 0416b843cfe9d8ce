"""Which fields of the job form take several values, and how they show it."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import QEvent, QObject, QRectF, Qt, Signal
from PySide6.QtGui import QContextMenuEvent, QEnterEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QAbstractButton, QMenu, QWidget

from backend.records.sweep_values import Axis, axis_text
from widgets.common.buttons import Switch
from widgets.common.fields import ComboBox, Field, LineEdit
from widgets.common.icons import paint_icon
from widgets.common.paint import paint_focus
from widgets.common.text import plain_tip
from widgets.common.theme import R_CELL, TARGET_MIN
from widgets.jobs.several_values import SeveralValues

_ONE_EACH = ("name", "start_from")
_ICON = 13


class SeveralButton(QAbstractButton):
    """Stands at a field that can take several values, and opens them."""

    def __init__(self, label: str) -> None:
        super().__init__()
        self.setFixedWidth(TARGET_MIN)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setAccessibleName(f"Several values of {label}")
        self.setToolTip(plain_tip("Several values: one job for each"))

    def enterEvent(self, event: QEnterEvent) -> None:
        self.update()

    def leaveEvent(self, event: QEvent) -> None:
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        box = QRectF((self.width() - _ICON) / 2, (self.height() - _ICON) / 2, _ICON, _ICON)
        lit = self.underMouse() or self.hasFocus()
        paint_icon(painter, box, "list-plus", "text" if lit else "text3")
        if self.hasFocus():
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            paint_focus(painter, QRectF(self.rect()).adjusted(1, 1, -1, -1), R_CELL)


class SweptFields(QObject):
    """Watches the fields for their button, a right click or the menu key; opens the popover.

    Attributes:
        draws_at_random: A range needs no steps then.

    Signals:
        changed: A field takes other values than before.
    """

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._fields: dict[str, tuple[Field, str]] = {}
        self._axes: dict[str, Axis] = {}
        self.draws_at_random = False
        self.popover: SeveralValues | None = None

    def watch(self, path: str, field: Field, label: str) -> None:
        """From now on this field can take several values."""
        field.raise_head()
        if path not in _ONE_EACH:
            self._fields[path] = (field, label)
            for part in (field, field.control):
                part.installEventFilter(self)
            button = SeveralButton(label)
            button.clicked.connect(lambda: self.open(path))
            field.set_corner(button, beside=isinstance(field.control, Switch))

    def axes(self) -> tuple[Axis, ...]:
        """In the order of the fields."""
        return tuple(self._axes[path] for path in self._fields if path in self._axes)

    def take(self, axis: Axis) -> None:
        """Show that a field takes these; a field that is not here is left out."""
        if axis.path not in self._fields:
            return
        self._axes[axis.path] = axis
        field, label = self._fields[axis.path]
        line = LineEdit(axis_text(axis), name=f"{label}, several values")
        line.setReadOnly(True)
        line.setCursorPosition(0)
        line.setToolTip(plain_tip(f"{axis_text(axis)}\nClick to change them"))
        line.installEventFilter(self)
        field.stand_in(line)
        self.changed.emit()

    def give_up(self, path: str) -> None:
        """One value again."""
        if self._axes.pop(path, None) is not None:
            self._fields[path][0].stand_in(None)
            self.changed.emit()

    def clear(self) -> None:
        for path in tuple(self._axes):
            self.give_up(path)

    def forget(self, path: str) -> None:
        """The field is about to be deleted."""
        self._fields.pop(path, None)
        if self._axes.pop(path, None) is not None:
            self.changed.emit()

    def open(self, path: str) -> None:
        """The popover at a field."""
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
        self.popover.one_wished.connect(lambda: self.give_up(path))
        popover.closed.connect(lambda: self._forget_popover(popover))
        self.popover.open_below(field.shown)

    def _forget_popover(self, popover: SeveralValues) -> None:
        if self.popover is popover:
            self.popover = None

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        # First: of all that happens to forty fields while a page is made nothing else is meant.
        if event.type() not in (QEvent.Type.ContextMenu, QEvent.Type.MouseButtonRelease):
            return False
        path = self._path_of(watched)
        if not path:
            return False
        if isinstance(event, QContextMenuEvent):
            self.menu(path).popup(event.globalPos())
            return True
        if watched is self._fields[path][0].shown and path in self._axes:
            self.open(path)
        return False

    def menu(self, path: str) -> QMenu:
        """What a right click at a field offers."""
        field, _ = self._fields[path]
        shown = field.shown
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
            if watched in (field, field.control, field.shown):
                return path
        return ""


def with_first_values(raw: Mapping[str, object], axes: tuple[Axis, ...]) -> dict[str, object]:
    """The job file of the first job: what the fields that take several values begin with."""
    whole = dict(raw)
    for axis in axes:
        points = axis.points()
        part, _, key = axis.path.partition(".")
        if not points:
            continue
        if not key:
            whole[part] = points[0]
            continue
        table = whole.get(part)
        whole[part] = {**(table if isinstance(table, Mapping) else {}), key: points[0]}
    return whole
