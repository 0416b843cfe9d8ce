"""A view of a log that holds only the visible lines.

A log may have millions of lines: the view knows their number, requests the visible lines, and
caches a few thousand. Painting time depends on the visible lines, not on the log's length.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass

from PySide6.QtCore import QPoint, QPointF, QRectF, Qt, Signal, Slot
from PySide6.QtGui import (
    QContextMenuEvent,
    QFocusEvent,
    QFont,
    QFontMetricsF,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QAbstractScrollArea, QFrame, QWidget

from backend.records.jobs.view import LogLines
from widgets.common import theme
from widgets.common.painting import paint_focus
from widgets.common.theme import R_CONTROL, S2, S3
from widgets.jobs.log.log_ansi import Style, StyledText, split_styles

CHUNK = 256
"""Lines that are requested and cached together."""
_MAX_CHUNKS = 64
_LEADING = 3
_ERROR_LINE = re.compile(
    r"^(?:Traceback \(most recent call last\)|(?:[A-Za-z_]\w*\.)*\w*(?:Error|Exception)\b(?::|$)"
    r"|Fatal Python error|.*\bNCCL WARN\b)"
)


@dataclass(frozen=True)
class _ViewLine:
    texts: tuple[StyledText, ...]
    source: str = ""

    @property
    def text(self) -> str:
        return "".join(styled_text.text for styled_text in self.texts)


class LogView(QAbstractScrollArea):
    """Lines by number, from 0.

    Signals:
        lines_requested: Number of the first line, and count.
        following_changed: Whether the view stays at the end.
        copy_requested: The selected lines, as start and count.
        menu_requested: The number of a line, and the position of its menu on the screen.
    """

    lines_requested = Signal(int, int)
    following_changed = Signal(bool)
    copy_requested = Signal(int, int)
    menu_requested = Signal(int, QPoint)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Log")
        self.viewport().setCursor(Qt.CursorShape.IBeamCursor)
        self._font = theme.font("mono")
        metrics = QFontMetricsF(self._font)
        self._row_h = round(metrics.height()) + _LEADING
        self._ascent = metrics.ascent() + _LEADING / 2
        self._digit_w = metrics.horizontalAdvance("0")
        self._has_numbers = True
        self.is_following = True
        self._needle = ""
        self._matches: set[int] = set()
        self.verticalScrollBar().valueChanged.connect(self._update_scroll)
        self.horizontalScrollBar().setSingleStep(round(self._digit_w * 8))
        self.clear()

    # -- input

    def clear(self) -> None:
        """Remove all lines, for another log."""
        self.line_count = 0
        self._generation = -1
        self._chunks: OrderedDict[int, tuple[_ViewLine, ...]] = OrderedDict()
        self._requested_chunks: set[int] = set()
        self._widest_line = 0.0
        self._anchor = self._cursor = -1
        self.marked_line = -1
        self._source_width = 0
        self._matches = set()
        self._set_following(True)
        self._fit_scroll_bars()
        self.viewport().update()

    def set_numbers_visible(self, is_visible: bool) -> None:
        """Show or hide line numbers: a log that is read from its middle has none."""
        self._has_numbers = is_visible

    def set_size(self, line_count: int, generation: int) -> None:
        """Set the current number of lines."""
        if generation != self._generation:
            was_following = self.is_following
            self.clear()
            self._generation = generation
            self._set_following(was_following)
        if line_count == self.line_count:
            return
        # The last line may have been incomplete, and its chunk not full.
        if self.line_count:
            self._requested_chunks.discard((self.line_count - 1) // CHUNK)
        self.line_count = line_count
        self._fit_scroll_bars()
        if self.is_following:
            self.to_end()
        self._request_chunks()
        self.viewport().update()

    def show_lines(self, lines: LogLines) -> None:
        """Show requested lines."""
        if lines.generation != self._generation or lines.first_number % CHUNK:
            return
        sources = lines.sources or ("",) * len(lines.lines)
        if lines.sources:
            self._source_width = max(self._source_width, *map(len, sources), 1)
        number = lines.first_number // CHUNK
        self._chunks[number] = tuple(
            _ViewLine(split_styles(text), source)
            for text, source in zip(lines.lines, sources, strict=True)
        )
        self._chunks.move_to_end(number)
        while len(self._chunks) > _MAX_CHUNKS:
            oldest_number, _ = self._chunks.popitem(last=False)
            self._requested_chunks.discard(oldest_number)
        self._fit_widest(self._chunks[number])
        self.viewport().update()

    def set_matches(self, needle: str, lines: tuple[int, ...]) -> None:
        """Mark the search text in the visible lines."""
        self._needle = needle.casefold()
        self._matches = set(lines)
        self.viewport().update()

    def go_to(self, line: int) -> None:
        """Scroll a line to the middle, and mark it."""
        self.marked_line = line
        self._set_following(False)
        self.verticalScrollBar().setValue(max(0, line - self._row_count() // 2))
        if line >= self.line_count - self._row_count():
            self.verticalScrollBar().setValue(max(0, line - self._row_count() // 2))
        self._set_following(False)
        self.viewport().update()

    @Slot()
    def to_end(self) -> None:
        """Follow the end of the log."""
        self._set_following(True)
        bar = self.verticalScrollBar()
        bar.setValue(bar.maximum())

    # -- state

    @property
    def first_line(self) -> int:
        """Return the number of the first visible line."""
        return self.verticalScrollBar().value()

    def line_text(self, line: int) -> str | None:
        """Return the text of a line, None if the line has not arrived yet."""
        view_line = self._line(line)
        return None if view_line is None else view_line.text

    def selection(self) -> tuple[int, int]:
        """Return the first line and the count of the selection; (0, 0) for none."""
        if self._anchor < 0:
            return 0, 0
        start, end = sorted((self._anchor, self._cursor))
        return start, end - start + 1

    # -- painting

    def paintEvent(self, _event: QPaintEvent) -> None:
        colours = theme.current()
        painter = QPainter(self.viewport())
        painter.fillRect(self.viewport().rect(), colours.q("surface"))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(colours.q("sunken"))
        painter.drawRoundedRect(QRectF(self.viewport().rect()), R_CONTROL, R_CONTROL)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        gutter_w = self._gutter_width()
        shift = self.horizontalScrollBar().value()
        selection_start, selection_count = self.selection()
        width = self.viewport().width()
        for row in range(self._row_count() + 1):
            number = self.first_line + row
            if number >= self.line_count:
                break
            top = float(row * self._row_h)
            line = self._line(number)
            if selection_start <= number < selection_start + selection_count:
                painter.fillRect(QRectF(0, top, width, self._row_h), colours.q("selected"))
            if number == self.marked_line:
                painter.fillRect(QRectF(0, top, width, self._row_h), colours.q("warn_tint"))
                painter.fillRect(QRectF(0, top, 3, self._row_h), colours.q("warn_fill"))
            if line is None:
                box = QRectF(gutter_w, top + self._row_h / 2 - 2, self._digit_w * 24, 4)
                painter.fillRect(box, colours.q("line"))
            else:
                painter.save()
                painter.setClipRect(QRectF(gutter_w - 2, top, width - gutter_w + 2, self._row_h))
                self._paint_line(painter, line, gutter_w - shift, top, number in self._matches)
                painter.restore()
            self._paint_gutter(painter, line, number, top)
        if self.hasFocus():
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            paint_focus(painter, QRectF(self.viewport().rect()), R_CONTROL)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self.viewport().update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.viewport().update()

    def _paint_line(
        self, painter: QPainter, line: _ViewLine, x: float, top: float, has_match: bool
    ) -> None:
        colours = theme.current()
        metrics = QFontMetricsF(self._font)
        if has_match and self._needle:
            text = line.text
            folded_text = text.casefold()
            offset = folded_text.find(self._needle)
            while offset >= 0:
                match_x = metrics.horizontalAdvance(text[:offset])
                match_w = metrics.horizontalAdvance(text[offset : offset + len(self._needle)])
                box = QRectF(x + match_x, top + 1, match_w, self._row_h - 2)
                painter.fillRect(box, colours.q("warn_fill", 0.35))
                offset = folded_text.find(self._needle, offset + len(self._needle))
        is_error = bool(_ERROR_LINE.match(line.text))
        for styled_text in line.texts:
            style = styled_text.style
            color_role = style.color_role or (
                "bad" if is_error else "text3" if style.dim else "text"
            )
            painter.setFont(self._style_font(style))
            painter.setPen(colours.q(color_role))
            painter.drawText(QPointF(x, top + self._ascent), styled_text.text)
            x += QFontMetricsF(painter.font()).horizontalAdvance(styled_text.text)

    def _paint_gutter(
        self, painter: QPainter, line: _ViewLine | None, number: int, top: float
    ) -> None:
        colours = theme.current()
        painter.setFont(self._font)
        right = self._gutter_width() - S3
        if self._source_width:
            painter.setPen(colours.q("text2"))
            box = QRectF(S2, top, right - S2, self._row_h)
            flags = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
            painter.drawText(box, flags, line.source if line is not None else "")
        elif self._has_numbers:
            painter.setPen(colours.q("text3"))
            box = QRectF(0, top, right, self._row_h)
            flags = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
            painter.drawText(box, flags, str(number + 1))

    def _style_font(self, style: Style) -> QFont:
        if not (style.bold or style.italic or style.underlined):
            return self._font
        font = QFont(self._font)
        font.setBold(style.bold)
        font.setItalic(style.italic)
        font.setUnderline(style.underlined)
        return font

    # -- visible lines

    def _row_count(self) -> int:
        return max(1, self.viewport().height() // self._row_h)

    def _gutter_width(self) -> float:
        if self._source_width:
            return S2 + self._source_width * self._digit_w + S3
        if not self._has_numbers:
            return float(S3)
        return S2 + len(str(max(self.line_count, 999))) * self._digit_w + S3

    def _line(self, number: int) -> _ViewLine | None:
        chunk = self._chunks.get(number // CHUNK)
        if chunk is None or number % CHUNK >= len(chunk):
            return None
        return chunk[number % CHUNK]

    def _fit_scroll_bars(self) -> None:
        vertical, horizontal = self.verticalScrollBar(), self.horizontalScrollBar()
        rows = self._row_count()
        vertical.setPageStep(rows)
        vertical.setRange(0, max(0, self.line_count - rows))
        text_width = self.viewport().width() - self._gutter_width()
        horizontal.setPageStep(max(1, round(text_width)))
        horizontal.setRange(0, max(0, round(self._widest_line - text_width + S3)))

    def _fit_widest(self, lines: tuple[_ViewLine, ...]) -> None:
        metrics = QFontMetricsF(self._font)
        longest_text = max((line.text for line in lines), key=len, default="")
        width = metrics.horizontalAdvance(longest_text)
        if width > self._widest_line:
            self._widest_line = width
            self._fit_scroll_bars()

    def _request_chunks(self) -> None:
        """Request visible lines that are not cached, each chunk once."""
        if not self.line_count or not self.isVisible():
            return
        first_chunk = self.first_line // CHUNK
        last_chunk = min(self.line_count - 1, self.first_line + self._row_count()) // CHUNK
        for number in range(first_chunk, last_chunk + 1):
            cached_count = len(self._chunks.get(number, ()))
            expected_count = min(CHUNK, self.line_count - number * CHUNK)
            if cached_count < expected_count and number not in self._requested_chunks:
                self._requested_chunks.add(number)
                self.lines_requested.emit(number * CHUNK, CHUNK)

    def _set_following(self, is_following: bool) -> None:
        if is_following != self.is_following:
            self.is_following = is_following
            self.following_changed.emit(is_following)

    @Slot()
    def _update_scroll(self) -> None:
        bar = self.verticalScrollBar()
        self._request_chunks()
        if bar.value() >= bar.maximum() and self.marked_line < 0:
            self._set_following(True)
        self.viewport().update()

    def scrollContentsBy(self, _dx: int, _dy: int) -> None:
        self.viewport().update()

    # -- events

    def wheelEvent(self, event: QWheelEvent) -> None:
        self._clear_mark(event.angleDelta().y() > 0)
        super().wheelEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        bar = self.verticalScrollBar()
        key = event.key()
        control = bool(event.modifiers() & Qt.KeyboardModifier.ControlModifier)
        positions_by_key = {
            Qt.Key.Key_Up: bar.value() - 1,
            Qt.Key.Key_Down: bar.value() + 1,
            Qt.Key.Key_PageUp: bar.value() - self._row_count(),
            Qt.Key.Key_PageDown: bar.value() + self._row_count(),
            Qt.Key.Key_Home: 0,
        }
        if key == Qt.Key.Key_End:
            self.marked_line = -1
            self.to_end()
        elif key in positions_by_key:
            self._clear_mark(positions_by_key[Qt.Key(key)] < bar.value())
            bar.setValue(positions_by_key[Qt.Key(key)])
        elif control and key == Qt.Key.Key_A and self.line_count:
            self._anchor, self._cursor = 0, self.line_count - 1
            self.viewport().update()
        elif control and key == Qt.Key.Key_C:
            self.copy_requested.emit(*self.selection())
        else:
            super().keyPressEvent(event)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() != Qt.MouseButton.LeftButton:
            return
        line = self._line_at(event)
        if event.modifiers() & Qt.KeyboardModifier.ShiftModifier and self._anchor >= 0:
            self._cursor = line
        else:
            self._anchor = self._cursor = -1
            self._pressed_line = line
        self.marked_line = -1
        self.viewport().update()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if not event.buttons() & Qt.MouseButton.LeftButton or not self.line_count:
            return
        bar = self.verticalScrollBar()
        if event.position().y() < 0:
            self._clear_mark(True)
            bar.setValue(bar.value() - 1)
        elif event.position().y() > self.viewport().height():
            bar.setValue(bar.value() + 1)
        if self._anchor < 0:
            self._anchor = self._pressed_line
        self._cursor = self._line_at(event)
        self.viewport().update()

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        is_key = event.reason() == QContextMenuEvent.Reason.Keyboard
        row = event.pos().y() // self._row_h
        line = self.selection()[0] if is_key and self._anchor >= 0 else self.first_line + row
        if line < self.line_count:
            self.menu_requested.emit(line, event.globalPos())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_scroll_bars()
        if self.is_following:
            self.to_end()
        self._request_chunks()

    def showEvent(self, event: object) -> None:
        self._fit_scroll_bars()
        self._request_chunks()

    def _clear_mark(self, is_upward: bool) -> None:
        self.marked_line = -1
        if is_upward and self.verticalScrollBar().maximum() > 0:
            self._set_following(False)

    def _line_at(self, event: QMouseEvent) -> int:
        row = int(event.position().y()) // self._row_h
        return max(0, min(self.line_count - 1, self.first_line + row))
