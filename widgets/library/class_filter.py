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
from widgets.library.class_columns import MAX_COLUMNS

_ALL = "all"
_INDEX_PREFIX = "class "
"""Prefix of a class number, because a class may be named “all”."""


class ClassFilter(QWidget):
    """Hidden until classes are known.

    Signals:
        chosen: The name of a class, "" for all.
    """

    class_chosen = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._classes: tuple[ClassCount, ...] = ()
        self._title = Label("Class", "small", "text2")
        self._class_box = ComboBox(name="Class")
        self._class_box.activated.connect(self._choose_from_box)
        self._segments: SegmentedControl | None = None
        self._row = row(STRETCH, self._title, self._class_box, gap=S2)
        self.setLayout(self._row)
        # When it is hidden, its neighbours do not spread.
        policy = QSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        policy.setRetainSizeWhenHidden(True)
        self.setSizePolicy(policy)
        self._fit_segments()

    def show_classes(self, classes: tuple[ClassCount, ...]) -> None:
        """Set other classes; all are shown again."""
        self._classes = classes
        if self._segments is not None:
            self._row.removeWidget(self._segments)
            self._segments.hide()
            self._segments.deleteLater()
            self._segments = None
        keys = [f"{_INDEX_PREFIX}{number}" for number in range(len(classes))]
        options = [
            (key, f"{c.name} · {formats.count(c.count)}")
            for key, c in zip(keys, classes, strict=True)
        ]
        self._class_box.set_options([(_ALL, "All classes"), *options], _ALL)
        if 0 < len(classes) <= MAX_COLUMNS:
            names = [
                (key, class_count.name) for key, class_count in zip(keys, classes, strict=True)
            ]
            self._segments = SegmentedControl([(_ALL, "All"), *names], _ALL, name="Class")
            for key, class_count in zip(keys, classes, strict=True):
                self._segments.set_tip(key, formats.plural(class_count.count, "sample"))
            self._segments.key_chosen.connect(self._choose_key)
            self._row.addWidget(self._segments)
        self._fit_segments()

    def choose(self, name: str) -> None:
        """Select without sending a signal; "" for all."""
        names = [class_count.name for class_count in self._classes]
        key = f"{_INDEX_PREFIX}{names.index(name)}" if name in names else _ALL
        self._class_box.choose(key)
        if self._segments is not None:
            self._segments.choose(key)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_segments()

    def _fit_segments(self) -> None:
        has_classes = bool(self._classes)
        title_w = self._title.sizeHint().width() + S2
        is_wide_enough = (
            self._segments is not None
            and title_w + self._segments.sizeHint().width() <= self.width()
        )
        self._title.setVisible(has_classes)
        if self._segments is not None:
            self._segments.setVisible(is_wide_enough)
        self._class_box.setVisible(has_classes and not is_wide_enough)

    @Slot(int)
    def _choose_from_box(self, _index: int) -> None:
        self._choose_key(self._class_box.key())

    @Slot(str)
    def _choose_key(self, key: str) -> None:
        name = "" if key == _ALL else self._classes[int(key.removeprefix(_INDEX_PREFIX))].name
        self.choose(name)
        self.class_chosen.emit(name)
