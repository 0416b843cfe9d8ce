"""A stop at any moment: all ranks leave after one step, with a checkpoint that loads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from backend.datastore.jobs.history_reader import read_history
from backend.node.run.launch_command import environment
from backend.node.system.start_supervisor import CODE_ROOT
from backend.records.base.atomic_files import read_json, replace_json
from backend.records.base.layout import JobFolder
from backend.records.jobs.job_file import parse_job
from backend.records.jobs.launch import Launch, rank_plans
from tests.integration.tiny import raw_job, write_sources
from tests.waiting import LIMIT_S

STOPS = 100


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 4])
def test_f25_a_hundred_stops_at_random_moments(tmp_path: Path, ranks: int) -> None:
    model, loader, dataset = write_sources(tmp_path)
    folder = JobFolder(tmp_path / "jobs" / "stops")
    for part in (folder.logs, folder.output, folder.checkpoints, folder.attempts):
        part.mkdir(parents=True)
    config = parse_job(raw_job(ranks, epochs=1_000_000)).config
    assert config is not None
    launch = Launch(
        job_id="stops",
        run=1,
        config=config,
        ranks=rank_plans(config, {"this-computer": "127.0.0.1"}),
        model_source=str(model),
        loader_source=str(loader),
        dataset_files=str(dataset),
        code_root=str(CODE_ROOT),
    )
    replace_json(folder.launch, launch.to_dict())
    with (tmp_path / "output").open("wb") as output:
        subprocess.run(
            [
                str(Path(sys.executable).with_name("mpirun")),
                *("--bind-to", "none", "--mca", "pml", "ob1", "--mca", "mpi_yield_when_idle", "1"),
                *("-np", str(ranks), "-H", f"127.0.0.1:{ranks}"),
                *(sys.executable, "-m", "tests.integration.many_stops"),
                *(str(folder.path), str(STOPS)),
            ],
            env={
                **os.environ,
                **environment(launch),
                "OMPI_ALLOW_RUN_AS_ROOT": "1",
                "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            },
            cwd=CODE_ROOT,
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=4 * LIMIT_S,
            check=False,
        )
    assert (folder.path / "seen.json").exists(), (tmp_path / "output").read_text()
    runs = read_json(folder.path / "seen.json")["runs"]
    assert len(runs) == STOPS
    for number, run in enumerate(runs, 1):
        assert len({tuple(rank) for rank in run["ranks"]}) == 1, f"skew in run {number}"
        _, step, outcome = run["ranks"][0]
        assert (outcome, run["checkpoint"]) == ("INTERRUPTED", [step, step]), f"run {number}"
    steps = [run["ranks"][0][1] for run in runs]
    assert steps == sorted(steps)
    history, _ = read_history(folder.history)
    assert list(history.steps) == list(range(1, steps[-1] + 1))
    assert not history.problems
