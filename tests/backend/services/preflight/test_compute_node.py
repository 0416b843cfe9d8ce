"""The output of a job on a compute node becomes findings of one sentence each."""

from __future__ import annotations

import json
from typing import Any

import pytest

from backend.records.nodes.preflight import Fix
from backend.records.slurm.placement import SlurmPlacement
from backend.services.preflight.compute_node import judge
from backend.services.preflight.context import PreflightTarget
from backend.services.preflight.names import COMPUTE_NODE

VALUES = {
    "node": "g7",
    "addresses": "10.0.0.7 192.168.5.7 fd00::7",
    "address": "10.0.0.7",
    "srun": "MPI plugin types are... none pmi2 specific pmix plugin versions available: pmix_v4",
}
REPLIES: dict[str, Any] = {
    "data_root": {"there": True, "seen": True, "why": "", "free": 10**12, "files": None},
    "imports": {"code": 0, "torch": "2.13.0", "cuda": "13.0", "horovod": "0.28"},
    "mpirun": {"code": 0, "out": "mpirun (Open MPI) 5.0.8", "why": "", "daemon": ""},
    "shared_memory": {"free": 10**12, "why": ""},
    "limits": {"open_files": 10**6, "hard": 10**6},
    "end": None,
}
OLD_MPIRUN = {**REPLIES["mpirun"], "out": "mpirun (Open MPI) 4.1.4"}
PLACEMENT = SlurmPlacement("hpc", nodes=2, gpus=1)


def findings_of(
    placement: SlurmPlacement = PLACEMENT,
    replies: dict[str, Any] = REPLIES,
    state: str = "COMPLETED",
    text: str = "",
    **values: str,
) -> list[str]:
    """Return the messages of a job that wrote this; each is one of the cluster, without a fix."""
    lines = [f"ringmaster-{key} {value}" for key, value in {**VALUES, **values}.items() if value]
    lines += [json.dumps({"name": name, "facts": reply}) for name, reply in replies.items()]
    target = PreflightTarget(
        *("hpc", placement.placements()[0], "/share/bin/python", "/share/bin/mpirun", "5.0.8"),
        *("/share/code", "/share/ring", ""),
        is_head=True,
        library="horovod",
    )
    findings = list(judge(text or "\n".join(lines), state, target, placement))
    assert {(f.check, f.nodes, f.fix) for f in findings} == {(COMPUTE_NODE, ("hpc",), Fix.NONE)}
    return [("" if finding.ok else "not ") + finding.message for finding in findings]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "g7 sees the data root and starts Python, PyTorch 2.13.0, Open MPI 5.0.8."),
        ({"srun": "srun: not found"}, "not srun does not work on g7: srun: not found."),
        ({"address": "127.0.1.1"}, "not The address of g7 in Slurm is 127.0.1.1, so"),
        ({"address": ""}, "not The address of g7 in Slurm is unknown, so"),
        ({"placement": SlurmPlacement("hpc", nodes=2, networks="10.9.0.0/24,10.0.0.0/24")},
         "not g7 has no address in the network 10.9.0.0/24."),
        ({"placement": SlurmPlacement("hpc", nodes=2, networks="192.168.0.0/16"), "address": ""},
         "g7 sees the data root"),
        ({"placement": SlurmPlacement("hpc"), "address": "127.0.1.1", "srun": "srun: not found"},
         "g7 sees the data root"),
        ({"replies": {**REPLIES, "imports": {"code": 0, "torch": "2.13.0", "cuda": ""}}},
         "not PyTorch 2.13.0 on g7 is a CPU build, but the job needs GPUs."),
        ({"replies": {**REPLIES, "imports": {"failed": "horovod", "why": "No MPI"}}},
         "not Horovod cannot be imported on g7: No MPI."),
        ({"replies": {**REPLIES, "mpirun": OLD_MPIRUN}},
         "not Open MPI on g7 changed from 5.0.8 to 4.1.4 since set-up."),
        ({"replies": {**REPLIES, "data_root": {"there": True, "seen": False, "why": ""}}},
         "not g7 does not see the data root of this computer"),
        ({"text": "ringmaster-node g7\n", "state": "OUT_OF_MEMORY"},
         "not The check of a compute node: The job used more main memory"),
        ({"text": "ringmaster-node g7\n/var/slurm_script: line 9: /x/python: No such file\n"},
         "not /share/bin/python does not start on g7: /x/python: No such file."),
        ({"text": "This line failed: module load cuda\n", "state": "FAILED"},
         "not The check did not begin: This line failed: module load cuda."),
        ({"text": " ", "state": ""}, "not The check did not begin: it printed nothing."),
    ],
)  # fmt: skip
def test_what_a_compute_node_lacks_is_named(changes: dict[str, Any], message: str) -> None:
    assert any(message in finding for finding in findings_of(**changes))


def test_a_node_that_wrote_nothing_does_not_see_the_data_root() -> None:
    target = PreflightTarget("hpc", PLACEMENT.placements()[0], *[""] * 4, "/share/ring", "", True)
    (finding,) = judge("", "FAILED", target, PLACEMENT)
    assert "The compute nodes of hpc do not see the data root at /share/ring" in finding.message
