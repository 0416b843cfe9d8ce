"""Log to one rotating file per process, and log errors that are swallowed on purpose.

Each module logs to the logger of its own name. The window, an agent, a supervisor and a guard call
`to_file` or `to_file_at_end` once; the command line calls `to_stderr`. Standard library only and
Python 3.9: the nodes import this.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
from io import TextIOWrapper
from logging.handlers import MemoryHandler, RotatingFileHandler
from pathlib import Path
from types import FrameType, TracebackType

PACKAGES = ("app", "backend", "widgets")
"""The packages of this program; other libraries are logged from WARNING on."""
FILES = 3
"""A log and the older ones beside it: ``window.log``, ``window.log.1``, ``window.log.2``."""
_FILE_BYTES = 2**20
_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_RECORDS = 1000
_times: dict[tuple[str, int, type[BaseException]], int] = {}


class suppress:  # noqa: N801 - takes the place of contextlib.suppress
    """`contextlib.suppress` that logs the error with its traceback, at DEBUG.

    The first error of a kind at one place is logged, then the 10th, the 100th and so on: a poll may
    swallow the same error for days.
    """

    def __init__(self, *kinds: type[BaseException]) -> None:
        self._kinds = kinds

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> bool:
        if error is None or not isinstance(error, self._kinds):
            return False
        _log_swallowed(error, sys._getframe(1))
        return True


def swallowed(error: BaseException) -> None:
    """Log an error that is swallowed on purpose: a callback for work that may fail unseen."""
    _log_swallowed(error, sys._getframe(1))


def _log_swallowed(error: BaseException, frame: FrameType) -> None:
    logger = logging.getLogger(frame.f_globals.get("__name__", "backend"))
    if not logger.isEnabledFor(logging.DEBUG):
        return
    key = (logger.name, frame.f_lineno, type(error))
    times = _times[key] = _times.get(key, 0) + 1
    if str(times).strip("0") == "1":
        count = "" if times == 1 else f", {times} times until now"
        logger.debug("Ignored in line %d%s", frame.f_lineno, count, exc_info=error)


def to_file(path: Path) -> None:
    """Log to ``path``, which only its user can read."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    _add(_file_handler(path))


def to_file_at_end(path: Path) -> None:
    """Keep records in memory until `write_out`: ``path`` is on a share, which may hang."""
    # The folder may be gone by then; the streams that Python would complain on are a user's logs.
    logging.raiseExceptions = False
    _add(MemoryHandler(_RECORDS, flushLevel=logging.CRITICAL, target=_file_handler(path, 0o666)))


def write_out(limit_s: float) -> None:
    """Write what `to_file_at_end` kept, in a thread that may hang, and log nothing more there."""
    root = logging.getLogger()
    memory_handlers = [handler for handler in root.handlers if isinstance(handler, MemoryHandler)]
    for handler in memory_handlers:
        root.removeHandler(handler)

    def write() -> None:
        for handler in memory_handlers:
            handler.close()

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    thread.join(limit_s)
    if thread.is_alive():
        # At exit it would wait for the same lock.
        atexit.unregister(logging.shutdown)


def to_stderr() -> None:
    """Log everything to the standard error (``--verbose``)."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter(_FORMAT))
    _add(handler)


def _file_handler(path: Path, mode: int = 0o600) -> logging.Handler:
    handler = _LogFile(
        path, maxBytes=_FILE_BYTES, backupCount=FILES - 1, encoding="utf-8", delay=True
    )
    handler.access_mode = mode
    handler.setFormatter(logging.Formatter(_FORMAT))
    return handler


class _LogFile(RotatingFileHandler):
    access_mode = 0o600

    def _open(self) -> TextIOWrapper:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        descriptor = os.open(self.baseFilename, flags, self.access_mode)
        return TextIOWrapper(os.fdopen(descriptor, "ab"), encoding=self.encoding)


def _add(handler: logging.Handler) -> None:
    logging.getLogger().addHandler(handler)
    for name in PACKAGES:
        logging.getLogger(name).setLevel(logging.DEBUG)
