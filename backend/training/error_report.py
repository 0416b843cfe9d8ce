"""Report of the error that ended a rank: a message for users, with a remedy.

Only the first failure of a run counts. When one rank dies, the collectives of the others break: The
errors of Horovod and torch.distributed are such echoes (`is_echo`), and are recorded as secondary.
But a call that waits for other ranks also raises errors with another cause: an exception of a
signal handler, such as that of a DataLoader whose worker died, or too little memory (`root_error`).
"""

from __future__ import annotations

import re
import traceback
from typing import TYPE_CHECKING, Any

from backend.base.errors import BackendError
from backend.training import user_code
from backend.training.user_code.errors import FORWARD, LOSS

if TYPE_CHECKING:
    from backend.training.train_state import Batch

VALIDATION_STAGE = "validation"
"""The `Batch.stage` while a rank validates."""


def is_echo(error: BaseException) -> bool:
    """Return whether the failure, of `root_error`, only reports that another rank has ended."""
    return _is_collective_error(error) and not _MEMORY.search(str(error))


def _is_collective_error(error: BaseException) -> bool:
    kinds = {kind.__name__ for kind in type(error).__mro__}
    # torch 2.13: gloo raises a plain RuntimeError with the place in its source.
    return bool(kinds & _ECHOES) or ("RuntimeError" in kinds and "gloo/transport" in str(error))


def root_error(error: BaseException) -> BaseException:
    """Return the exception that caused the error of a call.

    Python runs signal handlers within any call. So the handler's exception may be the cause of an
    exception of a collective, or of user code.
    """
    inner_error = error.__cause__ or error.__context__
    # The cause of PeerLost is the socket's error, never that of a handler.
    if inner_error is None or type(error).__name__ == "PeerLost":
        return error
    is_by_handler = _WORKER.search(str(inner_error)) is not None
    if _is_collective_error(error) and not _is_collective_error(inner_error):
        # The library's own error is raised where it is caught.
        is_by_handler |= _source_file(inner_error) != _source_file(error)
    return root_error(inner_error) if is_by_handler else error


def _source_file(error: BaseException) -> str:
    """Return the file whose code raised the exception."""
    frames = traceback.extract_tb(error.__traceback__)
    return frames[-1].filename if frames else ""


_WORKER = re.compile(r"DataLoader worker \(pid")
_MEMORY = re.compile(r"out of memory|bad_alloc|Cannot allocate memory", re.IGNORECASE)
_ECHOES = {
    *("HorovodInternalError", "DistBackendError", "DistNetworkError", "DistStoreError"),
    *("PeerLost", "WorkersLost"),
}


def describe_error(error: BaseException, batch: Batch | None, batch_size: int) -> str:
    """Return a message of one or two sentences: the cause, and the remedy if it has no field."""
    if is_echo(error):
        return "Another rank ended, which interrupted their common step."
    if isinstance(error, BackendError):
        text = error.message
        if hasattr(error, "cause"):
            return text
        if batch is not None and _is_batch_error(error):
            text += f" The batch was {user_code.shape_of((batch.data, batch.target))}."
        if isinstance(error, user_code.UserCodeError) and _validates(batch):
            # The same model is used in training: its message does not name the validation.
            text = f"In the validation: {text}"
        return f"{text} {error.remedy}".strip()
    memory = _memory_message(error, batch_size, " in the validation" if _validates(batch) else "")
    if memory:
        return memory
    if isinstance(error, SystemExit):
        code = "" if error.code is None else repr(error.code)
        return f"The program exited (sys.exit({code})) before the last step."
    if isinstance(error, KeyboardInterrupt):
        return "The rank was interrupted (SIGINT)."
    stage_label = _STAGE_LABELS.get(batch.stage if batch is not None else "", "")
    if isinstance(error, (ConnectionError, EOFError)) and batch and batch.stage == "loader":
        # The tensors of its batch are fetched from the worker itself.
        return "A loader worker ended before its batch was taken from it."
    if _WORKER.search(str(error)):
        # The handler runs wherever the rank is.
        stage_label = ""
    return f"{user_code.describe(error)}{stage_label}."


_STAGE_LABELS = {
    "loader": ", while the loader made a batch",
    "forward": ", in the model's step",
    "backward": ", in the backward pass",
    VALIDATION_STAGE: ", in the validation",
    "setup": ", while the job was set up",
}


def _is_batch_error(error: BackendError) -> bool:
    """Return whether the batch's shapes and keys help: the model's own code failed."""
    cause = error.__cause__
    return (
        isinstance(error, user_code.UserCodeError)
        and error.index is None
        and error.called_function in (FORWARD, LOSS)
        and isinstance(cause, (RuntimeError, KeyError, IndexError, TypeError, ValueError))
    )


def _validates(batch: Batch | None) -> bool:
    return batch is not None and batch.stage == VALIDATION_STAGE


def _memory_message(error: BaseException, batch_size: int, stage_label: str) -> str:
    """Return a message on the kind of full memory, with a smaller batch size; "" otherwise."""
    on_gpu = any(kind.__name__ == "OutOfMemoryError" for kind in type(error).__mro__)
    if _is_collective_error(error):
        on_gpu = re.search("cuda|nccl", str(error), re.IGNORECASE) is not None
    elif not user_code.is_out_of_memory(error):
        return ""
    memory_label = "Out of GPU memory" if on_gpu else "The node is out of memory"
    memory_label += stage_label
    if batch_size <= 1:
        return (
            f"{memory_label} with a batch of one sample: the model needs more than this device has."
        )
    # The next lower power of two: activations grow with the batch, so half of it halves them.
    smaller_batch = 1 << ((batch_size - 1).bit_length() - 1)
    return f"{memory_label}. Try batch size {smaller_batch} instead of {batch_size}."


def traceback_text(error: BaseException) -> str:
    """Return the traceback for display, from the first frame in the user's code on."""
    if isinstance(error, user_code.UserCodeError) and error.traceback:
        return error.traceback
    if isinstance(error, BackendError) and error.__cause__ is None:
        return ""
    return "".join(traceback.format_exception(type(error), error, error.__traceback__))


def make_record(
    error: BaseException, *, rank: int, node: str, batch: Batch | None, batch_size: int
) -> dict[str, Any]:
    """Return the content of ``rank-<k>.error.json``: a `RankError` and the echo flag."""
    error = root_error(error)
    faulty_rank = getattr(error, "rank", rank)
    has_cause = isinstance(error, BackendError) and hasattr(error, "cause")
    return {
        "sentence": describe_error(error, batch, batch_size),
        "rank": faulty_rank,
        "node": node,
        "traceback": traceback_text(error),
        "cause": getattr(error, "cause", "") if has_cause else "",
        "remedy": getattr(error, "remedy", "") if has_cause else "",
        "says_remedy": isinstance(error, BackendError) and bool(error.remedy) and not has_cause,
        "sound_step": getattr(error, "sound_step", None),
        "retry": getattr(error, "retry", ""),
        "secondary": is_echo(error) or faulty_rank != rank,
    }
