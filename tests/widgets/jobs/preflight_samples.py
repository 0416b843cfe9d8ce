"""Findings of preflight checks."""

from __future__ import annotations

from backend.records.jobs.placement import Placement
from backend.records.nodes.preflight import (
    Fix,
    Preflight,
    PreflightFinding,
    TrialResult,
    smaller_placement,
)
from backend.services.preflight.compute_node import unchecked_finding
from backend.services.preflight.names import COMPUTE_NODE

PLACEMENT = (
    Placement("gpu09", gpus=tuple(f"GPU-9{n}" for n in range(8))),
    Placement("gpu12", gpus=tuple(f"GPU-2{n}" for n in range(8))),
)
MPI = PreflightFinding(
    "Open MPI",
    False,
    "Open MPI on gpu12 changed from 5.0.3 to 4.1.4 since set-up.",
    "Set it up again.",
    ("gpu12",),
    Fix.SET_UP_AGAIN,
)
AGENT = PreflightFinding(
    "agent", False, "The agent of gpu12 is not running.", "Start it.", ("gpu12",), Fix.START_AGENT
)
BUSY = PreflightFinding(
    "GPUs",
    False,
    "GPU 5 of gpu12 is in use by alice: python (pid 51204) and holds 18 GiB.",
    "Leave it out, choose another GPU, or start when it is free.",
    ("gpu12",),
    Fix.LEAVE_OUT,
    gpus=("GPU-25",),
)
ROOT = PreflightFinding(
    "data root",
    False,
    "gpu12 does not see the data root of this computer: a file written here did not appear there "
    "in /lab/ring.",
    "Mount the same share on gpu12 at /lab/ring.",
    ("gpu12",),
    Fix.LEAVE_OUT,
)
FULL = PreflightFinding(
    "disk",
    False,
    "The data root has 0.31 GB left, and the job's checkpoints need about 1.20 GB.",
    "Free some space, or keep fewer checkpoints.",
)
CLOCK = PreflightFinding(
    "clock",
    False,
    "The clock of gpu12 is 10 min ahead of this computer's; times in its logs will look wrong.",
    "Switch on time synchronisation on gpu12: timedatectl set-ntp true",
    ("gpu12",),
    is_warning=True,
)
RESERVED = PreflightFinding(
    "reservation",
    False,
    "GPU 5 and GPU 6 of gpu12 are reserved for “thesis” by anna from 18:00 to 22:00.",
    "Queue the job, which then waits for its turn, or choose other GPUs. If it starts now, "
    "“thesis” waits until it ends.",
    ("gpu12",),
    Fix.LEAVE_OUT,
    is_warning=True,
    gpus=("GPU-25", "GPU-26"),
)
NOT_BEGUN = unchecked_finding(
    "hpc",
    "Slurm has not begun the check: It waits for nodes or GPUs.",
    "Try again when nodes are free, or choose another partition.",
)
UNSEEN = PreflightFinding(
    COMPUTE_NODE,
    False,
    "The compute nodes of hpc do not see the data root at /lab/ring: this computer does not see "
    "what a job wrote to it.",
    "Mount the same share on them, at the same path as on the login node.",
    ("hpc",),
)
COMPUTE_NODE_TEXT = (
    "a100-017 sees the data root and starts Python, PyTorch 2.13.0, Open MPI 5.0.11."
)
PASSED_CHECKS = tuple(
    PreflightFinding(check, True, f"{check}: OK")
    for check in ("SSH", "host key", "Python", "Horovod", "common network", "disk", "home folder")
)
SOUND = TrialResult(
    True,
    "16 ranks trained one batch together, and the checkpoint was written and read back.",
    14.0,
)
BROKEN = TrialResult(
    False,
    "Rank 9 on gpu12: CUDA out of memory; it tried to allocate 2.00 GiB.",
    9.0,
    'Traceback (most recent call last):\n  File "loop.py", line 88, in step\n'
    "    loss.backward()\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
)


def preflight(
    *all_findings: PreflightFinding, placement: tuple[Placement, ...] = PLACEMENT
) -> Preflight:
    blocking_findings = [finding for finding in all_findings if finding.blocks]
    smaller = smaller_placement(placement, blocking_findings) if blocking_findings else ()
    findings = (
        *blocking_findings,
        *(finding for finding in all_findings if not finding.blocks),
        *PASSED_CHECKS,
    )
    return Preflight(tuple(entry.node for entry in placement), findings, 6.2, smaller)


def many(count: int, name: str = "node-rack3-row7-machine-{:03d}.cluster.example.org") -> Preflight:
    """As many nodes, each with an old program."""
    placement = tuple(Placement(name.format(n), 4) for n in range(count))
    findings = [
        PreflightFinding(
            "program",
            False,
            f"{placement_entry.node} has another version of Ringmaster than this computer.",
            f"Set {placement_entry.node} up again; that takes a few seconds.",
            (placement_entry.node,),
            Fix.SET_UP_AGAIN,
        )
        for placement_entry in placement
    ]
    return preflight(*findings, placement=placement)
