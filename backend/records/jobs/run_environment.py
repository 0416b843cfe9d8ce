"""The environment of a run: ``attempts/<n>/environment.json``, written by rank 0.

A difference here explains a curve that cannot be reproduced. Standard library only and Python 3.9:
the nodes import this.
"""

from __future__ import annotations

from dataclasses import dataclass

from backend.records.base.schema import Record

LABELS = {
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
    A field that could not be read is ""."""

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


def differences(old: RunEnvironment, new: RunEnvironment) -> tuple[str, ...]:
    """Return the differences as text: "PyTorch 2.5.1 then, 2.6.0 now"; empty if there are none."""
    texts = [
        f"{name} {getattr(old, key)} then, {getattr(new, key)} now"
        for key, name in LABELS.items()
        if getattr(old, key) and getattr(new, key) and getattr(old, key) != getattr(new, key)
    ]
    if old.processes != new.processes:
        texts.append(f"{_count(old.processes, 'process')} then, {new.processes} now")
    if old.threads and new.threads and old.threads != new.threads:
        texts.append(f"{_count(old.threads, 'thread')} in each then, {new.threads} now")
    if old.seed != new.seed:
        texts.append(f"seed {old.seed} then, {new.seed} now")
    return tuple(texts)


def _count(number: int, noun: str) -> str:
    suffix = "es" if noun.endswith("s") else "s"
    return f"{number} {noun}" if number == 1 else f"{number} {noun}{suffix}"
