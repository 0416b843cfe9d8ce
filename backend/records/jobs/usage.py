"""Ledger of a data root: what each run used, on which nodes, and who owns the job.

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

from dataclasses import dataclass

from backend.records.base.schema import Record


@dataclass(frozen=True)
class NodeUsage:
    """The GPUs of a run on one node; ``idle_share`` is the share of the time without work.

    None is "not known".
    """

    node: str
    gpus: int = 0
    energy_j: float | None = None
    idle_share: float | None = None


@dataclass(frozen=True)
class RunUsage(Record, label="usage of a run"):
    """A line of the ledger: one run, and its job as it was then."""

    job_id: str
    run: int
    name: str = ""
    user: str = ""
    tags: tuple[str, ...] = ()
    ended_at: str = ""
    took_s: float = 0.0
    waited_s: float | None = None
    """Time in the queue before the run; None if it was not queued."""
    nodes: tuple[NodeUsage, ...] = ()


def total_energy_j(nodes: tuple[NodeUsage, ...]) -> float | None:
    """Return the energy of all GPUs, None if it is not known for all."""
    energies = [node.energy_j for node in nodes if node.gpus]
    known_energies = [energy_j for energy_j in energies if energy_j is not None]
    return sum(known_energies) if energies and len(known_energies) == len(energies) else None
