"""The left side of New job: cards for what to train, where, how, and what to keep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from PySide6.QtCore import QCoreApplication, QEvent, Qt, QTimer, Signal, Slot
from PySide6.QtWidgets import QGridLayout, QScrollArea, QVBoxLayout, QWidget

from backend.records.jobs.config import (
    LAMBDAS,
    USUAL_OPTIMIZERS,
    CheckpointPolicy,
    StrategyConfig,
)
from backend.records.jobs.metric_labels import usual_mode
from backend.records.jobs.script import USUAL_CHECKPOINTS
from backend.records.jobs.setting import HOW, KEEP, WHAT
from backend.records.jobs.settings import (
    OPTIONS,
    SETTINGS,
    is_of,
    label,
    usual,
    value_at,
    value_words,
)
from widgets.common.banner import Banner
from widgets.common.buttons import Button
from widgets.common.cards import Card
from widgets.common.fields import ComboBox, FaultLine, Field, LineEdit, beside_field
from widgets.common.labels import Label
from widgets.common.layout import STRETCH, Item, col, row
from widgets.common.theme import FORM_MAX_W, PAGE_MARGIN, S1, S2, S3, S4
from widgets.jobs.form.argument_fields import ArgumentFields
from widgets.jobs.form.job_fields import JobFields
from widgets.jobs.form.strategy_note import StrategyView
from widgets.jobs.form.sweep_card import SweepCard
from widgets.jobs.form.template_strip import TemplateStrip
from widgets.jobs.form.trial_status import TrialLine
from widgets.jobs.placement.placement_picker import PlacementPicker
from widgets.library.page_texts import GALLERY_ICON

SECTION_W = 64
_A_ROW = 4
_BEST_BY = CheckpointPolicy.best_metric


def _rare(section: str, *, script: bool = False) -> tuple[str, ...]:
    return tuple(
        path
        for path, s in SETTINGS.items()
        if s.section == section and s.is_rare and (s.of == "script") == script
    )


_RARE_HOW = _rare(HOW)
_OF_LOST_NODES = ("nodes", "shrink", "at_least", "scaling", "grow", "silent_limit_s")
_FAILURE, _GIVE_WAY = "If a machine fails", label("gives_way")
_KEEP_GROUPS = {
    _FAILURE: tuple(f"on_failure.{key}" for key in ("retries", *_OF_LOST_NODES)),
    _GIVE_WAY: ("gives_way", "quiet_minutes"),
    "Stop": ("stall_limit_s", "stop_on_nan", "stop_on_divergence"),
    "Reproduce": ("seed", "loader_workers"),
}
_KEEP_GROUPS["Checkpoints"] = tuple(
    path
    for path in _rare(KEEP)
    if path not in {p for paths in _KEEP_GROUPS.values() for p in paths}
)
_OF_ONE = tuple(
    path
    for path, s in SETTINGS.items()
    if s.section in (WHAT, KEEP) and not (is_of(path, script=True) and is_of(path, script=False))
)
"""The fields in What and Keep that only jobs with a model have, or only those with a script."""
_RARE_OF_SCRIPT = (*_rare(WHAT, script=True), *_rare(KEEP, script=True))
_PLACEHOLDERS = {
    "entry": "found by itself",
    "checkpoint_files": ", ".join(USUAL_CHECKPOINTS),
    "log_numbers": "loss: {loss}",
    "total_epochs": "as the script says",
    "total_steps": "as the script says",
}
MODEL, SCRIPT = "model", "script"
"""What a job runs: a model with its loader, or a script."""


class FormSections(QWidget):
    """The fields of the form as cards, one below the other.

    Attributes:
        picker: Where the job runs.
        sweep: How a sweep takes its combinations of values; hidden without one.
        banner: What is special about this job.
        templates: The templates for a new job; hidden while there are none.
        trial: The result of trying model, dataset and loader together.
        arguments: The fields of the arguments of a script.
        runs: Whether the job runs a model or a script.
        gallery: Choose a model from the gallery.
    """

    def __init__(self, fields: JobFields, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._fields = fields
        self.picker = PlacementPicker()
        self.sweep = SweepCard(fields)
        self.templates = TemplateStrip()
        self.trial = TrialLine()
        self.runs = ComboBox(((MODEL, "Model"), (SCRIPT, "Script")), name="Runs")
        self.gallery = Button("Gallery…", icon=GALLERY_ICON, tip="Networks that fit the data")
        self._runs_field = Field("Runs", self.runs)
        self.banner = Banner(stacked=True)
        self.banner.hide()
        self._how_more = Details("Settings of strategy, optimizer and schedule")
        self._usual_strategy = StrategyConfig.name
        self._strategy_note = StrategyView()
        self._strategies = ("", "")
        self._keep_more = Details("If a machine fails, stop conditions, seed")
        self._validation = Details("Validation on other data", "Validation: of the same data")
        self._how_faults, self._keep_faults = FaultLine(), FaultLine()
        self._keep_groups: dict[str, QWidget] = {}
        self._keep_lines: dict[Field, FaultLine] = {}
        self._settings_of: dict[str, tuple[str, ...]] = dict.fromkeys(OPTIONS, ())
        self._settings = _grid()
        what, self._how_card, self._keep_card = self._what(), self._how(), self._keep()
        cards = QWidget()
        cards.setMaximumWidth(PAGE_MARGIN + FORM_MAX_W)
        cards.setLayout(
            col(
                self.banner,
                self.templates,
                what,
                section("Where", self.picker),
                self._how_card,
                self.sweep,
                self._keep_card,
                STRETCH,
                gap=S3,
                margins=(PAGE_MARGIN, 0, 0, S2),
            )
        )
        self.setLayout(row((cards, 1), gap=0))
        for table in self._settings_of:
            control = fields.field(f"{table}.name").control
            if isinstance(control, ComboBox):
                control.currentIndexChanged.connect(self.fit_settings)
                if table == "strategy":
                    control.activated.connect(self._follow_strategy)
        fields.show({"stop_on_nan": True})
        self.fit_settings()
        self._say_usual_mode()
        self.show_runs(MODEL)
        self.say_usual_strategy(StrategyConfig.name)
        fields.changed.connect(self.say_details)
        fields.changed.connect(self._fit_retention)
        fields.swept.changed.connect(self._reveal_swept)

    def reveal(self, part: QWidget) -> None:
        """Open the section that hides a part of the form."""
        for details in (self._how_more, self._keep_more, self._script_more, self._validation):
            if details.isAncestorOf(part):
                details.open()

    @Slot()
    def _reveal_swept(self) -> None:
        for axis in self._fields.swept.axes():
            self.reveal(self._fields.field(axis.path))

    @Slot()
    def say_details(self) -> None:
        """Show the settings of strategy and optimizer next to their names, if not the defaults.

        Their fields may be hidden.
        """
        draft = self._fields.draft()
        for owner, more in (("strategy", ()), ("optimizer", _RARE_HOW)):
            said = []
            for path in (*self._settings_of[owner], *more):
                table, _, key = path.rpartition(".")
                value = (draft.get(table, {}) if table else draft).get(key)
                field_label = self._fields.label(path)
                if value is True:
                    said.append(field_label)
                elif value is not None:
                    said.append(f"{field_label.lower()} {self._fields.shown(path)}")
            control = self._fields.field(f"{owner}.name").control
            if isinstance(control, ComboBox):
                control.set_aside(", ".join(said))
        self._describe_strategy(draft.get("strategy", {}))

    def _describe_strategy(self, chosen: Mapping[str, Any]) -> None:
        """Describe the strategy; the default of lambda depends on the variant."""
        self._strategy_note.show_strategy(self._strategies[1], chosen)
        if "strategy.lambda" in self._settings_of["strategy"]:
            line = self._fields.field("strategy.lambda").control
            usual = LAMBDAS.get(self._fields.key("strategy.variant"))
            if isinstance(line, LineEdit) and usual is not None:
                line.setPlaceholderText(f"{usual:g}")

    @Slot()
    def fit_settings(self) -> None:
        """Show only the settings of the selected strategy, optimizer and schedule."""
        for table, known in OPTIONS.items():
            name = self._fields.key(f"{table}.name") or self._usual_strategy
            if table == "strategy" and name != self._strategies[1]:
                self._strategies = (self._strategies[1], name)
            settings = {k: s for k, s in known.get(name, {}).items() if s.label}
            wanted = tuple(f"{table}.{key}" for key in settings)
            if wanted == self._settings_of[table] and wanted:
                continue
            kept = self._fields.draft().get(table, {})
            for path in self._settings_of[table]:
                old = self._fields.field(path)
                self._how_faults.leave(old)
                self._fields.remove(path)
                old.hide()
                old.deleteLater()
            self._settings_of[table] = wanted
            self._how_faults.stand_below(
                *(self._fields.option(f"{table}.{key}", s) for key, s in settings.items())
            )
            self._lay_settings()
            for key in settings:
                if key in kept:
                    self._fields.show_one(f"{table}.{key}", kept[key])
        self.say_details()

    @Slot()
    def _follow_strategy(self) -> None:
        """Describe a strategy that the user chose, and select its usual optimizer.

        An optimizer that was not the usual one of the strategy before stays.
        """
        before, now = (USUAL_OPTIMIZERS.get(name, "sgd") for name in self._strategies)
        if self._fields.key("optimizer.name") == before:
            self._fields.show_one("optimizer.name", now)
        self._how_more.open()

    def _lay_settings(self) -> None:
        """Place the settings in rows; servers apply the learning rate without scaling."""
        strategy = self._settings_of["strategy"]
        self._fields.field("strategy.lr_scaling").setVisible("strategy.servers" not in strategy)
        paths = (*self._settings_of["optimizer"], *_RARE_HOW, *self._settings_of["schedule"])
        _lay(self._settings, *(self._fields.field(path) for path in strategy))
        below = -(-len(strategy) // _A_ROW)
        _lay(self._settings, *(self._fields.field(path) for path in paths), below=below)

    def _what(self) -> Card:
        f = self._fields
        self._script_more = Details(
            "Python, signal to stop, numbers in the log, totals, and checkpoint files"
        )
        model, script = f.part("model"), f.part("script")
        self._gallery_holder = beside_field(self.gallery)
        first = _line(
            *((f.make("name", ""), 0), (self._runs_field, 0), (model, 0), (script, 0)),
            (self._gallery_holder, 0),
        )
        validation = self._validation
        others = f.pick("validation_dataset"), f.pick("validation_loader")
        validation.fill(row(*((field, 1) for field in others)))
        faults = FaultLine()
        data = _line(
            *((f.part("dataset"), 0), (f.part("loader"), 0), (f.start_from("start_from"), 0)),
            faults=faults,
        )
        faults.stand_below(*others)
        self._arguments = QWidget()
        arguments = _line(
            (f.make("arguments", "such as --data {dataset} --out {output}"), 6),
            (f.make("resume_arguments", "such as --resume {checkpoint}"), 4),
            more=self._script_more,
            faults=(script_faults := FaultLine()),
        )
        self.arguments = ArgumentFields(f)
        arguments.addWidget(self.arguments)
        self._arguments.setLayout(arguments)
        rare = ("entry", "processes_per", *_RARE_OF_SCRIPT)
        rare_fields = [f.make(path, _PLACEHOLDERS.get(path)) for path in rare]
        script_faults.stand_below(*rare_fields)
        self._script_more.fill(_grid(*rare_fields))
        return section(
            "What",
            first,
            data,
            self._arguments,
            self._script_more,
            row(validation.button, (self.trial, 1)),
            validation,
        )

    def show_runs(self, what: str) -> None:
        """Show only the fields of jobs that run a model, or a script."""
        is_script = what == SCRIPT
        self.runs.choose(what)
        self._fields.runs_script = is_script
        for path in filter(self._fields.has, _OF_ONE):
            self._fields.field(path).setVisible(is_of(path, script=is_script))
        self._fit_retention()
        self._how_card.setVisible(not is_script)
        self._arguments.setVisible(is_script)
        for axis in self._fields.swept.axes():
            if not is_of(axis.path, script=is_script):
                self._fields.swept.give_up(axis.path)
        self.trial.setVisible(not is_script)
        self._gallery_holder.setVisible(not is_script)
        for details in (self._validation,) if is_script else (self._script_more,):
            details.hide()
        self._validation.button.setVisible(not is_script)

    def offer_runs(self, offers: bool) -> None:
        """Show the choice between a model and a script."""
        self._runs_field.setVisible(offers)

    @Slot()
    def fit_placement(self) -> None:
        """Show what only jobs on several nodes, or on GPUs, have, and what is set."""
        placements, draft = self.picker.value(), self._fields.draft()
        uses_gpus = any(placement.get("gpus") for placement in placements)
        several = len(placements) > 1
        applies = {f"on_failure.{key}": several for key in _OF_LOST_NODES}
        applies |= dict.fromkeys(_KEEP_GROUPS[_GIVE_WAY], uses_gpus)
        for path, does in applies.items():
            is_set = value_at(draft, path) not in (None, usual(path))
            self._fields.field(path).setVisible(does or is_set)
        fields = map(self._fields.field, _KEEP_GROUPS[_GIVE_WAY])
        self._keep_groups[_GIVE_WAY].setVisible(not all(field.isHidden() for field in fields))

    @Slot()
    def _fit_retention(self) -> None:
        """Show how many checkpoints are kept, unless all of a script's are."""
        removes = self._fields.draft().get("remove_old_checkpoints") or not self._fields.runs_script
        for path in ("checkpoint.keep_latest", "checkpoint.keep_best"):
            self._fields.field(path).setVisible(bool(removes))

    def _how(self) -> Card:
        f = self._fields
        first = _line(
            (f.make("epochs", ""), 15),
            (f.make("batch_size", ""), 23),
            (f.make("optimizer.name"), 36),
            (f.make("optimizer.lr", ""), 18),
            (f.make("strategy.lr_scaling"), 26),
        )
        second = _line(
            (f.make("schedule.name"), 5),
            (f.make("schedule.warmup_epochs"), 4),
            (f.pick("strategy.name", ("", "")), 11),
            (f.make("precision"), 5),
            more=self._how_more,
            faults=self._how_faults,
        )
        self._how_faults.stand_below(*map(f.make, _RARE_HOW))
        self._how_more.fill(self._strategy_note, self._settings)
        return section("How", first, second, self._how_more)

    def _keep(self) -> Card:
        f = self._fields
        usual = _line(
            (f.make("checkpoint.every_epochs"), 10),
            (f.make("checkpoint.keep_latest"), 7),
            (f.make("checkpoint.keep_best"), 7),
            (self._best_by(), 16),
            (f.make("early_stop.patience_epochs", "off"), 10),
            more=self._keep_more,
            faults=self._keep_faults,
        )
        made = {"checkpoint.best_mode": f.pick("checkpoint.best_mode", ("", ""))}
        for title, paths in _KEEP_GROUPS.items():
            fields = [made.get(path) or f.make(path) for path in paths]
            faults = FaultLine()
            self._keep_lines |= dict.fromkeys(fields, faults)
            group = self._keep_groups[title] = QWidget()
            group.setLayout(col(Label(title, "strong"), _grid(*fields), faults, gap=S1))
        self._keep_more.fill(*self._keep_groups.values())
        self._keep_more.turned.connect(self._place_faults)
        self._place_faults()
        return section("Keep", usual, self._keep_more)

    @Slot()
    def _place_faults(self) -> None:
        """Show the faults of a group below it, or of a folded one below the fields above."""
        for field, own_line in self._keep_lines.items():
            for line in (own_line, self._keep_faults):
                line.leave(field)
            (self._keep_faults if self._keep_more.isHidden() else own_line).stand_below(field)

    def _best_by(self) -> Field:
        """Return the field for the metric of the best checkpoint; it sets the default direction."""
        field = self._fields.make("checkpoint.best_metric")
        if isinstance(field.control, LineEdit):
            field.control.textEdited.connect(self._follow_metric)
            field.control.textChanged.connect(self._say_usual_mode)
        return field

    @Slot()
    def _follow_metric(self) -> None:
        """Reset the direction: it was chosen for another metric."""
        self._fields.show_one("checkpoint.best_mode", None)

    def say_usual_strategy(self, usual: str) -> None:
        """Show the strategy that the chosen nodes suggest as the default."""
        self._usual_strategy = usual
        control = self._fields.field("strategy.name").control
        if isinstance(control, ComboBox):
            self.fit_settings()
            words = value_words("strategy.name", usual)
            control.setItemText(0, f"{words} (default)")

    @Slot()
    def _say_usual_mode(self) -> None:
        """Show the direction that the metric's name suggests as the default, or ask."""
        control = self._fields.field("checkpoint.best_mode").control
        if isinstance(control, ComboBox):
            policy = self._fields.draft().get("checkpoint", {})
            usual = usual_mode(str(policy.get("best_metric", _BEST_BY)))
            words = f"{value_words('checkpoint.best_mode', usual)} (default)"
            control.setItemText(0, words if usual else "choose…")


def section(name: str, *items: Any) -> Card:
    """Return a card of the form with its name on the left."""
    head = Label(name, "heading")
    head.setFixedWidth(SECTION_W)
    body = col(*items, gap=0)
    return Card(row(col(head, STRETCH), (body, 1), gap=S3), margins=(S4, S2, S4, S1))


def _line(
    *fields: tuple[QWidget, int], more: Details | None = None, faults: FaultLine | None = None
) -> QVBoxLayout:
    """Return fields side by side, with a line for their errors below."""
    below = faults or FaultLine()
    below.stand_below(*(field for field, _ in fields if isinstance(field, Field)))
    button = beside_field(more.button) if more is not None else None
    return col(row(*fields, button, gap=S2, top=True), below, gap=0)


def _grid(*fields: Field) -> QGridLayout:
    """Return a grid with rows of fields."""
    grid = QGridLayout()
    grid.setHorizontalSpacing(S2)
    for column in range(_A_ROW):
        grid.setColumnStretch(column, 1)
    _lay(grid, *fields)
    return grid


def _lay(grid: QGridLayout, *fields: Field, below: int = 0) -> None:
    """Place fields in rows; ``below`` rows are above them."""
    for number, field in enumerate(fields, below * _A_ROW):
        grid.addWidget(field, *divmod(number, _A_ROW), Qt.AlignmentFlag.AlignTop)


class Details(QWidget):
    """A section of rarely changed fields, hidden until its button is pressed.

    Attributes:
        button: The button; the owner places it.

    Signals:
        turned: It was opened or folded.
    """

    turned = Signal()

    def __init__(self, what: str, text: str = "") -> None:
        """``text``: of the button, if it is not More and then Less."""
        super().__init__()
        self._texts = (text, text) if text else ("More", "Less")
        self.button = Button(self._texts[0], kind="quiet", icon="caret-down", tip=what)
        # A fixed width: "More" and "Less" then take the same space.
        self.button.setFixedWidth(self.button.sizeHint().width())
        self.button.clicked.connect(self._turn)
        self.hide()

    def fill(self, *lines: Item) -> None:
        self.setLayout(col(*lines, gap=S2, margins=(0, 0, 0, S2)))

    def open(self) -> None:
        if self.isHidden():
            self._turn()

    @Slot()
    def _turn(self) -> None:
        self.setVisible(self.isHidden())
        is_open = not self.isHidden()
        self.button.setText(self._texts[is_open])
        self.button.set_icon("caret-up" if is_open else "caret-down")
        self.turned.emit()
        if is_open:
            # The page gets its new height with the next layout.
            QTimer.singleShot(0, self, self._bring_in)

    @Slot()
    def _bring_in(self) -> None:
        QCoreApplication.sendPostedEvents(None, QEvent.Type.LayoutRequest)
        page = self.parentWidget()
        while page is not None and not isinstance(page, QScrollArea):
            page = page.parentWidget()
        if page is not None:
            page.ensureWidgetVisible(self, 0, S4)
