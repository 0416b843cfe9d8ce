"""Stands in for `backend.training.rank`: beats, writes what rank 0 writes, and fails on demand.

Standard library only, so that a run with two ranks takes less than a second. What each rank does
comes from the job's environment variable ``FAKE`` (``{"1": "segfault"}``; others train).
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from backend.records.base.atomic_files import read_json, replace_json
from backend.records.base.layout import JobFolder
from backend.records.jobs.heartbeat import Phase, RankHeartbeat
from backend.records.jobs.launch import Launch
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RunStatus

parser = argparse.ArgumentParser()
parser.add_argument("--job", type=Path)
parser.add_argument("--run", type=int)
options = parser.parse_args()
folder = JobFolder(options.job)
attempt = folder.attempt(options.run)
launch = Launch.from_dict(read_json(folder.launch))
rank = int(os.environ.get("OMPI_COMM_WORLD_RANK", "0"))
size = len(launch.ranks)
behaviour = json.loads(os.environ.get("FAKE", "{}")).get(str(rank), "train")
steps = int(os.environ.get("FAKE_STEPS", "20"))
beat = RankHeartbeat.inherited()
heartbeat = 0


def status(state: JobState, step: int) -> None:
    global heartbeat
    heartbeat += 1
    if rank == 0:
        run_status = RunStatus(
            state,
            run=options.run,
            epoch=1,
            epochs=1,
            step=step,
            total_steps=steps,
            world_size=size,
            metrics={"loss": 0.5},
            heartbeat=heartbeat,
        )
        replace_json(folder.status, run_status.to_dict())


def save(step: int) -> None:
    if rank == 0:
        beat.beat(Phase.SAVING)
        folder.checkpoints.mkdir(exist_ok=True)
        name = f"epoch-0001-step-{step:06d}"
        replace_json(folder.checkpoints / f"{name}.json", {"name": name, "run": options.run})
        replace_json(folder.latest, {"name": name})


def wait_for_ranks(word: str) -> None:
    """Wait for all ranks, as the collectives of a real training do."""
    (attempt.path / f"fake-{word}-{rank}").touch()
    beat.beat(Phase.WAITING_FOR_OTHERS)
    while not all(
        (attempt.path / f"fake-{word}-{other_rank}").exists() for other_rank in range(size)
    ):
        time.sleep(0.01)


def train() -> None:
    for step in range(1, steps + 1):
        beat.beat(Phase.LOADING_DATA)
        misbehave("loader")
        beat.beat(Phase.COMPUTING)
        time.sleep(0.01)
        if step == 1:
            misbehave("model")
        status(JobState.TRAINING, step)
        if folder.stop_request.exists():
            wait_for_ranks("stop")
            save(step)
            beat.beat(Phase.INTERRUPTED)
            sys.exit()
    wait_for_ranks("end")
    save(steps)
    beat.beat(Phase.FINISHED)


def misbehave(phase: str) -> None:
    if phase == "loader" and behaviour == "worker":
        import bks_dataset

        bks_dataset.next_batch()
    if phase != "model":
        return
    if behaviour == "raise":
        error = {"sentence": "loss() got a tensor of the wrong shape (3).", "traceback": "Trace"}
        replace_json(attempt.rank_error(rank), error)
        sys.exit(1)
    if behaviour == "echo":  # what Horovod reports to the others when one of them is gone
        wait_for_ranks("echo")
        error = {"sentence": "Horovod has been shut down.", "secondary": True}
        replace_json(attempt.rank_error(rank), error)
        sys.exit(1)
    if behaviour == "raise-after-echo":
        error = {"sentence": "ValueError: the cause.", "traceback": "Trace"}
        # Before the other one ends: mpirun may then end this one at any moment.
        replace_json(attempt.rank_error(rank), error)
        wait_for_ranks("echo")
        while not attempt.rank_exit(0).exists():
            time.sleep(0.01)
        os._exit(1)
    if behaviour == "traceback":
        raise KeyError("colour")
    if behaviour == "exit0":
        sys.exit(0)
    if behaviour == "exit7":
        os._exit(7)
    if behaviour == "segfault":
        import bks_model

        bks_model.crash()
    if behaviour == "loop":
        import bks_model

        bks_model.loop()
    if behaviour == "wait":
        status(JobState.TRAINING, 1)
        beat.beat(Phase.WAITING_FOR_OTHERS)
        while True:
            time.sleep(600)
    if behaviour == "setsid":
        for variables in ({**os.environ}, {"PATH": os.environ["PATH"]}):
            subprocess.Popen(["sleep", "987654"], start_new_session=True, env=variables)


def main() -> None:
    for source in (launch.model_source, launch.loader_source):
        sys.path.insert(0, source)
    beat.beat(Phase.SETUP)
    if behaviour == "early":
        sys.exit(3)
    status(JobState.SETUP, 0)
    if os.environ.get("FAKE_MPI"):
        library = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
        assert library.MPI_Init(None, None) == 0
    if behaviour == "slow":
        time.sleep(7)
    if behaviour == "setup":
        while True:
            beat.beat(Phase.SETUP)
            time.sleep(0.05)
    train()
    if os.environ.get("FAKE_MPI"):
        library.MPI_Finalize()


if __name__ == "__main__":
    main()
