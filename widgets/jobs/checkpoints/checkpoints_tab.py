"""The checkpoints of a job, and the actions on them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtGui import QDrag, QResizeEvent
from PySide6.QtWidgets import QAbstractItemView, QStackedWidget, QTableView, QWidget

from backend.records.base.timestamps import instant
from backend.records.jobs.checkpoint import Checkpoint
from backend.records.jobs.metric_names import metric_label
from backend.records.jobs.view import NO_RESUME_REASON, JobView
from widgets.common import formats
from widgets.common.actions import MoreButton, Request, fill_menu
from widgets.common.buttons import Button
from widgets.common.cards import Card, EmptyState
from widgets.common.drag_and_drop import FilePromise, PromisedFile
from widgets.common.labels import Label
from widgets.common.layout import SLACK, STRETCH, col, row
from widgets.common.record_table_model import RECORD_ROLE, AnyIndex, RowTableModel, TableColumn
from widgets.common.theme import PAGE_MARGIN, S1, S2, S3
from widgets.common.view_style import TableHeightLimit, share_column_width, style_view
from widgets.jobs.actions import job_actions
from widgets.jobs.actions.job_actions import CheckpointDrag, CheckpointSubject, JobActions
from widgets.jobs.checkpoints.export_dialog import (
    Exporter,
    checkpoint_label,
    export_name,
    format_title,
)

_VERIFIED_TIP = "verified when it was saved"
_METRIC_COLUMN, _SIZE_COLUMN, _MARKS_COLUMN, _HASH_COLUMN = 1, 2, 4, 5
_SMALL_W = 680
_MIN_WIDTHS = {_HASH_COLUMN: 780, _SIZE_COLUMN: _SMALL_W}
"""Below this width a column is hidden: the tool tip has the size, a file next to the checkpoint the
hash."""


class CheckpointsTab(QWidget):
    """The tab Checkpoints.

    Attributes:
        more_button: The button with the menu of the actions that have no button.
    """

    def __init__(self, actions: JobActions, exporter: Exporter) -> None:
        super().__init__()
        self._actions = actions
        self._exporter = exporter
        self._view: JobView | None = None
        self._metric = ""
        self._file_checks: dict[str, tuple[str, str]] = {}
        self.model = CheckpointModel(
            (
                TableColumn[Checkpoint]("Checkpoint", checkpoint_label, self._name_tip),
                TableColumn[Checkpoint](
                    "Metric",
                    lambda checkpoint: formats.metric(checkpoint.metrics.get(self._metric)),
                    is_figure=True,
                ),
                TableColumn[Checkpoint](
                    "Size", lambda checkpoint: formats.disk(checkpoint.bytes), is_figure=True
                ),
                TableColumn[Checkpoint]("Made", self._creation_time, _exact_creation_time),
                TableColumn[Checkpoint]("", self._marks, self._marks_tip),
                TableColumn[Checkpoint](
                    "SHA-256",
                    lambda checkpoint: checkpoint.sha256[:8],
                    lambda checkpoint: checkpoint.sha256,
                ),
            )
        )
        self._make_table()
        self._make_buttons()
        self._policy_label = Label("", "small", "text3", wrap=True)
        self._is_live = False
        card = Card((self._table, 1), margins=(0, 0, 0, S1))
        TableHeightLimit(self._table, card, S1)
        buttons = self._resume_button, self._try_button, self._export_button, self.more_button
        table = QWidget()
        table.setLayout(
            col(
                *((card, 1), row(*buttons, STRETCH, gap=S2), self._policy_label, SLACK),
                gap=S3,
                margins=(0, 0, PAGE_MARGIN, S3),
            )
        )
        self._empty_state = EmptyState("floppy-disk", "")
        self._pages = QStackedWidget()
        self._pages.addWidget(self._empty_state)
        self._pages.addWidget(table)
        self.setLayout(col((self._pages, 1), gap=0))
        self._update_buttons()

    def _make_table(self) -> None:
        self._table = CheckpointTable()
        self._table.drag_started.connect(self._drag)
        self._table.setModel(self.model)
        style_view(self._table, "Checkpoints")
        share_column_width(self._table, _MARKS_COLUMN)
        self._table.selectionModel().selectionChanged.connect(self._update_buttons)

    def _make_buttons(self) -> None:
        self._resume_button = Button("Resume from this", icon="play")
        self._resume_button.clicked.connect(partial(self._request, job_actions.RESUME_FROM))
        self._try_button = Button("Try it", icon="magic-wand")
        self._try_button.set_tip("See the answers of this checkpoint for files or samples")
        self._try_button.clicked.connect(self._request_try)
        self._export_button = Button("Export…", icon="upload-simple")
        self._export_button.clicked.connect(self._ask_export)
        self.more_button = MoreButton(
            lambda menu: fill_menu(
                menu,
                (job_actions.CHECKPOINT_MENU_ACTIONS,),
                self._subject(),
                lambda action: self._menu_requests[action.id](),
            )
        )
        self._menu_requests: dict[str, Callable[[], object]] = {
            job_actions.NEW_FROM.id: partial(self._request, job_actions.NEW_FROM),
            job_actions.VERIFY_CHECKPOINT.id: partial(self._request, job_actions.VERIFY_CHECKPOINT),
            job_actions.KEEP_CHECKPOINT.id: self._request_keep,
            job_actions.INSPECT_CHECKPOINT.id: self._request_inspection,
        }

    def begin_reading(self) -> None:
        """Show that the checkpoints of another job are being read."""
        self._file_checks.clear()
        self.model.set_records(())
        self._empty_state.show_message("floppy-disk", "Reading checkpoints…")
        self._pages.setCurrentIndex(0)

    def show_error(self, message: str) -> None:
        """Show why the checkpoints cannot be read; checkpoints on display stay."""
        if not self.model.rowCount():
            self._empty_state.show_message("wifi-slash", "Could not read the checkpoints", message)

    def show_checkpoints(self, view: JobView, checkpoints: tuple[Checkpoint, ...]) -> None:
        self._view, policy = view, view.config.checkpoint
        selected_name = self._selected_name()
        self._metric = policy.best_metric
        metric = metric_label(self._metric)
        self.model.set_column_title(_METRIC_COLUMN, metric[:1].upper() + metric[1:])
        newest_first = sorted(checkpoints, key=lambda c: (c.step, c.run), reverse=True)
        self.model.set_records(newest_first)
        self._pages.setCurrentIndex(1 if checkpoints else 0)
        self._empty_state.show_message(
            "floppy-disk",
            "No checkpoint yet",
            f"Files and folders that match {', '.join(view.config.checkpoint_files)}"
            if view.config.script
            else "The first one is saved after the first epoch.",
        )
        largest_bytes = max((c.bytes for c in checkpoints), default=0)
        pinned_count = sum(checkpoint.is_kept for checkpoint in checkpoints)
        max_count = policy.keep_latest + policy.keep_best + 1 + pinned_count
        best_group = f"the {_count_label(policy.keep_best, 'best')} by {metric}"
        if checkpoints and not any(checkpoint.is_best for checkpoint in checkpoints):
            best_group += " (not measured by this job yet)"
        kept_groups = [f"the {_count_label(policy.keep_latest, 'newest')}", best_group, "the last"]
        kept_groups += [f"{formats.count(pinned_count)} that you chose"] if pinned_count else []
        max_size = formats.disk(max_count * largest_bytes)
        policy_text = (
            f"Kept: {', '.join(kept_groups[:-1])} and {kept_groups[-1]}, at most {max_size}."
        )
        if view.config.script and not view.config.remove_old_checkpoints:
            policy_text = "All are kept as the script wrote them."
        self._policy_label.setText(policy_text)
        row_number = next(
            (r for r in range(self.model.rowCount()) if self._name(r) == selected_name),
            0 if checkpoints else -1,
        )
        if row_number >= 0:
            self._table.selectRow(row_number)
        self._update_buttons()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        for column, min_width in _MIN_WIDTHS.items():
            self._table.setColumnHidden(column, self.width() < min_width)

    def show_file_check(self, name: str, label: str, tip: str) -> None:
        """Show the check of a file: "checked", "damaged", or that the check is under way."""
        for number, checkpoint in enumerate(self.model.rows):
            if checkpoint.name == name:
                self._file_checks[checkpoint.sha256] = label, tip
                cell = self.model.index(number, _MARKS_COLUMN)
                self.model.dataChanged.emit(cell, cell)

    def set_live(self, is_live: bool) -> None:
        """Disable Resume while the job runs."""
        self._is_live = is_live
        self._update_buttons()

    def _name_tip(self, checkpoint: Checkpoint) -> str:
        kind = format_title(self._exporter.kind)
        return (
            f"{checkpoint.file or checkpoint.name}, {formats.disk(checkpoint.bytes)}\n"
            f"Drag it into a folder to export it ({kind}, the last format used)"
        )

    def _name(self, row_number: int) -> str:
        return self.model.rows[row_number].name

    def _selected_name(self) -> str:
        rows = self._table.selectionModel().selectedRows()
        return self._name(rows[0].row()) if rows else ""

    def _selected_checkpoint(self) -> Checkpoint | None:
        name = self._selected_name()
        return next((c for c in self.model.rows if c.name == name), None)

    def _subject(self) -> CheckpointSubject:
        checkpoint, view = self._selected_checkpoint(), self._view
        return CheckpointSubject(
            is_chosen=checkpoint is not None,
            is_kept=checkpoint is not None and checkpoint.is_kept,
            is_of_script=view is not None and bool(view.config.script),
        )

    def _request(self, request: Request[[str, str]]) -> None:
        if self._view is not None:
            self._actions.ask(request, self._view.id, self._selected_name())

    @Slot()
    def _request_try(self) -> None:
        if self._view is not None:
            self._actions.ask(
                job_actions.TRY_CHECKPOINT, self._view, self.model.rows, self._selected_name()
            )

    @Slot()
    def _request_keep(self) -> None:
        checkpoint = self._selected_checkpoint()
        if self._view is not None and checkpoint is not None:
            self._actions.ask(job_actions.KEEP_CHECKPOINT, self._view.id, checkpoint)

    @Slot()
    def _request_inspection(self) -> None:
        if self._view is not None:
            self._actions.ask(
                job_actions.INSPECT_CHECKPOINT,
                self._view.id,
                self._selected_name(),
                self.model.rows,
            )

    @Slot()
    def _ask_export(self) -> None:
        if self._view is not None:
            self._exporter.open_dialog(self._view, self.model.rows, self._selected_name())

    @Slot(object, object)
    def _drag(self, checkpoint: Checkpoint, promise: FilePromise) -> None:
        if self._view is not None:
            kind = self._exporter.kind
            name = export_name(self._view.name, kind)
            drag = CheckpointDrag(self._view.id, checkpoint, kind, name, promise)
            self._actions.ask(job_actions.DRAG_CHECKPOINT, drag)

    def _creation_time(self, checkpoint: Checkpoint) -> str:
        format_time = formats.time_or_day if self.width() < _SMALL_W else formats.time_with_day
        return format_time(instant(checkpoint.created), datetime.now().astimezone())

    def _marks(self, checkpoint: Checkpoint) -> str:
        check_label, _ = self._file_checks.get(checkpoint.sha256, ("", ""))
        return ", ".join(filter(None, (checkpoint.marks, check_label)))

    def _marks_tip(self, checkpoint: Checkpoint) -> str:
        _, tip = self._file_checks.get(checkpoint.sha256, ("", _VERIFIED_TIP))
        return f"{self._marks(checkpoint)}\nFile: {tip}" if tip else self._marks(checkpoint)

    def _no_resume_reason(self, checkpoint: Checkpoint | None) -> str:
        if self._is_live:
            return "The job is running"
        view = self._view
        if view is None or checkpoint is None:
            return ""
        if view.config.script:
            return "" if view.resumes else NO_RESUME_REASON
        is_end = checkpoint.epoch >= view.epochs and not checkpoint.epoch_step
        return "It is the end of the last epoch" if is_end else ""

    @Slot()
    def _update_buttons(self) -> None:
        has_selection = bool(self._selected_name())
        checkpoint = self._selected_checkpoint()
        self._try_button.setEnabled(self._subject().is_ours)
        self.more_button.setEnabled(has_selection)
        disabled_tip = self._no_resume_reason(checkpoint)
        self._resume_button.setEnabled(has_selection and not disabled_tip)
        self._resume_button.set_tip(disabled_tip)
        self._export_button.setEnabled(has_selection)


def _count_label(count: int, label: str) -> str:
    return label if count == 1 else f"{formats.count(count)} {label}"


def _exact_creation_time(checkpoint: Checkpoint) -> str:
    return formats.full_time(instant(checkpoint.created))


class CheckpointModel(RowTableModel[Checkpoint]):
    """A model whose rows can be dragged."""

    def flags(self, index: AnyIndex) -> Qt.ItemFlag:
        flags = super().flags(index)
        return flags | Qt.ItemFlag.ItemIsDragEnabled if index.isValid() else flags


class CheckpointTable(QTableView):
    """A table in which one row is selected at a time.

    Signals:
        drag_started: A `Checkpoint` and a `FilePromise`; the receiver sets the file's path at once.
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
        action = drag.exec(Qt.DropAction.CopyAction)
        promise.is_drag_over = True
        if action == Qt.DropAction.IgnoreAction:
            promise.abandoned.emit()
