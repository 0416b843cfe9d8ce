"""The dialog that asks whether to run a job on a GPU that another user is on."""

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
    """Asks once per user.

    The signal confirms it.
    """

    wished = Signal()

    def __init__(self, node: str, gpu: Gpu, parent: QWidget | None = None) -> None:
        who = sanitize(owner(gpu))
        super().__init__(f"Use GPU {gpu.index} anyway", _WIDTH, parent)
        first = gpu.compute_processes[0]
        what = sanitize(first.command.split(" ")[0].rpartition("/")[2]) or "a process"
        used = formats.memory_of(gpu.memory_used_bytes, gpu.memory_total_bytes)
        memory = "" if used == formats.NONE else f"; {used} are in use"
        anyway = Button("Use it anyway", kind="danger")
        anyway.clicked.connect(self._wish)
        leave = Button("Cancel")
        leave.setDefault(True)
        leave.clicked.connect(self.reject)
        self.setLayout(
            col(
                Label(f"Use GPU {gpu.index} of {node} anyway?", "title", wrap=True),
                Label(
                    f"{who} runs {what} on it{memory}. Both will run slower, and one will fail"
                    " if GPU memory runs out.",
                    "body",
                    "text2",
                    wrap=True,
                ),
                Label(
                    f"This applies to {who} only; if another user is on the GPU by then, the job "
                    "will not start. A queued job waits until the GPU is free.",
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
