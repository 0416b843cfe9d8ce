"""Parallel coordinates of the jobs of a sweep, or of the compared jobs, with a table below."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from PySide6.QtCore import QModelIndex, Qt, Signal, Slot
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableView, QWidget

from backend.records.jobs.comparison import FEWEST_JOBS
from backend.records.jobs.metric_names import metric_label
from backend.records.jobs.view import JobView
from backend.records.sweeps.parallel_coordinates import (
    METRIC,
    MOST_LINES,
    ParallelCoordinates,
    ParallelLine,
    parallel_plot,
)
from backend.records.sweeps.spec import sweep_of, sweep_title
from widgets.common import formats, theme
from widgets.common.buttons import Button
from widgets.common.cards import Card
from widgets.common.fields import ComboBox
from widgets.common.labels import Label
from widgets.common.layout import row
from widgets.common.painting import text_width
from widgets.common.record_table_model import RECORD_ROLE, AnyIndex, RowTableModel, TableColumn
from widgets.common.theme import S2, S3, S4, S5, TABLE_ROW_COMPACT_H
from widgets.common.view_style import style_view
from widgets.compare.parallel_plot import ParallelPlot
from widgets.plots.image_export import PictureButton

_COMPARED_KEY = ""
_MAX_ROWS = 8
_CHOICE_W, _MIN_COLUMN_W = 300, 48
_MIN_NAME_W, _CELL_MARGIN_W = 180, 28
"""The width of a name before all columns are made equal; the space around a cell's text."""


class ParallelCard(Card):
    """The plot of a sweep with its table, hidden for fewer than two jobs.

    Signals:
        job_hovered: The id of the job under the pointer or the keyboard cursor, "" for none.
        job_opened: The id of a job.

    Attributes:
        choice: The choice of a sweep, or of all compared jobs.
        summary: The best job, and the number of jobs.
        table: The best of the drawn jobs.
    """

    job_hovered = Signal(str)
    job_opened = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        self._sources: dict[str, tuple[JobView, ...]] = {}
        self.coordinates = ParallelCoordinates()
        self._name_w = 0
        self._column_widths: tuple[list[int], list[int]] = ([], [])
        self.choice = ComboBox(name="Jobs to draw")
        self.choice.setFixedWidth(_CHOICE_W)
        self.plot = ParallelPlot()
        self.pictures = PictureButton("Parallel coordinates", lambda: self.plot)
        self.summary = Label("", "body", "text2", elide="middle")
        self.clear_button = Button(
            "Clear brushes", kind="quiet", icon="x", tip="Or press Esc in the plot"
        )
        self.table = QTableView()
        self._model = _LineModel(())
        style_view(self.table, "Jobs, best first", row_h=TABLE_ROW_COMPACT_H)
        self.table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.table.setModel(self._model)
        # The names of a sweep's jobs differ only at the end.
        self.table.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.table.horizontalHeader().setFont(theme.font("small"))
        self.table.horizontalHeader().setTextElideMode(Qt.TextElideMode.ElideRight)
        self.table.horizontalHeader().setStretchLastSection(False)
        super().__init__(
            row(
                Label("Parallel coordinates", "heading"),
                (QWidget(), 1),
                self.choice,
                self.pictures,
                gap=S3,
            ),
            self.plot,
            row((self.summary, 1), self.clear_button, gap=S3),
            self.table,
            gap=S2,
            margins=(S5, S4, S5, S3),
            parent=parent,
        )
        self.choice.currentIndexChanged.connect(self._draw_plot)
        self.clear_button.clicked.connect(self.plot.clear_brushes)
        self.plot.job_hovered.connect(self._select_row)
        self.plot.job_opened.connect(self.job_opened)
        self.plot.brushes_changed.connect(self._fill_table)
        self.table.activated.connect(
            lambda index: self.job_opened.emit(index.data(RECORD_ROLE).job_id)
        )
        self.table.entered.connect(self._hover_row)
        self.hide()

    def show_jobs(
        self, compared_jobs: tuple[JobView, ...], sweep_jobs: tuple[JobView, ...]
    ) -> None:
        """Set the compared jobs, and the known jobs of their sweeps."""
        sources: dict[str, tuple[JobView, ...]] = {}
        for tag in dict.fromkeys(filter(None, (sweep_of(view.tags) for view in compared_jobs))):
            views = [view for view in sweep_jobs if sweep_of(view.tags) == tag]
            sources[tag] = tuple(sorted(views, key=lambda view: (view.created, view.id)))
        sources[_COMPARED_KEY] = compared_jobs
        sources = {key: jobs for key, jobs in sources.items() if len(jobs) >= FEWEST_JOBS}
        if sources == self._sources:
            return
        if list(sources) != list(self._sources):
            self.choice.set_options(
                (key, _source_title(key, jobs)) for key, jobs in sources.items()
            )
        self._sources = sources
        self.choice.setVisible(len(sources) > 1 or _COMPARED_KEY not in sources)
        self._draw_plot()
        # One axis alone joins nothing: all jobs have the same settings.
        self.setVisible(len(sources) > 1 or len(self.coordinates.axes) > 1)

    @Slot()
    def _draw_plot(self) -> None:
        jobs = self._sources.get(self.choice.key(), ())
        self.coordinates = parallel_plot(jobs, formats.metric)
        columns = [TableColumn[ParallelLine]("Job", lambda line: line.name, lambda line: line.name)]
        for number, axis in enumerate(self.coordinates.axes):
            columns.append(TableColumn(axis.label, partial(_cell_text, number, axis.key == METRIC)))
        self._model = _LineModel(tuple(columns))
        self.table.setModel(self._model)
        self._name_w = _widest_text(line.name for line in self.coordinates.lines)
        self._column_widths = _measure_columns(self.coordinates)
        self.plot.show_coordinates(self.coordinates)
        self._fill_table()

    @Slot()
    def _fill_table(self) -> None:
        selected_jobs = self.plot.selected_jobs
        rows = [line for line in self.coordinates.ranked() if line.job_id in selected_jobs]
        self._model.set_records(rows)
        self._fit_columns()
        rows_h = min(max(len(rows), 1), _MAX_ROWS) * TABLE_ROW_COMPACT_H
        header = self.table.horizontalHeader()
        self.table.setFixedHeight(max(header.sizeHint().height(), header.height()) + rows_h + S2)
        self.clear_button.setVisible(bool(self.plot.brushes))
        self.summary.setText(self._summary_text(len(rows)))

    def _summary_text(self, selected_count: int) -> str:
        """Return a text about the best job, the number of jobs, and missing results."""
        coordinates, messages = self.coordinates, []
        best_lines = [line for line in coordinates.best if line.job_id in self.plot.selected_jobs]
        if best_lines and coordinates.metric:
            ties_text = (
                f" and {formats.plural(len(best_lines) - 1, 'other')}"
                if len(best_lines) > 1
                else ""
            )
            metric = metric_label(coordinates.metric)
            messages.append(
                f"Best: {best_lines[0].name}{ties_text}, "
                f"{metric} {formats.metric(best_lines[0].value)}."
            )
        elif not coordinates.metric:
            messages.append("These jobs do not share a metric for the best checkpoint.")
        elif coordinates.best:
            messages.append("The best job is outside the selected ranges.")
        elif not any(line.value is not None for line in coordinates.lines):
            messages.append("No best job: none of these jobs has a checkpoint yet.")
        if self.plot.brushes:
            messages.append(
                f"{selected_count} of {formats.plural(len(coordinates.lines), 'job')} selected."
            )
        elif len(self._sources.get(self.choice.key(), ())) > MOST_LINES:
            messages.append(f"Only the first {MOST_LINES} jobs are drawn.")
        else:
            messages.append("Drag on an axis to select a range.")
        return " ".join(messages)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_columns()

    def _fit_columns(self) -> None:
        """Make all columns equal; where long names need more, they get the remaining width.

        The headings shrink first, each by the same share.
        """
        header = self.table.horizontalHeader()
        header.setMinimumSectionSize(_MIN_COLUMN_W)
        width = self.table.width()
        full_widths, value_widths = self._column_widths
        spare_w = width - _MIN_NAME_W - sum(value_widths)
        is_short = max((self._name_w, *full_widths)) * self._model.columnCount() > width
        share = min(spare_w / max(sum(full_widths) - sum(value_widths), 1), 1.0)
        modes = QHeaderView.ResizeMode
        for column in range(self._model.columnCount()):
            is_fixed = column > 0 and is_short and spare_w >= 0
            header.setSectionResizeMode(column, modes.Fixed if is_fixed else modes.Stretch)
            if is_fixed:
                min_w, max_w = value_widths[column - 1], full_widths[column - 1]
                header.resizeSection(column, int(min_w + share * (max_w - min_w)))

    @Slot(str)
    def _select_row(self, job_id: str) -> None:
        rows = [line.job_id for line in self._model.rows]
        if job_id in rows:
            self.table.selectRow(rows.index(job_id))
        else:
            self.table.clearSelection()
        self.job_hovered.emit(job_id)

    @Slot(QModelIndex)
    def _hover_row(self, index: QModelIndex) -> None:
        job_id = index.data(RECORD_ROLE).job_id
        self.plot.highlight_job(job_id)
        self.job_hovered.emit(job_id)


class _LineModel(RowTableModel[ParallelLine]):
    """A model with the best row in green and bold, with "best" in its last cell."""

    def data(self, index: AnyIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if index.isValid() and self.rows[index.row()].is_best:
            if role == Qt.ItemDataRole.ForegroundRole:
                return theme.current().q("good")
            if role == Qt.ItemDataRole.FontRole:
                return theme.font("strong")
            if role == Qt.ItemDataRole.AccessibleTextRole:
                return f"{super().data(index)}, best"
        return super().data(index, role)


def _cell_text(number: int, is_metric: bool, line: ParallelLine) -> str:
    text = line.texts[number] or formats.NONE
    return f"{text}  best" if is_metric and line.is_best else text


def _widest_text(texts: Iterable[str]) -> int:
    """Return the width that a column needs to show every text in full."""
    return max((text_width(text, "strong") for text in set(texts)), default=0) + _CELL_MARGIN_W


def _measure_columns(coordinates: ParallelCoordinates) -> tuple[list[int], list[int]]:
    """Return the widths of the columns after the name: with full headings, and without headings."""
    values = [
        _widest_text(_cell_text(number, axis.key == METRIC, line) for line in coordinates.lines)
        for number, axis in enumerate(coordinates.axes)
    ]
    headings = [text_width(axis.label, "small") + _CELL_MARGIN_W for axis in coordinates.axes]
    return list(map(max, values, headings)), values


def _source_title(key: str, jobs: Sequence[JobView]) -> str:
    title = sweep_title(key, [view.name for view in jobs])
    return f"Sweep {title}" if key else "The compared jobs"
