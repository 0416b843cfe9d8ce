"""Programs of the usual libraries, unchanged, on three nodes with two processes each."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from backend.base.errors import BackendError
from backend.records.jobs.state import JobState
from backend.records.jobs.view import JobView
from backend.records.library.item import Kind
from tests.cluster.node import Process
from tests.cluster.public_programs import (
    FOR_GPUS,
    OPERATORS,
    PROGRAMS,
    ULTRALYTICS,
    Program,
)
from tests.cluster.ready import ReadyCluster
from tests.cluster.runs import run_processes, wait_for_no_processes
from tests.waiting import wait_for

pytestmark = pytest.mark.slow

NODES = ("node1", "node2", "node3")
PACKAGES = ("accelerate", "click", "hydra-core", "lightning", "tensorboard", "transformers")
NODE_PACKAGES = ("numpy", "torch", "torchvision")


@contextmanager
def open_python(
    ready: ReadyCluster, folder: Path, packages: Sequence[str], node_packages: Sequence[str]
) -> Iterator[str]:
    """A Python on the nodes with packages of the registry over those of the nodes' environment."""
    folder.chmod(0o755)
    overrides = folder / "overrides.txt"
    overrides.write_text("".join(f"{p}; sys_platform == 'none'\n" for p in node_packages))
    uv = [sys.executable, "-m", "uv"]
    base = f"{sys.base_prefix}/bin/python3"
    subprocess.run(
        [*uv, "venv", "--quiet", "--python", base, "--clear", folder / "own"], check=True
    )
    install = [*uv, "pip", "install", "--quiet", "--python", folder / "own/bin/python"]
    install += ["--override", overrides, "--compile-bytecode", *packages]
    subprocess.run(install, check=True)
    installation = ready.entry("node1").installation
    assert installation is not None
    script = "import sysconfig; print(sysconfig.get_paths()['purelib'])"
    node_site_packages = ready["node1"].run([str(installation.python), "-c", script]).stdout
    (site_packages,) = folder.glob("own/lib/*/site-packages")
    (site_packages / "of_the_node.pth").write_text(node_site_packages)
    with ExitStack() as stack:
        mounted_folders = {stack.enter_context(ready[name].lent_folder(folder)) for name in NODES}
        yield f"{mounted_folders.pop()}/own/bin/python"


@pytest.fixture(scope="module")
def python(ready_cluster: ReadyCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("public")
    with open_python(ready_cluster, folder, PACKAGES, NODE_PACKAGES) as path:
        yield path


def create_job(ready: ReadyCluster, folder: Path, name: str, python: str) -> JobView:
    program = PROGRAMS[name]
    for file, text in program.files.items():
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_text(text)
    item = ready.services.library.import_item(Kind.SCRIPT, folder, name)
    raw: dict[str, Any] = {
        "name": name,
        "script": item.reference,
        "entry": next(iter(program.files)),
        "arguments": list(program.arguments),
        "resume_arguments": list(program.resume_arguments),
        "log_numbers": list(program.log_numbers),
        "python": python,
        "environment": {"OMP_NUM_THREADS": "1"},
        "placement": [{"node": node, "processes": 2} for node in NODES],
    }
    return ready.services.jobs.create(raw)


def wait_for_node3_process(ready: ReadyCluster, program: Program) -> Process:
    def find_process() -> Process | None:
        for node, process in run_processes(ready):
            argument_names = [Path(word).name for word in process.argv[:3]]
            if node == "node3" and program.process in argument_names:
                return process
        return None

    return wait_for(find_process, "the program on node3")


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_public_program_trains_names_a_killed_process_resumes_and_stops(
    ready_cluster: ReadyCluster, tmp_path: Path, name: str, python: str
) -> None:
    jobs, program = ready_cluster.services.jobs, PROGRAMS[name]
    resumes = bool(program.resume_arguments)
    job_id = create_job(ready_cluster, tmp_path, name, python).id
    jobs.lifecycle.start(job_id)
    view = jobs.queries.wait(
        job_id,
        is_finished=lambda v: (
            v.state.is_over
            or (v.step > 5 and (not resumes or bool(jobs.queries.checkpoints(job_id))))
        ),
    )
    log = ready_cluster.services.data_root.job(job_id).rank_log(0)
    assert view.state is JobState.TRAINING, (view.error, view.status.message, log.read_text())
    os.kill(wait_for_node3_process(ready_cluster, program).host_pid, signal.SIGKILL)
    view = jobs.queries.wait(job_id)
    assert view.state is JobState.ERROR
    assert view.error is not None
    assert view.error.node == "node3"
    assert "killed by signal 9 (SIGKILL)" in view.error.message
    wait_for_no_processes(ready_cluster)
    assert set(program.metrics) <= set(jobs.queries.history(job_id).metrics)

    def first_step_of_run_2() -> int:
        run_starts = jobs.queries.history(job_id).run_starts
        return next((run_start.first_step for run_start in run_starts if run_start.run == 2), 0)

    def has_resumed(view: JobView) -> bool:
        has_steps = first_step_of_run_2() > 0 if resumes else (view.run, view.step > 0) == (2, True)
        return view.state.is_over or (view.state is JobState.TRAINING and has_steps)

    if resumes:
        jobs.lifecycle.resume(job_id)
    else:
        with pytest.raises(BackendError, match="no arguments with which its script resumes"):
            jobs.lifecycle.resume(job_id)
        jobs.lifecycle.start(job_id, start_over=True)
    view = jobs.queries.wait(job_id, is_finished=has_resumed)
    assert view.state is JobState.TRAINING, (view.error, view.status.message, log.read_text())
    assert first_step_of_run_2() > 1 or not resumes
    jobs.lifecycle.stop(job_id)
    view = jobs.queries.wait(job_id)
    assert view.state is JobState.INTERRUPTED, (view.error, view.status.message)
    wait_for_no_processes(ready_cluster)


def test_the_error_of_a_program_for_gpus_says_that_the_nodes_have_none(
    ready_cluster: ReadyCluster, tmp_path: Path, python: str
) -> None:
    (tmp_path / "multinode.py").write_text(FOR_GPUS)
    services = ready_cluster.services
    item = services.library.import_item(Kind.SCRIPT, tmp_path, "gpus")
    raw: dict[str, Any] = {
        "name": "gpus",
        "script": item.reference,
        "python": python,
        "placement": [{"node": node, "processes": 2} for node in NODES],
    }
    view = services.jobs.create(raw)
    services.jobs.lifecycle.start(view.id)
    view = services.jobs.queries.wait(view.id)
    assert view.state is JobState.ERROR
    assert view.error is not None
    assert "The program needs a GPU, and there is none for it" in view.error.message


@pytest.fixture
def boxes(ready_cluster: ReadyCluster, tmp_path: Path) -> str:
    """A dataset of images with one white box each."""
    folder = tmp_path / "boxes"
    for number in range(12):
        part, offset = ("val" if number % 3 else "train"), 4 * (number % 8)
        image = Image.new("RGB", (64, 64), (number, 20, 40))
        image.paste((255, 255, 255), (offset, offset, offset + 16, offset + 16))
        for kind in ("images", "labels"):
            (folder / kind / part).mkdir(parents=True, exist_ok=True)
        image.save(folder / "images" / part / f"{number}.png")
        center = (offset + 8) / 64
        (folder / "labels" / part / f"{number}.txt").write_text(f"0 {center} {center} 0.25 0.25\n")
    (folder / "data.yaml").write_text("train: images/train\nval: images/val\nnames: {0: box}\n")
    return ready_cluster.services.library.import_item(Kind.DATASET, folder, "boxes").reference


def test_ultralytics_trains_on_boxes_stops_and_resumes(
    ready_cluster: ReadyCluster,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    boxes: str,
) -> None:
    services, jobs = ready_cluster.services, ready_cluster.services.jobs
    (tmp_path / "program").mkdir()
    (tmp_path / "program/train.py").write_text(ULTRALYTICS)
    item = services.library.import_item(Kind.SCRIPT, tmp_path / "program", "ultralytics")
    folder = tmp_path_factory.mktemp("ultralytics")
    packages = ("ultralytics", "opencv-python-headless", "torchvision==0.28.*")
    node_packages = ("numpy", "opencv-python", "torch")
    with open_python(ready_cluster, folder, packages, node_packages) as python:
        (site_packages,) = folder.glob("own/lib/*/site-packages")
        # The registry's torchvision is built for CUDA, and lacks its operators beside this torch.
        (site_packages / "operators_of_torchvision.py").write_text(OPERATORS)
        with (site_packages / "of_the_node.pth").open("a") as file:
            file.write("\nimport operators_of_torchvision\n")
        raw: dict[str, Any] = {
            "name": "ultralytics",
            "script": item.reference,
            "dataset": boxes,
            "arguments": ["--data", "{dataset}/data.yaml", "--out", "{output}"],
            "resume_arguments": ["--resume", "{checkpoint}"],
            "processes_per": "node",
            "python": python,
            "placement": [{"node": "node1", "processes": 1}],
        }
        job_id = jobs.create(raw).id
        log = services.data_root.job(job_id).rank_log(0)

        def trains_and_stops(run: int) -> None:
            done = jobs.queries.show(job_id).step

            def has_saved(view: JobView) -> bool:
                is_further = view.run == run and view.step > done
                return view.state.is_over or (is_further and bool(jobs.queries.checkpoints(job_id)))

            view = jobs.queries.wait(job_id, is_finished=has_saved)
            assert view.state is JobState.TRAINING, (view.error, log.read_text())
            jobs.lifecycle.stop(job_id)
            view = jobs.queries.wait(job_id)
            assert view.state is JobState.INTERRUPTED, (view.error, view.status.message)

        jobs.lifecycle.start(job_id)
        trains_and_stops(1)
        jobs.lifecycle.resume(job_id)
        trains_and_stops(2)
    assert "train/box_loss" in jobs.queries.history(job_id).metrics
    wait_for_no_processes(ready_cluster)
