"""The checkpoints of a job: what each holds, and what can be done with it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, Qt, Signal, Slot
from PySide6.QtWidgets import QHeaderView, QStackedWidget, QTableView, QWidget

from backend.records.checkpoint import Checkpoint
from backend.records.job import CheckpointPolicy
from widgets.common import formats
from widgets.common.buttons import Button
from widgets.common.cards import Card, EmptyState
from widgets.common.layout import STRETCH, col, row
from widgets.common.text import Label
from widgets.common.theme import S2, S3
from widgets.common.views import dress
from widgets.jobs.job_list_model import moment_of

AnyIndex = QModelIndex | QPersistentModelIndex
NO_PARENT = QModelIndex()
_TITLES = ("Name", "Epoch", "Step", "Metric", "Size", "Made", "", "SHA-256")
_REASONS = {"stop": "at a stop", "last": "last epoch"}


class CheckpointModel(QAbstractTableModel):
    """One row per checkpoint, the newest on top."""

    CheckpointRole = Qt.ItemDataRole.UserRole

    def __init__(self) -> None:
        super().__init__()
        self._rows: tuple[Checkpoint, ...] = ()
        self._metric = ""

    def put(self, checkpoints: tuple[Checkpoint, ...], metric: str) -> None:
        wanted = tuple(sorted(checkpoints, key=lambda c: (c.step, c.run), reverse=True))
        if wanted == self._rows and metric == self._metric:
            return
        self.beginResetModel()
        self._rows, self._metric = wanted, metric
        self.endResetModel()

    def rowCount(self, parent: AnyIndex = NO_PARENT) -> int:
        return 0 if parent.isValid() else len(self._rows)

    def columnCount(self, parent: AnyIndex = NO_PARENT) -> int:
        return 0 if parent.isValid() else len(_TITLES)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if orientation is Qt.Orientation.Horizontal and role == Qt.ItemDataRole.DisplayRole:
            metric = self._metric.removeprefix("validation/")
            return metric[:1].upper() + metric[1:] if section == 3 and metric else _TITLES[section]
        return None

    def data(self, index: AnyIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        one = self._rows[index.row()]
        if role == self.CheckpointRole:
            return one
        if role == Qt.ItemDataRole.ToolTipRole and index.column() == len(_TITLES) - 1:
            return one.sha256
        if role != Qt.ItemDataRole.DisplayRole:
            return None
        now = datetime.now().astimezone()
        marks = [
            word for word, there in (("latest", one.is_latest), ("best", one.is_best)) if there
        ]
        if one.reason in _REASONS:
            marks.append(_REASONS[one.reason])
        return (
            one.name,
            formats.count(one.epoch),
            formats.count(one.step),
            formats.metric(one.metrics.get(self._metric)),
            formats.disk(one.bytes),
            formats.moment_long(moment_of(one.created), now),
            ", ".join(marks),
            one.sha256[:8],
        )[index.column()]


class CheckpointsTab(QWidget):
    """The tab Checkpoints.

    Signals:
        resume_requested: Name of the checkpoint to go on from.
        new_from_requested: Name of the checkpoint a new job should start from.
        export_requested: Name of the checkpoint to export.
    """

    resume_requested = Signal(str)
    new_from_requested = Signal(str)
    export_requested = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.model = CheckpointModel()
        self._table = QTableView()
        self._table.setModel(self.model)
        dress(self._table, "Checkpoints")
        header = self._table.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        self._table.selectionModel().selectionChanged.connect(self._fit_buttons)
        self._resume = Button("Resume from it", icon="play")
        self._resume.clicked.connect(lambda: self.resume_requested.emit(self._chosen()))
        self._new = Button("Start new job from it", icon="plus")
        self._new.clicked.connect(lambda: self.new_from_requested.emit(self._chosen()))
        self._export = Button("Export…", icon="upload-simple")
        self._export.clicked.connect(lambda: self.export_requested.emit(self._chosen()))
        self._policy = Label("", "small", "text3", wrap=True)
        self._live = False
        table = QWidget()
        table.setLayout(
            col(
                (Card((self._table, 1)), 1),
                row(self._resume, self._new, self._export, STRETCH, gap=S2),
                self._policy,
                gap=S3,
                margins=(0, 0, 0, S3),
            )
        )
        self._pages = QStackedWidget()
        self._pages.addWidget(
            EmptyState("floppy-disk", "No checkpoint yet", "One is made after the first epoch.")
        )
        self._pages.addWidget(table)
        self.setLayout(col((self._pages, 1), gap=0))
        self._fit_buttons()

    def show_checkpoints(
        self, checkpoints: tuple[Checkpoint, ...], policy: CheckpointPolicy
    ) -> None:
        kept = self._chosen()
        self.model.put(checkpoints, policy.best_metric)
        self._pages.setCurrentIndex(1 if checkpoints else 0)
        each = max((c.bytes for c in checkpoints), default=0)
        most = policy.keep_latest + policy.keep_best + 1
        self._policy.setText(
            f"Kept: the newest {policy.keep_latest}, the best {policy.keep_best} by "
            f"{policy.best_metric}, and the last epoch always. "
            f"That needs {formats.disk(most * each)} at most."
        )
        row_number = next(
            (r for r in range(self.model.rowCount()) if self._name(r) == kept),
            0 if checkpoints else -1,
        )
        if row_number >= 0:
            self._table.selectRow(row_number)
        self._fit_buttons()

    def set_live(self, live: bool) -> None:
        """While the job runs it cannot be resumed."""
        self._live = live
        self._fit_buttons()

    def _name(self, row_number: int) -> str:
        one: Checkpoint = self.model.index(row_number, 0).data(CheckpointModel.CheckpointRole)
        return one.name

    def _chosen(self) -> str:
        rows = self._table.selectionModel().selectedRows()
        return self._name(rows[0].row()) if rows else ""

    @Slot()
    def _fit_buttons(self) -> None:
        chosen = bool(self._chosen())
        self._resume.setEnabled(chosen and not self._live)
        self._resume.set_tip("The job runs" if self._live else "")
        self._new.setEnabled(chosen)
        self._export.setEnabled(chosen)
