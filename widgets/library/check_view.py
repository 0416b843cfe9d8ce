"""What a check of a model found: one step forward and backward, parameters, layers."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, Qt
from PySide6.QtWidgets import QHeaderView, QTableView, QWidget

from backend.records.preview import LayerRow, ModelCheck
from widgets.common import formats
from widgets.common.cards import Card, Fact, Facts
from widgets.common.layout import col
from widgets.common.text import Label
from widgets.common.theme import S3
from widgets.common.views import dress

AnyIndex = QModelIndex | QPersistentModelIndex
NO_PARENT = QModelIndex()
_TITLES = ("Layer", "Kind", "Output", "Parameters")


class LayerModel(QAbstractTableModel):
    """One row per layer."""

    def __init__(self) -> None:
        super().__init__()
        self._layers: tuple[LayerRow, ...] = ()

    def put(self, layers: tuple[LayerRow, ...]) -> None:
        self.beginResetModel()
        self._layers = layers
        self.endResetModel()

    def rowCount(self, parent: AnyIndex = NO_PARENT) -> int:
        return 0 if parent.isValid() else len(self._layers)

    def columnCount(self, parent: AnyIndex = NO_PARENT) -> int:
        return 0 if parent.isValid() else len(_TITLES)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if orientation is Qt.Orientation.Horizontal and role == Qt.ItemDataRole.DisplayRole:
            return _TITLES[section]
        return None

    def data(self, index: AnyIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid() or role != Qt.ItemDataRole.DisplayRole:
            return None
        layer = self._layers[index.row()]
        count = formats.count(layer.parameters) if layer.parameters else "–"
        return (layer.name, layer.kind, layer.output or "–", count)[index.column()]


class CheckView(QWidget):
    """The tab Check of a model."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._facts = Facts()
        self._warnings = Label("", "body", "warn", wrap=True)
        self._model = LayerModel()
        table = QTableView()
        table.setModel(self._model)
        dress(table, "Layers")
        header = table.horizontalHeader()
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        for column in (1, 2, 3):
            header.setSectionResizeMode(column, QHeaderView.ResizeMode.ResizeToContents)
        self.setLayout(col(Card(self._facts, self._warnings), (Card((table, 1)), 1), gap=S3))

    def show_check(self, check: ModelCheck) -> None:
        total, trainable = check.parameters, check.trainable_parameters
        facts = [Fact("Parameters", formats.count(total))]
        if trainable != total:
            facts.append(Fact("Trained", formats.count(trainable)))
        facts.append(Fact("Memory", formats.memory(check.parameter_bytes)))
        if check.was_tried:
            facts += [
                Fact("Loss on one batch", formats.metric(check.loss)),
                Fact("Forward", formats.milliseconds(check.forward_ms)),
                Fact("Backward", formats.milliseconds(check.backward_ms)),
                Fact("Output", check.output_shape),
                Fact("Batch", check.batch),
            ]
        self._facts.set_facts(facts)
        self._warnings.setText(" ".join(check.warnings))
        self._warnings.setVisible(bool(check.warnings))
        self._model.put(check.layers)
