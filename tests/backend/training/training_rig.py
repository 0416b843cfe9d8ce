"""Real trainings for tests: a job folder as the desktop makes it, and ranks under a real mpirun."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from backend.base.rendezvous_point import RendezvousPoint
from backend.records.base.atomic_files import read_json, replace_json
from backend.records.base.layout import DataRoot, JobFolder
from backend.records.jobs.config import JobConfig
from backend.records.jobs.job_file import parse_job
from backend.records.jobs.launch import Launch, RankPlan
from tests.waiting import wait_for

ROOT = Path(__file__).parents[3]
MPIRUN = Path(sys.executable).with_name("mpirun")

MODEL = """
import torch
from torch import nn

class UserModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 3)
        )
    def forward(self, x):
        return self.layers(x)
    def loss(self, output, target):
        return nn.functional.cross_entropy(output, target)
    def metrics(self, output, target):
        return {"accuracy": (output.argmax(1) == target).float().mean().item()}
"""


def pausing_model(
    model: str, condition: str = "self.steps > 4", statement: str = "return self.layers(x)"
) -> str:
    """Return a model that waits, at a certain step, until its job has a stop request.

    The model waits only in runs with `Training.pause_environment`, so that a stop comes at the
    intended step, and at once.

    Args:
        condition: An expression of ``self.steps``, the number of its steps, ``self.judged``,
            whether it was in a validation since, and ``self.training``.
        statement: The statement of the model before which it waits.
    """
    return model.replace(
        statement,
        "import os, time\n"
        "        # The thread that writes it may come after the first steps.\n"
        "        content = lambda path: open(path).read() if os.path.exists(path) else ''\n"
        "        self.steps = getattr(self, 'steps', 0) + self.training\n"
        "        self.judged = getattr(self, 'judged', 0) or self.steps and not self.training\n"
        f"        status = {condition} and os.environ.get('STATUS')\n"
        "        while status and 'STOPPING' not in content(status):\n"
        "            time.sleep(0.01)\n"
        "        time.sleep(0.3 if status else 0)\n"
        f"        {statement}",
    )


LOADER = """
import torch
from torch.utils.data import Dataset

class UserDataset(Dataset):
    COUNT, SEED = 96, 1
    def __init__(self, path):
        generator = torch.Generator().manual_seed(self.SEED)
        self.x = torch.randn(self.COUNT, 4, generator=generator)
        self.y = (self.x.sum(1) > 0).long() + (self.x[:, 0] > 1).long()
    def __len__(self):
        return self.COUNT
    def __getitem__(self, index):
        return self.x[index], self.y[index]

class UserValDataset(UserDataset):
    COUNT, SEED = 37, 2
"""


def job(**settings: Any) -> dict[str, Any]:
    """Return the content of a job file with small settings, updated by ``settings``."""
    processes = settings.pop("processes", 2)
    raw: dict[str, Any] = {
        "name": "test",
        "model": "model",
        "dataset": "dataset",
        "loader": "loader",
        "epochs": 3,
        "batch_size": 8,
        "optimizer": {"name": "sgd", "lr": 0.05, "momentum": 0.9},
        "placement": [{"node": "here", "processes": processes}],
    }
    raw.update(settings)
    return raw


_PRELOADED = Path(__file__).with_name("preloaded.py")


@cache
def _server(strategy: str = "") -> str:
    """Start the process that forks ranks of a strategy, once in a session; return its address."""
    folder = tempfile.mkdtemp(prefix="ranks-")
    address = f"{folder}/socket"
    # It ends when its input does, so at the latest with this process.
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.backend.training.preloaded", "--serve", address, strategy],
        cwd=ROOT,
        stdin=subprocess.PIPE,
    )

    def end() -> None:
        server.communicate()
        shutil.rmtree(folder)

    atexit.register(end)
    wait_for(lambda: Path(address).exists(), "the process that forks ranks")
    return address


@dataclass
class Training:
    """Job of a test, with its files and runs."""

    root: DataRoot
    folder: JobFolder
    config: JobConfig
    sources: Path
    nodes: tuple[str, ...] = ("here",)
    """Nodes of the ranks, in turn, for the job; all ranks are processes of this computer."""
    run: int = 0
    is_forked: bool = True
    """Whether its ranks are forked from a process that has torch, and not started by itself."""

    def prepare(self, resume_from: str = "", start_from: str = "") -> None:
        self.run += 1
        self.folder.attempt(self.run).path.mkdir(parents=True)
        self.folder.stop_request.unlink(missing_ok=True)
        ranks = tuple(
            RankPlan(n, n, self.nodes[n % len(self.nodes)], "localhost")
            for n in range(self.config.world_size)
        )
        validation = self.sources / "validation-loader"
        launch = Launch(
            job_id=self.folder.job_id,
            run=self.run,
            config=self.config,
            ranks=ranks,
            model_source=str(self.sources / "model"),
            loader_source=str(self.sources / "loader"),
            dataset_files=str(self.sources / "files"),
            validation_loader_source=str(validation) if validation.is_dir() else "",
            resume_from=resume_from,
            start_from=start_from,
        )
        replace_json(self.folder.launch, launch.to_dict())

    def with_config(self, **settings: Any) -> None:
        self.config = parsed(job(**settings))

    def start(self, **environment: str) -> subprocess.Popen[bytes]:
        point = RendezvousPoint("127.0.0.1")
        variables = clean_environment(**point.variables, **environment)
        log = self.folder.path / f"output-{self.run}.log"
        command = [sys.executable, "-m", "backend.training.rank"]
        if self.is_forked:
            strategy = self.config.strategy.name
            # What FSDP imports is what no other rank may need.
            server = _server(strategy if strategy == "fsdp" else "")
            command = [sys.executable, "-I", "-S", str(_PRELOADED), server]
        command += ["--job", str(self.folder.path), "--run", str(self.run)]
        if self.config.strategy.name != "alone":
            command = [*mpirun(self.config.world_size), *command]
        with log.open("wb") as file:
            process = subprocess.Popen(command, cwd=ROOT, env=variables, stdout=file, stderr=file)
        weakref.finalize(process, point.release)
        return process

    def train(
        self,
        *,
        resume_from: str = "",
        start_from: str = "",
        stop_condition: Callable[[], bool] | None = None,
        **environment: str,
    ) -> int:
        """Make a run to its end; request a stop as soon as ``stop_condition`` is true."""
        self.prepare(resume_from, start_from)
        process = self.start(**environment)
        try:
            if stop_condition is not None:
                wait_for(
                    lambda: process.poll() is not None or stop_condition(),
                    "the moment",
                    hint=self.log,
                )
                self.folder.stop_request.write_text(json.dumps({"run": self.run}))
            return process.wait()
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()

    @property
    def pause_environment(self) -> dict[str, str]:
        """Return the environment in which a `pausing_model` waits."""
        return {"STATUS": str(self.folder.status), "HOROVOD_CYCLE_TIME": "50"}

    def train_well(self, **options: Any) -> None:
        code = self.train(**options)
        assert code == 0, self.log()

    def log(self) -> str:
        return (self.folder.path / f"output-{self.run}.log").read_text(errors="replace")

    def status(self) -> dict[str, Any]:
        return read_json(self.folder.status)

    def step(self) -> int:
        """Return the number of steps so far, by the status; 0 without a status."""
        try:
            return int(self.status()["step"]) if self.status()["run"] == self.run else 0
        except (OSError, ValueError):
            return 0

    def status_is(self, state: str) -> bool:
        try:
            return self.status()["state"] == state and self.status()["run"] == self.run
        except (OSError, ValueError):
            return False

    def error(self, rank: int = 0) -> dict[str, Any]:
        return read_json(self.folder.attempt(self.run).rank_error(rank))

    def first_error(self) -> dict[str, Any]:
        """Return what a rank says of an error that all have: the first to end takes all along."""
        records = sorted(self.folder.attempt(self.run).path.glob("rank-*.error.json"))
        return next(record for record in map(read_json, records) if not record["secondary"])

    def latest(self) -> str:
        return str(self.folder.checkpoints / f"{read_json(self.folder.latest)['name']}.pt")

    def history(self) -> list[dict[str, Any]]:
        with self.folder.history.open("rb") as file:
            return list(tomllib.load(file)["entry"])

    def curve(self, name: str) -> dict[int, float]:
        """Step to value, as a reader sees it: later blocks supersede earlier ones."""
        values: dict[int, float] = {}
        for entry in self.history():
            first = entry["first"]
            values = {step: value for step, value in values.items() if step < first}
            for number, value in enumerate(entry["metrics"].get(name, ())):
                if value == value:
                    values[first + number] = value
        return values


def parsed(raw: dict[str, Any]) -> JobConfig:
    result = parse_job(raw)
    assert result.config is not None, result.errors
    return result.config


def new_training(
    tmp_path: Path, *, model: str = MODEL, loader: str = LOADER, name: str = "job", **settings: Any
) -> Training:
    sources = tmp_path / f"sources-{name}"
    for kind, file, text in (
        ("model", "bks_model.py", model),
        ("loader", "bks_dataset.py", loader),
    ):
        (sources / kind).mkdir(parents=True)
        (sources / kind / file).write_text(text)
    (sources / "files").mkdir()
    root = DataRoot(tmp_path / "data root")
    folder = root.job(name)
    folder.path.mkdir(parents=True)
    return Training(root, folder, parsed(job(**settings)), sources)


def mpirun(processes: int) -> list[str]:
    command = [str(MPIRUN), "--bind-to", "none", "--map-by", "slot:OVERSUBSCRIBE"]
    command += ["--mca", "pml", "ob1", "--mca", "btl", "^openib"]
    # More ranks than cores: without this a reduction waits for a rank that gets no core.
    command += ["--mca", "mpi_yield_when_idle", "1"]
    return [*command, "-np", str(processes)]


def clean_environment(**variables: str) -> dict[str, str]:
    environment = {
        k: v for k, v in os.environ.items() if not k.startswith(("OMPI_", "PMIX_", "PRTE_"))
    }
    environment.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    environment.setdefault("OMP_NUM_THREADS", "1")
    environment.update(PYTHONWARNINGS="default")
    environment.update(variables)
    return environment
