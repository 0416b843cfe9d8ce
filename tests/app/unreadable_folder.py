"""A folder that the kernel does not let the program into: its calls there hang, or are refused.

What a share does that is away. It stands where Python calls the system, so that all of the program
above it is the program.
"""

from __future__ import annotations

import builtins
import io
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

_CALLS = ("stat", "lstat", "open", "listdir", "scandir", "mkdir", "rename", "replace", "unlink")


class ShutFolder:
    """Open until it is shut.

    Attributes:
        on_gui_thread: What the thread that made this called while the folder hung; it was let in.
    """

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self._folder = str(folder)
        self._may_pass = threading.Event()
        self._may_pass.set()
        self._refusal = 0
        self._maker = threading.get_ident()
        self.on_gui_thread: list[str] = []
        self.waiting_count = 0
        for name in _CALLS:
            patch.setattr(os, name, self._gate(name, getattr(os, name)))
        patch.setattr(io, "open", self._gate("open", io.open))
        patch.setattr(builtins, "open", self._gate("open", builtins.open))

    def hang(self) -> None:
        """From now on no call is answered."""
        self._may_pass.clear()

    def refuse(self, number: int) -> None:
        """From now on each call is answered by this errno."""
        self._refusal = number

    def open_up(self) -> None:
        self._refusal = 0
        self._may_pass.set()

    def _gate(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def gated(path: Any = ".", *args: Any, **kwargs: Any) -> Any:
            if isinstance(path, (str, Path)) and str(path).startswith(self._folder):
                self._pass(name)
            return call(path, *args, **kwargs)

        return gated

    def _pass(self, name: str) -> None:
        if not self._may_pass.is_set():
            if threading.get_ident() == self._maker:
                self.on_gui_thread.append(name)
                return
            self.waiting_count += 1
            self._may_pass.wait()
            self.waiting_count -= 1
        if self._refusal:
            raise OSError(self._refusal, os.strerror(self._refusal), self._folder)
