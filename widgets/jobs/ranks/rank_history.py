"""The history of a job's nodes while it ran, on the job's time axis."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from PySide6.QtCore import Slot

from backend.records.base.timestamps import instant
from backend.records.jobs.view import JobView
from backend.records.nodes.reading import NodeState
from widgets.common.fields import ComboBox
from widgets.jobs.ranks.rank_rows import gpu_names
from widgets.nodes.history.history_card import HistoryCard, JobPeriod, problem_axis_spans
from widgets.nodes.history.node_history import NodeHistory
from widgets.nodes.row.node_names import strip_domain
from widgets.nodes.row.node_row import node_title
from widgets.plots.annotations import AxisSpan

_PICKER_W = 240


def run_period(view: JobView, first_point_s: float = 0.0) -> tuple[float, float | None] | None:
    """Return the start and the end of a job in Unix time; None for a job that has not run.

    Args:
        first_point_s: The time of the first point, 0 without points: a resumed run started later.
    """
    start, end = instant(view.status.started_at), instant(view.status.ended_at)
    if start is None:
        return None
    start_s = min(start.timestamp(), first_point_s or start.timestamp())
    if view.state.is_live:
        return start_s, None
    return (start_s, end.timestamp()) if end is not None else None


def job_problems(
    view: JobView,
    states: Mapping[str, NodeState],
    histories: Mapping[str, NodeHistory],
    first_point_s: float,
    now_s: float,
) -> list[AxisSpan]:
    """Return the problems of a job's GPUs during its run, with the name of the node."""
    period = run_period(view, first_point_s)
    if period is None:
        return []
    start_s, end_s = period
    problems = []
    for name in dict.fromkeys(view.nodes):
        if name in states and name in histories:
            uuids = gpu_names(view, states[name])
            spans = problem_axis_spans(histories[name], uuids, start_s, end_s or now_s)
            title = node_title(name)
            problems += [
                AxisSpan(
                    span.x0,
                    span.x1,
                    span.color_role,
                    f"{title} {span.text[:1].lower()}{span.text[1:]}",
                )
                for span in spans
            ]
    return problems


class RankHistory(HistoryCard):
    """The history of a node of the job: the chosen node, or the first node with a problem."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._view: JobView | None = None
        self._first_point_s = 0.0
        self._chosen_node = ""
        self._states: Mapping[str, NodeState] = {}
        self._histories: Mapping[str, NodeHistory] = {}
        self._node_box = ComboBox(name="Node")
        self._node_box.setFixedWidth(_PICKER_W)
        super().__init__(self._node_box)
        self._node_box.activated.connect(self._choose_node)
        self.hide()

    @property
    def node(self) -> str:
        """Return the shown node, "" for none."""
        return self._node_box.key() if not self.isHidden() else ""

    def show_job(self, view: JobView, first_point_s: float) -> None:
        """Show an update of the job, or another job."""
        if self._view is None or view.id != self._view.id:
            self._chosen_node = ""
        self._view, self._first_point_s = view, first_point_s
        self.update_layout()

    def show_nodes(
        self, states: Mapping[str, NodeState], histories: Mapping[str, NodeHistory]
    ) -> None:
        """Set the current states of the nodes, and their recent history."""
        self._states, self._histories = states, histories
        self.update_layout()

    def update_layout(self) -> None:
        """Show the history of the node, if the tab is visible."""
        parent = self.parentWidget()
        if parent is not None and not parent.isVisible():
            return
        view = self._view
        period = run_period(view, self._first_point_s) if view is not None else None
        names = [] if view is None else list(dict.fromkeys(view.nodes))
        known_nodes = [name for name in names if self._has_history(name, period)]
        self.setVisible(bool(known_nodes))
        if view is None or period is None or not known_nodes:
            return
        node = (
            self._chosen_node
            if self._chosen_node in known_nodes
            else self._likeliest_node(view, known_nodes, period)
        )
        titles = strip_domain([node_title(name) for name in known_nodes])
        self._node_box.set_options(zip(known_nodes, titles, strict=True), node)
        has_several = len(known_nodes) > 1
        self._node_box.setVisible(has_several)
        state = self._states[node]
        title = "During this job" if has_several else f"{node_title(node)} during this job"
        self.show_job_period(JobPeriod(title, *period, gpu_names(view, state)))
        self.show_history(self._histories[node], state)

    def _has_history(self, name: str, period: tuple[float, float | None] | None) -> bool:
        """Return whether a node has data for the job's time."""
        state, history = self._states.get(name), self._histories.get(name)
        if state is None or state.reading is None or history is None or period is None:
            return False
        times = history.times()
        start_s, end_s = period
        return bool(((times >= start_s) & (times <= (end_s or self._clock()))).sum() > 1)

    def _likeliest_node(
        self, view: JobView, names: list[str], period: tuple[float, float | None]
    ) -> str:
        start_s, end_s = period
        for name in names:
            uuids = gpu_names(view, self._states[name])
            if self._histories[name].problem_spans(tuple(uuids), start_s, end_s or self._clock()):
                return name
        return names[0]

    @Slot(int)
    def _choose_node(self, _index: int) -> None:
        self._chosen_node = self._node_box.key()
        self.update_layout()
