"""The partitions of a cluster and their nodes, as its scheduler describes them.

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class PartitionNode:
    """A node. ``gpus`` and ``used_gpus`` count by type; the type "" is one without a name.

    ``state`` is the scheduler's word ("idle", "drained"), ``reason`` why it is out of use.
    """

    name: str
    state: str
    cores: int = 0
    memory_mb: int = 0
    gpus: Mapping[str, int] = field(default_factory=dict)
    used_gpus: Mapping[str, int] = field(default_factory=dict)
    features: tuple[str, ...] = ()
    reason: str = ""
    is_usable: bool = True
    """The scheduler starts jobs on the node, now or when another one has ended."""

    @property
    def free_gpus(self) -> int:
        used_count = sum(self.used_gpus.values())
        return max(0, sum(self.gpus.values()) - used_count) if self.is_usable else 0


@dataclass(frozen=True)
class Partition:
    """A partition; ``time_limit_s`` is None without a limit."""

    name: str
    is_up: bool
    is_default: bool
    time_limit_s: int | None
    nodes: tuple[PartitionNode, ...] = ()

    @property
    def gpu_label(self) -> str:
        """Return how many GPUs of each type are free: "3 of 8 a100, 2 of 2"; "" without GPUs."""
        totals, uses = Counter[str](), Counter[str]()
        for node in self.nodes:
            totals.update(node.gpus)
            uses.update(node.used_gpus if node.is_usable else node.gpus)
        return ", ".join(f"{n - uses[t]} of {n} {t}".rstrip() for t, n in sorted(totals.items()))

    @property
    def gpu_types(self) -> tuple[str, ...]:
        """Return the names of the GPU types, sorted; "" where a type has no name."""
        return tuple(sorted({kind for node in self.nodes for kind in node.gpus}))
