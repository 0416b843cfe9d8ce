"""The new points of ``history.toml`` since its reader last read it.

The arrays are numpy's on the desktop. Here they are only sequences, because the nodes import the
records and do not need numpy for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from backend.records.jobs.state import JobState


@dataclass(frozen=True)
class RunStart:
    """A run's first step on the curve; drawn as a thin line with its number.

    ``previous_state``: how the previous run ended, None if unknown.
    """

    run: int
    first_step: int
    previous_state: JobState | None = None


@dataclass(frozen=True, eq=False)
class HistoryUpdate:
    """Points to append, oldest first. All arrays have the length of ``steps``.

    ``drop_from``: before appending, remove every point at this step or later (a resumed run began
    at an older checkpoint, or the whole history is new: 0). ``epochs`` counts from 1 and is the
    current one; ``epochs_done`` is how many were complete after each step, with their fraction,
    empty if the length of an epoch is not known. ``seconds`` counts from the first block of the
    file, which was written at ``started_s`` (Unix time by its writer's clock; 0 if there is none).
    NaN is "no value here". ``problems`` are sentences about blocks that could not be read; such a
    block loses only its own steps.
    """

    steps: Sequence[int] = ()
    epochs: Sequence[int] = ()
    seconds: Sequence[float] = ()
    metrics: Mapping[str, Sequence[float]] = field(default_factory=dict)
    run_starts: tuple[RunStart, ...] = ()
    drop_from: int | None = None
    problems: tuple[str, ...] = ()
    started_s: float = 0.0
    epochs_done: Sequence[float] = ()
