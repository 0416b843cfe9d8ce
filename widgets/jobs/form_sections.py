"""The left of New job: what, where, how and what to keep, each field in its place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from PySide6.QtCore import Qt, Slot
from PySide6.QtWidgets import QHBoxLayout, QWidget

from backend.records.job import MODES, CheckpointPolicy
from backend.records.metric_words import usual_mode
from backend.records.setting_words import LABELS, value_words
from backend.records.torch_settings import OPTIMIZERS, SCHEDULES, Setting
from widgets.common.banner import Banner
from widgets.common.cards import Card
from widgets.common.fields import ComboBox, Field, LineEdit
from widgets.common.layout import STRETCH, clear, col, row
from widgets.common.text import Label
from widgets.common.theme import FORM_MAX_W, PAGE_MARGIN, S2, S3, S4
from widgets.jobs.job_fields import JobFields
from widgets.jobs.placement_picker import PlacementPicker
from widgets.jobs.sweep_card import SweepCard
from widgets.jobs.template_strip import TemplateStrip

SECTION_W = 64
_SETTINGS_A_ROW = 4
_BEST_BY = CheckpointPolicy.best_metric


class FormSections(QWidget):
    """The fields of the form as cards, one below the other.

    Attributes:
        picker: Where the job runs.
        sweep: How the combinations of several values are taken; hidden while there are none.
        banner: What is special about this job.
        templates: What a new job can begin with; hidden while there is nothing.
    """

    def __init__(self, fields: JobFields, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._fields = fields
        self.picker = PlacementPicker()
        self.sweep = SweepCard(fields)
        self.templates = TemplateStrip()
        self.banner = Banner(stacked=True)
        self.banner.hide()
        self._settings_of: dict[str, tuple[str, ...]] = {"optimizer": (), "schedule": ()}
        self._settings_rows = {"optimizer": col(gap=S2), "schedule": col(gap=S2)}
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
        self._say_usual_mode()

    @Slot()
    def fit_settings(self) -> None:
        """Show the settings of the chosen optimizer and schedule, and no others."""
        for table, known in (("optimizer", OPTIMIZERS), ("schedule", SCHEDULES)):
            name = self._fields.key(f"{table}.name")
            settings = {k: s for k, s in known.get(name, {}).items() if f"{table}.{k}" in LABELS}
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

    def _what(self) -> Card:
        f = self._fields
        return section(
            "What",
            _line((f.text("name"), 2), (f.choice("model"), 1)),
            _line(
                (f.choice("dataset"), 1),
                (f.choice("loader"), 1),
                (f.choice("validation_dataset"), 1),
                (f.choice("validation_loader"), 1),
            ),
            _line(
                (
                    f.text(
                        "start_from",
                        "the model’s weights or nothing: a job/checkpoint, a file, “nothing”",
                    ),
                    1,
                ),
            ),
        )

    def _how(self) -> Card:
        f = self._fields
        return section(
            "How",
            _line(
                (f.whole("epochs"), 2),
                (
                    f.whole(
                        "batch_size",
                    ),
                    3,
                ),
                (f.number("gradient_norm", "off"), 3),
                (f.choice("strategy.name"), 4),
            ),
            _line(
                (f.choice("optimizer.name"), 2),
                (f.number("optimizer.lr"), 2),
                (f.choice("strategy.lr_scaling"), 2),
            ),
            self._settings_rows["optimizer"],
            _line(
                (f.choice("schedule.name"), 2),
                (f.number("schedule.warmup_epochs", "0"), 2),
                (f.switch("mixed_precision"), 2),
            ),
            self._settings_rows["schedule"],
        )

    def _keep(self) -> Card:
        f = self._fields
        return section(
            "Keep",
            _line(
                (f.whole("checkpoint.every_epochs", "1"), 1),
                (f.whole("checkpoint.keep_latest", "2"), 1),
                (f.whole("checkpoint.keep_best", "1"), 1),
                (f.whole("seed", "1"), 1),
            ),
            _line(
                (self._best_by(), 2),
                (f.choice("checkpoint.best_mode", ("", "")), 1),
                (f.whole("early_stop.patience_epochs", "off"), 1),
            ),
            _line(
                (f.whole("loader_workers", "0"), 12),
                (f.number("stall_limit_s", "600"), 12),
                (f.switch("stop_on_nan"), 12),
                (f.switch("stop_on_divergence"), 17),
            ),
        )

    def _best_by(self) -> Field:
        """The field for what tells the best checkpoint; the next one follows it."""
        field = self._fields.text("checkpoint.best_metric", _BEST_BY)
        if isinstance(field.control, LineEdit):
            field.control.textEdited.connect(self._follow_metric)
            field.control.textChanged.connect(self._say_usual_mode)
        return field

    @Slot()
    def _follow_metric(self) -> None:
        """Another metric was typed: what was chosen for the one before does not count for it."""
        self._fields.show_one("checkpoint.best_mode", None)

    @Slot()
    def _say_usual_mode(self) -> None:
        """What stands for no choice is what the name of the metric suggests."""
        control = self._fields.field("checkpoint.best_mode").control
        if isinstance(control, ComboBox):
            policy = self._fields.draft().get("checkpoint", {})
            usual = usual_mode(str(policy.get("best_metric", _BEST_BY))) or MODES[0]
            control.setItemText(0, f"{value_words('checkpoint.best_mode', usual)}, as usual")


def section(name: str, *items: Any) -> Card:
    """A card of the form with its name on the left."""
    head = Label(name, "heading")
    head.setFixedWidth(SECTION_W)
    body = col(*items, gap=S3)
    return Card(row(col(head, STRETCH), (body, 1), gap=S3), margins=(S4, S3, S4, S4))


def _line(*fields: tuple[Field, int]) -> QHBoxLayout:
    line = row(*fields, gap=S3)
    for index in range(line.count()):
        item = line.itemAt(index)
        if item is not None:
            item.setAlignment(Qt.AlignmentFlag.AlignTop)
    return line
