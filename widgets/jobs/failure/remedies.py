"""The actions offered for a failed job, the most likely first."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from backend.records.jobs.checkpoint import Checkpoint, checkpoint_to_resume
from backend.records.jobs.status import (
    DIVERGED,
    LOSS_DIVERGED,
    LOSS_NOT_A_NUMBER,
    NOT_A_NUMBER,
    OF_LOSS,
    USER_CODE,
)
from backend.records.jobs.view import JobView
from backend.records.library.packages import missing_module, module_of
from backend.records.nodes.reading import NodeState, Presence
from widgets.common import formats
from widgets.nodes.row.node_row import node_title

_OUT_OF_MEMORY = "gpu_memory"
_MODULE_MISSING = "module_missing"
_GPU_CAUSES = frozenset({"gpu_busy", "gpu_ecc", "gpu_fault", "gpu_lost", "gpu_shared", "gpu_state"})
"""Causes that stay with the GPU."""
_SETTING_CAUSES = frozenset(
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
_START_NEW = re.compile(r"start_from_except = (\[.*?\])")
"""In the remedy for weights of which some fit: the setting that leaves out the others."""
_RATE_DIVISOR = 10
_CLIP_NORM = 1.0
"""The usual norm to clip a gradient to."""


@dataclass(frozen=True)
class Remedies:
    """The actions to offer.

    Attributes:
        changed_settings: The setting to resume with, or to clone the job with if there is no
            checkpoint: half of the batch size that did not fit, or a tenth of the learning rate;
            empty if neither helps.
        clone_settings: The setting to clone the job with: gradient clipping, or empty.
        placement: The placement of the job without the GPU that failed, as in a job file.
        excluded_gpu: The GPU that failed: "GPU 3 of gpu07", "" if there is none to leave out.
        offers_choice: Whether other GPUs or nodes may help.
        offline_node: A node of the job that is offline now, "" for none.
        repeats_failure: Whether the same settings would fail again.
        module: A Python module that is not installed, "" if that is not the cause.
    """

    changed_settings: Mapping[str, Any] = field(default_factory=dict)
    clone_settings: Mapping[str, Any] = field(default_factory=dict)
    placement: tuple[Mapping[str, Any], ...] = ()
    excluded_gpu: str = ""
    offers_choice: bool = False
    offline_node: str = ""
    repeats_failure: bool = False
    module: str = ""


def remedies(
    view: JobView,
    checkpoints: tuple[Checkpoint, ...] | None,
    states: Mapping[str, NodeState],
) -> Remedies:
    """Return the remedies for the cause; without a checkpoint, changes of a clone."""
    cause = cause_of(view)
    repeats_failure = cause in _SETTING_CAUSES | _GPU_CAUSES
    is_unclipped = cause in OF_LOSS and view.config.gradient_norm is None
    clone_settings = {"gradient_norm": _CLIP_NORM} if is_unclipped else {}
    module = _missing_module(view)
    offline_names = {name for name, s in states.items() if s.presence is Presence.OFFLINE}
    offline_node = next((node for node in view.nodes if node in offline_names), "")
    is_too_large = cause == _OUT_OF_MEMORY and not offline_node
    changed_settings: dict[str, Any] = {}
    if is_too_large and view.config.batch_size > 1:
        changed_settings["batch_size"] = view.config.batch_size // 2
    if cause in OF_LOSS and not offline_node and not view.is_script:
        changed_settings["optimizer.lr"] = float(f"{view.config.optimizer.lr / _RATE_DIVISOR:.4g}")
    if view.error is not None and (proposal := _START_NEW.search(view.error.remedy)):
        changed_settings["start_from_except"] = json.loads(proposal[1])
    if checkpoints == ():
        return Remedies(
            changed_settings=changed_settings,
            clone_settings=clone_settings,
            repeats_failure=repeats_failure,
            module=module,
        )
    excluded_gpu, placement = _exclude_gpu(view, states) if cause in _GPU_CAUSES else ("", ())
    return Remedies(
        changed_settings=changed_settings,
        clone_settings=clone_settings,
        placement=placement,
        excluded_gpu=excluded_gpu,
        offers_choice=bool(offline_node)
        or (view.uses_gpus and (is_too_large or cause in _GPU_CAUSES)),
        offline_node=offline_node,
        repeats_failure=repeats_failure or bool(offline_node),
        module=module,
    )


def _missing_module(view: JobView) -> str:
    """Return the module that was missing on the first rank that failed."""
    error = view.error
    if error is None or error.cause not in ("", _MODULE_MISSING, USER_CODE):
        return ""
    evidence = error.evidence if error.cause == _MODULE_MISSING else ()
    return module_of(error.traceback) or missing_module([line.text for line in evidence])


def cause_of(view: JobView) -> str:
    """Return the recorded cause; without a record, the cause of a loss that ended the job."""
    error, config = view.error, view.config
    if error is None or error.cause or error.traceback:
        return error.cause if error is not None else ""
    ending_alarms = {NOT_A_NUMBER: config.stop_on_nan, DIVERGED: config.stop_on_divergence}
    alarm_kinds = {alarm.kind for alarm in view.status.alarms if ending_alarms.get(alarm.kind)}
    if NOT_A_NUMBER in alarm_kinds:
        return LOSS_NOT_A_NUMBER
    return LOSS_DIVERGED if alarm_kinds else ""


def _exclude_gpu(
    view: JobView, states: Mapping[str, NodeState]
) -> tuple[str, tuple[Mapping[str, Any], ...]]:
    """Return the GPU of the rank that failed first, and the placement without this GPU."""
    rank = view.error.rank if view.error is not None else None
    node, uuid = next(
        ((placement.node, uuid) for number, placement, uuid in view.ranks() if number == rank),
        ("", ""),
    )
    state = states.get(node)
    reading = state.reading if state is not None else None
    index = next((gpu.index for gpu in reading.gpus if gpu.uuid == uuid), None) if reading else None
    placements = []
    for placement in view.config.placement:
        gpus = tuple(gpu for gpu in placement.gpus if (placement.node, gpu) != (node, uuid))
        if gpus:
            placements.append(replace(placement, gpus=gpus).to_dict())
    if index is None or not placements:
        return "", ()
    return f"GPU {index} of {node_title(node)}", tuple(placements)


def lost_steps(view: JobView, checkpoints: tuple[Checkpoint, ...] | None) -> str:
    """Return the number of steps that a resume repeats: ``214 steps``, "" while unknown."""
    if checkpoints is None:
        return ""
    sound_step = view.error.sound_step if view.error is not None else None
    checkpoint = checkpoint_to_resume(checkpoints, sound_step)
    resume_step = checkpoint.step if checkpoint is not None else 0
    return formats.plural(max(0, view.step - resume_step), "step")
