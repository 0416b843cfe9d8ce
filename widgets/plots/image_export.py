"""Export a plot as it is displayed: as PNG, SVG or PDF. This module writes no files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from PySide6.QtCore import (
    QBuffer,
    QByteArray,
    QIODevice,
    QMarginsF,
    QPoint,
    QRect,
    QRectF,
    QSize,
    QSizeF,
    Signal,
)
from PySide6.QtGui import QImage, QImageWriter, QPageSize, QPaintDevice, QPainter, QPdfWriter
from PySide6.QtSvg import QSvgGenerator
from PySide6.QtWidgets import QApplication, QMenu

from widgets.common import theme
from widgets.common.buttons import IconButton
from widgets.common.painting import paint_text

TITLE_H = 28
_SIDE = 8


class PictureSource(Protocol):
    """A plot that can be exported as it is displayed."""

    def as_picture(self) -> Picture:
        """Return the present picture of the plot."""
        ...


@dataclass(frozen=True)
class Picture:
    """The content of a plot, below its title. ``paint`` starts at the upper left corner."""

    title: str
    size: QSize
    paint: Callable[[QPainter], None]

    def png(self, pixel_ratio: float = 2.0) -> bytes:
        """A picture with `pixel_ratio` device pixels per pixel of the window."""
        image = QImage(self._full_size() * pixel_ratio, QImage.Format.Format_RGB32)
        image.setDevicePixelRatio(pixel_ratio)
        self._paint_on(image)
        return _write_to_bytes(lambda buffer: QImageWriter(buffer, QByteArray(b"PNG")).write(image))

    def svg(self) -> bytes:
        """A drawing at the resolution of the window.

        At its own 72 dpi the axes, which pyqtgraph recorded at the resolution of the window, would
        have another scale than the curves.
        """

        def draw(buffer: QBuffer) -> bool:
            generator = QSvgGenerator()
            generator.setOutputDevice(buffer)
            generator.setResolution(_dpi())
            generator.setSize(self._full_size())
            generator.setViewBox(QRect(QPoint(), self._full_size()))
            generator.setTitle(self.title)
            return self._paint_on(generator)

        return _write_to_bytes(draw)

    def pdf(self) -> bytes:
        """One page as large as the plot, with text as text, at the resolution of the window.

        At the writer's own 1200 dpi the pens of curves, which are in device pixels, are hairlines.
        """

        def draw(buffer: QBuffer) -> bool:
            writer = QPdfWriter(buffer)
            writer.setResolution(_dpi())
            writer.setTitle(self.title)
            page = QSizeF(self._full_size()) * 72 / _dpi()
            writer.setPageSize(
                QPageSize(page, QPageSize.Unit.Point, "plot", QPageSize.SizeMatchPolicy.ExactMatch)
            )
            writer.setPageMargins(QMarginsF(0, 0, 0, 0))
            return self._paint_on(writer)

        return _write_to_bytes(draw)

    def _full_size(self) -> QSize:
        return QSize(self.size.width(), self.size.height() + TITLE_H)

    def _paint_on(self, device: QPaintDevice) -> bool:
        painter = QPainter(device)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.fillRect(QRect(QPoint(), self._full_size()), theme.current().q("surface"))
        heading = QRectF(_SIDE, 2, self.size.width() - 2 * _SIDE, TITLE_H - 4)
        paint_text(painter, heading, self.title, "strong")
        painter.translate(0, TITLE_H)
        self.paint(painter)
        return painter.end()


def stack_pictures(pictures: Sequence[Picture]) -> Picture:
    """Several plots one below the other, under the title of the first."""
    size = QSize(
        max(picture.size.width() for picture in pictures),
        sum(picture.size.height() for picture in pictures),
    )

    def paint(painter: QPainter) -> None:
        for picture in pictures:
            painter.save()
            picture.paint(painter)
            painter.restore()
            painter.translate(0, picture.size.height())

    return Picture(pictures[0].title, size, paint)


def _dpi() -> int:
    return round(QApplication.primaryScreen().logicalDotsPerInchX())


def _write_to_bytes(write: Callable[[QBuffer], bool]) -> bytes:
    """Return the bytes that `write` puts into a buffer; a failure is a bug."""
    store = QByteArray()
    buffer = QBuffer(store)
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    if not write(buffer):
        raise RuntimeError("a picture could not be drawn into memory")
    buffer.close()
    return bytes(store.data())


_FORMATS = {"png": "PNG", "svg": "SVG", "pdf": "PDF"}


def add_export_actions(
    menu: QMenu, plot: Callable[[], PictureSource], save: Callable[[str, bytes], object]
) -> None:
    """Add an entry for each format; `save` gets a file name and the contents."""

    def save_picture(suffix: str) -> None:
        picture = plot().as_picture()
        content = {"png": picture.png, "svg": picture.svg, "pdf": picture.pdf}[suffix]()
        # A metric has a user's name: "validation/loss" is not a file name.
        name = picture.title.replace("/", " ").replace("\\", " ").strip() or "plot"
        save(f"{name}.{suffix}", content)

    for suffix, format_name in _FORMATS.items():
        menu.addAction(f"This plot as {format_name}…", partial(save_picture, suffix))


class PictureButton(IconButton):
    """The button next to a plot's title.

    Signals:
        saved: A file name, and its contents.
    """

    saved = Signal(str, object)

    def __init__(self, title: str, plot: Callable[[], PictureSource]) -> None:
        """Build the button of `plot`, which may change; its tool tip has `title`."""
        super().__init__("download-simple", f"Save the plot {title}")
        menu = QMenu(self)
        add_export_actions(menu, plot, self.saved.emit)
        self.setMenu(menu)
