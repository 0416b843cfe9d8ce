"""What happened: which rank, where, why, and what to do; the traceback of the first that failed."""

from __future__ import annotations

from datetime import datetime

from PySide6.QtCore import Signal, Slot
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QWidget

from backend.records.checkpoint import Checkpoint
from backend.records.job_view import JobView
from widgets.common import formats
from widgets.common.buttons import Button
from widgets.common.cards import Card, Fact, Facts, Scroll
from widgets.common.fields import TextBox
from widgets.common.layout import STRETCH, col, row
from widgets.common.text import IconLabel, Label
from widgets.common.theme import ICON_LARGE, S2, S3, S4


class FailureTab(QWidget):
    """The first tab of a job that failed.

    Signals:
        resume_requested: Name of the checkpoint to go on from.
        clone_requested: The settings in the form, to change one.
        log_requested: The rank whose log tells more (None: mpirun).
    """

    resume_requested = Signal(str)
    clone_requested = Signal()
    log_requested = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._rank: int | None = None
        self._newest = ""
        self._sentence = Label("", "heading", wrap=True, selectable=True)
        self._why = Label("", "body", "text2", wrap=True, selectable=True)
        self._facts = Facts()
        self._resume = Button("Resume", kind="primary", icon="play")
        self._resume.clicked.connect(self._wish_resume)
        self._from = Label("", "small", "text2", wrap=True)
        clone = Button("Clone with a change", icon="copy")
        clone.clicked.connect(self.clone_requested)
        self._log = Button("Show the log", icon="article")
        self._log.clicked.connect(self._wish_log)
        self._trace = TextBox(mono=True, read_only=True, name="Traceback")
        self._trace.setMinimumHeight(220)
        copy = Button("Copy", kind="quiet", icon="copy", tip="Copy the traceback")
        copy.clicked.connect(self._copy)
        self._trace_card = Card(
            row(Label("Traceback of the first rank that failed", "strong"), STRETCH, copy),
            (self._trace, 1),
            gap=S2,
        )
        icon = IconLabel("x-circle-fill", "bad", ICON_LARGE)
        words = col(self._sentence, self._why, S2, self._facts, S2, gap=S2)
        acts = row(self._resume, clone, self._log, STRETCH, gap=S2)
        content = QWidget()
        content.setLayout(
            col(
                Card(row(col(icon, STRETCH), (words, 1), gap=S3), acts, self._from, gap=S2),
                (self._trace_card, 100),
                STRETCH,
                gap=S3,
                margins=(0, 0, S2, S4),
            )
        )
        self.setLayout(col((Scroll(content), 1), gap=0))

    def show_view(self, view: JobView) -> None:
        error = view.error
        self._rank = error.rank if error is not None else None
        cause = error.sentence if error is not None else ""
        # The message of the run names rank and node before the cause.
        says_all = not cause or cause in view.message
        self._sentence.setText(view.message if says_all and view.message else cause)
        self._why.setText("" if says_all else view.message)
        self._why.setVisible(not says_all and bool(view.message))
        now = datetime.now().astimezone()
        facts = [Fact("Run", str(view.run))]
        if error is not None and error.rank is not None:
            facts.append(Fact("Rank", str(error.rank)))
        if error is not None and error.node:
            there = "this computer" if error.node == "this-computer" else error.node
            facts.append(Fact("Where", there))
        facts.append(Fact("At step", formats.of(view.step, view.total_steps)))
        facts.append(Fact("When", formats.moment_long(formats.instant(view.ended), now)))
        self._facts.set_facts(facts)
        self._log.setText("Show the log" if self._rank is None else f"Log of rank {self._rank}")
        trace = error.traceback if error is not None else ""
        if trace != self._trace.toPlainText():
            self._trace.setPlainText(trace)
        self._trace_card.setVisible(bool(trace))

    def show_checkpoints(self, checkpoints: tuple[Checkpoint, ...]) -> None:
        newest = max(checkpoints, key=lambda c: c.step, default=None)
        self._newest = newest.name if newest else ""
        self._resume.setEnabled(newest is not None)
        if newest is not None:
            self._from.setText(
                f"Resume goes on from epoch {newest.epoch}, step {formats.count(newest.step)}."
            )
        else:
            self._from.setText(
                "No checkpoint was made, so there is nothing to resume from; start over instead."
            )

    @Slot()
    def _wish_resume(self) -> None:
        self.resume_requested.emit(self._newest)

    @Slot()
    def _wish_log(self) -> None:
        self.log_requested.emit(self._rank)

    @Slot()
    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self._trace.toPlainText())
