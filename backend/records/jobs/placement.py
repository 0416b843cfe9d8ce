"""The nodes of a job, and what runs on each: a number of processes, or GPUs.

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from backend.records.base.schema import KEY
from backend.records.base.validation import REQUIRED, ConfigError, Table, sanitize
from backend.records.jobs.setting import Setting

ALLOCATED_GPU = "slurm:"
"""Before the number of a GPU that a scheduler chooses, of whatever kind; the first one is 0."""
THIS_COMPUTER = "this-computer"
"""Name of the node that needs no SSH and is always in the list."""


def node_label(node: str, host: str = "") -> str:
    """Return the name of a node for people, who know the computer ``host`` as this one, too."""
    return "this computer" if node in (THIS_COMPUTER, host or THIS_COMPUTER) else node


@dataclass(frozen=True)
class Placement:
    """Processes on one node: a number of CPU processes, or one process for each listed GPU."""

    node: str
    processes: int = 0
    gpus: tuple[str, ...] = ()
    shared_gpus: tuple[tuple[str, str], ...] = field(default=(), metadata={KEY: "beside"})
    """GPUs that another user may be using at the start, and that user: the GPUs are shared."""

    def sharing_user(self, gpu: str) -> str:
        return dict(self.shared_gpus).get(gpu, "")

    @property
    def process_count(self) -> int:
        return len(self.gpus) or self.processes

    def to_dict(self) -> dict[str, Any]:
        """Return the placement as in a job file."""
        if not self.gpus:
            return {"node": self.node, "processes": self.processes}
        users = {gpu: user for gpu, user in self.shared_gpus if gpu in self.gpus}
        optional_keys = {"beside": users} if users else {}
        return {"node": self.node, "gpus": list(self.gpus), **optional_keys}


@dataclass(frozen=True)
class PlacementError:
    """A reason why a scheduler would refuse a placement, or never start it."""

    message: str
    remedy: str


class ClusterPlacement(Protocol):
    """The request of a job to the scheduler that chooses its nodes; a table of the job file.

    ``cluster`` is the node with the scheduler's commands, as it was added. ``processes`` and
    ``gpus`` are counts for each node; each GPU has a process of its own. ``networks`` are subnets
    with a comma, by which the nodes reach each other. With ``continues`` the scheduler queues the
    job again when it has ended it.
    """

    @property
    def cluster(self) -> str: ...
    @property
    def nodes(self) -> int: ...
    @property
    def processes(self) -> int: ...
    @property
    def gpus(self) -> int: ...
    @property
    def networks(self) -> str: ...
    @property
    def continues(self) -> bool: ...

    def errors(self) -> Iterator[PlacementError]:
        """Yield why no cluster would take it."""

    def placements(self) -> tuple[Placement, ...]:
        """Return the nodes of the job, which are chosen later: they have numbers for names."""


def parse_placement(value: object) -> tuple[tuple[Placement, ...], tuple[ConfigError, ...]]:
    """Parse ``placement`` of a job file; return the placements, and the errors."""
    errors: list[ConfigError] = []
    placements = take_placement(Table({"placement": value}, "", errors))
    return placements, tuple(errors)


def take_placement(table: Table) -> tuple[Placement, ...]:
    """Take ``placement`` from a job file's table; its errors are added to the table's."""
    value = table.take_value("placement", REQUIRED)
    if value is REQUIRED:
        return ()
    if (
        not isinstance(value, (list, tuple))
        or not value
        or not all(isinstance(v, Mapping) for v in value)
    ):
        table.add_error("placement", "needs at least one node, each as a table [[placement]].")
        return ()
    placements = []
    for number, raw in enumerate(value):
        errors: list[ConfigError] = []
        entry = Table(raw, f"placement[{number}]", errors)
        node = entry.text("node", REQUIRED, empty_ok=False)
        gpus = Setting("texts", default=()).take_value(entry, "gpus")
        has_both = gpus and "processes" in entry
        processes = entry.whole_number("processes", 0 if gpus else REQUIRED, 0 if gpus else 1, 4096)
        if has_both:
            entry.add_error("processes", "cannot be used with gpus; use GPUs or CPUs of a node.")
        if len(set(gpus)) < len(gpus):
            entry.add_error("gpus", "names a GPU twice.")
        shared_gpus = _read_shared_gpus(entry, gpus)
        entry.report_unknown_keys(("node", "processes", "gpus", "beside"))
        for error in errors:
            table.add_error(error.path, error.message.partition(": ")[2])
        placements.append(Placement(node, processes, gpus, shared_gpus))
    nodes = [p.node for p in placements]
    if len(set(nodes)) < len(nodes):
        table.add_error("placement", "names a node twice.")
    if len({bool(p.gpus) for p in placements}) > 1:
        table.add_error("placement", "mixes GPUs and CPUs; a job uses one kind.")
    return tuple(placements)


def _read_shared_gpus(table: Table, gpus: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    value = table.take_value("beside", {})
    if not isinstance(value, Mapping) or not all(isinstance(user, str) for user in value.values()):
        table.add_error("beside", "must be a table of GPUs, each with a user's name.")
        return ()
    unknown_gpus = [gpu for gpu in value if gpu not in gpus]
    if unknown_gpus:
        table.add_error(
            "beside", f"names the GPU “{sanitize(str(unknown_gpus[0]))}”, which is not chosen."
        )
    return tuple((str(gpu), user) for gpu, user in value.items() if gpu in gpus)
