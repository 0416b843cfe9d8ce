"""What libraries and launchers say in fixed words, and the cause that follows from it.

The texts are those of the programs themselves: help files of Open MPI 4 and 5, PRRTE and PMIx,
Python sources of PyTorch and Horovod, the shell.
"""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from backend.node.diagnosis.explainer import UNKNOWN_EXCEPTION, Failure, explain
from backend.node.diagnosis.log_text import LogPart
from backend.records.jobs.status import UNKNOWN, USER_CODE, Explanation

TRACE = 'Traceback (most recent call last):\n  File "/jobs/7/model.py", line 12, in forward\n'


def of_rank(*texts: str) -> Explanation:
    return explain(Failure(0), {0: (LogPart.from_text("rank-0.log", "".join(texts)),)})


def of_mpirun(text: str) -> Explanation:
    return explain(Failure(None), {}, (LogPart.from_text("mpirun.log", text),))


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (
            "There are not enough nodes in your allocation to satisfy your request to launch\n"
            "8 processes on a per-node basis - only 2 nodes were available.",
            "mpi_slots",
        ),
        (
            "Either there are not enough slots available in the system to launch\nthe 8 processes",
            "mpi_slots",
        ),
        (
            "An insufficient number of CPUs was found while attempting to map the job",
            "mpi_binding",
        ),
        (
            "A request was made to bind a process, but at least one node does NOT\n"
            "support binding processes to cpus.",
            "mpi_bind_refused",
        ),
        ("An invalid value was supplied for an enum variable.\n  Variable : x", "mpi_option"),
        ("No nodes are available for this job, either due to a failure to", "mpi_hosts"),
        (
            "While attempting to build a map of this job, a node\n"
            "was detected to be missing a daemon:\n\n  Node:  gpu2\n",
            "mpi_node_name",
        ),
        (
            "Open MPI's mpirun command was unable to find an underlying prterun\ncommand to",
            "mpi_missing",
        ),
        (
            "A daemon died unexpectedly with status 127 while attempting\nto launch so we are",
            "mpi_daemon",
        ),
        (
            "PRTE is unable to establish a communication connection to the\nspecified daemon",
            "mpi_daemon",
        ),
        ("A critical communication path was lost to:\n\n  My name: a\n  Node:  gpu3", "node_lost"),
        (
            "Unfortunately, the connection was refused due to a failure to\nauthenticate.",
            "mpi_security",
        ),
        ("The user (1007) is unknown to the system (i.e. there is no", "user_unknown"),
        (
            "prterun was unable to launch the specified application as it could not find\n"
            "the specified working directory:\n\n  Working directory: /jobs/7\n",
            "mpi_workdir",
        ),
        ("A process exceeded memory limits:\n\n    Process name: [1,0]", "node_memory"),
        ("system's restriction for Unix's socket's path-length.", "mpi_folder_path"),
        ("The PMIx server was unable to setup a rendezvous point.", "mpi_session"),
        ("No components were able to be opened in the coll framework.", "mpi_component"),
        ("PMIx_Init failed for the following reason:\n\n  UNREACHABLE", "mpi_init"),
        (
            "Open MPI has detected that this process has attempted to initialize\n"
            "MPI (via MPI_INIT or MPI_INIT_THREAD) more than once.",
            "mpi_use",
        ),
        ("[n1:62000] pml_ucx.c:291  Error: Failed to create UCP worker", "mpi_fabric"),
        ("No ED25519 host key is known for gpu2 and you have requested strict", "ssh_key_unknown"),
        ("/root/.ssh/config: line 3: Bad configuration option: foo", "ssh_key_file"),
        (
            "Access denied by pam_slurm_adopt: you have no active jobs on this node",
            "ssh_denied",
        ),
    ],
)
def test_help_texts_of_a_launch_name_its_cause(text: str, cause: str) -> None:
    explanation = of_mpirun(text + "\n")
    assert (explanation.cause, explanation.evidence[0].file) == (cause, "mpirun.log")


@pytest.mark.parametrize(
    "text",
    [
        "WARNING: There was an error initializing an OpenFabrics device.\n\n  Local host: gpu1",
        "By default, for Open MPI 4.0 and later, infiniband ports on a device\nare not used",
        "PRTE tried to bind a new process to a specific set of processors,\n"
        "but ended up binding it to *all* processors.",
        "[062fc37504b7:00351] Read -1, expected 268960, errno = 1",
        "[1716918990.492007] [gpu1:25:0] ib_device.c:1052 UCX  DEBUG no compatible IB ports found",
        "The requested number of processes exceeds the allocated\nnumber of slots:\n\n  #slots: 2",
    ],
)
def test_notes_after_which_a_run_goes_on_are_no_causes(text: str) -> None:
    assert of_mpirun(text + "\n").cause == UNKNOWN


@pytest.mark.parametrize(
    ("exception", "cause"),
    [
        (
            "RuntimeError: DDP expects same model across all ranks, but Rank 2 has 128 params, "
            "while rank 0 has inconsistent 0 params.",
            "ranks_differ",
        ),
        ("RuntimeError: Distributed package doesn't have NCCL built in", "nccl_missing"),
        (
            "ValueError: ProcessGroupNCCL is only supported with GPUs, no GPUs found!",
            "gpu_none",
        ),
        (
            "RuntimeError: cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be "
            "pinned",
            "gpu_fork",
        ),
        ("ModuleNotFoundError: No module named 'pointnet2._ext'", "library_mismatch"),
        ("RuntimeError: nms_impl is not compiled with GPU support", "library_mismatch"),
        (
            "OSError: /lib64/libm.so.6: version `GLIBC_2.29' not found (required by /opt/x.so)",
            "library_mismatch",
        ),
        ("RuntimeError: FlashAttention only supports Ampere GPUs or newer.", "gpu_unsupported"),
        ("AssertionError: No images found in /data/train", "dataset_empty"),
        ("OSError: [Errno 8] Exec format error: '/opt/tool'", "program_kind"),
        ("TypeError: unsupported operand type(s) for |: 'type' and 'NoneType'", "python_version"),
        ("KeyError: 'getpwuid(): uid not found: 1007'", "user_unknown"),
        ("KeyError: 'encoder.layers.0.weight'", "weights_mismatch"),
        (
            "torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:\n"
            "TypeError: 'NoneType' object is not iterable",
            "compile",
        ),
        ("ValueError: Parameter names in named_parameters must be unique.", "horovod_setup"),
        ("OSError: [Errno 5] Input/output error", "disk_fault"),
    ],
)
def test_messages_of_pytorch_and_its_surroundings_name_their_cause(
    exception: str, cause: str
) -> None:
    assert of_rank(TRACE, exception, "\n").cause == cause


@pytest.mark.parametrize(
    ("line", "cause", "message"),
    [
        (
            "bash: line 7: python: command not found",
            "program_missing",
            "The command python is missing on the node.",
        ),
        (
            "/usr/bin/python3: No module named torch.distributed.run",
            "module_missing",
            "The Python module torch.distributed.run is missing: it is not installed on the "
            "node and not included with the program.",
        ),
        (
            "python3: can't open file 'train.py': [Errno 2] No such file or directory",
            "file_missing",
            "train.py does not exist.",
        ),
        (
            "/bin/bash: ./train.sh: Permission denied",
            "file_denied",
            "The user who runs jobs has no permission for ./train.sh.",
        ),
    ],
)
def test_a_message_of_the_shell_is_shown_with_its_names(
    line: str, cause: str, message: str
) -> None:
    explanation = of_rank("starting\n", line, "\n")
    assert (explanation.cause, explanation.message) == (cause, message)


BOX = """\
╭──────────────── Traceback (most recent call last) ────────────────╮
│ /jobs/7/train.py:245 in main                                      │
│                                                                   │
│   244 │   for batch in loader:                                    │
│ ❱ 245 │   │   loss = step(batch)                                  │
│   246 │   │   loss.backward()                                     │
│                                                                   │
│ /opt/python3.11/site-packages/timm/very/long/path/to/the/         │
│ module.py:9 in load                                               │
│                                                                   │
│ ❱   9 │   return cfg.limits[name]                                 │
╰───────────────────────────────────────────────────────────────────╯
"""


def test_a_traceback_in_a_box_is_read_like_any_other() -> None:
    explanation = of_rank(BOX, "KeyError: 'vit'\n")
    assert explanation.cause == UNKNOWN_EXCEPTION
    assert explanation.message == "The program ended with KeyError: 'vit', at train.py, line 245."
    assert [line.line for line in explanation.evidence] == [2, 13]
    user_explanation = of_rank(
        BOX[: BOX.index("│ /opt")], BOX[BOX.rindex("╰") :], "KeyError: 'vit'\n"
    )
    assert user_explanation.cause == USER_CODE


@given(st.from_regex(r"[!-~][ -~]{0,40}", fullmatch=True), st.integers(0, 9999))
@example("2026-05-01T10:00:00.{}Z ", 7)
@example("(train pid={}) ", 7)
@example("[default{}]:", 3)
def test_what_stands_before_each_line_of_a_traceback_is_no_part_of_it(
    prefix: str, number: int
) -> None:
    trace = f"{TRACE}    return self.table[name]\nKeyError: 'tp'\n".splitlines()
    lines = [prefix.replace("{}", str(number + index)) + line for index, line in enumerate(trace)]
    explanation = of_rank("".join(f"{line}\n" for line in lines))
    assert explanation.message == "The program's code raised KeyError: 'tp', at model.py, line 12."


def test_a_library_that_stumbles_over_shapes_within_itself_does_not_blame_the_program() -> None:
    library = '  File "/opt/lib/python3.11/site-packages/DCLS/modules.py", line 457, in forward\n'
    exception = "RuntimeError: Expected all tensors to be on the same device, but found two\n"
    explanation = of_rank(TRACE, library, exception)
    assert explanation.cause == UNKNOWN_EXCEPTION
    assert explanation.message.startswith(
        "The program ended with RuntimeError: Expected all tensors"
    )
    assert explanation.remedy.startswith("Two tensors are on different devices")
    assert of_rank(TRACE, exception).cause == USER_CODE


def test_an_exception_without_its_traceback_counts_only_as_the_last_word() -> None:
    assert of_rank("step 1\n", "ValueError: 7\n").message == "The program ended with ValueError: 7."
    assert of_rank("step 1\n", "ValueError: 7\n", "step 2\n").cause == UNKNOWN


def test_an_exception_that_ends_in_a_question_gets_one_end_of_its_sentence() -> None:
    exception = "AttributeError: 'Trainer' object has no attribute 'steps'. Did you mean: 'step'?\n"
    assert of_rank(exception).message.endswith("Did you mean: 'step'.")


@pytest.mark.parametrize(
    ("exception", "cause"),
    [
        ("AssertionError: Non-existent key: TRAIN.FUSING", "options"),
        ("omegaconf.errors.ConfigAttributeError: Missing key train", "options"),
        ("ModuleNotFoundError: No module named 'models.loss_ssim'", "module_missing"),
        ("ModuleNotFoundError: No module named 'a.b.'; 'a.b' is not a package", UNKNOWN_EXCEPTION),
        ("ImportError: cannot import name 'x' from 'steps' (/jobs/7/steps.py)", USER_CODE),
        ("ValueError: Found array with 0 sample(s) (shape=(0, 4))", "dataset_empty"),
    ],
)
def test_an_error_of_the_program_itself_is_distinguished_from_a_lack_of_the_node(
    exception: str, cause: str
) -> None:
    library = '  File "/opt/lib/python3.11/site-packages/yacs/config.py", line 5, in merge\n'
    is_user_code = cause == USER_CODE
    assert of_rank(TRACE, "" if is_user_code else library, exception, "\n").cause == cause


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("misc/shmutils.cc:72 NCCL WARN Error: failed to extend /dev/shm/x to 9 bytes", "shm_full"),
        (
            "misc/shmutils.cc:72 NCCL WARN Call to shm_open failed : Permission denied\n"
            "misc/shmutils.cc:113 NCCL WARN Error while creating shared memory segment /dev/shm/x",
            "shm_denied",
        ),
    ],
)
def test_full_shared_memory_is_distinguished_from_forbidden_shared_memory(
    text: str, cause: str
) -> None:
    failed = "RuntimeError: NCCL error in: x.cpp:47, unhandled system error, NCCL version 2.14.3\n"
    assert of_rank(text + "\n", failed).cause == cause


def test_an_unknown_nccl_warning_counts_only_where_a_failure_follows() -> None:
    warning = "gpu1:7:7 [0] misc/argcheck.cc:9 NCCL WARN Broadcast : sizes differ, 3 and 4\n"
    failed = "RuntimeError: NCCL error in: x.cpp:47, unhandled system error, NCCL version 2.14.3\n"
    assert of_rank(warning, "epoch 1\n").cause == UNKNOWN
    assert "sizes differ, 3 and 4" in of_rank(warning, failed).message


@pytest.mark.parametrize("end", [" ", "\n", "\n  "])
def test_a_help_text_is_known_wherever_a_version_breaks_its_lines(end: str) -> None:
    help_text = "The hostfile or host list contains multiple definitions of the slot count"
    assert of_mpirun(help_text.replace(" ", end) + "\n").cause == "mpi_hosts"


@pytest.mark.parametrize(
    ("lines", "cause", "names"),
    [
        (
            f"{TRACE}AssertionError: batch-size 64 not multiple of GPU count 3",
            "options",
            "batch-size 64 not multiple of GPU count 3",
        ),
        (
            "Fatal Python error: Segmentation fault\n\nCurrent thread 0x1 (most recent call "
            "first):\n"
            '  File "/opt/lib/python3.11/site-packages/cv2/data.py", line 9 in load\n',
            "crash",
            "line 9",
        ),
        (
            f"{TRACE}RuntimeError: x INTERNAL ASSERT FAILED at "
            '"../c10/cuda/CUDACachingAllocator.cpp":1, please report a bug to PyTorch.',
            "library_fault",
            "CUDACachingAllocator.cpp",
        ),
        (
            "terminate called after throwing an instance of 'gloo::IoException'\n"
            "  what():  [/w/gloo/transport/tcp/pair.cc:724] connect [10.0.0.9]:3210: Connection "
            "refused\nAborted (core dumped)",
            "rendezvous",
            "10.0.0.9 did not answer",
        ),
        (
            "gpu1:7:7 [0] misc/ibvwrap.cc:9 NCCL WARN Call to ibv_modify_qp failed with error 22",
            "nccl_infiniband",
            "connection between two GPUs",
        ),
        (
            "gpu1:7:7 [0] misc/ibvwrap.cc:9 NCCL WARN Call to ibv_create_qp failed with error 22",
            "nccl_infiniband",
            "card of a node",
        ),
        (
            "ERROR: a/ckpt: /data/a/ckpt.tmp7; Input/output error",
            "disk_fault",
            "/data/a/ckpt.tmp7",
        ),
        (
            "[1746.1] [n1:1:0] address.c:944 UCX  ERROR failed to unpack address, bandwidth 0.00\n"
            "Fatal error in internal_Init_thread: Other MPI error, error stack:",
            "mpi_fabric",
            "fast network",
        ),
    ],
)
def test_the_sentence_repeats_a_name_from_the_log(lines: str, cause: str, names: str) -> None:
    explanation = of_rank(lines, "\n")
    assert (explanation.cause, names in explanation.message) == (cause, True), explanation.message


def test_the_host_prefix_of_a_parallel_shell_is_no_part_of_a_line() -> None:
    lines = f"{TRACE}    return self.table[name]\nKeyError: 'tp'\n".splitlines()
    assert of_rank("".join(f"gpu7: {line}\n" for line in lines)).cause == USER_CODE


@pytest.mark.parametrize(
    "exception",
    [
        "AttributeError: module 'torch._C' has no attribute '_cuda_setDevice'",
        "AttributeError: module 'torch._C' has no attribute '_cuda_resetPeakMemoryStats'",
        "AssertionError: Torch not compiled with CUDA enabled",
        "RuntimeError: Cannot access accelerator device when none is available.",
        "RuntimeError: torch.cuda.Stream requires CUDA support",
        "RuntimeError: Tried to instantiate dummy base class Event",
        "RuntimeError: Tried to instantiate dummy base class CUDAGraph",
        "RuntimeError: Cannot get CUDA generator without ATen_cuda library. PyTorch splits its "
        "backend into two shared libraries",
    ],
)
def test_the_cause_says_that_a_program_needs_a_gpu(exception: str) -> None:
    # All of them from PyTorch 2.13 that was built for processors.
    explanation = of_rank(TRACE, exception + "\n")
    assert explanation.cause == "gpu_none"
    assert explanation.message.startswith("The program needs a GPU, and there is none for it")
