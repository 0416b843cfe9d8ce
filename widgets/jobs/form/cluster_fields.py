"""The fields of a job whose nodes a scheduler chooses: cluster, partition, and what it asks for."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from backend.records.jobs.schedulers import ClusterScheduler
from backend.records.jobs.setting import declared_settings
from backend.records.nodes.partition import Partition
from widgets.common import formats
from widgets.common.fields import ComboBox, ErrorLine, LineEdit
from widgets.common.layout import col
from widgets.jobs.form.form_layout import Details, grid, line
from widgets.jobs.form.job_fields import JobFields

_WIDTHS = {"nodes": 5, "gpus": 4, "processes": 4, "time_limit_min": 5, "continues": 5}
"""The first fields, and their share of the line; those of other settings follow."""
_PLACEHOLDERS = {
    "time_limit_min": "the longest",
    "gpu_type": "any",
    "account": "your default",
    "qos": "its default",
    "constraint": "any node",
    "at_once": "no limit",
    "networks": "found by itself",
    "options": "none",
    "setup": "none",
}


class ClusterFields(QWidget):
    """The fields of one scheduler's table in the job file.

    Attributes:
        key: The table.
        details: The rare fields.

    Signals:
        changed: Another cluster was chosen, or none.
    """

    changed = Signal()

    def __init__(self, fields: JobFields, scheduler: ClusterScheduler) -> None:
        super().__init__()
        self._fields = fields
        self._scheduler = scheduler
        self.key = scheduler.key
        self._cluster = fields.pick(f"{self.key}.cluster", ("", "Chosen nodes"))
        self._partition = fields.pick(f"{self.key}.partition", ("", "its default"))
        tip = f"Kind of GPU, account, constraints and options of {scheduler.submit_command}"
        self.details = Details(tip)
        self._choice, self._body = QWidget(), QWidget()
        self._choice.setLayout(line((self._cluster, 4), (self._partition, 5)))
        settings = {
            key: setting
            for key, setting in declared_settings(scheduler.placement_type).items()
            if key not in ("cluster", "partition")
        }
        error_line = ErrorLine()
        usual_keys = [key for key, setting in settings.items() if not setting.is_rare]
        usual_keys.sort(key=lambda key: [*_WIDTHS, key].index(key))
        usual_fields = [
            (fields.make(f"{self.key}.{key}", _PLACEHOLDERS.get(key)), _WIDTHS.get(key, 5))
            for key in usual_keys
        ]
        self._body.setLayout(line(*usual_fields, details=self.details, error_line=error_line))
        rare_fields = [
            fields.make(f"{self.key}.{key}", _PLACEHOLDERS.get(key, ""))
            for key, setting in settings.items()
            if setting.is_rare
        ]
        error_line.attach_fields(*rare_fields)
        self.details.fill(grid(*rare_fields))
        self.setLayout(col(self._choice, self._body, self.details, gap=0))
        if isinstance(self._cluster.control, ComboBox):
            self._cluster.control.currentIndexChanged.connect(self.changed)
        if {"gpus", "processes"} <= settings.keys():
            gpus = fields.field(f"{self.key}.gpus").control
            assert isinstance(gpus, LineEdit), "it is a number"
            gpus.textChanged.connect(self._fit_processes)

    def chosen(self) -> str:
        """Return the chosen cluster, "" for none."""
        return self._fields.key(f"{self.key}.cluster")

    def offer(self, names: Sequence[str]) -> None:
        """Offer clusters in which the scheduler chooses the nodes."""
        options = ((name, f"{name}, by {self._scheduler.name}") for name in names)
        self._fields.set_options(f"{self.key}.cluster", (("", "Chosen nodes"), *options))

    def show_partitions(self, name: str, partitions: Sequence[Partition]) -> None:
        """Offer the partitions of a cluster if it is still chosen."""
        if name == self.chosen():
            options = ((p.name, _partition_label(p)) for p in partitions)
            self._fields.set_options(f"{self.key}.partition", (("", "its default"), *options))

    def fit(self) -> None:
        """Show the fields of a chosen cluster, and the choice if there is one."""
        is_chosen = bool(self.chosen())
        control = self._cluster.control
        self._choice.setVisible(isinstance(control, ComboBox) and control.count() > 1)
        for part in (self._partition, self._body):
            part.setVisible(is_chosen)
        if not is_chosen:
            self.details.hide()

    def _fit_processes(self, gpus: str) -> None:
        """Hide the number of processes of a job on GPUs, which has one for each."""
        processes = self._fields.field(f"{self.key}.processes")
        has_gpus = gpus.strip() not in ("", "0")
        if has_gpus and isinstance(processes.control, LineEdit):
            processes.control.clear()
        processes.setVisible(not has_gpus)


def _partition_label(partition: Partition) -> str:
    limit_s = partition.time_limit_s
    parts = (
        partition.name if partition.is_up else f"{partition.name}, down",
        "no limit" if limit_s is None else formats.duration(limit_s),
        partition.gpu_label or formats.plural(len(partition.nodes), "node"),
    )
    return " · ".join(parts)
