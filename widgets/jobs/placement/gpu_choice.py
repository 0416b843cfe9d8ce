"""What may be chosen on a node, and which GPUs a program would take. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from backend.records.nodes.reading import Gpu, NodeState, Presence


def owner(gpu: Gpu) -> str:
    """Who is on this GPU, "" when it is free."""
    return next((process.user or "somebody" for process in gpu.compute_processes), "")


def may_be_shared(gpu: Gpu) -> bool:
    """Whether one user is on it, by name, with nothing of ours: beside a job none is started."""
    users = {process.user for process in gpu.compute_processes}
    ours = any(process.run_tag for process in gpu.compute_processes)
    return len(users) == 1 and "" not in users and not ours


def is_there(state: NodeState) -> bool:
    """Whether a job can be put on a node at all."""
    return state.presence is Presence.ONLINE and state.reading is not None


def why_away(state: NodeState) -> str:
    """Why a job cannot be put there: "Offline: no news since 03:12"."""
    words = {
        Presence.OFFLINE: "Offline",
        Presence.NEW: "Not set up",
        Presence.OUT_OF_SERVICE: "Out of service",
    }.get(state.presence, "No reading yet")
    return f"{words}: {state.message}" if state.message else words


def free_gpus(state: NodeState) -> tuple[Gpu, ...]:
    """Those nobody is on, unwell or not."""
    if not is_there(state) or state.reading is None:
        return ()
    return tuple(gpu for gpu in state.reading.gpus if not owner(gpu) and not gpu.lost)


def sound_gpus(state: NodeState) -> tuple[Gpu, ...]:
    """Those a program may take by itself: free, and nothing is known against them or the node."""
    if any(finding.gpu is None for finding in state.health):
        return ()
    return tuple(gpu for gpu in free_gpus(state) if state.of_gpu(gpu) is None)


def choose(states: Iterable[NodeState], count: int) -> dict[str, tuple[str, ...]]:
    """At most so many GPUs, UUIDs by node: nodes that are free as a whole come first."""
    offers = [(state, sound_gpus(state)) for state in states]

    def rank(offer: tuple[NodeState, tuple[Gpu, ...]]) -> tuple[bool, int]:
        state, sound = offer
        has = len(state.reading.gpus) if state.reading is not None else 0
        return len(sound) < has, -len(sound)

    found: dict[str, tuple[str, ...]] = {}
    for state, sound in sorted(offers, key=rank):
        taken = tuple(gpu.uuid for gpu in sound[:count])
        if taken:
            found[state.name] = taken
            count -= len(taken)
    return found
