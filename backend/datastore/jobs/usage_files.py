"""The ledger of a data root as it is stored, and the runs that only a job's folder has."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator

from backend.base.log import suppress
from backend.datastore.access.root_access import OpenJob, OpenRoot
from backend.datastore.jobs.files import JobFile
from backend.node.metrics.energy import allocated_nodes
from backend.node.run.usage_log import line, run_usage
from backend.records.base.atomic_files import open_regular_file, stored_record
from backend.records.base.layout import AttemptFolder
from backend.records.base.timestamps import utc_now
from backend.records.jobs.launch import launch_of
from backend.records.jobs.state import JobState
from backend.records.jobs.status import ProcessIdentity, RunExit, last_status
from backend.records.jobs.usage import RunUsage


def read_ledger(root: OpenRoot) -> dict[tuple[str, int], RunUsage]:
    """Return the recorded runs, by job and number.

    Raises:
        OSError: The data root cannot be read.
    """
    root.files.refresh_usage()
    runs: dict[tuple[str, int], RunUsage] = {}
    names = os.listdir(root.usage) if root.usage.is_dir() else []
    # Those of removed jobs last: they have the tags that the job had then.
    for name in sorted(names, key=lambda name: (not name.startswith("runs-"), name)):
        with suppress(ValueError), os.fdopen(open_regular_file(root.usage / name)) as file:
            for text in file:
                with suppress(ValueError):
                    if text.strip():
                        usage = RunUsage.from_dict(json.loads(text))
                        runs[usage.job_id, usage.run] = usage
    return runs


def runs_in_folder(folder: OpenJob, file: JobFile, numbers: Iterable[int]) -> Iterator[RunUsage]:
    """Yield what runs of a job used, also one that has not ended, where a record has it."""
    status = last_status(folder)
    for number in numbers:
        attempt = _attempt(folder, number)
        record = stored_record(RunExit, attempt.exit)
        started_at = status.started_at if status is not None and status.run == number else ""
        launch = launch_of(folder.launch, number)
        if record is None and launch is not None and started_at:
            supervisor = stored_record(ProcessIdentity, attempt.supervisor)
            host = supervisor.host if supervisor is not None else ""
            nodes = allocated_nodes(launch.ranks, host)
            record = RunExit(number, JobState.TRAINING, "", ended_at=utc_now(), nodes=nodes)
        if record is not None and record.nodes:
            yield run_usage(file.id, record, started_at, file.name, file.user, file.tags)


def _attempt(folder: OpenJob, number: int) -> AttemptFolder:
    """Return the folder of a run, which starting over may have moved."""
    moved_paths = folder.started_over_runs.glob(f"*/attempts/{number}")
    return AttemptFolder(next(moved_paths, folder.attempt(number).path))


def keep_runs(root: OpenRoot, folder: OpenJob, file: JobFile, newest_run: int) -> None:
    """Write what all runs of a job used to the ledger, before the job is removed.

    Raises:
        OSError: The data root cannot be written.
    """
    lines = [line(usage) for usage in runs_in_folder(folder, file, range(1, newest_run + 1))]
    if lines:
        root.files.make_folder(root.usage, exist_ok=True)
        root.files.replace_bytes(root.usage / f"removed-{file.id}.jsonl", b"".join(lines))
