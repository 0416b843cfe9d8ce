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

MAX_COLUMNS = 12
_COLUMNS_H, _FIGURE_H, _NAME_H = 136, 18, 16
_ROW_H = TARGET_MIN
_NAME_SHARE = 0.42
_DIMMED_OPACITY = 0.35


class _ClassChart(QWidget):
    """The common part of both charts.

    Args:
        at: Returns the class at a point, None if there is none.

    Signals:
        chosen: The name of the class to show, "" for all.
    """

    class_chosen = Signal(str)

    def __init__(
        self, find_class: Callable[[QPointF], ClassCount | None], parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._find_class = find_class
        self._classes: tuple[ClassCount, ...] = ()
        self._rare_names: frozenset[str] = frozenset()
        self._selected_name = ""
        self.setMouseTracking(True)
        self.setAccessibleName("Samples by class")

    def show_classes(self, classes: tuple[ClassCount, ...]) -> None:
        self._classes, self._selected_name = classes, ""
        self._rare_names = frozenset(class_count.name for class_count in rare_classes(classes))
        description = ", ".join(f"{c.name}: {formats.count(c.count)}" for c in classes[:40])
        self.setAccessibleDescription(description)
        self.updateGeometry()
        self.update()

    def highlight_class(self, name: str) -> None:
        """Highlight this class; "" for none."""
        self._selected_name = name
        self.update()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        class_count = self._find_class(event.position())
        if class_count is not None:
            self._choose_class("" if class_count.name == self._selected_name else class_count.name)

    def event(self, event: QEvent) -> bool:
        if event.type() is QEvent.Type.ToolTip:
            position = self.mapFromGlobal(self.cursor().pos())
            class_count = self._find_class(QPointF(position))
            QToolTip.showText(
                self.cursor().pos(),
                plain_tip(self._class_text(class_count)) if class_count else "",
                self,
            )
            return True
        return super().event(event)

    def _class_text(self, class_count: ClassCount) -> str:
        suffix = ", rare" if class_count.name in self._rare_names else ""
        return f"{class_count.name}: {formats.plural(class_count.count, 'sample')}{suffix}"

    def _choose_class(self, name: str) -> None:
        self.highlight_class(name)
        self.class_chosen.emit(name)

    def _paint_bar(self, painter: QPainter, bar: QRectF, class_count: ClassCount) -> None:
        if not class_count.count:
            return
        t = theme.current()
        color = t.q("warn_fill") if class_count.name in self._rare_names else t.curve(0)
        if self._selected_name and class_count.name != self._selected_name:
            color.setAlphaF(_DIMMED_OPACITY)
        painter.fillRect(bar, color)


class ClassColumns(_ClassChart):
    """Up to a dozen classes with short names, a column each; a rare one is amber."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(self._class_at, parent)
        self.setFixedHeight(_COLUMNS_H)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    @staticmethod
    def suits(classes: tuple[ClassCount, ...], width: int) -> bool:
        """Return True if each name and figure fits below and above its column."""
        if not 0 < len(classes) <= MAX_COLUMNS:
            return False
        texts = (
            text
            for class_count in classes
            for text in (class_count.name, formats.count(class_count.count))
        )
        return max(text_width(text, "tiny") for text in texts) <= width / len(classes)

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        max_count = max((class_count.count for class_count in self._classes), default=0)
        column_w = self.width() / max(1, len(self._classes))
        chart_h = self.height() - _NAME_H - 2 - _FIGURE_H
        gap = min(6.0, column_w * 0.2)
        for index, class_count in enumerate(self._classes):
            height = max(1.0, chart_h * class_count.count / max_count) if max_count else 0.0
            bar = QRectF(
                index * column_w + gap / 2, _FIGURE_H + chart_h - height, column_w - gap, height
            )
            self._paint_bar(painter, bar, class_count)
            figure_rect = QRectF(index * column_w - 2, bar.top() - 17, column_w + 4, 16)
            color_role = "warn" if class_count.name in self._rare_names else "text2"
            paint_text(
                painter,
                figure_rect,
                formats.count(class_count.count),
                "tiny",
                color_role,
                center=True,
            )
            name_rect = QRectF(index * column_w, self.height() - _NAME_H, column_w, _NAME_H)
            is_selected = class_count.name == self._selected_name
            paint_text(
                painter,
                name_rect,
                class_count.name,
                "tiny",
                "text" if is_selected else "text3",
                center=True,
            )

    def _class_at(self, point: QPointF) -> ClassCount | None:
        if not self._classes or not 0 <= point.x() < self.width():
            return None
        return self._classes[int(point.x() * len(self._classes) / self.width())]


class ClassRows(_ClassChart):
    """Any number of classes with names of any length, a row each. Up and Down select.

    Signals:
        moved: The y of the row that was selected by key, to scroll to.
    """

    row_selected = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(self._class_at, parent)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def show_classes(self, classes: tuple[ClassCount, ...]) -> None:
        super().show_classes(classes)
        self.setFixedHeight(max(1, len(classes)) * _ROW_H)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        step = {Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1}.get(Qt.Key(event.key()), 0)
        index = self._selected_index() + step
        if not step or not self._classes:
            super().keyPressEvent(event)
        elif -1 <= index < len(self._classes):
            self._choose_class(self._classes[index].name if index >= 0 else "")
            self.row_selected.emit(max(0, index) * _ROW_H)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        max_count = max((class_count.count for class_count in self._classes), default=0) or 1
        figure_w = text_width(formats.count(max_count), "tiny") + S1
        name_w = self.width() * _NAME_SHARE
        first_row = event.rect().top() // _ROW_H
        for index in range(first_row, min(len(self._classes), event.rect().bottom() // _ROW_H + 1)):
            class_count = self._classes[index]
            row_rect = QRectF(0, index * _ROW_H, self.width(), _ROW_H)
            if class_count.name == self._selected_name:
                fill_round(painter, row_rect, theme.current().q("selected"), R_CELL)
            name_rect = row_rect.adjusted(S1, 0, name_w - row_rect.width() - S2, 0)
            paint_text(painter, name_rect, class_count.name, "small")
            max_bar_w = row_rect.width() - name_w - figure_w - S2
            bar = QRectF(
                name_w,
                row_rect.top() + 8,
                max(1.0, max_bar_w * class_count.count / max_count),
                _ROW_H - 16,
            )
            self._paint_bar(painter, bar, class_count)
            color_role = "warn" if class_count.name in self._rare_names else "text2"
            figure_rect = row_rect.adjusted(0, 0, -S1, 0)
            paint_text(
                painter,
                figure_rect,
                formats.count(class_count.count),
                "tiny",
                color_role,
                right=True,
            )
        if self.hasFocus():
            row_rect = QRectF(0, max(0, self._selected_index()) * _ROW_H, self.width(), _ROW_H)
            paint_focus(painter, row_rect, R_CELL)

    def _selected_index(self) -> int:
        """The index of the selected class, -1 if all are shown."""
        names = [class_count.name for class_count in self._classes]
        return names.index(self._selected_name) if self._selected_name in names else -1

    def _class_at(self, point: QPointF) -> ClassCount | None:
        index = int(point.y() // _ROW_H)
        return self._classes[index] if 0 <= index < len(self._classes) else None
