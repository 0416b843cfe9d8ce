"""Show the ledger of the data root."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import Slot
from PySide6.QtWidgets import QWidget

from app.runtime.background import Runner
from app.runtime.controller import DialogController
from backend.records.jobs.ledger import LedgerKey
from backend.services.context.container import Services
from widgets.nodes.page.usage_dialog import UsageDialog

_QUEUE = "usage"


class UsageController(DialogController[UsageDialog]):
    """Serve the dialog Who used what; ``save`` asks for a file and writes it."""

    def __init__(
        self,
        services: Services,
        runner: Runner,
        save: Callable[[str, bytes], object],
        window: QWidget,
    ) -> None:
        super().__init__(runner, window)
        self._usage = services.usage
        self._save = save

    @Slot()
    def choose(self) -> None:
        """Open the dialog."""
        dialog = UsageDialog(self._window)
        dialog.table_requested.connect(self._read)
        dialog.saved.connect(self._save)
        self.open(dialog)
        dialog.request_table()

    @Slot(object, int)
    def _read(self, key: LedgerKey, month_count: int) -> None:
        if (dialog := self.dialog) is not None:
            read = partial(self._usage.table, key, month_count)
            self.serve_dialog(dialog, _QUEUE, read, dialog.show_table)
