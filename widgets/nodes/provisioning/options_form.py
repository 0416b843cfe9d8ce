"""The options of a set-up: a switch for each, its purpose, and any conflict."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from backend.records.nodes.provisioning_options import (
    IN_JOB,
    LIMITS_KEY,
    SHARED,
    SYSTEM_MPI,
    WITHOUT_HOROVOD,
    SetUpOptions,
    offers_job,
)
from widgets.common.buttons import Switch
from widgets.common.fields import LineEdit
from widgets.common.labels import Label
from widgets.common.layout import STRETCH, col, row
from widgets.common.theme import S1, S3

_CHOICE_TEXTS = {
    SYSTEM_MPI: (
        "Use the nodes' own Open MPI",
        "For an Open MPI tuned for the nodes' network: 4.1 or 5.0, same everywhere.",
    ),
    SHARED: (
        "One environment for all nodes",
        "Installed once, in the data root, which each start reads. For small home folders.",
    ),
    LIMITS_KEY: (
        "Restrict the nodes' SSH key to training runs",
        "A stolen key opens no shell and no files. Without it, it does, from the nodes' network.",
    ),
    WITHOUT_HOROVOD: (
        "Leave Horovod out",
        "Nothing has to be built on this computer. Jobs use the strategy DDP.",
    ),
    IN_JOB: (
        "Make the environment in a job of Slurm",
        "On a compute node, for a login node that may not build or has no GPU.",
    ),
}
_OWN_KEY = "These nodes connect to each other with a key of your own, which is not changed."


class _Choice(QWidget):
    """A switch with a hint below and an optional field beside it; an error replaces the hint."""

    def __init__(self, title: str, hint: str, field: LineEdit | None = None) -> None:
        super().__init__()
        self.switch = Switch(title)
        self._hint = hint
        self._hint_label = Label(hint, "tiny", "text3", wrap=True)
        indent = Switch.WIDTH + S3
        head = self.switch if field is None else row(self.switch, (field, 99), STRETCH, gap=S3)
        self.setLayout(col(head, col(self._hint_label, margins=(indent, 0, 0, 0)), gap=0))
        self.show_error("")

    def show_error(self, message: str) -> None:
        self._hint_label.setText(message or self._hint)
        self._hint_label.set_color_role("bad" if message else "text3")
        self.switch.setAccessibleDescription(message or self._hint)

    def forbid(self, reason: str) -> None:
        self.switch.setEnabled(not reason)
        self._hint_label.setText(reason or self._hint)

    def hint_text(self) -> str:
        return self._hint_label.text()


class OptionsForm(QWidget):
    """The options of a set-up.

    Signals:
        changed: The user changed an option.
    """

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._options = SetUpOptions()
        self.partition = LineEdit(
            placeholder="Slurm's default", unit="partition", name="Partition of that job"
        )
        fields = {IN_JOB: self.partition}
        self._choices = {
            key: _Choice(*texts, fields.get(key)) for key, texts in _CHOICE_TEXTS.items()
        }
        for choice in self._choices.values():
            choice.switch.toggled.connect(lambda _is_checked: self.changed.emit())
        self.switch(IN_JOB).toggled.connect(self.partition.setVisible)
        self.setLayout(col(*self._choices.values(), gap=S1))
        self.fit(())

    def options(self) -> SetUpOptions:
        """Return the selected options; options without a switch are unchanged."""
        choices = {
            key: choice.switch.isChecked() and not choice.isHidden()
            for key, choice in self._choices.items()
        }
        return replace(
            self._options,
            system_mpi=choices[SYSTEM_MPI],
            shared=choices[SHARED],
            limits_key=choices[LIMITS_KEY],
            without_horovod=choices[WITHOUT_HOROVOD],
            in_job=choices[IN_JOB],
            partition=self.partition.text().strip() if choices[IN_JOB] else "",
        )

    def fit(self, schedulers: Collection[str]) -> None:
        """Show the choices for nodes with these keys of schedulers, "" for none.

        The environment of a login node is always shared.
        """
        has_job = any(map(offers_job, schedulers))
        self._choices[IN_JOB].setVisible(has_job)
        self.partition.setVisible(has_job and self.switch(IN_JOB).isChecked())
        self._choices[SHARED].setVisible(not (schedulers and all(schedulers)))

    def show_options(self, options: SetUpOptions) -> None:
        """Set the initial options."""
        self._options = options
        for key, choice in self._choices.items():
            choice.switch.blockSignals(True)
            choice.switch.setChecked(bool(getattr(options, key)))
            choice.switch.blockSignals(False)
        self.partition.setText(options.partition)
        self._choices[LIMITS_KEY].forbid(_OWN_KEY if options.own_key else "")

    def show_conflicts(self, conflicts: Mapping[str, str]) -> None:
        """Show conflicts, by the name of the option."""
        for key, choice in self._choices.items():
            if choice.switch.isEnabled():
                choice.show_error(conflicts.get(key, ""))

    def switch(self, key: str) -> Switch:
        return self._choices[key].switch

    def hint_text(self, key: str) -> str:
        """Return the hint below a switch, for tests."""
        return self._choices[key].hint_text()
