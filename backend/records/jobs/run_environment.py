"""The environment of a run: ``attempts/<n>/environment.json``, written by rank 0.

A difference here explains a curve that cannot be reproduced. Standard library only and Python 3.9:
the nodes import this.
"""

from __future__ import annotations

from dataclasses import dataclass

from backend.records.base.schema import Record

_NAMES = {
    "python": "Python",
    "torch": "PyTorch",
    "horovod": "Horovod",
    "cuda": "CUDA",
    "system": "system",
    "device": "device",
    "program": "program",
}


@dataclass(frozen=True)
class RunEnvironment(Record, label="environment record"):
    """The environment of one run. ``threads`` are those of one rank; ``device`` is the model of
    rank 0's GPU or CPU, ``program`` the version of this program and the commit of a checkout.
    What could not be found out is ""."""

    run: int
    seed: int
    processes: int
    python: str = ""
    torch: str = ""
    horovod: str = ""
    cuda: str = ""
    system: str = ""
    device: str = ""
    threads: int = 0
    nodes: tuple[str, ...] = ()
    program: str = ""


def differences(then: RunEnvironment, now: RunEnvironment) -> tuple[str, ...]:
    """Return the differences as text: "PyTorch 2.5.1 then, 2.6.0 now"; empty if there are none."""
    found = [
        f"{name} {getattr(then, key)} then, {getattr(now, key)} now"
        for key, name in _NAMES.items()
        if getattr(then, key) and getattr(now, key) and getattr(then, key) != getattr(now, key)
    ]
    if then.processes != now.processes:
        found.append(f"{_count(then.processes, 'process')} then, {now.processes} now")
    if then.threads and now.threads and then.threads != now.threads:
        found.append(f"{_count(then.threads, 'thread')} in each then, {now.threads} now")
    if then.seed != now.seed:
        found.append(f"seed {then.seed} then, {now.seed} now")
    return tuple(found)


def _count(number: int, thing: str) -> str:
    ending = "es" if thing.endswith("s") else "s"
    return f"{number} {thing}" if number == 1 else f"{number} {thing}{ending}"
