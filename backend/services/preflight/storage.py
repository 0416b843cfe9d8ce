"""Judges of the data root, its disk and the home folder. Pure."""

from __future__ import annotations

import errno
from collections.abc import Iterator

from backend.base.errors import BackendError
from backend.base.room import LEAST_FILES, free_files_message
from backend.node.checks import preflight_probe
from backend.node.system import wording
from backend.records.base import number_format
from backend.records.base.validation import sanitize
from backend.records.nodes.preflight import Fix
from backend.services.preflight import names
from backend.services.preflight.check import Probe, Replies, Result
from backend.services.preflight.context import (
    Facts,
    JobPreflight,
    NodePreflight,
    PreflightTarget,
)

LEAST_HOME_BYTES = 50_000_000
LEAST_DISK_BYTES = 100_000_000
_FULL = (errno.ENOSPC, errno.EDQUOT)
_NO_RIGHT = (errno.EACCES, errno.EPERM)


ROOT = Probe("data_root", preflight_probe.data_root)


def sees_root(target: PreflightTarget, replies: Replies) -> bool:
    return bool((replies.get("data_root") or {}).get("seen"))


def no_data_root(node: NodePreflight, job: JobPreflight) -> Iterator[Result]:
    name, entry, place = node.name, node.entry, wording.node_label(node.name)
    if entry is not None and entry.installation is not None and not entry.data_root:
        yield Result(
            f"{name} does not see the data root.",
            f"Mount it on {name} at the same path as on the other nodes, then check {name} again.",
            Fix.CHECK_AGAIN,
        )
    if not node.is_seen_here:
        yield Result(
            f"This computer does not see the file that {place} wrote to {job.root_name}.",
            f"Mount the same share on both, not a copy of it on {place}.",
        )


def data_root(target: PreflightTarget, facts: Facts | None) -> Iterator[Result]:
    node, root, place = target.node, target.data_root, target.place
    if not root:
        return
    if target.no_share and (facts is None or not facts["seen"]):
        yield Result(
            f"{place} cannot read the staged files in {root}.",
            f"Set {node} up again. If that fails, check the permissions of {root} on {node}.",
            Fix.SET_UP_AGAIN,
        )
    elif facts is None:
        yield Result(
            f"The data root {root} does not answer on {place}.",
            "Check that the file server runs and the mount is not stale.",
        )
    elif not facts["there"]:
        yield Result(f"The data root {root} does not exist on {place}.", f"Mount it on {place}.")
    elif not facts["seen"] and facts["why"]:
        yield Result(
            f"The data root {root} cannot be read on {place}: {sanitize(facts['why'])}.",
            f"Let the user who runs jobs on {place} read and write {root}.",
        )
    elif not facts["seen"]:
        yield Result(
            f"{place} does not see the data root of this computer: a file written here did not "
            f"appear in {root} on {place}.",
            f"Mount the same share on {place} at {root}.",
        )
    elif not facts["why"] or facts.get("code") in _FULL:
        return
    elif facts.get("code") in _NO_RIGHT and target.jobs_are_narrow:
        yield Result(
            f"{place} may write to the data root {root}, but not to the folder of its jobs: "
            f"{sanitize(facts['why'])}.",
            "Give that folder the rights of the data root.",
            Fix.SHARE_JOBS,
        )
    else:
        yield Result(
            f"{place} cannot write to the data root {root}: {sanitize(facts['why'])}.",
            f"Let the user who runs jobs on {place} write to {root}; it may be mounted read-only.",
        )


def root_here(job: JobPreflight) -> Iterator[Result]:
    error = job.root_error
    if isinstance(error, BackendError):
        yield Result(error.message, error.remedy, Fix.NONE, ())
    elif error is not None:
        yield Result(
            f"This computer cannot write to the data root {job.root_name}: {error.strerror}.",
            "Free some space, or check that it is mounted and that you may write to it.",
            Fix.NONE,
            (),
            names.DISK if error.errno in _FULL else names.DATA_ROOT,
        )


def apart(job: JobPreflight) -> Iterator[Result]:
    """Yield the first difference of each node to the head node, from their set-up."""
    for node in job.asked[1:]:
        head, other = job.asked[0], node.target
        if node.has_horovod == head.has_horovod and head.target and other:
            yield from _two_apart(head.target, other)


def _two_apart(head: PreflightTarget, other: PreflightTarget) -> Iterator[Result]:
    if head.no_share is not other.no_share:
        blind, sees = (head, other) if head.no_share else (other, head)
        yield Result(
            f"{blind.node} does not see the data root and {sees.place} does; "
            "the nodes of a job must be of one kind.",
            f"Choose other nodes, or mount the data root on {blind.node} and add it again.",
            nodes=(other.node,),
        )
        return
    again = f"Set up {head.node} and {other.node} again together."
    for check, what, mine, theirs in (
        (names.DATA_ROOT, "the data root", head.data_root, other.data_root),
        (names.OPEN_MPI, "Open MPI", head.mpi_version, other.mpi_version),
        (names.PYTHON, "Python", head.python, other.python),
        (names.OPEN_MPI, "mpirun", head.mpirun, other.mpirun),
    ):
        if mine and theirs and mine != theirs:
            yield Result(
                f"{what[0].upper() + what[1:]} is {mine} on {head.node} and {theirs} on "
                f"{other.node}; the nodes of a job need the same.",
                again if check != names.DATA_ROOT else "Mount it at the same path on both.",
                Fix.SET_UP_AGAIN if check != names.DATA_ROOT else None,
                (other.node,),
                check,
            )
            return


def disk(target: PreflightTarget, facts: Facts) -> Iterator[Result]:
    root, place, code = target.data_root, target.place, facts.get("code")
    if facts["why"] and code == errno.EDQUOT:
        yield Result(
            f"The disk quota of the user who runs jobs on {place} is used up in {root}.",
            f"Remove files in {root}, or have the quota raised.",
        )
    elif lacks_files(facts) and (code == errno.ENOSPC if facts["why"] else target.leads):
        yield no_files(facts["files"])
    elif facts["why"] and code == errno.ENOSPC:
        yield Result(
            f"The data root is full: {place} cannot write one byte to {root}.",
            f"Free some space in {root}, or empty its trash.",
        )
    elif facts["why"]:
        return
    elif target.leads and facts["free"] < max(LEAST_DISK_BYTES, target.needed_bytes):
        yield no_room(facts["free"], target.needed_bytes)


def lacks_files(facts: Facts) -> bool:
    return facts.get("files") is not None and facts["files"] < LEAST_FILES


def no_files(free_files: int) -> Result:
    return Result(
        f"The data root {free_files_message(free_files)}.",
        "Remove files that are not needed: old jobs, datasets of many small files, the trash.",
        nodes=(),
    )


def no_room(free_bytes: int, needed_bytes: int) -> Result:
    """Say that a data root lacks room for the checkpoints of a job, or for any job."""
    left = f"The data root has {number_format.size(free_bytes)} left, and"
    need = (
        f"the job's checkpoints need about {number_format.size(needed_bytes)}"
        if needed_bytes > free_bytes
        else f"a job needs {number_format.size(LEAST_DISK_BYTES)} at least"
    )
    return Result(f"{left} {need}.", "Free some space, or keep fewer checkpoints.", nodes=())


def home(target: PreflightTarget, facts: Facts) -> Iterator[Result]:
    node, home = target.node, target.home
    if facts["why"]:
        yield Result(
            f"Nothing can be written to {home} on {node}: {sanitize(facts['why'])}.",
            f"Free some space on {node}, or give the folder to the user who runs jobs.",
        )
    elif lacks_files(facts):
        yield Result(
            f"The disk of {home} on {node} {free_files_message(facts['files'])}.",
            f"Remove some files on {node}.",
        )
    elif facts["free"] < LEAST_HOME_BYTES:
        yield Result(
            f"The disk of {home} on {node} has {facts['free'] / 1e6:.0f} MB left.",
            f"Free some space on {node}.",
        )
    elif facts["noexec"]:
        yield Result(
            f"The file system of {home} on {node} is mounted noexec, so no program in it can be "
            "executed.",
            f"Let its administrator mount it again: mount -o remount,exec {home}",
        )


def no_home(target: PreflightTarget, replies: Replies) -> Iterator[Result]:
    yield Result(
        f"The disk of {target.home} on {target.node} does not answer.",
        "Ask its administrator, or run without it.",
    )
