"""The header of the open job: progress ring, editable name, state, figures and actions."""

from __future__ import annotations

from PySide6.QtCore import QRectF, Qt, Signal, Slot
from PySide6.QtGui import QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QMenu, QStackedWidget, QWidget

from backend.records.base.validation import job_name_error
from backend.records.jobs.state import JobState
from backend.records.jobs.view import JobView
from widgets.common import formats
from widgets.common.actions import MoreButton
from widgets.common.buttons import Button, IconButton
from widgets.common.fields import LineEdit
from widgets.common.key_value_row import KeyValueRow
from widgets.common.labels import Label, plain_tip
from widgets.common.layout import col, keep_size_when_hidden, row
from widgets.common.painting import paint_focus, text_width
from widgets.common.state_badge import RankRing, StateBadge
from widgets.common.theme import R_CONTROL, S1, S2, S3, TARGET_MIN, Role
from widgets.jobs.actions import job_actions
from widgets.jobs.actions.job_actions import (
    QUEUE_ACTIONS,
    JobAction,
    JobActions,
    JobSubject,
    action_for_state,
    fill_job_menu,
    main_action,
    opens_session,
)
from widgets.jobs.detail.header_texts import header_figures, run_details
from widgets.jobs.ranks.rank_strip import rank_marks

_RING = 96


class JobHeader(QWidget):
    """The header of the open job.

    Attributes:
        main_button: The button of the main action for the state.
        menu_button: The button with the menu of the other actions.
        runs_button: The button with the menu of all runs.
    """

    def __init__(self, actions: JobActions) -> None:
        super().__init__()
        self._actions = actions
        self._view: JobView | None = None
        self._subject: JobSubject | None = None
        self._main_action, self._second_action = job_actions.START, job_actions.QUEUE
        self._back_button = IconButton("arrow-left", "All jobs")
        self._back_button.clicked.connect(lambda: actions.ask(job_actions.BACK))
        self._back_button.hide()
        self._ring = RankRing(_RING)
        self._name = JobName()
        self._name.renamed.connect(self._rename)
        self._badge = StateBadge()
        self.runs_button = Button("", kind="quiet", icon="clock-counter-clockwise", tip="All runs")
        self.runs_button.setFixedHeight(TARGET_MIN)
        keep_size_when_hidden(self.runs_button)
        self.runs_button.clicked.connect(self._ask_runs)
        self._figures = KeyValueRow(gap=24)
        self.main_button = Button("Start", icon="play")
        self.main_button.clicked.connect(lambda: self._ask(self._main_action))
        self._second_button = Button("Queue")
        self._second_button.clicked.connect(lambda: self._ask(self._second_action))
        self.menu_button = MoreButton(self._fill_menu)
        text_column = col(
            row((self._name, 1), self._second_button, self.main_button, self.menu_button, gap=S2),
            row((self._badge, 1), self.runs_button, gap=S2),
            S1,
            self._figures,
            gap=2,
        )
        self.setLayout(row(self._back_button, self._ring, (text_column, 1), gap=S3))

    def show_view(self, view: JobView, subject: JobSubject) -> None:
        """Show a job, or an update of the job, and its actions."""
        self._view, self._subject = view, subject
        self._ring.set_progress(view.state, view.progress, rank_marks(view))
        self._name.show_name(view.name)
        self._badge.set_state(view.state, view.progress or 0.0, run_details(view), view.state_label)
        # A job that ran once has no other runs to choose from.
        self.runs_button.setVisible(view.run > 1)
        self.runs_button.setText(f"Run {formats.count(view.run)}")
        self._figures.set_items(header_figures(view))
        self._main_action = main_action(subject)
        self._main_action.show_on(self.main_button, subject)
        if self._main_action.shortcut:
            self.main_button.setToolTip(
                plain_tip(
                    self.main_button.toolTip() or self._main_action.text, self._main_action.shortcut
                )
            )
        self.main_button.set_kind("primary" if self._main_action.is_primary else "plain")
        self._second_action = job_actions.LEAVE_QUEUE if view.state.is_queued else job_actions.QUEUE
        if opens_session(subject):
            self._second_action = action_for_state(subject)
        self._second_action.show_on(self._second_button, subject)
        self._second_button.setVisible(
            opens_session(subject) or view.state.is_queued or view.state is JobState.CREATED
        )
        self._second_button.setEnabled(not subject.busy_label)

    def set_narrow(self, is_narrow: bool) -> None:
        """Show a back button in a narrow window, which shows either the list or the job."""
        self._back_button.setVisible(is_narrow)

    def _ask(self, action: JobAction) -> None:
        if self._view is not None:
            self._actions.ask(action, self._view.id)

    @Slot()
    def _ask_runs(self) -> None:
        if self._view is not None:
            self._actions.ask(job_actions.READ_RUNS, self._view.id)

    def _fill_menu(self, menu: QMenu) -> None:
        if self._subject is not None:
            fill_job_menu(menu, QUEUE_ACTIONS, self._subject, self._ask)

    def edit_name(self) -> None:
        """Replace the name with a field to edit it."""
        self._name.edit()

    @Slot(str)
    def _rename(self, name: str) -> None:
        if self._view is not None:
            self._actions.ask(job_actions.SET_NAME, self._view.id, name)


class JobName(QStackedWidget):
    """The job's name, in smaller text where space is short.

    A double click or the rename key edits the name in place.

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
