"""The agent of a node: writes how the node is, closes runs that ended unrecorded here, and starts
the queued jobs that the node leads.

It lives for months on machines that other people use, so it is small, and nothing that the data
root or the driver does ends it: whatever may hang is asked in a thread that can be left behind, and
what cannot be written now is written when it can be again. It never makes a folder: where a share
is not mounted, that would fill the disk below.

One thread, no handler: signals are blocked and taken with `sigtimedwait`.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import platform
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backend.base import log
from backend.base.errors import BackendError
from backend.base.log import suppress
from backend.node.metrics.history_writer import HistoryLines, HistoryWriter
from backend.node.metrics.probe import Probe
from backend.node.run.unrecorded_runs import RunWatch
from backend.node.system import background_service, process_identity
from backend.node.system.background_service import ServiceLock
from backend.node.system.timeout_call import TimeoutCall
from backend.records.base.atomic_files import PreallocatedFile, read_json, replace_json
from backend.records.base.layout import DataRoot, NodeFolder
from backend.records.nodes.reading import NodeReading

if TYPE_CHECKING:
    from backend.node.queue.scheduler import Scheduler

_log = logging.getLogger(__name__)
CODE_ROOT = Path(__file__).resolve().parents[3]
_WRITE_LIMIT_S = 2.0
_RUNS_EVERY_S = 5.0
_CLOSING_LIMIT_S = 300.0
"""After a reboot many runs may have to be closed, each within some 6 s."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="backend.node.agent.agent", description=__doc__)
    parser.add_argument("--name", required=True, help="name of the node")
    parser.add_argument("--folder", type=Path, required=True, help="where info and status go")
    parser.add_argument("--log", type=Path, default=Path(os.devnull), help="of a detached agent")
    options = background_service.parse(parser, arguments, 2.0)
    folder = NodeFolder(Path(os.path.abspath(options.folder)))
    lock = ServiceLock(folder.path)
    try:
        if not lock.take():
            holder = lock.holder()
            holder_label = f" (pid {holder.pid})" if holder is not None else ""
            sys.stderr.write(
                f"An agent{holder_label} already writes to {folder.path} on this computer.\n"
            )
            return 1
    except BackendError as error:
        sys.stderr.write(f"{error.message} {error.remedy}\n")
        return 1
    if not lock.become_service(options.detach, options.log):
        return 0
    if str(options.log) != os.devnull:
        log.to_file(options.log)
    _log.info("Agent of %s started, pid %d, code %s", options.name, os.getpid(), CODE_ROOT)
    root = DataRoot(Path(os.path.abspath(options.data_root)))
    Agent(options.name, folder, root, options.interval).work(lock)
    return 0


class Agent:
    """The loop that writes a reading each interval until a signal ends it."""

    def __init__(self, name: str, folder: NodeFolder, root: DataRoot, interval_s: float) -> None:
        self._folder = folder
        self._interval_s = interval_s
        self._name = name
        self._root = root
        self._probe = Probe(name, root.path, interval_s)
        self._newest_reading: NodeReading | None = None
        self._run_watch = RunWatch(root, name)
        self._history = HistoryWriter(folder)
        self._scheduler: Scheduler | None = None
        self._share_call = TimeoutCall(_WRITE_LIMIT_S)
        self._closing_call = TimeoutCall(_WRITE_LIMIT_S, _CLOSING_LIMIT_S)
        self._earlier_beats: int | None = None
        self._status = PreallocatedFile(folder.status)

    def work(self, lock: ServiceLock) -> None:
        next_reading_s = next_run_check_s = time.monotonic()
        while True:
            self.beat()
            now_s = time.monotonic()
            # A job that lost its head must continue within a minute.
            if now_s >= next_run_check_s or self._run_watch.watches_heads:
                next_run_check_s = now_s + _RUNS_EVERY_S
                self._closing_call.run_in_background(self._attend_runs)
            elif self._scheduler is not None and self._scheduler.has_work:
                self._closing_call.run_in_background(self._attend_queue)
            next_reading_s = max(next_reading_s + self._interval_s, now_s)
            if lock.wait(next_reading_s - now_s):
                return

    def beat(self) -> bool:
        """Take a reading and write it; return False if the data root refused it."""
        reading = self._newest_reading = self._probe.read()
        lines = self._history.lines(reading)
        try:
            self._share_call.call(lambda: self._write(reading, lines))
        except OSError as error:  # away, full, or hanging: a later one gets there
            log.swallowed(error)
            return False
        return True

    def _write(self, reading: NodeReading, lines: HistoryLines) -> None:
        if self._earlier_beats is None:
            self._earlier_beats = self._first_contact()
        raw: dict[str, Any] = reading.to_dict()
        raw["heartbeat"] += self._earlier_beats
        # Compact, because only then Python's own fast encoder is used.
        self._status.replace_bytes(json.dumps(raw, allow_nan=False).encode())
        self._status.reserve()
        self._history.append(lines, reading)

    def _first_contact(self) -> int:
        """Write this agent's identity; return the heartbeat to continue from."""
        for path in self._folder.path.glob(".*.json.*.tmp"):
            if path.name.startswith(
                (f".{self._folder.status.name}.", f".{self._folder.info.name}.")
            ):
                path.unlink()
        beats = 0
        with suppress(FileNotFoundError, ValueError):
            stored_beats = read_json(self._folder.status).get("heartbeat")
            if isinstance(stored_beats, int) and 0 < stored_beats < 2**53:
                beats = stored_beats
        replace_json(
            self._folder.info,
            {
                **process_identity.own_process().to_dict(),
                "bundle": str(CODE_ROOT),
                "python": platform.python_version(),
                "interval_s": self._interval_s,
                "starts_queued": True,
            },
        )
        return beats

    def _attend_runs(self) -> None:
        with suppress(OSError):
            self._run_watch.poll()
            # Loaded only now: an agent stays small as long as nothing waits.
            folders = self._root.queue, self._root.searches
            if self._scheduler is None and any(map(_has_files, folders)):
                from backend.node.queue.scheduler import Scheduler

                self._scheduler = Scheduler(self._root, self._name, lambda: self._newest_reading)
        self._attend_queue()

    def _attend_queue(self) -> None:
        with suppress(OSError):
            if self._scheduler is not None:
                self._scheduler.poll()


def _has_files(folder: Path) -> bool:
    try:
        return bool(os.listdir(folder))
    except FileNotFoundError:
        return False


if __name__ == "__main__":
    sys.exit(main())
