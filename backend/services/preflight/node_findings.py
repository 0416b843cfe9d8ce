"""Judge the facts of one node: one sentence and one remedy for each fault.

Pure. A fault that follows from another one is left out: without Python there is no PyTorch, and
without the data root nothing is known about the agent.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping

from backend.base.room import LEAST_FILES, files_words
from backend.node.system import wording
from backend.node.system.mpi import version_in
from backend.records.base import number_format
from backend.records.base.program_name import COMMAND
from backend.records.base.schema import LENIENT, build
from backend.records.base.validation import sanitize
from backend.records.jobs.config import THIS_COMPUTER
from backend.records.nodes.preflight import Fix, PreflightFinding
from backend.records.nodes.reading import Gpu, GpuProcess, Orphan
from backend.services.preflight.findings import (
    AGENT,
    DATA_ROOT,
    DISK,
    GPUS,
    HOME,
    LEFTOVERS,
    LIBRARIES,
    OPEN_FILES,
    OPEN_MPI,
    PROGRAM,
    PYTHON,
    PYTORCH,
    SHARED_MEMORY,
    Facts,
    NodeReplies,
    PreflightTarget,
    busy,
    fault,
    not_checked,
)

LEAST_HOME_BYTES = 50_000_000
LEAST_DISK_BYTES = 100_000_000
SHARED_MEMORY_BYTES = 16 * 2**20
"""Of each rank that is not alone on its node, for Open MPI's ``sm``; and of a loader worker."""
LEAST_OPEN_FILES = 256
_OPEN_FILES_OF_WORKER, _MOST_COUNTED_WORKERS = 32, 16
"""A worker hands over each tensor as an open file. The usual limit of 1024 is enough for any."""
_NO_END = 124
"""The code of what had not ended in its time; see `backend.node.checks.preflight_probe`."""
_NO_RIGHT = (errno.EACCES, errno.EPERM)
_QUESTIONS: Mapping[str, str] = {
    "program": PROGRAM,
    "agent": AGENT,
    "mpirun": OPEN_MPI,
    "leftovers": LEFTOVERS,
    "shared_memory": SHARED_MEMORY,
    "limits": OPEN_FILES,
}
"""Without an answer to one of these its check was not made; other questions say so themselves."""
_NEED_THE_ROOT = frozenset((DISK, AGENT, LEFTOVERS))
_ADMINISTRATOR = "Ask its administrator, or run without it."


def made(site: PreflightTarget, told: NodeReplies) -> frozenset[str]:
    """Return the checks to which the facts are an answer, good or bad. All others are unknown."""
    is_here = site.node == THIS_COMPUTER
    found = {check for question, check in _QUESTIONS.items() if _is_answered(told, question)}
    if told.facts.get("data_root") is not None:
        found |= {DATA_ROOT, DISK}
    if told.facts.get("home") is not None:
        found.add(HOME)
    if _is_answered(told, "gpus"):
        found.add(GPUS)
    imports = told.of("imports") if _is_answered(told, "imports") else {}
    names = {*imports, imports.get("failed")}
    found |= {check for name, check in LIBRARIES.items() if name in names}
    if imports and "python" not in names:
        found.add(PYTHON)
    if not told.of("data_root").get("seen"):
        found -= _NEED_THE_ROOT
    if told.of("home").get("noexec"):
        found &= {HOME, DATA_ROOT, DISK}
    return (
        frozenset(found | {HOME, PROGRAM, AGENT, PYTHON, *LIBRARIES.values()})
        if is_here
        else (frozenset(found))
    )


def _is_answered(told: NodeReplies, question: str) -> bool:
    facts = told.facts.get(question)
    return facts is not None and facts.get("code") != _NO_END


def _unanswered(site: PreflightTarget, told: NodeReplies) -> Iterator[PreflightFinding]:
    asked = set(_QUESTIONS)
    if site.node == THIS_COMPUTER:
        asked -= {"program", "agent"}
    if not site.library:
        asked.discard("mpirun")
    if not told.of("data_root").get("seen"):
        asked -= {"agent", "leftovers"}
    for question, check in _QUESTIONS.items():
        why = sanitize(str(told.of(question).get("why", "")), 160)
        is_broken = question == "leftovers" and why
        if question in asked and (is_broken or not _is_answered(told, question)):
            yield not_checked(site.node, (check,), why)


def of_node(site: PreflightTarget, told: NodeReplies) -> Iterator[PreflightFinding]:
    """Everything that one node says about itself."""
    node = site.node
    here = node == THIS_COMPUTER
    is_noexec = bool(told.of("home").get("noexec"))
    if not here:
        yield from _home(site, told)
    yield from _data_root(site, told)
    sees = bool(told.of("data_root").get("seen"))
    if is_noexec:
        # Nothing in there can be executed, so whatever else fails has this one cause.
        return
    yield from _unanswered(site, told)
    works = True
    if not here:
        before = list(_environment(site, told))
        yield from before
        works = not any(one.check in (PYTHON, PROGRAM) for one in before)
        if works and sees:
            yield from _agent(site, told)
    beside = site.mpirun.rpartition("/")[0] == site.python.rpartition("/")[0]
    imports = told.of("imports")
    has_no_python = imports.get("failed") == "python" and imports.get("code") != _NO_END
    if site.library and not (beside and has_no_python):
        yield from _mpirun(site, told)
    if works and sees:
        yield from _leftovers(site, told)
    if works and site.placement.gpus:
        yield from _gpus(site, told)
    yield from of_limits(site, told)


def _home(site: PreflightTarget, told: NodeReplies) -> Iterator[PreflightFinding]:
    node, facts = site.node, told.facts.get("home")
    if facts is None:
        yield fault(
            HOME,
            node,
            f"The disk of {site.home} on {node} does not answer.",
            _ADMINISTRATOR,
            Fix.LEAVE_OUT,
        )
    elif facts["why"]:
        yield fault(
            HOME,
            node,
            f"Nothing can be written to {site.home} on {node}: {sanitize(facts['why'])}.",
            f"Free some space on {node}, or give the folder to the user who runs jobs.",
            Fix.LEAVE_OUT,
        )
    elif _lacks_files(facts):
        yield fault(
            HOME,
            node,
            f"The disk of {site.home} on {node} {files_words(facts['files'])}.",
            f"Remove some files on {node}.",
            Fix.LEAVE_OUT,
        )
    elif facts["free"] < LEAST_HOME_BYTES:
        yield fault(
            HOME,
            node,
            f"The disk of {site.home} on {node} has {facts['free'] / 1e6:.0f} MB left.",
            f"Free some space on {node}.",
            Fix.LEAVE_OUT,
        )
    elif facts["noexec"]:
        yield fault(
            HOME,
            node,
            f"The file system of {site.home} on {node} is mounted noexec, so no program in "
            "it can be executed.",
            f"Let its administrator mount it again: mount -o remount,exec {site.home}",
            Fix.LEAVE_OUT,
        )


def _data_root(site: PreflightTarget, told: NodeReplies) -> Iterator[PreflightFinding]:
    node, root, facts = site.node, site.data_root, told.facts.get("data_root")
    place = wording.place(node)
    if not root:
        # The desktop knows that it is not mounted there, and reports it.
        return
    if site.no_share and (facts is None or not facts["seen"]):
        yield fault(
            DATA_ROOT,
            node,
            f"{place} cannot read the staged files in {root}.",
            f"Set {node} up again. If that fails, check the permissions of {root} on {node}.",
            Fix.SET_UP_AGAIN,
        )
    elif facts is None:
        yield fault(
            DATA_ROOT,
            node,
            f"The data root {root} does not answer on {place}.",
            "Check that the file server runs and the mount is not stale.",
            Fix.LEAVE_OUT,
        )
    elif not facts["there"]:
        yield fault(
            DATA_ROOT,
            node,
            f"The data root {root} does not exist on {place}.",
            f"Mount it on {place}.",
            Fix.LEAVE_OUT,
        )
    elif not facts["seen"] and facts["why"]:
        yield fault(
            DATA_ROOT,
            node,
            f"The data root {root} cannot be read on {place}: {sanitize(facts['why'])}.",
            f"Let the user who runs jobs on {place} read and write {root}.",
            Fix.LEAVE_OUT,
        )
    elif not facts["seen"]:
        yield fault(
            DATA_ROOT,
            node,
            f"{place} does not see the data root of this computer: a file written here did not "
            f"appear in {root} on {place}.",
            f"Mount the same share on {place} at {root}.",
            Fix.LEAVE_OUT,
        )
    elif facts["why"] and facts.get("code") == errno.EDQUOT:
        yield fault(
            DISK,
            node,
            f"The disk quota of the user who runs jobs on {place} is used up in {root}.",
            f"Remove files in {root}, or have the quota raised.",
        )
    elif _lacks_files(facts) and (
        facts.get("code") == errno.ENOSPC if facts["why"] else site.leads
    ):
        yield no_files(facts["files"])
    elif facts["why"] and facts.get("code") == errno.ENOSPC:
        yield fault(
            DISK,
            node,
            f"The data root is full: {place} cannot write one byte to {root}.",
            f"Free some space in {root}, or empty its trash.",
        )
    elif facts["why"] and facts.get("code") in _NO_RIGHT and site.jobs_are_narrow:
        yield fault(
            DATA_ROOT,
            node,
            f"{place} may write to the data root {root}, but not to the folder of its jobs: "
            f"{sanitize(facts['why'])}.",
            "Give that folder the rights of the data root.",
            Fix.SHARE_JOBS,
        )
    elif facts["why"]:
        yield fault(
            DATA_ROOT,
            node,
            f"{place} cannot write to the data root {root}: {sanitize(facts['why'])}.",
            f"Let the user who runs jobs on {place} write to {root}; it may be mounted read-only.",
            Fix.LEAVE_OUT,
        )
    elif site.leads and facts["free"] < max(LEAST_DISK_BYTES, site.needed_bytes):
        yield no_room(facts["free"], site.needed_bytes)


def _lacks_files(facts: Facts) -> bool:
    return facts.get("files") is not None and facts["files"] < LEAST_FILES


def no_files(free_files: int) -> PreflightFinding:
    return PreflightFinding(
        DISK,
        False,
        f"The data root {files_words(free_files)}.",
        "Remove files that are not needed: old jobs, datasets of many small files, the trash.",
    )


def no_room(free_bytes: int, needed_bytes: int) -> PreflightFinding:
    """The data root has less room than the checkpoints of a job need, or than any job does."""
    left = f"The data root has {number_format.size(free_bytes)} left, and"
    need = (
        f"the job's checkpoints need about {number_format.size(needed_bytes)}"
        if needed_bytes > free_bytes
        else f"a job needs {number_format.size(LEAST_DISK_BYTES)} at least"
    )
    return PreflightFinding(
        DISK, False, f"{left} {need}.", "Free some space, or keep fewer checkpoints."
    )


def _environment(site: PreflightTarget, told: NodeReplies) -> Iterator[PreflightFinding]:
    node = site.node
    again = f"Set {node} up again."
    found = told.facts.get("imports")
    if found is None or found.get("code") == _NO_END:
        name = LIBRARIES[site.library or "torch"]
        yield fault(
            name,
            node,
            f"{node} is busy ({load}) and had not imported {name} in the time given."
            if (load := busy(told.of("load")))
            else f"{node} had not imported {name} in the time given; its disk is slow, or "
            "it was busy for a moment.",
            f"Look at what runs on {node}; the job will take long to start.",
            is_warning=True,
        )
    elif found.get("failed") == "python":
        yield fault(
            PYTHON,
            node,
            f"The Python of the environment on {node} does not start: "
            f"{sanitize(found['why'], 160)}.",
            again,
            Fix.SET_UP_AGAIN,
        )
    elif "failed" in found:
        name = LIBRARIES[found["failed"]]
        yield fault(
            name,
            node,
            f"{name} cannot be imported on {node}: {sanitize(found['why'], 200)}.",
            again,
            Fix.SET_UP_AGAIN,
        )
    elif site.placement.gpus and not found.get("cuda"):
        yield fault(
            PYTORCH,
            node,
            f"PyTorch {found['torch']} on {node} is a CPU build, but the job needs GPUs.",
            f"Set {node} up again with its GPUs.",
            Fix.SET_UP_AGAIN,
        )
    program = told.facts.get("program")
    name = site.bundle.rpartition("/")[2]
    if program is not None and program["digest"] != name:
        state = "was changed" if program["digest"] else "is missing"
        yield fault(
            PROGRAM,
            node,
            f"The Ringmaster installation on {node} {state} ({site.bundle}).",
            again,
            Fix.SET_UP_AGAIN,
        )


def _agent(site: PreflightTarget, told: NodeReplies) -> Iterator[PreflightFinding]:
    facts = told.facts.get("agent")
    if facts is not None and facts["code"] != _NO_END and facts["code"]:
        yield fault(
            AGENT,
            site.node,
            f"The agent of {site.node} is not running.",
            f"Start it: setting {site.node} up again does that, too.",
            Fix.START_AGENT,
        )


def _mpirun(site: PreflightTarget, told: NodeReplies) -> Iterator[PreflightFinding]:
    node, place = site.node, wording.place(site.node)
    facts = told.facts.get("mpirun")
    if facts is None or facts["code"] == _NO_END:
        return
    again = "Set it up again." if node != THIS_COMPUTER else f"{COMMAND} doctor says how."
    fix = Fix.SET_UP_AGAIN if node != THIS_COMPUTER else Fix.NONE
    found = version_in(facts["out"])
    if facts["code"] or found is None:
        why = sanitize(facts["why"], 160) or f"it ended with code {facts['code']}"
        yield fault(
            OPEN_MPI,
            node,
            f"mpirun does not start on {place}: {why}.",
            again,
            fix,
        )
    elif found != site.mpi_version:
        yield fault(
            OPEN_MPI,
            node,
            f"Open MPI on {place} changed from {site.mpi_version} to {found} since set-up.",
            again,
            fix,
        )
    elif facts["daemon"]:
        yield fault(
            OPEN_MPI,
            node,
            f"{facts['daemon']} on {place} cannot be executed, so mpirun cannot reach {place}.",
            again,
            fix,
        )


def _leftovers(site: PreflightTarget, told: NodeReplies) -> Iterator[PreflightFinding]:
    # Another data root's jobs are none of ours, whatever their tags say.
    listed = map(Orphan.from_dict, told.of("leftovers").get("orphans", ()))
    old = [one for one in listed if one.reason and one.reason.is_known_run]
    if old:
        tags = ", ".join(sorted({sanitize(one.run_tag) for one in old}))
        many, run = (f"{len(old)} processes", "run") if len(old) > 1 else ("A process", "runs")
        runs = "the ended runs" if ", " in tags else "the ended run"
        yield fault(
            LEFTOVERS,
            site.node,
            f"{many} of {runs} {tags} still {run} on {wording.place(site.node)}.",
            "End the leftover processes.",
            Fix.END_ORPHANS,
            is_warning=True,
        )


def _gpus(site: PreflightTarget, told: NodeReplies) -> Iterator[PreflightFinding]:
    node, place = site.node, wording.place(site.node)
    facts = told.facts.get("gpus")
    if facts is None or facts["code"]:
        yield fault(
            GPUS,
            node,
            f"The GPUs of {place} cannot be read.",
            f"Check the NVIDIA driver on {place}: nvidia-smi",
            Fix.LEAVE_OUT,
        )
        return
    known = {one["uuid"]: build(Gpu, one, LENIENT) for one in facts["gpus"]}
    free = [
        uuid
        for uuid, gpu in known.items()
        if not (uuid in site.placement.gpus or gpu.lost or gpu.foreign_processes())
    ]
    for uuid in site.placement.gpus:
        gpu, more = known.get(uuid), ""
        if gpu is None:
            there = sanitize(facts["message"], 120) or f"it has {', '.join(map(sanitize, known))}"
            sentence = f"{place} has no GPU {sanitize(uuid)}: {there}."
        elif gpu.lost:
            sentence = f"GPU {gpu.index} of {place} no longer responds."
        elif strangers := gpu.foreign_processes(site.placement.user_beside(uuid)):
            sentence = f"GPU {gpu.index} of {place} is in use by {_user_of(strangers[0])}."
            more = "" if strangers[0].pid else f" {gpu.unlisted_remedy}"
        else:
            continue
        instead = (free.pop(0),) if free else ()
        remedy = "Leave it out, choose another GPU, or start when it is free."
        if instead:
            remedy = f"Use GPU {known[instead[0]].index} on {place}; it is free."
        fix = Fix.TAKE_FREE_GPUS if instead else Fix.LEAVE_OUT
        yield fault(GPUS, node, sentence, remedy + more, fix, gpus=(uuid,), free_gpus=instead)


def _user_of(process: GpuProcess) -> str:
    memory = process.memory_bytes
    verb = "holds" if process.pid else "hold"
    return process.who + (f" and {verb} {memory / 2**30:.0f} GiB" if memory else "")


def of_limits(site: PreflightTarget, told: NodeReplies) -> Iterator[PreflightFinding]:
    """Yield what the ranks and their loader workers cannot share or open."""
    yield from _shared_memory(site, told)
    open_files = told.of("limits").get("open_files")
    workers = site.loader_workers
    needed = LEAST_OPEN_FILES + _OPEN_FILES_OF_WORKER * min(workers, _MOST_COUNTED_WORKERS)
    if open_files is None or open_files >= needed:
        return
    place = wording.place(site.node)
    who = f"a rank with {_workers(workers)}" if workers else "a rank"
    yield fault(
        OPEN_FILES,
        site.node,
        f"A process on {place} can open only {open_files} files; {who} needs {needed}.",
        f"{'Use fewer loader workers, or raise' if workers else 'Raise'} nofile to 1024 or more "
        f"in /etc/security/limits.conf on {place}.",
        Fix.LEAVE_OUT,
    )


def _shared_memory(site: PreflightTarget, told: NodeReplies) -> Iterator[PreflightFinding]:
    facts = told.facts.get("shared_memory")
    if facts is None:
        return
    slots, workers, free = site.placement.slots, site.loader_workers, int(facts["free"])
    ranks = slots if slots > 1 else 0
    # Batches may be small, so too little for all workers is no certain failure.
    if not facts["why"] and free >= SHARED_MEMORY_BYTES * (ranks + slots * workers):
        return
    is_certain = bool(facts["why"]) or free < SHARED_MEMORY_BYTES * max(ranks, min(1, workers))
    place = wording.place(site.node)
    why = sanitize(facts["why"]) or f"{free / 1e6:.0f} MB are free"
    many = "1 rank" if slots == 1 else f"{slots} ranks"
    each = " each" if slots > 1 else ""
    with_workers = f" with {_workers(workers)}{each}" if workers else ""
    yield fault(
        SHARED_MEMORY,
        site.node,
        f"/dev/shm of {place} {'is' if is_certain else 'may be'} too small for "
        f"{many}{with_workers}: {why}.",
        f"{'Use fewer loader workers, or enlarge' if workers else 'Enlarge'} it on {place}, as "
        "root: mount -o remount,size=50% /dev/shm",
        Fix.LEAVE_OUT if is_certain else Fix.NONE,
        is_warning=not is_certain,
    )


def _workers(count: int) -> str:
    return "1 loader worker" if count == 1 else f"{count} loader workers"
