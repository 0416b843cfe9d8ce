"""Queue service of a computer that has no agent: ``python -m backend.node.queue.keeper``.

A desktop starts it when a job is queued that this computer is to lead. It then runs on its own, and
ends when no such job is queued and no run is left that it might have to close.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from backend.base.errors import BackendError
from backend.base.log import suppress
from backend.node.metrics.probe import Probe
from backend.node.queue.entries import entries, is_headed_by
from backend.node.queue.scheduler import Scheduler
from backend.node.run.unrecorded_runs import RunWatch
from backend.node.system import background_service
from backend.node.system.background_service import ServiceLock
from backend.node.system.process_identity import machine
from backend.node.system.timeout_call import TimeoutCall
from backend.records.base.layout import DataRoot
from backend.records.jobs.placement import THIS_COMPUTER
from backend.records.queue.entry import node_key

_ROUND_LIMIT_S = 300.0


def lock_of(root: DataRoot) -> ServiceLock:
    """Return the lock that the queue service of a data root on this computer holds."""
    return ServiceLock(Path(os.path.abspath(root.queue)))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="backend.node.queue.keeper", description=__doc__)
    options = background_service.parse(parser, arguments, 1.0)
    root = DataRoot(Path(os.path.abspath(options.data_root)))
    lock = lock_of(root)
    try:
        if not lock.take():
            return 0
    except BackendError as error:
        sys.stderr.write(f"{error.message} {error.remedy}\n")
        return 1
    if lock.become_service(options.detach, Path(os.devnull)):
        QueueKeeper(root, options.interval).work(lock)
    return 0


class QueueKeeper:
    """Repeats rounds until no work is left on this computer."""

    def __init__(self, root: DataRoot, interval_s: float) -> None:
        self._root = root
        self._interval_s = interval_s
        self._probe = Probe(THIS_COMPUTER, root.path, interval_s)
        self._scheduler = Scheduler(root, THIS_COMPUTER, self._probe.read)
        self._run_watch = RunWatch(root, THIS_COMPUTER)
        # A share that hangs must not keep a signal from ending this.
        self._round_call = TimeoutCall(self._interval_s, _ROUND_LIMIT_S)
        self._started_ids: set[str] = set()

    def work(self, lock: ServiceLock) -> None:
        while True:
            # What takes longer is waited for in the next rounds.
            with suppress(OSError):
                if not self._round_call.call(self._run_round):
                    lock.release()
                    # A program that queued a job meanwhile found the lock held and started no other
                    # service.
                    if not self._has_work() or not lock.take():
                        return
                    lock.record_holder(os.getpid())
            if lock.wait(self._interval_s):
                return

    def _run_round(self) -> bool:
        """Return whether any work is left."""
        self._started_ids.update(self._scheduler.poll())
        self._run_watch.poll()
        self._started_ids = {job_id for job_id in self._started_ids if not self._is_over(job_id)}
        return bool(self._started_ids) or self._scheduler.has_work or self._has_work()

    def _is_over(self, job_id: str) -> bool:
        folder = self._root.job(job_id)
        return not folder.path.is_dir() or folder.attempt(folder.newest_run()).exit.exists()

    def _has_work(self) -> bool:
        key = node_key(THIS_COMPUTER, machine())
        return any(is_headed_by(self._root, entry, key) for entry in entries(self._root))


if __name__ == "__main__":
    sys.exit(main())
