"""Write a bug to the log and show it in one dialog; never print it silently."""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

log = logging.getLogger("ringmaster")


class ExceptHook:
    """Replace ``sys.excepthook``; ``show_dialog`` shows the dialog, one at a time."""

    def __init__(self, show_dialog: Callable[[str, Path], None], log_path: Path) -> None:
        self._show_dialog = show_dialog
        self._log_path = log_path
        self._telling = False

    def install(self) -> None:
        sys.excepthook = self

    def __call__(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        text = "".join(traceback.format_exception(kind, error, trace))
        log.error("A bug:\n%s", text)
        sys.stderr.write(text)
        if issubclass(kind, KeyboardInterrupt) or self._telling:
            return
        self._telling = True
        try:
            self._show_dialog(text, self._log_path)
        finally:
            self._telling = False


def log_to(path: Path) -> None:
    """Write errors of the window to ``path``, readable by its user only."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handler = logging.FileHandler(path, encoding="utf-8", delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    path.touch(mode=0o600, exist_ok=True)
