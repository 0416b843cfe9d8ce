"""The right side of New job, always visible: whether the job may start, and its figures."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from PySide6.QtCore import QTimer, Slot
from PySide6.QtWidgets import QSizePolicy, QWidget

from backend.base.room import LEAST_FILES, free_files_message
from backend.records.jobs.flat_settings import SettingChange
from backend.records.jobs.view import JobCheck, JobForecast
from backend.records.nodes.reading import Finding
from widgets.common import formats
from widgets.common.buttons import Button
from widgets.common.cards import VerticalScrollArea, Separator, StyledFrame
from widgets.common.key_value_row import KeyValue, KeyValueRow
from widgets.common.labels import IconLabel, Label, native_key
from widgets.common.layout import STRETCH, clear, col, row
from widgets.common.term_tooltips import term_tip
from widgets.common.theme import ICON_LARGE, S1, S2, S3, S4
from widgets.jobs.actions.job_actions import QUEUE
from widgets.jobs.form.lr_preview import TITLE, RatePreview
from widgets.plots.export_menu import PictureButton

SIDE_W = 384
START_KEY = "Ctrl+Return"
_CHANGES_SHOWN, _COLUMNS = 6, 3
_MINUTE_MS = 60_000
_NOT_TIMED = "No estimate yet: no job with this model, data and batch size has run."
_COUNTING = "Counting samples; steps and time follow."
_NOT_COUNTED = "Steps and time follow when the loader has counted the samples."
_TERMS = {
    "Global batch": "global batch",
    "Effective rate": "rate scaling",
    "Steps an epoch": "step",
    "Checkpoints": "retention",
}
"""The terms that explain the figures."""


class StartButtons:
    """The Start and Queue buttons and the one after a refusal; on the right, or at the bottom."""

    def __init__(self) -> None:
        tip = f"Start the job ({native_key(START_KEY)})"
        self.start = Button("Start", kind="big", icon="play", tip=tip)
        self.start.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.queue = Button("Queue", kind="tall", icon="clock", tip=QUEUE.tip)
        self.take_back = Button("Remove these jobs", icon="arrow-u-up-left")
        self.take_back.hide()


class FormSide(StyledFrame):
    """The verdict, figures, learning rate curve, differences and checks.

    Attributes:
        acts: Its buttons.
        pictures: Exports the learning rate curve.
        result: The summary of the check.
        refusal: Why a start was refused.
        findings: The column of checks.
    """

    def __init__(self, acts: StartButtons, parent: QWidget | None = None) -> None:
        super().__init__("pane", parent=parent)
        self.acts = acts
        self._forecast = JobForecast()
        self._check = JobCheck()
        self._counts = False
        self._terms: Mapping[str, str] = {}
        self._icon = IconLabel("info-fill", "text3", ICON_LARGE)
        self.result = Label("", "title", elide="right")
        self._figures = KeyValueRow(role="number", gap=S4, columns=_COLUMNS)
        self._forecasts = KeyValueRow(role="strong", gap=S4, columns=_COLUMNS)
        self._basis = Label("", "small", "text3", wrap=True)
        self._rates = RatePreview()
        self.pictures = PictureButton(TITLE, lambda: self._rates)
        self._changed_head = Label("", "strong", elide="right")
        self._changes = col(gap=S1)
        self._changed_rule = Separator()
        self.findings = col(gap=S2)
        self._check_part = QWidget()
        self._check_part.setLayout(
            col(Separator(), S3, Label("Check", "strong"), S1, self.findings, S3, gap=S1)
        )
        self.refusal = Label("", "small", "bad", wrap=True)
        self.refusal.hide()
        differences = QWidget()
        differences.setLayout(
            col(self._changed_rule, S3, self._changed_head, self._changes, S3, gap=S1)
        )
        self._differences = differences
        self._numbers, self._curve = QWidget(), QWidget()
        self._numbers.setLayout(
            col(self._figures, S2, self._forecasts, S1, self._basis, S3, gap=S1)
        )
        title = row(Label(TITLE, "strong"), STRETCH, self.pictures)
        self._curve.setLayout(col(Separator(), S3, title, self._rates, S3, gap=S1))
        upper = QWidget()
        upper.setLayout(
            col(
                row(self._icon, (self.result, 1), gap=S2),
                S3,
                self._numbers,
                differences,
                self._curve,
                self._check_part,
                STRETCH,
                gap=S1,
                margins=(S4, S4, S4, S2),
            )
        )
        buttons = row((acts.start, 1), acts.queue, gap=S2)
        self.setFixedWidth(SIDE_W)
        self.setLayout(
            col(
                (VerticalScrollArea(upper), 1),
                col(self.refusal, acts.take_back, buttons, gap=S2, margins=(S4, S2, S4, S4)),
                gap=0,
            )
        )
        # "Ready at" changes while the form is open.
        self._clock = QTimer(self)
        self._clock.setInterval(_MINUTE_MS)
        self._clock.timeout.connect(self._show_numbers)
        self._clock.start()
        self.show_changes("", ())
        self.show_findings(())

    def show_check_result(self, words: str, icon: str, tone: str) -> None:
        self.result.setText(words)
        self._icon.set_icon(icon, tone)

    def show_figures(self, check: JobCheck, epochs: int) -> None:
        """Show the figures that follow from the settings."""
        self._check, self._forecast = check, check.forecast
        # A script decides itself what it trains.
        for part in (self._numbers, self._curve):
            part.setVisible(check.global_batch != 0)
        self._rates.show_rates(check.rates, epochs)
        self._show_numbers()

    def show_terms(self, terms: Mapping[str, str]) -> None:
        """Set the glossary: a term and its sentence."""
        self._terms = terms
        self._show_numbers()

    @Slot()
    def _show_numbers(self) -> None:
        check, found, now = self._check, self._forecast, time.time()
        batch, steps = check.global_batch, check.steps_per_epoch
        uncounted = self._not_counted() if steps is None else ""
        self._figures.set_items(
            (
                self._fact("Global batch", formats.NONE if batch is None else formats.count(batch)),
                self._fact("Effective rate", formats.typed_number(check.learning_rate)),
                self._fact(
                    "Steps an epoch",
                    formats.NONE if steps is None else formats.count(steps),
                    uncounted,
                ),
            )
        )
        ready = None if found.lasts_s is None else now + found.lasts_s
        kept, each, disk = found.checkpoints_kept, found.checkpoint_bytes, found.disk_bytes
        shown = formats.NONE if each is None else f"{formats.count(kept)} × {formats.disk(each)}"
        self._forecasts.set_items(
            (
                self._fact(
                    "Takes about", _roughly(found.lasts_s), _NOT_TIMED if ready is None else ""
                ),
                self._fact(
                    "Checkpoints",
                    shown,
                    "" if disk is None else f"{formats.disk(disk)} of disk space at most",
                ),
                self._fact("Ready at", formats.estimated_time(ready, now)),
            )
        )
        self._basis.setText(_basis(check, self._not_counted()))
        self._basis.setVisible(bool(self._basis.text()))

    def show_counting(self, counts: bool) -> None:
        """Show whether the samples of the dataset are being counted."""
        self._counts = counts
        self._show_numbers()

    def _not_counted(self) -> str:
        return _COUNTING if self._counts else _NOT_COUNTED

    def _fact(self, caption: str, value: str, more: str = "") -> KeyValue:
        term = _TERMS.get(caption, "")
        return KeyValue(caption, value, tip=term_tip(caption, term, self._terms.get(term, ""), more))

    def show_changes(self, origin: str, changes: Sequence[SettingChange]) -> None:
        """Show the differences from the original settings; an empty ``origin`` hides them."""
        clear(self._changes)
        self._differences.setVisible(bool(origin))
        if not changes:
            self._changed_head.setText(f"Same settings as {origin}")
            return
        self._changed_head.setText(f"Differs from {origin}")
        for change in changes[:_CHANGES_SHOWN]:
            before, now = change.old_text or "–", change.new_text or "–"
            words = Label(f"{before} → {now}", "strong", elide="middle")
            self._changes.addLayout(
                row((Label(change.label, "body", "text2", elide="right"), 1), (words, 1), gap=S2)
            )
        more = changes[_CHANGES_SHOWN:]
        if more:
            rest = Label(f"and {formats.count(len(more))} more", "small", "text3")
            rest.set_tip(", ".join(change.label for change in more))
            self._changes.addWidget(rest)

    def show_findings(self, findings: Sequence[Finding], faults: Sequence[str] = ()) -> None:
        """Show faults that have no field, hints, and passed checks."""
        clear(self.findings)
        self._check_part.setVisible(bool(faults or findings))
        for sentence in faults:
            wrong = Label(sentence, "body", wrap=True)
            self.findings.addLayout(row(IconLabel("x-circle-fill", "bad"), (wrong, 1), top=True))
        for finding in findings:
            icon, tone = ("check-circle-fill", "good") if finding.ok else ("warning-fill", "warn")
            words = col(Label(finding.message, "body", wrap=True), gap=0)
            if finding.remedy:
                words.addWidget(Label(finding.remedy, "small", "text2", wrap=True))
            self.findings.addLayout(row(IconLabel(icon, tone), (words, 1), top=True))


class FormFoot(StyledFrame):
    """The bar at the bottom that replaces the right side in a narrow window.

    Attributes:
        acts: Its buttons.
        result, figures: The summary of the check, and its forecast.
        refusal: Why a start was refused.
    """

    def __init__(self, acts: StartButtons, parent: QWidget | None = None) -> None:
        super().__init__("pane", parent=parent)
        self.acts = acts
        self.result = Label("", "strong", elide="right")
        self.figures = Label("", "small", "text2", elide="right")
        self.refusal = Label("", "small", "bad", wrap=True)
        self.refusal.hide()
        words = col(self.result, self.figures, self.refusal, gap=0)
        buttons = row(acts.take_back, acts.queue, acts.start, gap=S2)
        self.setLayout(row((words, 1), buttons, gap=S3, margins=(S4, S2, S4, S2)))
        self.hide()

    def show_refusal(self, sentence: str) -> None:
        """Show why a start was refused, instead of the figures; "" for no refusal."""
        self.refusal.setText(sentence)
        self.refusal.setVisible(bool(sentence))
        self.figures.setVisible(not sentence and bool(self.figures.text()))

    def show_figures(self, check: JobCheck, reason: str = "") -> None:
        """Show the figures in one line, or why the job cannot train."""
        parts = []
        if check.global_batch:
            parts.append(f"batch {formats.count(check.global_batch)}")
            parts.append(f"rate {formats.typed_number(check.learning_rate)}")
        if check.steps_per_epoch is not None:
            parts.append(f"{formats.count(check.steps_per_epoch)} steps an epoch")
        if check.servers:
            parts.append(_served(check))
        found, now = check.forecast, time.time()
        if found.lasts_s is not None:
            parts.append(f"ready {formats.estimated_time(now + found.lasts_s, now)}")
        if found.gpu_s is not None:
            parts.append(f"{formats.gpu_hours(found.gpu_s)} GPU hours")
        if found.disk_bytes is not None:
            parts.append(f"{formats.disk(found.disk_bytes)} of checkpoints")
        self.figures.setText(reason or ", ".join(parts))
        self.figures.setVisible(bool(self.figures.text()) and self.refusal.isHidden())


def _roughly(seconds: float | None) -> str:
    """Return ``41 min``, ``1 h 55``: as precise as the estimate."""
    return (
        formats.rough_duration(seconds) if seconds is None or seconds < 3600 else formats.duration(seconds)
    )


def _served(check: JobCheck) -> str:
    """Return ``3 processes train, 1 serves``."""
    verb = "serves" if check.servers == 1 else "serve"
    train = formats.plural(check.workers, "process trains", "processes train")
    return f"{train}, {formats.count(check.servers)} {verb}"


def _basis(check: JobCheck, not_counted: str) -> str:
    """Return the basis of the figures, what is not known yet, and the disk space."""
    found, parts = check.forecast, []
    if check.jobs > 1:
        parts.append("These figures are for the first job.")
    if check.servers:
        parts.append(f"{_served(check)}; an update is one push of a worker.")
    if found.lasts_s is not None and found.pace_s is not None:
        parts.append(f"Based on “{found.pace_source}”: {formats.duration(found.pace_s)} per step.")
    elif check.global_batch is not None:
        parts.append(not_counted if check.steps_per_epoch is None else _NOT_TIMED)
    if found.gpu_s is not None:
        used = f" and {formats.energy(found.energy_j)}" if found.energy_j is not None else ""
        whose = " each" if check.jobs > 1 else ""
        parts.append(f"About {formats.gpu_hours(found.gpu_s)} GPU hours{used}{whose}.")
    if found.disk_bytes is not None and found.free_bytes is not None:
        need, free = formats.disk(found.disk_bytes * check.jobs), formats.disk(found.free_bytes)
        whose = f" of {formats.count(check.jobs)} jobs" if check.jobs > 1 else ""
        parts.append(f"Checkpoints{whose} need {need}; {free} are free.")
    if found.free_files is not None and found.free_files < LEAST_FILES:
        parts.append(f"The data root {free_files_message(found.free_files)}.")
    return " ".join(parts)
