"""The tab "What happened": the first rank that failed, the cause, and the ways out.

It offers at most three actions, the most likely first. If the cause is not known, it shows the last
lines of the logs and guesses nothing.
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
from backend.records.jobs.diagnosis import OF_LOSS, UNKNOWN, EvidenceLine
from backend.records.jobs.settings import name_and_unit
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
from widgets.jobs.detail.header_facts import step_label
from widgets.jobs.failure.failure_causes import cause_curves
from widgets.jobs.failure.failure_events import EventList, failure_events
from widgets.jobs.failure.failure_plots import FailurePlots
from widgets.jobs.failure.remedies import Remedies, cause_of, lost_steps, remedies
from widgets.jobs.log.log_ansi import strip_codes
from widgets.nodes.history.node_history import NodeHistory
from widgets.plots.annotations import AxisSpan
from widgets.plots.run_curves import RunCurves

_LINES_SHOWN = 20
_PROOF_LINES = 6
_TRACE_LEAST, _TRACE_MOST = 6, 24
_TWO_COLUMNS_FROM_W = 700


class FailureTab(QWidget):
    """The first tab of a failed job.

    Signals:
        choice_requested: Ask where to resume, without this node ("" for none).
        log_requested: The log to show (a rank or "mpirun"), and the line from 1, 0 for none.
        install_requested: Install the package of this module on the nodes of the job.

    Attributes:
        plots: The last steps before the failure.
    """

    placement_requested = Signal(str)
    install_requested = Signal(str)
    log_requested = Signal(str, int)

    def __init__(self, actions: JobActions, run: RunCurves | None = None) -> None:
        """Create the tab; ``run``: the curves of the open job, which another tab fills."""
        super().__init__()
        self._actions = actions
        self._run = run if run is not None else RunCurves()
        self._view: JobView | None = None
        self._checkpoints: tuple[Checkpoint, ...] | None = None
        self._states: Mapping[str, NodeState] = {}
        self._histories: Mapping[str, NodeHistory] = {}
        self._problems: tuple[AxisSpan, ...] = ()
        self._drawn: tuple[object, ...] = ()
        self._remedies = Remedies()
        self._installed: tuple[str, str] = ("", "")
        self.plots = FailurePlots()
        self.events = EventList()
        self._place = (MPIRUN_LOG, 0)
        self._first_checkpoint = ""
        self._sentence = Label("", "title", "bad", wrap=True, selectable=True)
        self._why = Label("", "body", "text2", wrap=True, selectable=True)
        self._remedy = Label("", "body", wrap=True, selectable=True)
        self._facts = KeyValueRow()
        self._again = Button("Resume", kind="primary", icon="play")
        self._again.clicked.connect(self._run_again)
        self._changed = Button("", icon="play")
        self._changed.clicked.connect(self._run_changed)
        self._without = Button("", icon="play")
        self._without.clicked.connect(self._resume_without)
        self._choose = Button("")
        self._choose.clicked.connect(
            lambda: self.placement_requested.emit(self._remedies.offline_node)
        )
        self._install = Button("", icon="download-simple")
        self._install.clicked.connect(lambda: self.install_requested.emit(self._remedies.module))
        self._from = Label("", "small", "text2", wrap=True)
        self._clone = Button("", icon="copy")
        self._clone.clicked.connect(self._clone_with)
        self._log = Button("Show the log", icon="article")
        self._log.clicked.connect(lambda: self.log_requested.emit(*self._place))
        self._special = row(
            *(self._install, self._changed, self._without, self._choose, STRETCH), gap=S2
        )
        self._usual = row(self._again, self._clone, self._log, STRETCH, gap=S2)
        self._acts = row(self._special, (self._usual, 1), gap=S2)
        self._first = self._again
        self._proof_title = Label("", "strong")
        self._proof = TextBox(mono=True, read_only=True, name="Lines of the log")
        self._proof_card = Card(self._proof_title, self._proof, gap=S2)
        self._trace = TextBox(mono=True, read_only=True, name="Traceback")
        # A cut line looks whole: the scroll bar for it is below the visible part.
        self._trace.setLineWrapMode(QPlainTextEdit.LineWrapMode.WidgetWidth)
        # At least its lines, and what the cards next to it leave; its size hint is for any text.
        self._trace.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Ignored)
        copy = Button("Copy", kind="quiet", icon="copy", tip="Copy the traceback")
        copy.clicked.connect(self._copy)
        self._trace_card = Card(
            row(Label("Traceback of the first rank that failed", "strong"), STRETCH, copy),
            (self._trace, 1),
            gap=S2,
        )
        icon = IconLabel("x-circle-fill", "bad", ICON_LARGE)
        words = col(self._sentence, self._why, self._remedy, S2, self._facts, S2, gap=S2)
        what = col(words, self._acts, self._from, gap=S2)
        result = StyledFrame(
            "verdict", row(col(icon, STRETCH), (what, 1), gap=S3, margins=(S4, S4, S4, S4))
        )
        result.setProperty("tint", "bad")
        self._left = col(self.events, STRETCH, gap=S3)
        self._right = col((self._trace_card, 100), STRETCH, gap=S3)
        self._right.insertWidget(0, self._proof_card)
        self._events_side = QWidget()
        self._events_side.setLayout(self._right)
        self._below = row((self._left, 1), (self._events_side, 1), gap=S3)
        content = QWidget()
        # Height for width counts: by their size hints wrapped sentences seem higher than they are,
        # and the page would scroll without need.
        content.setMinimumHeight(1)
        content.setLayout(
            col(
                result,
                (self.plots, 100),
                self._below,
                STRETCH,
                gap=S3,
                margins=(0, 0, 0, S4),
            )
        )
        self.setLayout(col((VerticalScrollArea(content, gutter=PAGE_MARGIN), 1), gap=0))

    def show_view(self, view: JobView) -> None:
        error = view.error
        cause = error.message if error is not None else ""
        # The message of the run usually has rank and node before the cause.
        message = view.status.message
        sentence, why = (message, "") if cause in message else (cause, message)
        self._sentence.setText(sentence)
        self._why.setText("" if why in sentence else why)
        self._why.setVisible(bool(self._why.text()))
        # Against such a loss the buttons name the changes.
        remedy = error.remedy if error is not None and cause_of(view) not in OF_LOSS else ""
        self._remedy.setText(remedy)
        self._remedy.setVisible(bool(remedy))
        self._view = view
        self._show_facts()
        rank = error.rank if error is not None else None
        evidence = error.evidence if error is not None else ()
        named = error.cause if error is not None else ""
        self._show_proof(evidence, named == UNKNOWN, rank)
        self._show_acts()
        self._show_from()
        trace = error.traceback if error is not None else ""
        if trace != self._trace.toPlainText():
            self._trace.setPlainText(trace)
            lines = min(max(trace.count("\n") + 1, _TRACE_LEAST), _TRACE_MOST)
            self._trace.setMinimumHeight(_text_height(self._trace, lines))
        # If the cause is not known, the last lines are shown once, with their numbers.
        has_trace = bool(trace) and (named != UNKNOWN or "Traceback" in trace)
        self._trace_card.setVisible(has_trace)
        self._put_proof(beside=has_trace)
        self._settle()

    def _show_facts(self) -> None:
        view = self._view
        if view is None:
            return
        error = view.error
        now = datetime.now().astimezone()
        facts = [KeyValue("Run", str(view.run))]
        if error is not None and error.rank is not None:
            facts.append(KeyValue("Rank", str(error.rank)))
        if error is not None and error.node:
            there = "this computer" if error.node == "this-computer" else error.node
            facts.append(KeyValue("Where", there))
        facts.append(KeyValue("At step", step_label(view)))
        if words := lost_steps(view, self._checkpoints):
            facts.append(KeyValue("Lost", words))
        facts.append(KeyValue("When", formats.time_with_day(instant(view.status.ended_at), now)))
        self._facts.set_items(facts)

    def show_installed(self, job_id: str, module: str) -> None:
        """Offer to resume: the package of this module is installed now."""
        self._installed = (job_id, module)
        self._show_acts()

    def clear(self) -> None:
        """Forget the job that was shown."""
        self._view, self._drawn, self._problems = None, (), ()
        self.show_checkpoints(None)

    @Slot()
    def show_points(self) -> None:
        """Draw new points."""
        self._settle()

    def show_nodes(
        self,
        states: Mapping[str, NodeState],
        histories: Mapping[str, NodeHistory],
        problems: Sequence[AxisSpan],
    ) -> None:
        """Set the recent history of the nodes, and when GPUs of the job had problems."""
        self._states, self._histories, self._problems = states, histories, tuple(problems)
        self._show_acts()
        self._settle()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._settle()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        narrow = self.width() < _TWO_COLUMNS_FROM_W
        self.plots.set_narrow(narrow)
        way = QBoxLayout.Direction.TopToBottom if narrow else QBoxLayout.Direction.LeftToRight
        self._below.setDirection(way)
        self._fit_acts()

    def _fit_acts(self) -> None:
        """Place the special actions above the usual ones if one row has no room for all."""
        special = (self._install, self._changed, self._without, self._choose)
        shown = [
            part for part in (*special, self._clone, self._again, self._log) if not part.isHidden()
        ]
        needed = sum(part.sizeHint().width() + S2 for part in shown)
        room = self.width() - PAGE_MARGIN - 2 * S4 - ICON_LARGE - S3
        way = QBoxLayout.Direction
        self._acts.setDirection(way.LeftToRight if needed <= room else way.TopToBottom)

    def _settle(self) -> None:
        """Draw what is known if the tab is visible and something changed."""
        view = self._view
        if view is None or not self.isVisible():
            return
        points = {
            name: data.revision for name in self._run.names() if (data := self._run.get(name))
        }
        # What a node does now does not matter to a run that has ended.
        reaches = {
            name: (one.extension_count, one.count > 0) for name, one in self._histories.items()
        }
        known = (view, self._checkpoints, points, reaches, self._problems)
        if known == self._drawn:
            return
        self._drawn = known
        self.plots.show_cause(cause_curves(view, self._run, self._states, self._histories))
        self.plots.show_loss(view, self._run, self._checkpoints or ())
        self.events.show_events(
            failure_events(view, self._checkpoints or (), self._run, self._problems)
        )

    def show_checkpoints(self, checkpoints: tuple[Checkpoint, ...] | None) -> None:
        """Set the checkpoints to resume from; None if not known yet."""
        self._checkpoints = checkpoints
        self._again.setText("Start over" if self._starts_over else "Resume")
        self._again.set_icon("arrow-clockwise" if self._starts_over else "play")
        self._show_from()
        self._show_facts()
        self._show_acts()
        self._settle()

    def _show_from(self) -> None:
        """Show where the highlighted action begins."""
        known, kept = self._checkpoints is not None, self._checkpoints or ()
        error = self._view.error if self._view is not None else None
        found = checkpoint_to_resume(kept, error.sound_step if error is not None else None)
        self._first_checkpoint = found.name if found else ""
        is_newest = found is None or found.step == max(one.step for one in kept)
        words = _where_it_goes_on(found, is_known=known, is_newest=is_newest)
        if self._view is not None and not self._view.resumes:
            words = f"{NO_RESUME_REASON}."
        self._from.setText(words)

    def _show_proof(
        self, evidence: tuple[EvidenceLine, ...], is_unknown: bool, rank: int | None
    ) -> None:
        lines = [line for line in evidence[-_LINES_SHOWN:] if line.text.strip()]
        quoted = [line for line in lines if line.file]
        source = _source(quoted[0].file) if quoted else MPIRUN_LOG if rank is None else str(rank)
        at = quoted[-1].line if quoted else 0
        self._place = (source, at)
        whose = "mpirun" if source == MPIRUN_LOG else f"rank {source}"
        self._log.setText(f"Log of {whose}")
        self._log.set_tip(f"At line {formats.count(at)}" if at else "")
        self._proof_title.setText(
            f"Last lines of the log of {whose}" if is_unknown else f"From the log of {whose}"
        )
        wide = max((len(formats.count(line.line)) for line in lines), default=0)
        text = "\n".join(
            f"{formats.count(line.line) if line.line else '':>{wide}}  {strip_codes(line.text)}"
            for line in lines
        )
        if text != self._proof.toPlainText():
            self._proof.setPlainText(text)
        rows = min(max(1, len(lines)), _LINES_SHOWN if is_unknown else _PROOF_LINES)
        self._proof.setFixedHeight(_text_height(self._proof, rows))
        self._proof_card.setVisible(bool(quoted))

    def _put_proof(self, *, beside: bool) -> None:
        """Place the lines below the events; without a traceback, in the place of it.

        Without both, the events have the whole width.
        """
        wanted, other = (self._left, self._right) if beside else (self._right, self._left)
        self._events_side.setVisible(beside or not self._proof_card.isHidden())
        if other.indexOf(self._proof_card) >= 0:
            other.removeWidget(self._proof_card)
            wanted.insertWidget(1 if beside else 0, self._proof_card)

    def _show_acts(self) -> None:
        """Show the actions, the most likely first and highlighted."""
        if self._view is None:
            return
        found = self._remedies = remedies(
            self._view, () if self._starts_over else self._checkpoints, self._states
        )
        if self._installed == (self._view.id, found.module):
            found = self._remedies = replace(found, module="", is_same_last=False)
        verb = "Clone" if self._starts_over else "Resume"
        self._changed.setText(f"{verb} with {_in_words(found.changed_settings)}")
        self._changed.set_icon("copy" if self._starts_over else "play")
        self._changed.setVisible(bool(found.changed_settings))
        self._clone.setText(
            "Clone with gradient clipping" if found.clone_settings else "Clone and change"
        )
        self._without.setText(f"Resume without {found.excluded_gpu}")
        self._without.setVisible(bool(found.excluded_gpu))
        self._choose.setText("Choose GPUs…" if self._view.uses_gpus else "Choose nodes…")
        self._choose.setVisible(found.offers_choice)
        # The menu of the job still has Resume; here it would only fail again.
        self._again.setVisible(
            self._starts_over or not ("batch_size" in found.changed_settings or found.excluded_gpu)
        )
        usual = (self._clone, self._again) if found.repeats_failure else (self._again, self._clone)
        if self._usual.indexOf(usual[0]) != 0:
            self._usual.removeWidget(usual[0])
            self._usual.insertWidget(0, usual[0])
            QWidget.setTabOrder(*usual)
        self._install.setText(f"Install {package_of(found.module)}…")
        self._install.setVisible(bool(found.module))
        acts = (self._install, self._changed, self._without, self._choose, *usual)
        self._first = next(act for act in acts if not act.isHidden())
        for act in acts:
            act.set_kind("primary" if act is self._first else "plain")
        self._fit_acts()

    @property
    def first_button(self) -> Button:
        """Return the highlighted action."""
        return self._first

    @property
    def _starts_over(self) -> bool:
        """Return whether there is nothing to resume from, or no way to."""
        return self._checkpoints == () or (self._view is not None and not self._view.resumes)

    def _id(self) -> str:
        return self._view.id if self._view is not None else ""

    @Slot()
    def _run_again(self) -> None:
        if self._starts_over:
            self._actions.ask(job_actions.START_OVER, self._id())
        else:
            self._actions.ask(job_actions.RESUME_FROM, self._id(), self._first_checkpoint)

    @Slot()
    def _run_changed(self) -> None:
        request = job_actions.CLONE_WITH if self._starts_over else job_actions.RESUME_WITH
        self._actions.ask(request, self._id(), self._remedies.changed_settings)

    @Slot()
    def _clone_with(self) -> None:
        self._actions.ask(job_actions.CLONE_WITH, self._id(), self._remedies.clone_settings)

    @Slot()
    def _resume_without(self) -> None:
        placement = list(self._remedies.placement)
        self._actions.ask(job_actions.RESUME_ON_NODES, self._id(), placement)

    @Slot()
    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self._trace.toPlainText())


def _in_words(settings: Mapping[str, Any]) -> str:
    """Return the settings of a resume: ``batch size 16``."""
    return ", ".join(
        f"{name_and_unit(path)[0].lower()} "
        f"{' '.join(value) if isinstance(value, list) else formats.typed_number(value)}"
        for path, value in settings.items()
    )


def _where_it_goes_on(found: Checkpoint | None, *, is_known: bool, is_newest: bool) -> str:
    if found is not None:
        which = "" if is_newest else "the last good checkpoint: "
        place = position_text(found.epoch, found.step, formats.count)
        return f"Resume continues from {which}{place}."
    if not is_known:
        return "Resume continues from the newest checkpoint."
    return "There is no checkpoint. “Start over” begins at step 1 and keeps this run's logs."


def _text_height(box: TextBox, lines: int) -> int:
    """Return the height of so many lines, with room for the horizontal scroll bar."""
    return lines * box.fontMetrics().lineSpacing() + 44


def _source(file: str) -> str:
    """Return the source of a log file: "3" for "rank-3.log", otherwise mpirun."""
    name = file.partition(".")[0]
    return name.removeprefix("rank-") if name.startswith("rank-") else MPIRUN_LOG
