"""The left of New job: what, where, how and what to keep, each field in its place."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import Qt, Slot
from PySide6.QtWidgets import QGridLayout, QVBoxLayout, QWidget

from backend.records.job import LR_SCALINGS, STRATEGIES
from backend.records.torch_settings import OPTIMIZERS, SCHEDULES
from widgets.common.banner import Banner
from widgets.common.cards import Card
from widgets.common.fields import ComboBox, FaultLine, Field, beside_field
from widgets.common.layout import STRETCH, col, row
from widgets.common.text import Label
from widgets.common.theme import FORM_MAX_W, PAGE_MARGIN, S1, S2, S3, S4
from widgets.jobs.details import Details
from widgets.jobs.job_fields import JobFields
from widgets.jobs.placement_picker import PlacementPicker
from widgets.jobs.sweep_card import SweepCard
from widgets.jobs.template_strip import TemplateStrip
from widgets.jobs.trial_line import TrialLine

SECTION_W = 64
_SETTINGS_A_ROW = 4
_NORM = "gradient_norm"
_TOP = Qt.AlignmentFlag.AlignTop
_OPTIMIZER_TITLES = {
    "sgd": "SGD",
    "adam": "Adam",
    "adamw": "AdamW",
    "adagrad": "Adagrad",
    "adadelta": "Adadelta",
    "rmsprop": "RMSprop",
}
_STRATEGY_TITLES = {"allreduce": "Allreduce", "alone": "One process, no Horovod"}
_SCALING_TITLES = {"linear": "times processes", "sqrt": "times their root", "none": "as given"}


class FormSections(QWidget):
    """The fields of the form as cards, one below the other.

    Attributes:
        picker: Where the job runs.
        sweep: How the combinations of several values are taken; hidden while there are none.
        banner: What is special about this job.
        templates: What a new job can begin with; hidden while there is nothing.
        trial: Whether model, dataset and loader were tried together.
    """

    def __init__(self, fields: JobFields, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._fields = fields
        self.picker = PlacementPicker()
        self.sweep = SweepCard(fields)
        self.templates = TemplateStrip()
        self.trial = TrialLine()
        self.banner = Banner(stacked=True)
        self.banner.hide()
        self._how_more = Details("Settings of the optimizer and the schedule")
        self._keep_more = Details("Seed, loader and when to stop")
        self._how_faults, self._keep_faults = FaultLine(), FaultLine()
        self._settings_of: dict[str, tuple[str, ...]] = {"optimizer": (), "schedule": ()}
        self._settings = QGridLayout()
        self._settings.setHorizontalSpacing(S2)
        for column in range(_SETTINGS_A_ROW):
            self._settings.setColumnStretch(column, 1)
        cards = QWidget()
        cards.setMaximumWidth(PAGE_MARGIN + FORM_MAX_W)
        cards.setLayout(
            col(
                self.banner,
                self.templates,
                self._what(),
                section("Where", self.picker),
                self._how(),
                self.sweep,
                self._keep(),
                STRETCH,
                gap=S3,
                margins=(PAGE_MARGIN, 0, 0, S4),
            )
        )
        self.setLayout(row((cards, 1), gap=0))
        for table in self._settings_of:
            control = fields.field(f"{table}.name").control
            if isinstance(control, ComboBox):
                control.currentIndexChanged.connect(self.fit_settings)
        fields.show({"stop_on_nan": True})
        self.fit_settings()
        fields.changed.connect(self.say_details)
        fields.swept.changed.connect(self._reveal_swept)

    def reveal(self, part: QWidget) -> None:
        """Open what hides a part of the form."""
        for details in (self._how_more, self._keep_more):
            if details.isAncestorOf(part):
                details.open()

    @Slot()
    def _reveal_swept(self) -> None:
        for axis in self._fields.swept.axes():
            self.reveal(self._fields.field(axis.path))

    @Slot()
    def say_details(self) -> None:
        """Beside the optimizer: what of its settings is given, for its fields may be hidden."""
        draft = self._fields.draft()
        said = []
        for path in (*self._settings_of["optimizer"], _NORM):
            table, _, key = path.rpartition(".")
            value = (draft.get(table, {}) if table else draft).get(key)
            label = self._fields.label(path)
            if value is True:
                said.append(label)
            elif value is not None:
                said.append(f"{label.lower()} {self._fields.shown(path)}")
        control = self._fields.field("optimizer.name").control
        if isinstance(control, ComboBox):
            control.set_aside(", ".join(said))

    @Slot()
    def fit_settings(self) -> None:
        """Show the settings of the chosen optimizer and schedule, and no others."""
        for table, known in (("optimizer", OPTIMIZERS), ("schedule", SCHEDULES)):
            name = self._fields.key(f"{table}.name")
            settings = {k: s for k, s in known.get(name, {}).items() if s.label}
            wanted = tuple(f"{table}.{key}" for key in settings)
            if wanted == self._settings_of[table] and wanted:
                continue
            kept = self._fields.draft().get(table, {})
            for path in self._settings_of[table]:
                old = self._fields.field(path)
                self._how_faults.leave(old)
                self._fields.forget(path)
                old.hide()
                old.deleteLater()
            self._settings_of[table] = wanted
            self._how_faults.stand_below(
                *(self._fields.setting(f"{table}.{key}", s) for key, s in settings.items())
            )
            self._lay_settings()
            for key in settings:
                if key in kept:
                    self._fields.show_one(f"{table}.{key}", kept[key])
        self.say_details()

    def _lay_settings(self) -> None:
        """In rows: of the optimizer, then of the schedule."""
        paths = (*self._settings_of["optimizer"], _NORM, *self._settings_of["schedule"])
        for number, path in enumerate(paths):
            field = self._fields.field(path)
            self._settings.addWidget(field, *divmod(number, _SETTINGS_A_ROW), _TOP)

    def _what(self) -> Card:
        f = self._fields
        return section(
            "What",
            _line(
                (f.text("name", "Name"), 8),
                (f.choice("model", "Model"), 5),
                (f.start_from("start_from", "Start from"), 5),
            ),
            _line(
                (f.choice("dataset", "Dataset"), 1),
                (f.choice("loader", "Loader"), 1),
                (f.choice("validation_dataset", "Validation dataset"), 1),
                (f.choice("validation_loader", "Validation loader"), 1),
            ),
            self.trial,
        )

    def _how(self) -> Card:
        f = self._fields
        choices = tuple((name, _OPTIMIZER_TITLES[name]) for name in OPTIMIZERS)
        schedules = tuple((name, name.capitalize()) for name in SCHEDULES)
        strategies = tuple((name, _STRATEGY_TITLES[name]) for name in STRATEGIES)
        scalings = tuple((name, _SCALING_TITLES[name]) for name in LR_SCALINGS)
        first = _line(
            (f.whole("epochs", "Epochs"), 6),
            (f.whole("batch_size", "Batch size", "per process"), 12),
            (f.choice("optimizer.name", "Optimizer", choices), 18),
            (f.number("optimizer.lr", "Learning rate"), 8),
            (f.choice("strategy.lr_scaling", "With more processes", scalings), 15),
        )
        second = _line(
            (f.choice("schedule.name", "Schedule", schedules), 5),
            (f.number("schedule.warmup_epochs", "Warm-up", "epochs", "0"), 5),
            (f.choice("strategy.name", "Strategy", strategies), 6),
            (f.switch("mixed_precision", "Half precision, on GPUs"), 7),
            more=self._how_more,
            faults=self._how_faults,
        )
        self._how_faults.stand_below(f.number(_NORM, "Gradient norm", placeholder="off"))
        self._how_more.fill(self._settings)
        return section("How", first, second, self._how_more)

    def _keep(self) -> Card:
        f = self._fields
        usual = _line(
            (f.whole("checkpoint.every_epochs", "Checkpoint every", "epochs", "1"), 1),
            (f.whole("checkpoint.keep_latest", "Keep latest", placeholder="2"), 1),
            (f.whole("checkpoint.keep_best", "Keep best", placeholder="1"), 1),
            (f.whole("early_stop.patience_epochs", "Stop early after", "epochs", "off"), 1),
            more=self._keep_more,
            faults=self._keep_faults,
        )
        rare = (
            (f.whole("seed", "Seed", placeholder="1"), 7),
            (f.whole("loader_workers", "Loader workers", placeholder="0"), 12),
            (f.number("stall_limit_s", "Silent at most", "s", "600"), 12),
            (f.switch("stop_on_nan", "Stop on NaN"), 12),
            (f.switch("stop_on_divergence", "Stop when it diverges"), 17),
        )
        self._keep_faults.stand_below(*(field for field, _ in rare))
        self._keep_more.fill(row(*rare, gap=S2, top=True))
        return section("Keep", usual, self._keep_more)


def section(name: str, *items: Any) -> Card:
    """A card of the form with its name on the left."""
    head = Label(name, "heading")
    head.setFixedWidth(SECTION_W)
    body = col(*items, gap=0)
    return Card(row(col(head, STRETCH), (body, 1), gap=S3), margins=(S4, S2, S4, S1))


def _line(
    *fields: tuple[Field, int], more: Details | None = None, faults: FaultLine | None = None
) -> QVBoxLayout:
    """Fields side by side, and below them the room for what is wrong with them."""
    below = faults or FaultLine()
    below.stand_below(*(field for field, _ in fields))
    button = beside_field(more.button) if more is not None else None
    return col(row(*fields, button, gap=S2, top=True), below, gap=0)
