"""The GPUs that may be selected on a node, the automatic selection, and the question to share."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from PySide6.QtWidgets import QWidget

from backend.records.base.validation import sanitize
from backend.records.jobs.placement import THIS_COMPUTER
from backend.records.nodes.reading import Gpu, NodeState, Presence
from widgets.common import formats
from widgets.common.dialog import Question
from widgets.common.labels import Label


def owner(gpu: Gpu) -> str:
    """Return the user of this GPU, "" if it is free."""
    return next((process.user or "another user" for process in gpu.compute_processes), "")


def may_be_shared(gpu: Gpu) -> bool:
    """Return whether one known user is on it, and none of our jobs: those are never shared."""
    users = {process.user for process in gpu.compute_processes}
    has_own_job = any(process.run_tag for process in gpu.compute_processes)
    return len(users) == 1 and "" not in users and not has_own_job


def is_available(state: NodeState) -> bool:
    """Return whether a job can be placed on a node."""
    return state.presence is Presence.ONLINE and state.reading is not None


def unavailable_reason(state: NodeState) -> str:
    """Return why a job cannot be placed on a node: "Offline: no news since 03:12"."""
    label = {
        Presence.OFFLINE: "Offline",
        Presence.NEW: "Not set up",
        Presence.OUT_OF_SERVICE: "Out of service",
    }.get(state.presence, "No reading yet")
    return f"{label}: {state.message}" if state.message else label


def free_gpus(state: NodeState) -> tuple[Gpu, ...]:
    """Return the GPUs that no process uses, including those with problems."""
    if not is_available(state) or state.reading is None:
        return ()
    return tuple(gpu for gpu in state.reading.gpus if not owner(gpu) and not gpu.is_lost)


def sound_gpus(state: NodeState) -> tuple[Gpu, ...]:
    """Return the GPUs for automatic selection: free, without problems of GPU or node."""
    if any(finding.gpu is None for finding in state.health):
        return ()
    return tuple(gpu for gpu in free_gpus(state) if state.worst_gpu_finding(gpu) is None)


def choose_gpus(states: Iterable[NodeState], count: int) -> dict[str, tuple[str, ...]]:
    """Select up to `count` GPUs, as UUIDs by node: completely free nodes come first."""
    offers = [(state, sound_gpus(state)) for state in states]

    def rank(offer: tuple[NodeState, tuple[Gpu, ...]]) -> tuple[bool, int]:
        state, gpus = offer
        gpu_count = len(state.reading.gpus) if state.reading is not None else 0
        return len(gpus) < gpu_count, -len(gpus)

    chosen_uuids: dict[str, tuple[str, ...]] = {}
    for state, gpus in sorted(offers, key=rank):
        uuids = tuple(gpu.uuid for gpu in gpus[:count])
        if uuids:
            chosen_uuids[state.name] = uuids
            count -= len(uuids)
    return chosen_uuids


def processor_nodes(states: Iterable[NodeState]) -> tuple[str, ...]:
    """Return the nodes without GPUs and problems, except this computer, which has a user."""
    return tuple(
        state.name
        for state in states
        if is_available(state)
        and state.reading is not None
        and not (state.reading.gpus or state.health or state.name == THIS_COMPUTER)
    )


def share_question(
    node: str, gpu: Gpu, share: Callable[[], object], parent: QWidget | None = None
) -> Question:
    """Ask whether to share a GPU, once per user."""
    user = sanitize(owner(gpu))
    process = gpu.compute_processes[0]
    program = sanitize(process.command.split(" ")[0].rpartition("/")[2]) or "a process"
    used_memory = formats.used_memory(gpu.memory_used_bytes, gpu.memory_total_bytes)
    memory = "" if used_memory == formats.NONE else f"; {used_memory} are in use"
    return Question(
        *(f"Use GPU {gpu.index} anyway", "Use it anyway", share, parent),
        head=Label(f"Use GPU {gpu.index} of {node} anyway?", "title", wrap=True),
        close_label="Cancel",
        is_dangerous=True,
    ).ask(
        f"{user} runs {program} on it{memory}. Both will run slower, and one will fail"
        " if GPU memory runs out.",
        Label(
            f"This applies to {user} only; if another user is on the GPU by then, the job "
            "will not start. A queued job waits until the GPU is free.",
            *("body", "text2"),
            wrap=True,
        ),
    )
