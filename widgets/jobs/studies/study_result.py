"""The result of a study in the pane of its sweep: question, plot and table."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QSizePolicy, QTableView, QWidget

from backend.records.studies.table import (
    StudyTable,
    TableRow,
    figure,
    interval,
    seed_difference_label,
    seed_difference_titles,
    spread,
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
from widgets.plots.export_menu import PictureButton


class StudyResult(QWidget):
    """Measured next to published values, with the actions on all jobs of the study.

    Signals:
        resume_requested, export_requested: Of the study that is shown.
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
        pictures = PictureButton("of the study", lambda: self._plot)
        pictures.saved.connect(self.saved)
        self._resume = Button("Resume study", icon="play")
        self._resume.clicked.connect(self.resume_requested)
        export = Button("Save table…", icon="download-simple")
        export.clicked.connect(self.export_requested)
        self.view = QTableView()
        style_view(self.view, "Measured and published values of the study")
        self.view.setSelectionMode(QTableView.SelectionMode.SingleSelection)
        self.model = RowTableModel[TableRow](())
        head = row((self._question, 1), pictures, top=True)
        plot = Card(head, self._source, self._plot, gap=S2, margins=HEADED_CARD)
        self._card = Card((self.view, 1), gap=0, margins=(S1, S1, S1, S1))
        self._card.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        inner = QWidget()
        inner.setLayout(
            col(
                plot,
                row(self._resume, export, STRETCH, gap=S2),
                self._card,
                STRETCH,
                gap=S3,
            )
        )
        self.setLayout(col((VerticalScrollArea(inner), 1)))

    def show_table(self, table: StudyTable) -> None:
        before, self.table = self.table, table
        self._question.setText(table.question)
        words = (f"Source: {table.source}.", table.note, *table.remarks)
        self._source.setText(" ".join(filter(None, words)))
        self._plot.show_table(table)
        if before is None or _heads(before) != _heads(table):
            self.model = RowTableModel(_columns(table))
            self.view.setModel(self.model)
            share_column_width(self.view, 0)
        self.model.set_records(table.rows)
        TableHeightLimit(self.view, self._card, 2 * S1)
        self._card.setMinimumHeight(self._card.maximumHeight())

    def show_actions(self, *, is_idle: bool, is_finished: bool) -> None:
        """Offer Resume while no job waits or runs and some are left."""
        self._resume.setEnabled(is_idle and not is_finished)
        self._resume.setVisible(self._resume.isEnabled())


def _heads(table: StudyTable) -> tuple[object, ...]:
    return table.value, table.further_columns, table.compares, table.seed_column


def _columns(table: StudyTable) -> tuple[TableColumn[TableRow], ...]:
    def titled(label: str, unit: str) -> str:
        return f"{label}, {unit}" if unit else label

    also = tuple(
        TableColumn[TableRow](
            titled(column.label, column.unit), partial(_further, number), is_figure=True
        )
        for number, column in enumerate(table.further_columns)
    )
    return (
        TableColumn[TableRow]("Row", lambda one: one.label, lambda one: one.name),
        TableColumn[TableRow]("Jobs", _jobs, is_figure=True),
        TableColumn[TableRow](
            titled(table.value.label, table.value.unit),
            lambda one: spread(one.value) or formats.NONE,
            is_figure=True,
        ),
        TableColumn[TableRow](
            "95 % interval", lambda one: interval(one.value) or formats.NONE, is_figure=True
        ),
        TableColumn[TableRow](
            "Published", lambda one: figure(one.published) or formats.NONE, is_figure=True
        ),
        *[
            TableColumn[TableRow](
                "Difference",
                lambda one: figure(one.difference, "+") or formats.NONE,
                is_figure=True,
            )
        ]
        * table.compares,
        *(
            TableColumn[TableRow](title, lambda line: seed_difference_label(line) or formats.NONE)
            for title in seed_difference_titles(table)
        ),
        *also,
    )


def _further(number: int, row: TableRow) -> str:
    return spread(row.further_cells[number]) or formats.NONE


def _jobs(row: TableRow) -> str:
    return f"{row.value.n} of {row.jobs}" if row.jobs else "not run"
