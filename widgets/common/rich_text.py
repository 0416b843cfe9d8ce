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
        prose = text_width(_PROSE) * TEXT_MAX_CHARS // len(_PROSE)
        most = max(prose, text_width("0" * _CODE_CHARS, "mono") + S4 + S1)
        self.setViewportMargins(0, 0, max(0, self.width() - SCROLL_BAR_W - most), 0)
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        """Lay the text out in the width that is left: Qt scrolls to that of before."""
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
            if block.blockFormat().headingLevel() and _fragment_of(block.text()) == fragment:
                top = self.document().documentLayout().blockBoundingRect(block).top()
                self.verticalScrollBar().setValue(int(top))
                return
            block = block.next()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange and self._markdown:
            at = self.verticalScrollBar().value()
            self._render()
            self.verticalScrollBar().setValue(at)

    def _render(self) -> None:
        document = self.document()
        document.setDefaultFont(theme.font("body"))
        document.setDocumentMargin(0)
        self.setMarkdown(self._markdown)
        # One edit block; otherwise each change would lay the whole page out again.
        whole = QTextCursor(document)
        whole.beginEditBlock()
        block = document.begin()
        while block.isValid():
            _dress_block(block)
            block = block.next()
        for frame in document.rootFrame().childFrames():
            if isinstance(frame, QTextTable):
                _dress_table(frame)
        whole.endEditBlock()
        self._fit()
        self.moveCursor(QTextCursor.MoveOperation.Start)


def _fragment_of(heading: str) -> str:
    """Return the name of a heading in links, as GitHub makes it."""
    kept = (char for char in heading.casefold() if char.isalnum() or char in " -_")
    return "".join(kept).strip().replace(" ", "-")


def _is_code(block: QTextBlock) -> bool:
    form = block.blockFormat()
    return form.hasProperty(QTextFormat.Property.BlockCodeLanguage) or form.nonBreakableLines()


def _dress_block(block: QTextBlock) -> None:
    form, cursor = QTextBlockFormat(block.blockFormat()), QTextCursor(block)
    level = form.headingLevel()
    form.setTopMargin(S5 if level > 1 else 0)
    form.setBottomMargin(0 if cursor.currentTable() else S2)
    is_code = _is_code(block)
    if is_code:
        # A long command continues below itself, indented, so that the page needs no horizontal
        # scrolling.
        form.setNonBreakableLines(False)
        form.setLeftMargin(S4 + S5)
        form.setTextIndent(-S5)
        form.setBottomMargin(0 if _is_code(block.next()) else S3)
    form.setLineHeight(
        _LINE_HEIGHT_PERCENT, QTextBlockFormat.LineHeightTypes.ProportionalHeight.value
    )
    cursor.setBlockFormat(form)
    for piece in _pieces(block):
        kind = piece.charFormat()
        cursor.setPosition(piece.position())
        cursor.setPosition(piece.position() + piece.length(), QTextCursor.MoveMode.KeepAnchor)
        dress = QTextCharFormat()
        if level:
            dress.setFont(theme.font(_HEADINGS.get(level, "strong")))
            # Not merged: Markdown's own factor for a heading's size would remain.
            cursor.setCharFormat(dress)
            continue
        if kind.fontFixedPitch() or is_code:
            dress.setFont(theme.font("mono"))
        elif kind.isAnchor():
            dress.setForeground(theme.current().q("live"))
        cursor.mergeCharFormat(dress)


def _pieces(block: QTextBlock) -> list[QTextFragment]:
    found = []
    at = block.begin()
    while not at.atEnd():
        found.append(at.fragment())
        at += 1
    return found


def _dress_table(table: QTextTable) -> None:
    form = table.format().toTableFormat()
    form.setBorder(0)
    form.setCellSpacing(0)
    form.setTopMargin(S1)
    form.setBottomMargin(S4)
    form.setWidth(QTextLength(QTextLength.Type.PercentageLength, 100))
    table.setFormat(form)
    for line in range(table.rows()):
        for column in range(table.columns()):
            cell = table.cellAt(line, column)
            of_cell = QTextTableCellFormat()
            of_cell.merge(cell.format())
            of_cell.setTopPadding(S2)
            of_cell.setBottomPadding(S2)
            of_cell.setLeftPadding(0)
            of_cell.setRightPadding(S4)
            of_cell.setBottomBorder(1)
            of_cell.setBottomBorderStyle(QTextFrameFormat.BorderStyle.BorderStyle_Solid)
            of_cell.setBottomBorderBrush(theme.current().q("line"))
            cell.setFormat(of_cell)
