"""Keepers of queues that tests leave behind."""

from __future__ import annotations

import signal

from backend.node.queue.keeper import lock_of
from backend.node.system import process_identity
from backend.records.base.layout import DataRoot
from tests.waiting import wait_for


def end_keeper(data_root: DataRoot) -> None:
    """End the keeper of a queue, which otherwise lives as long as a job waits."""
    lock = lock_of(data_root)
    keeper = lock.holder()
    if keeper is not None:
        process_identity.send_signal(keeper, signal.SIGKILL)
        wait_for(lambda: not process_identity.is_alive(keeper), "the end of the keeper")
    lock.path.unlink(missing_ok=True)
