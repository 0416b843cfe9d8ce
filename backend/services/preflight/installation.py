"""Judges of what a set-up installs: Python, libraries, Open MPI, program and agent. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from backend.node.checks import preflight_probe
from backend.node.system import wording
from backend.node.system.mpi import version_in
from backend.records.base.program_name import COMMAND
from backend.records.base.validation import sanitize
from backend.records.jobs.placement import THIS_COMPUTER
from backend.records.nodes.preflight import Fix
from backend.services.preflight import connectivity, names
from backend.services.preflight.check import Probe, Replies, Result, is_remote
from backend.services.preflight.context import (
    Facts,
    JobPreflight,
    NodePreflight,
    PreflightTarget,
    looking_python,
)
from backend.services.preflight.node_probe import NoPython

LIBRARIES = {"torch": names.PYTORCH, "horovod": names.HOROVOD, "mpi4py": names.MPI4PY}

_LACKS_TORCH, _NO_PROGRAM = 3, 127
_TRIAL = f"""import importlib.util, sys
is_there = len(sys.argv) == 1 or importlib.util.find_spec(sys.argv[1])
sys.exit(0 if is_there else {_LACKS_TORCH})"""

IMPORTS = Probe("imports", preflight_probe.imports)
SCRIPT_PYTHON = Probe(
    "script_python",
    preflight_probe.command,
    lambda target: [target.script_python, "-c", _TRIAL, *["torch"] * target.needs_torch],
)


def works(target: PreflightTarget, replies: Replies) -> bool:
    """The node can execute modules of the program."""
    name = name_of(target.bundle)
    is_whole = (replies.get("program") or {}).get("digest", name) == name
    return is_whole and (replies.get("imports") or {}).get("failed") != "python"


def name_of(bundle: str) -> str:
    return bundle.rpartition("/")[2]


def python(target: PreflightTarget, facts: Facts) -> Iterator[Result]:
    if facts.get("failed") == "python":
        yield Result(
            f"The Python of the environment on {target.node} does not start: "
            f"{sanitize(facts['why'], 160)}.",
            f"Set {target.node} up again.",
        )


def script_python(target: PreflightTarget, facts: Facts) -> Iterator[Result]:
    path, place, code = target.script_python, target.place, facts["code"]
    if code == _LACKS_TORCH:
        yield Result(
            f"{path} on {place} has no torch, which the script imports.",
            f"Install torch for it on {place}, or choose another Python for the script.",
        )
    elif code:
        fault = "does not exist" if code == _NO_PROGRAM else "does not start"
        why = "" if code == _NO_PROGRAM else f": {sanitize(facts['why'], 160)}"
        yield Result(
            f"{path}, the Python of the script, {fault} on {place}{why}.",
            f"Install it on {place}, or choose another Python for the script.",
        )


def no_python(node: NodePreflight, job: JobPreflight) -> Iterator[Result]:
    if isinstance(node.error, NoPython) and node.entry is not None:
        yield Result(
            f"{looking_python(node.entry)} on {node.name} does not start: "
            f"{sanitize(node.error.message, 160)}.",
            f"Reinstall Python on {node.name} (apt-get install python3), then set {node.name} up "
            "again.",
            Fix.LEAVE_OUT,
        )


def library(key: str, target: PreflightTarget, facts: Facts) -> Iterator[Result]:
    node = target.node
    if facts.get("failed") == key:
        yield Result(
            f"{LIBRARIES[key]} cannot be imported on {node}: {sanitize(facts['why'], 200)}.",
            f"Set {node} up again.",
        )
    elif key == "torch" and target.placement.gpus and not (facts.get("cuda") or "failed" in facts):
        yield Result(
            f"PyTorch {facts['torch']} on {node} is a CPU build, but the job needs GPUs.",
            f"Set {node} up again with its GPUs.",
        )


def late_library(key: str, target: PreflightTarget, replies: Replies) -> Iterator[Result]:
    if key != (target.library or "torch"):
        return
    name, node, load = LIBRARIES[key], target.node, connectivity.busy(replies.get("load") or {})
    yield Result(
        f"{node} is busy ({load}) and had not imported {name} in the time given."
        if load
        else f"{node} had not imported {name} in the time given; its disk is slow, or it was busy "
        "for a moment.",
        f"Look at what runs on {node}; the job will take long to start.",
        Fix.NONE,
        details={"is_warning": True},
    )


def versions(key: str, job: JobPreflight) -> Iterator[Result]:
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
                f"{LIBRARIES[key]} is {version} on {node} and {usual} on {like}; the nodes of a "
                "job need the same.",
                f"Set {node} up again.",
                nodes=(node,),
            )


def is_imported(key: str, node: NodePreflight, job: JobPreflight) -> bool:
    facts = (node.replies or {}).get("imports") or {}
    return key in facts or facts.get("failed") == key


def is_needed(key: str, node: NodePreflight, job: JobPreflight) -> bool:
    library = node.target.library if node.target is not None else ""
    return is_remote(node, job) and key in ("torch", job.library, library)


def without_horovod(job: JobPreflight) -> Iterator[Result]:
    """Yield the nodes without Horovod if the job needs it, or if another of its nodes has it."""
    has = {node.name: node.has_horovod for node in job.nodes if node.has_horovod is not None}
    is_needed = job.library == "horovod"
    other = next((node for node in has if has[node]), "")
    for node in has:
        if has[node] or not (is_needed or other):
            continue
        is_here, place = node == THIS_COMPUTER, wording.node_label(node)
        yield Result(
            f"{place} has no Horovod, which the strategy allreduce needs."
            if is_needed
            else f"{place} has no Horovod and {wording.node_label(other)} has it; the nodes of a job "
            "need the same.",
            f"{'Choose the strategy DDP' if is_needed else 'Choose other nodes'}, or "
            + ("run ./installers/run doctor." if is_here else f"set {node} up with Horovod."),
            Fix.NONE if is_here else None,
            (node,),
        )


def lack(node: NodePreflight, job: JobPreflight) -> Iterator[Result]:
    if node.lack is not None:
        yield Result(node.lack.message, node.lack.remedy, Fix.LEAVE_OUT)


def has_mpirun(target: PreflightTarget, replies: Replies) -> bool:
    """Without the Python of an environment its mpirun is no fault of its own."""
    imports = replies.get("imports") or {}
    is_beside = target.mpirun.rpartition("/")[0] == target.python.rpartition("/")[0]
    return not (is_beside and imports.get("failed") == "python")


def mpirun(target: PreflightTarget, facts: Facts) -> Iterator[Result]:
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


def old_program(node: NodePreflight, job: JobPreflight) -> Iterator[Result]:
    there = node.entry.installation if node.entry is not None else None
    if there is not None and name_of(there.bundle) != job.bundle:
        yield Result(
            f"{node.name} has another version of Ringmaster than this computer.",
            f"Set {node.name} up again; that takes a few seconds.",
        )


def program(target: PreflightTarget, facts: Facts) -> Iterator[Result]:
    if facts["digest"] != name_of(target.bundle):
        state = "was changed" if facts["digest"] else "is missing"
        yield Result(
            f"The Ringmaster installation on {target.node} {state} ({target.bundle}).",
            f"Set {target.node} up again.",
        )


def agent(target: PreflightTarget, facts: Facts) -> Iterator[Result]:
    if facts["code"]:
        yield Result(
            f"The agent of {target.node} is not running.",
            f"Start it: {COMMAND} node list",
        )
