"""The name of the open job, which can be edited in place."""

from __future__ import annotations

from PySide6.QtCore import QRectF, Qt, Signal, Slot
from PySide6.QtGui import QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QStackedWidget

from backend.records.base.validation import job_name_error
from widgets.common.fields import LineEdit
from widgets.common.labels import Label
from widgets.common.painting import paint_focus, text_width
from widgets.common.theme import R_CONTROL, Role


class JobName(QStackedWidget):
    """The job's name, in smaller text where there is little room; it can be edited in place.

    A double click or the rename key edits it.

    Signals:
        renamed: The new name.
    """

    renamed = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self._role: Role = "title"
        self._label = Label("", self._role, elide="right")
        self._edit = LineEdit(name="Name of the job")
        self._edit.editingFinished.connect(self._finish_editing)
        self.addWidget(self._label)
        self.addWidget(self._edit)
        self.setFixedHeight(32)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self._label.set_tip("Double-click to rename", "F2")
        self.setAccessibleName("Name of the job")

    def show_name(self, name: str) -> None:
        self._label.setText(name)
        self.setAccessibleDescription(name)
        self._fit_role()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_role()

    def _fit_role(self) -> None:
        role: Role = "title" if text_width(self._label.text(), "title") <= self.width() else "name"
        if role != self._role:
            self._role = role
            self._label.set_role(role)

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if self.hasFocus():
            painter = QPainter(self)
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            paint_focus(painter, QRectF(self.rect()), R_CONTROL)

    def edit(self) -> None:
        if self._is_editing():
            return
        self._edit.setText(self._label.text())
        self.setCurrentWidget(self._edit)
        self._edit.selectAll()
        self._edit.setFocus()

    def mouseDoubleClickEvent(self, _event: QMouseEvent) -> None:
        self.edit()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.setCurrentWidget(self._label)
        elif event.key() == Qt.Key.Key_Return and not self._is_editing():
            self.edit()
        else:
            super().keyPressEvent(event)

    def _is_editing(self) -> bool:
        return self.currentWidget() is self._edit

    @Slot()
    def _finish_editing(self) -> None:
        if not self._is_editing():
            return
        name = self._edit.text().strip()
        self.setCurrentWidget(self._label)
        if name != self._label.text() and not job_name_error(name):
            self.show_name(name)
            self.renamed.emit(name)
