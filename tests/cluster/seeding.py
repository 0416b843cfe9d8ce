"""Seeded faults of a node, with a name and a repair; `tests.cluster.faults` has them all.

`expected` are the checks that must report it, with the nodes that they must name; nothing else may
be reported. ``{node}`` is filled in, as most faults can be anybody's.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from backend.datastore.nodes import files as node_files
from backend.records.nodes.entry import NodeEntry
from tests.cluster.commands import ClusterError
from tests.cluster.ready import ReadyCluster
from tests.fakes.mounted_root import mounted

Spoil = Callable[[ReadyCluster, str], Iterator[None]]
SITE = "lib/python3.11/site-packages"


@dataclass(frozen=True)
class SeededFault:
    name: str
    checks: tuple[str, ...]
    spoil: Spoil
    is_shared: bool = False
    """The fault belongs to no node: its findings name none."""

    def expected(self, node: str) -> set[tuple[str, tuple[str, ...]]]:
        return {(check, () if self.is_shared else (node,)) for check in self.checks}

    @contextmanager
    def seed(self, ready: ReadyCluster, node: str) -> Iterator[None]:
        fault_steps = self.spoil(ready, node)
        next(fault_steps)
        try:
            yield
        finally:
            # Not thrown in there: a test that fails must not leave the fault to the next one.
            next(fault_steps, None)


SEEDED_FAULTS: dict[str, SeededFault] = {}


def seeded_fault(*checks: str, shared: bool = False) -> Callable[[Spoil], Spoil]:
    def keep(spoil: Spoil) -> Spoil:
        name = spoil.__name__.strip("_")
        SEEDED_FAULTS[name] = SeededFault(name, checks, spoil, shared)
        return spoil

    return keep


def run_as_root(ready: ReadyCluster, node: str, command: str) -> None:
    completed = ready[node].run(["sh", "-ec", command], user="root")
    if completed.returncode:
        raise ClusterError(f"{command} on {node}: {completed.stderr}")


@contextmanager
def read_only_folder(ready: ReadyCluster, node: str, path: str) -> Iterator[None]:
    """Files under ``path`` cannot be opened for writing; open ones can be written.

    It is made read-only while nothing is written: the kernel refuses that during an opening.
    """
    mount_point = "/mnt/read-only"
    make = f"mkdir -p {mount_point}; mount --bind {path} {mount_point}"
    remount = f"mount -o remount,bind,ro {mount_point}; mount --bind {mount_point} {path}"
    run_as_root(ready, node, f"{make}; {remount}; umount {mount_point}")
    try:
        yield
    finally:
        run_as_root(ready, node, f"umount -l {path}")


def environment(ready: ReadyCluster, node: str) -> str:
    installation = ready.entry(node).installation
    assert installation is not None
    return installation.python.rpartition("/bin/")[0]


def bundle(ready: ReadyCluster, node: str) -> str:
    installation = ready.entry(node).installation
    assert installation is not None
    return installation.bundle


@contextmanager
def move_away(ready: ReadyCluster, node: str, path: str) -> Iterator[None]:
    """A file or folder that is not there; what a fix has put in its place stays."""
    quoted = shlex.quote(path)
    run_as_root(ready, node, f"mv {quoted} {quoted}.away")
    try:
        yield
    finally:
        # A fix may have made the folder above again, without what was moved in the old one.
        run_as_root(
            ready,
            node,
            f"if [ -e {quoted} ]; then rm -rf {quoted}.away;"
            f" elif [ -e {quoted}.away ]; then mv {quoted}.away {quoted}; fi",
        )


@contextmanager
def rewritten_file(ready: ReadyCluster, node: str, path: str, edit: str) -> Iterator[None]:
    """A file changed by a command that reads it and prints what it shall be; put back after."""
    quoted = shlex.quote(path)
    run_as_root(
        ready,
        node,
        f"cp -p {quoted} {quoted}.away; {{ {edit}; }} <{quoted}.away >{quoted}",
    )
    try:
        yield
    finally:
        run_as_root(ready, node, f"if [ -e {quoted}.away ]; then mv {quoted}.away {quoted}; fi")


@contextmanager
def changed_entry(
    ready: ReadyCluster, node: str, change: Callable[[NodeEntry], NodeEntry]
) -> Iterator[None]:
    """Another ``node.json``; put back unless a fix has written it again."""
    root = mounted(ready.cluster.share)
    previous_entry = ready.entry(node)
    spoiled_entry = change(previous_entry)
    node_files.write_entry(root, spoiled_entry)
    try:
        yield
    finally:
        if ready.entry(node) == spoiled_entry:
            node_files.write_entry(root, previous_entry)
