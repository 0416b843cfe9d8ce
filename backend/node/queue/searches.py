"""Searches of a data root that this computer keeps: when each gets its next turn.

A turn is a process of its own (`backend.node.queue.search_turn`), because Optuna is larger than an
agent. It proposes values for trials whose turn in the queue has come, and reads what open trials
reported. It leaves everything in files, so a turn that was killed is simply repeated.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from backend.base.log import suppress
from backend.node.system.start_supervisor import own_environment
from backend.records.base.atomic_files import cached_reader, read_json
from backend.records.base.layout import DataRoot, JobFolder, SearchFolder
from backend.records.jobs.history import last_written
from backend.records.queue.entry import QueueEntry, is_a_desk
from backend.records.sweeps.search import SearchProgress, StoredSearch
from backend.records.sweeps.spec import sweep_name

_RETRY_S = 5.0
"""Wait after a turn that failed, or did not propose what was requested."""
_REMEMBERED = 256
_Signature = tuple[object, ...]


@cached_reader(_REMEMBERED)
def _definition(path: Path) -> StoredSearch:
    return StoredSearch.from_dict(read_json(path))


@cached_reader(_REMEMBERED)
def _progress(path: Path) -> SearchProgress:
    return SearchProgress.from_dict(read_json(path))


class Searches:
    """Starts the turns. ``key`` is the `node_key` of this computer."""

    def __init__(self, root: DataRoot, key: str, monotonic: Callable[[], float] = time.monotonic):
        self._root = root
        self._key = key
        self._monotonic = monotonic
        self._turns: dict[str, subprocess.Popen[bytes]] = {}
        self._signatures: dict[str, _Signature] = {}
        """What each search looked like before its last turn."""
        self._next_try_s: dict[str, float] = {}
        self.has_open = False
        """True if a trial has begun whose end the sampler does not know, as of the last poll."""

    def poll(self, waiting_entries: Sequence[QueueEntry]) -> None:
        """Start the turns that are due; ``waiting_entries`` are trials that only lack their values.

        Raises:
            OSError: The data root cannot be read.
        """
        self.has_open = False
        try:
            names = os.listdir(self._root.searches)
        except FileNotFoundError:
            return
        for name in names:
            folder = self._root.search(name)
            job_ids = [entry.job_id for entry in waiting_entries if sweep_name(entry.sweep) == name]
            with suppress(ValueError, FileNotFoundError):
                self._poll_search(folder, job_ids)

    def has_open_trials(self) -> bool:
        """Return whether a search of this computer has an open trial."""
        with suppress(OSError, ValueError):
            for name in os.listdir(self._root.searches):
                folder = self._root.search(name)
                if _open_ids(folder) and self._is_mine(folder):
                    return True
        return False

    def _poll_search(self, folder: SearchFolder, waiting_ids: Sequence[str]) -> None:
        open_ids = _open_ids(folder)
        if not (open_ids or waiting_ids) or not self._is_mine(folder):
            return
        name = folder.path.name
        self.has_open = self.has_open or bool(open_ids)
        turn = self._turns.get(name)
        if turn is not None:
            if turn.poll() is None:
                return
            del self._turns[name]
            if turn.returncode:
                self._signatures.pop(name, None)
                self._next_try_s[name] = self._monotonic() + _RETRY_S
        signature = (*waiting_ids, *(_state_of(self._root.job(job_id)) for job_id in open_ids))
        now_s, is_same = self._monotonic(), signature == self._signatures.get(name)
        if now_s < self._next_try_s.get(name, 0.0) or (is_same and not waiting_ids):
            return
        self._signatures[name] = signature
        path = os.path.abspath(folder.path)
        if is_same:
            self._next_try_s[name] = now_s + _RETRY_S
        self._turns[name] = subprocess.Popen(
            [sys.executable, "-m", "backend.node.queue.search_turn", *waiting_ids, path],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env=own_environment(),
        )

    def _is_mine(self, folder: SearchFolder) -> bool:
        head = _definition(folder.definition).head
        is_own_file = not is_a_desk(head) or os.stat(folder.definition).st_uid == os.geteuid()
        return head == self._key and is_own_file


def _open_ids(folder: SearchFolder) -> tuple[str, ...]:
    try:
        return _progress(folder.progress).open_jobs
    except FileNotFoundError:  # Nothing was proposed yet.
        return ()


def _state_of(folder: JobFolder) -> _Signature:
    """Return a value that changes when a trial may have another value of an epoch, or has ended."""
    _, epoch, step = last_written(folder.history)
    run = folder.newest_run()
    has_ended = folder.attempt(run).exit.exists()
    return folder.job_id, epoch or step, run, has_ended, folder.queued.exists()
