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
PIECE_BYTES = 4 * 1024 * 1024
"""Bytes per read when a whole log is read."""
LINE_CHARACTERS = 4000
"""Characters of a line that are shown; a progress bar without line ends can be megabytes long."""
MOST_MATCHES = 100_000
_REMOTE_TAIL_BYTES = 2 * 1024 * 1024
"""Bytes at the end of a log that are fetched from a remote data root."""
_NOTHING = Progress()

_FAULT_WORDS = (b"Traceback", b"Error", b"Exception", b"error", b"NCCL WARN", b"Segmentation fault")
_FAULT = re.compile(
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
        self._forget()

    @property
    def lines(self) -> int:
        """Number of lines, including an incomplete last one."""
        return self._newlines + (1 if self._rest else 0)

    @property
    def whole_lines(self) -> int:
        """Number of complete lines."""
        return self._newlines

    @property
    def size_bytes(self) -> int:
        return self._read_to

    @property
    def begins_at(self) -> int:
        return self._begin

    def refresh(self, progress: Progress = _NOTHING) -> None:
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
            self._forget()
        self._file = file
        if self._read_to == self._begin == 0 and not self._files.is_mounted:
            self._begin_near_the_end(size)
        while self._read_to < size:
            piece = self._files.read(
                self._path, self._read_to, min(PIECE_BYTES, size - self._read_to)
            )
            if not piece:
                break
            self._take(piece)
            progress.step(self._read_to - self._begin, size - self._begin, "Reading the log")

    def read(self, first: int, count: int) -> tuple[str, ...]:
        """Return at most ``count`` existing lines from number ``first`` on (from 0)."""
        first = max(0, first)
        count = min(count, self.lines - first)
        if count <= 0:
            return ()
        number = bisect_right(self._before, first) - 1
        # A line may begin in an earlier block than the one in which the previous line ends.
        skip = first - self._before[number]
        place = self._begin + number * BLOCK_BYTES
        kept: list[bytes] = []
        rest = b""
        while len(kept) < skip + count and place < self._read_to:
            block = self._files.read(self._path, place, min(BLOCK_BYTES, self._read_to - place))
            if not block:
                break
            place += len(block)
            parts = (rest + block).split(b"\n")
            rest = _shortened(parts.pop())
            kept += parts
        if len(kept) < skip + count and rest:
            kept.append(rest)
        if skip == 0 and number > 0:
            kept[:1] = [self._beginning(number) + b"".join(kept[:1])]
        return tuple(_text(line) for line in kept[skip : skip + count])

    def find(
        self, text: str, progress: Progress = _NOTHING, from_line: int = 0
    ) -> tuple[tuple[int, ...], bool]:
        """Find the lines that contain ``text``, ignoring case; also whether there are more.

        Raises:
            OSError: It cannot be read.
            Cancelled: The progress was cancelled.
        """
        wanted = text.casefold()
        if not wanted:
            return (), False
        found: list[int] = []
        plain = wanted.isascii()
        needle = wanted.encode("utf-8")
        for number, block in self._whole_lines(progress, from_line, "Searching"):
            if b"\x1b" in block:
                block = _ANSI.sub(b"", block)
            if plain:
                _find_in(block.lower(), needle, number, found)
            else:
                folded = block.decode("utf-8", "replace").casefold().encode("utf-8")
                _find_in(folded, needle, number, found)
            if len(found) > MOST_MATCHES:
                return tuple(found[:MOST_MATCHES]), True
        return tuple(one for one in found if one >= from_line), False

    def first_error(self, progress: Progress = _NOTHING) -> int | None:
        """Return the number of the first line that looks like an error, None if none does.

        Raises:
            OSError: It cannot be read.
            Cancelled: The progress was cancelled.
        """
        for number, block in self._whole_lines(progress, 0, "Searching for an error"):
            place = _first_fault(block)
            if place is not None:
                return number + block.count(b"\n", 0, place)
        return None

    def _identity(self) -> int:
        """Identify a file among others of the same name; 0 if only its size is available."""
        if not self._files.is_mounted:
            return 0
        try:
            return self._path.stat().st_ino
        except FileNotFoundError:
            return 0

    def _forget(self) -> None:
        self._begin = 0
        self._read_to = 0
        self._newlines = 0
        self._filled = 0
        self._rest = False
        self._before: list[int] = [0]
        """Line ends before each block; the last number is that of the block being filled."""

    def _begin_near_the_end(self, size: int) -> None:
        if size <= _REMOTE_TAIL_BYTES:
            return
        block = self._files.read(self._path, size - _REMOTE_TAIL_BYTES, BLOCK_BYTES)
        whole = block.find(b"\n") + 1
        self._begin = self._read_to = size - _REMOTE_TAIL_BYTES + whole

    def _take(self, piece: bytes) -> None:
        self._read_to += len(piece)
        self._rest = not piece.endswith(b"\n")
        place = 0
        while place < len(piece):
            end = min(len(piece), place + BLOCK_BYTES - self._filled)
            self._newlines += piece.count(b"\n", place, end)
            self._filled += end - place
            place = end
            if self._filled == BLOCK_BYTES:
                self._filled = 0
                self._before.append(self._newlines)

    def _beginning(self, number: int) -> bytes:
        """Return the part before block ``number`` of the line that continues in it."""
        beginning = b""
        while number > 0:
            number -= 1
            block = self._files.read(self._path, self._begin + number * BLOCK_BYTES, BLOCK_BYTES)
            cut = block.rfind(b"\n") + 1
            beginning = (block[cut:] + beginning)[: LINE_CHARACTERS * 4]
            if cut:
                break
        return beginning

    def _whole_lines(
        self, progress: Progress, from_line: int, what: str
    ) -> Iterator[tuple[int, bytes]]:
        """Yield blocks of complete lines, each with the number of its first line."""
        # As of now: other threads may read what is added meanwhile.
        before, begin, end = self._before, self._begin, self._read_to
        number = max(0, bisect_right(before, from_line) - 1)
        place = begin + number * BLOCK_BYTES
        rest = self._beginning(number) if number else b""
        line = before[number]
        while place < end:
            block = self._files.read(self._path, place, min(PIECE_BYTES, end - place))
            if not block:
                break
            place += len(block)
            progress.step(place - begin, end - begin, what)
            cut = block.rfind(b"\n") + 1
            if not cut:
                rest = (rest + block)[:PIECE_BYTES]
                continue
            whole = rest + block[:cut]
            yield line, whole
            line += whole.count(b"\n")
            rest = block[cut:]
        if rest:
            yield line, rest


def _first_fault(block: bytes) -> int | None:
    """Return the start of the first line that looks like an error.

    Searching for the words first is five times as fast as the pattern alone.
    """
    first: int | None = None
    for word in _FAULT_WORDS:
        place = block.find(word)
        while place >= 0 and (first is None or place < first):
            begin = block.rfind(b"\n", 0, place) + 1
            if _FAULT.match(block, begin):
                first = begin
                break
            end = block.find(b"\n", place)
            place = block.find(word, end) if end >= 0 else -1
    return first


def _find_in(block: bytes, needle: bytes, number: int, found: list[int]) -> None:
    place = block.find(needle)
    counted = 0
    while place >= 0 and len(found) <= MOST_MATCHES:
        number += block.count(b"\n", counted, place)
        counted = place
        found.append(number)
        end = block.find(b"\n", place)
        place = block.find(needle, end) if end >= 0 else -1


def _shortened(line: bytes) -> bytes:
    """Return the part of an incomplete line that is needed to show it later."""
    returned = b"\r" if b"\r" in line else b""
    ends = b"\r" if line.endswith(b"\r") else b""
    return returned + last_state(line)[: LINE_CHARACTERS * 4] + ends


def _text(line: bytes) -> str:
    """Return a line as shown: the last state of a progress bar, the beginning of a long line."""
    text = last_state(line)[: LINE_CHARACTERS * 4].decode("utf-8", "replace")
    if len(text) > LINE_CHARACTERS:
        return f"{text[:LINE_CHARACTERS]}…"
    return text
