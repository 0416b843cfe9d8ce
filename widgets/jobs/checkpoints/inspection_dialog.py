"""The dialog that looks into a checkpoint: its weights, and one sample in the layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtWidgets import QAbstractItemView, QLabel, QTableView, QWidget

from backend.records.jobs.checkpoint import Checkpoint
from backend.records.library.inspection import (
    ActivationRow,
    CheckpointInspection,
    TensorValues,
    WeightRow,
)
from backend.records.library.preview import SamplePart
from widgets.common import formats
from widgets.common.buttons import SegmentedControl
from widgets.common.cards import Card, EmptyState, VerticalScrollArea
from widgets.common.dialog import Dialog, TaskStatus
from widgets.common.fields import ComboBox, Field, SpinBox
from widgets.common.labels import Label
from widgets.common.layout import STRETCH, clear, col, row
from widgets.common.panes import PageStack
from widgets.common.record_table_model import RECORD_ROLE, RowTableModel, TableColumn
from widgets.common.theme import S1, S2, S3, S4
from widgets.common.view_style import ColumnHider, share_column_width, style_view
from widgets.jobs.checkpoints.export_dialog import checkpoint_title
from widgets.library.distribution_card import ValuesPlot, spread_text
from widgets.library.sample_parts import decode_thumbnail, draw_sketch, scale_thumbnail

_WIDTH, _HEIGHT = 1040, 760
_SIDE_W, _MAP_SIDE, _PICTURE_SIDE = 300, 84, 220
_NO_OTHER = ("", "No other")
_TABS = (("weights", "Weights"), ("activations", "Activations"), ("saliency", "Saliency"))
_TAB_KEYS = [key for key, _ in _TABS]


@dataclass(frozen=True)
class InspectionRequest:
    """Names of one or two checkpoints ("" for no second), and the number of a sample."""

    checkpoint: str
    other_checkpoint: str
    sample_index: int


def _values_column(
    title: str, get_values: Callable[[Any], TensorValues | None]
) -> TableColumn[Any]:
    def deviation(record: Any) -> str:
        values = get_values(record)
        return formats.NONE if values is None else formats.metric(values.spread.std)

    return TableColumn[Any](title, deviation, lambda _: "Standard deviation", is_figure=True)


def _nan_label(values: TensorValues) -> str:
    count = values.spread.nan_count + values.spread.inf_count
    return formats.count(count) if count else formats.NONE


_WEIGHTS: tuple[TableColumn[Any], ...] = (
    TableColumn[Any]("Weight", lambda record: record.name, lambda record: record.name),
    TableColumn[Any]("Shape", lambda record: formats.shape(record.shape)),
    _values_column("Std", lambda record: record.values),
    _values_column("Change", lambda record: record.change),
    _values_column("Gradient", lambda record: record.gradient),
    TableColumn[Any]("NaN", lambda record: _nan_label(record.values), is_figure=True),
)
_ACTIVATIONS: tuple[TableColumn[Any], ...] = (
    TableColumn[Any]("Layer", lambda record: record.name, lambda record: record.name),
    TableColumn[Any]("Kind", lambda record: record.kind),
    TableColumn[Any]("Output", lambda record: formats.shape(record.shape)),
    TableColumn[Any](
        "Mean", lambda record: formats.metric(record.values.spread.mean), is_figure=True
    ),
    TableColumn[Any](
        "Std", lambda record: formats.metric(record.values.spread.std), is_figure=True
    ),
    TableColumn[Any](
        "Zeros", lambda record: formats.percent(record.values.zero_share), is_figure=True
    ),
)
_CHANGE_COLUMN, _NAN_COLUMN = 3, 5


class _DetailTable(QWidget):
    """A table, and the distributions and pictures of its selected row."""

    def __init__(
        self, columns: Sequence[TableColumn[Any]], name: str, spare_columns: Sequence[int]
    ) -> None:
        """Build the table; ``spare_columns`` are hidden where the names need their space."""
        super().__init__()
        self.model: RowTableModel[Any] = RowTableModel(columns)
        self.table = QTableView()
        self.table.setModel(self.model)
        self.table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.table.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        style_view(self.table, name)
        share_column_width(self.table, 0)
        self.names = ColumnHider(self.table, spare_columns)
        self.table.selectionModel().selectionChanged.connect(self._show_details)
        self._side = col(gap=S2)
        side = QWidget()
        side.setLayout(self._side)
        scroll = VerticalScrollArea(side)
        scroll.setFixedWidth(_SIDE_W)
        self.setLayout(row((Card((self.table, 1), margins=(0, 0, 0, S1)), 1), scroll, gap=S3))

    def put(self, rows: Sequence[Any]) -> None:
        self.model.set_records(rows)
        if rows and not self.table.selectionModel().hasSelection():
            self.table.selectRow(0)
        self._show_details()

    @Slot()
    def _show_details(self) -> None:
        clear(self._side)
        selected_rows = self.table.selectionModel().selectedRows()
        record = selected_rows[0].data(RECORD_ROLE) if selected_rows else None
        if isinstance(record, WeightRow):
            self._add_values("Weights", record.values)
            self._add_values("Change", record.change)
            self._add_values("Gradient of one batch", record.gradient)
        elif isinstance(record, ActivationRow):
            self._add_values("Output", record.values)
            pictures = [part_picture(part, _MAP_SIDE) for part in record.maps]
            for start in range(0, len(pictures), 3):
                self._side.addLayout(row(*pictures[start : start + 3], STRETCH, gap=S1))
        self._side.addStretch(1)

    def _add_values(self, title: str, values: TensorValues | None) -> None:
        if values is None:
            return
        plot = ValuesPlot()
        plot.show_channel(values.spread)
        caption = f"{spread_text(values.spread)}, {formats.percent(values.zero_share)} zeros"
        self._side.addWidget(Label(title, "strong"))
        self._side.addWidget(plot)
        self._side.addWidget(Label(caption, "small", "text2", wrap=True))


def part_picture(part: SamplePart, side: int) -> QLabel:
    """Return a picture of a part, or a sketch of its values."""
    label = QLabel()
    ratio = label.devicePixelRatioF()
    image = decode_thumbnail(part)
    label.setPixmap(
        draw_sketch(part, side, ratio) if image.isNull() else scale_thumbnail(image, side, ratio)
    )
    label.setAccessibleName(part.path)
    return label


class InspectionDialog(Dialog):
    """Asks for one or two checkpoints and a sample; shows their contents.

    Signals:
        requested: An `InspectionRequest`; answer with `show_inspection` or `show_error`.
        cancelled: Cancel the running inspection.
    """

    requested = Signal(InspectionRequest)
    cancelled = Signal()

    def __init__(
        self, checkpoints: Sequence[Checkpoint], checkpoint_name: str, parent: QWidget | None = None
    ) -> None:
        super().__init__("Look inside", _WIDTH, parent, height=_HEIGHT)
        newest_first = sorted(checkpoints, key=lambda c: (c.step, c.run), reverse=True)
        options = [(checkpoint.name, checkpoint_title(checkpoint)) for checkpoint in newest_first]
        self._checkpoint = ComboBox(options, checkpoint_name, name="Checkpoint")
        self._other_checkpoint = ComboBox([_NO_OTHER, *options], name="Compare with")
        self._sample = SpinBox(0, minimum=0, name="Sample")
        self._show_button = self.default_button(
            "Show", self.request_inspection, icon="magnifying-glass"
        )
        self._status = TaskStatus("Reading the checkpoint")
        self._status.cancelled.connect(self.cancelled)
        self._tabs = SegmentedControl(_TABS, name="Shown")
        self._tabs.key_chosen.connect(self._show_tab)
        self._weights = _DetailTable(_WEIGHTS, "Weights", (1,))
        self._activations = _DetailTable(_ACTIVATIONS, "Activations", (3, 2))
        self._pictures = row(gap=S4)
        pictures = QWidget()
        pictures.setLayout(col(self._pictures, STRETCH, gap=0))
        self._empty_state = EmptyState("magnifying-glass", "")
        self._pages = PageStack()
        for page in (
            self._weights,
            self._activations,
            VerticalScrollArea(pictures),
            self._empty_state,
        ):
            self._pages.addWidget(page)
        self._pages.setCurrentWidget(self._empty_state)
        self.fill(
            row(self._tabs, STRETCH),
            (self._pages, 1),
            row((self._status, 1), self.close_button(), self._show_button, gap=S3),
            head=row(
                Label("Look inside", "title"),
                (Field("Checkpoint", self._checkpoint), 4),
                (Field("Compare with", self._other_checkpoint), 4),
                (Field("Sample", self._sample), 1),
                gap=S3,
            ),
        )

    @Slot()
    def request_inspection(self) -> None:
        """Request an inspection of the chosen checkpoints and sample."""
        self._show_button.setEnabled(False)
        self.show_progress(None, "Starting…")
        if not self._weights.model.rows:
            self._empty_state.show_message("magnifying-glass", "Looking inside…")
        checkpoint, other_checkpoint = self._checkpoint.key(), self._other_checkpoint.key()
        self.requested.emit(InspectionRequest(checkpoint, other_checkpoint, self._sample.value()))

    def show_progress(self, share: float | None, text: str) -> None:
        self._status.show_progress(share, text)

    def show_inspection(self, inspection: CheckpointInspection) -> None:
        self._finish(" ".join(inspection.warnings))
        self._weights.put(inspection.weights)
        has_change = any(weight.change is not None for weight in inspection.weights)
        self._weights.table.setColumnHidden(_CHANGE_COLUMN, not has_change)
        has_nan = any(_nan_label(w.values) != formats.NONE for w in inspection.weights)
        self._weights.table.setColumnHidden(_NAN_COLUMN, not has_nan)
        self._weights.names.update_columns()
        self._activations.put(inspection.activations)
        clear(self._pictures)
        target = f", target {inspection.target}" if inspection.target else ""
        for part in inspection.data:
            self._add_picture(f"Sample {formats.count(inspection.sample)}{target}", part)
        for saliency in inspection.saliency:
            top = "" if inspection.top_output is None else f" for output {inspection.top_output}"
            self._add_picture(f"{saliency.method}{top}", saliency.part)
        self._pictures.addStretch(1)
        self._show_tab(self._tabs.key())

    def show_error(self, message: str) -> None:
        """Show why nothing could be read; earlier contents stay."""
        self._finish(message)
        if not self._weights.model.rows:
            self._empty_state.show_message("magnifying-glass", "Nothing to show", "See below.")

    def _finish(self, message: str) -> None:
        self._show_button.setEnabled(True)
        self._status.show_result("warn", message)

    def _add_picture(self, title: str, part: SamplePart) -> None:
        caption = Label(title, "small", "text2", wrap=True)
        caption.setFixedWidth(_PICTURE_SIDE)
        self._pictures.addLayout(col(caption, part_picture(part, _PICTURE_SIDE), STRETCH, gap=S1))

    @Slot(str)
    def _show_tab(self, key: str) -> None:
        if self._weights.model.rows or self._activations.model.rows:
            self._pages.setCurrentIndex(_TAB_KEYS.index(key))
