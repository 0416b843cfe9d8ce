"""Log an exception that nothing caught, and show it in one dialog."""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

_log = logging.getLogger(__name__)


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
        _log.error("A bug:\n%s", text)
        sys.stderr.write(text)
        if issubclass(kind, KeyboardInterrupt) or self._telling:
            return
        self._telling = True
        try:
            self._show_dialog(text, self._log_path)
        finally:
            self._telling = False
