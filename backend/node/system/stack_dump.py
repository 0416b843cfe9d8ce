"""Stack dumps of `faulthandler`: the line of the user's code that a rank executes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

_FRAME = re.compile(r'^  File "(?P<file>.+)", line (?P<line>\d+) in (?P<function>.+)$')
_OURS = "/backend/"
_LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python3", "/lib64/python3", "<")


@dataclass(frozen=True)
class StackFrame:
    file: str
    line: int
    function: str

    def describe(self, folder: str = "") -> str:
        """Return ``bks_model.py, line 12, in forward``, with the path relative to ``folder``."""
        path = PurePosixPath(self.file)
        inside = folder and path.is_relative_to(folder)
        shown = path.relative_to(folder) if inside else path.name
        return f"{shown}, line {self.line}, in {self.function}"


def threads(dump: str) -> list[list[StackFrame]]:
    """Return the stacks of a dump, innermost frame first, and first the thread with the signal."""
    found: list[list[StackFrame]] = []
    current = False
    for line in dump.splitlines():
        if line.startswith(("Thread 0x", "Current thread 0x", "Stack (most recent call first)")):
            current = not line.startswith("Thread")
            found.append([])
            if current:
                found.insert(0, found.pop())
        frame = _FRAME.match(line)
        if frame and found:
            stack = found[0] if current else found[-1]
            stack.append(StackFrame(frame["file"], int(frame["line"]), frame["function"]))
    return found


def place_in_words(dump: str, user_folders: Sequence[str]) -> str:
    """Return the innermost line of user code, otherwise of code outside libraries, or ""."""
    stacks = threads(dump)
    for folder in user_folders:
        prefix = folder.rstrip("/") + "/"
        for stack in stacks:
            for frame in stack:
                if folder and frame.file.startswith(prefix):
                    return frame.describe(folder)
    for stack in stacks[:1]:
        for frame in stack:
            if _OURS not in frame.file and not any(part in frame.file for part in _LIBRARIES):
                return frame.describe()
    return ""
