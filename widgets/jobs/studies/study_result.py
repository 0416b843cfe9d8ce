"""The result of a study in the pane of its sweep: question, plot and table."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QSizePolicy, QTableView, QWidget

from backend.records.studies.table import (
    StudyTable,
    TableRow,
    interval_text,
    number_text,
    seed_difference_label,
    seed_difference_titles,
    spread_text,
)
from widgets.common import formats
from widgets.common.buttons import Button
from widgets.common.cards import Card, VerticalScrollArea
from widgets.common.labels import Label
from widgets.common.layout import STRETCH, col, row
from widgets.common.record_table_model import RowTableModel, TableColumn
from widgets.common.theme import HEADED_CARD, S1, S2, S3
from widgets.common.view_style import TableHeightLimit, share_column_width, style_view
from widgets.jobs.studies.study_plot import StudyPlot
from widgets.plots.image_export import PictureButton


class StudyResult(QWidget):
    """Measured next to published values, with the actions on all jobs of the study.

    Signals:
        resume_requested, export_requested: Resume the shown study, or export its table.
        saved: A file name, and the bytes to save.
    """

    resume_requested = Signal()
    export_requested = Signal()
    saved = Signal(str, object)

    def __init__(self) -> None:
        super().__init__()
        self.table: StudyTable | None = None
        self._question = Label("", "strong", wrap=True)
        self._source = Label("", "small", "text2", wrap=True)
        self._plot = StudyPlot()
        picture_button = PictureButton("of the study", lambda: self._plot)
        picture_button.saved.connect(self.saved)
        self._resume_button = Button("Resume study", icon="play")
        self._resume_button.clicked.connect(self.resume_requested)
        export_button = Button("Save table…", icon="download-simple")
        export_button.clicked.connect(self.export_requested)
        self.view = QTableView()
        style_view(self.view, "Measured and published values of the study")
        self.view.setSelectionMode(QTableView.SelectionMode.SingleSelection)
        self.model = RowTableModel[TableRow](())
        head = row((self._question, 1), picture_button, top=True)
        plot = Card(head, self._source, self._plot, gap=S2, margins=HEADED_CARD)
        self._card = Card((self.view, 1), gap=0, margins=(S1, S1, S1, S1))
        self._card.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        content = QWidget()
        content.setLayout(
            col(
                plot,
                row(self._resume_button, export_button, STRETCH, gap=S2),
                self._card,
                STRETCH,
                gap=S3,
            )
        )
        self.setLayout(col((VerticalScrollArea(content), 1)))

    def show_table(self, table: StudyTable) -> None:
        previous_table, self.table = self.table, table
        self._question.setText(table.question)
        notes = (f"Source: {table.source}.", table.note, *table.remarks)
        self._source.setText(" ".join(filter(None, notes)))
        self._plot.show_table(table)
        if previous_table is None or _column_heads(previous_table) != _column_heads(table):
            self.model = RowTableModel(_columns(table))
            self.view.setModel(self.model)
            share_column_width(self.view, 0)
        self.model.set_records(table.rows)
        TableHeightLimit(self.view, self._card, 2 * S1)
        self._card.setMinimumHeight(self._card.maximumHeight())

    def show_actions(self, *, is_idle: bool, is_finished: bool) -> None:
        """Offer Resume while no job waits or runs and some jobs are unfinished."""
        self._resume_button.setEnabled(is_idle and not is_finished)
        self._resume_button.setVisible(self._resume_button.isEnabled())


def _column_heads(table: StudyTable) -> tuple[object, ...]:
    return table.value, table.further_columns, table.compares, table.seed_column


def _columns(table: StudyTable) -> tuple[TableColumn[TableRow], ...]:
    def column_title(label: str, unit: str) -> str:
        return f"{label}, {unit}" if unit else label

    further_columns = tuple(
        TableColumn[TableRow](
            column_title(column.label, column.unit), partial(_further_text, number), is_figure=True
        )
        for number, column in enumerate(table.further_columns)
    )
    return (
        TableColumn[TableRow]("Row", lambda row: row.label, lambda row: row.name),
        TableColumn[TableRow]("Jobs", _jobs_text, is_figure=True),
        TableColumn[TableRow](
            column_title(table.value.label, table.value.unit),
            lambda row: spread_text(row.value) or formats.NONE,
            is_figure=True,
        ),
        TableColumn[TableRow](
            "95 % interval", lambda row: interval_text(row.value) or formats.NONE, is_figure=True
        ),
        TableColumn[TableRow](
            "Published", lambda row: number_text(row.published) or formats.NONE, is_figure=True
        ),
        *[
            TableColumn[TableRow](
                "Difference",
                lambda row: number_text(row.difference, "+") or formats.NONE,
                is_figure=True,
            )
        ]
        * table.compares,
        *(
            TableColumn[TableRow](title, lambda row: seed_difference_label(row) or formats.NONE)
            for title in seed_difference_titles(table)
        ),
        *further_columns,
    )


def _further_text(number: int, row: TableRow) -> str:
    return spread_text(row.further_cells[number]) or formats.NONE


def _jobs_text(row: TableRow) -> str:
    return f"{row.value.n} of {row.jobs}" if row.jobs else "not run"
