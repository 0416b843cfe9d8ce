"""The class filter of samples: a segment for each class if they fit, otherwise a list."""

from __future__ import annotations

from PySide6.QtCore import Signal, Slot
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from backend.records.library.preview import ClassCount
from widgets.common import formats
from widgets.common.buttons import SegmentedControl
from widgets.common.fields import ComboBox
from widgets.common.labels import Label
from widgets.common.layout import STRETCH, row
from widgets.common.theme import S2
from widgets.library.class_columns import MOST_COLUMNS

_ALL = "all"
_PLACE = "class "
"""Prefix of a class number, because a class may be named “all”."""


class ClassFilter(QWidget):
    """Hidden until classes are known.

    Signals:
        chosen: The name of a class, "" for all.
    """

    chosen = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._classes: tuple[ClassCount, ...] = ()
        self._title = Label("Class", "small", "text2")
        self._list = ComboBox(name="Class")
        self._list.activated.connect(self._list_chosen)
        self._segments: SegmentedControl | None = None
        self._row = row(STRETCH, self._title, self._list, gap=S2)
        self.setLayout(self._row)
        # When it is hidden, its neighbours do not spread.
        policy = QSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        policy.setRetainSizeWhenHidden(True)
        self.setSizePolicy(policy)
        self._fit()

    def show_classes(self, classes: tuple[ClassCount, ...]) -> None:
        """Set other classes; all are shown again."""
        self._classes = classes
        if self._segments is not None:
            self._row.removeWidget(self._segments)
            self._segments.hide()
            self._segments.deleteLater()
            self._segments = None
        keys = [f"{_PLACE}{number}" for number in range(len(classes))]
        options = [
            (key, f"{c.name} · {formats.count(c.count)}")
            for key, c in zip(keys, classes, strict=True)
        ]
        self._list.set_options([(_ALL, "All classes"), *options], _ALL)
        if 0 < len(classes) <= MOST_COLUMNS:
            names = [(key, one.name) for key, one in zip(keys, classes, strict=True)]
            self._segments = SegmentedControl([(_ALL, "All"), *names], _ALL, name="Class")
            for key, one in zip(keys, classes, strict=True):
                self._segments.set_tip(key, formats.plural(one.count, "sample"))
            self._segments.key_chosen.connect(self._chosen)
            self._row.addWidget(self._segments)
        self._fit()

    def choose(self, name: str) -> None:
        """Select without sending a signal; "" for all."""
        names = [one.name for one in self._classes]
        key = f"{_PLACE}{names.index(name)}" if name in names else _ALL
        self._list.choose(key)
        if self._segments is not None:
            self._segments.choose(key)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        has = bool(self._classes)
        needed = self._title.sizeHint().width() + S2
        fits = (
            self._segments is not None
            and needed + self._segments.sizeHint().width() <= self.width()
        )
        self._title.setVisible(has)
        if self._segments is not None:
            self._segments.setVisible(fits)
        self._list.setVisible(has and not fits)

    @Slot(int)
    def _list_chosen(self, _index: int) -> None:
        self._chosen(self._list.key())

    @Slot(str)
    def _chosen(self, key: str) -> None:
        name = "" if key == _ALL else self._classes[int(key.removeprefix(_PLACE))].name
        self.choose(name)
        self.chosen.emit(name)
