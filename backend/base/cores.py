"""Processors that this process may use. Standard library only and Python 3.6.

`backend.node.checks.node_facts` is sent to nodes together with this file.
"""

import os

_OWN_CGROUPS = "/proc/self/cgroup"
_CGROUPS = "/sys/fs/cgroup"


def usable_cores() -> int:
    """Return the number of usable processors; taskset, a scheduler or a container may limit it.

    Of a quota of 1.5 processors one core is used: a second would wait half of the time, and the
    first for it.
    """
    has_affinity = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    for line in _read(_OWN_CGROUPS).splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers or "cpu" in controllers.split(","):
            cores = min(cores, _quota(_CGROUPS + ("/cpu" if controllers else ""), path))
    return max(1, cores)


def _quota(root: str, path: str) -> int:
    """Return the whole processors that a cgroup and those above it may use, many without a limit.

    In a container the path may be one of the host, of which only the root is visible.
    """
    core_limit = 1 << 30
    while True:
        folder = root + path.rstrip("/")
        fields = _read(folder + "/cpu.max").split()  # version 2
        if not fields:
            fields = [_read(folder + "/cpu.cfs_" + name + "_us").strip() for name in _CFS_NAMES]
        if len(fields) == 2 and all(map(str.isdigit, fields)):
            core_limit = min(core_limit, int(fields[0]) // int(fields[1]))
        if path in ("", "/"):
            return core_limit
        path = path.rstrip("/").rpartition("/")[0]


_CFS_NAMES = ("quota", "period")


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""  # not limited in this way
