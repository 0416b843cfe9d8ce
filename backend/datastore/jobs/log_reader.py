"""Read pieces of a log: a log of 200 MB is never read whole."""

from __future__ import annotations

import codecs
from pathlib import Path

from backend.datastore.access.root_access import MOUNTED, DataRootAccess
from backend.records.jobs.view import LogChunk

CHUNK_BYTES = 256 * 1024


def read_log(
    path: Path, offset: int = 0, limit_bytes: int = CHUNK_BYTES, share: DataRootAccess = MOUNTED
) -> LogChunk:
    """Read at most ``limit_bytes`` from ``offset``; a negative offset counts from the end.

    With a negative offset, a piece that begins inside the file begins with a complete line. No
    piece ends within a character. A missing file is an empty log.
    Raises:
        OSError: The file cannot be read.
    """
    try:
        size = share.size(path)
        begin = max(0, size + offset) if offset < 0 else min(offset, size)
        content = share.read(path, begin, limit_bytes) if limit_bytes else b""
    except FileNotFoundError:
        return LogChunk("", 0, 0)
    if offset < 0 and begin > 0:
        whole = content.find(b"\n") + 1 or len(content)
        begin, content = begin + whole, content[whole:]
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(content)
    waiting = len(decoder.getstate()[0])
    return LogChunk(text, begin + len(content) - waiting, size)
