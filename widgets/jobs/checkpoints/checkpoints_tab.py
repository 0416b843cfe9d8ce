"""The checkpoints of a job, and the actions on them."""

from __future__ import annotations

from datetime import datetime
from functools import partial

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtGui import QDrag, QResizeEvent
from PySide6.QtWidgets import QAbstractItemView, QStackedWidget, QTableView, QWidget

from backend.records.base.timestamps import instant
from backend.records.jobs.checkpoint import Checkpoint
from backend.records.jobs.metric_labels import metric_words
from backend.records.jobs.view import WHY_NO_RESUME, JobView
from widgets.common import formats
from widgets.common.actions import Request
from widgets.common.buttons import Button
from widgets.common.cards import Card, EmptyState
from widgets.common.labels import Label
from widgets.common.layout import SLACK, STRETCH, col, row
from widgets.common.lazy_file_drag import FilePromise, PromisedFile
from widgets.common.record_table_model import RECORD_ROLE, AnyIndex, RowTableModel, TableColumn
from widgets.common.theme import PAGE_MARGIN, S1, S2, S3
from widgets.common.view_style import TableHeightLimit, style_view, share_column_width
from widgets.jobs.actions import job_actions
from widgets.jobs.actions.job_actions import CheckpointDrag, JobActions
from widgets.jobs.checkpoints.export_dialog import checkpoint_label, export_name, format_title
from widgets.jobs.checkpoints.exporter import Exporter

_KEEP, _KEEP_NO_MORE = "Keep always", "Stop keeping"
_PROVED = "verified when it was saved"
_METRIC_COLUMN, _SIZE_COLUMN, _MARKS_COLUMN, _HASH_COLUMN = 1, 2, 4, 5
_SMALL_W = 680
_LEAST_W = {_HASH_COLUMN: 780, _SIZE_COLUMN: _SMALL_W}
"""Below this width a column is hidden: the tool tip has the size, a file next to the checkpoint the
hash."""


class CheckpointsTab(QWidget):
    """The tab Checkpoints."""

    def __init__(self, actions: JobActions, exports: Exporter) -> None:
        super().__init__()
        self._actions = actions
        self._exports = exports
        self._view: JobView | None = None
        self._metric = ""
        self._verified: dict[str, tuple[str, str]] = {}
        self.model = CheckpointModel(
            (
                TableColumn[Checkpoint]("Checkpoint", checkpoint_label, self._name_tip),
                TableColumn[Checkpoint](
                    "Metric",
                    lambda one: formats.metric(one.metrics.get(self._metric)),
                    is_figure=True,
                ),
                TableColumn[Checkpoint](
                    "Size", lambda one: formats.disk(one.bytes), is_figure=True
                ),
                TableColumn[Checkpoint]("Made", self._made, _made_exactly),
                TableColumn[Checkpoint]("", self._marks, self._marks_tip),
                TableColumn[Checkpoint](
                    "SHA-256", lambda one: one.sha256[:8], lambda one: one.sha256
                ),
            )
        )
        self._table = CheckpointTable()
        self._table.drag_started.connect(self._drag)
        self._table.setModel(self.model)
        style_view(self._table, "Checkpoints")
        share_column_width(self._table, _MARKS_COLUMN)
        self._table.selectionModel().selectionChanged.connect(self._fit_buttons)
        self._resume = Button("Resume from this", icon="play")
        self._resume.clicked.connect(partial(self._request, job_actions.RESUME_FROM))
        self._new = Button("New job from this", icon="plus")
        self._new.clicked.connect(partial(self._request, job_actions.NEW_FROM))
        self._try = Button("Try it", icon="magic-wand")
        self._try.set_tip("See the answers of this checkpoint for files or samples")
        self._try.clicked.connect(self._request_try)
        self._export = Button("Export…", icon="upload-simple")
        self._export.clicked.connect(self._ask_export)
        self._keep = Button(_KEEP, icon="push-pin")
        self._keep.clicked.connect(self._request_keep)
        self._verify = Button("Check file", icon="shield-check")
        self._verify.set_tip("Read the file and compare it with the hash stored when it was saved")
        self._verify.clicked.connect(partial(self._request, job_actions.VERIFY_CHECKPOINT))
        self._inspect = Button("Look inside…", icon="magnifying-glass")
        self._inspect.set_tip("Weights, gradients, and one sample on its way through the layers")
        self._inspect.clicked.connect(self._request_inspection)
        self._policy = Label("", "small", "text3", wrap=True)
        self._live = False
        card = Card((self._table, 1), margins=(0, 0, 0, S1))
        TableHeightLimit(self._table, card, S1)
        table = QWidget()
        table.setLayout(
            col(
                (card, 1),
                row(self._resume, self._new, self._try, STRETCH, gap=S2),
                row(self._inspect, self._export, self._keep, self._verify, STRETCH, gap=S2),
                self._policy,
                SLACK,
                gap=S3,
                margins=(0, 0, PAGE_MARGIN, S3),
            )
        )
        self._nothing = EmptyState("floppy-disk", "")
        self._pages = QStackedWidget()
        self._pages.addWidget(self._nothing)
        self._pages.addWidget(table)
        self.setLayout(col((self._pages, 1), gap=0))
        self._fit_buttons()

    def begin_reading(self) -> None:
        """Show that the checkpoints of another job are being read."""
        self._verified.clear()
        self.model.set_records(())
        self._nothing.show_message("floppy-disk", "Reading checkpoints…")
        self._pages.setCurrentIndex(0)

    def show_error(self, sentence: str) -> None:
        """Show why the checkpoints cannot be read; those shown already stay."""
        if not self.model.rowCount():
            self._nothing.show_message("wifi-slash", "Could not read the checkpoints", sentence)

    def show_checkpoints(self, view: JobView, checkpoints: tuple[Checkpoint, ...]) -> None:
        self._view, policy = view, view.config.checkpoint
        kept = self._chosen()
        self._metric = policy.best_metric
        metric = metric_words(self._metric)
        self.model.retitle(_METRIC_COLUMN, metric[:1].upper() + metric[1:])
        newest_first = sorted(checkpoints, key=lambda c: (c.step, c.run), reverse=True)
        self.model.set_records(newest_first)
        self._pages.setCurrentIndex(1 if checkpoints else 0)
        self._nothing.show_message(
            "floppy-disk",
            "No checkpoint yet",
            f"Files and folders that match {', '.join(view.config.checkpoint_files)}"
            if view.config.script
            else "The first one is saved after the first epoch.",
        )
        each = max((c.bytes for c in checkpoints), default=0)
        always = sum(one.is_kept for one in checkpoints)
        most = policy.keep_latest + policy.keep_best + 1 + always
        best = f"the {_several(policy.keep_best, 'best')} by {metric}"
        if checkpoints and not any(one.is_best for one in checkpoints):
            best += " (not measured by this job yet)"
        held = [f"the {_several(policy.keep_latest, 'newest')}", best, "the last"]
        held += [f"{formats.count(always)} that you chose"] if always else []
        words = f"Kept: {', '.join(held[:-1])} and {held[-1]}, at most {formats.disk(most * each)}."
        if view.config.script and not view.config.remove_old_checkpoints:
            words = "All are kept as the script wrote them."
        self._policy.setText(words)
        row_number = next(
            (r for r in range(self.model.rowCount()) if self._name(r) == kept),
            0 if checkpoints else -1,
        )
        if row_number >= 0:
            self._table.selectRow(row_number)
        self._fit_buttons()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        for column, least in _LEAST_W.items():
            self._table.setColumnHidden(column, self.width() < least)

    def show_file_check(self, name: str, label: str, tip: str) -> None:
        """Show the check of a file: "checked", "damaged", or that it is under way."""
        for number, one in enumerate(self.model.rows):
            if one.name == name:
                self._verified[one.sha256] = label, tip
                cell = self.model.index(number, _MARKS_COLUMN)
                self.model.dataChanged.emit(cell, cell)

    def set_live(self, live: bool) -> None:
        """Disable Resume while the job runs."""
        self._live = live
        self._fit_buttons()

    def _name_tip(self, checkpoint: Checkpoint) -> str:
        kind = format_title(self._exports.kind)
        return (
            f"{checkpoint.file or checkpoint.name}, {formats.disk(checkpoint.bytes)}\n"
            f"Drag it into a folder to export it ({kind}, the last format used)"
        )

    def _name(self, row_number: int) -> str:
        return self.model.rows[row_number].name

    def _chosen(self) -> str:
        rows = self._table.selectionModel().selectedRows()
        return self._name(rows[0].row()) if rows else ""

    def _chosen_one(self) -> Checkpoint | None:
        return next((one for one in self.model.rows if one.name == self._chosen()), None)

    def _request(self, request: Request[[str, str]]) -> None:
        if self._view is not None:
            self._actions.ask(request, self._view.id, self._chosen())

    @Slot()
    def _request_try(self) -> None:
        if self._view is not None:
            self._actions.ask(
                job_actions.TRY_CHECKPOINT, self._view, self.model.rows, self._chosen()
            )

    @Slot()
    def _request_keep(self) -> None:
        chosen = self._chosen_one()
        if self._view is not None and chosen is not None:
            self._actions.ask(job_actions.KEEP_CHECKPOINT, self._view.id, chosen)

    @Slot()
    def _request_inspection(self) -> None:
        if self._view is not None:
            self._actions.ask(
                job_actions.INSPECT_CHECKPOINT, self._view.id, self._chosen(), self.model.rows
            )

    @Slot()
    def _ask_export(self) -> None:
        if self._view is not None:
            self._exports.open_dialog(self._view, self.model.rows, self._chosen())

    @Slot(object, object)
    def _drag(self, checkpoint: Checkpoint, promise: FilePromise) -> None:
        if self._view is not None:
            kind = self._exports.kind
            name = export_name(self._view.name, kind)
            drag = CheckpointDrag(self._view.id, checkpoint, kind, name, promise)
            self._actions.ask(job_actions.DRAG_CHECKPOINT, drag)

    def _made(self, checkpoint: Checkpoint) -> str:
        moment = formats.time_or_day if self.width() < _SMALL_W else formats.time_with_day
        return moment(instant(checkpoint.created), datetime.now().astimezone())

    def _marks(self, checkpoint: Checkpoint) -> str:
        words, _ = self._verified.get(checkpoint.sha256, ("", ""))
        return ", ".join(filter(None, (checkpoint.marks, words)))

    def _marks_tip(self, checkpoint: Checkpoint) -> str:
        _, tip = self._verified.get(checkpoint.sha256, ("", _PROVED))
        return f"{self._marks(checkpoint)}\nFile: {tip}" if tip else self._marks(checkpoint)

    def _why_no_resume(self, checkpoint: Checkpoint | None) -> str:
        if self._live:
            return "The job is running"
        view = self._view
        if view is None or checkpoint is None:
            return ""
        if view.config.script:
            return "" if view.resumes else WHY_NO_RESUME
        is_end = checkpoint.epoch >= view.epochs and not checkpoint.epoch_step
        return "It is the end of the last epoch" if is_end else ""

    @Slot()
    def _fit_buttons(self) -> None:
        chosen = bool(self._chosen())
        one = self._chosen_one()
        self._keep.setEnabled(chosen)
        self._keep.setText(_KEEP_NO_MORE if one is not None and one.is_kept else _KEEP)
        # Only a script knows what is in its checkpoints.
        script = self._view is not None and bool(self._view.config.script)
        for button in (self._inspect, self._new, self._try):
            button.setEnabled(chosen and not script)
        self._verify.setEnabled(chosen)
        why_not = self._why_no_resume(one)
        self._resume.setEnabled(chosen and not why_not)
        self._resume.set_tip(why_not)
        self._export.setEnabled(chosen)


def _several(number: int, words: str) -> str:
    return words if number == 1 else f"{formats.count(number)} {words}"


def _made_exactly(checkpoint: Checkpoint) -> str:
    return formats.full_time(instant(checkpoint.created))


class CheckpointModel(RowTableModel[Checkpoint]):
    """A model whose rows can be dragged."""

    def flags(self, index: AnyIndex) -> Qt.ItemFlag:
        flags = super().flags(index)
        return flags | Qt.ItemFlag.ItemIsDragEnabled if index.isValid() else flags


class CheckpointTable(QTableView):
    """A table in which one row is selected at a time.

    Signals:
        drag_began: A `Checkpoint` and a `Promise`; the receiver sets the file's path at once.
    """

    drag_started = Signal(object, object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setDragDropMode(QAbstractItemView.DragDropMode.DragOnly)

    def startDrag(self, _actions: Qt.DropAction) -> None:
        index = self.currentIndex()
        if not index.isValid():
            return
        promise = FilePromise()
        self.drag_started.emit(index.data(RECORD_ROLE), promise)
        if not promise.path:
            return
        drag = QDrag(self)
        drag.setMimeData(PromisedFile(promise))
        drag.setPixmap(self.viewport().grab(self.visualRect(index)))
        # Copy only: a move would remove the checkpoint from the job.
        act = drag.exec(Qt.DropAction.CopyAction)
        promise.is_drag_over = True
        if act == Qt.DropAction.IgnoreAction:
            promise.abandoned.emit()
