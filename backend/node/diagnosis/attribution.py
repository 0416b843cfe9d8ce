"""Attribution of an exception that no rule knows: to the program, to libraries, or to neither.

It uses the place where the exception was raised, its kind, and what its message mentions. Where
these do not decide, the answer is neutral: only the exception and the program's line are shown.
"""

from __future__ import annotations

import re
from enum import Enum

from backend.node.diagnosis.tracebacks import LoggedException, TracebackFrame


class Attribution(Enum):
    """Attribution of an exception by where it was raised."""

    CHECK = "check"
    """The program's own code checked something and raised."""
    CODE = "code"
    CALL = "call"
    """A call does not fit the function it calls; it is not known which of the two is wrong."""
    UNDECIDED = "nobody"


_OF_CODE = re.compile(
    r"(?:Assertion|Attribute|Indentation|Index|Key|Name|NotImplemented|Recursion|Syntax|Tab|Type"
    r"|UnboundLocal|Value|ZeroDivision)Error$"
)
"""Types that are bugs in the code whenever they are raised in the program's own lines."""
_OF_USE = re.compile(r"(?:Runtime|Value|Assertion|Index|Key|Type|Attribute|NotImplemented)Error$")
_OF_CALL = re.compile(
    r"^TypeError: [^\n]*(?:got (?:an unexpected keyword argument|multiple values for)"
    r"|takes \d+ positional arguments? but \d+ w|missing \d+ required (?:positional|keyword))"
)
_OF_OWN_IMPORT = re.compile(
    r"^ImportError: (?:cannot import name '\w+' from [^\n]*\((?![^\n]*(?:site-packages"
    r"|dist-packages|[/\\]lib(?:64)?[/\\]python|unknown location))[^\n]+\)"
    r"|attempted relative import)"
)
_COMPUTING = re.compile(
    r"[/\\](?:torch[/\\](?:nn|functional|autograd|_tensor|tensor|optim|_refs|_prims|ops|amp"
    r"|utils[/\\]data|_jit_internal|overrides|distributions|linalg|fft)|numpy[/\\]"
    r"|torchvision[/\\](?:transforms|ops|models))"
)
"""Libraries whose errors are about their input only."""
_TENSORS = re.compile(r"[/\\](?:torch\w*|numpy|horovod)[/\\]")
_SURROUNDINGS = re.compile(
    r"cuda|cudnn|cublas|nccl|gloo|mpi|nvml|nvrtc|driver|\bgpus?\b|device|memory|alloc|thread"
    r"|worker|process|\bpid\b|socket|connect|network|address|port\b|host|server|https?:|url|token"
    r"|download|timeout|timed out|file|folder|director|path|open|read|write|permission|disk|space"
    r"|lock|librar|\.so\b|version|install|compil|build|kernel|symbol|import|extension|environ"
    r"|backend|checkpoint|state.?dict|corrupt|nan\b|inf\b",
    re.IGNORECASE,
)
"""Words in a message that point to something outside the code."""


def attribute(exception: LoggedException) -> Attribution:
    """Return who caused the exception, if the traceback decides it."""
    last_frame = exception.frames[-1] if exception.frames else None
    if _OF_CALL.search(exception.text):
        return Attribution.CALL
    if last_frame is None:
        return Attribution.UNDECIDED
    if not last_frame.is_of_library:
        if _OF_OWN_IMPORT.search(exception.text) or (
            exception.kind == "ImportError" and last_frame.source.startswith("from .")
        ):
            return Attribution.CODE
        # With another exception, the checking line itself failed, before there was a result.
        is_broken = last_frame.source.startswith("assert") and exception.kind != "AssertionError"
        if is_own_check(last_frame) and not is_broken:
            return Attribution.CHECK
        if _OF_CODE.search(exception.kind):
            return Attribution.CODE
    elif (
        exception.user_frame is None
        or is_from_other_library(exception)
        or not _COMPUTING.search(last_frame.file)
    ):
        return Attribution.UNDECIDED
    if _OF_USE.search(exception.kind) and not _SURROUNDINGS.search(exception.text):
        return Attribution.CODE
    return Attribution.UNDECIDED


def is_program_error(exception: LoggedException) -> bool:
    """Return whether the type is raised by programs, not by the system around them."""
    return bool(_OF_CODE.search(exception.kind) or _OF_USE.search(exception.kind))


def is_from_other_library(exception: LoggedException) -> bool:
    """Return whether a library raised it that does more than compute."""
    other_frames = [
        frame
        for frame in exception.frames
        if not (frame.is_of_library and _TENSORS.search(frame.file))
    ]
    return bool(other_frames) and other_frames[-1].is_of_library


def is_own_check(frame: TracebackFrame) -> bool:
    """Return whether the line itself raises or asserts."""
    return frame.source.startswith(("raise ", "assert ", "assert("))
