"""Charts of the samples per class: columns for short names, rows for long ones."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QKeyEvent, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from backend.records.library.preview import ClassCount, rare_classes
from widgets.common import formats, theme
from widgets.common.labels import plain_tip
from widgets.common.painting import fill_round, paint_focus, paint_text, text_width
from widgets.common.theme import R_CELL, S1, S2, TARGET_MIN

MOST_COLUMNS = 12
_COLUMNS_H, _FIGURE_H, _NAME_H = 136, 18, 16
_ROW_H = TARGET_MIN
_NAME_SHARE = 0.42
_UNCHOSEN = 0.35


class _Classes(QWidget):
    """The common part of both charts.

    Args:
        at: Returns the class at a point, None if there is none.

    Signals:
        chosen: The name of the class to show, "" for all.
    """

    chosen = Signal(str)

    def __init__(
        self, at: Callable[[QPointF], ClassCount | None], parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._at = at
        self._classes: tuple[ClassCount, ...] = ()
        self._rare: frozenset[str] = frozenset()
        self._only = ""
        self.setMouseTracking(True)
        self.setAccessibleName("Samples by class")

    def show_classes(self, classes: tuple[ClassCount, ...]) -> None:
        self._classes, self._only = classes, ""
        self._rare = frozenset(one.name for one in rare_classes(classes))
        words = ", ".join(f"{c.name}: {formats.count(c.count)}" for c in classes[:40])
        self.setAccessibleDescription(words)
        self.updateGeometry()
        self.update()

    def show_chosen(self, name: str) -> None:
        """Highlight this class; "" for none."""
        self._only = name
        self.update()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        at = self._at(event.position())
        if at is not None:
            self._choose("" if at.name == self._only else at.name)

    def event(self, event: QEvent) -> bool:
        if event.type() is QEvent.Type.ToolTip:
            pos = self.mapFromGlobal(self.cursor().pos())
            at = self._at(QPointF(pos))
            QToolTip.showText(self.cursor().pos(), plain_tip(self._words(at)) if at else "", self)
            return True
        return super().event(event)

    def _words(self, one: ClassCount) -> str:
        tail = ", rare" if one.name in self._rare else ""
        return f"{one.name}: {formats.plural(one.count, 'sample')}{tail}"

    def _choose(self, name: str) -> None:
        self.show_chosen(name)
        self.chosen.emit(name)

    def _paint_bar(self, painter: QPainter, bar: QRectF, one: ClassCount) -> None:
        if not one.count:
            return
        t = theme.current()
        colour = t.q("warn_fill") if one.name in self._rare else t.curve(0)
        if self._only and one.name != self._only:
            colour.setAlphaF(_UNCHOSEN)
        painter.fillRect(bar, colour)


class ClassColumns(_Classes):
    """Up to a dozen classes with short names, a column each; a rare one is amber."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(self._class_at, parent)
        self.setFixedHeight(_COLUMNS_H)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    @staticmethod
    def suits(classes: tuple[ClassCount, ...], width: int) -> bool:
        """Return True if each name and figure fits below and above its column."""
        if not 0 < len(classes) <= MOST_COLUMNS:
            return False
        words = (text for one in classes for text in (one.name, formats.count(one.count)))
        return max(text_width(text, "tiny") for text in words) <= width / len(classes)

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        most = max((one.count for one in self._classes), default=0)
        each = self.width() / max(1, len(self._classes))
        tall = self.height() - _NAME_H - 2 - _FIGURE_H
        gap = min(6.0, each * 0.2)
        for index, one in enumerate(self._classes):
            height = max(1.0, tall * one.count / most) if most else 0.0
            bar = QRectF(index * each + gap / 2, _FIGURE_H + tall - height, each - gap, height)
            self._paint_bar(painter, bar, one)
            above = QRectF(index * each - 2, bar.top() - 17, each + 4, 16)
            tone = "warn" if one.name in self._rare else "text2"
            paint_text(painter, above, formats.count(one.count), "tiny", tone, center=True)
            below = QRectF(index * each, self.height() - _NAME_H, each, _NAME_H)
            is_chosen = one.name == self._only
            paint_text(
                painter, below, one.name, "tiny", "text" if is_chosen else "text3", center=True
            )

    def _class_at(self, point: QPointF) -> ClassCount | None:
        if not self._classes or not 0 <= point.x() < self.width():
            return None
        return self._classes[int(point.x() * len(self._classes) / self.width())]


class ClassRows(_Classes):
    """Any number of classes with names of any length, a row each. Up and Down select.

    Signals:
        moved: The y of the row that was selected by key, to scroll to.
    """

    moved = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(self._class_at, parent)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def show_classes(self, classes: tuple[ClassCount, ...]) -> None:
        super().show_classes(classes)
        self.setFixedHeight(max(1, len(classes)) * _ROW_H)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        step = {Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1}.get(Qt.Key(event.key()), 0)
        index = self._index() + step
        if not step or not self._classes:
            super().keyPressEvent(event)
        elif -1 <= index < len(self._classes):
            self._choose(self._classes[index].name if index >= 0 else "")
            self.moved.emit(max(0, index) * _ROW_H)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        most = max((one.count for one in self._classes), default=0) or 1
        figure_w = text_width(formats.count(most), "tiny") + S1
        name_w = self.width() * _NAME_SHARE
        first = event.rect().top() // _ROW_H
        for index in range(first, min(len(self._classes), event.rect().bottom() // _ROW_H + 1)):
            one = self._classes[index]
            line = QRectF(0, index * _ROW_H, self.width(), _ROW_H)
            if one.name == self._only:
                fill_round(painter, line, theme.current().q("selected"), R_CELL)
            name = line.adjusted(S1, 0, name_w - line.width() - S2, 0)
            paint_text(painter, name, one.name, "small")
            room = line.width() - name_w - figure_w - S2
            bar = QRectF(name_w, line.top() + 8, max(1.0, room * one.count / most), _ROW_H - 16)
            self._paint_bar(painter, bar, one)
            tone = "warn" if one.name in self._rare else "text2"
            figure = line.adjusted(0, 0, -S1, 0)
            paint_text(painter, figure, formats.count(one.count), "tiny", tone, right=True)
        if self.hasFocus():
            line = QRectF(0, max(0, self._index()) * _ROW_H, self.width(), _ROW_H)
            paint_focus(painter, line, R_CELL)

    def _index(self) -> int:
        """The index of the selected class, -1 if all are shown."""
        names = [one.name for one in self._classes]
        return names.index(self._only) if self._only in names else -1

    def _class_at(self, point: QPointF) -> ClassCount | None:
        index = int(point.y() // _ROW_H)
        return self._classes[index] if 0 <= index < len(self._classes) else None
