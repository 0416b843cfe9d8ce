"""The dialog that resumes a stopped job on other nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QWidget

from backend.records.nodes.reading import NodeState
from widgets.common.dialog import Dialog
from widgets.common.formats import plural
from widgets.common.labels import Label
from widgets.jobs.placement.placement_picker import PlacementPicker

_WIDTH, _NODES_H = 720, 280


class MoveDialog(Dialog):
    """Asks where to resume the job.

    Signals:
        resume_requested: The ``placement`` of a job file.
    """

    resume_requested = Signal(object)

    def __init__(
        self,
        job_name: str,
        placement: Sequence[Mapping[str, Any]],
        states: tuple[NodeState, ...],
        excluded_node: str = "",
        parent: QWidget | None = None,
    ) -> None:
        """Create the dialog.

        Args:
            placement: Where the job ran.
            without: The node that the job leaves; it is not selected.
        """
        super().__init__("Resume on other nodes", _WIDTH, parent)
        self._picker = PlacementPicker(_NODES_H)
        self._resume_button = self.default_button("Resume", self._request_resume, icon="play")
        self.fill(
            Label(
                f"{job_name} resumes from its newest checkpoint, at the same epoch and sample. "
                "From now on it runs on the nodes that you choose"
                + (f"; {excluded_node} is left out." if excluded_node else "."),
                "body",
                "text2",
                wrap=True,
            ),
            self._picker,
            foot=(self.close_button(), self._resume_button),
        )
        # Insert it first: a widget added to a styled parent keeps its original fonts.
        self._picker.show_nodes(states)
        self._picker.put([entry for entry in placement if entry.get("node") != excluded_node])
        self._picker.set_need(sum(len(entry.get("gpus", ())) for entry in placement), excluded_node)
        self._picker.changed.connect(self._update_button)
        self._update_button()
        self._resume_button.setFocus()

    def show_nodes(self, states: tuple[NodeState, ...]) -> None:
        self._picker.show_nodes(states)
        self._update_button()

    @Slot()
    def _update_button(self) -> None:
        count = sum(
            len(entry.get("gpus", ())) or int(entry.get("processes", 0))
            for entry in self._picker.value()
        )
        self._resume_button.setText(
            f"Resume on {plural(count, 'process', 'processes')}" if count else "Resume"
        )
        self._resume_button.setEnabled(count > 0)

    @Slot()
    def _request_resume(self) -> None:
        self.resume_requested.emit(self._picker.value())
        self.accept()
