"""The dialog Who used what: GPU hours by month as bars, and the ledger as a table."""

from __future__ import annotations

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QTableView, QWidget

from backend.records.base.number_format import use_time
from backend.records.jobs.ledger import LedgerKey, LedgerRow, UsageTable
from widgets.common import formats
from widgets.common.buttons import Button, SegmentedControl
from widgets.common.dialog import Dialog
from widgets.common.labels import Label
from widgets.common.layout import STRETCH, row
from widgets.common.record_table_model import RowTableModel, TableColumn
from widgets.common.view_style import share_column_width, style_view
from widgets.nodes.page.usage_plot import UsagePlot

_WIDTH, _HEIGHT = 780, 580
_KEYS = tuple(
    (key.value, key.value.capitalize())
    for key in (LedgerKey.USER, LedgerKey.PROJECT, LedgerKey.NODE)
)
_PERIODS = (("1", "This month"), ("3", "3 months"), ("12", "12 months"), ("0", "All"))
_KNOWN_SHARE = 0.999


class UsageDialog(Dialog):
    """Requests a table for each choice of rows and period.

    Signals:
        table_requested: A `LedgerKey`, and the number of the last months, 0 for all.
        saved: A file name, and the bytes to save.
    """

    table_requested = Signal(object, int)
    saved = Signal(str, object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("Who used what", _WIDTH, parent, height=_HEIGHT)
        self._table = UsageTable(LedgerKey.USER)
        self._keys = SegmentedControl(_KEYS, name="Rows")
        self._periods = SegmentedControl(_PERIODS, "12", name="Period")
        for choice in (self._keys, self._periods):
            choice.key_chosen.connect(self.request_table)
        self._keys.set_tip(LedgerKey.PROJECT.value, "The first tag of a job")
        self._plot = UsagePlot()
        self.model = RowTableModel(
            (
                TableColumn[LedgerRow]("User", lambda row: self._table.text(row)),
                TableColumn[LedgerRow](
                    "Runs", lambda row: formats.count(len(row.run_ids)), is_figure=True
                ),
                TableColumn[LedgerRow](
                    "Node time", lambda row: use_time(row.node_s), is_figure=True
                ),
                TableColumn[LedgerRow]("GPU time", lambda row: use_time(row.gpu_s), is_figure=True),
                TableColumn[LedgerRow]("Energy", _energy_text, _energy_tip, is_figure=True),
                TableColumn[LedgerRow](
                    "Idle", lambda row: formats.percent(row.idle_share), is_figure=True
                ),
                TableColumn[LedgerRow](
                    "Waited", lambda row: formats.duration(row.mean_wait_s), is_figure=True
                ),
            )
        )
        self.view = QTableView()
        style_view(self.view, "Use")
        self.view.setModel(self.model)
        share_column_width(self.view, 0)
        self._note = Label("", "small", "text2", wrap=True)
        self._save_button = Button("Save CSV…", icon="download-simple")
        self._save_button.clicked.connect(self._save)
        self.fill(
            self._plot,
            (self.view, 1),
            self._note,
            head=row(Label("Who used what", "title"), STRETCH, self._periods, self._keys),
            foot=(self._save_button, STRETCH, self.close_button()),
        )
        self._save_button.setEnabled(False)
        self._note.setText("Reading the ledger…")
        self.view.setFocus()

    @Slot()
    def request_table(self) -> None:
        self.table_requested.emit(LedgerKey(self._keys.key()), int(self._periods.key()))

    def show_table(self, table: UsageTable) -> None:
        """Show a table, with its total as the last row."""
        self._table = table
        self._plot.show_table(table)
        self.model.set_column_title(0, table.key.value.capitalize())
        self.model.set_records((*table.rows, *table.total) if len(table.rows) > 1 else table.rows)
        self._save_button.setEnabled(bool(table.rows))
        count = formats.plural(table.unknown_runs, "run")
        missing_text = f" Not in it: {count} without a record." if table.unknown_runs else ""
        self._note.setText(
            "Idle: share of the time in which the GPUs had no work. Waited: mean time in the queue."
            + missing_text
        )

    @Slot()
    def _save(self) -> None:
        self.saved.emit(f"usage by {self._table.key.value}.csv", self._table.csv.encode())


def _energy_text(row: LedgerRow) -> str:
    if row.energy_kwh is None:
        return formats.NONE
    is_known = (row.energy_known_share or 0.0) > _KNOWN_SHARE
    return f"{'' if is_known else '≥ '}{formats.energy(row.energy_j)}"


def _energy_tip(row: LedgerRow) -> str:
    share = row.energy_known_share
    return f"Known for {formats.percent(share)} of the GPU hours" if share is not None else ""
