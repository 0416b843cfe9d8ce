"""Files of curves: ``history.toml``, in complete blocks without a loss, and event files.

Blocks that the disk does not accept wait in memory and are written with the next blocks. On NFS
other computers see data once it is flushed or closed, and only then is a full disk reported
(nfs(5), "Data and metadata coherence"), so blocks that are not flushed stay in memory as well.
"""

from __future__ import annotations

import errno
import os
import socket
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any

from backend.base.log import suppress
from backend.records.base import access_modes
from backend.records.base.access_modes import make_folders
from backend.records.jobs.history import BLOCK_END, Block, encode

FLUSH_INTERVAL_S = 2.0
"""A flush costs kernel time where ranks compute: with a flush after each write, steps of 1.5 ms
took 0.1 to 0.2 ms longer (``tests/benchmarks/step_overhead.py``). Readers on NFS do not poll more
often: they ask a server for a file's attributes every 3 s (nfs(5), ``acregmin``).
"""


_VERSION = "brain.Event:2"


class HistoryFile:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] | None = None
        self._flushed_end: int | None = None
        self._unflushed_bytes = b""
        self._written_bytes = 0
        """The number of bytes of ``_unflushed_bytes`` that are in the file."""
        self._flushed_s = -FLUSH_INTERVAL_S
        self._has_failed = False

    @property
    def is_flushed(self) -> bool:
        return not self._unflushed_bytes

    def append(self, blocks: Iterable[Block], flush: bool = False) -> None:
        """Write ``blocks`` and waiting blocks; flush at intervals, or at once on request.

        Raises:
            OSError: The disk accepted nothing; all blocks wait for the next call.
        """
        self._unflushed_bytes += b"".join(encode(block) for block in blocks)
        if not self._unflushed_bytes:
            return
        now_s = time.monotonic()
        # After a failure only a flush shows that the disk accepts data again.
        flush |= self._has_failed or now_s - self._flushed_s >= FLUSH_INTERVAL_S
        self._has_failed = True
        file, end = self._open()
        try:
            content = self._unflushed_bytes[self._written_bytes :]
            # Unbuffered, and a disk that is nearly full accepts a part without an error.
            if content and file.write(content) != len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self._written_bytes = len(self._unflushed_bytes)
            if flush:
                os.fsync(file.fileno())
        except OSError:
            self._undo_append(file, end)
            raise
        self._has_failed = False
        if flush:
            self._flushed_end = end + self._written_bytes
            self._flushed_s = now_s
            self._unflushed_bytes, self._written_bytes = b"", 0

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _open(self) -> tuple[IO[bytes], int]:
        if self._file is None:
            self._file, end = open_history(self._path)
            if self._flushed_end is not None and end > self._flushed_end:
                # Written before the file became unavailable, and still in memory.
                end = self._flushed_end
                _truncate(self._file, end)
            self._flushed_end = end
        assert self._flushed_end is not None
        return self._file, self._flushed_end

    def _undo_append(self, file: IO[bytes], end: int) -> None:
        """Remove an incomplete block, so that the next block follows a complete one."""
        self._written_bytes = 0
        try:
            _truncate(file, end)
        except OSError:
            # The file is unavailable, not the disk full; opening it again finds its end.
            with suppress(OSError):
                file.close()
            self._file = None


def open_history(path: Path) -> tuple[IO[bytes], int]:
    """Open for appending after the last complete block; cut off an incomplete one."""
    access_modes.make_folders(path.parent)
    file = os.fdopen(access_modes.open_for_writing(path, 0), "r+b", buffering=0)
    size = file.seek(0, os.SEEK_END)
    # Windows that overlap by the marker's length, from the end.
    end, start = size, size
    history_end = 0
    marker = b"\n" + BLOCK_END
    while start > 0:
        start = max(0, end - 2**20)
        file.seek(start)
        index = file.read(end - start).rfind(marker)
        if index >= 0:
            history_end = start + index + len(marker)
            break
        end = start + len(marker) - 1 if start else 0
    if history_end < size:
        file.truncate(history_end)
    file.seek(history_end)
    return file, history_end


def _truncate(file: IO[bytes], end: int) -> None:
    file.truncate(end)
    file.seek(end)


class EventFile:
    """The points of one run below ``folder`` for TensorBoard; no file before the first points.

    tensorboardX's own `SummaryWriter` passes points to a thread, and a full disk ends that thread
    permanently; a caller then waits forever once its queue is full. Here the caller writes them,
    and gets the disk's errors.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._records: Any = None

    def write(self, points: Iterable[tuple[int, Mapping[str, float]]]) -> None:
        """Write the values at each step, and flush them to the disk.

        Raises:
            OSError: The disk does not accept them. Pass them again: they go to a new file then,
                because the end of the old one is unknown. TensorBoard reads both as one.
        """
        # Late: it takes a second of the interpreter.
        from tensorboardX.proto.event_pb2 import Event
        from tensorboardX.proto.summary_pb2 import Summary

        try:
            if self._records is None:
                self._open_file()
            for step, values in points:
                for name, value in values.items():
                    # tensorboardX's `scalar` would make “IoU (0.5)” and “IoU [0.5]” one curve.
                    summary = Summary(value=[Summary.Value(tag=name, simple_value=value)])
                    event = Event(wall_time=time.time(), step=step, summary=summary)
                    self._records.write(event.SerializeToString())
            self._records.flush()
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        records, self._records = self._records, None
        if records is not None:
            with suppress(OSError):
                records.close()

    def _open_file(self) -> None:
        from tensorboardX.proto.event_pb2 import Event
        from tensorboardX.record_writer import RecordWriter

        make_folders(self._folder)
        # TensorBoard reads them in the order of their names.
        name = f"events.out.tfevents.{time.time():.3f}.{socket.gethostname()}"
        self._records = RecordWriter(str(self._folder / name))
        version_event = Event(wall_time=time.time(), file_version=_VERSION)
        self._records.write(version_event.SerializeToString())
