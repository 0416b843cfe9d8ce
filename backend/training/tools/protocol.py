"""Protocol of a tool: its request, its progress and its result.

User code runs in the same process and may print anything, close standard output, leave processes
behind or exit Python. So the result is a file of its own, written whole; progress is another; and
standard input is a pipe from the desktop: when it closes, the desktop is gone and the tool ends
with everything it started.

``python -m backend.training.tools.NAME REQUEST RESULT PROGRESS``, three paths. Exit code 0: RESULT
has the result; 1: it has an error. No RESULT: the process was ended.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from backend.base.errors import BackendError
from backend.base.log import suppress
from backend.records.base import access_modes
from backend.records.base.atomic_files import replace_json
from backend.records.jobs.launch import Launch
from backend.training.tools import children
from backend.training.user_code import UserCodeError, is_out_of_memory

_REPORT_INTERVAL_S = 0.1
_SOURCES = ("model", "loader", "dataset", "validation_loader", "validation_dataset", "script")
"""The folders of the user's files in a request."""


class Report:
    """The tool's current action, which the desktop shows, and names when the tool is ended."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8", buffering=1)
        self._label = ""
        self._reported_s = 0.0

    def __call__(self, label: str, done_amount: float = 0, total: float = 0) -> None:
        now_s = time.monotonic()
        if label == self._label and now_s - self._reported_s < _REPORT_INTERVAL_S:
            return
        self._label, self._reported_s = label, now_s
        self._file.write(json.dumps({"what": label, "done": done_amount, "total": total}) + "\n")

    def close(self) -> None:
        self._file.close()


class OutOfTime(BaseException):
    """The time for user code is over. Not an Exception, so that user code does not catch it."""


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Interrupt the block after this time. It cannot interrupt a call into C."""

    def on_alarm(number: int, frame: object) -> None:
        raise OutOfTime

    started_s = time.monotonic()
    previous_handler = signal.signal(signal.SIGALRM, on_alarm)
    # Another alarm may be active (a user's, a test's); it fires later as before.
    other_alarm_s, interval_s = signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous_handler)
        if other_alarm_s:
            remaining_s = max(other_alarm_s - (time.monotonic() - started_s), 0.001)
            signal.setitimer(signal.ITIMER_REAL, remaining_s, interval_s)


def main(work: Callable[[Mapping[str, Any], Report], Mapping[str, Any]]) -> NoReturn:
    """Do the work of the request named on the command line, and end the process."""
    request_path, result_path, progress_path = (Path(path) for path in sys.argv[1:4])
    request_values = json.loads(request_path.read_bytes())
    _prepare_process(request_values)
    # Dump the stack shortly before the time is over, even within a call into C.
    faulthandler.dump_traceback_later(max(0.9 * float(request_values["time_limit_s"]), 0.1))
    try:
        with contextlib.closing(Report(progress_path)) as report:
            answer: dict[str, Any] = {"ok": True, "result": dict(work(request_values, report))}
    except BackendError as error:
        answer = _refusal(error)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        answer = _refusal(
            BackendError(
                "This computer has too little memory for it.",
                "Try it with smaller data or a smaller model, or on a node with more memory.",
            )
        )
    replace_json(result_path, answer)
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    children.kill_all()
    # Threads and exit handlers of user code would keep the process alive.
    os._exit(0 if answer["ok"] else 1)


def _refusal(error: BackendError) -> dict[str, Any]:
    return {
        "ok": False,
        "error": {
            "sentence": error.message,
            "remedy": error.remedy,
            "traceback": error.traceback if isinstance(error, UserCodeError) else "",
            "part": error.part if isinstance(error, UserCodeError) else "",
            "package": error.package if isinstance(error, UserCodeError) else "",
            "module": error.module if isinstance(error, UserCodeError) else "",
        },
    }


def _prepare_process(request: Mapping[str, Any]) -> None:
    """Prepare for an end that leaves nothing behind, before any user code runs."""
    launches = [Launch.from_dict(request["launch"])] if "launch" in request else []
    sources = [path for record in launches for path in record.sources]
    access_modes.protect([*sources, *(str(request.get(name) or "") for name in _SOURCES)])
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError):
        # If memory runs out, the kernel ends this process before the desktop.
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    children.adopt_descendants()
    desktop_pipe = os.dup(0)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    threading.Thread(target=_end_with_desktop, args=(desktop_pipe,), daemon=True).start()


def _end_with_desktop(desktop_pipe: int) -> None:
    while os.read(desktop_pipe, 1):
        pass
    children.kill_all()
    os._exit(1)
