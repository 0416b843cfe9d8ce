"""All preflight checks: what is asked, how it is judged, and which fix is offered. Pure.

A new check is one entry of `CHECKS`, with its judge above the table. It asks for a fact with a
`Probe`; most are `preflight_probe.command`, for anything that a program prints.
"""

from __future__ import annotations

import errno
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from backend.base.errors import BackendError
from backend.base.room import LEAST_FILES, files_words
from backend.node.checks import preflight_probe
from backend.node.system import wording
from backend.node.system.mpi import version_in
from backend.records.base import number_format
from backend.records.base.program_name import COMMAND
from backend.records.base.schema import LENIENT, build
from backend.records.base.validation import sanitize
from backend.records.jobs.config import THIS_COMPUTER
from backend.records.nodes.preflight import Fix, PreflightFinding
from backend.records.nodes.reading import Gpu, GpuProcess, Orphan
from backend.records.queue.entry import PROCESSES_PER_CORE
from backend.services.preflight import connectivity
from backend.services.preflight.check import (
    Check,
    Probe,
    Replies,
    Result,
    is_executable,
    is_remote,
    not_checked,
)
from backend.services.preflight.context import (
    Facts,
    JobPreflight,
    NodePreflight,
    PreflightTarget,
    looking_python,
)
from backend.services.preflight.limits import VARIABLE
from backend.services.preflight.node_probe import NoPython
from backend.ssh.interface import HostKeyChanged, HostKeyUnknown, LoginRefused, Unreachable

_log = logging.getLogger(__name__)

CLOCK_WARNING_S = 60.0
LEAST_HOME_BYTES = 50_000_000
LEAST_DISK_BYTES = 100_000_000
SHARED_MEMORY_BYTES = 16 * 2**20
"""Of each rank that is not alone on its node, for Open MPI's ``sm``; and of a loader worker."""
LEAST_OPEN_FILES = 256
_OPEN_FILES_OF_WORKER, _MOST_COUNTED_WORKERS = 32, 16
"""A worker hands over each tensor as an open file. The usual limit of 1024 is enough for any."""
_FULL = (errno.ENOSPC, errno.EDQUOT)
_NO_RIGHT = (errno.EACCES, errno.EPERM)

DATA_ROOT, DISK, HOME = "data root", "disk", "home folder"
PYTHON, PYTORCH, HOROVOD, OPEN_MPI = "Python", "PyTorch", "Horovod", "Open MPI"
MPI4PY = "MPI for Python"
PROGRAM, AGENT, NODE, NETWORK = "program", "agent", "node", "common network"
SSH, HOST_KEY, BETWEEN = "SSH", "host key", "SSH between nodes"
ROUTE, GPUS, CLOCK = "connections between nodes", "GPUs", "clock"
SHARED_MEMORY, OPEN_FILES, LEFTOVERS = "shared memory", "open files", "left-over processes"
PROCESSES, SETTINGS = "processes", "SSH settings"

_LIBRARIES = {"torch": PYTORCH, "horovod": HOROVOD, "mpi4py": MPI4PY}

# The node, and the way to it.


def _node(node: NodePreflight, job: JobPreflight) -> Iterator[Result]:
    name, entry, place = node.name, node.entry, wording.place(node.name)
    if entry is None and name != THIS_COMPUTER:
        known = ", ".join(job.known)
        yield Result(
            f"There is no node “{sanitize(name)}”.",
            f"Known nodes: {known}." if known else f"Add it: {COMMAND} node add HOST",
        )
    if entry is not None and not entry.in_service:
        yield Result(
            f"{name} is out of service.",
            "Put it back into service, or run without it.",
            Fix.PUT_INTO_SERVICE,
        )
    if entry is not None and entry.installation is None:
        yield Result(f"{name} is not set up.", f"Set {name} up.", Fix.SET_UP_AGAIN)
    if node.target is not None and not node.over.is_set():
        yield Result(
            f"{place} has not answered within {job.whole_s:g} s.",
            f"Check the load of {place} and its network, then check again. For slow nodes, set "
            f"{VARIABLE} to more seconds.",
        )
    if node.error is not None and not isinstance(node.error, BackendError):
        yield not_checked(name, (NODE,), repr(node.error))


def _ssh(node: NodePreflight, job: JobPreflight) -> Iterator[Result]:
    error = node.error
    if not isinstance(error, BackendError) or isinstance(
        error, (HostKeyChanged, HostKeyUnknown, NoPython)
    ):
        return
    is_clear = isinstance(error, (LoginRefused, Unreachable))
    before = "" if is_clear else f"{node.name} cannot be reached: "
    yield Result(before + error.sentence, error.remedy)


def _host_key(node: NodePreflight, job: JobPreflight) -> Iterator[Result]:
    error = node.error
    if isinstance(error, HostKeyUnknown):
        details = {"host_key": error.key}
        yield Result(error.sentence, error.remedy, Fix.ACCEPT_HOST_KEY, details=details)
    elif isinstance(error, HostKeyChanged):
        yield Result(error.sentence, error.remedy)


def _has_answered(node: NodePreflight, job: JobPreflight) -> bool:
    return bool(node.heard)


def _clock(node: NodePreflight, job: JobPreflight) -> Iterator[Result]:
    offset_s = node.clock_offset_s
    if abs(offset_s) >= CLOCK_WARNING_S:
        way = "ahead of" if offset_s > 0 else "behind"
        yield Result(
            f"The clock of {node.name} is {abs(offset_s) / 60:.0f} min {way} this computer's; "
            "times in its logs will look wrong.",
            f"Switch on time synchronisation on {node.name}: timedatectl set-ntp true",
        )


# What a set-up installs.


_IMPORTS = Probe("imports", preflight_probe.imports)
LOAD = Probe("load", preflight_probe.load)
"""Asked of each node; it explains a late answer."""


def _works(target: PreflightTarget, replies: Replies) -> bool:
    """The node can execute modules of the program."""
    name = _name_of(target.bundle)
    is_whole = (replies.get("program") or {}).get("digest", name) == name
    return is_whole and (replies.get("imports") or {}).get("failed") != "python"


def _name_of(bundle: str) -> str:
    return bundle.rpartition("/")[2]


def _python(target: PreflightTarget, facts: Facts) -> Iterator[Result]:
    if facts.get("failed") == "python":
        yield Result(
            f"The Python of the environment on {target.node} does not start: "
            f"{sanitize(facts['why'], 160)}.",
            f"Set {target.node} up again.",
        )


def _no_python(node: NodePreflight, job: JobPreflight) -> Iterator[Result]:
    if isinstance(node.error, NoPython) and node.entry is not None:
        yield Result(
            f"{looking_python(node.entry)} on {node.name} does not start: "
            f"{sanitize(node.error.sentence, 160)}.",
            f"Reinstall Python on {node.name} (apt-get install python3), then set {node.name} up "
            "again.",
            Fix.LEAVE_OUT,
        )


def _library(key: str, target: PreflightTarget, facts: Facts) -> Iterator[Result]:
    node = target.node
    if facts.get("failed") == key:
        yield Result(
            f"{_LIBRARIES[key]} cannot be imported on {node}: {sanitize(facts['why'], 200)}.",
            f"Set {node} up again.",
        )
    elif key == "torch" and target.placement.gpus and not (facts.get("cuda") or "failed" in facts):
        yield Result(
            f"PyTorch {facts['torch']} on {node} is a CPU build, but the job needs GPUs.",
            f"Set {node} up again with its GPUs.",
        )


def _late_library(key: str, target: PreflightTarget, replies: Replies) -> Iterator[Result]:
    if key != (target.library or "torch"):
        return
    name, node, load = _LIBRARIES[key], target.node, connectivity.busy(replies.get("load") or {})
    yield Result(
        f"{node} is busy ({load}) and had not imported {name} in the time given."
        if load
        else f"{node} had not imported {name} in the time given; its disk is slow, or it was busy "
        "for a moment.",
        f"Look at what runs on {node}; the job will take long to start.",
        Fix.NONE,
        details={"is_warning": True},
    )


def _versions(key: str, job: JobPreflight) -> Iterator[Result]:
    """Yield nodes whose imported libraries differ from those of most nodes."""
    imports = {node.name: (node.replies or {}).get("imports") or {} for node in job.asked}
    found = {node: facts[key] for node, facts in imports.items() if facts.get(key)}
    if len(set(found.values())) < 2:
        return
    # In a tie, the version of the head node, which comes first.
    usual = Counter(found.values()).most_common(1)[0][0]
    like = next(node for node, version in found.items() if version == usual)
    for node, version in found.items():
        if version != usual:
            yield Result(
                f"{_LIBRARIES[key]} is {version} on {node} and {usual} on {like}; the nodes of a "
                "job need the same.",
                f"Set {node} up again.",
                nodes=(node,),
            )


def _is_imported(key: str, node: NodePreflight, job: JobPreflight) -> bool:
    facts = (node.replies or {}).get("imports") or {}
    return key in facts or facts.get("failed") == key


def _is_needed(key: str, node: NodePreflight, job: JobPreflight) -> bool:
    library = node.target.library if node.target is not None else ""
    return is_remote(node, job) and key in ("torch", job.library, library)


def _without_horovod(job: JobPreflight) -> Iterator[Result]:
    """Yield the nodes without Horovod if the job needs it, or if another of its nodes has it."""
    has = {node.name: node.has_horovod for node in job.nodes if node.has_horovod is not None}
    is_needed = job.library == "horovod"
    other = next((node for node in has if has[node]), "")
    for node in has:
        if has[node] or not (is_needed or other):
            continue
        is_here, place = node == THIS_COMPUTER, wording.place(node)
        yield Result(
            f"{place} has no Horovod, which the strategy allreduce needs."
            if is_needed
            else f"{place} has no Horovod and {wording.place(other)} has it; the nodes of a job "
            "need the same.",
            f"{'Choose the strategy DDP' if is_needed else 'Choose other nodes'}, or "
            + ("run ./installers/run doctor." if is_here else f"set {node} up with Horovod."),
            Fix.NONE if is_here else None,
            (node,),
        )


def _lack(node: NodePreflight, job: JobPreflight) -> Iterator[Result]:
    if node.lack is not None:
        yield Result(node.lack.sentence, node.lack.remedy, Fix.LEAVE_OUT)


def _has_mpirun(target: PreflightTarget, replies: Replies) -> bool:
    """Without the Python of an environment its mpirun is no fault of its own."""
    imports = replies.get("imports") or {}
    is_beside = target.mpirun.rpartition("/")[0] == target.python.rpartition("/")[0]
    return not (is_beside and imports.get("failed") == "python")


def _mpirun(target: PreflightTarget, facts: Facts) -> Iterator[Result]:
    place, is_here = target.place, target.node == THIS_COMPUTER
    found = version_in(facts["out"])
    if facts["code"] or found is None:
        why = sanitize(facts["why"], 160) or f"it ended with code {facts['code']}"
        sentence = f"mpirun does not start on {place}: {why}."
    elif found != target.mpi_version:
        sentence = f"Open MPI on {place} changed from {target.mpi_version} to {found} since set-up."
    elif facts["daemon"]:
        sentence = (
            f"{facts['daemon']} on {place} cannot be executed, so mpirun cannot reach {place}."
        )
    else:
        return
    again = f"{COMMAND} doctor says how." if is_here else "Set it up again."
    yield Result(sentence, again, Fix.NONE if is_here else None)


def _old_program(node: NodePreflight, job: JobPreflight) -> Iterator[Result]:
    there = node.entry.installation if node.entry is not None else None
    if there is not None and _name_of(there.bundle) != job.bundle:
        yield Result(
            f"{node.name} has another version of Ringmaster than this computer.",
            f"Set {node.name} up again; that takes a few seconds.",
        )


def _program(target: PreflightTarget, facts: Facts) -> Iterator[Result]:
    if facts["digest"] != _name_of(target.bundle):
        state = "was changed" if facts["digest"] else "is missing"
        yield Result(
            f"The Ringmaster installation on {target.node} {state} ({target.bundle}).",
            f"Set {target.node} up again.",
        )


def _agent(target: PreflightTarget, facts: Facts) -> Iterator[Result]:
    if facts["code"]:
        yield Result(
            f"The agent of {target.node} is not running.",
            f"Start it: setting {target.node} up again does that, too.",
        )


# The data root, and the home folder.


_ROOT = Probe("data_root", preflight_probe.data_root)


def _sees_root(target: PreflightTarget, replies: Replies) -> bool:
    return bool((replies.get("data_root") or {}).get("seen"))


def _no_data_root(node: NodePreflight, job: JobPreflight) -> Iterator[Result]:
    name, entry, place = node.name, node.entry, wording.place(node.name)
    if entry is not None and entry.installation is not None and not entry.data_root:
        yield Result(
            f"{name} does not see the data root.",
            f"Mount it on {name} at the same path as on the other nodes, then check {name} again.",
            Fix.LOOK_AGAIN,
        )
    if not node.is_seen_here:
        yield Result(
            f"This computer does not see the file that {place} wrote to {job.root_name}.",
            f"Mount the same share on both, not a copy of it on {place}.",
        )


def _data_root(target: PreflightTarget, facts: Facts | None) -> Iterator[Result]:
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


def _root_here(job: JobPreflight) -> Iterator[Result]:
    error = job.root_error
    if isinstance(error, BackendError):
        yield Result(error.sentence, error.remedy, Fix.NONE, ())
    elif error is not None:
        yield Result(
            f"This computer cannot write to the data root {job.root_name}: {error.strerror}.",
            "Free some space, or check that it is mounted and that you may write to it.",
            Fix.NONE,
            (),
            DISK if error.errno in _FULL else DATA_ROOT,
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
        (DATA_ROOT, "the data root", head.data_root, other.data_root),
        (OPEN_MPI, "Open MPI", head.mpi_version, other.mpi_version),
        (PYTHON, "Python", head.python, other.python),
        (OPEN_MPI, "mpirun", head.mpirun, other.mpirun),
    ):
        if mine and theirs and mine != theirs:
            yield Result(
                f"{what[0].upper() + what[1:]} is {mine} on {head.node} and {theirs} on "
                f"{other.node}; the nodes of a job need the same.",
                again if check != DATA_ROOT else "Mount it at the same path on both.",
                Fix.SET_UP_AGAIN if check != DATA_ROOT else None,
                (other.node,),
                check,
            )
            return


def _disk(target: PreflightTarget, facts: Facts) -> Iterator[Result]:
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
        f"The data root {files_words(free_files)}.",
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


def _home(target: PreflightTarget, facts: Facts) -> Iterator[Result]:
    node, home = target.node, target.home
    if facts["why"]:
        yield Result(
            f"Nothing can be written to {home} on {node}: {sanitize(facts['why'])}.",
            f"Free some space on {node}, or give the folder to the user who runs jobs.",
        )
    elif lacks_files(facts):
        yield Result(
            f"The disk of {home} on {node} {files_words(facts['files'])}.",
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


def _no_home(target: PreflightTarget, replies: Replies) -> Iterator[Result]:
    yield Result(
        f"The disk of {target.home} on {target.node} does not answer.",
        "Ask its administrator, or run without it.",
    )


# The machine.


_READ_GPUS = """
import dataclasses, json
from backend.node.metrics.gpus import Gpus
gpus, message = Gpus().read()
print(json.dumps({"gpus": [dataclasses.asdict(gpu) for gpu in gpus], "message": message}))
"""


def _gpus(target: PreflightTarget, facts: Facts) -> Iterator[Result]:
    place, wanted = target.place, target.placement.gpus
    if facts["code"] or "gpus" not in facts:
        yield from _no_gpus(target, {})
        return
    known = {one["uuid"]: build(Gpu, one, LENIENT) for one in facts["gpus"]}
    free = [
        uuid
        for uuid, gpu in known.items()
        if not (uuid in wanted or gpu.lost or gpu.foreign_processes())
    ]
    for uuid in wanted:
        gpu, more = known.get(uuid), ""
        if gpu is None:
            there = sanitize(facts["message"], 120) or f"it has {', '.join(map(sanitize, known))}"
            sentence = f"{place} has no GPU {sanitize(uuid)}: {there}."
        elif gpu.lost:
            sentence = f"GPU {gpu.index} of {place} no longer responds."
        elif foreign := gpu.foreign_processes(target.placement.user_beside(uuid)):
            sentence = f"GPU {gpu.index} of {place} is in use by {_user_of(foreign[0])}."
            more = "" if foreign[0].pid else f" {gpu.unlisted_remedy}"
        else:
            continue
        instead = (free.pop(0),) if free else ()
        remedy = "Leave it out, choose another GPU, or start when it is free."
        if instead:
            remedy = f"Use GPU {known[instead[0]].index} on {place}; it is free."
        yield Result(
            sentence,
            remedy + more,
            Fix.TAKE_FREE_GPUS if instead else None,
            details={"gpus": (uuid,), "free_gpus": instead},
        )


def _no_gpus(target: PreflightTarget, replies: Replies) -> Iterator[Result]:
    yield Result(
        f"The GPUs of {target.place} cannot be read.",
        f"Check the NVIDIA driver on {target.place}: nvidia-smi",
    )


def _user_of(process: GpuProcess) -> str:
    memory = process.memory_bytes
    verb = "holds" if process.pid else "hold"
    return process.who + (f" and {verb} {memory / 2**30:.0f} GiB" if memory else "")


def _shared_memory(target: PreflightTarget, facts: Facts) -> Iterator[Result]:
    slots, workers, free = target.placement.slots, target.loader_workers, int(facts["free"])
    ranks = slots if slots > 1 else 0
    # Batches may be small, so too little for all workers is no certain failure.
    if not facts["why"] and free >= SHARED_MEMORY_BYTES * (ranks + slots * workers):
        return
    is_certain = bool(facts["why"]) or free < SHARED_MEMORY_BYTES * max(ranks, min(1, workers))
    why = sanitize(facts["why"]) or f"{free / 1e6:.0f} MB are free"
    many = "1 rank" if slots == 1 else f"{slots} ranks"
    each = " each" if slots > 1 else ""
    with_workers = f" with {_workers(workers)}{each}" if workers else ""
    yield Result(
        f"/dev/shm of {target.place} {'is' if is_certain else 'may be'} too small for "
        f"{many}{with_workers}: {why}.",
        f"{'Use fewer loader workers, or enlarge' if workers else 'Enlarge'} it on "
        f"{target.place}, as root: mount -o remount,size=50% /dev/shm",
        None if is_certain else Fix.NONE,
        details={"is_warning": not is_certain},
    )


def _open_files(target: PreflightTarget, facts: Facts) -> Iterator[Result]:
    open_files, workers = facts["open_files"], target.loader_workers
    needed = LEAST_OPEN_FILES + _OPEN_FILES_OF_WORKER * min(workers, _MOST_COUNTED_WORKERS)
    if open_files is None or open_files >= needed:
        return
    who = f"a rank with {_workers(workers)}" if workers else "a rank"
    yield Result(
        f"A process on {target.place} can open only {open_files} files; {who} needs {needed}.",
        f"{'Use fewer loader workers, or raise' if workers else 'Raise'} nofile to 1024 or more "
        f"in /etc/security/limits.conf on {target.place}.",
    )


def _workers(count: int) -> str:
    return "1 loader worker" if count == 1 else f"{count} loader workers"


def _processes(node: NodePreflight, job: JobPreflight) -> Iterator[Result]:
    slots = node.cores * PROCESSES_PER_CORE
    if node.target is not None and node.placement.processes > slots:
        yield Result(
            f"{wording.place(node.name)} has {node.cores} cores, enough for {slots} processes; the "
            f"job asks for {node.placement.processes}.",
            "Give it fewer processes.",
            details={"fitting": slots},
        )


def _leftovers(target: PreflightTarget, facts: Facts) -> Iterator[Result]:
    if facts.get("why") or "orphans" not in facts:
        yield not_checked(target.node, (LEFTOVERS,), facts.get("why", ""), warns=True)
    # Another data root's jobs are none of ours, whatever their tags say.
    listed = map(Orphan.from_dict, facts.get("orphans", ()))
    old = [one for one in listed if one.reason and one.reason.is_known_run]
    if old:
        tags = ", ".join(sorted({sanitize(one.run_tag) for one in old}))
        many, run = (f"{len(old)} processes", "run") if len(old) > 1 else ("A process", "runs")
        runs = "the ended runs" if ", " in tags else "the ended run"
        yield Result(
            f"{many} of {runs} {tags} still {run} on {target.place}.",
            "End the leftover processes.",
        )


def _log_ins(job: JobPreflight) -> Iterator[Result]:
    tried, routes = (connectivity.meetings(kind, job) for kind in ("ssh", "route"))
    # The filter of a limited key is started by the Python that may be at fault.
    return connectivity.log_in_findings(tried, routes, job.faulty(PYTHON))


def _library_check(key: str, **more: Any) -> Check:
    return Check(
        _LIBRARIES[key],
        _IMPORTS,
        partial(_library, key),
        **{
            "together": (partial(_versions, key),),
            "silence": partial(_late_library, key),
            "of_nodes": partial(_is_needed, key),
            "is_answered": partial(_is_imported, key),
            "fix": Fix.SET_UP_AGAIN,
            "sets_aside": "environment",
            **more,
        },
    )


CHECKS: tuple[Check, ...] = (
    Check(NODE, known=_node),
    Check(SSH, known=_ssh, of_nodes=is_remote, is_answered=_has_answered),
    Check(HOST_KEY, known=_host_key, of_nodes=is_remote, is_answered=_has_answered),
    Check(
        PYTHON,
        _IMPORTS,
        _python,
        known=_no_python,
        of_nodes=is_remote,
        is_answered=lambda node, job: (
            _is_imported("torch", node, job) or _is_imported("python", node, job)
        ),
        fix=Fix.SET_UP_AGAIN,
        sets_aside="environment",
        alike=(
            lambda entry: entry.shares_environment,
            lambda options, shared: replace(options, shared=shared),
        ),
    ),
    _library_check("torch", known=_lack),
    _library_check("horovod", together=(_without_horovod, partial(_versions, "horovod"))),
    _library_check("mpi4py"),
    Check(
        OPEN_MPI,
        Probe("mpirun", preflight_probe.mpirun),
        _mpirun,
        of_nodes=lambda node, job: bool(job.library),
        needs=(is_executable, _has_mpirun),
        fix=Fix.SET_UP_AGAIN,
        sets_aside="own mpi",
        alike=(
            lambda entry: entry.has_own_mpi,
            lambda options, own: replace(options, system_mpi=own),
        ),
    ),
    Check(
        PROGRAM,
        Probe("program", preflight_probe.program),
        _program,
        known=_old_program,
        of_nodes=is_remote,
        fix=Fix.SET_UP_AGAIN,
        sets_aside="program",
    ),
    Check(
        AGENT,
        Probe(
            "agent",
            preflight_probe.command,
            lambda target: [
                *(target.python, "-m", "backend.node.agent.control", "check"),
                *("--bundle", target.bundle, "--folder", target.agent_folder),
            ],
        ),
        _agent,
        of_nodes=is_remote,
        needs=(is_executable, _works, _sees_root),
        fix=Fix.START_AGENT,
    ),
    Check(
        DATA_ROOT,
        _ROOT,
        _data_root,
        known=_no_data_root,
        together=(_root_here, apart),
        silence=lambda target, replies: _data_root(target, None),
        # If this computer cannot write to it, that is the only fault.
        of_nodes=lambda node, job: job.root_error is None,
        needs=(),
    ),
    Check(DISK, _ROOT, _disk, needs=(_sees_root,), fix=Fix.NONE),
    Check(
        HOME,
        Probe("home", preflight_probe.home),
        _home,
        silence=_no_home,
        of_nodes=is_remote,
        needs=(),
    ),
    Check(
        NETWORK,
        known=connectivity.not_its_address,
        together=(connectivity.no_common_network,),
        waits_for=connectivity.without_address,
        fix=Fix.LOOK_AGAIN,
    ),
    Check(
        SETTINGS,
        known=connectivity.settings,
        waits_for=connectivity.without_settings,
        fix=Fix.INSTALL_CLUSTER_KEY,
    ),
    Check(
        BETWEEN,
        together=(_log_ins,),
        waits_for=partial(connectivity.unmet, "ssh"),
        fix=Fix.INSTALL_CLUSTER_KEY,
    ),
    Check(
        ROUTE,
        together=(lambda job: connectivity.route_findings(connectivity.meetings("route", job)),),
        waits_for=partial(connectivity.unmet, "route"),
    ),
    Check(
        GPUS,
        Probe("gpus", preflight_probe.command, lambda target: [target.python, "-c", _READ_GPUS]),
        _gpus,
        silence=_no_gpus,
        of_nodes=lambda node, job: bool(node.placement.gpus),
        needs=(is_executable, _works),
    ),
    Check(SHARED_MEMORY, Probe("shared_memory", preflight_probe.shared_memory), _shared_memory),
    Check(OPEN_FILES, Probe("limits", preflight_probe.limits), _open_files),
    Check(PROCESSES, known=_processes, fix=Fix.FIT_PROCESSES),
    Check(
        CLOCK,
        known=_clock,
        of_nodes=is_remote,
        is_answered=_has_answered,
        fix=Fix.NONE,
        only_warns=True,
    ),
    Check(
        LEFTOVERS,
        Probe(
            "leftovers",
            preflight_probe.command,
            lambda target: [
                *(target.python, "-m", "backend.node.checks.orphans"),
                *("--data-root", target.data_root),
            ],
        ),
        _leftovers,
        needs=(is_executable, _works, _sees_root),
        fix=Fix.END_ORPHANS,
        only_warns=True,
    ),
)
"""In the order in which they are shown."""
BY_NAME: Mapping[str, Check] = {check.name: check for check in CHECKS}


def judge(job: JobPreflight) -> tuple[tuple[PreflightFinding, ...], tuple[tuple[str, str], ...]]:
    """Return all findings, and each check that has no answer with its node; it has not passed."""
    found, unanswered = job.findings, []
    for check in CHECKS:
        for node in job.nodes:
            try:
                # Once: the thread of a node that is late may still add facts.
                facts = check.answer(node, job)
                found += check.of_node(node, job, facts)
            except Exception as error:  # noqa: BLE001 - an answer that is no answer
                _log.exception("%s of %s could not be judged", check.name, node.name)
                facts, why = None, repr(error)
                found.append(check.finding(not_checked(node.name, (check.name,), why), node.name))
            if facts is None and check.concerns(node, job):
                unanswered.append((check, node))
        found += [check.finding(one) for judge in check.together for one in judge(job)]
    found += _unexplained(job, unanswered)
    not_green = {one.check for one in found} | {check.name for check, _ in unanswered}
    for check in CHECKS:
        if check.name not in not_green and any(check.concerns(node, job) for node in job.nodes):
            passed = PreflightFinding(check.name, True, "")
            found.append(replace(passed, sentence=f"{passed.label}: OK"))
    order = {check.name: number for number, check in enumerate(CHECKS)}
    found.sort(key=lambda one: (one.ok, one.is_warning, order[one.check]))
    return tuple(found), tuple((check.name, node.name) for check, node in unanswered)


def of_replies(node: NodePreflight) -> Iterator[PreflightFinding]:
    """Yield the findings on what one node has answered."""
    job = JobPreflight(node.target.library if node.target else "", "", (node,))
    for check in CHECKS:
        if check.probe is not None and check.probe.name in (node.replies or {}):
            yield from check.of_node(node, job, check.answer(node, job))


def _unexplained(
    job: JobPreflight, unanswered: Sequence[tuple[Check, NodePreflight]]
) -> Iterator[PreflightFinding]:
    """Yield a finding for what has no answer although nothing else is wrong with the node."""
    blocking = [finding for finding in job.findings if finding.blocks]
    if any(not finding.nodes for finding in blocking):
        return
    wrong = {node for finding in blocking for node in finding.nodes}
    left: dict[str, list[Check]] = {}
    for check, node in unanswered:
        others = check.waits_for(node, job) if check.waits_for is not None else set()
        alike = [one for one in CHECKS if one is check or one.probe is check.probe is not None]
        is_known = any(node.name in job.faulty(one.name) for one in alike)
        if not (node.name in wrong or is_known or (others and others <= wrong)):
            left.setdefault(node.name, []).append(check)
    for name, checks in left.items():
        names, warns = [check.name for check in checks], all(one.only_warns for one in checks)
        node = next(node for node in job.nodes if node.name == name)
        probe = checks[0].probe if len(checks) == 1 else None
        why = ((node.replies or {}).get(probe.name) or {}).get("why", "") if probe else ""
        yield checks[0].finding(not_checked(name, names, str(why), warns=warns), name)
