"""Many nodes and jobs that train, as files: what agents, rank 0 and the guards write, they write.

``python -m tests.fakes.busy_cluster ROOT --nodes 64 --jobs 20 --ended 300``, in the environment of
a `FakeDriver`; it prints a line when everything is there and ends when its standard input does.
Readings come from the real `Agent` over the real NVML binding, status and history from the real
`Reporter`; only the steps themselves are made up. The number of files stays the same: a job that
ends is followed by another and the oldest one goes to the trash; each node has a day of history
from the beginning, which is as much as a window shows.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from dataclasses import dataclass, field, replace
from pathlib import Path

from backend.datastore.access.root_access import OpenJob, OpenRoot
from backend.datastore.jobs.files import create_job, move_to_trash
from backend.datastore.nodes import files as node_files
from backend.node.agent.agent import Agent
from backend.node.metrics.history_writer import EVERY_S
from backend.node.system import process_identity
from backend.records.base.atomic_files import read_json, replace_json
from backend.records.base.layout import (
    CHECKPOINT_SUFFIX,
    SIDECAR_SUFFIX,
    checkpoint_name,
    run_tag,
)
from backend.records.jobs.checkpoint import Checkpoint
from backend.records.jobs.config import CheckpointPolicy, JobConfig, Optimizer
from backend.records.jobs.placement import Placement
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RunExit, RunStatus
from backend.records.library.item import Pin
from backend.records.nodes.entry import NodeAddress, NodeEntry, NodeInfo, NodeInstallation
from backend.records.nodes.history import names_line, past_line, uuids_of
from backend.records.nodes.reading import NodeReading
from backend.training.reporter import Reporter, Step
from tests.fakes.mounted_root import mounted
from tests.fakes.nvml.driver import FakeDriver

GPUS = 8
INTERVAL_S = 2.0
STEP_S = 0.1
EPOCHS = 12
KEPT_CHECKPOINTS = 4
_ENDED_JOB_STEPS = 2 * EPOCHS
UNHEALTHY_EVERY = 16
_DAY_S = 86_400.0
_HEALTHY_READINGS = (("reasons", "0"), ("ecc", "0 0 0 0"), ("temperature", "40"))
_NAMES = ("retinanet-r50", "unet-cells", "mlp-digits", "vit-small · ключ 検査", "lstm-weather")


@dataclass
class Training:
    """One job under way, as its rank 0 and its guards would write it."""

    folder: OpenJob
    config: JobConfig
    steps: int
    reporter: Reporter = field(init=False)
    process: subprocess.Popen[bytes] = field(init=False)
    step: int = 0

    def __post_init__(self) -> None:
        attempt = self.folder.attempt(1)
        attempt.path.mkdir(parents=True)
        replace_json(attempt.supervisor, process_identity.own_process().to_dict())
        tag = run_tag(self.folder.job_id, 1)
        # What the driver says of the job's GPUs is recognized by this process's environment.
        self.process = subprocess.Popen(
            ["sleep", "infinity"], env={"PATH": os.environ["PATH"], "RINGMASTER_RUN": tag}
        )
        size = self.config.world_size
        self.reporter = Reporter(
            self.folder,
            run=1,
            epochs=EPOCHS,
            world_size=size,
            global_batch=self.config.global_batch_size,
        )
        self.reporter.plan(
            step=0, epoch=1, total_steps=self.steps, steps_per_epoch=self.steps_per_epoch
        )
        self.reporter.set_state(JobState.TRAINING)

    @property
    def steps_per_epoch(self) -> int:
        return self.steps // EPOCHS

    @property
    def is_over(self) -> bool:
        return self.step >= self.steps

    def make_step(self) -> None:
        self.step += 1
        epoch, epoch_step = divmod(self.step - 1, self.steps_per_epoch)
        noise = random.random()
        metrics = {
            "loss": 2 * math.exp(-self.step / self.steps * 3) + 0.1 * noise,
            "accuracy": 1 - math.exp(-self.step / self.steps * 3) * (0.8 + 0.2 * noise),
            "lr": 0.1 * (1 - self.step / self.steps),
        }
        ends_epoch = epoch_step + 1 == self.steps_per_epoch
        if ends_epoch:
            metrics["validation/loss"] = metrics["loss"] * 1.1
            metrics["validation/accuracy"] = metrics["accuracy"] * 0.97
        times = [95.0 + 10 * random.random() for _ in range(self.config.world_size)]
        self.reporter.add_step(Step(self.step, epoch + 1, epoch_step + 1, metrics, STEP_S, times))
        if ends_epoch:
            self._save(epoch + 1, metrics)

    def write_logs(self) -> None:
        for rank in range(self.config.world_size):
            with self.folder.rank_log(rank).open("a", encoding="utf-8") as log:
                log.write(f"rank {rank} epoch {self.step // self.steps_per_epoch + 1} "
                          f"step {self.step} loss {random.random():.4f}\n")  # fmt: skip

    def end(self) -> None:
        """As the supervisor does it."""
        self.close()
        status = RunStatus.from_dict(read_json(self.folder.status))
        replace_json(
            self.folder.attempt(1).exit, RunExit(1, JobState.FINISHED, "Finished.").to_dict()
        )
        replace_json(self.folder.status, replace(status, state=JobState.FINISHED).to_dict())

    def close(self) -> None:
        self.reporter.close()
        self.process.kill()
        self.process.wait()

    def _save(self, epoch: int, metrics: dict[str, float]) -> None:
        name = checkpoint_name(epoch, self.step)
        path = self.folder.checkpoints / f"{name}{CHECKPOINT_SUFFIX}"
        path.write_bytes(bytes(1000))
        record = Checkpoint(
            name, 1, epoch, self.step, 0, 1000, "0" * 64, "0" * 64, "2026-11-21T07:00:00Z", metrics
        )
        replace_json(path.with_suffix(SIDECAR_SUFFIX), record.to_dict())
        replace_json(self.folder.latest, {"name": name})
        for old_checkpoint in sorted(self.folder.checkpoints.glob(f"*{CHECKPOINT_SUFFIX}"))[
            :-KEPT_CHECKPOINTS
        ]:
            old_checkpoint.unlink()
            old_checkpoint.with_suffix(SIDECAR_SUFFIX).unlink()


class BusyCluster:
    """The whole of it. The last node is one that swallows what is sent to it.

    Args:
        life_s: How long a job trains. When the cluster begins its jobs are of all ages, so that
            they end one by one.
        ended: Jobs that were over before: a program that remembers the last few has them at once.
    """

    def __init__(
        self,
        root: OpenRoot,
        driver: FakeDriver,
        nodes: int,
        jobs: int,
        life_s: float,
        ended_count: int,
    ) -> None:
        self._root = root
        self._driver = driver
        self._names = [f"gpu{number:02d}" for number in range(1, nodes + 1)]
        self._life_s = life_s
        self._job_count = 0
        # It is connected to, and never answers.
        self._silent_socket = socket.create_server(("127.0.0.1", 0))
        root.path.mkdir(parents=True, exist_ok=True)
        for name in self._names:
            root.node(name).path.mkdir(parents=True)
            node_files.write_entry(root, self._entry(name))
        self._agents = [Agent(name, root.node(name), root, INTERVAL_S) for name in self._names]
        self._job_nodes = [self._nodes_of(number, jobs) for number in range(jobs)]
        self._ended_jobs: deque[OpenJob] = deque()
        for number in range(ended_count):
            self._train_to_end(number % jobs)
        self._trainings = [self._start_training(number) for number in range(jobs)]
        for number, training in enumerate(self._trainings):
            for _ in range(int(training.steps * number / jobs)):
                training.make_step()
        self._write_day_of_history()

    def work(self, stop_event: threading.Event) -> None:
        """Until ``ends``; a step of each job every tenth of a second, a beat of each node in 2."""
        turns = int(INTERVAL_S / STEP_S)
        next_turn = time.monotonic()
        turn = 0
        while not stop_event.is_set():
            for number, training in enumerate(self._trainings):
                training.make_step()
                if training.is_over:
                    self._end_training(training)
                    move_to_trash(self._root, self._ended_jobs.popleft())
                    self._trainings[number] = self._start_training(number)
                elif turn % turns == number % turns:
                    training.write_logs()
            for number in range(turn % turns, len(self._agents), turns):
                self._beat(number, is_silent=number == len(self._agents) - 1 and turn > turns)
            turn += 1
            next_turn += STEP_S
            time.sleep(max(0.0, next_turn - time.monotonic()))

    def close(self) -> None:
        for training in self._trainings:
            training.close()
        self._silent_socket.close()

    def _beat(self, number: int, *, is_silent: bool) -> None:
        if is_silent:
            return
        lines = [f"gpus {GPUS}"]
        if number % UNHEALTHY_EVERY:
            lines += [
                f"{word} {gpu} {well}" for gpu in range(GPUS) for word, well in _HEALTHY_READINGS
            ]
        for training, nodes in zip(self._trainings, self._job_nodes, strict=True):
            if self._names[number] in nodes:
                for gpu in range(GPUS):
                    lines += [
                        f"use {gpu} {random.randrange(80, 100)}",
                        f"temperature {gpu} {random.randrange(55, 80)}",
                        f"memory {gpu} {random.randrange(20_000, 24_000)}",
                        f"process {gpu} {training.process.pid} 20000",
                    ]
        self._driver.describe(*lines)
        self._agents[number].beat()

    def _nodes_of(self, number: int, jobs: int) -> list[str]:
        return self._names[number::jobs]

    def _train_to_end(self, number: int) -> None:
        training = self._start_training(number, steps=_ENDED_JOB_STEPS)
        while not training.is_over:
            training.make_step()
        self._end_training(training)

    def _end_training(self, training: Training) -> None:
        training.end()
        self._ended_jobs.append(training.folder)

    def _write_day_of_history(self) -> None:
        """Write the history that agents would have kept since yesterday."""
        self._beat(0, is_silent=False)
        first = self._root.node(self._names[0])
        reading = NodeReading.from_dict(read_json(first.status))
        now_s = time.time()
        times = (now_s - age_s for age_s in range(int(_DAY_S), 0, -int(EVERY_S)))
        text = b"".join(past_line(reading, at_s, {}) for at_s in times)
        for name in self._names:
            self._root.node(name).history.write_bytes(names_line(uuids_of(reading)) + text)

    def _start_training(self, number: int, steps: int | None = None) -> Training:
        self._job_count += 1
        config = JobConfig(
            name=f"{_NAMES[number % len(_NAMES)]} {self._job_count}",
            model="mlp",
            dataset="digits",
            loader="digits",
            epochs=EPOCHS,
            batch_size=32,
            optimizer=Optimizer("sgd", 0.1),
            placement=tuple(
                Placement(name, gpus=tuple(f"GPU-{name}-{gpu}" for gpu in range(GPUS)))
                for name in self._job_nodes[number]
            ),
            checkpoint=CheckpointPolicy(best_metric="validation/accuracy", best_mode="max"),
        )
        pins = {kind: Pin("digits", 1, "0" * 64) for kind in ("model", "dataset", "loader")}
        folder = self._root.job(create_job(self._root, config, pins).id)
        default_steps = int(self._life_s / STEP_S) // EPOCHS * EPOCHS
        return Training(folder, config, steps or default_steps)

    def _entry(self, name: str) -> NodeEntry:
        host, port = self._silent_socket.getsockname()
        info = NodeInfo(
            name, "Debian 12", "x86_64", "6.1", "mai", "/home/mai/.ringmaster",
            data_root=str(self._root.path), data_root_writable=True, gpus=("H100",) * GPUS,
        )  # fmt: skip
        installation = NodeInstallation(
            "/e/bin/python", "/e/bin/mpirun", "5.0.11", "e1", "/b", "/c", bytes=10**9
        )
        return NodeEntry(name, NodeAddress(host, port, "nobody"), info, installation)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fakes.busy_cluster")
    parser.add_argument("root", type=Path)
    parser.add_argument("--nodes", type=int, default=64)
    parser.add_argument("--jobs", type=int, default=20)
    parser.add_argument("--life", type=float, default=600.0, help="seconds that a job trains")
    parser.add_argument("--ended", type=int, default=0, help="jobs that were over before")
    options = parser.parse_args()
    driver = FakeDriver(Path(), Path(os.environ["FAKE_NVML_STATE"]))
    cluster = BusyCluster(
        mounted(options.root), driver, options.nodes, options.jobs, options.life, options.ended
    )
    stop_event = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), stop_event.set()), daemon=True).start()
    sys.stdout.write("there\n")
    sys.stdout.flush()
    try:
        cluster.work(stop_event)
    finally:
        cluster.close()


if __name__ == "__main__":
    main()
