"""How nodes are set up: a switch for each choice, what it is for, and what does not fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QWidget

from backend.records.nodes.provisioning_options import LIMITS_KEY, SHARED, SYSTEM_MPI, SetUpOptions
from widgets.common.buttons import Switch
from widgets.common.labels import Label
from widgets.common.layout import col
from widgets.common.theme import S1, S2, S3

_WORDS = {
    SYSTEM_MPI: (
        "Use the nodes' own Open MPI",
        "For one that is made for the cluster's network. It is 4.1 or 5.0, and the same on all.",
    ),
    SHARED: (
        "One environment for all nodes",
        "Made once, on the data root. For small home folders; each start reads it from there.",
    ),
    LIMITS_KEY: (
        "Let the cluster's key start runs only",
        "The nodes' key to each other runs nothing else. For machines that others use, too.",
    ),
}
_OWN_KEY = "These nodes reach each other with a key of yours, which stays as it is."


class _Choice(QWidget):
    """A switch with a sentence below; a fault takes the place of the sentence."""

    def __init__(self, title: str, sentence: str) -> None:
        super().__init__()
        self.switch = Switch(title)
        self._sentence = sentence
        self._below = Label(sentence, "tiny", "text3", wrap=True)
        indent = Switch.WIDTH + S3
        self.setLayout(col(self.switch, col(self._below, margins=(indent, 0, 0, 0)), gap=0))
        self.show_fault("")

    def show_fault(self, fault: str) -> None:
        self._below.setText(fault or self._sentence)
        self._below.set_tone("bad" if fault else "text3")
        self.switch.setAccessibleDescription(fault or self._sentence)

    def forbid(self, why: str) -> None:
        self.switch.setEnabled(not why)
        self._below.setText(why or self._sentence)

    def below(self) -> str:
        return self._below.text()


class SetUpChoices(QWidget):
    """The choices of a set-up.

    Signals:
        changed: A person chose otherwise.
    """

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._options = SetUpOptions()
        self._choices = {key: _Choice(*words) for key, words in _WORDS.items()}
        for choice in self._choices.values():
            choice.switch.toggled.connect(self._toggled)
        self.setLayout(col(*self._choices.values(), gap=S2, margins=(0, S1, 0, 0)))

    def options(self) -> SetUpOptions:
        """What is chosen now; what is not offered here is as it was."""
        return replace(
            self._options,
            system_mpi=self.switch(SYSTEM_MPI).isChecked(),
            shared=self.switch(SHARED).isChecked(),
            limits_key=self.switch(LIMITS_KEY).isChecked(),
        )

    def show_options(self, options: SetUpOptions) -> None:
        """What is chosen before a person chooses."""
        self._options = options
        for key, choice in self._choices.items():
            choice.switch.blockSignals(True)
            choice.switch.setChecked(bool(getattr(options, key)))
            choice.switch.blockSignals(False)
        self._choices[LIMITS_KEY].forbid(_OWN_KEY if options.own_key else "")

    def show_faults(self, faults: Mapping[str, str]) -> None:
        """What does not fit, by the name of the choice."""
        for key, choice in self._choices.items():
            if choice.switch.isEnabled():
                choice.show_fault(faults.get(key, ""))

    def switch(self, key: str) -> Switch:
        return self._choices[key].switch

    def below(self, key: str) -> str:
        """The sentence below a switch, for those who test."""
        return self._choices[key].below()

    @Slot(bool)
    def _toggled(self, _on: bool) -> None:
        self.changed.emit()
