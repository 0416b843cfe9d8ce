"""A page of Markdown in the font and colours of the window."""

from __future__ import annotations

from PySide6.QtCore import QEvent
from PySide6.QtGui import (
    QResizeEvent,
    QTextBlock,
    QTextBlockFormat,
    QTextCharFormat,
    QTextCursor,
    QTextFormat,
    QTextFragment,
    QTextFrameFormat,
    QTextLength,
    QTextTable,
    QTextTableCellFormat,
)
from PySide6.QtWidgets import QFrame, QTextBrowser, QWidget

from widgets.common import theme
from widgets.common.painting import text_width
from widgets.common.theme import S1, S2, S3, S4, S5, SCROLL_BAR_W, TEXT_MAX_CHARS, Role

_HEADINGS: dict[int, Role] = {1: "title", 2: "heading", 3: "strong"}
_LINE_HEIGHT_PERCENT = 135
_CODE_CHARS = 86
_PROSE = "In the window you see its loss fall; press Stop, then Resume: it continues."
"""Measures the line width: the mean of all letters would be a third wider."""


class RichText(QTextBrowser):
    """Read-only text; links emit `anchorClicked` and are never followed here."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setOpenLinks(False)
        self.setProperty("kind", "page")
        self._markdown = ""

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Limit the width of prose, because long lines are hard to read; code is not cut."""
        prose_w = text_width(_PROSE) * TEXT_MAX_CHARS // len(_PROSE)
        max_width = max(prose_w, text_width("0" * _CODE_CHARS, "mono") + S4 + S1)
        self.setViewportMargins(0, 0, max(0, self.width() - SCROLL_BAR_W - max_width), 0)
        super().resizeEvent(event)
        self._layout_text()

    def _layout_text(self) -> None:
        """Lay the text out in the present width, because Qt keeps the previous scroll range."""
        document, width = self.document(), self.viewport().width()
        document.setTextWidth(width)
        self.horizontalScrollBar().setMaximum(max(0, round(document.size().width()) - width))

    def show_markdown(self, text: str) -> None:
        self._markdown = text
        self._render()

    def show_heading(self, fragment: str) -> None:
        """Scroll to the heading that a link ``#a-heading`` means; "" is the top."""
        block = self.document().begin()
        while block.isValid():
            if block.blockFormat().headingLevel() and _heading_fragment(block.text()) == fragment:
                top = self.document().documentLayout().blockBoundingRect(block).top()
                self.verticalScrollBar().setValue(int(top))
                return
            block = block.next()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange and self._markdown:
            scroll_position = self.verticalScrollBar().value()
            self._render()
            self.verticalScrollBar().setValue(scroll_position)

    def _render(self) -> None:
        document = self.document()
        document.setDefaultFont(theme.font("body"))
        document.setDocumentMargin(0)
        self.setMarkdown(self._markdown)
        # One edit block; otherwise each change would lay the whole page out again.
        cursor = QTextCursor(document)
        cursor.beginEditBlock()
        block = document.begin()
        while block.isValid():
            _style_block(block)
            block = block.next()
        for frame in document.rootFrame().childFrames():
            if isinstance(frame, QTextTable):
                _style_table(frame)
        cursor.endEditBlock()
        self._layout_text()
        self.moveCursor(QTextCursor.MoveOperation.Start)


def _heading_fragment(heading: str) -> str:
    """Return the name of a heading in links, as GitHub makes it."""
    valid_chars = (char for char in heading.casefold() if char.isalnum() or char in " -_")
    return "".join(valid_chars).strip().replace(" ", "-")


def _is_code(block: QTextBlock) -> bool:
    block_format = block.blockFormat()
    return (
        block_format.hasProperty(QTextFormat.Property.BlockCodeLanguage)
        or block_format.nonBreakableLines()
    )


def _style_block(block: QTextBlock) -> None:
    block_format, cursor = QTextBlockFormat(block.blockFormat()), QTextCursor(block)
    level = block_format.headingLevel()
    block_format.setTopMargin(S5 if level > 1 else 0)
    block_format.setBottomMargin(0 if cursor.currentTable() else S2)
    is_code = _is_code(block)
    if is_code:
        # A long command continues below itself, indented, so that the page needs no horizontal
        # scrolling.
        block_format.setNonBreakableLines(False)
        block_format.setLeftMargin(S4 + S5)
        block_format.setTextIndent(-S5)
        block_format.setBottomMargin(0 if _is_code(block.next()) else S3)
    block_format.setLineHeight(
        _LINE_HEIGHT_PERCENT, QTextBlockFormat.LineHeightTypes.ProportionalHeight.value
    )
    cursor.setBlockFormat(block_format)
    for fragment in _block_fragments(block):
        text_format = fragment.charFormat()
        cursor.setPosition(fragment.position())
        cursor.setPosition(fragment.position() + fragment.length(), QTextCursor.MoveMode.KeepAnchor)
        new_format = QTextCharFormat()
        if level:
            new_format.setFont(theme.font(_HEADINGS.get(level, "strong")))
            # Not merged: Markdown's own factor for a heading's size would remain.
            cursor.setCharFormat(new_format)
            continue
        if text_format.fontFixedPitch() or is_code:
            new_format.setFont(theme.font("mono"))
        elif text_format.isAnchor():
            new_format.setForeground(theme.current().q("live"))
        cursor.mergeCharFormat(new_format)


def _block_fragments(block: QTextBlock) -> list[QTextFragment]:
    fragments = []
    iterator = block.begin()
    while not iterator.atEnd():
        fragments.append(iterator.fragment())
        iterator += 1
    return fragments


def _style_table(table: QTextTable) -> None:
    table_format = table.format().toTableFormat()
    table_format.setBorder(0)
    table_format.setCellSpacing(0)
    table_format.setTopMargin(S1)
    table_format.setBottomMargin(S4)
    table_format.setWidth(QTextLength(QTextLength.Type.PercentageLength, 100))
    table.setFormat(table_format)
    for line in range(table.rows()):
        for column in range(table.columns()):
            cell = table.cellAt(line, column)
            cell_format = QTextTableCellFormat()
            cell_format.merge(cell.format())
            cell_format.setTopPadding(S2)
            cell_format.setBottomPadding(S2)
            cell_format.setLeftPadding(0)
            cell_format.setRightPadding(S4)
            cell_format.setBottomBorder(1)
            cell_format.setBottomBorderStyle(QTextFrameFormat.BorderStyle.BorderStyle_Solid)
            cell_format.setBottomBorderBrush(theme.current().q("line"))
            cell.setFormat(cell_format)
