"""The name of the open job, which can be changed where it stands."""

from __future__ import annotations

from PySide6.QtCore import QRectF, Qt, Signal, Slot
from PySide6.QtGui import QKeyEvent, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QStackedWidget

from backend.records.values import job_name_fault
from widgets.common.fields import LineEdit
from widgets.common.paint import paint_focus
from widgets.common.text import Label
from widgets.common.theme import R_CONTROL


class JobName(QStackedWidget):
    """The job's name; a double click or F2 makes it a field.

    Signals:
        renamed: The new name.
    """

    renamed = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self._label = Label("", "title", elide="right")
        self._edit = LineEdit(name="Name of the job")
        self._edit.editingFinished.connect(self._done)
        self.addWidget(self._label)
        self.addWidget(self._edit)
        self.setFixedHeight(32)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self._label.set_tip("Double click to rename", "F2")
        self.setAccessibleName("Name of the job")

    def show_name(self, name: str) -> None:
        self._label.setText(name)
        self.setAccessibleDescription(name)

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if self.hasFocus():
            painter = QPainter(self)
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            paint_focus(painter, QRectF(self.rect()), R_CONTROL)

    def edit(self) -> None:
        self._edit.setText(self._label.text())
        self.setCurrentWidget(self._edit)
        self._edit.selectAll()
        self._edit.setFocus()

    def mouseDoubleClickEvent(self, _event: QMouseEvent) -> None:
        self.edit()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.setCurrentWidget(self._label)
        elif event.key() in (Qt.Key.Key_F2, Qt.Key.Key_Return) and not self._is_editing():
            self.edit()
        else:
            super().keyPressEvent(event)

    def _is_editing(self) -> bool:
        return self.currentWidget() is self._edit

    @Slot()
    def _done(self) -> None:
        if not self._is_editing():
            return
        name = self._edit.text().strip()
        self.setCurrentWidget(self._label)
        if name != self._label.text() and not job_name_fault(name):
            self._label.setText(name)
            self.renamed.emit(name)
