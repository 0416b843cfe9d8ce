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
    JobPreflight,
    NodePreflight,
    PreflightTarget,
    Reply,
)

MIN_HOME_BYTES = 50_000_000
MIN_DISK_BYTES = 100_000_000
_FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT)
_ACCESS_ERRORS = (errno.EACCES, errno.EPERM)


ROOT = Probe("data_root", preflight_probe.data_root)


def sees_root(target: PreflightTarget, replies: Replies) -> bool:
    return bool((replies.get("data_root") or {}).get("seen"))


def no_data_root(node: NodePreflight, job: JobPreflight) -> Iterator[Result]:
    name, entry, label = node.name, node.entry, wording.node_label(node.name)
    if entry is not None and entry.installation is not None and not entry.data_root:
        yield Result(
            f"{name} does not see the data root.",
            f"Mount it on {name} at the same path as on the other nodes, then check {name} again.",
            Fix.CHECK_AGAIN,
        )
    if not node.is_proof_seen:
        yield Result(
            f"This computer does not see the file that {label} wrote to {job.root_name}.",
            f"Mount the same share on both, not a copy of it on {label}.",
        )


def data_root(target: PreflightTarget, reply: Reply | None) -> Iterator[Result]:
    node, root, label = target.node, target.data_root, target.label
    if not root:
        return
    if target.no_share and (reply is None or not reply["seen"]):
        yield Result(
            f"{label} cannot read the staged files in {root}.",
            f"Set {node} up again. If that fails, check the permissions of {root} on {node}.",
            Fix.SET_UP_AGAIN,
        )
    elif reply is None:
        yield Result(
            f"The data root {root} does not answer on {label}.",
            "Check that the file server runs and the mount is not stale.",
        )
    elif not reply["there"]:
        yield Result(f"The data root {root} does not exist on {label}.", f"Mount it on {label}.")
    elif not reply["seen"] and reply["why"]:
        yield Result(
            f"The data root {root} cannot be read on {label}: {sanitize(reply['why'])}.",
            f"Let the user who runs jobs on {label} read and write {root}.",
        )
    elif not reply["seen"]:
        yield Result(
            f"{label} does not see the data root of this computer: a file written here did not "
            f"appear in {root} on {label}.",
            f"Mount the same share on {label} at {root}.",
        )
    elif not reply["why"] or reply.get("code") in _FULL_ERRORS:
        return
    elif reply.get("code") in _ACCESS_ERRORS and target.jobs_are_narrow:
        yield Result(
            f"{label} may write to the data root {root}, but not to the folder of its jobs: "
            f"{sanitize(reply['why'])}.",
            "Give that folder the rights of the data root.",
            Fix.SHARE_JOBS,
        )
    else:
        yield Result(
            f"{label} cannot write to the data root {root}: {sanitize(reply['why'])}.",
            f"Let the user who runs jobs on {label} write to {root}; it may be mounted read-only.",
        )


def local_data_root(job: JobPreflight) -> Iterator[Result]:
    error = job.root_error
    if isinstance(error, BackendError):
        yield Result(error.message, error.remedy, Fix.NONE, ())
    elif error is not None:
        yield Result(
            f"This computer cannot write to the data root {job.root_name}: {error.strerror}.",
            "Free some space, or check that it is mounted and that you may write to it.",
            Fix.NONE,
            (),
            names.DISK if error.errno in _FULL_ERRORS else names.DATA_ROOT,
        )


def differences(job: JobPreflight) -> Iterator[Result]:
    """Yield the first difference of each node to the head node, from their set-up."""
    for node in job.target_nodes[1:]:
        head, target = job.target_nodes[0], node.target
        if node.has_horovod == head.has_horovod and head.target and target:
            yield from _first_difference(head.target, target)


def _first_difference(head: PreflightTarget, target: PreflightTarget) -> Iterator[Result]:
    if head.no_share is not target.no_share:
        staged_node, mounting_node = (head, target) if head.no_share else (target, head)
        yield Result(
            f"{staged_node.node} does not see the data root and {mounting_node.label} does; "
            "the nodes of a job must be of one kind.",
            f"Choose other nodes, or mount the data root on {staged_node.node} and add it again.",
            nodes=(target.node,),
        )
        return
    remedy = f"Set up {head.node} and {target.node} again together."
    for check, subject, head_value, value in (
        (names.DATA_ROOT, "the data root", head.data_root, target.data_root),
        (names.OPEN_MPI, "Open MPI", head.mpi_version, target.mpi_version),
        (names.PYTHON, "Python", head.python, target.python),
        (names.OPEN_MPI, "mpirun", head.mpirun, target.mpirun),
    ):
        if head_value and value and head_value != value:
            yield Result(
                f"{subject[0].upper() + subject[1:]} is {head_value} on {head.node} and {value} "
                f"on {target.node}; the nodes of a job need the same.",
                remedy if check != names.DATA_ROOT else "Mount it at the same path on both.",
                Fix.SET_UP_AGAIN if check != names.DATA_ROOT else None,
                (target.node,),
                check,
            )
            return


def disk(target: PreflightTarget, reply: Reply) -> Iterator[Result]:
    root, label, code = target.data_root, target.label, reply.get("code")
    if reply["why"] and code == errno.EDQUOT:
        yield Result(
            f"The disk quota of the user who runs jobs on {label} is used up in {root}.",
            f"Remove files in {root}, or have the quota raised.",
        )
    elif lacks_files(reply) and (code == errno.ENOSPC if reply["why"] else target.is_head):
        yield no_free_files(reply["files"])
    elif reply["why"] and code == errno.ENOSPC:
        yield Result(
            f"The data root is full: {label} cannot write one byte to {root}.",
            f"Free some space in {root}, or empty its trash.",
        )
    elif reply["why"]:
        return
    elif target.is_head and reply["free"] < max(MIN_DISK_BYTES, target.needed_bytes):
        yield no_free_space(reply["free"], target.needed_bytes)


def lacks_files(reply: Reply) -> bool:
    return reply.get("files") is not None and reply["files"] < LEAST_FILES


def no_free_files(free_files: int) -> Result:
    return Result(
        f"The data root {free_files_message(free_files)}.",
        "Remove files that are not needed: old jobs, datasets of many small files, the trash.",
        nodes=(),
    )


def no_free_space(free_bytes: int, needed_bytes: int) -> Result:
    """Return the result of a data root that is too full for the checkpoints of a job."""
    free_clause = f"The data root has {number_format.size(free_bytes)} left, and"
    need_clause = (
        f"the job's checkpoints need about {number_format.size(needed_bytes)}"
        if needed_bytes > free_bytes
        else f"a job needs {number_format.size(MIN_DISK_BYTES)} at least"
    )
    return Result(
        f"{free_clause} {need_clause}.", "Free some space, or keep fewer checkpoints.", nodes=()
    )


def home(target: PreflightTarget, reply: Reply) -> Iterator[Result]:
    node, home = target.node, target.home
    if reply["why"]:
        yield Result(
            f"Nothing can be written to {home} on {node}: {sanitize(reply['why'])}.",
            f"Free some space on {node}, or give the folder to the user who runs jobs.",
        )
    elif lacks_files(reply):
        yield Result(
            f"The disk of {home} on {node} {free_files_message(reply['files'])}.",
            f"Remove some files on {node}.",
        )
    elif reply["free"] < MIN_HOME_BYTES:
        yield Result(
            f"The disk of {home} on {node} has {reply['free'] / 1e6:.0f} MB left.",
            f"Free some space on {node}.",
        )
    elif reply["noexec"]:
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
