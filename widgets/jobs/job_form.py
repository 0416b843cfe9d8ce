"""New job on one page: what, where, how and what to keep, with the verdict always in view.

The form checks nothing itself. 300 ms after a change it wishes for a check, and shows what comes
back: each fault at its field, what the settings come to, the learning rate over the whole job, and
the command that would run.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from PySide6.QtCore import Qt, QTimer, Signal, Slot
from PySide6.QtGui import QGuiApplication, QKeySequence, QResizeEvent, QShortcut
from PySide6.QtWidgets import QFrame, QHBoxLayout, QSizePolicy, QWidget

from backend.records.job import LR_SCALINGS, OPTIMIZERS, SCHEDULES, STRATEGIES, Setting
from backend.records.job_view import JobCheck
from backend.records.library import Kind, LibraryItem
from backend.records.node import Finding, NodeState
from widgets.common import formats
from widgets.common.buttons import Button
from widgets.common.cards import Card, Fact, Facts, Frame, PageHeader, Rule, Scroll
from widgets.common.fields import Field
from widgets.common.focus import FocusLead
from widgets.common.layout import STRETCH, clear, col, row
from widgets.common.text import IconLabel, Label, plain_tip
from widgets.common.theme import (
    FORM_MAX_W,
    ICON_LARGE,
    ONE_PANE_BELOW_W,
    PAGE_MARGIN,
    S1,
    S2,
    S3,
    S4,
)
from widgets.jobs.job_fields import JobDraft, JobFields, merged
from widgets.jobs.placement_picker import PlacementPicker
from widgets.jobs.rate_preview import RatePreview

_CHECK_AFTER_MS = 300
_SIDE_W = 384
_SECTION_W = 64
_SETTINGS_A_ROW = 4

_OPTIMIZER_TITLES = {
    "sgd": "SGD",
    "adam": "Adam",
    "adamw": "AdamW",
    "adagrad": "Adagrad",
    "adadelta": "Adadelta",
    "rmsprop": "RMSprop",
}
_DRAFT_TIP = "Create the job and start it later"
_NO_DRAFT_TIP = "Several jobs are queued; a draft is one job"
_STRATEGY_TITLES = {"allreduce": "Allreduce", "alone": "One process, no Horovod"}
_SCALING_TITLES = {"linear": "times processes", "sqrt": "times their root", "none": "as given"}


class JobForm(QWidget):
    """The page New job.

    Signals:
        check_requested: A `JobDraft`; answer with `show_check`.
        start_requested: A `JobDraft` to create and start.
        start_cancelled: The start under way is not wanted any more.
        queue_requested: A `JobDraft` to create and queue.
        take_back_requested: The tag of a sweep that was half made.
        save_requested: A `JobDraft` to create as a draft.
        load_requested: The settings of an old job are wished for; answer with `show_draft`.
        open_requested: A job file is wished for; answer with `show_draft`.
    """

    check_requested = Signal(object)
    start_requested = Signal(object)
    start_cancelled = Signal()
    queue_requested = Signal(object)
    take_back_requested = Signal(str)
    save_requested = Signal(object)
    load_requested = Signal()
    open_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._rest: dict[str, Any] = {}
        self._busy = False
        self._may_start = False
        self._jobs = 1
        self._half_made = ""
        self._fields = JobFields(self)
        self._picker = PlacementPicker()
        self._settings_of: dict[str, tuple[str, ...]] = {"optimizer": (), "schedule": ()}
        self._settings_rows = {"optimizer": col(gap=S2), "schedule": col(gap=S2)}
        self._header = PageHeader("New job")
        self._side = self._make_side()
        self._body = QHBoxLayout()
        self._body.setContentsMargins(0, 0, 0, 0)
        self._body.setSpacing(0)
        left = QWidget()
        left.setLayout(col(self._make_header(), (Scroll(self._make_sections()), 1), gap=0))
        self._body.addWidget(left, 1)
        self._body.addWidget(self._side)
        self._foot = self._make_foot()
        self.setLayout(col((self._body, 1), self._foot, gap=0))

        self._pause = QTimer(self)
        self._pause.setSingleShot(True)
        self._pause.setInterval(_CHECK_AFTER_MS)
        self._pause.timeout.connect(self._wish_check)
        self._fields.changed.connect(self._changed)
        self._picker.changed.connect(self._changed)
        QShortcut(QKeySequence("Ctrl+Return"), self, self._start)
        FocusLead(self, self._fields.field("name").control)
        self._fit_settings()
        self._show_verdict(JobCheck())

    # -- what comes in

    def show_choices(
        self,
        models: tuple[LibraryItem, ...],
        datasets: tuple[LibraryItem, ...],
        loaders: tuple[LibraryItem, ...],
    ) -> None:
        """What can be chosen: every version, the newest of each name as the name alone."""
        of_kind = {Kind.MODEL: models, Kind.DATASET: datasets, Kind.LOADER: loaders}
        for path, kind in (
            ("model", Kind.MODEL),
            ("dataset", Kind.DATASET),
            ("loader", Kind.LOADER),
        ):
            self._fields.set_options(path, _options(of_kind[kind]))
        same = (("", "same"),)
        self._fields.set_options("validation_dataset", same + _options(datasets))
        self._fields.set_options("validation_loader", same + _options(loaders))
        self._changed()

    def show_nodes(self, states: tuple[NodeState, ...]) -> None:
        self._picker.show_nodes(states)

    def show_draft(self, draft: JobDraft) -> None:
        """Fill the form from a job file. What it has no field for is kept and handed back."""
        raw = {"stop_on_nan": True, **draft.raw}
        self._fields.show(raw)
        placements = raw.pop("placement", [])
        self._picker.put(placements if isinstance(placements, list) else [])
        self._rest = self._fields.without_fields(raw)
        for axis in draft.axes:
            self._fields.swept.take(axis)
        self._changed()

    def show_check(self, check: JobCheck) -> None:
        """The answer to `check_requested`."""
        homeless = self._fields.show_faults(check.faults)
        placement = [f for f in homeless if f.field.startswith("placement")]
        self._picker.set_error(" ".join(f.sentence.partition(": ")[2] for f in placement))
        others = tuple(f for f in homeless if f not in placement)
        self._show_verdict(check)
        findings = [Finding("settings", False, f.sentence) for f in others]
        self._show_findings((*findings, *check.findings))

    def set_busy(self, sentence: str) -> None:
        """A start is under way ("Starting…"), or is not ("")."""
        self._busy = bool(sentence)
        for button in (self._start_button, self._foot_start):
            button.setText(sentence or self._start_text())
        for button in (self._queue_button, self._foot_queue):
            button.setText("Cancel" if self._busy else "Queue")
            button.setVisible(self._busy or not self._fields.swept.axes())
        self._enable_buttons()

    def _enable_buttons(self) -> None:
        for button in (self._start_button, self._foot_start):
            button.setEnabled(self._may_start and not self._busy)
        is_sweep = bool(self._fields.swept.axes())
        self._save_button.setEnabled(self._may_start and not self._busy and not is_sweep)
        self._save_button.set_tip(_NO_DRAFT_TIP if is_sweep else _DRAFT_TIP)
        for button in (self._queue_button, self._foot_queue):
            button.setEnabled(self._may_start or self._busy)

    def show_error(self, sentence: str) -> None:
        """A start that was refused says why beside the button."""
        self.set_busy("")
        self._refusal.setText(sentence)
        self._refusal.setVisible(bool(sentence))
        self._half_made = ""
        for button in (self._take_back, self._foot_take_back):
            button.hide()

    def show_half_made(self, sentence: str, tag: str) -> None:
        """Some jobs of a sweep were made; they can be taken back."""
        self.show_error(sentence)
        self._half_made = tag
        for button in (self._take_back, self._foot_take_back):
            button.show()

    def draft(self) -> JobDraft:
        """The job file in the form."""
        raw = merged(self._rest, self._fields.draft())
        placement = self._picker.value()
        if placement:
            raw["placement"] = placement
        return JobDraft(raw, self._fields.swept.axes())

    # -- how it is made

    def _make_header(self) -> QWidget:
        load = Button("Load settings of a job…", kind="quiet", icon="copy")
        load.clicked.connect(self.load_requested)
        open_file = Button("Open job file…", kind="quiet", icon="folder-open")
        open_file.clicked.connect(self.open_requested)
        self._save_button = Button("Save draft", kind="quiet", icon="floppy-disk", tip=_DRAFT_TIP)
        self._save_button.clicked.connect(self._save)
        return PageHeader("New job", "", load, open_file, self._save_button)

    def _make_sections(self) -> QWidget:
        f = self._fields
        choices = tuple((name, _OPTIMIZER_TITLES[name]) for name in OPTIMIZERS)
        schedules = tuple((name, name.capitalize()) for name in SCHEDULES)
        strategies = tuple((name, _STRATEGY_TITLES[name]) for name in STRATEGIES)
        scalings = tuple((name, _SCALING_TITLES[name]) for name in LR_SCALINGS)
        what = _section(
            "What",
            _line((f.text("name", "Name"), 2), (f.choice("model", "Model"), 1)),
            _line(
                (f.choice("dataset", "Dataset"), 1),
                (f.choice("loader", "Loader"), 1),
                (f.choice("validation_dataset", "Validation dataset"), 1),
                (f.choice("validation_loader", "Validation loader"), 1),
            ),
            _line(
                (
                    f.text("start_from", "Start from", "nothing: a job/checkpoint or weights"),
                    1,
                ),
            ),
        )
        where = _section("Where", self._picker)
        optimizer = f.choice("optimizer.name", "Optimizer", choices)
        schedule = f.choice("schedule.name", "Schedule", schedules)
        optimizer_choice = optimizer.control
        schedule_choice = schedule.control
        how = _section(
            "How",
            _line(
                (f.whole("epochs", "Epochs"), 1),
                (f.whole("batch_size", "Batch size", "per process"), 2),
                (f.number("gradient_norm", "Gradient norm", placeholder="off"), 1),
                (f.choice("strategy.name", "Strategy", strategies), 2),
            ),
            _line(
                (optimizer, 2),
                (f.number("optimizer.lr", "Learning rate"), 2),
                (f.choice("strategy.lr_scaling", "With more processes", scalings), 2),
            ),
            self._settings_rows["optimizer"],
            _line(
                (schedule, 2),
                (f.number("schedule.warmup_epochs", "Warm-up", "epochs", "0"), 2),
                (f.switch("mixed_precision", "Half precision, on GPUs"), 2),
            ),
            self._settings_rows["schedule"],
            Label(
                "Right click a field, or Shift+F10, for several values: one job for each "
                "combination.",
                "small",
                "text3",
                wrap=True,
            ),
        )
        keep = _section(
            "Keep",
            _line(
                (f.whole("checkpoint.every_epochs", "Checkpoint every", "epochs", "1"), 1),
                (f.whole("checkpoint.keep_latest", "Keep latest", placeholder="2"), 1),
                (f.whole("checkpoint.keep_best", "Keep best", placeholder="1"), 1),
                (f.whole("early_stop.patience_epochs", "Stop early after", "epochs", "off"), 1),
            ),
            _line(
                (f.whole("seed", "Seed", placeholder="1"), 2),
                (f.whole("loader_workers", "Loader workers", placeholder="0"), 2),
                (f.number("stall_limit_s", "Silent at most", "s", "600"), 2),
                (f.switch("stop_on_nan", "Stop on NaN"), 2),
                (f.switch("stop_on_divergence", "Stop when it diverges"), 3),
            ),
        )
        for control in (optimizer_choice, schedule_choice):
            changed = getattr(control, "currentIndexChanged", None)
            if changed is not None:
                changed.connect(self._fit_settings)
        self._fields.show({"stop_on_nan": True})
        sections = QWidget()
        sections.setMaximumWidth(FORM_MAX_W + 2 * PAGE_MARGIN)
        margins = (PAGE_MARGIN, 0, PAGE_MARGIN, S4)
        sections.setLayout(col(what, where, how, keep, STRETCH, gap=S3, margins=margins))
        holder = QWidget()
        holder.setLayout(row((sections, 1), gap=0))
        return holder

    def _make_side(self) -> QFrame:
        self._verdict_icon = IconLabel("info-fill", "text3", ICON_LARGE)
        self._verdict = Label("", "title", elide="right")
        self._figures = Facts(role="number", gap=S4)
        self._rates = RatePreview()
        self._findings = col(gap=S2)
        self._command = Label("", "mono", "text2", wrap=True, selectable=True)
        self._command.setAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop)
        copy = Button("Copy", kind="quiet", icon="copy", tip="Copy the command")
        copy.clicked.connect(self._copy_command)
        self._refusal = Label("", "small", "bad", wrap=True)
        self._refusal.hide()
        self._take_back = self._make_take_back()
        self._start_button = self._make_start()
        self._queue_button = self._make_queue()
        upper = QWidget()
        upper.setLayout(
            col(
                row(self._verdict_icon, (self._verdict, 1), gap=S2),
                S3,
                self._figures,
                S4,
                Rule(),
                S3,
                Label("Learning rate by epoch", "strong"),
                self._rates,
                S3,
                Rule(),
                S3,
                Label("Check", "strong"),
                S1,
                self._findings,
                S3,
                row(Label("Command", "strong"), STRETCH, copy),
                Frame("sunken", col(self._command, margins=(S3, S2, S3, S2))),
                STRETCH,
                gap=S1,
                margins=(S4, S4, S4, S2),
            )
        )
        start = row((self._start_button, 1), self._queue_button, gap=S2)
        pane = Frame("pane")
        pane.setFixedWidth(_SIDE_W)
        pane.setLayout(
            col(
                (Scroll(upper), 1),
                col(self._refusal, self._take_back, start, gap=S2, margins=(S4, S2, S4, S4)),
                gap=0,
            )
        )
        return pane

    def _make_foot(self) -> QWidget:
        """What stands for the pane on the right where the window is narrow."""
        self._foot_verdict = Label("", "strong", elide="right")
        self._foot_start = self._make_start()
        self._foot_queue = self._make_queue()
        self._foot_take_back = self._make_take_back()
        buttons = row(self._foot_take_back, self._foot_queue, self._foot_start, gap=S2)
        foot = Frame("pane", row((self._foot_verdict, 1), buttons, margins=(S4, S2, S4, S2)))
        foot.hide()
        return foot

    def _make_take_back(self) -> Button:
        button = Button("Take them back", icon="arrow-u-up-left")
        button.clicked.connect(lambda: self.take_back_requested.emit(self._half_made))
        button.hide()
        return button

    def _make_start(self) -> Button:
        tip = plain_tip("Start the job", "Ctrl+Return")
        start = Button("Start", kind="big", icon="play", tip=tip, key="")
        start.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        start.clicked.connect(self._start)
        return start

    def _make_queue(self) -> Button:
        tip = "Start it by itself as soon as its turn has come and its nodes are free"
        queue = Button("Queue", kind="tall", icon="clock", tip=tip)
        queue.clicked.connect(self._queue)
        return queue

    # -- what happens

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        narrow = self.width() < ONE_PANE_BELOW_W
        self._side.setVisible(not narrow)
        self._foot.setVisible(narrow)

    @Slot()
    def _changed(self) -> None:
        self._pause.start()

    @Slot()
    def _fit_settings(self) -> None:
        """Show the settings of the chosen optimizer and schedule, and no others."""
        for table, known in (("optimizer", OPTIMIZERS), ("schedule", SCHEDULES)):
            name = self._fields.key(f"{table}.name")
            settings = {k: s for k, s in known.get(name, {}).items() if s.label}
            wanted = tuple(f"{table}.{key}" for key in settings)
            if wanted == self._settings_of[table] and wanted:
                continue
            kept = self._fields.draft().get(table, {})
            for path in self._settings_of[table]:
                self._fields.forget(path)
            clear(self._settings_rows[table])
            self._settings_of[table] = wanted
            self._add_settings(table, settings)
            for key in settings:
                if key in kept:
                    self._fields.show_one(f"{table}.{key}", kept[key])

    def _add_settings(self, table: str, settings: Mapping[str, Setting]) -> None:
        made = [self._fields.setting(f"{table}.{key}", s) for key, s in settings.items()]
        for start in range(0, len(made), _SETTINGS_A_ROW):
            fields = made[start : start + _SETTINGS_A_ROW]
            line = _line(*((one, 1) for one in fields))
            line.addStretch(_SETTINGS_A_ROW - len(fields))
            self._settings_rows[table].addLayout(line)

    @Slot()
    def _wish_check(self) -> None:
        if not self._half_made:
            self._refusal.hide()
        self.check_requested.emit(self.draft())

    @Slot()
    def _start(self) -> None:
        draft = self.draft()
        if self._may_start and not self._busy:
            (self.queue_requested if draft.axes else self.start_requested).emit(draft)
        elif not self._may_start:
            at_fault = self._fields.first_at_fault()
            if at_fault is not None:
                at_fault.setFocus()

    @Slot()
    def _queue(self) -> None:
        if self._busy:
            self.start_cancelled.emit()
        else:
            self.queue_requested.emit(self.draft())

    @Slot()
    def _save(self) -> None:
        self.save_requested.emit(self.draft())

    @Slot()
    def _copy_command(self) -> None:
        QGuiApplication.clipboard().setText(self._command.text())

    def _show_verdict(self, check: JobCheck) -> None:
        faults = len(check.faults)
        self._may_start = check.may_start and check.global_batch is not None
        self._jobs = check.jobs
        if faults:
            verdict = f"{formats.plural(faults, 'thing')} to fix"
            self._verdict_icon.set_icon("warning-octagon-fill", "bad")
        elif self._may_start:
            is_sweep = bool(self._fields.swept.axes())
            verdict = f"Ready to queue {self._jobs} jobs" if is_sweep else "Ready to start"
            self._verdict_icon.set_icon("check-circle-fill", "good")
        else:
            verdict = "Checking"
            self._verdict_icon.set_icon("info-fill", "text3")
        self._verdict.setText(verdict)
        self._foot_verdict.setText(verdict)
        self._foot_verdict.set_tone("bad" if faults else "text")
        for button in (self._start_button, self._foot_start):
            button.set_icon("play" if self._may_start else "warning-octagon")
            if not self._busy:
                button.setText(self._start_text())
        for button in (self._queue_button, self._foot_queue):
            button.setVisible(self._busy or not self._fields.swept.axes())
        self._enable_buttons()
        steps = check.steps_per_epoch
        self._figures.set_facts(
            (
                Fact(
                    "Global batch",
                    "–" if check.global_batch is None else formats.count(check.global_batch),
                ),
                Fact("Learning rate", formats.setting(check.learning_rate)),
                Fact("Steps an epoch", "–" if steps is None else formats.count(steps)),
            )
        )
        epochs = self._fields.draft().get("epochs")
        self._rates.show_rates(check.rates, epochs if isinstance(epochs, int) else 0)
        self._command.setText(shlex.join(check.command))

    def _start_text(self) -> str:
        if not self._may_start:
            return self._verdict.text()
        if self._fields.swept.axes():
            return f"Queue {formats.plural(self._jobs, 'job')}"
        return f"Start on {_slots(self._picker.value())}"

    def _show_findings(self, findings: tuple[Finding, ...]) -> None:
        clear(self._findings)
        for finding in findings:
            icon, tone = ("check-circle-fill", "good") if finding.ok else ("x-circle-fill", "bad")
            words = col(Label(finding.sentence, "body", wrap=True), gap=0)
            if finding.remedy:
                words.addWidget(Label(finding.remedy, "small", "text2", wrap=True))
            self._findings.addLayout(row(IconLabel(icon, tone), (words, 1), top=True))


def _section(name: str, *items: Any) -> Card:
    head = Label(name, "heading")
    head.setFixedWidth(_SECTION_W)
    body = col(*items, gap=S3)
    return Card(row(col(head, STRETCH), (body, 1), gap=S3), margins=(S4, S3, S4, S4))


def _line(*fields: tuple[Field, int]) -> QHBoxLayout:
    line = row(*fields, gap=S3)
    for index in range(line.count()):
        item = line.itemAt(index)
        if item is not None:
            item.setAlignment(Qt.AlignmentFlag.AlignTop)
    return line


def _options(items: tuple[LibraryItem, ...]) -> tuple[tuple[str, str], ...]:
    newest: dict[str, int] = {}
    for item in items:
        newest[item.name] = max(item.version, newest.get(item.name, 0))
    return tuple(
        (
            item.name if item.version == newest[item.name] else item.reference,
            formats.version(item.name, item.version),
        )
        for item in items
    )


def _slots(placement: list[Mapping[str, Any]]) -> str:
    gpus = sum(len(p.get("gpus", ())) for p in placement)
    processes = sum(int(p.get("processes", 0)) for p in placement)
    return (
        formats.plural(gpus, "GPU") if gpus else formats.plural(processes, "process", "processes")
    )
