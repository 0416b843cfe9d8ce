"""The curves that show the cause of a failure, such as GPU memory or a diverging loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from backend.records.base.timestamps import instant
from backend.records.jobs.placement import node_label
from backend.records.jobs.state import JobState
from backend.records.jobs.status import DIVERGED, NOT_A_NUMBER
from backend.records.jobs.view import JobView
from backend.records.nodes.reading import NodeState
from widgets.common import formats
from widgets.nodes.history.node_history import BY_KEY, NODE, NodeHistory
from widgets.plots.annotations import ThresholdLine, VerticalMarker
from widgets.plots.curve_data import CurveData, XAxis
from widgets.plots.plot_range import FROM_ZERO, Scale
from widgets.plots.run_curves import RunCurves, metric_title

_CAUSE_QUANTITIES = {
    "gpu_memory": "memory",
    "gpu_lost": "temperature",
    "gpu_fault": "temperature",
    "gpu_slow": "clock",
    "nccl_connect": "network",
    "nccl_timeout": "network",
    "node_lost": "network",
}
"""The quantity of a node that shows a cause, if its agent recorded it."""
_SHOWN_S = 1800.0
_MARKER_MARGIN, _ALARM_MARGIN = 0.35, 0.5
"""Shares of the plot kept free to the right of the marker, for its label."""
_MIN_STEPS = 200


@dataclass(frozen=True, eq=False)
class CauseCurves:
    """The content of a plot: `curves` are (name, points, is highlighted), the last on top."""

    title: str
    axis: XAxis
    value_text: Callable[[float], str]
    x0: float
    x1: float
    curves: tuple[tuple[str, CurveData, bool], ...]
    markers: tuple[VerticalMarker, ...]
    thresholds: tuple[ThresholdLine, ...] = ()
    scale: Scale = FROM_ZERO


def cause_curves(
    view: JobView,
    run: RunCurves,
    states: Mapping[str, NodeState],
    histories: Mapping[str, NodeHistory],
) -> CauseCurves | None:
    """Return the curves that show the cause, None if there are none."""
    error = view.error
    cause = error.cause if error is not None else ""
    if view.state is JobState.LOST and cause not in _CAUSE_QUANTITIES:
        cause = "node_lost"
    if any(alarm.kind in (NOT_A_NUMBER, DIVERGED) for alarm in view.status.alarms):
        return _loss_curves(view, run)
    node = _failed_node(view)
    if cause not in _CAUSE_QUANTITIES or node not in states or node not in histories:
        return None
    return _node_curves(view, _CAUSE_QUANTITIES[cause], states[node], histories[node])


def _failed_node(view: JobView) -> str:
    """Return the node that failed; for a run on a single node, its name."""
    if view.error is not None and view.error.node:
        return view.error.node
    names = set(view.nodes)
    return names.pop() if len(names) == 1 else ""


def _loss_curves(view: JobView, run: RunCurves) -> CauseCurves | None:
    name = "gradient_norm" if run.get("gradient_norm") is not None else "loss"
    data = run.get(name)
    if data is None or len(data) < 2:
        return None
    alarms = [alarm for alarm in view.status.alarms if alarm.kind in (NOT_A_NUMBER, DIVERGED)]
    first_step = min(alarm.step for alarm in alarms)
    step_count = max(_MIN_STEPS, view.step - first_step)
    x0 = max(0.0, float(first_step - step_count))
    if name == "loss" and not x0:
        return None  # the plot of the loss shows the same
    markers = [
        VerticalMarker(alarm.step, alarm.label, "warn", is_dashed=True)
        for alarm in alarms
        if alarm.step < view.step
    ]
    end_labels = [alarm.label for alarm in alarms if alarm.step >= view.step]
    markers.append(VerticalMarker(view.step, ", ".join(end_labels) or "failed here"))
    title = f"{metric_title(name)} since step {formats.count(int(x0))}"
    x1 = view.step + _ALARM_MARGIN * (view.step - x0)
    return CauseCurves(
        title, XAxis.STEP, formats.metric, x0, x1, ((name, data, True),), tuple(markers)
    )


def _node_curves(
    view: JobView, key: str, state: NodeState, history: NodeHistory
) -> CauseCurves | None:
    start, end = instant(view.status.started_at), instant(view.status.ended_at)
    if start is None or end is None:
        return None
    x1 = end.timestamp()
    x0 = max(start.timestamp(), x1 - _SHOWN_S)
    quantity = BY_KEY[key]
    node = node_label(state.name)
    times = history.times()
    is_shown = (times >= x0) & (times <= x1)
    if quantity.read_gpu is None:
        curves = _named_curves({NODE: quantity.title}, key, history, is_shown)
        title, text = f"{quantity.title} of {node}", quantity.format_value
        return _cause_curves(title, text, x0, x1, curves, NODE, quantity.scale)
    reading = state.reading
    gpus = {gpu.uuid: gpu for gpu in reading.gpus} if reading is not None else {}
    ranks = [(rank, uuid) for rank, placement, uuid in view.ranks() if placement.node == state.name]
    failed_rank = view.error.rank if view.error is not None else None
    failed_uuid = next((uuid for rank, uuid in ranks if rank == failed_rank and uuid in gpus), "")
    if not failed_uuid:
        return None
    gpu = gpus[failed_uuid]
    names = {uuid: f"GPU {gpus[uuid].index}" for _, uuid in ranks if uuid in gpus}
    title = f"{quantity.title} of GPU {gpu.index} on {node}"
    if key != "memory" or not gpu.memory_total_bytes:
        curves = _named_curves(names, key, history, is_shown)
        return _cause_curves(
            title, quantity.format_value, x0, x1, curves, failed_uuid, quantity.scale
        )
    unit, unit_bytes = formats.memory_unit()
    capacity = gpu.memory_total_bytes / unit_bytes
    curves = _named_curves(names, key, history, is_shown, scale=capacity / 100)
    capacity_line = ThresholdLine(capacity, f"full at {round(capacity)}{formats.GAP}{unit}", "bad")
    return _cause_curves(
        f"{title}, {unit}",
        _size_text,
        x0,
        x1,
        curves,
        failed_uuid,
        quantity.scale,
        (capacity_line,),
    )


def _size_text(value: float) -> str:
    return formats.memory(value * formats.memory_unit()[1])


_NamedCurves = dict[str, tuple[str, CurveData]]


def _named_curves(
    names: Mapping[str, str],
    key: str,
    history: NodeHistory,
    is_shown: np.ndarray,
    scale: float = 1.0,
) -> _NamedCurves:
    """Return the points of each GPU, or of the node, with at least two points."""
    times = history.times()[is_shown]
    curves: _NamedCurves = {}
    for uuid, name in names.items():
        values = history.series(uuid, key)[is_shown] * scale
        if np.isfinite(values).sum() > 1:
            curves[uuid] = (name, CurveData())
            curves[uuid][1].extend(times, values, None, times)
    return curves


def _cause_curves(
    title: str,
    value_text: Callable[[float], str],
    x0: float,
    x1: float,
    named_curves: _NamedCurves,
    main_key: str,
    scale: Scale,
    thresholds: tuple[ThresholdLine, ...] = (),
) -> CauseCurves | None:
    if main_key not in named_curves:
        return None
    items = sorted(named_curves.items(), key=lambda item: item[0] == main_key)
    curves = tuple((name, data, uuid == main_key) for uuid, (name, data) in items)
    margin = _MARKER_MARGIN * (x1 - x0)
    markers = (VerticalMarker(x1, "failed here"),)
    return CauseCurves(
        title, XAxis.CLOCK, value_text, x0, x1 + margin, curves, markers, thresholds, scale
    )
