"""Something painted, as a file's worth of bytes. Nothing is written anywhere here."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QBuffer, QByteArray, QIODevice, QMarginsF, QRect, QSize, QSizeF
from PySide6.QtGui import QImage, QImageWriter, QPageSize, QPainter, QPdfWriter
from PySide6.QtSvg import QSvgGenerator

from widgets.common import theme


def png(size: QSize, paint: Callable[[QPainter], None], ratio: float) -> bytes:
    """A picture with `ratio` dots to a pixel of the window."""
    image = QImage(size * ratio, QImage.Format.Format_RGB32)
    image.setDevicePixelRatio(ratio)
    image.fill(theme.current().q("surface"))
    painter = QPainter(image)
    paint(painter)
    painter.end()
    return _bytes(lambda buffer: QImageWriter(buffer, QByteArray(b"PNG")).write(image))


def svg(size: QSize, title: str, paint: Callable[[QPainter], None], dpi: int) -> bytes:
    """A drawing at the resolution of the window.

    At its own 72 dpi a plot's axes, which pyqtgraph recorded at that of the window, come out at
    another scale than the curves.
    """

    def draw(buffer: QBuffer) -> bool:
        whole = QRect(0, 0, size.width(), size.height())
        generator = QSvgGenerator()
        generator.setOutputDevice(buffer)
        generator.setResolution(dpi)
        generator.setSize(size)
        generator.setViewBox(whole)
        generator.setTitle(title)
        painter = QPainter(generator)
        painter.fillRect(whole, theme.current().q("surface"))
        paint(painter)
        return painter.end()

    return _bytes(draw)


def pdf(size: QSize, title: str, paint: Callable[[QPainter], None], dpi: int) -> bytes:
    """One page as large as the plot, letters as letters, at the resolution of the window.

    At the writer's own 1200 dpi the pens of curves, whose width is told in dots, are hairlines.
    """

    def draw(buffer: QBuffer) -> bool:
        writer = QPdfWriter(buffer)
        writer.setResolution(dpi)
        writer.setTitle(title)
        page = QSizeF(size.width() * 72 / dpi, size.height() * 72 / dpi)
        writer.setPageSize(
            QPageSize(page, QPageSize.Unit.Point, "plot", QPageSize.SizeMatchPolicy.ExactMatch)
        )
        writer.setPageMargins(QMarginsF(0, 0, 0, 0))
        painter = QPainter(writer)
        painter.fillRect(QRect(0, 0, size.width(), size.height()), theme.current().q("surface"))
        paint(painter)
        return painter.end()

    return _bytes(draw)


def _bytes(write: Callable[[QBuffer], bool]) -> bytes:
    """What `write` puts into a buffer; that it cannot is a bug, for nothing is in its way."""
    store = QByteArray()
    buffer = QBuffer(store)
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    if not write(buffer):
        raise RuntimeError("a picture could not be drawn into memory")
    buffer.close()
    return bytes(store.data())
