"""The tab "What happened": the first rank that failed, the cause, and the ways out.

The tab offers at most three actions, the most likely first. If the cause is unknown, the tab shows
the last lines of the logs and guesses nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from PySide6.QtCore import Signal, Slot
from PySide6.QtGui import QGuiApplication, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QBoxLayout, QPlainTextEdit, QSizePolicy, QWidget

from backend.records.base.layout import position_text
from backend.records.base.timestamps import instant
from backend.records.jobs.checkpoint import Checkpoint, checkpoint_to_resume
from backend.records.jobs.placement import node_label
from backend.records.jobs.settings import name_and_unit
from backend.records.jobs.status import OF_LOSS, UNKNOWN, EvidenceLine
from backend.records.jobs.view import MPIRUN_LOG, NO_RESUME_REASON, JobView
from backend.records.library.packages import package_of
from backend.records.nodes.reading import NodeState
from widgets.common import formats
from widgets.common.buttons import Button
from widgets.common.cards import Card, StyledFrame, VerticalScrollArea
from widgets.common.fields import TextBox
from widgets.common.key_value_row import KeyValue, KeyValueRow
from widgets.common.labels import IconLabel, Label
from widgets.common.layout import STRETCH, col, row
from widgets.common.theme import ICON_LARGE, PAGE_MARGIN, S2, S3, S4
from widgets.jobs.actions import job_actions
from widgets.jobs.actions.job_actions import JobActions
from widgets.jobs.detail.header_texts import step_label
from widgets.jobs.failure.failure_causes import cause_curves
from widgets.jobs.failure.failure_events import EventList, failure_events
from widgets.jobs.failure.failure_plots import FailurePlots
from widgets.jobs.failure.remedies import Remedies, cause_of, lost_steps, remedies
from widgets.jobs.log.log_ansi import strip_codes
from widgets.nodes.history.node_history import NodeHistory
from widgets.plots.annotations import AxisSpan
from widgets.plots.run_curves import RunCurves

_MAX_LINES = 20
_EVIDENCE_LINES = 6
_TRACE_MIN_LINES, _TRACE_MAX_LINES = 6, 24
_TWO_COLUMNS_FROM_W = 700


class FailureTab(QWidget):
    """The first tab of a failed job.

    Signals:
        placement_requested: Ask where to resume, without this node ("" for none).
        log_requested: The log to show (a rank or "mpirun"), and the line from 1, 0 for none.
        install_requested: Install the package of this module on the nodes of the job.

    Attributes:
        plots: The last steps before the failure.
    """

    placement_requested = Signal(str)
    install_requested = Signal(str)
    log_requested = Signal(str, int)

    def __init__(self, actions: JobActions, run: RunCurves | None = None) -> None:
        """Create the tab; ``run`` has the curves of the open job, filled by another tab."""
        super().__init__()
        self._actions = actions
        self._run = run if run is not None else RunCurves()
        self._view: JobView | None = None
        self._checkpoints: tuple[Checkpoint, ...] | None = None
        self._states: Mapping[str, NodeState] = {}
        self._histories: Mapping[str, NodeHistory] = {}
        self._problems: tuple[AxisSpan, ...] = ()
        self._drawn_state: tuple[object, ...] = ()
        self._remedies = Remedies()
        self._installed_module: tuple[str, str] = ("", "")
        self.plots = FailurePlots()
        self.events = EventList()
        self._log_position = (MPIRUN_LOG, 0)
        self._resume_checkpoint = ""
        self._headline_label = Label("", "title", "bad", wrap=True, selectable=True)
        self._reason_label = Label("", "body", "text2", wrap=True, selectable=True)
        self._remedy_label = Label("", "body", wrap=True, selectable=True)
        self._figures = KeyValueRow()
        self._resume_note = Label("", "small", "text2", wrap=True)
        self._make_buttons()
        self._make_boxes()
        self._lay_out()

    def _make_buttons(self) -> None:
        self._rerun_button = Button("Resume", kind="primary", icon="play")
        self._rerun_button.clicked.connect(self._request_rerun)
        self._change_button = Button("", icon="play")
        self._change_button.clicked.connect(self._request_changed_run)
        self._exclude_button = Button("", icon="play")
        self._exclude_button.clicked.connect(self._request_exclusion)
        self._choose_button = Button("")
        self._choose_button.clicked.connect(
            lambda: self.placement_requested.emit(self._remedies.offline_node)
        )
        self._install_button = Button("", icon="download-simple")
        self._install_button.clicked.connect(
            lambda: self.install_requested.emit(self._remedies.module)
        )
        self._clone_button = Button("", icon="copy")
        self._clone_button.clicked.connect(
            lambda: self._actions.ask(
                job_actions.CLONE_WITH, self._job_id(), self._remedies.clone_settings
            )
        )
        self._log_button = Button("Show the log", icon="article")
        self._log_button.clicked.connect(lambda: self.log_requested.emit(*self._log_position))
        self._special_buttons = row(
            *(self._install_button, self._change_button, self._exclude_button),
            *(self._choose_button, STRETCH),
            gap=S2,
        )
        self._usual_buttons = row(
            self._rerun_button, self._clone_button, self._log_button, STRETCH, gap=S2
        )
        self._buttons = row(self._special_buttons, (self._usual_buttons, 1), gap=S2)
        self.first_button = self._rerun_button

    def _make_boxes(self) -> None:
        """Make the boxes of the log's lines and of the traceback."""
        self._evidence_title = Label("", "strong")
        self._evidence_box = TextBox(mono=True, read_only=True, name="Lines of the log")
        self._evidence_card = Card(self._evidence_title, self._evidence_box, gap=S2)
        self._traceback_box = TextBox(mono=True, read_only=True, name="Traceback")
        # A cut line looks whole: the scroll bar for it is below the visible part.
        self._traceback_box.setLineWrapMode(QPlainTextEdit.LineWrapMode.WidgetWidth)
        # At least the height of its lines, at most that of the cards; the size hint fits any text.
        self._traceback_box.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Ignored)
        copy_button = Button("Copy", kind="quiet", icon="copy", tip="Copy the traceback")
        copy_button.clicked.connect(
            lambda: QGuiApplication.clipboard().setText(self._traceback_box.toPlainText())
        )
        self._traceback_card = Card(
            row(Label("Traceback of the first rank that failed", "strong"), STRETCH, copy_button),
            (self._traceback_box, 1),
            gap=S2,
        )

    def _lay_out(self) -> None:
        icon = IconLabel("x-circle-fill", "bad", ICON_LARGE)
        labels = self._headline_label, self._reason_label, self._remedy_label
        text_column = col(*labels, S2, self._figures, S2, gap=S2)
        result_column = col(text_column, self._buttons, self._resume_note, gap=S2)
        result = StyledFrame(
            "verdict", row(col(icon, STRETCH), (result_column, 1), gap=S3, margins=(S4, S4, S4, S4))
        )
        result.setProperty("tint", "bad")
        self._left_column = col(self.events, STRETCH, gap=S3)
        self._right_column = col((self._traceback_card, 100), STRETCH, gap=S3)
        self._right_column.insertWidget(0, self._evidence_card)
        self._right_side = QWidget()
        self._right_side.setLayout(self._right_column)
        self._columns = row((self._left_column, 1), (self._right_side, 1), gap=S3)
        content = QWidget()
        # Height for width counts: by their size hints wrapped sentences seem higher than they are,
        # and the page would scroll without need.
        content.setMinimumHeight(1)
        parts = result, (self.plots, 100), self._columns, STRETCH
        content.setLayout(col(*parts, gap=S3, margins=(0, 0, 0, S4)))
        self.setLayout(col((VerticalScrollArea(content, gutter=PAGE_MARGIN), 1), gap=0))

    def show_view(self, view: JobView) -> None:
        error = view.error
        cause = error.message if error is not None else ""
        # The message of the run usually has rank and node before the cause.
        message = view.status.message
        headline, reason = (message, "") if cause in message else (cause, message)
        self._headline_label.setText(headline)
        self._reason_label.setText("" if reason in headline else reason)
        self._reason_label.setVisible(bool(self._reason_label.text()))
        # Against such a loss the buttons name the changes.
        remedy = error.remedy if error is not None and cause_of(view) not in OF_LOSS else ""
        self._remedy_label.setText(remedy)
        self._remedy_label.setVisible(bool(remedy))
        self._view = view
        self._show_figures()
        rank = error.rank if error is not None else None
        evidence = error.evidence if error is not None else ()
        error_cause = error.cause if error is not None else ""
        self._show_evidence(evidence, error_cause == UNKNOWN, rank)
        self._show_buttons()
        self._show_resume_note()
        traceback = error.traceback if error is not None else ""
        if traceback != self._traceback_box.toPlainText():
            self._traceback_box.setPlainText(traceback)
            lines = min(max(traceback.count("\n") + 1, _TRACE_MIN_LINES), _TRACE_MAX_LINES)
            self._traceback_box.setMinimumHeight(_text_height(self._traceback_box, lines))
        # If the cause is not known, the last lines are shown once, with their numbers.
        has_traceback = bool(traceback) and (error_cause != UNKNOWN or "Traceback" in traceback)
        self._traceback_card.setVisible(has_traceback)
        self._place_evidence(is_below_events=has_traceback)
        self._draw_if_visible()

    def _show_figures(self) -> None:
        view = self._view
        if view is None:
            return
        error = view.error
        now = datetime.now().astimezone()
        figures = [KeyValue("Run", str(view.run))]
        if error is not None and error.rank is not None:
            figures.append(KeyValue("Rank", str(error.rank)))
        if error is not None and error.node:
            figures.append(KeyValue("Where", node_label(error.node)))
        figures.append(KeyValue("At step", step_label(view)))
        if steps_label := lost_steps(view, self._checkpoints):
            figures.append(KeyValue("Lost", steps_label))
        figures.append(KeyValue("When", formats.time_with_day(instant(view.status.ended_at), now)))
        self._figures.set_items(figures)

    def show_installed(self, job_id: str, module: str) -> None:
        """Offer to resume: the package of this module is installed now."""
        self._installed_module = (job_id, module)
        self._show_buttons()

    def clear(self) -> None:
        """Forget the job that was shown."""
        self._view, self._drawn_state, self._problems = None, (), ()
        self.show_checkpoints(None)

    @Slot()
    def show_points(self) -> None:
        """Draw new points."""
        self._draw_if_visible()

    def show_nodes(
        self,
        states: Mapping[str, NodeState],
        histories: Mapping[str, NodeHistory],
        problems: Sequence[AxisSpan],
    ) -> None:
        """Set the recent history of the nodes, and the problems of the job's GPUs."""
        self._states, self._histories, self._problems = states, histories, tuple(problems)
        self._show_buttons()
        self._draw_if_visible()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._draw_if_visible()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        is_narrow = self.width() < _TWO_COLUMNS_FROM_W
        self.plots.set_narrow(is_narrow)
        direction = (
            QBoxLayout.Direction.TopToBottom if is_narrow else QBoxLayout.Direction.LeftToRight
        )
        self._columns.setDirection(direction)
        self._fit_buttons()

    def _fit_buttons(self) -> None:
        """Place the special buttons above the usual buttons if one row is too short."""
        special_buttons = (
            self._install_button,
            self._change_button,
            self._exclude_button,
            self._choose_button,
        )
        visible_buttons = [
            button
            for button in (
                *special_buttons,
                self._clone_button,
                self._rerun_button,
                self._log_button,
            )
            if not button.isHidden()
        ]
        buttons_width = sum(button.sizeHint().width() + S2 for button in visible_buttons)
        available_width = self.width() - PAGE_MARGIN - 2 * S4 - ICON_LARGE - S3
        direction = QBoxLayout.Direction
        self._buttons.setDirection(
            direction.LeftToRight if buttons_width <= available_width else direction.TopToBottom
        )

    def _draw_if_visible(self) -> None:
        """Draw the plots and events if the tab is visible and their data changed."""
        view = self._view
        if view is None or not self.isVisible():
            return
        revisions = {
            name: data.revision for name in self._run.names() if (data := self._run.get(name))
        }
        # What a node does now does not matter to a run that has ended.
        history_lengths = {
            name: (history.extension_count, history.count > 0)
            for name, history in self._histories.items()
        }
        drawn_state = (view, self._checkpoints, revisions, history_lengths, self._problems)
        if drawn_state == self._drawn_state:
            return
        self._drawn_state = drawn_state
        self.plots.show_cause(cause_curves(view, self._run, self._states, self._histories))
        self.plots.show_loss(view, self._run, self._checkpoints or ())
        self.events.show_events(
            failure_events(view, self._checkpoints or (), self._run, self._problems)
        )

    def show_checkpoints(self, checkpoints: tuple[Checkpoint, ...] | None) -> None:
        """Set the checkpoints to resume from; None while unknown."""
        self._checkpoints = checkpoints
        self._rerun_button.setText("Start over" if self._starts_over else "Resume")
        self._rerun_button.set_icon("arrow-clockwise" if self._starts_over else "play")
        self._show_resume_note()
        self._show_figures()
        self._show_buttons()
        self._draw_if_visible()

    def _show_resume_note(self) -> None:
        """Show the starting point of the highlighted action."""
        is_known, checkpoints = self._checkpoints is not None, self._checkpoints or ()
        error = self._view.error if self._view is not None else None
        sound_step = error.sound_step if error is not None else None
        checkpoint = checkpoint_to_resume(checkpoints, sound_step)
        self._resume_checkpoint = checkpoint.name if checkpoint else ""
        is_newest = checkpoint is None or checkpoint.step == max(c.step for c in checkpoints)
        note = _resume_note(checkpoint, is_known=is_known, is_newest=is_newest)
        if self._view is not None and not self._view.resumes:
            note = f"{NO_RESUME_REASON}."
        self._resume_note.setText(note)

    def _show_evidence(
        self, evidence: tuple[EvidenceLine, ...], is_unknown: bool, rank: int | None
    ) -> None:
        lines = [line for line in evidence[-_MAX_LINES:] if line.text.strip()]
        quoted_lines = [line for line in lines if line.file]
        source = (
            _log_source(quoted_lines[0].file)
            if quoted_lines
            else MPIRUN_LOG
            if rank is None
            else str(rank)
        )
        line_number = quoted_lines[-1].line if quoted_lines else 0
        self._log_position = (source, line_number)
        log_name = "mpirun" if source == MPIRUN_LOG else f"rank {source}"
        self._log_button.setText(f"Log of {log_name}")
        self._log_button.set_tip(f"At line {formats.count(line_number)}" if line_number else "")
        self._evidence_title.setText(
            f"Last lines of the log of {log_name}" if is_unknown else f"From the log of {log_name}"
        )
        number_width = max((len(formats.count(line.line)) for line in lines), default=0)
        numbers = [formats.count(line.line) if line.line else "" for line in lines]
        text = "\n".join(
            f"{number:>{number_width}}  {strip_codes(line.text)}"
            for number, line in zip(numbers, lines, strict=True)
        )
        if text != self._evidence_box.toPlainText():
            self._evidence_box.setPlainText(text)
        rows = min(max(1, len(lines)), _MAX_LINES if is_unknown else _EVIDENCE_LINES)
        self._evidence_box.setFixedHeight(_text_height(self._evidence_box, rows))
        self._evidence_card.setVisible(bool(quoted_lines))

    def _place_evidence(self, *, is_below_events: bool) -> None:
        """Place the lines of the log below the events, or in the column of the traceback.

        Without lines and traceback, the events have the whole width.
        """
        new_column, old_column = (
            (self._left_column, self._right_column)
            if is_below_events
            else (self._right_column, self._left_column)
        )
        self._right_side.setVisible(is_below_events or not self._evidence_card.isHidden())
        if old_column.indexOf(self._evidence_card) >= 0:
            old_column.removeWidget(self._evidence_card)
            new_column.insertWidget(1 if is_below_events else 0, self._evidence_card)

    def _show_buttons(self) -> None:
        """Show the actions, the most likely first and highlighted."""
        if self._view is None:
            return
        offers = self._remedies = remedies(
            self._view, () if self._starts_over else self._checkpoints, self._states
        )
        if self._installed_module == (self._view.id, offers.module):
            offers = self._remedies = replace(offers, module="", repeats_failure=False)
        verb = "Clone" if self._starts_over else "Resume"
        self._change_button.setText(f"{verb} with {_settings_label(offers.changed_settings)}")
        self._change_button.set_icon("copy" if self._starts_over else "play")
        self._change_button.setVisible(bool(offers.changed_settings))
        self._clone_button.setText(
            "Clone with gradient clipping" if offers.clone_settings else "Clone and change"
        )
        self._exclude_button.setText(f"Resume without {offers.excluded_gpu}")
        self._exclude_button.setVisible(bool(offers.excluded_gpu))
        self._choose_button.setText("Choose GPUs…" if self._view.uses_gpus else "Choose nodes…")
        self._choose_button.setVisible(offers.offers_choice)
        # The menu of the job still has Resume; here it would only fail again.
        self._rerun_button.setVisible(
            self._starts_over
            or not ("batch_size" in offers.changed_settings or offers.excluded_gpu)
        )
        usual_buttons = (
            (self._clone_button, self._rerun_button)
            if offers.repeats_failure
            else (self._rerun_button, self._clone_button)
        )
        if self._usual_buttons.indexOf(usual_buttons[0]) != 0:
            self._usual_buttons.removeWidget(usual_buttons[0])
            self._usual_buttons.insertWidget(0, usual_buttons[0])
            QWidget.setTabOrder(*usual_buttons)
        self._install_button.setText(f"Install {package_of(offers.module)}…")
        self._install_button.setVisible(bool(offers.module))
        buttons = (
            self._install_button,
            self._change_button,
            self._exclude_button,
            self._choose_button,
            *usual_buttons,
        )
        self.first_button = next(button for button in buttons if not button.isHidden())
        for button in buttons:
            button.set_kind("primary" if button is self.first_button else "plain")
        self._fit_buttons()

    @property
    def _starts_over(self) -> bool:
        """Return whether the job cannot resume: without a checkpoint, or without support."""
        return self._checkpoints == () or (self._view is not None and not self._view.resumes)

    def _job_id(self) -> str:
        return self._view.id if self._view is not None else ""

    @Slot()
    def _request_rerun(self) -> None:
        if self._starts_over:
            self._actions.ask(job_actions.START_OVER, self._job_id())
        else:
            self._actions.ask(job_actions.RESUME_FROM, self._job_id(), self._resume_checkpoint)

    @Slot()
    def _request_changed_run(self) -> None:
        request = job_actions.CLONE_WITH if self._starts_over else job_actions.RESUME_WITH
        self._actions.ask(request, self._job_id(), self._remedies.changed_settings)

    @Slot()
    def _request_exclusion(self) -> None:
        placement = list(self._remedies.placement)
        self._actions.ask(job_actions.RESUME_ON_NODES, self._job_id(), placement)


def _settings_label(settings: Mapping[str, Any]) -> str:
    """Return the settings of a resume: ``batch size 16``."""
    return ", ".join(
        f"{name_and_unit(path)[0].lower()} "
        f"{' '.join(value) if isinstance(value, list) else formats.typed_number(value)}"
        for path, value in settings.items()
    )


def _resume_note(checkpoint: Checkpoint | None, *, is_known: bool, is_newest: bool) -> str:
    if checkpoint is not None:
        checkpoint_prefix = "" if is_newest else "the last good checkpoint: "
        position = position_text(checkpoint.epoch, checkpoint.step, formats.count)
        return f"Resume continues from {checkpoint_prefix}{position}."
    if not is_known:
        return "Resume continues from the newest checkpoint."
    return "There is no checkpoint. “Start over” begins at step 1 and keeps this run's logs."


def _text_height(box: TextBox, lines: int) -> int:
    """Return the height of this number of lines, with space for the horizontal scroll bar."""
    return lines * box.fontMetrics().lineSpacing() + 44


def _log_source(file: str) -> str:
    """Return the source of a log file: "3" for "rank-3.log", otherwise mpirun."""
    name = file.partition(".")[0]
    return name.removeprefix("rank-") if name.startswith("rank-") else MPIRUN_LOG
