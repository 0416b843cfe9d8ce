"""Points of curves for TensorBoard, in files of its own format.

tensorboardX's own `SummaryWriter` passes points to a thread, and a full disk ends that thread
permanently; a caller then waits forever once its queue is full. Here the caller writes them, and
gets the disk's errors.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from backend.base.log import suppress
from backend.records.base.access_modes import make_folders

_VERSION = "brain.Event:2"


class EventFile:
    """The points of one run below ``folder``. No file is created before the first points."""

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
