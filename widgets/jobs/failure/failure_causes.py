"""The curves that show the cause of a failure, such as GPU memory or a diverging loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from backend.records.base.timestamps import instant
from backend.records.jobs.alarm import DIVERGED, NOT_A_NUMBER
from backend.records.jobs.state import JobState
from backend.records.jobs.view import JobView
from backend.records.nodes.reading import NodeState
from widgets.common import formats
from widgets.nodes.history.node_history import BY_KEY, NODE, NodeHistory
from widgets.nodes.row.node_row import inline_node_title
from widgets.plots.annotations import ThresholdLine, VerticalMarker
from widgets.plots.curve_data import CurveData, XAxis
from widgets.plots.plot_range import FROM_ZERO, Scale
from widgets.plots.run_curves import RunCurves, metric_title

_OF_CAUSE = {
    "gpu_memory": "memory",
    "gpu_lost": "temperature",
    "gpu_fault": "temperature",
    "gpu_slow": "clock",
    "nccl_connect": "network",
    "nccl_timeout": "network",
    "node_lost": "network",
}
"""The quantity of a node that shows a cause, if its agent recorded it."""
_BEFORE_S = 1800.0
_ROOM, _WORDS_ROOM = 0.35, 0.5
"""Shares of the plot kept free on the right of the post, for its text."""
_LEAST_STEPS = 200


@dataclass(frozen=True, eq=False)
class CauseCurves:
    """The content of one plot: `curves` are (name, points, is highlighted), the last on top."""

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
    """Return the curves that show the cause, None if no file has them."""
    error = view.error
    cause = error.cause if error is not None else ""
    if view.state is JobState.LOST and cause not in _OF_CAUSE:
        cause = "node_lost"
    if any(alarm.kind in (NOT_A_NUMBER, DIVERGED) for alarm in view.status.alarms):
        return _of_loss(view, run)
    node = _node(view)
    if cause not in _OF_CAUSE or node not in states or node not in histories:
        return None
    return _of_node(view, _OF_CAUSE[cause], states[node], histories[node])


def _node(view: JobView) -> str:
    """Return the node that failed; for a run on one node, that node."""
    if view.error is not None and view.error.node:
        return view.error.node
    names = set(view.nodes)
    return names.pop() if len(names) == 1 else ""


def _of_loss(view: JobView, run: RunCurves) -> CauseCurves | None:
    name = "gradient_norm" if run.get("gradient_norm") is not None else "loss"
    data = run.get(name)
    if data is None or len(data) < 2:
        return None
    alarms = [one for one in view.status.alarms if one.kind in (NOT_A_NUMBER, DIVERGED)]
    first = min(one.step for one in alarms)
    span = max(_LEAST_STEPS, view.step - first)
    x0 = max(0.0, float(first - span))
    if name == "loss" and not x0:
        return None  # the plot of the loss shows the same
    posts = [
        VerticalMarker(one.step, one.label, "warn", dashed=True)
        for one in alarms
        if one.step < view.step
    ]
    at_end = [one.label for one in alarms if one.step >= view.step]
    posts.append(VerticalMarker(view.step, ", ".join(at_end) or "failed here"))
    title = f"{metric_title(name)} since step {formats.count(int(x0))}"
    x1 = view.step + _WORDS_ROOM * (view.step - x0)
    return CauseCurves(
        title, XAxis.STEP, formats.metric, x0, x1, ((name, data, True),), tuple(posts)
    )


def _of_node(view: JobView, key: str, state: NodeState, history: NodeHistory) -> CauseCurves | None:
    started, ended = instant(view.status.started_at), instant(view.status.ended_at)
    if started is None or ended is None:
        return None
    x1 = ended.timestamp()
    x0 = max(started.timestamp(), x1 - _BEFORE_S)
    quantity = BY_KEY[key]
    where = inline_node_title(state.name)
    times = history.times()
    inside = (times >= x0) & (times <= x1)
    if quantity.read_gpu is None:
        curves = _curves_of({NODE: quantity.title}, key, history, inside)
        title, text = f"{quantity.title} of {where}", quantity.format_value
        return _drawn(title, text, x0, x1, curves, NODE, quantity.scale)
    reading = state.reading
    gpus = {gpu.uuid: gpu for gpu in reading.gpus} if reading is not None else {}
    mine = [(rank, uuid) for rank, place, uuid in view.ranks() if place.node == state.name]
    failed = view.error.rank if view.error is not None else None
    chosen = next((uuid for rank, uuid in mine if rank == failed and uuid in gpus), "")
    if not chosen:
        return None
    gpu = gpus[chosen]
    names = {uuid: f"GPU {gpus[uuid].index}" for _, uuid in mine if uuid in gpus}
    title = f"{quantity.title} of GPU {gpu.index} on {where}"
    if key != "memory" or not gpu.memory_total_bytes:
        curves = _curves_of(names, key, history, inside)
        return _drawn(title, quantity.format_value, x0, x1, curves, chosen, quantity.scale)
    unit, each = formats.memory_unit()
    whole = gpu.memory_total_bytes / each
    curves = _curves_of(names, key, history, inside, scale=whole / 100)
    full = ThresholdLine(whole, f"full at {round(whole)}{formats.GAP}{unit}", "bad")
    return _drawn(f"{title}, {unit}", _size, x0, x1, curves, chosen, quantity.scale, (full,))


def _size(value: float) -> str:
    return formats.memory(value * formats.memory_unit()[1])


_Curves = dict[str, tuple[str, CurveData]]


def _curves_of(
    names: Mapping[str, str], key: str, history: NodeHistory, inside: np.ndarray, scale: float = 1.0
) -> _Curves:
    """Return the points of each GPU (or the node) that has at least two."""
    times = history.times()[inside]
    found: _Curves = {}
    for uuid, name in names.items():
        values = history.series(uuid, key)[inside] * scale
        if np.isfinite(values).sum() > 1:
            found[uuid] = (name, CurveData())
            found[uuid][1].extend(times, values, None, times)
    return found


def _drawn(
    title: str,
    text: Callable[[float], str],
    x0: float,
    x1: float,
    measured: _Curves,
    chosen: str,
    scale: Scale,
    thresholds: tuple[ThresholdLine, ...] = (),
) -> CauseCurves | None:
    if chosen not in measured:
        return None
    ordered = sorted(measured.items(), key=lambda one: one[0] == chosen)
    curves = tuple((name, data, uuid == chosen) for uuid, (name, data) in ordered)
    room = _ROOM * (x1 - x0)
    posts = (VerticalMarker(x1, "failed here"),)
    return CauseCurves(title, XAxis.CLOCK, text, x0, x1 + room, curves, posts, thresholds, scale)
