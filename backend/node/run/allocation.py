"""A run in an allocation, as every batch script makes it: its nodes, and the run after it.

The nodes are known only when the scheduler begins the job, so the launch record gets their names
and addresses there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from backend.base.errors import BackendError
from backend.node.queue.next_run import next_launch
from backend.node.run import finalize, run_start
from backend.records.base.atomic_files import read_json, replace_json
from backend.records.base.layout import JobFolder
from backend.records.base.local_files import Files
from backend.records.jobs.checkpoint import checkpoint_to_resume, read_checkpoints
from backend.records.jobs.launch import Launch, launch_of, networks_of, rank_plans
from backend.records.jobs.schedulers import scheduler_of_run, submission_of
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RunExit, last_status


def claim_next_run(folder: JobFolder, loss_message: str) -> Launch | None:
    """Claim and write the run after the newest one; None if there is nothing to continue.

    A run that its node did not live to record is closed first, with ``loss_message``.
    """
    run = folder.newest_run()
    attempt = folder.attempt(run)
    scheduler, submission = scheduler_of_run(attempt), submission_of(attempt)
    previous_launch = launch_of(folder.launch, run)
    if previous_launch is None or scheduler is None or submission is None:
        return None
    if not attempt.exit.exists():
        finalize.close_run(folder, run, loss_message, last_status(folder))
    record = RunExit.from_dict(read_json(attempt.exit))
    is_stopped_by_user = record.state is JobState.INTERRUPTED and not record.pause
    if record.state is JobState.FINISHED or is_stopped_by_user:
        return None
    sound_step = record.error.sound_step if record.error is not None else None
    checkpoint = checkpoint_to_resume(read_checkpoints(folder.checkpoints), sound_step)
    launch = next_launch(
        previous_launch, previous_launch.config, checkpoint.path if checkpoint is not None else ""
    )
    files = Files()
    if not run_start.claim(folder, launch.run, files):
        return None
    next_path = folder.attempt(launch.run).submission(scheduler.key)
    replace_json(next_path, read_json(attempt.submission(scheduler.key)))
    # Those of the nodes of the previous allocation.
    launcher = replace(launch.launcher, networks=submission.placement.networks)
    launch = replace(launch, launcher=launcher)
    run_start.write(folder, launch, files)
    return launch


def in_allocation(
    launch: Launch, scheduler: str, addresses: Mapping[str, str], task_count: int
) -> Launch:
    """Return the launch with the nodes of the allocation. Pure.

    Args:
        scheduler: Its name, for messages.
        addresses: The address of each node by its name, in the scheduler's order.
        task_count: The number of processes for which the allocation has room.

    Raises:
        BackendError: The allocation has another size than the run.
    """
    placements = launch.config.placement
    if len(addresses) != len(placements) or task_count < len(launch.ranks):
        raise BackendError(
            f"{scheduler} allocated {len(addresses)} nodes with room for {task_count} processes; "
            f"the run needs {len(placements)} nodes and {len(launch.ranks)} processes.",
            "Remove extra options that change the number of nodes or tasks.",
        )
    allocated_placements = tuple(
        replace(placement, node=name) for placement, name in zip(placements, addresses)
    )
    config = replace(launch.config, placement=allocated_placements)
    networks = launch.launcher.networks
    if not networks:
        networks = networks_of(addresses.values())
    return replace(
        launch,
        config=config,
        ranks=rank_plans(config, addresses),
        launcher=replace(launch.launcher, networks=networks),
    )
