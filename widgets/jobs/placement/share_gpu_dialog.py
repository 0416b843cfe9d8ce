"""Whether a job is to run on a GPU on which somebody else is."""

from __future__ import annotations

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QWidget

from backend.records.base.validation import sanitize
from backend.records.nodes.reading import Gpu
from widgets.common import formats
from widgets.common.auto_height_dialog import FittedDialog
from widgets.common.buttons import Button
from widgets.common.labels import Label
from widgets.common.layout import STRETCH, col, row
from widgets.common.theme import S3, S4, S6
from widgets.jobs.placement.gpu_choice import owner

_WIDTH = 460


class BesideDialog(FittedDialog):
    """Asks once, by name.

    Signals:
        wished: It is to be used all the same.
    """

    wished = Signal()

    def __init__(self, node: str, gpu: Gpu, parent: QWidget | None = None) -> None:
        who = sanitize(owner(gpu))
        super().__init__(f"Use GPU {gpu.index} anyway", _WIDTH, parent)
        first = gpu.compute_processes[0]
        what = sanitize(first.command.split(" ")[0].rpartition("/")[2]) or "a process"
        used = formats.memory_of(gpu.memory_used_bytes, gpu.memory_total_bytes)
        memory = "" if used == formats.NONE else f"; {used} are taken"
        anyway = Button("Use it anyway", kind="danger")
        anyway.clicked.connect(self._wish)
        leave = Button("Leave it")
        leave.setDefault(True)
        leave.clicked.connect(self.reject)
        self.setLayout(
            col(
                Label(f"Use GPU {gpu.index} of {node} anyway?", "title", wrap=True),
                Label(
                    f"{who} runs {what} on it{memory}. A job beside it takes of its time, and "
                    "where the memory does not do for both, one of them ends.",
                    "body",
                    "text2",
                    wrap=True,
                ),
                Label(
                    f"This is said of {who} alone: when somebody else is on it, the start is "
                    "refused. In the queue, the job waits until the GPU is free.",
                    "body",
                    "text2",
                    wrap=True,
                ),
                row(STRETCH, leave, anyway),
                gap=S3,
                margins=(S6, S4, S6, S4),
            )
        )

    @Slot()
    def _wish(self) -> None:
        self.wished.emit()
        self.accept()
