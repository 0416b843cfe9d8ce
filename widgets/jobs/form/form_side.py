"""The right side of New job, always visible: whether the job may start, and its figures."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from PySide6.QtCore import QPointF, QRectF, QTimer, Slot
from PySide6.QtGui import QPainter, QPaintEvent, QPolygonF
from PySide6.QtWidgets import QSizePolicy, QWidget

from backend.base.room import LEAST_FILES, free_files_message
from backend.records.jobs.flat_settings import SettingChange
from backend.records.jobs.view import JobCheck, JobForecast
from backend.records.nodes.reading import Finding
from widgets.common import formats, theme
from widgets.common.buttons import Button, IconButton
from widgets.common.cards import Separator, StyledFrame, VerticalScrollArea
from widgets.common.key_value_row import KeyValue, KeyValueRow
from widgets.common.labels import IconLabel, Label, native_key, term_tip
from widgets.common.layout import STRETCH, clear, col, row
from widgets.common.painting import paint_text, round_pen
from widgets.common.theme import ICON_LARGE, S1, S2, S3, S4
from widgets.jobs.actions.job_actions import QUEUE
from widgets.plots.image_export import Picture, PictureButton

SIDE_W = 384
START_KEY = "Ctrl+Return"
LATER_TIP = "Queue for later… Not before a time, and reserve its GPUs"
_MAX_CHANGES, _COLUMNS = 6, 3
_MINUTE_MS = 60_000
_UNTIMED_HINT = "No estimate yet: no job with this model, data and batch size has run."
_COUNTING_HINT = "Counting samples; steps and time follow."
_UNCOUNTED_HINT = "Steps and time follow when the loader has counted the samples."
_TERMS = {
    "Global batch": "global batch",
    "Effective rate": "rate scaling",
    "Steps an epoch": "step",
    "Checkpoints": "retention",
}
"""The terms that explain the figures."""


class StartButtons:
    """The buttons to start or queue, and the one after a refusal; right, or at the bottom."""

    def __init__(self) -> None:
        tip = f"Start the job ({native_key(START_KEY)})"
        self.start = Button("Start", kind="big", icon="play", tip=tip)
        self.start.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.queue = Button("Queue", kind="tall", icon="clock", tip=QUEUE.tip)
        self.queue_later = IconButton("calendar-plus", LATER_TIP)
        self.cancel = Button("Cancel these jobs", icon="arrow-u-up-left")
        self.cancel.hide()


class FormSide(StyledFrame):
    """The result of the check, figures, learning rate curve, differences and checks.

    Attributes:
        start_buttons: The buttons of the pane.
        pictures: Exports the learning rate curve.
        rate_button: Search for the learning rate.
        result: The summary of the check.
        refusal: Why a start was refused.
        findings: The column of checks.
    """

    def __init__(self, start_buttons: StartButtons, parent: QWidget | None = None) -> None:
        super().__init__("pane", parent=parent)
        self.start_buttons = start_buttons
        self._forecast = JobForecast()
        self._check = JobCheck()
        self._is_counting = False
        self._terms: Mapping[str, str] = {}
        self._icon = IconLabel("info-fill", "text3", ICON_LARGE)
        self.result = Label("", "title", elide="right")
        self._figures = KeyValueRow(role="number", gap=S4, columns=_COLUMNS)
        self._forecasts = KeyValueRow(role="strong", gap=S4, columns=_COLUMNS)
        self._basis = Label("", "small", "text3", wrap=True)
        self._rates = RatePreview()
        self.pictures = PictureButton(TITLE, lambda: self._rates)
        self.rate_button = Button("Find a rate…", kind="quiet", icon="magic-wand")
        self._make_parts()
        upper_part = QWidget()
        upper_part.setLayout(
            col(
                row(self._icon, (self.result, 1), gap=S2),
                S3,
                self._numbers,
                self._differences,
                self._curve,
                self._check_part,
                STRETCH,
                gap=S1,
                margins=(S4, S4, S4, S2),
            )
        )
        buttons = row(
            (start_buttons.start, 1), start_buttons.queue, start_buttons.queue_later, gap=S2
        )
        self.setFixedWidth(SIDE_W)
        self.setLayout(
            col(
                (VerticalScrollArea(upper_part), 1),
                col(self.refusal, start_buttons.cancel, buttons, gap=S2, margins=(S4, S2, S4, S4)),
                gap=0,
            )
        )
        # "Ready at" changes while the form is open.
        self._clock = QTimer(self, interval=_MINUTE_MS)
        self._clock.timeout.connect(self._show_numbers)
        self._clock.start()
        self.show_changes("", ())
        self.show_findings(())

    def _make_parts(self) -> None:
        self._changes_title = Label("", "strong", elide="right")
        self._changes = col(gap=S1)
        self._changes_rule = Separator()
        self.findings = col(gap=S2)
        self._check_part = QWidget()
        self._check_part.setLayout(
            col(Separator(), S3, Label("Check", "strong"), S1, self.findings, S3, gap=S1)
        )
        self.refusal = Label("", "small", "bad", wrap=True)
        self.refusal.hide()
        self._differences = QWidget()
        self._differences.setLayout(
            col(self._changes_rule, S3, self._changes_title, self._changes, S3, gap=S1)
        )
        self._numbers, self._curve = QWidget(), QWidget()
        self._numbers.setLayout(
            col(self._figures, S2, self._forecasts, S1, self._basis, S3, gap=S1)
        )
        title = row(Label(TITLE, "strong"), STRETCH, self.rate_button, self.pictures)
        self._curve.setLayout(col(Separator(), S3, title, self._rates, S3, gap=S1))

    def show_check_result(self, message: str, icon: str, color_role: str) -> None:
        self.result.setText(message)
        self._icon.set_icon(icon, color_role)

    def show_figures(self, check: JobCheck, epochs: int) -> None:
        """Show the figures that follow from the settings."""
        self._check, self._forecast = check, check.forecast
        # A script decides itself what it trains.
        for widget in (self._numbers, self._curve):
            widget.setVisible(check.global_batch != 0)
        self._rates.show_rates(check.rates, epochs)
        self._show_numbers()

    def show_terms(self, terms: Mapping[str, str]) -> None:
        """Set the glossary: a term and its explanation."""
        self._terms = terms
        self._show_numbers()

    @Slot()
    def _show_numbers(self) -> None:
        check, forecast, now_s = self._check, self._forecast, time.time()
        batch, steps = check.global_batch, check.steps_per_epoch
        hint = self._counting_hint() if steps is None else ""
        self._figures.set_items(
            (
                self._figure(
                    "Global batch", formats.NONE if batch is None else formats.count(batch)
                ),
                self._figure("Effective rate", formats.typed_number(check.learning_rate)),
                self._figure(
                    "Steps an epoch",
                    formats.NONE if steps is None else formats.count(steps),
                    hint,
                ),
            )
        )
        ready_s = None if forecast.lasts_s is None else now_s + forecast.lasts_s
        kept_count, file_bytes, disk_bytes = (
            forecast.checkpoints_kept,
            forecast.checkpoint_bytes,
            forecast.disk_bytes,
        )
        checkpoints_text = (
            formats.NONE
            if file_bytes is None
            else f"{formats.count(kept_count)} × {formats.disk(file_bytes)}"
        )
        self._forecasts.set_items(
            (
                self._figure(
                    "Takes about",
                    _rough_duration(forecast.lasts_s),
                    _UNTIMED_HINT if ready_s is None else "",
                ),
                self._figure(
                    "Checkpoints",
                    checkpoints_text,
                    ""
                    if disk_bytes is None
                    else f"{formats.disk(disk_bytes)} of disk space at most",
                ),
                self._figure("Ready at", formats.estimated_time(ready_s, now_s)),
            )
        )
        self._basis.setText(_basis(check, self._counting_hint()))
        self._basis.setVisible(bool(self._basis.text()))

    def show_counting(self, is_counting: bool) -> None:
        """Show whether the samples of the dataset are being counted."""
        self._is_counting = is_counting
        self._show_numbers()

    def _counting_hint(self) -> str:
        return _COUNTING_HINT if self._is_counting else _UNCOUNTED_HINT

    def _figure(self, caption: str, value: str, hint: str = "") -> KeyValue:
        term = _TERMS.get(caption, "")
        return KeyValue(
            caption, value, tip=term_tip(caption, term, self._terms.get(term, ""), hint)
        )

    def show_changes(self, origin: str, changes: Sequence[SettingChange]) -> None:
        """Show the differences from the original settings; an empty ``origin`` hides them."""
        clear(self._changes)
        self._differences.setVisible(bool(origin))
        if not changes:
            self._changes_title.setText(f"Same settings as {origin}")
            return
        self._changes_title.setText(f"Differs from {origin}")
        for change in changes[:_MAX_CHANGES]:
            old_value, new_value = change.old_text or "–", change.new_text or "–"
            values_label = Label(f"{old_value} → {new_value}", "strong", elide="middle")
            self._changes.addLayout(
                row(
                    (Label(change.label, "body", "text2", elide="right"), 1),
                    (values_label, 1),
                    gap=S2,
                )
            )
        hidden_changes = changes[_MAX_CHANGES:]
        if hidden_changes:
            count_label = Label(f"and {formats.count(len(hidden_changes))} more", "small", "text3")
            count_label.set_tip(", ".join(change.label for change in hidden_changes))
            self._changes.addWidget(count_label)

    def show_findings(self, findings: Sequence[Finding], errors: Sequence[str] = ()) -> None:
        """Show errors that have no field, hints, and passed checks."""
        clear(self.findings)
        self._check_part.setVisible(bool(errors or findings))
        for error in errors:
            label = Label(error, "body", wrap=True)
            self.findings.addLayout(row(IconLabel("x-circle-fill", "bad"), (label, 1), top=True))
        for finding in findings:
            icon, color_role = (
                ("check-circle-fill", "good") if finding.ok else ("warning-fill", "warn")
            )
            texts = col(Label(finding.message, "body", wrap=True), gap=0)
            if finding.remedy:
                texts.addWidget(Label(finding.remedy, "small", "text2", wrap=True))
            self.findings.addLayout(row(IconLabel(icon, color_role), (texts, 1), top=True))


class FormFoot(StyledFrame):
    """The bar at the bottom that replaces the right side in a narrow window.

    Attributes:
        start_buttons: The buttons of the pane.
        result, figures: The summary of the check, and its forecast.
        refusal: Why a start was refused.
    """

    def __init__(self, start_buttons: StartButtons, parent: QWidget | None = None) -> None:
        super().__init__("pane", parent=parent)
        self.start_buttons = start_buttons
        self.result = Label("", "strong", elide="right")
        self.figures = Label("", "small", "text2", elide="right")
        self.refusal = Label("", "small", "bad", wrap=True)
        self.refusal.hide()
        texts = col(self.result, self.figures, self.refusal, gap=0)
        buttons = row(
            start_buttons.cancel,
            start_buttons.queue_later,
            start_buttons.queue,
            start_buttons.start,
            gap=S2,
        )
        self.setLayout(row((texts, 1), buttons, gap=S3, margins=(S4, S2, S4, S2)))
        self.hide()

    def show_refusal(self, message: str) -> None:
        """Show why a start was refused, instead of the figures; "" for no refusal."""
        self.refusal.setText(message)
        self.refusal.setVisible(bool(message))
        self.figures.setVisible(not message and bool(self.figures.text()))

    def show_figures(self, check: JobCheck, reason: str = "") -> None:
        """Show the figures in one line, why the job cannot train, or what may go wrong."""
        parts = []
        if check.global_batch:
            parts.append(f"batch {formats.count(check.global_batch)}")
            parts.append(f"rate {formats.typed_number(check.learning_rate)}")
        if check.steps_per_epoch is not None:
            parts.append(f"{formats.count(check.steps_per_epoch)} steps an epoch")
        if check.servers:
            parts.append(_server_text(check))
        forecast, now_s = check.forecast, time.time()
        if forecast.lasts_s is not None:
            parts.append(f"ready {formats.estimated_time(now_s + forecast.lasts_s, now_s)}")
        if forecast.gpu_s is not None:
            parts.append(f"{formats.gpu_hours(forecast.gpu_s)} GPU hours")
        if forecast.disk_bytes is not None:
            parts.append(f"{formats.disk(forecast.disk_bytes)} of checkpoints")
        hints = (finding for finding in check.findings if not finding.ok)
        hint = next((f"{hint.message} {hint.remedy}".strip() for hint in hints), "")
        self.figures.setText(reason or hint or ", ".join(parts))
        self.figures.set_color_role("warn" if hint and not reason else "text2")
        self.figures.setVisible(bool(self.figures.text()) and self.refusal.isHidden())


def _rough_duration(seconds: float | None) -> str:
    """Return ``41 min``, ``1 h 55``: as precise as the estimate."""
    return (
        formats.rough_duration(seconds)
        if seconds is None or seconds < 3600
        else formats.duration(seconds)
    )


def _server_text(check: JobCheck) -> str:
    """Return ``3 processes train, 1 serves``."""
    verb = "serves" if check.servers == 1 else "serve"
    train = formats.plural(check.workers, "process trains", "processes train")
    return f"{train}, {formats.count(check.servers)} {verb}"


def _basis(check: JobCheck, counting_hint: str) -> str:
    """Return the basis of the figures, the unknown figures, and the disk space."""
    forecast, parts = check.forecast, []
    if check.jobs > 1:
        parts.append("These figures are for the first job.")
    if check.servers:
        parts.append(f"{_server_text(check)}; an update is one push of a worker.")
    if forecast.lasts_s is not None and forecast.pace_s is not None:
        parts.append(
            f"Based on “{forecast.pace_source}”: {formats.duration(forecast.pace_s)} per step."
        )
    elif check.global_batch is not None:
        parts.append(counting_hint if check.steps_per_epoch is None else _UNTIMED_HINT)
    if forecast.gpu_s is not None:
        energy = (
            f" and {formats.energy(forecast.energy_j)}" if forecast.energy_j is not None else ""
        )
        scope = " each" if check.jobs > 1 else ""
        parts.append(f"About {formats.gpu_hours(forecast.gpu_s)} GPU hours{energy}{scope}.")
    if forecast.disk_bytes is not None and forecast.free_bytes is not None:
        needed_size, free_size = (
            formats.disk(forecast.disk_bytes * check.jobs),
            formats.disk(forecast.free_bytes),
        )
        scope = f" of {formats.count(check.jobs)} jobs" if check.jobs > 1 else ""
        parts.append(f"Checkpoints{scope} need {needed_size}; {free_size} are free.")
    if forecast.free_files is not None and forecast.free_files < LEAST_FILES:
        parts.append(f"The data root {free_files_message(forecast.free_files)}.")
    return " ".join(parts)


TITLE = "Learning rate by epoch"
_LEFT_W, _BOTTOM_H, _TOP_H = 52, 18, 8


class RatePreview(QWidget):
    """A curve of learning rates at equal distances over the epochs of a job."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._rates: tuple[float, ...] = ()
        self._epochs = 0
        self.setMinimumHeight(132)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName(TITLE)

    def show_rates(self, rates: tuple[float, ...], epochs: int) -> None:
        if (rates, epochs) != (self._rates, self._epochs):
            self._rates, self._epochs = rates, epochs
            if rates:
                start, peak, end = map(formats.typed_number, (rates[0], max(rates), rates[-1]))
                self.setAccessibleDescription(f"From {start} over {peak} to {end}")
            self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self._paint(painter)

    def as_picture(self) -> Picture:
        """Return the curve as it is seen."""
        return Picture(TITLE, self.size(), self._paint)

    def _paint(self, painter: QPainter) -> None:
        t = theme.current()
        plot = QRectF(
            _LEFT_W, _TOP_H, self.width() - _LEFT_W - S2, self.height() - _TOP_H - _BOTTOM_H
        )
        max_rate = max(self._rates, default=0.0)
        if max_rate <= 0:
            paint_text(
                painter,
                plot,
                "It follows when these settings are valid.",
                "small",
                "text3",
            )
            return
        for share in (0.0, 0.5, 1.0):
            y = plot.bottom() - share * plot.height()
            painter.setPen(t.q("grid"))
            painter.drawLine(QPointF(plot.left(), y), QPointF(plot.right(), y))
            label = QRectF(0, y - S2, _LEFT_W - S2, 2 * S2)
            paint_text(painter, label, _rate_text(max_rate * share), "tiny", "text3", right=True)
        for share in (0.0, 0.5, 1.0):
            x = plot.left() + share * plot.width()
            label = QRectF(x - 30, plot.bottom() + S1, 60, _BOTTOM_H - S1)
            if share == 1.0:
                label.moveRight(plot.right() + S2)
            text = formats.tick(self._epochs * share)
            paint_text(
                painter, label, text, "tiny", "text3", center=share < 1.0, right=share == 1.0
            )
        points = [
            QPointF(
                plot.left() + plot.width() * index / max(1, len(self._rates) - 1),
                plot.bottom() - plot.height() * rate / max_rate,
            )
            for index, rate in enumerate(self._rates)
        ]
        painter.setPen(round_pen(t.q("grid"), 0.0))
        area = QPolygonF([QPointF(plot.left(), plot.bottom()), *points, plot.bottomRight()])
        painter.setPen(t.curve(0, 0.0))
        painter.setBrush(t.curve(0, 0.12))
        painter.drawPolygon(area)
        painter.setPen(round_pen(t.curve(0), 2.2))
        painter.drawPolyline(QPolygonF(points))


def _rate_text(value: float) -> str:
    """Format ``0.08``: at most three digits, without trailing zeros."""
    return formats.typed_number(float(f"{value:.3g}"))
