"""Print the HTML on the standard input as PDF to the standard output, in a process of its own."""

from __future__ import annotations

import base64
import sys

from PySide6.QtCore import QByteArray, QFile, QIODevice, QMarginsF, QSizeF, QUrl
from PySide6.QtGui import (
    QGuiApplication,
    QImage,
    QPainter,
    QPdfWriter,
    QTextBlock,
    QTextCursor,
    QTextDocument,
    QTextFormat,
    QTextOption,
)
from PySide6.QtSvg import QSvgRenderer

_SCALE = 2
"""The pixels of an image for each of its curve's: with the width in the HTML 350 per inch."""
_MARGIN_CM = 2.0
_BREAK = QTextFormat.PageBreakFlag.PageBreak_AlwaysBefore
_OBJECT = "\ufffc"
"""Stands for a picture in the text of a block."""


class _Document(QTextDocument):
    def loadResource(self, _kind: int, url: QUrl | str) -> QImage:
        head, _, content = QUrl(url).toString().partition(",")
        data = QByteArray(base64.b64decode(content))
        if "svg" not in head:
            return QImage.fromData(data)
        renderer = QSvgRenderer(data)
        image = QImage(renderer.defaultSize() * _SCALE, QImage.Format.Format_RGB32)
        image.fill("white")
        painter = QPainter(image)
        renderer.render(painter)
        painter.end()
        return image


def keep_headings(document: QTextDocument, writer: QPdfWriter) -> None:
    """Let each heading that would stand alone at the end of a page begin the next page."""
    while (heading := stranded_heading(document, writer)) is not None:
        block_format = heading.blockFormat()
        if block_format.pageBreakPolicy() == _BREAK:
            return  # Its content is longer than a page.
        block_format.setPageBreakPolicy(_BREAK)
        QTextCursor(heading).setBlockFormat(block_format)


def stranded_heading(document: QTextDocument, writer: QPdfWriter) -> QTextBlock | None:
    """Return the first heading whose content begins on the next page when it is printed.

    Headings right before it stay with it, and so does a legend with its picture or table.
    """
    pages = document.clone(document)
    # As `QTextDocument.print_` lays it out.
    pages.documentLayout().setPaintDevice(writer)
    root_format = pages.rootFrame().frameFormat()
    dots_per_inch = QGuiApplication.primaryScreen().logicalDotsPerInchY()
    root_format.setMargin(int(_MARGIN_CM / 2.54 * dots_per_inch))
    pages.rootFrame().setFrameFormat(root_format)
    pages.setPageSize(QSizeF(writer.width(), writer.height()))
    block = pages.begin()
    while block.isValid():
        heading = content = block
        while content.isValid() and content.blockFormat().headingLevel():
            content = content.next()
        if content != heading and content.isValid():
            next_block = content.next()
            is_table = next_block.isValid() and QTextCursor(next_block).currentTable() is not None
            if is_table or next_block.text()[:1] == _OBJECT:
                content = next_block
            if _page_of(heading, pages) != _page_of(content, pages):
                return document.findBlockByNumber(heading.blockNumber())
        block = content.next() if content == heading else content
    return None


def _page_of(block: QTextBlock, pages: QTextDocument) -> int:
    """Return the page on which the first line of a block is."""
    top = pages.documentLayout().blockBoundingRect(block).top()
    line = block.layout().lineAt(0)
    return int((top + (line.y() if line.isValid() else 0.0)) // pages.pageSize().height())


if __name__ == "__main__":
    application = QGuiApplication(sys.argv)
    document, option, output = _Document(), QTextOption(), QFile()
    # A hash has no place to break.
    option.setWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
    document.setDefaultTextOption(option)
    document.setHtml(sys.stdin.buffer.read().decode())
    output.open(sys.stdout.fileno(), QIODevice.OpenModeFlag.WriteOnly)
    writer = QPdfWriter(output)
    writer.setTitle(document.metaInformation(QTextDocument.MetaInformation.DocumentTitle))
    # Qt adds margins of 2 cm, and the number of the page. Without margins it would set these.
    writer.setPageMargins(QMarginsF(2, 2, 2, 2))
    keep_headings(document, writer)
    document.print_(writer)
