"""Under mpirun: one job, stopped at a random moment and resumed, again and again, by real ranks.

A run of its own for each stop would spend nine tenths of its time on importing torch; here the
ranks stay and the runs change, each with the training loop, the reporter, the checkpoints and the
watcher of the lock as they are.
"""

from __future__ import annotations

import random
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from backend.datastore.access.root_access import OpenJob
from backend.datastore.jobs import files as job_files
from backend.datastore.jobs.checkpoint_files import list_checkpoints, verify
from backend.node.run import run_start
from backend.records.base.atomic_files import read_json, replace_json
from backend.records.jobs.config import StrategyConfig
from backend.records.jobs.heartbeat import RankHeartbeat
from backend.records.jobs.launch import Launch
from backend.training.checkpoint import Checkpointer
from backend.training.loop import Trainer
from backend.training.reporter import Reporter
from backend.training.stop_watcher import StopWatcher
from backend.training.strategies.allreduce import AllReduce
from backend.training.train_state import Outcome, Rank0Services
from tests.fakes.mounted_root import MOUNTED

LONGEST_S = 0.25


def main() -> None:
    folder, stops = OpenJob(Path(sys.argv[1]), MOUNTED), int(sys.argv[2])
    torch.set_num_threads(1)
    launch = Launch.from_dict(read_json(folder.launch))
    moments = random.Random(25)
    runs: list[dict[str, Any]] = []
    for run in range(1, stops + 1):
        strategy = AllReduce(StrategyConfig())
        strategy.load()
        strategy.join(60)
        newest_path = _newest(folder, launch) if strategy.rank == 0 else ""
        run_launch = replace(launch, run=run, resume_from=strategy.gather(newest_path)[0])
        rank0_services = _open_rank0_services(run_launch, folder) if strategy.rank == 0 else None
        delay_s = moments.uniform(0, LONGEST_S)
        timer = threading.Timer(delay_s, job_files.request_stop, (folder, run))
        if rank0_services is not None:
            run_start.clear_old_stop_request(folder, run, MOUNTED)
            timer.start()
        trainer = Trainer(
            run_launch, strategy, torch.device("cpu"), RankHeartbeat.inherited(), rank0_services
        )
        outcome = trainer.run()
        steps = strategy.gather((trainer.train_state.epoch, trainer.train_state.step, outcome.name))
        if rank0_services is not None:
            timer.join()
            rank0_services.watcher.close()
            rank0_services.reporter.close()
            record = list_checkpoints(folder, launch.config.checkpoint)[-1]
            verify(MOUNTED, record)
            state = torch.load(record.path, weights_only=True)
            runs.append(
                {
                    "ranks": [list(step) for step in steps],
                    "checkpoint": [record.step, state["course"]["step"]],
                    "reason": record.reason,
                }
            )
        if outcome is not Outcome.INTERRUPTED:
            break
    if strategy.rank == 0:
        replace_json(folder.path / "seen.json", {"runs": runs})
    strategy.leave()


def _newest(folder: OpenJob, launch: Launch) -> str:
    checkpoints = list_checkpoints(folder, launch.config.checkpoint)
    return checkpoints[-1].path if checkpoints else ""


def _open_rank0_services(launch: Launch, folder: OpenJob) -> Rank0Services:
    config = launch.config
    reporter = Reporter(
        folder,
        run=launch.run,
        epochs=config.epochs,
        world_size=config.world_size,
        global_batch=config.global_batch_size,
    )
    return Rank0Services(
        reporter,
        Checkpointer(folder, launch.run, config.checkpoint, config.sha256()),
        StopWatcher(folder.stop_request, launch.run, reporter.set_stopping),
    )


if __name__ == "__main__":
    main()
