"""The dialog that asks whether to run a job on a GPU that another user is on."""

from __future__ import annotations

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QWidget

from backend.records.base.validation import sanitize
from backend.records.nodes.reading import Gpu
from widgets.common import formats
from widgets.common.buttons import Button
from widgets.common.dialog import Dialog
from widgets.common.labels import Label
from widgets.jobs.placement.gpu_choice import owner

_WIDTH = 460


class ShareGpuDialog(Dialog):
    """The confirmation to share a GPU, once per user.

    Signals:
        requested: The user confirmed.
    """

    requested = Signal()

    def __init__(self, node: str, gpu: Gpu, parent: QWidget | None = None) -> None:
        user = sanitize(owner(gpu))
        super().__init__(f"Use GPU {gpu.index} anyway", _WIDTH, parent)
        process = gpu.compute_processes[0]
        program = sanitize(process.command.split(" ")[0].rpartition("/")[2]) or "a process"
        used_memory = formats.used_memory(gpu.memory_used_bytes, gpu.memory_total_bytes)
        memory = "" if used_memory == formats.NONE else f"; {used_memory} are in use"
        confirm_button = Button("Use it anyway", kind="danger")
        confirm_button.clicked.connect(self._request)
        self.fill(
            Label(
                f"{user} runs {program} on it{memory}. Both will run slower, and one will fail"
                " if GPU memory runs out.",
                "body",
                "text2",
                wrap=True,
            ),
            Label(
                f"This applies to {user} only; if another user is on the GPU by then, the job "
                "will not start. A queued job waits until the GPU is free.",
                "body",
                "text2",
                wrap=True,
            ),
            head=Label(f"Use GPU {gpu.index} of {node} anyway?", "title", wrap=True),
            foot=(self.default_button("Cancel", self.reject, kind="plain"), confirm_button),
        )

    @Slot()
    def _request(self) -> None:
        self.requested.emit()
        self.accept()
