"""A view of a log that holds only the visible lines.

A log may have millions of lines: the view knows their number, requests those it paints, and caches
a few thousand. Painting time depends on the visible lines, not on the log's length.
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
_CHUNKS_KEPT = 64
_LEADING = 3
_FAULT = re.compile(
    r"^(?:Traceback \(most recent call last\)|(?:[A-Za-z_]\w*\.)*\w*(?:Error|Exception)\b(?::|$)"
    r"|Fatal Python error|.*\bNCCL WARN\b)"
)


@dataclass(frozen=True)
class _Line:
    texts: tuple[StyledText, ...]
    source: str = ""

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.texts)


class LogView(QAbstractScrollArea):
    """Lines by number, from 0.

    Signals:
        lines_requested: Number of the first line, and count.
        follows_changed: Whether the view stays at the end.
        copy_requested: The selected lines, as first and count.
        menu_requested: The number of a line, and where on the screen its menu opens.
    """

    lines_requested = Signal(int, int)
    follows_changed = Signal(bool)
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
        self._row = round(metrics.height()) + _LEADING
        self._ascent = metrics.ascent() + _LEADING / 2
        self._digit = metrics.horizontalAdvance("0")
        self._numbered = True
        self._follows = True
        self._needle = ""
        self._matches: set[int] = set()
        self.verticalScrollBar().valueChanged.connect(self._scrolled)
        self.horizontalScrollBar().setSingleStep(round(self._digit * 8))
        self.clear()

    # -- input

    def clear(self) -> None:
        """Remove all lines, for another log."""
        self._total = 0
        self._generation = -1
        self._chunks: OrderedDict[int, tuple[_Line, ...]] = OrderedDict()
        self._requested: set[int] = set()
        self._widest = 0.0
        self._anchor = self._cursor = -1
        self._marked = -1
        self._sources = 0
        self._matches = set()
        self._set_follows(True)
        self._fit()
        self.viewport().update()

    def set_numbered(self, numbered: bool) -> None:
        """Show or hide line numbers: a log that is read from its middle has none."""
        self._numbered = numbered

    def set_size(self, lines: int, generation: int) -> None:
        """Set the current number of lines."""
        if generation != self._generation:
            follows = self._follows
            self.clear()
            self._generation = generation
            self._set_follows(follows)
        if lines == self._total:
            return
        # The last line may have been incomplete, and its chunk not full.
        if self._total:
            self._requested.discard((self._total - 1) // CHUNK)
        self._total = lines
        self._fit()
        if self._follows:
            self.to_end()
        self._request()
        self.viewport().update()

    def show_lines(self, lines: LogLines) -> None:
        """Show requested lines."""
        if lines.generation != self._generation or lines.first_number % CHUNK:
            return
        sources = lines.sources or ("",) * len(lines.lines)
        if lines.sources:
            self._sources = max(self._sources, *(len(one) for one in sources), 1)
        number = lines.first_number // CHUNK
        self._chunks[number] = tuple(
            _Line(split_styles(text), source)
            for text, source in zip(lines.lines, sources, strict=True)
        )
        self._chunks.move_to_end(number)
        while len(self._chunks) > _CHUNKS_KEPT:
            gone, _ = self._chunks.popitem(last=False)
            self._requested.discard(gone)
        self._widen(self._chunks[number])
        self.viewport().update()

    def set_matches(self, needle: str, lines: tuple[int, ...]) -> None:
        """Mark the search text in the visible lines."""
        self._needle = needle.casefold()
        self._matches = set(lines)
        self.viewport().update()

    def go_to(self, line: int) -> None:
        """Scroll a line to the middle, and mark it."""
        self._marked = line
        self._set_follows(False)
        self.verticalScrollBar().setValue(max(0, line - self._rows() // 2))
        if line >= self._total - self._rows():
            self.verticalScrollBar().setValue(max(0, line - self._rows() // 2))
        self._set_follows(False)
        self.viewport().update()

    @Slot()
    def to_end(self) -> None:
        """Follow the end of the log."""
        self._set_follows(True)
        bar = self.verticalScrollBar()
        bar.setValue(bar.maximum())

    # -- state

    @property
    def line_count(self) -> int:
        return self._total

    @property
    def is_following(self) -> bool:
        return self._follows

    @property
    def first_line(self) -> int:
        """Return the number of the first visible line."""
        return self.verticalScrollBar().value()

    @property
    def marked_line(self) -> int:
        return self._marked

    def line_text(self, line: int) -> str | None:
        """Return a line as it is painted, None if it has not arrived yet."""
        found = self._line(line)
        return None if found is None else found.text

    def selection(self) -> tuple[int, int]:
        """Return the first line and the count of the selection; (0, 0) for none."""
        if self._anchor < 0:
            return 0, 0
        first, last = sorted((self._anchor, self._cursor))
        return first, last - first + 1

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
        left = self._gutter()
        shift = self.horizontalScrollBar().value()
        first, chosen = self.selection()
        width = self.viewport().width()
        for at in range(self._rows() + 1):
            number = self.first_line + at
            if number >= self._total:
                break
            top = float(at * self._row)
            line = self._line(number)
            if first <= number < first + chosen:
                painter.fillRect(QRectF(0, top, width, self._row), colours.q("selected"))
            if number == self._marked:
                painter.fillRect(QRectF(0, top, width, self._row), colours.q("warn_tint"))
                painter.fillRect(QRectF(0, top, 3, self._row), colours.q("warn_fill"))
            if line is None:
                box = QRectF(left, top + self._row / 2 - 2, self._digit * 24, 4)
                painter.fillRect(box, colours.q("line"))
            else:
                painter.save()
                painter.setClipRect(QRectF(left - 2, top, width - left + 2, self._row))
                self._paint_line(painter, line, left - shift, top, number in self._matches)
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
        self, painter: QPainter, line: _Line, left: float, top: float, holds: bool
    ) -> None:
        colours = theme.current()
        metrics = QFontMetricsF(self._font)
        if holds and self._needle:
            text = line.text
            folded = text.casefold()
            place = folded.find(self._needle)
            while place >= 0:
                begin = metrics.horizontalAdvance(text[:place])
                wide = metrics.horizontalAdvance(text[place : place + len(self._needle)])
                box = QRectF(left + begin, top + 1, wide, self._row - 2)
                painter.fillRect(box, colours.q("warn_fill", 0.35))
                place = folded.find(self._needle, place + len(self._needle))
        is_fault = bool(_FAULT.match(line.text))
        for piece in line.texts:
            style = piece.style
            tone = style.color_role or ("bad" if is_fault else "text3" if style.dim else "text")
            painter.setFont(self._styled(style))
            painter.setPen(colours.q(tone))
            painter.drawText(QPointF(left, top + self._ascent), piece.text)
            left += QFontMetricsF(painter.font()).horizontalAdvance(piece.text)

    def _paint_gutter(self, painter: QPainter, line: _Line | None, number: int, top: float) -> None:
        colours = theme.current()
        painter.setFont(self._font)
        right = self._gutter() - S3
        if self._sources:
            painter.setPen(colours.q("text2"))
            box = QRectF(S2, top, right - S2, self._row)
            flags = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
            painter.drawText(box, flags, line.source if line is not None else "")
        elif self._numbered:
            painter.setPen(colours.q("text3"))
            box = QRectF(0, top, right, self._row)
            flags = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
            painter.drawText(box, flags, str(number + 1))

    def _styled(self, style: Style) -> QFont:
        if not (style.bold or style.italic or style.underlined):
            return self._font
        font = QFont(self._font)
        font.setBold(style.bold)
        font.setItalic(style.italic)
        font.setUnderline(style.underlined)
        return font

    # -- visible lines

    def _rows(self) -> int:
        return max(1, self.viewport().height() // self._row)

    def _gutter(self) -> float:
        if self._sources:
            return S2 + self._sources * self._digit + S3
        if not self._numbered:
            return float(S3)
        return S2 + len(str(max(self._total, 999))) * self._digit + S3

    def _line(self, number: int) -> _Line | None:
        chunk = self._chunks.get(number // CHUNK)
        if chunk is None or number % CHUNK >= len(chunk):
            return None
        return chunk[number % CHUNK]

    def _fit(self) -> None:
        vertical, across = self.verticalScrollBar(), self.horizontalScrollBar()
        rows = self._rows()
        vertical.setPageStep(rows)
        vertical.setRange(0, max(0, self._total - rows))
        room = self.viewport().width() - self._gutter()
        across.setPageStep(max(1, round(room)))
        across.setRange(0, max(0, round(self._widest - room + S3)))

    def _widen(self, lines: tuple[_Line, ...]) -> None:
        metrics = QFontMetricsF(self._font)
        longest = max((line.text for line in lines), key=len, default="")
        width = metrics.horizontalAdvance(longest)
        if width > self._widest:
            self._widest = width
            self._fit()

    def _request(self) -> None:
        """Request visible lines that are not cached, each chunk once."""
        if not self._total or not self.isVisible():
            return
        first = self.first_line // CHUNK
        last = min(self._total - 1, self.first_line + self._rows()) // CHUNK
        for number in range(first, last + 1):
            there = len(self._chunks.get(number, ()))
            wanted = min(CHUNK, self._total - number * CHUNK)
            if there < wanted and number not in self._requested:
                self._requested.add(number)
                self.lines_requested.emit(number * CHUNK, CHUNK)

    def _set_follows(self, follows: bool) -> None:
        if follows != self._follows:
            self._follows = follows
            self.follows_changed.emit(follows)

    @Slot()
    def _scrolled(self) -> None:
        bar = self.verticalScrollBar()
        self._request()
        if bar.value() >= bar.maximum() and self._marked < 0:
            self._set_follows(True)
        self.viewport().update()

    def scrollContentsBy(self, _dx: int, _dy: int) -> None:
        self.viewport().update()

    # -- events

    def wheelEvent(self, event: QWheelEvent) -> None:
        self._let_go(event.angleDelta().y() > 0)
        super().wheelEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        bar = self.verticalScrollBar()
        key = event.key()
        control = bool(event.modifiers() & Qt.KeyboardModifier.ControlModifier)
        moves = {
            Qt.Key.Key_Up: bar.value() - 1,
            Qt.Key.Key_Down: bar.value() + 1,
            Qt.Key.Key_PageUp: bar.value() - self._rows(),
            Qt.Key.Key_PageDown: bar.value() + self._rows(),
            Qt.Key.Key_Home: 0,
        }
        if key == Qt.Key.Key_End:
            self._marked = -1
            self.to_end()
        elif key in moves:
            self._let_go(moves[Qt.Key(key)] < bar.value())
            bar.setValue(moves[Qt.Key(key)])
        elif control and key == Qt.Key.Key_A and self._total:
            self._anchor, self._cursor = 0, self._total - 1
            self.viewport().update()
        elif control and key == Qt.Key.Key_C:
            self.copy_requested.emit(*self.selection())
        else:
            super().keyPressEvent(event)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() != Qt.MouseButton.LeftButton:
            return
        line = self._at(event)
        if event.modifiers() & Qt.KeyboardModifier.ShiftModifier and self._anchor >= 0:
            self._cursor = line
        else:
            self._anchor = self._cursor = -1
            self._pressed = line
        self._marked = -1
        self.viewport().update()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if not event.buttons() & Qt.MouseButton.LeftButton or not self._total:
            return
        bar = self.verticalScrollBar()
        if event.position().y() < 0:
            self._let_go(True)
            bar.setValue(bar.value() - 1)
        elif event.position().y() > self.viewport().height():
            bar.setValue(bar.value() + 1)
        if self._anchor < 0:
            self._anchor = self._pressed
        self._cursor = self._at(event)
        self.viewport().update()

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        is_key = event.reason() == QContextMenuEvent.Reason.Keyboard
        row = event.pos().y() // self._row
        at = self.selection()[0] if is_key and self._anchor >= 0 else self.first_line + row
        if at < self._total:
            self.menu_requested.emit(at, event.globalPos())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()
        if self._follows:
            self.to_end()
        self._request()

    def showEvent(self, event: object) -> None:
        self._fit()
        self._request()

    def _let_go(self, upwards: bool) -> None:
        self._marked = -1
        if upwards and self.verticalScrollBar().maximum() > 0:
            self._set_follows(False)

    def _at(self, event: QMouseEvent) -> int:
        row = int(event.position().y()) // self._row
        return max(0, min(self._total - 1, self.first_line + row))
