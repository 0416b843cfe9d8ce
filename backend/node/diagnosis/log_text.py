"""Logs as rules read them: only the beginning and the end of what one run wrote.

A log may have any size. Failures appear at its end, and start-up errors at its beginning.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from backend.base.log import suppress
from backend.records.base.layout import JobFolder
from backend.records.base.terminal_text import last_state

HEAD_BYTES = 64 * 1024
TAIL_BYTES = 256 * 1024
_COUNT_LIMIT_BYTES = 256 * 1024 * 1024
"""Line numbers are counted in files up to this size: 0.1 s on a disk, 2 s on a slow share."""
_BLOCK_BYTES = 1024 * 1024

_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[@-_]")
_PREFIXED = re.compile(
    r"(?P<prefix>(?=\S).{1,200}?)(?:Traceback \(most recent call last\)|  File \"[^\"]*\", line \d)"
)
_PREFIX = re.compile(
    r"^(?:"
    r"\[\d+,\d+\]<std(?:out|err)>:\s?"  # mpirun --tag-output of Open MPI 4
    r"|\[[\w-]+@\d+,\d+(?:\]<std\w+>|\]<\w+>)?:\s?"  # … of Open MPI 5
    r"|(?:\w{3} \w{3} +\d+ [\d:]{8} \d{4})?\[\d+\]<std(?:out|err)>:\s?"  # horovodrun
    r"|\[(?:rank[ =]?|default)\d+\]:\s?|\[rank[ =]?\d+\]\s"  # torchrun
    r"|\d{4}-\d\d-\d\dT[\d:]{8}[.,]?\d*(?:Z|[+-]\d\d:?\d\d) (?:std(?:out|err) [FP] )?"  # containers
    r")"
)


@dataclass(frozen=True)
class LogPart:
    """Consecutive lines of ``file``; ``first_line`` counts from 1, 0 is unknown."""

    file: str
    lines: tuple[str, ...]
    first_line: int = 1

    @classmethod
    def from_text(cls, file: str, text: str, first_line: int = 1) -> LogPart:
        lines = [tidy(line) for line in text.split("\n")]
        return cls(file, tuple(_without_shared_prefixes(lines)), first_line)

    def number(self, index: int) -> int:
        """Return the number of ``lines[index]`` in the file, 0 if unknown."""
        return self.first_line + index if self.first_line else 0


def tidy(line: str) -> str:
    """Remove colours, overwritten progress bars and the writer's prefix from a line."""
    return _PREFIX.sub("", _ANSI.sub("", last_state(line)))


def _without_shared_prefixes(lines: Sequence[str]) -> list[str]:
    """Remove what stands before the lines of a traceback, as a time or the name of a process.

    It may differ in its digits from line to line.
    """
    prefixes = set()
    for line, following in zip(lines, lines[1:]):
        match = _PREFIXED.match(line)
        pattern = re.sub(r"\d+", r"\\d+", re.escape(match["prefix"])) if match else ""
        if pattern and re.match(pattern, following):
            prefixes.add(pattern)
    any_prefix = re.compile(f"^(?:{'|'.join(prefixes)})") if prefixes else None
    return [any_prefix.sub("", line) for line in lines] if any_prefix else list(lines)


def read_parts(path: Path, offset: int = 0) -> tuple[LogPart, ...]:
    """Read the beginning and the end of a log from byte ``offset`` on; empty without a log."""
    with suppress(OSError), path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        offset = min(offset, size)
        if size - offset <= HEAD_BYTES + TAIL_BYTES:
            spans = [(offset, size)]
        else:
            spans = [(offset, offset + HEAD_BYTES), (size - TAIL_BYTES, size)]
        parts = []
        newlines = position = 0
        for start, end in spans:
            if size <= _COUNT_LIMIT_BYTES:
                newlines += _newlines(file.fileno(), position, start)
            text = os.pread(file.fileno(), end - start, start)
            number = newlines + 1 if size <= _COUNT_LIMIT_BYTES else 0
            parts.append(LogPart.from_text(path.name, text.decode("utf-8", "replace"), number))
            newlines += text.count(b"\n")
            position = end
        return tuple(parts)
    return ()


def read_logs(
    folder: JobFolder, ranks: Iterable[int], offsets: dict[int, int]
) -> dict[int, tuple[LogPart, ...]]:
    """Read the logs of some ranks, each from the byte where the run began."""
    return {rank: read_parts(folder.rank_log(rank), offsets.get(rank, 0)) for rank in ranks}


def _newlines(descriptor: int, start: int, end: int) -> int:
    count = 0
    while start < end:
        block = os.pread(descriptor, min(_BLOCK_BYTES, end - start), start)
        if not block:
            break
        count += block.count(b"\n")
        start += len(block)
    return count
