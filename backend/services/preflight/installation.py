"""Judges of a node's installation: Python, libraries, Open MPI, program and agent. Pure."""

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
    JobPreflight,
    NodePreflight,
    PreflightTarget,
    Reply,
    node_python,
)
from backend.services.preflight.node_probe import NoPython

LIBRARIES = {"torch": names.PYTORCH, "horovod": names.HOROVOD, "mpi4py": names.MPI4PY}

_TORCH_MISSING, _PROGRAM_MISSING = 3, 127
_TRIAL = f"""import importlib.util, sys
is_there = len(sys.argv) == 1 or importlib.util.find_spec(sys.argv[1])
sys.exit(0 if is_there else {_TORCH_MISSING})"""

IMPORTS = Probe("imports", preflight_probe.imports)
SCRIPT_PYTHON = Probe(
    "script_python",
    preflight_probe.command,
    lambda target: [target.script_python, "-c", _TRIAL, *["torch"] * target.needs_torch],
)


def can_run_program(target: PreflightTarget, replies: Replies) -> bool:
    """Return True if the node can execute modules of the program."""
    name = bundle_base_name(target.bundle)
    is_intact = (replies.get("program") or {}).get("digest", name) == name
    return is_intact and (replies.get("imports") or {}).get("failed") != "python"


def bundle_base_name(bundle: str) -> str:
    return bundle.rpartition("/")[2]


def python(target: PreflightTarget, reply: Reply) -> Iterator[Result]:
    if reply.get("failed") == "python":
        yield Result(
            f"The Python of the environment on {target.node} does not start: "
            f"{sanitize(reply['why'], 160)}.",
            f"Set {target.node} up again.",
        )


def script_python(target: PreflightTarget, reply: Reply) -> Iterator[Result]:
    path, label, code = target.script_python, target.label, reply["code"]
    if code == _TORCH_MISSING:
        yield Result(
            f"{path} on {label} has no torch, which the script imports.",
            f"Install torch for it on {label}, or choose another Python for the script.",
        )
    elif code:
        problem = "does not exist" if code == _PROGRAM_MISSING else "does not start"
        cause = "" if code == _PROGRAM_MISSING else f": {sanitize(reply['why'], 160)}"
        yield Result(
            f"{path}, the Python of the script, {problem} on {label}{cause}.",
            f"Install it on {label}, or choose another Python for the script.",
        )


def no_python(node: NodePreflight, job: JobPreflight) -> Iterator[Result]:
    if isinstance(node.error, NoPython) and node.entry is not None:
        yield Result(
            f"{node_python(node.entry)} on {node.name} does not start: "
            f"{sanitize(node.error.message, 160)}.",
            f"Reinstall Python on {node.name} (apt-get install python3), then set {node.name} up "
            "again.",
            Fix.LEAVE_OUT,
        )


def library(key: str, target: PreflightTarget, reply: Reply) -> Iterator[Result]:
    node = target.node
    if reply.get("failed") == key:
        yield Result(
            f"{LIBRARIES[key]} cannot be imported on {node}: {sanitize(reply['why'], 200)}.",
            f"Set {node} up again.",
        )
    elif key == "torch" and target.placement.gpus and not (reply.get("cuda") or "failed" in reply):
        yield Result(
            f"PyTorch {reply['torch']} on {node} is a CPU build, but the job needs GPUs.",
            f"Set {node} up again with its GPUs.",
        )


def late_library(key: str, target: PreflightTarget, replies: Replies) -> Iterator[Result]:
    if key != (target.library or "torch"):
        return
    name, node = LIBRARIES[key], target.node
    load = connectivity.busy_load(replies.get("load") or {})
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
    imports = {node.name: (node.replies or {}).get("imports") or {} for node in job.target_nodes}
    node_versions = {node: reply[key] for node, reply in imports.items() if reply.get(key)}
    if len(set(node_versions.values())) < 2:
        return
    # In a tie, the version of the head node, which comes first.
    common_version = Counter(node_versions.values()).most_common(1)[0][0]
    common_node = next(node for node, version in node_versions.items() if version == common_version)
    for node, version in node_versions.items():
        if version != common_version:
            yield Result(
                f"{LIBRARIES[key]} is {version} on {node} and {common_version} on {common_node}; "
                "the nodes of a job need the same.",
                f"Set {node} up again.",
                nodes=(node,),
            )


def is_imported(key: str, node: NodePreflight, job: JobPreflight) -> bool:
    imports = (node.replies or {}).get("imports") or {}
    return key in imports or imports.get("failed") == key


def is_needed(key: str, node: NodePreflight, job: JobPreflight) -> bool:
    library = node.target.library if node.target is not None else ""
    return is_remote(node, job) and key in ("torch", job.library, library)


def missing_horovod(job: JobPreflight) -> Iterator[Result]:
    """Yield the nodes without Horovod if the job needs it, or if another of its nodes has it."""
    nodes = [node for node in job.nodes if node.has_horovod is not None]
    is_needed = job.library == "horovod"
    equipped_node = next((node.name for node in nodes if node.has_horovod), "")
    for node in (n.name for n in nodes if not n.has_horovod):
        if not (is_needed or equipped_node):
            continue
        is_local, label = node == THIS_COMPUTER, wording.node_label(node)
        yield Result(
            f"{label} has no Horovod, which the strategy allreduce needs."
            if is_needed
            else f"{label} has no Horovod and {wording.node_label(equipped_node)} has it; the "
            "nodes of a job need the same.",
            f"{'Choose the strategy DDP' if is_needed else 'Choose other nodes'}, or "
            + (f"run {COMMAND} doctor." if is_local else f"set {node} up with Horovod."),
            Fix.NONE if is_local else None,
            (node,),
        )


def local_setup(node: NodePreflight, job: JobPreflight) -> Iterator[Result]:
    if node.training_error is not None:
        yield Result(node.training_error.message, node.training_error.remedy, Fix.LEAVE_OUT)


def has_mpirun(target: PreflightTarget, replies: Replies) -> bool:
    """Return False if mpirun lies in an environment whose Python does not start."""
    imports = replies.get("imports") or {}
    is_beside = target.mpirun.rpartition("/")[0] == target.python.rpartition("/")[0]
    return not (is_beside and imports.get("failed") == "python")


def mpirun(target: PreflightTarget, reply: Reply) -> Iterator[Result]:
    label, is_local = target.label, target.node == THIS_COMPUTER
    version = version_in(reply["out"])
    if reply["code"] or version is None:
        cause = sanitize(reply["why"], 160) or f"it ended with code {reply['code']}"
        message = f"mpirun does not start on {label}: {cause}."
    elif version != target.mpi_version:
        message = (
            f"Open MPI on {label} changed from {target.mpi_version} to {version} since set-up."
        )
    elif reply["daemon"]:
        message = (
            f"{reply['daemon']} on {label} cannot be executed, so mpirun cannot reach {label}."
        )
    else:
        return
    remedy = f"{COMMAND} doctor says how." if is_local else "Set it up again."
    yield Result(message, remedy, Fix.NONE if is_local else None)


def old_program(node: NodePreflight, job: JobPreflight) -> Iterator[Result]:
    installation = node.entry.installation if node.entry is not None else None
    if installation is not None and bundle_base_name(installation.bundle) != job.bundle:
        yield Result(
            f"{node.name} has another version of Ringmaster than this computer.",
            f"Set {node.name} up again; that takes a few seconds.",
        )


def program(target: PreflightTarget, reply: Reply) -> Iterator[Result]:
    if reply["digest"] != bundle_base_name(target.bundle):
        state = "was changed" if reply["digest"] else "is missing"
        yield Result(
            f"The Ringmaster installation on {target.node} {state} ({target.bundle}).",
            f"Set {target.node} up again.",
        )


def agent(target: PreflightTarget, reply: Reply) -> Iterator[Result]:
    if reply["code"]:
        yield Result(
            f"The agent of {target.node} is not running.",
            f"Start it: {COMMAND} node list",
        )
