"""The result of a model check: one step forward and backward, parameters, layers."""

from __future__ import annotations

from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QTableView, QWidget

from backend.records.library.preview import LayerRow, ModelCheck
from widgets.common import formats
from widgets.common.cards import Card
from widgets.common.key_value_row import KeyValue, KeyValueRow
from widgets.common.labels import Label
from widgets.common.layout import SLACK, col
from widgets.common.record_table_model import RowTableModel, TableColumn
from widgets.common.theme import CARD_PADDING, S3
from widgets.common.view_style import TableHeightLimit, share_column_width, style_view

_WIDE_MIN_W = 1100

_COLUMNS = (
    TableColumn[LayerRow]("Layer", lambda layer: layer.name, lambda layer: layer.name),
    TableColumn[LayerRow]("Kind", lambda layer: layer.kind),
    TableColumn[LayerRow]("Output", lambda layer: layer.output or "–"),
    TableColumn[LayerRow](
        "Parameters",
        lambda layer: formats.count(layer.parameters) if layer.parameters else "–",
        is_figure=True,
    ),
)


class CheckView(QWidget):
    """The tab Check of a model."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._details = KeyValueRow()
        self._warnings = Label("", "body", "warn", wrap=True)
        self._model = RowTableModel(_COLUMNS)
        table = QTableView()
        table.setModel(self._model)
        style_view(table, "Layers")
        self._table = table
        card = Card((table, 1))
        TableHeightLimit(table, card, 2 * CARD_PADDING)
        self.setLayout(col(Card(self._details, self._warnings), (card, 1), SLACK, gap=S3))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        share_column_width(self._table, 0, equally=self.width() >= _WIDE_MIN_W)

    def show_check(self, check: ModelCheck) -> None:
        total, trainable = check.parameters, check.trainable_parameters
        details = [KeyValue("Parameters", formats.count(total))]
        if trainable != total:
            details.append(KeyValue("Trained", formats.count(trainable)))
        details.append(KeyValue("Memory", formats.memory(check.parameter_bytes)))
        if check.was_tried:
            details += [
                KeyValue("Loss on one batch", formats.metric(check.loss)),
                KeyValue("Forward", formats.milliseconds(check.forward_ms)),
                KeyValue("Backward", formats.milliseconds(check.backward_ms)),
                KeyValue("Output", check.output_shape),
                KeyValue("Batch", check.batch),
            ]
        self._details.set_items(details)
        self._warnings.setText(" ".join(check.warnings))
        self._warnings.setVisible(bool(check.warnings))
        self._model.set_records(check.layers)
