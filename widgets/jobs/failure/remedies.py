"""The actions offered for a failed job, the most likely first."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from backend.records.jobs.alarm import DIVERGED, NOT_A_NUMBER
from backend.records.jobs.checkpoint import Checkpoint, to_resume
from backend.records.jobs.diagnosis import LOSS_DIVERGED, LOSS_NOT_A_NUMBER, OF_LOSS, USER_CODE
from backend.records.jobs.view import JobView
from backend.records.library.packages import missing_module, module_of
from backend.records.nodes.reading import NodeState, Presence
from widgets.common import formats
from widgets.nodes.row.node_row import node_title

_OUT_OF_MEMORY = "gpu_memory"
_MODULE_MISSING = "module_missing"
_OF_ONE_GPU = frozenset({"gpu_busy", "gpu_ecc", "gpu_fault", "gpu_lost", "gpu_shared", "gpu_state"})
"""Causes that stay with the GPU."""
_CHANGE_FIRST = frozenset(
    {
        USER_CODE,
        *OF_LOSS,
        "call_mismatch",
        _OUT_OF_MEMORY,
        "gpu_fork",
        "gpu_number",
        "gpu_shared",
        "gpu_unsupported",
        "horovod_duplicate",
        "horovod_mismatch",
        "horovod_not_started",
        "horovod_setup",
        "hydra_target",
        "index_range",
        "label_range",
        _MODULE_MISSING,
        "mpi_slots",
        "mpi_use",
        "node_memory",
        "options",
        "pickle",
        "ranks_differ",
        "saved_state",
        "weights_mismatch",
    }
)
"""Causes that occur again with the same settings, however often the job is resumed."""
_LEFT_OUT = re.compile(r"start_from_except = (\[.*?\])")
"""In the remedy for weights that fit in part: what to leave out."""
_SLOWER = 10
_CLIP = 1.0
"""The usual norm to clip a gradient to."""


@dataclass(frozen=True)
class Remedies:
    """The actions to offer.

    Attributes:
        change: The setting to resume with, or to clone the job with if there is no checkpoint: half
            of the batch size that did not fit, or a tenth of the learning rate; empty if neither
            helps.
        clone: The setting to clone the job with: gradient clipping, or empty.
        placement: Where the job ran, without the GPU that failed, as a job file has it.
        without: That GPU: "GPU 3 of gpu07", "" if there is none to leave out.
        chooses: Whether other GPUs or nodes may help.
        away: A node of the job that is offline now, "" for none.
        is_same_last: Whether the same settings would fail again.
        module: A Python module that is not installed, "" if that is not the cause.
    """

    change: Mapping[str, Any] = field(default_factory=dict)
    clone: Mapping[str, Any] = field(default_factory=dict)
    placement: tuple[Mapping[str, Any], ...] = ()
    without: str = ""
    chooses: bool = False
    away: str = ""
    is_same_last: bool = False
    module: str = ""


def remedies(
    view: JobView,
    checkpoints: tuple[Checkpoint, ...] | None,
    states: Mapping[str, NodeState],
) -> Remedies:
    """Return what helps against the cause; without a checkpoint, changes of a clone."""
    cause = cause_of(view)
    is_same_last = cause in _CHANGE_FIRST | _OF_ONE_GPU
    unclipped = cause in OF_LOSS and view.config.gradient_norm is None
    clone = {"gradient_norm": _CLIP} if unclipped else {}
    module = _missing_module(view)
    gone = (node for node in view.nodes if node in states and _is_offline(states[node]))
    away = next(gone, "")
    too_large = cause == _OUT_OF_MEMORY and not away
    change: dict[str, Any] = {}
    if too_large and view.config.batch_size > 1:
        change["batch_size"] = view.config.batch_size // 2
    if cause in OF_LOSS and not away and not view.is_script:
        change["optimizer.lr"] = float(f"{view.config.optimizer.lr / _SLOWER:.4g}")
    if view.error is not None and (proposal := _LEFT_OUT.search(view.error.remedy)):
        change["start_from_except"] = json.loads(proposal[1])
    if checkpoints == ():
        return Remedies(change=change, clone=clone, is_same_last=is_same_last, module=module)
    without, placement = _without(view, states) if cause in _OF_ONE_GPU else ("", ())
    return Remedies(
        change=change,
        clone=clone,
        placement=placement,
        without=without,
        chooses=bool(away) or (view.uses_gpus and (too_large or cause in _OF_ONE_GPU)),
        away=away,
        is_same_last=is_same_last or bool(away),
        module=module,
    )


def _missing_module(view: JobView) -> str:
    """Return the module that the rank that failed first did not find."""
    error = view.error
    if error is None or error.cause not in ("", _MODULE_MISSING, USER_CODE):
        return ""
    proof = error.evidence if error.cause == _MODULE_MISSING else ()
    return module_of(error.traceback) or missing_module([line.text for line in proof])


def cause_of(view: JobView) -> str:
    """Return the recorded cause; for records without one, that of a loss that ended the job."""
    error, config = view.error, view.config
    if error is None or error.cause or error.traceback:
        return error.cause if error is not None else ""
    ends = {NOT_A_NUMBER: config.stop_on_nan, DIVERGED: config.stop_on_divergence}
    found = {alarm.kind for alarm in view.status.alarms if ends.get(alarm.kind)}
    if NOT_A_NUMBER in found:
        return LOSS_NOT_A_NUMBER
    return LOSS_DIVERGED if found else ""


def _is_offline(state: NodeState) -> bool:
    return state.presence is Presence.OFFLINE


def _without(
    view: JobView, states: Mapping[str, NodeState]
) -> tuple[str, tuple[Mapping[str, Any], ...]]:
    """Return the GPU of the rank that failed first, and the placement without it."""
    rank = view.error.rank if view.error is not None else None
    node, uuid = next(
        ((placement.node, uuid) for number, placement, uuid in view.ranks() if number == rank),
        ("", ""),
    )
    state = states.get(node)
    reading = state.reading if state is not None else None
    index = next((gpu.index for gpu in reading.gpus if gpu.uuid == uuid), None) if reading else None
    rest = []
    for placement in view.config.placement:
        gpus = tuple(gpu for gpu in placement.gpus if (placement.node, gpu) != (node, uuid))
        if gpus:
            rest.append(replace(placement, gpus=gpus).to_dict())
    if index is None or not rest:
        return "", ()
    return f"GPU {index} of {node_title(node)}", tuple(rest)


def lost(view: JobView, checkpoints: tuple[Checkpoint, ...] | None) -> str:
    """Return how many steps a resume repeats: ``214 steps``, "" while that is not known."""
    if checkpoints is None:
        return ""
    found = to_resume(checkpoints, view.error.sound_step if view.error is not None else None)
    return formats.plural(max(0, view.step - (found.step if found is not None else 0)), "step")
