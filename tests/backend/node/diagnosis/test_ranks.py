"""The cause of a run is found in whichever rank's log it stands, not what it led to elsewhere."""

from __future__ import annotations

import pytest

from backend.node.diagnosis.explainer import UNKNOWN_EXCEPTION, Failure, explain
from backend.node.diagnosis.log_text import LogPart
from backend.records.jobs.status import UNKNOWN, USER_CODE, Explanation

HEAD = "Traceback (most recent call last):\n"
USER = HEAD + '  File "/jobs/7/train.py", line 12, in step\n    loss = run(batch)\n'
PACKAGES = "/opt/lib/python3.11/site-packages"
TORCH = f'  File "{PACKAGES}/torch/distributed/distributed_c10d.py", line 9, in f\n'
TIMM = f'  File "{PACKAGES}/timm/models/_hub.py", line 9, in load\n'

CAUSES = {
    "key": (USER + "KeyError: 'pixels'\n", USER_CODE),
    "check": (USER.replace("loss = run(batch)", "assert ids") + "AssertionError\n", USER_CODE),
    "library": (USER + TIMM + "KeyError: 'vit'\n", UNKNOWN_EXCEPTION),
    "gpu-memory": (USER + "torch.OutOfMemoryError: CUDA out of memory.\n", "gpu_memory"),
    "file": (
        USER + "FileNotFoundError: [Errno 2] No such file or directory: '/d/a'\n",
        "file_missing",
    ),
    "disk": (USER + "OSError: [Errno 28] No space left on device\n", "disk_full"),
    "module": (USER + "ModuleNotFoundError: No module named 'timm'\n", "module_missing"),
    "label": (USER + "IndexError: Target 12 is out of bounds.\n", "label_range"),
    "ecc": ("RuntimeError: CUDA error: uncorrectable ECC error encountered\n", "gpu_ecc"),
    "worker": (
        USER + "RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed.\n",
        "worker_killed",
    ),
    "crash": (
        "Fatal Python error: Segmentation fault\n\nThread 0x1 (most recent call first):\n"
        '  File "/jobs/7/a.py", line 3 in f\n',
        "crash",
    ),
}
FOLLOW_UPS = {
    "gloo": USER + "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:9] Connec"
    "tion closed by peer [10.0.0.2]:3803\n",
    "remote": USER + TORCH + "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/"
    "distributed/c10d/ProcessGroupNCCL.cpp:9, remote process exited or there was a network erro"
    "r, NCCL version 2.20.5\nncclRemoteError: A call failed possibly due to a network error or a "
    "remote process exiting early.\nLast error:\nNET/IB : Got completion from peer 10"
    ".0.0.2<45> with status=5 opcode=48 len=0 vendor err 244 (Recv)\n",
    "watchdog": "[rank0]:[E ProcessGroupNCCL.cpp:607] [Rank 0] Watchdog caught "
    "collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, Timeout(ms)=600000) ran "
    "for 600003 milliseconds before timing out.\nterminate called after throwing an instance of "
    "'c10::DistBackendError'\n  what():  [PG 0 Rank 0] Process group watchdog thread terminated "
    "with exception: [Rank 0] Watchdog caught collective operation timeout\nAborted (core "
    "dumped)\n",
    "store": USER + TORCH + "torch.distributed.DistStoreError: wait timeout after 300000ms, keys: "
    "/default_pg/0//cuda//0\n",
    "mismatch": USER + TORCH + "RuntimeError: Detected mismatch between collectives on ranks. Ran"
    "k 0 is running collective: CollectiveFingerPrint(SequenceNumber=7, OpType=BARRIER), but Rank "
    "1 is running collective: CollectiveFingerPrint(SequenceNumber=7, OpType=ALLREDUCE).\n",
    "aborted": USER + TORCH + "torch.distributed.DistBackendError: NCCL communicator was aborted "
    "on rank 0.\n",
    "pipe": USER + "BrokenPipeError: [Errno 32] Broken pipe\n",
    "barrier": USER + TORCH + "RuntimeError: Rank 0 successfully reached monitoredBarrier, but "
    "received errors while waiting for send/recv from rank 1. Please check rank 1 logs for faulty "
    "rank.\n",
    "horovod": "RuntimeError: Horovod has been shut down. This was caused by an exception on one "
    "of the ranks.\n",
}  # fmt: skip


def explained(failure: Failure, *texts: str) -> Explanation:
    logs = {rank: (LogPart.from_text(f"rank-{rank}.log", text),) for rank, text in enumerate(texts)}
    return explain(failure, logs)


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("follow_up", FOLLOW_UPS)
@pytest.mark.parametrize("name", CAUSES)
def test_a_cause_wins_over_what_it_led_to_whichever_rank_is_reported(
    name: str, follow_up: str, is_first: bool
) -> None:
    text, cause = CAUSES[name]
    echo = FOLLOW_UPS[follow_up]
    for texts in ((echo, text), (text, echo)):
        explanation = explained(Failure(0, is_first=is_first), *texts)
        assert (explanation.cause, explanation.rank) == (cause, texts.index(text))
        assert explanation.evidence[-1].file == f"rank-{explanation.rank}.log"


@pytest.mark.parametrize("follow_up", FOLLOW_UPS)
def test_what_a_rank_saw_is_reported_where_no_rank_knows_more(follow_up: str) -> None:
    explanation = explained(Failure(1), "epoch 1\n", FOLLOW_UPS[follow_up], "epoch 1\n")
    assert (explanation.cause == UNKNOWN, explanation.rank) == (False, 1)


def test_the_cause_of_the_rank_that_failed_first_is_not_sought_elsewhere() -> None:
    explanation = explained(Failure(0, is_first=True), CAUSES["key"][0], CAUSES["disk"][0])
    assert (explanation.cause, explanation.rank) == (USER_CODE, 0)
