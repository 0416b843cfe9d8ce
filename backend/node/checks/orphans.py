"""Processes of runs that are over: found by their tag, ended only on request.

``python -m backend.node.checks.orphans --data-root DIR [--end PID:TICKS ...]`` prints one JSON
document: the orphans of this computer and, with ``--end``, the pids of those that did not end.
Processes of other users, and those that no run of Ringmaster started, are never listed or ended.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Collection, Sequence
from pathlib import Path

from backend.base.log import swallowed
from backend.node.system import process_cleanup, process_identity
from backend.node.system.process_identity import age_s, owner_of
from backend.records.base.layout import TOOL_TAG, DataRoot
from backend.records.jobs.status import ProcessIdentity
from backend.records.nodes.reading import Orphan, OrphanReason

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def find(root: DataRoot) -> tuple[Orphan, ...]:
    """Return every orphan on this computer, the oldest first.

    Raises:
        OSError: The data root cannot be read; then orphans cannot be identified.
    """
    # If the share is not mounted, every run would seem to be over.
    os.listdir(root.jobs)
    reasons: dict[str, OrphanReason | None] = {}
    orphans = []
    for pid in process_identity.pids():
        process = process_identity.process(pid) if _is_own(pid) else None
        tag = process_identity.run_tag_of(pid) if process is not None else ""
        if process is None or not tag:
            continue
        if tag not in reasons:
            reasons[tag] = _reason_over(root, tag)
        reason = reasons[tag]
        if reason is not None:
            orphans.append(_orphan(process, tag, reason))
    return tuple(sorted(orphans, key=lambda orphan: -orphan.age_s))


def end(root: DataRoot, process_keys: Collection[tuple[int, int]]) -> tuple[int, ...]:
    """End the orphans with these pids and start ticks; return the pids that are left.

    Raises:
        OSError: The data root cannot be read.
    """
    chosen_processes = [
        orphan.process
        for orphan in find(root)
        if (orphan.process.pid, orphan.process.start_ticks) in process_keys
    ]
    return process_cleanup.end(
        lambda: [process for process in chosen_processes if process_identity.is_alive(process)]
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="backend.node.checks.orphans", description=__doc__)
    parser.add_argument("--data-root", type=Path, required=True)
    parser.add_argument(
        "--end", nargs="+", type=_parse_process_key, default=(), metavar="PID:TICKS"
    )
    options = parser.parse_args(arguments)
    root = DataRoot(options.data_root.absolute())
    try:
        remaining_pids = end(root, options.end) if options.end else ()
        orphans = [orphan.to_dict() for orphan in find(root)]
    except OSError as error:
        sys.stderr.write(f"The jobs in {root.jobs} cannot be read: {error.strerror}.\n")
        return 1
    sys.stdout.write(json.dumps({"orphans": orphans, "left": remaining_pids}) + "\n")
    return 0


def _parse_process_key(text: str) -> tuple[int, int]:
    pid, _, ticks = text.partition(":")
    return int(pid), int(ticks)


def _is_own(pid: int) -> bool:
    try:
        return os.stat(f"/proc/{pid}").st_uid == os.geteuid()
    except OSError as error:
        swallowed(error)
        return False


def _reason_over(root: DataRoot, tag: str) -> OrphanReason | None:
    """Why no process of this run should be alive, or None."""
    if tag.startswith(TOOL_TAG):
        return None
    job, _, run = tag.rpartition("/")
    if not run.isdecimal() or not job or "/" in job or job in (".", ".."):
        return OrphanReason.NO_JOB
    folder = root.job(job)
    if not folder.path.is_dir():
        # A job that was never here may be one of another data root.
        return OrphanReason.REMOVED if (root.trash / "jobs" / job).is_dir() else None
    attempt = folder.attempt(int(run))
    if not attempt.path.is_dir():
        return OrphanReason.STARTED_OVER
    return OrphanReason.OVER if attempt.exit.exists() else None


def _message(reason: OrphanReason, run: str) -> str:
    return {
        OrphanReason.NO_JOB: "No job started it.",
        OrphanReason.REMOVED: "Its job was removed.",
        OrphanReason.STARTED_OVER: f"Run {run} of its job was started over.",
        OrphanReason.OVER: f"Run {run} of its job is over.",
    }[reason]


def _orphan(process: ProcessIdentity, tag: str, reason: OrphanReason) -> Orphan:
    owner = owner_of(process.pid)
    return Orphan(
        process=process,
        user=owner.user,
        command=owner.command,
        age_s=age_s(process),
        memory_bytes=_resident_bytes(process.pid),
        run_tag=tag,
        message=_message(reason, tag.rpartition("/")[2]),
        reason=reason,
    )


def _resident_bytes(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * _PAGE_BYTES
    except (OSError, IndexError) as error:
        swallowed(error)
        return 0


if __name__ == "__main__":
    sys.exit(main())
