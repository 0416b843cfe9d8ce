"""Pieces of a log: a log of 200 MB is never read whole."""

from __future__ import annotations

import codecs
import os
from pathlib import Path

from backend.records.job_view import LogChunk

CHUNK_BYTES = 256 * 1024


def read_log(path: Path, offset: int = 0, limit_bytes: int = CHUNK_BYTES) -> LogChunk:
    """At most ``limit_bytes`` from ``offset``; a negative offset counts from the end.

    A piece that begins inside the file by a negative offset begins with a whole line, and none
    ends within a character. No file is an empty log.

    Raises:
        OSError: The file cannot be read.
    """
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return LogChunk("", 0, 0)
    with file:
        size = os.fstat(file.fileno()).st_size
        begin = max(0, size + offset) if offset < 0 else min(offset, size)
        file.seek(begin)
        if offset < 0 and begin > 0:
            begin += len(file.readline(limit_bytes))
        content = file.read(limit_bytes)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(content)
    waiting = len(decoder.getstate()[0])
    return LogChunk(text, begin + len(content) - waiting, size)
