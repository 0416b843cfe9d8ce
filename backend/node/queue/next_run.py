"""Queue the next run of a job from a node, without a desktop: after a failure, or after a pause.

The launch of the run before is the pattern: paths, interpreter and networks of its nodes stay. The
queue starts the run as it starts any queued job, when its nodes answer and its GPUs are free. If
two programs queue it, the claim of ``attempts/<n>`` decides.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

from backend.base.errors import BackendError
from backend.node.queue import entries as queue_entries
from backend.node.system.process_identity import machine
from backend.node.system.start_supervisor import start_detached
from backend.records.base import access_modes, timestamps
from backend.records.base.account import user_name
from backend.records.base.atomic_files import replace_json
from backend.records.base.layout import DataRoot, JobFolder
from backend.records.jobs.checkpoint import checkpoint_to_resume, read_checkpoints
from backend.records.jobs.config import JobConfig
from backend.records.jobs.job_file import with_changes
from backend.records.jobs.launch import Launch, rank_plans
from backend.records.jobs.placement import THIS_COMPUTER, Placement
from backend.records.jobs.status import Continuation, last_status
from backend.records.queue.entry import POSITION_STEP, QueueEntry
from backend.records.queue.scheduling import reservations_of


def queue_next(
    folder: JobFolder,
    launch: Launch,
    reason: str,
    *,
    placement: Sequence[Placement] = (),
    hosts: Mapping[str, str] = {},
    changes: Mapping[str, Any] = {},
    quiet_s: float = 0.0,
    continuation: Continuation | None = None,
) -> QueueEntry:
    """Queue the run after ``launch``; it continues from the job's newest checkpoint.

    It keeps the reservation of the run before, until that is over, on the nodes that were reserved.

    The job file stays as it is: other nodes and settings hold for this run, and for those that are
    made from it.

    Args:
        reason: Why, as a sentence for the user.
        placement: Where it runs, by default where the run before ran.
        hosts: The addresses of nodes that the run before did not have.
        changes: Values of other settings by their paths.
        quiet_s: See `QueueEntry`.
        continuation: `Launch.continuation`; by default as in the run before.

    Raises:
        BackendError: The settings are not valid, or the queue service of this computer did not
            start.
        OSError: The data root cannot be written.
    """
    root = DataRoot(folder.path.parent.parent)
    if placement:
        changes = {**changes, "placement": [p.to_dict() for p in placement]}
    parsed_job = with_changes(launch.config, changes)
    if parsed_job.config is None:
        raise BackendError(" ".join(config_error.message for config_error in parsed_job.errors))
    status = last_status(folder)
    error = status.error if status is not None else None
    checkpoints = read_checkpoints(folder.checkpoints)
    record = checkpoint_to_resume(checkpoints, error.sound_step if error is not None else None)
    new_launch = next_launch(
        launch, parsed_job.config, record.path if record is not None else "", hosts
    )
    new_launch = replace(new_launch, continuation=continuation or launch.continuation)
    queued_entries = queue_entries.entries(root)
    entry = QueueEntry(
        job_id=folder.job_id,
        name=new_launch.config.name,
        run=new_launch.run,
        placement=new_launch.config.placement,
        machine=machine(),
        host=socket.gethostname(),
        position=min((p.position for p in queued_entries), default=0.0) - POSITION_STEP,
        not_before=launch.reserved_from,
        length_s=launch.reserved_s,
        gives_way=new_launch.config.gives_way,
        queued=timestamps.utc_now(),
        user=user_name(),
        reason=reason,
        quiet_s=quiet_s,
    )
    is_reserved = bool(reservations_of((entry,), datetime.now(timezone.utc)))
    if not is_reserved or set(entry.placement) - set(launch.config.placement):
        entry = replace(entry, not_before="", length_s=0.0)
    replace_json(folder.queued_launch, new_launch.to_dict())
    access_modes.make_folder(root.queue, exist_ok=True)
    os.close(access_modes.open_for_writing(root.queue / folder.job_id))
    replace_json(folder.queued, entry.to_dict())
    if new_launch.ranks[0].node == THIS_COMPUTER:
        keeper = (new_launch.python, "-m", "backend.node.queue.keeper", "--detach")
        failure = start_detached((*keeper, "--data-root", str(root.path)))
        if failure:
            raise BackendError(f"The queue service is not running here: {failure}")
    return entry


def next_launch(
    previous_launch: Launch, config: JobConfig, resume_from: str, hosts: Mapping[str, str] = {}
) -> Launch:
    """Return the launch of the next run, with the nodes and settings of ``config``."""
    hosts = {**{plan.node: plan.host for plan in previous_launch.ranks}, **hosts}
    return replace(
        previous_launch,
        run=previous_launch.run + 1,
        config=config,
        ranks=rank_plans(config, hosts),
        resume_from=resume_from,
        start_from="" if resume_from else previous_launch.start_from,
    )
