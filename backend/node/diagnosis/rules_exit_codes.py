"""Error numbers and fixed phrases of the system, CUDA and the shell.

More specific rules of libraries and programs precede these.
"""

from __future__ import annotations

from backend.node.diagnosis.rule import LINES, RANK, Rule, Weight, Where, message

_ERRNO = "https://man7.org/linux/man-pages/man3/errno.3.html"
_CUDART = "https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html"
_SIGNALS = "https://man7.org/linux/man-pages/man7/signal.7.html"
_FILE = r"[^\n:]*(?:: b?'(?P<file>(?!\.nfs)[^'\n]+)'|$)"


def _errno(
    cause: str,
    numbers: str,
    sentence: str,
    remedy: str,
    otherwise: str = "",
    weight: Weight = Weight.CAUSE,
) -> Rule:
    """Return the rule for an OSError with one of these numbers."""
    return Rule(
        cause,
        message(rf"^(?:\w+\.)*\w+(?:Error|Exception|error): \[Errno (?:{numbers})\]{_FILE}"),
        sentence,
        remedy,
        _ERRNO,
        where=(Where.RAISED,),
        weight=weight,
        otherwise=otherwise,
        is_quoted=True,
    )


def _cuda(cause: str, phrases: str, sentence: str, remedy: str, weight: Weight) -> Rule:
    """Return the rule for one of CUDA's phrases, quoted by any library."""
    return Rule(
        cause,
        message(
            r"(?:CUDA(?: driver)? (?:error|failure)|cuda runtime error|Cuda failure"
            rf"|cudaGetDeviceCount\(\)[^\n]{{0,300}}?Error \d+)[^\n]{{0,80}}?(?:{phrases})"
        ),
        sentence,
        remedy,
        _CUDART,
        where=RANK,
        weight=weight,
    )


RULES = (
    _errno(
        "file_is_folder",
        "21",
        "Expected a file, but {file} is a folder.",
        "Check the path in the model, the loader and the job's options: usually the file name "
        "is missing at its end.",
        "Expected a file, but found a folder.",
    ),
    _errno(
        "file_exists",
        "17",
        "The program tried to create {file}, which already exists.",
        "If several ranks create it, let only one do it, or allow it to exist (os.makedirs(…, "
        "exist_ok=True)).",
        "The program tried to create a file or folder that already exists.",
    ),
    _errno(
        "file_name",
        "36",
        "The name {file} is too long for the file system.",
        "Use a shorter name, or a folder closer to the root.",
        "A file name is too long for the file system.",
    ),
    _errno(
        "file_locked",
        "37|35|77",
        "The share of {file} does not support file locks.",
        "Put the locked file on the node's own disk, or have the share mounted with locking.",
        "A share that the program uses does not support file locks.",
    ),
    _errno(
        "file_busy",
        "16|26",
        "{file} is in use by another process.",
        "End the process that uses it: an earlier run, or a program that keeps a deleted file "
        "of a share open (.nfs…). “lsof” on the node lists it.",
        "A file that the program writes is in use by another process.",
    ),
    _errno(
        "network_down",
        "100|101|113|99|64",
        "The node has no network route to the address.",
        "Check the node's network cards, routes and firewall.",
    ),
    _cuda(
        "gpu_peers",
        "peer mapping resources exhausted",
        "One process uses more GPUs than CUDA can map.",
        "Leave the choice of GPUs to the job: each rank sees one GPU.",
        Weight.CAUSE,
    ),
    _cuda(
        "gpu_fabric",
        "system not yet initialized",
        "The NVIDIA Fabric Manager, which the GPUs of this node need, is not running.",
        "Have the administrator start nvidia-fabricmanager in the version of the driver.",
        Weight.CAUSE,
    ),
    _cuda(
        "gpu_refused",
        "OS call failed or operation not supported on this OS",
        "The system refused a request of the NVIDIA driver.",
        "Check the driver of the node and the permissions of its container.",
        Weight.VAGUE,
    ),
    _cuda(
        "gpu_start",
        "initialization error",
        "CUDA could not start in this process.",
        "Usually a loader worker uses the GPU, or the program used it before it forked: keep "
        "the loader on the CPU. Otherwise run “nvidia-smi” on the node to check its driver.",
        Weight.VAGUE,
    ),
    Rule(
        "cpu_instruction",
        message(
            r"\bSIGILL\b|Signal: Illegal instruction|Illegal instruction +\(core dumped\)"
            r"|exited on\s+signal 4\b|^Illegal instruction$|exitcode\s*: -4\b"
            r"|Fatal glibc error: CPU does not support"
            r"|Exit code: +132$|Fatal Python error: Illegal instruction"
        ),
        "Compiled code uses an instruction that this node's CPU does not have.",
        "Choose a node with a newer CPU, or set this one up again.",
        _SIGNALS,
        where=LINES,
    ),
    Rule(
        "hangup",
        message(
            r"closing signal SIGHUP"
            r"|Signal 1 \(SIGHUP\) received by PID|got signal: 1$|^Hangup$|exited on\s+signal 1 "
            r"|exitcode\s*: -1 |Received 1 death signal"
        ),
        "The session that the program was started from was closed, which ended the program.",
        "Start it detached from the terminal, then resume.",
        _SIGNALS,
        where=LINES,
    ),
    Rule(
        "ended",
        message(
            r"Signal 15 \(SIGTERM\) received by PID|got signal: 15$|^Terminated$"
            r"|exitcode\s*: -15\b|\bexit(?:ed with| with)? (?:code|status):? 143\b"
            r"|Exit code: +143$"
        ),
        "A process was ended by another one (SIGTERM).",
        "Launchers and batch systems end the other ranks when one fails: open the logs of the "
        "other ranks for the first error.",
        _SIGNALS,
        where=LINES,
        weight=Weight.ECHO,
    ),
    Rule(
        "library_fault",
        message(
            r"INTERNAL ASSERT FAILED at \"?(?:[^\s\"]*/)?(?P<where>[\w-]+\.\w+)"
            r"|(?:torch/csrc|aten/src|c10)/(?:\S*/)?(?P<where2>[\w-]+\.(?:cpp|h|cc|cu)):\d+: "
            r"[^\n]*Assertion|please report a bug to PyTorch"
        ),
        "An internal check of PyTorch failed ({where}): usually a bug in PyTorch, or an "
        "extension built for another version of it.",
        "Use another version of PyTorch, and rebuild extensions for it.",
        "https://github.com/pytorch/pytorch/tree/main/torch/csrc",
        where=RANK,
        weight=Weight.VAGUE,
        otherwise="An internal check of PyTorch failed: usually a bug in PyTorch, or an "
        "extension built for another version of it.",
    ),
)
