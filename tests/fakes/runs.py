"""Real runs on this computer: a job folder as the desktop makes it, a supervisor, real mpirun."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from backend.datastore.access.root_access import OpenJob
from backend.launch import placement
from backend.node.system import process_cleanup, process_identity, temp_dirs
from backend.node.system.start_supervisor import CODE_ROOT, start_supervisor
from backend.records.base.atomic_files import read_json, replace_json
from backend.records.base.layout import run_tag
from backend.records.jobs.job_file import parse_job
from backend.records.jobs.launch import Launch, RankLauncher, rank_plans
from backend.records.jobs.state import JobState
from backend.records.jobs.status import ProcessIdentity, RankExit, RunExit, RunStatus
from tests.fakes.mounted_root import MOUNTED
from tests.waiting import LIMIT_S, wait_for

FAKES = Path(__file__).parent
MPIRUN = str(Path(sys.executable).with_name("mpirun"))

MODEL = """
import ctypes

def crash():
    ctypes.string_at(0)

def loop():
    while True:
        pass
"""
LOADER = """
import multiprocessing

def next_batch():
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    worker = context.Process(target=work, args=(queue,), daemon=True)
    worker.start()
    queue.get()

def work(queue):
    lock = multiprocessing.Lock()
    lock.acquire()
    lock.acquire()
    queue.put(1)
"""


def saved_message(checkpoint: str) -> str:
    """The sentence of a stop that saved this checkpoint."""
    epoch, step = (int(part) for part in re.findall(r"\d+", checkpoint))
    return f"Saved at epoch {epoch}, step {step:,}."


class Run:
    """One run of a job in ``root``; `start` does what the service does."""

    def __init__(
        self,
        root: Path,
        behaviours: Mapping[int, str] | None = None,
        *,
        ranks: int = 2,
        run: int = 1,
        job_id: str = "",
        steps: int = 20,
        mpi: bool = False,
        grace_s: float = 30.0,
        strategy: str = "allreduce",
        mpirun_path: str = MPIRUN,
        module: str = "fake_rank",
        model: str = MODEL,
        loader: str = LOADER,
        **job: Any,
    ) -> None:
        # Unlike any other's: the sweep ends whatever here carries the run's tag.
        self.folder = OpenJob(root / "jobs" / (job_id or f"test-{secrets.token_hex(6)}"), MOUNTED)
        self.run = run
        self.attempt = self.folder.attempt(run)
        for path in (self.folder.logs, self.folder.output, self.attempt.path):
            path.mkdir(parents=True, exist_ok=True)
        for name, text in (("bks_model", model), ("bks_dataset", loader)):
            (root / name).mkdir(exist_ok=True)
            (root / name / f"{name}.py").write_text(text)
        raw = {
            "name": "job",
            "model": "m",
            "dataset": "d",
            "loader": "l",
            "epochs": 1,
            "batch_size": 1,
            "optimizer": {"name": "sgd", "lr": 0.1},
            "strategy": {"name": strategy},
            "placement": [{"node": "this-computer", "processes": ranks}],
            "environment": {
                "FAKE": json.dumps(
                    {str(rank): behaviour for rank, behaviour in (behaviours or {}).items()}
                ),
                "FAKE_STEPS": str(steps),
                **({"FAKE_MPI": "1"} if mpi else {}),
            },
            **job,
        }
        config = parse_job(raw).config
        assert config is not None, parse_job(raw).errors
        gpus = tuple(gpu for node_placement in config.placement for gpu in node_placement.gpus)
        cores = os.cpu_count() or 1
        placement.require_capacity(config, [placement.this_computer(cores, gpus)])
        self.launch = Launch(
            job_id=self.folder.job_id,
            run=run,
            config=config,
            ranks=rank_plans(config, {"this-computer": "127.0.0.1"}),
            model_source=str(root / "bks_model"),
            loader_source=str(root / "bks_dataset"),
            dataset_files=str(root / "dataset"),
            python=sys.executable,
            job_folder=str(self.folder.path),
            code_root=f"{CODE_ROOT}:{FAKES}",
            launcher=RankLauncher(mpirun_path, is_crowded=ranks > cores),
            rank_module=module,
            grace_s=grace_s,
        )
        replace_json(self.folder.launch, self.launch.to_dict())
        replace_json(self.folder.status, RunStatus(JobState.STARTING, run=run).to_dict())

    def run_guards_with(self, script: str) -> None:
        """Start each guard by a shell script, whose arguments begin with ``-m MODULE``."""
        python = self.folder.path / "python"
        python.write_text(f"#!/bin/sh\n{script}\n")
        python.chmod(0o755)
        self.launch = replace(self.launch, python=str(python))
        replace_json(self.folder.launch, self.launch.to_dict())

    def start(self, **limits: float) -> Run:
        """``limits`` are other ones than a user would wait for, as in `supervise_here`."""
        if limits:
            self.supervise_here("--detach", **limits)
        else:
            start_supervisor(self.folder, self.launch)
        return self

    def supervise_here(self, *options: str, **limits: float) -> None:
        """Run the supervisor as a child and with other limits than a user would wait for."""
        code = (
            "import sys, backend.node.metrics.gpus as gpus, backend.node.run.supervisor as s\n"
            "gpus._LIMIT_S = {}; vars(s).update({}); s.main(sys.argv[1:])"
        )
        arguments = ["--job", str(self.folder.path), "--run", str(self.run), *options]
        subprocess.run(
            [sys.executable, "-c", code.format(LIMIT_S, limits), *arguments],
            env={**os.environ, "PYTHONPATH": str(CODE_ROOT)},
            check=True,
            timeout=LIMIT_S,
        )

    def stop(self) -> None:
        self.folder.stop_request.touch()

    @property
    def status(self) -> RunStatus:
        return RunStatus.from_dict(read_json(self.folder.status))

    @property
    def supervisor(self) -> ProcessIdentity:
        wait_for(self.attempt.supervisor.exists, "the supervisor's record")
        return ProcessIdentity.from_dict(read_json(self.attempt.supervisor))

    def end(self) -> RunExit:
        """How the run ended; its final status is written and its supervisor gone as well."""
        wait_for(self.attempt.exit.exists, "exit.json")
        wait_for(lambda: not process_identity.is_alive(self.supervisor), "the supervisor's end")
        record = RunExit.from_dict(read_json(self.attempt.exit))
        assert self.status.state is record.state
        assert self.leftovers() == ()
        assert not self.shared_memory.exists()
        assert not self.session.exists()
        return record

    @property
    def shared_memory(self) -> Path:
        return temp_dirs.shared_memory_folder(run_tag(self.folder.job_id, self.run))

    @property
    def session(self) -> Path:
        return temp_dirs.session_folder(run_tag(self.folder.job_id, self.run))

    def checkpoints(self) -> list[str]:
        return sorted(path.stem for path in self.folder.checkpoints.glob("*.pt"))

    def rank_exit(self, rank: int) -> RankExit:
        return RankExit.from_dict(read_json(self.attempt.rank_exit(rank)))

    def wait_until_training(self, step: int = 2) -> None:
        wait_for(lambda: self.status.step >= step, "the first steps")

    def log(self, rank: int) -> str:
        return self.folder.rank_log(rank).read_text(errors="replace")

    def processes(self) -> tuple[ProcessIdentity, ...]:
        return process_cleanup.tagged(run_tag(self.folder.job_id, self.run))

    def leftovers(self) -> tuple[ProcessIdentity, ...]:
        """Processes of the run here, by its tag or by its folder on their command line."""
        folder_path = str(self.folder.path)
        by_folder = (
            process_identity.process(int(name))
            for name in os.listdir("/proc")
            if name.isdecimal() and folder_path in command_line(int(name))
        )
        return (*self.processes(), *(process for process in by_folder if process is not None))

    def find(self, part: str, rank: int | None = None) -> ProcessIdentity:
        """The process of this run with ``part`` on its command line, of one rank if given."""

        def search() -> ProcessIdentity | None:
            for process in self.leftovers():
                if part in command_line(process.pid) and (
                    rank is None or _rank(process.pid) == rank
                ):
                    return process
            return None

        process = wait_for(search, f"a process with {part}")
        assert isinstance(process, ProcessIdentity)
        return process

    def kill(self, part: str, rank: int | None = None) -> None:
        assert process_identity.send_signal(self.find(part, rank), signal.SIGKILL)

    def clean(self) -> None:
        """End whatever a failed test left."""
        if self.attempt.supervisor.exists():
            process_identity.send_signal(self.supervisor, signal.SIGKILL)
        process_cleanup.end(self.leftovers, 0.5)
        temp_dirs.remove(run_tag(self.folder.job_id, self.run))
        shutil.rmtree(self.folder.path, ignore_errors=True)


def command_line(pid: int) -> str:
    """Its words with a blank after each; "" for a process that has ended."""
    try:
        return os.fsdecode(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" "))
    except OSError:
        return ""


def _rank(pid: int) -> int | None:
    try:
        entries = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    name = b"OMPI_COMM_WORLD_RANK="
    return next((int(e[len(name) :]) for e in entries if e.startswith(name)), None)
