"""Every number that a program of a public library wrote is on its curve, at its step.

The programs run as a script's process does, with the packages of the registry in an environment of
their own, and are read while they run.
"""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from backend.datastore.jobs.history_reader import read_history
from backend.records.base.layout import JobFolder
from backend.records.jobs.launch import RankPlan
from tests.backend.training.public_loops import LOOPS, OF_THE_ENVIRONMENT, PACKAGES
from tests.backend.training.test_script_rank import script_of
from tests.cluster.public_programs import OPERATORS

pytestmark = pytest.mark.slow

Curves = dict[str, dict[int, float]]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python with packages of the registry over those of this environment."""
    folder = tmp_path_factory.mktemp("public")
    overrides = folder / "overrides.txt"
    overrides.write_text(
        "".join(f"{name}; sys_platform == 'none'\n" for name in OF_THE_ENVIRONMENT)
    )
    uv, base = [sys.executable, "-m", "uv"], f"{sys.base_prefix}/bin/python3"
    path = folder / "own/bin/python"
    subprocess.run([*uv, "venv", "--quiet", "--python", base, folder / "own"], check=True)
    install = [*uv, "pip", "install", "--quiet", "--python", path, "--override", overrides]
    subprocess.run([*install, *PACKAGES], check=True)
    (packages,) = folder.glob("own/lib/*/site-packages")
    # The registry's torchvision is built for CUDA, and lacks its operators beside this torch.
    (packages / "operators_of_torchvision.py").write_text(OPERATORS)
    lines = (sysconfig.get_paths()["purelib"], "import operators_of_torchvision")
    (packages / "of_the_environment.pth").write_text("\n".join(lines))
    return str(path)


@pytest.mark.parametrize("name", LOOPS)
def test_every_number_in_the_files_of_a_program_is_on_its_curve_at_its_step(
    tmp_path: Path, python: str, name: str
) -> None:
    plan = RankPlan(0, 0, "cpu01", "127.0.0.1")
    environment = {
        "OMP_NUM_THREADS": "1",
        "YOLO_CONFIG_DIR": str(tmp_path),
        # As mpirun sets it, by which a process finds the library of mpi4py.
        "LD_LIBRARY_PATH": f"{sys.prefix}/lib",
    }
    script = script_of(tmp_path, plan, plan, python=python, arguments=["{output}"])
    (tmp_path / "version/train.py").write_text(LOOPS[name])
    folder, log = JobFolder(tmp_path / "job"), JobFolder(tmp_path / "job").rank_log(0)
    with log.open("wb") as output, pytest.MonkeyPatch.context() as patch:
        for variable, value in environment.items():
            patch.setenv(variable, value)
        patch.setattr(
            subprocess,
            "Popen",
            lambda *args, _popen=subprocess.Popen, **options: _popen(
                *args, stdout=output, stderr=output, **options
            ),
        )
        assert script.run() == (0, False), log.read_text()
    update, _ = read_history(folder.history)
    assert not update.problems
    file_curves = _written_by(name, folder.output)
    assert sum(map(len, file_curves.values())) > 3, [*folder.output.rglob("*")]
    job_curves: Curves = {
        tag: {
            int(step): float(value)
            for step, value in zip(update.steps, values, strict=True)
            if value == value
        }
        for tag, values in update.metrics.items()
    }
    assert set(file_curves) <= set(job_curves)
    assert {tag: job_curves[tag] for tag in file_curves} == {
        tag: pytest.approx(curve, rel=1e-6) for tag, curve in file_curves.items()
    }


def _written_by(name: str, output: Path) -> Curves:
    readers = {
        "lightning": lambda: _table(output, "metrics.csv", "step", 0, ("epoch",)),
        "timm": lambda: _table(output, "summary.csv", "epoch", 1, ()),
        "yolov5": lambda: _table(output, "results.csv", "epoch", 1, ()),
        "ultralytics": lambda: _table(output, "results.csv", "epoch", 0, ("time",)),
        "transformers": lambda: _trainer_state(output),
        "mmengine": lambda: _scalars(output),
        "accelerate": lambda: dict(_events(output, "")),
        "two_writers": lambda: dict(_events(output, "{}/")),
    }
    return readers[name]()


def _table(output: Path, name: str, position: str, first: int, columns: tuple[str, ...]) -> Curves:
    (path,) = output.rglob(name)
    curves: Curves = {}
    with path.open(newline="") as file:
        rows = [
            {key.strip(): value.strip() for key, value in row.items()}
            for row in csv.DictReader(file)
        ]
    for row in rows:
        step = int(row.pop(position)) + first
        for tag in row.keys() - set(columns):
            if row[tag]:
                curves.setdefault(tag, {})[step] = float(row[tag])
    return curves


def _trainer_state(output: Path) -> Curves:
    newest = max(output.rglob("trainer_state.json"), key=lambda path: path.stat().st_mtime_ns)
    curves: Curves = {}
    for row in json.loads(newest.read_text())["log_history"]:
        for tag in row.keys() - {"step", "epoch", "total_flos"}:
            curves.setdefault(tag, {})[row["step"]] = row[tag]
    return curves


def _scalars(output: Path) -> Curves:
    """MMEngine counts the validation in epochs, beside steps of training."""
    (path,) = output.rglob("scalars.json")
    curves: Curves = {}
    step = 0
    for row in map(json.loads, path.read_text().splitlines()):
        step = row["step"] if "iter" in row else step
        for tag in row.keys() - {"step", "epoch", "iter", "time"}:
            curves.setdefault(tag, {})[step] = row[tag]
    return curves


def _events(output: Path, label: str) -> Iterator[tuple[str, dict[int, float]]]:
    folders = {path.parent for path in output.rglob("events.out.tfevents.*")}
    # That one is written by rank 0.
    for path in sorted(folders - {output / "tensorboard"}):
        events = EventAccumulator(str(path)).Reload()
        for tag in events.Tags()["scalars"]:
            curve = {scalar.step: scalar.value for scalar in events.Scalars(tag)}
            yield f"{label.format(path.name)}{tag}", curve
