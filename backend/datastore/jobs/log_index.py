"""A log of any size by line, without loading it.

The index is the number of line ends before each block: 800 numbers for a log of 200 MB. To find
lines it reads their one or two blocks; after an append it reads only what was added.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path

from backend.base.progress import Progress
from backend.datastore.access.root_access import DataRootAccess
from backend.records.base.terminal_text import last_state

BLOCK_BYTES = 256 * 1024
CHUNK_BYTES = 4 * 1024 * 1024
"""Bytes per read when a whole log is read."""
LINE_CHARACTERS = 4000
"""Characters of a line that are shown; a progress bar without line ends can be megabytes long."""
MOST_MATCHES = 100_000
_REMOTE_TAIL_BYTES = 2 * 1024 * 1024
"""Bytes at the end of a log that are fetched from a remote data root."""
_NO_PROGRESS = Progress()

_ERROR_PHRASES = (
    b"Traceback",
    b"Error",
    b"Exception",
    b"error",
    b"NCCL WARN",
    b"Segmentation fault",
)
_ERROR = re.compile(
    rb"(?:\x1b\[[0-9;]*m)*(?:Traceback \(most recent call last\)"
    rb"|(?:[A-Za-z_]\w*\.)*\w*(?:Error|Exception)(?::|\s*$)|(?:\S+: )?(?:fatal |internal )?error:"
    rb"|[^\n]*\bCUDA error|[^\n]*\bNCCL WARN|Fatal Python error|Segmentation fault)",
    re.MULTILINE,
)
_ANSI = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]")


class LogIndex:
    """A log file. One thread at a time may `refresh` and `read`; searches may run meanwhile."""

    def __init__(self, path: Path, files: DataRootAccess) -> None:
        self._path = path
        self._files = files
        self.generation = 0
        self._file = 0
        self._reset()

    @property
    def lines(self) -> int:
        """Number of lines, including an incomplete last one."""
        return self._newlines + (1 if self._has_partial_line else 0)

    @property
    def whole_lines(self) -> int:
        """Number of complete lines."""
        return self._newlines

    @property
    def size_bytes(self) -> int:
        return self._read_to

    @property
    def begins_at(self) -> int:
        return self._start

    def refresh(self, progress: Progress = _NO_PROGRESS) -> None:
        """Read what was added since the last time; everything, if the log was replaced.

        Raises:
            OSError: It cannot be read. A missing file is an empty log.
            Cancelled: The progress was cancelled; the next call continues there.
        """
        try:
            size = self._files.size(self._path)
        except FileNotFoundError:
            size = 0
        file = self._identity()
        if size < self._read_to or (self._read_to and file != self._file):
            self.generation += 1
            self._reset()
        self._file = file
        if self._read_to == self._start == 0 and not self._files.is_mounted:
            self._start_near_the_end(size)
        while self._read_to < size:
            chunk = self._files.read(
                self._path, self._read_to, min(CHUNK_BYTES, size - self._read_to)
            )
            if not chunk:
                break
            self._count_lines(chunk)
            progress.step(self._read_to - self._start, size - self._start, "Reading the log")

    def read(self, first_line: int, count: int) -> tuple[str, ...]:
        """Return at most ``count`` existing lines from number ``first`` on (from 0)."""
        first_line = max(0, first_line)
        count = min(count, self.lines - first_line)
        if count <= 0:
            return ()
        block_index = bisect_right(self._newlines_before, first_line) - 1
        # A line may begin in an earlier block than the one in which the previous line ends.
        skip = first_line - self._newlines_before[block_index]
        offset = self._start + block_index * BLOCK_BYTES
        lines: list[bytes] = []
        partial_line = b""
        while len(lines) < skip + count and offset < self._read_to:
            block = self._files.read(self._path, offset, min(BLOCK_BYTES, self._read_to - offset))
            if not block:
                break
            offset += len(block)
            parts = (partial_line + block).split(b"\n")
            partial_line = _shorten(parts.pop())
            lines += parts
        if len(lines) < skip + count and partial_line:
            lines.append(partial_line)
        if skip == 0 and block_index > 0:
            lines[:1] = [self._beginning(block_index) + b"".join(lines[:1])]
        return tuple(_text(line) for line in lines[skip : skip + count])

    def find(
        self, text: str, progress: Progress = _NO_PROGRESS, from_line: int = 0
    ) -> tuple[tuple[int, ...], bool]:
        """Find the lines that contain ``text``, ignoring case; also whether there are more.

        Raises:
            OSError: It cannot be read.
            Cancelled: The progress was cancelled.
        """
        folded_text = text.casefold()
        if not folded_text:
            return (), False
        line_numbers: list[int] = []
        is_ascii = folded_text.isascii()
        needle = folded_text.encode("utf-8")
        for first_number, block in self._whole_lines(progress, from_line, "Searching"):
            if b"\x1b" in block:
                block = _ANSI.sub(b"", block)
            if is_ascii:
                _find_lines(block.lower(), needle, first_number, line_numbers)
            else:
                folded_block = block.decode("utf-8", "replace").casefold().encode("utf-8")
                _find_lines(folded_block, needle, first_number, line_numbers)
            if len(line_numbers) > MOST_MATCHES:
                return tuple(line_numbers[:MOST_MATCHES]), True
        return tuple(number for number in line_numbers if number >= from_line), False

    def first_error(self, progress: Progress = _NO_PROGRESS) -> int | None:
        """Return the number of the first line that looks like an error, None if none does.

        Raises:
            OSError: It cannot be read.
            Cancelled: The progress was cancelled.
        """
        for number, block in self._whole_lines(progress, 0, "Searching for an error"):
            offset = _first_error(block)
            if offset is not None:
                return number + block.count(b"\n", 0, offset)
        return None

    def _identity(self) -> int:
        """Identify a file among others of the same name; 0 if only its size is available."""
        if not self._files.is_mounted:
            return 0
        try:
            return self._path.stat().st_ino
        except FileNotFoundError:
            return 0

    def _reset(self) -> None:
        self._start = 0
        self._read_to = 0
        self._newlines = 0
        self._filled_bytes = 0
        self._has_partial_line = False
        self._newlines_before: list[int] = [0]
        """Line ends before each block; the last number is that of the block being filled."""

    def _start_near_the_end(self, size: int) -> None:
        if size <= _REMOTE_TAIL_BYTES:
            return
        block = self._files.read(self._path, size - _REMOTE_TAIL_BYTES, BLOCK_BYTES)
        line_start = block.find(b"\n") + 1
        self._start = self._read_to = size - _REMOTE_TAIL_BYTES + line_start

    def _count_lines(self, chunk: bytes) -> None:
        self._read_to += len(chunk)
        self._has_partial_line = not chunk.endswith(b"\n")
        offset = 0
        while offset < len(chunk):
            end = min(len(chunk), offset + BLOCK_BYTES - self._filled_bytes)
            self._newlines += chunk.count(b"\n", offset, end)
            self._filled_bytes += end - offset
            offset = end
            if self._filled_bytes == BLOCK_BYTES:
                self._filled_bytes = 0
                self._newlines_before.append(self._newlines)

    def _beginning(self, block_index: int) -> bytes:
        """Return the part before block ``block_index`` of the line that continues in it."""
        beginning = b""
        while block_index > 0:
            block_index -= 1
            block = self._files.read(
                self._path, self._start + block_index * BLOCK_BYTES, BLOCK_BYTES
            )
            line_start = block.rfind(b"\n") + 1
            beginning = (block[line_start:] + beginning)[: LINE_CHARACTERS * 4]
            if line_start:
                break
        return beginning

    def _whole_lines(
        self, progress: Progress, from_line: int, label: str
    ) -> Iterator[tuple[int, bytes]]:
        """Yield blocks of complete lines, each with the number of its first line."""
        # As of now: other threads may read what is added meanwhile.
        newlines_before, start, end = self._newlines_before, self._start, self._read_to
        block_index = max(0, bisect_right(newlines_before, from_line) - 1)
        offset = start + block_index * BLOCK_BYTES
        partial_line = self._beginning(block_index) if block_index else b""
        line_number = newlines_before[block_index]
        while offset < end:
            block = self._files.read(self._path, offset, min(CHUNK_BYTES, end - offset))
            if not block:
                break
            offset += len(block)
            progress.step(offset - start, end - start, label)
            line_start = block.rfind(b"\n") + 1
            if not line_start:
                partial_line = (partial_line + block)[:CHUNK_BYTES]
                continue
            complete_lines = partial_line + block[:line_start]
            yield line_number, complete_lines
            line_number += complete_lines.count(b"\n")
            partial_line = block[line_start:]
        if partial_line:
            yield line_number, partial_line


def _first_error(block: bytes) -> int | None:
    """Return the start of the first line that looks like an error.

    Searching for the words first is five times as fast as the pattern alone.
    """
    error_start: int | None = None
    for phrase in _ERROR_PHRASES:
        offset = block.find(phrase)
        while offset >= 0 and (error_start is None or offset < error_start):
            line_start = block.rfind(b"\n", 0, offset) + 1
            if _ERROR.match(block, line_start):
                error_start = line_start
                break
            end = block.find(b"\n", offset)
            offset = block.find(phrase, end) if end >= 0 else -1
    return error_start


def _find_lines(block: bytes, needle: bytes, line_number: int, line_numbers: list[int]) -> None:
    offset = block.find(needle)
    counted_to = 0
    while offset >= 0 and len(line_numbers) <= MOST_MATCHES:
        line_number += block.count(b"\n", counted_to, offset)
        counted_to = offset
        line_numbers.append(line_number)
        end = block.find(b"\n", offset)
        offset = block.find(needle, end) if end >= 0 else -1


def _shorten(line: bytes) -> bytes:
    """Return the part of an incomplete line that is needed to show it later."""
    carriage_return = b"\r" if b"\r" in line else b""
    line_ending = b"\r" if line.endswith(b"\r") else b""
    return carriage_return + last_state(line)[: LINE_CHARACTERS * 4] + line_ending


def _text(line: bytes) -> str:
    """Return a line as shown: the last state of a progress bar, the beginning of a long line."""
    text = last_state(line)[: LINE_CHARACTERS * 4].decode("utf-8", "replace")
    if len(text) > LINE_CHARACTERS:
        return f"{text[:LINE_CHARACTERS]}…"
    return text
