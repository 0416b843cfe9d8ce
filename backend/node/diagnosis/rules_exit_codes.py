"""What the system, CUDA and the shell say by a number or by a fixed phrase: their own tables.

A rule of a library or a program that knows more comes before these.
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
    """The rule about an OSError with one of these numbers."""
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
    """The rule about one of CUDA's phrases, whoever quotes it."""
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
        "The program wanted a file, and {file} is a folder.",
        "Check the path in the model, the loader and the job's options: mostly the name of the "
        "file is missing at its end.",
        "The program wanted a file where a folder is.",
    ),
    _errno(
        "file_exists",
        "17",
        "The program wanted to make {file}, which is there already.",
        "When several ranks make it, let one alone do it, or allow it to exist "
        "(os.makedirs(…, exist_ok=True)).",
        "The program wanted to make a file or folder that is there already.",
    ),
    _errno(
        "file_name",
        "36",
        "The name {file} is longer than a file system allows.",
        "Choose a shorter name, or a folder closer to the root.",
        "A name of a file is longer than the file system allows.",
    ),
    _errno(
        "file_locked",
        "37|35|77",
        "The share on which {file} lies knows no locks.",
        "Let the program lock files on the node's own disk, or have the share mounted with locks.",
        "A share that the program uses knows no locks.",
    ),
    _errno(
        "file_busy",
        "16|26",
        "{file} is in use by another process.",
        "Look at what else uses it: an earlier run, or a share that keeps removed files open "
        "(.nfs…).",
        "A file that the program wants to change is in use by another process.",
    ),
    _errno(
        "network_down",
        "100|101|113|99|64",
        "The node has no way over the network to the address that the program wanted.",
        "Check the node's network cards, its routes and its firewall.",
    ),
    _cuda(
        "gpu_peers",
        "peer mapping resources exhausted",
        "One process uses more GPUs together than CUDA can map.",
        "Leave the choice of GPUs to the job: each rank sees one.",
        Weight.CAUSE,
    ),
    _cuda(
        "gpu_fabric",
        "system not yet initialized",
        "The switches between the GPUs of the node are not ready: the NVIDIA Fabric Manager does "
        "not run.",
        "Have the administrator start it (nvidia-fabricmanager) in the version of the driver.",
        Weight.CAUSE,
    ),
    _cuda(
        "gpu_refused",
        "OS call failed or operation not supported on this OS",
        "The system refused what the NVIDIA driver asked of it.",
        "Check the driver of the node, and what its container is allowed to do.",
        Weight.VAGUE,
    ),
    _cuda(
        "gpu_start",
        "initialization error",
        "CUDA could not be started in this process; the log does not say why.",
        "Mostly a worker of the loader uses the GPU, or it was used before the program forked: "
        "keep the loader on the processor. Else check the driver of the node.",
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
        "Compiled code used an instruction that the processor of this node does not have.",
        "Choose a node with a newer processor, or set this one up again.",
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
        "The session that the program was started from was closed, which ended it.",
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
        "A process was ended from outside (SIGTERM); its log does not say by whom.",
        "A launcher or a batch system does this to the others when one rank has failed: look at "
        "the logs of the others.",
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
        "A check inside PyTorch itself failed ({where}): mostly a fault of PyTorch, or an "
        "extension that was made for another version of it.",
        "Run it with another version of PyTorch, and have extensions built again for it.",
        "https://github.com/pytorch/pytorch/tree/main/torch/csrc",
        where=RANK,
        weight=Weight.VAGUE,
        otherwise="A check inside PyTorch itself failed: mostly a fault of PyTorch, or an "
        "extension that was made for another version of it.",
    ),
)
