"""The command of a job, pasted into a shell, trains; and costs the job nothing."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from backend.datastore.access.root_access import OpenJob
from backend.datastore.jobs.checkpoint_files import list_checkpoints, verify
from backend.node.system import mpi
from backend.records.base.atomic_files import read_json, replace_json
from backend.records.jobs.state import JobState
from backend.services.context.container import Services
from tests.fakes.mounted_root import MOUNTED
from tests.integration.conftest import has_supervisor
from tests.integration.tiny import ALONE, raw_job
from tests.waiting import LIMIT_S, wait_for


def contents(folder: Path) -> dict[Path, bytes]:
    files = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {path: (folder / path).read_bytes() for path in files if path.parts[0] != "by-hand"}


def run_pasted(line: str) -> subprocess.CompletedProcess[str]:
    """As in a shell of the user's, who may be root here."""
    return subprocess.run(
        ["/bin/sh", "-c", line],
        env=mpi.environment(os.environ),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def test_m04_the_shown_command_trains_again_and_leaves_the_job_unchanged(
    services: Services,
) -> None:
    job = services.jobs.create_and_start(raw_job(1, **ALONE))
    view = services.jobs.queries.wait(job.id)
    assert view.state is JobState.FINISHED
    folder = services.data_root.job(job.id)
    wait_for(lambda: not has_supervisor(folder, view.run), "the end of the supervisor")
    previous_contents = contents(folder.path)

    command = services.jobs.command(job.id)
    assert (command.node, Path(command.folder).parent) == ("this-computer", folder.path / "by-hand")
    completed = run_pasted(command.line)
    assert completed.returncode == 0, completed.stderr
    assert f"Training in {command.folder}" in completed.stdout + completed.stderr
    hand_job = OpenJob(Path(command.folder), MOUNTED)
    saved_checkpoints = list_checkpoints(hand_job, job.config.checkpoint)
    verify(MOUNTED, next(checkpoint for checkpoint in saved_checkpoints if checkpoint.is_latest))
    assert read_json(hand_job.status)["step"] == read_json(folder.status)["step"]
    # No sweep after a run of the job would end it.
    assert read_json(hand_job.launch)["job_id"] == f"{job.id}-{hand_job.path.name}"
    assert contents(folder.path) == previous_contents
    assert services.jobs.queries.show(job.id).state is JobState.FINISHED
    assert [view.id for view in services.jobs.queries.list()] == [job.id]

    hand_contents = contents(hand_job.path)
    second_run = run_pasted(command.line)
    assert second_run.returncode != 0
    assert (
        f"{command.folder} holds the results of an earlier run of this command"
        in second_run.stdout + second_run.stderr
    )
    assert contents(hand_job.path) == hand_contents


def test_a_command_of_an_earlier_run_says_that_it_is_old(services: Services) -> None:
    job = services.jobs.create_and_start(raw_job(1, epochs=1, **ALONE))
    services.jobs.lifecycle.stop(job.id)
    services.jobs.queries.wait(job.id)
    command = services.jobs.command(job.id)
    launch = services.data_root.job(job.id).launch
    replace_json(launch, {**read_json(launch), "run": 2})
    completed = run_pasted(command.line)
    assert completed.returncode == 1
    assert (
        "The job started run 2 after this command was copied. Copy the command again."
        in completed.stderr
    )


def test_a_command_before_the_first_start_is_said_to_be_for_later(services: Services) -> None:
    job = services.jobs.create(raw_job())
    command = services.jobs.command(job.id)
    assert f"--job {services.data_root.job(job.id).path} --run 1" in command.line
    assert (command.node, command.folder) == ("", "")
