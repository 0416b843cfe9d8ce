"""The needs of the job in the form: memory, time by nodes, and disk, measured on its first node."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QWidget

from backend.records.jobs.plan import DEFAULT_LINK_MBIT, JobPlan
from widgets.common import formats
from widgets.common.buttons import Button
from widgets.common.cards import Separator
from widgets.common.dialog import TaskDialog
from widgets.common.fields import ComboBox
from widgets.common.key_value_row import KeyValue, KeyValueRow
from widgets.common.labels import Label
from widgets.common.layout import STRETCH, clear, col, row
from widgets.common.theme import S1, S2, S4

TITLE = "What will it need?"
_HINT = "The job trains on its first node for some seconds, and nothing of it is kept."
_LINKS = {100: "100 Mbit/s", 1000: "1 Gbit/s", 10_000: "10 Gbit/s", 25_000: "25 Gbit/s"}
_LINKS[100_000] = "100 Gbit/s"
_COLUMNS = 3


class PlanDialog(TaskDialog):
    """Shows the measurement of a job, and the job on 1, 2 and 4 nodes.

    Signals:
        settings_chosen: Settings by their paths with which the batch fits.
    """

    settings_chosen = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(TITLE, parent)
        self._plan: JobPlan | None = None
        self._totals = KeyValueRow(role="number", gap=S4, columns=_COLUMNS)
        self._parts = Label("", "small", "text2", wrap=True)
        self._fit_message = Label("", "body", "warn", wrap=True)
        self._fit_buttons = row(STRETCH, gap=S2)
        self._durations = KeyValueRow(role="number", gap=S4, columns=_COLUMNS)
        self._steps = KeyValueRow(role="strong", gap=S4, columns=_COLUMNS)
        self._energies = KeyValueRow(role="strong", gap=S4, columns=_COLUMNS)
        self._links = ComboBox(
            tuple((str(mbit), text) for mbit, text in _LINKS.items()), name="Network"
        )
        self._links.choose(str(DEFAULT_LINK_MBIT))
        self._links.currentIndexChanged.connect(self._show_nodes)
        self._assumptions = Label("", "small", "text3", wrap=True)
        self._fit = QWidget()
        self._fit.setLayout(col(self._fit_message, self._fit_buttons, gap=S2))
        network = row(Label("Network between the nodes", "body", "text2"), self._links, STRETCH)
        self._by_nodes = QWidget()
        self._by_nodes.setLayout(
            col(
                *(Separator(), S1, Label("Until it has finished", "strong"), self._durations),
                *(self._steps, self._energies, network),
                gap=S2,
            )
        )
        self._results = QWidget()
        self._results.setLayout(
            col(self._totals, self._parts, self._fit, self._by_nodes, self._assumptions, gap=S2)
        )
        self._results.hide()
        hint = Label(_HINT, "body", "text2", wrap=True)
        self.fill(hint, self._results, self._status, foot=(self._close,))

    def show_plan(self, plan: JobPlan) -> None:
        """Show the result."""
        self._plan = plan
        self.show_result("text", "")
        self._status.hide()
        self._results.show()
        memory = plan.memory
        self._totals.set_items(
            (
                KeyValue(
                    "Memory of a process",
                    formats.memory(memory.total_bytes),
                    "warn" if plan.fit else "text",
                ),
                KeyValue("Available to it", formats.memory(memory.capacity_bytes)),
                KeyValue("Checkpoints", formats.disk(plan.disk_bytes)),
            )
        )
        parts = {
            "weights": memory.weight_bytes,
            "gradients": memory.gradient_bytes,
            "optimizer": memory.optimizer_bytes,
            "activations": memory.activation_bytes,
            "PyTorch and buffers": memory.other_bytes,
        }
        texts = (f"{name} {formats.memory(n)}" for name, n in parts.items() if n is not None)
        text = ", ".join(texts)
        self._parts.setText(f"{text[:1].upper()}{text[1:]}.")
        self._show_fit(plan)
        self._show_nodes()

    def _show_fit(self, plan: JobPlan) -> None:
        clear(self._fit_buttons)
        self._fit.setVisible(plan.fit is not None)
        self._fit_message.setText(plan.fit_message)
        if plan.fit is None or not plan.fit.largest_batch:
            return
        options: dict[str, Mapping[str, int]] = {
            f"Batch {formats.count(plan.fit.largest_batch)}": {"batch_size": plan.fit.largest_batch}
        }
        if plan.fit.passes:
            options[f"{formats.count(plan.fit.passes)} × {formats.count(plan.fit.pass_batch)}"] = {
                "batch_size": plan.fit.pass_batch,
                "accumulate": plan.fit.accumulate,
            }
        for label, settings in options.items():
            button = Button(label)
            button.clicked.connect(partial(self._choose, settings))
            self._fit_buttons.addWidget(button)
        self._fit_buttons.addStretch(1)

    @Slot()
    def _show_nodes(self) -> None:
        if self._plan is None:
            return
        plan = self._plan.with_link(float(self._links.key()))
        captions = [formats.plural(by_nodes.nodes, "node") for by_nodes in plan.by_nodes]
        rows = list(zip(captions, plan.by_nodes, strict=True))
        self._durations.set_items(
            [KeyValue(caption, formats.duration(p.lasts_s)) for caption, p in rows]
        )
        self._steps.set_items(
            [
                KeyValue(
                    f"A step of {formats.count(p.global_batch)}",
                    formats.duration(p.step_s)
                    + (f", sends {formats.disk(p.network_bytes)}" if p.network_bytes else ""),
                )
                for _, p in rows
            ]
        )
        energies = [KeyValue("Energy", formats.energy(p.energy_j)) for _, p in rows if p.energy_j]
        self._energies.set_items(energies)
        self._energies.setVisible(bool(energies))
        self._by_nodes.setVisible(bool(rows))
        self._assumptions.setText(plan.assumptions)

    def _choose(self, settings: Mapping[str, int]) -> None:
        self.settings_chosen.emit(settings)
        self.accept()
