"""The MIME data of jobs that are dragged within the window."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QMimeData, QPointF, QRectF, Qt
from PySide6.QtGui import QPainter, QPixmap

from backend.records.base.validation import sanitize
from widgets.common import formats, theme
from widgets.common.painting import fill_round, paint_text, text_width
from widgets.common.theme import R_CELL, S2

MIME = "application/x-ringmaster-jobs"
_MAX_IDS = 64
"""The limit of dragged ids; of a hundred thousand jobs a target needs only the number."""
_NAME_CHARS = 48
_CHIP_H = 26


@dataclass(frozen=True)
class DraggedJobs:
    """``ids``: at most some dozens. ``label``: “digits”, or 3 jobs."""

    ids: tuple[str, ...]
    label: str


@dataclass(frozen=True)
class DropOffer:
    """The description of a drop."""

    message: str
    is_accepted: bool = True


def dragged_label(ids: Sequence[str], name: str) -> str:
    """Describe the dragged jobs; ``name`` is used if there is one job."""
    return f"“{sanitize(name, _NAME_CHARS)}”" if len(ids) == 1 else formats.plural(len(ids), "job")


def put_jobs(content: QMimeData, ids: Sequence[str], label: str) -> None:
    fields = {"ids": list(ids[:_MAX_IDS]), "words": label}
    content.setData(MIME, json.dumps(fields).encode())


def dragged_jobs(content: QMimeData) -> DraggedJobs | None:
    """The dragged jobs; None if something else is dragged."""
    if not content.hasFormat(MIME):
        return None
    fields = json.loads(bytes(content.data(MIME).data()))
    return DraggedJobs(tuple(fields["ids"]), fields["words"])


def drag_pixmap(label: str, ratio: float) -> QPixmap:
    """A small picture of the dragged jobs; ``ratio`` is that of the source widget."""
    width = text_width(label, "small_strong") + 2 * S2
    pixmap = QPixmap(round(width * ratio), round(_CHIP_H * ratio))
    pixmap.setDevicePixelRatio(ratio)
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    t = theme.current()
    box = QRectF(QPointF(0, 0), pixmap.deviceIndependentSize())
    fill_round(painter, box, t.q("line_strong"), R_CELL)
    fill_round(painter, box.adjusted(1, 1, -1, -1), t.q("surface"), R_CELL)
    paint_text(painter, box.adjusted(S2, 0, -S2, 0), label, "small_strong")
    painter.end()
    return pixmap
