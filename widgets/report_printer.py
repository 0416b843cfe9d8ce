"""Print the HTML on the standard input as PDF to the standard output, in a process of its own."""

from __future__ import annotations

import base64
import sys

from PySide6.QtCore import QByteArray, QFile, QIODevice, QMarginsF, QUrl
from PySide6.QtGui import QGuiApplication, QImage, QPainter, QPdfWriter, QTextDocument, QTextOption
from PySide6.QtSvg import QSvgRenderer

_SCALE = 2
"""The pixels of an image for each of its curve's: with the width in the HTML 350 per inch."""


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
    # Qt adds margins of 2 cm, and the number of the page.
    writer.setPageMargins(QMarginsF())
    document.print_(writer)
