"""The left side of New job: cards for what to train, where, how, and what to keep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QWidget

from backend.records.jobs.config import (
    DEFAULT_OPTIMIZERS,
    LAMBDAS,
    CheckpointPolicy,
    StrategyConfig,
    default_scaling,
)
from backend.records.jobs.metric_names import usual_mode
from backend.records.jobs.schedulers import SCHEDULERS
from backend.records.jobs.script import USUAL_CHECKPOINTS
from backend.records.jobs.setting import HOW_SECTION, KEEP_SECTION, WHAT_SECTION
from backend.records.jobs.settings import (
    OPTIONS,
    SETTINGS,
    default_value,
    is_of,
    label,
    value_at,
    value_label,
)
from backend.records.nodes.partition import Partition
from widgets.common.banner import Banner
from widgets.common.buttons import Button, IconButton
from widgets.common.cards import Card
from widgets.common.fields import ComboBox, ErrorLine, Field, LineEdit, align_with_field
from widgets.common.labels import Label
from widgets.common.layout import STRETCH, col, row
from widgets.common.theme import FORM_MAX_W, PAGE_MARGIN, S1, S2, S3
from widgets.jobs.form.argument_fields import ArgumentFields
from widgets.jobs.form.cluster_fields import ClusterFields
from widgets.jobs.form.form_layout import COLUMNS, Details, grid, lay_out, line, section
from widgets.jobs.form.job_fields import JobFields
from widgets.jobs.form.load_dialog import TemplateStrip
from widgets.jobs.form.strategy_note import StrategyView
from widgets.jobs.form.sweep_card import SweepCard
from widgets.jobs.form.trial_status import TrialLine
from widgets.jobs.placement.placement_picker import PlacementPicker
from widgets.library.page_texts import GALLERY_ICON

_DEFAULT_METRIC = CheckpointPolicy.best_metric


def _rare_settings(section: str, *, script: bool = False) -> tuple[str, ...]:
    return tuple(
        path
        for path, s in SETTINGS.items()
        if s.section == section and s.is_rare and (s.job_kind == "script") == script
    )


_RARE_HOW = _rare_settings(HOW_SECTION)
_LOST_NODE_KEYS = ("nodes", "shrink", "at_least", "scaling", "grow", "silent_limit_s")
_FAILURE, _GIVE_WAY = "If a machine fails", label("gives_way")
_KEEP_GROUPS = {
    _FAILURE: tuple(f"on_failure.{key}" for key in ("retries", *_LOST_NODE_KEYS)),
    _GIVE_WAY: ("gives_way", "quiet_minutes"),
    "Stop": ("stall_limit_s", "stop_on_nan", "stop_on_divergence"),
    "Reproduce": ("seed", "loader_workers"),
}
_KEEP_GROUPS["Checkpoints"] = tuple(
    path
    for path in _rare_settings(KEEP_SECTION)
    if path not in {p for paths in _KEEP_GROUPS.values() for p in paths}
)
_KIND_SPECIFIC = tuple(
    path
    for path, s in SETTINGS.items()
    if s.section in (WHAT_SECTION, KEEP_SECTION)
    and not (is_of(path, script=True) and is_of(path, script=False))
)
"""The fields in What and Keep that only jobs with a model have, or only those with a script."""
_RARE_SCRIPT = (
    *_rare_settings(WHAT_SECTION, script=True),
    *_rare_settings(KEEP_SECTION, script=True),
)
_PLACEHOLDERS = {
    "entry": "found by itself",
    "start_from_except": "none, or fc.",
    "freeze": "none, or layer1.",
    "lr_of": "none, or layer1.=0.1",
    "checkpoint_files": ", ".join(USUAL_CHECKPOINTS),
    "log_numbers": "loss: {loss}",
    "total_epochs": "as the script says",
    "total_steps": "as the script says",
}
MODEL, SCRIPT = "model", "script"
"""The kinds of jobs: a model with its loader, or a script."""


class FormSections(QWidget):
    """The fields of the form as cards, one below the other.

    Attributes:
        picker: Where the job runs.
        sweep: The choice of the combinations of a sweep; hidden without a sweep.
        banner: A note about this job, such as a replay.
        templates: The templates for a new job; hidden while there are none.
        trial: The result of trying model, dataset and loader together.
        arguments: The fields of the arguments of a script.
        job_kind: The choice of a model or a script.
        gallery: Choose a model from the gallery.
        rate_button: Search for the learning rate, where the curve with its button has no space.

    Signals:
        partitions_requested: The name of a cluster that was chosen.
    """

    partitions_requested = Signal(str)

    def __init__(self, fields: JobFields, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._fields = fields
        self._asked_cluster = ""
        self.picker = PlacementPicker()
        self.sweep = SweepCard(fields)
        self.templates = TemplateStrip()
        self.trial = TrialLine()
        self.job_kind = ComboBox(((MODEL, "Model"), (SCRIPT, "Script")), name="Runs")
        self.gallery = Button("Gallery…", icon=GALLERY_ICON, tip="Networks that fit the data")
        self.rate_button = IconButton("magic-wand", "Find a rate… Tries rising learning rates")
        self._job_kind_field = Field("Runs", self.job_kind)
        self.banner = Banner(is_stacked=True)
        self.banner.hide()
        self._how_details = Details("Settings of strategy, optimizer and schedule")
        self._default_strategy = StrategyConfig.name
        self._strategy_note = StrategyView()
        self._strategy_names = ("", "")
        self._optimizer_names = ("", "")
        self._keep_details = Details("If a machine fails, stop conditions, seed")
        self._validation_details = Details(
            "Validation on other data", "Validation: of the same data"
        )
        self._how_errors, self._keep_errors = ErrorLine(), ErrorLine()
        self._keep_groups: dict[str, QWidget] = {}
        self._error_lines: dict[Field, ErrorLine] = {}
        self._shown_settings: dict[str, tuple[str, ...]] = dict.fromkeys(OPTIONS, ())
        self._settings_grid = grid()
        what_card, self._how_card = self._make_what_card(), self._make_how_card()
        self._keep_card = self._make_keep_card()
        cards = QWidget()
        cards.setMaximumWidth(PAGE_MARGIN + FORM_MAX_W)
        cards.setLayout(
            col(
                self.banner,
                self.templates,
                what_card,
                self._make_where_card(),
                self._how_card,
                self.sweep,
                self._keep_card,
                STRETCH,
                gap=S3,
                margins=(PAGE_MARGIN, 0, 0, S2),
            )
        )
        self.setLayout(row((cards, 1), gap=0))
        self._connect_names()
        fields.show({})
        self.fit_settings()
        self.fit_cluster()
        self._show_default_mode()
        self.show_job_kind(MODEL)
        self.show_default_strategy(StrategyConfig.name)
        fields.changed.connect(self.show_details)
        fields.changed.connect(self._fit_retention)
        fields.swept_fields.changed.connect(self._reveal_swept)

    def _connect_names(self) -> None:
        """Follow the names of strategy, optimizer and schedule, which have settings."""
        for table in self._shown_settings:
            control = self._fields.field(f"{table}.name").control
            if isinstance(control, ComboBox):
                control.currentIndexChanged.connect(self.fit_settings)
                if table == "strategy":
                    control.activated.connect(self._follow_strategy)
                if table == "optimizer":
                    control.activated.connect(self._follow_optimizer)

    def reveal(self, widget: QWidget) -> None:
        """Open the section that hides a part of the form."""
        for details in (
            self._how_details,
            self._keep_details,
            *(cluster.details for cluster in self._clusters),
            self._script_details,
            self._validation_details,
        ):
            if details.isAncestorOf(widget):
                details.open()

    @Slot()
    def _reveal_swept(self) -> None:
        for axis in self._fields.swept_fields.axes():
            self.reveal(self._fields.field(axis.path))

    @Slot()
    def show_details(self) -> None:
        """Show the settings of strategy and optimizer next to their names, if not the defaults.

        Their fields may be hidden.
        """
        draft = self._fields.draft()
        for owner, other_paths in (("strategy", ()), ("optimizer", _RARE_HOW)):
            texts = []
            for path in (*self._shown_settings[owner], *other_paths):
                table, _, key = path.rpartition(".")
                value = (draft.get(table, {}) if table else draft).get(key)
                field_label = self._fields.label(path)
                if value is True:
                    texts.append(field_label)
                elif value is not None and value is not False:
                    texts.append(f"{field_label.lower()} {self._fields.shown_text(path)}")
            control = self._fields.field(f"{owner}.name").control
            if isinstance(control, ComboBox):
                control.set_suffix(", ".join(texts))
        self._describe_strategy(draft.get("strategy", {}))

    def _describe_strategy(self, choices: Mapping[str, Any]) -> None:
        """Describe the strategy; the default of lambda depends on the variant."""
        self._strategy_note.show_strategy(self._strategy_names[1], choices)
        if "strategy.lambda" in self._shown_settings["strategy"]:
            line = self._fields.field("strategy.lambda").control
            default_lambda = LAMBDAS.get(self._fields.key("strategy.variant"))
            if isinstance(line, LineEdit) and default_lambda is not None:
                line.setPlaceholderText(f"{default_lambda:g}")

    @Slot()
    def fit_settings(self) -> None:
        """Show only the settings of the selected strategy, optimizer and schedule."""
        for table, options in OPTIONS.items():
            name = self._fields.key(f"{table}.name") or self._default_strategy
            if table == "strategy" and name != self._strategy_names[1]:
                self._strategy_names = (self._strategy_names[1], name)
            if table == "optimizer" and name != self._optimizer_names[1]:
                self._optimizer_names = (self._optimizer_names[1], name)
            settings = {k: s for k, s in options.get(name, {}).items() if s.label}
            paths = tuple(f"{table}.{key}" for key in settings)
            if paths == self._shown_settings[table] and paths:
                continue
            values = self._fields.draft().get(table, {})
            for path in self._shown_settings[table]:
                old_field = self._fields.field(path)
                self._how_errors.remove_field(old_field)
                self._fields.remove(path)
                old_field.hide()
                old_field.deleteLater()
            self._shown_settings[table] = paths
            self._how_errors.attach_fields(
                *(self._fields.option(f"{table}.{key}", s) for key, s in settings.items())
            )
            self._lay_out_settings()
            for key in settings:
                if key in values:
                    self._fields.show_value(f"{table}.{key}", values[key])
        self.show_details()

    @Slot()
    def _follow_strategy(self) -> None:
        """Describe a strategy that the user chose, and select its usual optimizer.

        An optimizer that was not the usual optimizer of the previous strategy stays.
        """
        previous_optimizer, new_optimizer = (
            DEFAULT_OPTIMIZERS.get(name, "sgd") for name in self._strategy_names
        )
        if self._fields.key("optimizer.name") == previous_optimizer:
            self._fields.show_value("optimizer.name", new_optimizer)
        self._how_details.open()

    @Slot()
    def _follow_optimizer(self) -> None:
        """Select the usual rate scaling of an optimizer that the user chose, as for a strategy."""
        previous_scaling, new_scaling = map(default_scaling, self._optimizer_names)
        if self._fields.key("strategy.lr_scaling") == previous_scaling:
            self._fields.show_value("strategy.lr_scaling", new_scaling)

    def _lay_out_settings(self) -> None:
        """Place the settings in rows; servers apply the learning rate without scaling."""
        strategy = self._shown_settings["strategy"]
        self._fields.field("strategy.lr_scaling").setVisible("strategy.servers" not in strategy)
        paths = (*self._shown_settings["optimizer"], *_RARE_HOW, *self._shown_settings["schedule"])
        lay_out(self._settings_grid, *(self._fields.field(path) for path in strategy))
        row_count = -(-len(strategy) // COLUMNS)
        lay_out(
            self._settings_grid, *(self._fields.field(path) for path in paths), first_row=row_count
        )

    def _make_what_card(self) -> Card:
        f = self._fields
        self._script_details = Details(
            "Python, signal to stop, numbers in the log, totals, and checkpoint files"
        )
        model, script = f.part("model"), f.part("script")
        self._gallery_holder = align_with_field(self.gallery)
        first_line = line(
            *((f.make("name", ""), 0), (self._job_kind_field, 0), (model, 0), (script, 0)),
            (self._gallery_holder, 0),
        )
        validation = self._validation_details
        validation_fields = f.pick("validation_dataset"), f.pick("validation_loader")
        validation.fill(row(*((field, 1) for field in validation_fields)))
        data_errors = ErrorLine()
        data_line = line(
            *((f.part("dataset"), 0), (f.part("loader"), 0), (f.start_from("start_from"), 0)),
            error_line=data_errors,
        )
        data_errors.attach_fields(*validation_fields)
        self._arguments = QWidget()
        arguments = line(
            (f.make("arguments", "such as --data {dataset} --out {output}"), 6),
            (f.make("resume_arguments", "such as --resume {checkpoint}"), 4),
            details=self._script_details,
            error_line=(script_errors := ErrorLine()),
        )
        self.arguments = ArgumentFields(f)
        arguments.addWidget(self.arguments)
        self._arguments.setLayout(arguments)
        rare_paths = ("entry", "processes_per", *_RARE_SCRIPT)
        rare_fields = [f.make(path, _PLACEHOLDERS.get(path)) for path in rare_paths]
        script_errors.attach_fields(*rare_fields)
        self._script_details.fill(grid(*rare_fields))
        return section(
            "What",
            first_line,
            data_line,
            self._arguments,
            self._script_details,
            row(validation.button, (self.trial, 1)),
            validation,
        )

    def show_job_kind(self, kind: str) -> None:
        """Show only the fields of jobs that run a model, or a script."""
        is_script = kind == SCRIPT
        self.job_kind.choose(kind)
        self._fields.runs_script = is_script
        for path in filter(self._fields.has_field, _KIND_SPECIFIC):
            self._fields.field(path).setVisible(is_of(path, script=is_script))
        self._fit_retention()
        self._how_card.setVisible(not is_script)
        self._arguments.setVisible(is_script)
        for axis in self._fields.swept_fields.axes():
            if not is_of(axis.path, script=is_script):
                self._fields.swept_fields.restore_single(axis.path)
        self.trial.setVisible(not is_script)
        self._gallery_holder.setVisible(not is_script)
        for details in (self._validation_details,) if is_script else (self._script_details,):
            details.hide()
        self._validation_details.button.setVisible(not is_script)

    def offer_job_kinds(self, is_offered: bool) -> None:
        """Show the choice between a model and a script."""
        self._job_kind_field.setVisible(is_offered)

    @Slot()
    def fit_placement(self) -> None:
        """Show the fields of jobs on several nodes or on GPUs only there, or if they are set."""
        placements, draft = self.picker.value(), self._fields.draft()
        uses_gpus = any(placement.get("gpus") for placement in placements)
        has_several_nodes = len(placements) > 1
        relevance = {f"on_failure.{key}": has_several_nodes for key in _LOST_NODE_KEYS}
        relevance |= dict.fromkeys(_KEEP_GROUPS[_GIVE_WAY], uses_gpus)
        for path, is_relevant in relevance.items():
            is_set = value_at(draft, path) not in (None, default_value(path))
            self._fields.field(path).setVisible(is_relevant or is_set)
        fields = map(self._fields.field, _KEEP_GROUPS[_GIVE_WAY])
        self._keep_groups[_GIVE_WAY].setVisible(not all(field.isHidden() for field in fields))

    @Slot()
    def _fit_retention(self) -> None:
        """Show how many checkpoints are kept, unless all of a script's are."""
        removes = self._fields.draft().get("remove_old_checkpoints") or not self._fields.runs_script
        for path in ("checkpoint.keep_latest", "checkpoint.keep_best"):
            self._fields.field(path).setVisible(bool(removes))

    def offer_clusters(self, schedulers: Mapping[str, str]) -> None:
        """Offer clusters, by name, with the key of the scheduler that chooses the nodes."""
        for cluster in self._clusters:
            cluster.offer([name for name, key in schedulers.items() if key == cluster.key])
        self.fit_cluster()

    def show_partitions(self, name: str, partitions: Sequence[Partition]) -> None:
        """Offer the partitions of the chosen cluster."""
        for cluster in self._clusters:
            cluster.show_partitions(name, partitions)

    def cluster(self) -> str:
        """Return the chosen cluster, "" for a job on chosen nodes."""
        return next((c.chosen() for c in self._clusters if c.chosen()), "")

    def unused_tables(self) -> tuple[str, ...]:
        """Return the tables of the job file for clusters of which none is chosen."""
        return tuple(cluster.key for cluster in self._clusters if not cluster.chosen())

    @Slot()
    def fit_cluster(self) -> None:
        """Show what a job asks of a scheduler in place of the nodes, if a cluster is chosen."""
        for cluster in self._clusters:
            cluster.fit()
        name = self.cluster()
        self.picker.setVisible(not name)
        if name != self._asked_cluster:
            self._asked_cluster = name
            if name:
                self.partitions_requested.emit(name)

    def _make_where_card(self) -> Card:
        self._clusters = [ClusterFields(self._fields, s) for s in SCHEDULERS.values()]
        for cluster in self._clusters:
            cluster.changed.connect(self.fit_cluster)
        return section("Where", *self._clusters, self.picker)

    def _make_how_card(self) -> Card:
        f = self._fields
        first_line = line(
            (f.make("epochs", ""), 15),
            (f.make("batch_size", ""), 23),
            (f.make("optimizer.name"), 36),
            (f.make("optimizer.lr", ""), 18),
            (f.make("strategy.lr_scaling"), 26),
        )
        second_line = line(
            (f.make("schedule.name"), 5),
            (f.make("schedule.warmup_epochs"), 4),
            (f.pick("strategy.name", ("", "")), 11),
            (f.make("precision"), 5),
            details=self._how_details,
            error_line=self._how_errors,
        )
        rare_fields = (f.make(path, _PLACEHOLDERS.get(path)) for path in _RARE_HOW)
        self._how_errors.attach_fields(*rare_fields)
        self._how_details.fill(self._strategy_note, self._settings_grid)
        return section("How", first_line, second_line, self._how_details, tool=self.rate_button)

    def _make_keep_card(self) -> Card:
        f = self._fields
        common_line = line(
            (f.make("checkpoint.every_epochs"), 10),
            (f.make("checkpoint.keep_latest"), 7),
            (f.make("checkpoint.keep_best"), 7),
            (self._make_metric_field(), 16),
            (f.make("early_stop.patience_epochs", "off"), 10),
            details=self._keep_details,
            error_line=self._keep_errors,
        )
        special_fields = {"checkpoint.best_mode": f.pick("checkpoint.best_mode", ("", ""))}
        for title, paths in _KEEP_GROUPS.items():
            fields = [special_fields.get(path) or f.make(path) for path in paths]
            error_line = ErrorLine()
            self._error_lines |= dict.fromkeys(fields, error_line)
            group = self._keep_groups[title] = QWidget()
            group.setLayout(col(Label(title, "strong"), grid(*fields), error_line, gap=S1))
        self._keep_details.fill(*self._keep_groups.values())
        self._keep_details.toggled.connect(self._place_errors)
        self._place_errors()
        return section("Keep", common_line, self._keep_details)

    @Slot()
    def _place_errors(self) -> None:
        """Show the errors of a group below the group, or of folded details above them."""
        for field, group_line in self._error_lines.items():
            for error_line in (group_line, self._keep_errors):
                error_line.remove_field(field)
            (self._keep_errors if self._keep_details.isHidden() else group_line).attach_fields(
                field
            )

    def _make_metric_field(self) -> Field:
        """Return the field for the metric of the best checkpoint; it sets the default direction."""
        field = self._fields.make("checkpoint.best_metric")
        if isinstance(field.control, LineEdit):
            field.control.textEdited.connect(self._follow_metric)
            field.control.textChanged.connect(self._show_default_mode)
        return field

    @Slot()
    def _follow_metric(self) -> None:
        """Reset the direction: it was chosen for another metric."""
        self._fields.show_value("checkpoint.best_mode", None)

    def show_default_strategy(self, strategy: str) -> None:
        """Show the strategy that the chosen nodes suggest as the default."""
        self._default_strategy = strategy
        control = self._fields.field("strategy.name").control
        if isinstance(control, ComboBox):
            self.fit_settings()
            label = value_label("strategy.name", strategy)
            control.setItemText(0, f"{label} (default)")

    @Slot()
    def _show_default_mode(self) -> None:
        """Show the direction that the metric's name suggests as the default, or ask."""
        control = self._fields.field("checkpoint.best_mode").control
        if isinstance(control, ComboBox):
            policy = self._fields.draft().get("checkpoint", {})
            mode = usual_mode(str(policy.get("best_metric", _DEFAULT_METRIC)))
            label = f"{value_label('checkpoint.best_mode', mode)} (default)"
            control.setItemText(0, label if mode else "choose…")
