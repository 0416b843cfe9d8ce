"""Logs as rules read them: the beginning and the end of what one run wrote.

A log may have any size. Failures appear at its end, and start-up errors at its beginning. A message
after which the program kept working did not end it (`LogTail`). Lines that are part of a failure do
not count as work: tracebacks, and what libraries and launchers write during the shutdown, which may
be long.
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
_PREFIXED_LINE = re.compile(
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
    for line, next_line in zip(lines, lines[1:]):
        match = _PREFIXED_LINE.match(line)
        pattern = re.sub(r"\d+", r"\\d+", re.escape(match["prefix"])) if match else ""
        if pattern and re.match(pattern, next_line):
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
        newline_count = position = 0
        for start, end in spans:
            if size <= _COUNT_LIMIT_BYTES:
                newline_count += _newlines(file.fileno(), position, start)
            text = os.pread(file.fileno(), end - start, start)
            first_line = newline_count + 1 if size <= _COUNT_LIMIT_BYTES else 0
            parts.append(LogPart.from_text(path.name, text.decode("utf-8", "replace"), first_line))
            newline_count += text.count(b"\n")
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


_FAILURE_LINE = re.compile(
    r"^\s|^[^\w\s]{3,}|^── "
    r"|[Ee]rror|ERROR|[Ee]xception|[Ff]ail|FAIL|[Aa]bort|[Tt]erminat|[Kk]ill|[Ss]ignal|\bSIG[A-Z]"
    r"|[Ww]arn|WARN|Traceback|[Ss]tack\b|frame #|core dumped|what\(\)|During handling|direct cause"
    r"|NCCL|UCX|\bMPI\b|ORTE|PRTE|PMIX|PMI[Xx]|CUDA|cuda|slurmstepd|^srun: |[Ee]xit|EXIT"
    r"|[Tt]imed? ?out|disconnected|closed|broken|denied|refused|[Uu]nable|[Cc](?:an|ould) ?not"
    r"|[Cc]an't|Last error|^\[?[EF] ?\d{4}|^\[[\w.-]+:\d+\]|^wandb: |Assertion|^Process \S+:$"
    r"|(?:re)?submit|^Root Cause|^Failures:|\b(?:[a-z]+_)?pid\b|leaked \w+ objects"
    r"|^/?\S+\.(?:cu|cc|h):\d"
)
TAIL_SLACK = 30
"""Lines of its own that a program may still write after the message that ends it."""


def is_ordinary(line: str) -> bool:
    """Return whether a working program writes such a line."""
    return bool(line.strip()) and not _FAILURE_LINE.search(line)


class LogTail:
    """The lines of one log after which the program wrote little more."""

    def __init__(self, lines: Sequence[str], slack: int = TAIL_SLACK) -> None:
        remaining_slack = slack
        index = len(lines)
        while index > 0:
            remaining_slack -= is_ordinary(lines[index - 1])
            if remaining_slack < 0:
                break
            index -= 1
        self.start = index
        """The first line after which nothing shows that the program kept working."""

    def offset(self, lines: Sequence[str]) -> int:
        """Return the offset of ``start`` in the lines joined by line feeds."""
        return sum(len(line) + 1 for line in lines[: self.start])
