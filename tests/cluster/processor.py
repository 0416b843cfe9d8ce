"""Processor time of a node's own: a control group with a quota, as well as one machine can be many.

Eight nodes that want a core each share the cores of this machine, and take eight times as long as
one. With a quota that all of them together do not use up, a node has the same processor next to
seven others as it has alone, which is what machines have. They come before all other processes of
this machine, by the group's weight.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from tests.cluster.commands import ClusterError
from tests.waiting import wait_for

_ROOT = Path("/sys/fs/cgroup")
_PERIOD_US = 20_000
"""A fifth of what the kernel takes by itself: a node waits 20 ms at most for its next slice."""

_ENTER = 'while [ "$1" != -- ]; do echo $$ >"$1"; shift; done; shift; exec "$@"'


class Processor:
    """The group of one node. What was started in it stays in it, with all its descendants."""

    def __init__(self, name: str, cores: float) -> None:
        self._name = name
        self._cores = cores

    def make(self) -> None:
        """Make it, or find it from before a reboot.

        Raises:
            ClusterError: This machine has no control group for processors, or not for us.
        """
        quota_us = round(self._cores * _PERIOD_US)
        try:
            for folder in _folders(self._name):
                folder.mkdir(exist_ok=True)
            if _is_one_tree():
                (_ROOT / "cgroup.subtree_control").write_text("+cpu")
                (_ROOT / self._name / "cpu.max").write_text(f"{quota_us} {_PERIOD_US}")
                (_ROOT / self._name / "cpu.weight").write_text("10000")
            else:
                limits = _ROOT / "cpu" / self._name
                (limits / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
                (limits / "cpu.cfs_quota_us").write_text(str(quota_us))
                (limits / "cpu.shares").write_text("262144")
        except OSError as error:
            raise ClusterError(f"A node cannot be given a processor of its own: {error}") from error

    def enter_command(self) -> list[str]:
        """Return the prefix of a command that executes it in the group."""
        files = [str(folder / "cgroup.procs") for folder in _folders(self._name)]
        return ["sh", "-c", _ENTER, "sh", *files, "--"]

    @contextlib.contextmanager
    def hold_process(self, pid: int) -> Iterator[None]:
        """Hold a process of this machine in it, for the length of a block, with all its threads."""
        self.make()
        previous_groups = _groups_of(pid)
        for folder in _folders(self._name):
            (folder / "cgroup.procs").write_text(str(pid))
        try:
            yield
        finally:
            for folder in previous_groups:
                (folder / "cgroup.procs").write_text(str(pid))

    def throttle_count(self) -> int:
        """Return how often its processes had to wait because the quota was used up."""
        folder = _ROOT / self._name if _is_one_tree() else _ROOT / "cpu" / self._name
        lines = (folder / "cpu.stat").read_text().splitlines()
        return int(dict(line.split() for line in lines)["nr_throttled"])

    def used_s(self) -> float:
        """Seconds of a core that its processes took since it was made, ended ones included."""
        if _is_one_tree():
            lines = (_ROOT / self._name / "cpu.stat").read_text().splitlines()
            return int(dict(line.split() for line in lines)["usage_usec"]) / 1e6
        return int((_ROOT / "cpuacct" / self._name / "cpuacct.usage").read_text()) / 1e9


def remove_groups(prefix: str) -> None:
    """Take the groups away whose names begin like that; nothing may run in them any more."""

    def are_gone() -> bool:
        for folder in groups(prefix):
            with contextlib.suppress(OSError):  # its last process is on its way out
                folder.rmdir()
        return not groups(prefix)

    wait_for(are_gone, f"the end of control groups {prefix}*")


def groups(prefix: str) -> list[Path]:
    """Folders of the groups that are there."""
    return [folder for parent in _parents() for folder in parent.glob(f"{prefix}*/")]


def _is_one_tree() -> bool:
    """Version 2 of control groups: one tree for all that can be limited."""
    return (_ROOT / "cgroup.controllers").exists()


def _parents() -> list[Path]:
    return [_ROOT] if _is_one_tree() else [_ROOT / "cpu", _ROOT / "cpuacct"]


def _groups_of(pid: int) -> list[Path]:
    """Return the groups of a process, in the order of `_parents`."""
    lines = Path("/proc", str(pid), "cgroup").read_text().splitlines()
    group_paths = {names: path for _, names, path in (line.split(":", 2) for line in lines)}
    controller_names = [""] if _is_one_tree() else [parent.name for parent in _parents()]
    parent_names = zip(_parents(), controller_names, strict=True)
    return [parent / group_paths[name].lstrip("/") for parent, name in parent_names]


def _folders(name: str) -> list[Path]:
    return [parent / name for parent in _parents()]
