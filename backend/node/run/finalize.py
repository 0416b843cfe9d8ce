"""End what is left of a run whose supervisor is gone, and record the end.

The callers are the node's agent (`unrecorded_runs`), the queue (`starter`) and, on a desktop or the
command line, `backend.datastore.jobs.reaper`. Reading a job's state never calls this.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from enum import Enum

from backend.base.log import suppress, swallowed
from backend.node.metrics.energy import allocated_nodes
from backend.node.run import usage_log
from backend.node.run.ended_run import EndedRun
from backend.node.run.run_outcome import final_status, run_exit
from backend.node.system import process_cleanup, process_identity, temp_dirs
from backend.records.base import timestamps
from backend.records.base.atomic_files import PreallocatedFile, read_json, stored_record
from backend.records.base.layout import JobFolder, run_tag
from backend.records.jobs.launch import Launch, launch_of
from backend.records.jobs.state import JobState
from backend.records.jobs.status import ProcessIdentity, RankExit, RunStatus, UnrecordedEnd


class Supervision(Enum):
    """The state of a run's supervisor, as seen from this computer."""

    NOT_SEEN = "not seen"
    ALIVE = "alive"
    DEAD = "gone"
    REBOOTED = "rebooted"
    ON_OTHER_HOST = "elsewhere"


ENDED_UNRECORDED = {
    Supervision.REBOOTED: UnrecordedEnd.REBOOTED,
    Supervision.DEAD: UnrecordedEnd.SUPERVISOR_GONE,
}
"""Why a run without ``exit.json`` has ended, by what is known of its supervisor."""


def supervision_of(supervisor: ProcessIdentity) -> Supervision:
    """Return the present state of a supervisor that recorded its identity."""
    if not process_identity.is_here(supervisor):
        return Supervision.ON_OTHER_HOST
    if process_identity.is_alive(supervisor):
        return Supervision.ALIVE
    if supervisor.boot_id != process_identity.boot_id():
        return Supervision.REBOOTED
    return Supervision.DEAD


def close_run(
    folder: JobFolder,
    run: int,
    reason: str,
    previous_status: RunStatus | None,
    *,
    is_of_machine: bool = False,
    lost_nodes: Collection[str] = (),
) -> tuple[RunStatus, str]:
    """Kill the leftover processes of a run on this computer; write its exit and final status.

    ``reason`` is the message about its end, ``previous_status`` the last one that was read,
    ``is_of_machine`` as in `EndedRun`. The next run is queued if the job is to try again, or to
    continue without ``lost_nodes``. Returns the final status, and why writing failed or "".
    """
    attempt = folder.attempt(run)
    if not attempt.path.exists():
        # Another program recorded the end meanwhile, and started the job over.
        return previous_status or RunStatus(JobState.ERROR, run=run, message=reason), ""
    tag = run_tag(folder.job_id, run)
    leftovers = process_cleanup.end_tagged(tag, 1.0)
    temp_dirs.remove(tag)
    launch = launch_of(folder.launch, run)
    ranks = launch.ranks if launch is not None else ()
    record = run_exit(
        EndedRun(
            run=run,
            ranks=ranks,
            exits=_rank_exits(folder, run, launch, is_of_machine=is_of_machine),
            expendable_ranks=launch.expendable if launch is not None else frozenset(),
            launcher_error=reason,
            is_of_machine=is_of_machine,
            last_status=previous_status,
        ),
        leftovers,
        timestamps.utc_now(),
    )
    supervisor = stored_record(ProcessIdentity, attempt.supervisor)
    record = replace(
        record,
        nodes=allocated_nodes(ranks, supervisor.host if supervisor is not None else ""),
        waited_s=previous_status.waited_s if previous_status is not None else None,
    )
    status = final_status(record, previous_status, launch)
    try:
        if not attempt.exit.exists():
            usage_log.append_run(folder, launch, record, status.started_at)
            if is_of_machine and launch is not None and launch.config.on_failure.continues:
                # Imported only when needed: it needs the queue, which needs this.
                from backend.node.queue import retry

                retry.carry_out(folder, launch, retry.plan(folder, launch, record, lost_nodes))
            for path, value in (
                (attempt.exit, record.to_dict()),
                (folder.status, status.to_dict()),
            ):
                preallocated_file = PreallocatedFile(path)
                preallocated_file.replace_json(value)
                preallocated_file.drop_reserve()
    except OSError as error:
        if attempt.path.exists():
            path = error.filename or attempt.exit
            return status, f"The end of run {run} cannot be written: {path}: {error.strerror}."
        swallowed(error)
    return status, ""


def _rank_exits(
    folder: JobFolder, run: int, launch: Launch | None, *, is_of_machine: bool
) -> tuple[RankExit, ...]:
    """Return the records of the ranks in the order of their files.

    Rank 0 writes the status twice a second. If its node is lost, a rank of another node that ended
    after the last status ended because of that; rank 3 left with MPI's code 14. The times are of
    one file system, so no clocks are compared.
    """
    records: list[tuple[int, RankExit]] = []
    for plan in launch.ranks if launch is not None else ():
        path = folder.attempt(run).rank_exit(plan.rank)
        with suppress(OSError, ValueError):
            written_ns = path.stat().st_mtime_ns
            records.append((written_ns, RankExit.from_dict(read_json(path))))
    if is_of_machine and launch is not None:
        with suppress(OSError):
            status_ns, head = folder.status.stat().st_mtime_ns, launch.ranks[0].node
            records = [
                (
                    written_ns,
                    replace(record, is_secondary=record.is_secondary or written_ns > status_ns),
                )
                if record.node != head
                else (written_ns, record)
                for written_ns, record in records
            ]
    return tuple(record for _, record in sorted(records, key=lambda pair: pair[0]))
