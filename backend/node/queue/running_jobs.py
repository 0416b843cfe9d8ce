"""Current runs of a data root, and the resources that each uses on the nodes.

One poll costs a `stat` for each job whose newest run is over, and reads two small files of each
other job: callers choose their interval accordingly.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backend.node.system import process_identity
from backend.node.system.process_identity import machine
from backend.records.base.atomic_files import read_json, stored_record
from backend.records.base.layout import DataRoot, JobFolder, run_tag
from backend.records.base.schema import Record
from backend.records.jobs.launch import RankPlan
from backend.records.jobs.placement import THIS_COMPUTER
from backend.records.jobs.status import START_LIMIT_S, ProcessIdentity, last_status
from backend.records.queue.entry import NodeUse, RunningJob, node_key
from backend.records.sweeps.spec import sweep_of

_OTHER_DESK = "?"


@dataclass(frozen=True)
class _Launch(Record, label="launch record"):
    """The part of a launch that says what a run uses, also if a newer Ringmaster wrote it."""

    run: int
    ranks: tuple[RankPlan, ...]
    config: Mapping[str, Any]


@dataclass(frozen=True)
class RunningJobs:
    """``is_complete`` is false while a run was claimed whose resources are not known yet."""

    running_jobs: tuple[RunningJob, ...]
    tags: frozenset[str]
    is_complete: bool


class LiveRuns:
    """Polls repeatedly; remembers which jobs' newest run is over."""

    def __init__(self, root: DataRoot, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._monotonic = monotonic
        self._finished_mtimes_ns: dict[str, int] = {}
        """For each job whose newest run is over: when ``attempts`` had changed then."""
        self._claims: dict[tuple[str, int], float] = {}
        """When a run without a supervisor was first seen."""

    def read(self, uncached_ids: Collection[str] = ()) -> RunningJobs:
        """Poll once; jobs in ``fresh`` are read again without the cache.

        Raises:
            OSError: The data root cannot be read.
        """
        running_jobs: list[RunningJob] = []
        tags: set[str] = set()
        is_complete = True
        job_ids = [entry for entry in os.listdir(self._root.jobs) if not entry.startswith(".")]
        self._finished_mtimes_ns = {
            job_id: self._finished_mtimes_ns[job_id]
            for job_id in job_ids
            if job_id in self._finished_mtimes_ns
        }
        for job_id in job_ids:
            folder = self._root.job(job_id)
            run = self._live_run(folder, job_id in uncached_ids)
            if not run:
                continue
            tags.add(run_tag(job_id, run))
            # A run that was just claimed has only the launch that it was queued with.
            launch = _launch_of(folder.launch, run) or _launch_of(folder.queued_launch, run)
            if launch is None:
                is_complete = False
            else:
                running_jobs.append(_running(folder, launch))
        return RunningJobs(tuple(running_jobs), frozenset(tags), is_complete)

    def _live_run(self, folder: JobFolder, is_uncached: bool) -> int:
        """Return the number of the current run, or 0."""
        job_id = folder.job_id
        try:
            if is_uncached or job_id not in self._finished_mtimes_ns:
                # NFS caches a folder's content for a while; opening it refreshes the cache.
                os.close(os.open(folder.attempts, os.O_RDONLY))
            changed_ns = os.stat(folder.attempts).st_mtime_ns
        except (FileNotFoundError, NotADirectoryError):
            return 0
        if self._finished_mtimes_ns.get(job_id) == changed_ns:
            return 0
        run = folder.newest_run()
        attempt = folder.attempt(run)
        if run == 0 or attempt.exit.exists() or self._has_not_started(folder, run):
            self._finished_mtimes_ns[job_id] = changed_ns
            return 0
        return run

    def _has_not_started(self, folder: JobFolder, run: int) -> bool:
        key = (folder.job_id, run)
        if folder.attempt(run).supervisor.exists():
            self._claims.pop(key, None)
            return False
        first_seen_s = self._claims.setdefault(key, self._monotonic())
        return self._monotonic() > first_seen_s + START_LIMIT_S


def _launch_of(path: Path, run: int) -> _Launch | None:
    launch = stored_record(_Launch, path)
    return launch if launch is not None and launch.run == run else None


def _running(folder: JobFolder, launch: _Launch) -> RunningJob:
    desk = _desk_of(folder, launch)
    gpus: dict[str, list[str]] = {}
    processes: dict[str, int] = {}
    for plan in launch.ranks:
        key = node_key(plan.node, desk)
        if plan.gpu:
            gpus.setdefault(key, []).append(plan.gpu)
        else:
            processes[key] = processes.get(key, 0) + 1
    node_uses = [NodeUse(key, tuple(uuids)) for key, uuids in gpus.items()]
    node_uses += [NodeUse(key, processes=count) for key, count in processes.items()]
    status = last_status(folder)
    name = str(launch.config.get("name", folder.job_id))
    eta_s = status.eta_s if status else None
    sweep = sweep_of(map(str, launch.config.get("tags", ())))
    return RunningJob(folder.job_id, name, tuple(node_uses), eta_s, sweep)


def _desk_of(folder: JobFolder, launch: _Launch) -> str:
    """Return which computer a run calls "this-computer"."""
    if all(plan.node != THIS_COMPUTER for plan in launch.ranks):
        return ""
    try:
        raw = read_json(folder.attempt(launch.run).supervisor)
        supervisor = ProcessIdentity.from_dict(raw)
    except (OSError, ValueError):
        # Just claimed: it may be this one, and its supervisor will record it soon.
        return machine()
    return machine() if process_identity.is_here(supervisor) else _OTHER_DESK
