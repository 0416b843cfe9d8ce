"""A Slurm cluster as its own commands describe it: partitions, nodes, GPUs, accounts and limits.

Each command has a table of fields, so that the output has no headings and no columns that Slurm
cuts off. The options are those of Slurm 22.05 and newer.

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from backend.records.base.validation import sanitize
from backend.records.nodes.partition import Partition, PartitionNode

_NODE_FIELDS = {
    "Partition": 80,
    "Available": 10,
    "Time": 20,
    "NodeList": 80,
    "StateLong": 30,
    "CPUs": 10,
    "Memory": 20,
    "Gres": 200,
    "GresUsed": 200,
    "Features": 300,
    "Reason": 200,
}
"""Fields of `sinfo` and the characters to which Slurm cuts them."""
NODES_COMMAND = ("sinfo", "-h", "-N", "-O", ",".join(f"{f}:{n}|" for f, n in _NODE_FIELDS.items()))
"""One line for each node in each of its partitions, read by `parse_partitions`."""
_CUT = "|"
_GPU = re.compile(r"gpu(?::(?P<kind>[^:(),]+))?:(?P<count>\d+)(?:\(.*?\))?(?:,|$)")
_TIME = re.compile(r"(?:(?P<days>\d+)-)?(?P<parts>\d+(?::\d+){0,2})")
_UNUSABLE = ("down", "drain", "fail", "maint", "not_responding", "power", "inval", "unknown")
_STATE_MARKS = "*~#!%$@^-+"
_REASON_CHARS = 200


@dataclass(frozen=True)
class Association:
    """An account of the user; ``partition`` is "" if it holds for all of them."""

    account: str
    partition: str = ""
    qos: tuple[str, ...] = ()
    default_qos: str = ""


def parse_partitions(output: str) -> tuple[Partition, ...]:
    """Read the output of `NODES_COMMAND`, the default first. Lines of another form are left out."""
    partitions: dict[str, Partition] = {}
    for line in output.splitlines():
        values = [value.strip() for value in line.split(_CUT, len(_NODE_FIELDS) - 1)]
        if len(values) != len(_NODE_FIELDS):
            continue
        row = dict(zip(_NODE_FIELDS, values))
        name = row["Partition"].rstrip("*")
        partition = partitions.get(name) or Partition(
            name,
            is_up=row["Available"] == "up",
            is_default=row["Partition"].endswith("*"),
            time_limit_s=parse_time(row["Time"]),
        )
        nodes = (*partition.nodes, _node(row))
        partitions[name] = Partition(
            name, partition.is_up, partition.is_default, partition.time_limit_s, nodes
        )
    return tuple(sorted(partitions.values(), key=lambda p: not p.is_default))


def _node(row: Mapping[str, str]) -> PartitionNode:
    reason = row["Reason"].rstrip(_CUT).strip()
    state = row["StateLong"].rstrip(_STATE_MARKS).lower()
    return PartitionNode(
        row["NodeList"],
        state,
        _count(row["CPUs"]),
        _count(row["Memory"]),
        parse_gpus(row["Gres"]),
        parse_gpus(row["GresUsed"]),
        tuple(feature for feature in row["Features"].split(",") if feature not in ("", "(null)")),
        "" if reason == "none" else sanitize(reason, _REASON_CHARS),
        is_usable=not state.startswith(_UNUSABLE),
    )


def _count(text: str) -> int:
    digits = re.match(r"\d+", text)
    return int(digits[0]) if digits else 0


def parse_gpus(gres: str) -> dict[str, int]:
    """Count the GPUs by type in Slurm's "gpu:a100:4(S:0-1),gpu:2,shard:8"; those of 0 are left out.

    ``(IDX:0-3)`` behind a count of used ones is ignored.
    """
    counts: dict[str, int] = {}
    for match in _GPU.finditer(gres):
        kind = match["kind"] or ""
        kind = "" if kind == "(null)" else kind
        if int(match["count"]):
            counts[kind] = counts.get(kind, 0) + int(match["count"])
    return counts


def parse_time(text: str) -> int | None:
    """Return the seconds of "2-12:00:00", "1:30:00", "30:00" or "90" (minutes).

    None stands for no limit, and for a text of another form.
    """
    match = _TIME.fullmatch(text.strip())
    if match is None:
        return None
    numbers = [int(number) for number in match["parts"].split(":")]
    if match["days"] is not None:
        hours, minutes, seconds = (*numbers, 0, 0)[:3]
        return ((int(match["days"]) * 24 + hours) * 60 + minutes) * 60 + seconds
    if len(numbers) == 1:
        return numbers[0] * 60
    hours, minutes, seconds = (0, 0, *numbers)[-3:]
    return (hours * 60 + minutes) * 60 + seconds


def format_time(seconds: int) -> str:
    """Return a time limit as `sbatch` takes it, "1-12:00:00"; part of a minute counts as one."""
    minutes = -(-seconds // 60)
    return f"{minutes // 1440}-{minutes // 60 % 24:02}:{minutes % 60:02}:00"


def associations_command(user: str) -> tuple[str, ...]:
    """Return the command whose output `parse_associations` reads; it needs Slurm's accounting."""
    columns = "format=Account,Partition,QOS,DefaultQOS"
    return ("sacctmgr", "-n", "-P", "show", "assoc", f"user={user}", columns)


def parse_associations(output: str) -> tuple[Association, ...]:
    """Read the accounts of a user. Lines of another form are left out."""
    return tuple(_associations(output.splitlines()))


def _associations(lines: Sequence[str]) -> Iterator[Association]:
    for line in lines:
        values = [value.strip() for value in line.split(_CUT)]
        if len(values) == 4 and values[0]:
            account, partition, qos, default_qos = values
            yield Association(account, partition, tuple(filter(None, qos.split(","))), default_qos)
