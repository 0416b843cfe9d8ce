"""A user reaches Slurm by the name of its login node: over SSH, and over SFTP for the data root."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from backend.records.jobs.launch import launch_of
from backend.records.jobs.state import JobState
from backend.records.library.item import Kind
from backend.records.nodes.provisioning_options import SetUpOptions
from backend.services.context.container import Services
from tests.cluster.slurm import HOME, NODES, SlurmCluster
from tests.cluster.slurm_desktop import HOST, ROOT, open_desktop, slurm_home
from tests.cluster.slurm_jobs import SlurmJobs
from tests.integration.tiny import write_sources
from tests.waiting import wait_for

pytestmark = pytest.mark.slow
PROFILE = """module() { [ "$1 $2" = 'load tools' ] && export TOOLS=1.0; }\n"""
"""What a site's modules put into the shell at a login: other shells have no such function."""


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    with SlurmCluster(tmp_path_factory.mktemp("slurm")) as cluster:
        cluster.open_login_node()
        yield cluster


@pytest.fixture(scope="module")
def home(slurm: SlurmCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The home of a desktop's user, who has an account on the login node."""
    with slurm_home(slurm, tmp_path_factory.mktemp("desktop") / "home") as home:
        yield home


def call_program(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    catalogue = str(home / "catalogue.sqlite")
    common = ("main.py", "--data-root", str(ROOT), "--catalogue", catalogue)
    return subprocess.run(
        [sys.executable, *common, *arguments],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def test_from_the_name_of_a_login_node_to_the_curve_of_a_job_on_three_nodes(
    slurm: SlurmCluster, home: Path, tmp_path: Path
) -> None:
    refused_call = call_program(home, "node", "add", HOST, "--slurm")
    assert refused_call.returncode == 1
    key_option = f"--accept-key {slurm.host_fingerprint}"
    assert key_option in refused_call.stderr
    added_call = call_program(home, *key_option.split(), "node", "add", HOST, "--slurm")
    assert added_call.returncode == 0, added_call.stderr
    listing = call_program(home, "node", "partitions", HOST).stdout
    assert "main (default)  up     none        3 of 3  6 of 6" in listing

    services = open_desktop(slurm, home)
    try:
        options = SetUpOptions(in_job=True, partition="short")
        outcome = services.provisioning.set_up((HOST,), lambda state: None, options=options)
        assert services.cluster.entry(HOST).shares_environment, outcome
        with closing(services.cluster.open_shell(HOST)) as shell:
            shell.write(f"{HOME}/.bash_profile", PROFILE.encode())
        train_stop_and_resume(slurm, services, tmp_path)
    finally:
        services.close()


def train_stop_and_resume(slurm: SlurmCluster, services: Services, folder: Path) -> None:
    sources = write_sources(folder)
    for kind, source in zip((Kind.MODEL, Kind.LOADER, Kind.DATASET), sources, strict=True):
        services.library.import_item(kind, source, "tiny")
    jobs = SlurmJobs(services, slurm, HOST)
    job_id = jobs.start(nodes=3, setup=["module load tools"])
    view = jobs.wait_for_step(job_id, run=1, step=5)
    assert view.status.world_size == 3
    assert slurm.call("squeue", "-h", "-o", "%N %T").split() == ["sn[1-3]", "RUNNING"]
    steps = list(services.queries.history(job_id).steps)
    assert steps == list(range(1, len(steps) + 1))

    services.jobs.lifecycle.stop(job_id)
    view = jobs.wait_until(job_id, lambda view: view.state.is_over, "the stop")
    assert view.state is JobState.INTERRUPTED, jobs.describe(view)
    saved_step = services.queries.checkpoints(job_id)[-1].step
    services.jobs.lifecycle.resume(job_id, changes={"slurm.nodes": 2})
    view = jobs.wait_for_step(job_id, run=2, step=saved_step)
    launch = launch_of(services.data_root.job(job_id).launch, 2)
    assert launch is not None
    assert [plan.node for plan in launch.ranks] == list(NODES[:2])
    services.jobs.lifecycle.stop(job_id)
    jobs.wait_until(job_id, lambda view: view.state.is_over, "the second stop")


def test_a_login_node_that_is_cut_off_never_ends_a_run(
    slurm: SlurmCluster, home: Path, tmp_path: Path
) -> None:
    """After the test above, whose desktop has added the cluster."""
    services = open_desktop(slurm, home)
    try:
        jobs = SlurmJobs(services, slurm, HOST)
        job_id = jobs.start(nodes=2)
        step = jobs.wait_for_step(job_id, run=1, step=3).step
        update = services.queries.poll(job_id)

        def is_silent() -> bool:
            nonlocal update
            # As the window does.
            update = services.queries.poll(job_id, update.cursor)
            return bool(update.view.contact_warning)

        slurm.cut_login_node()
        try:
            wait_for(is_silent, "the silence")
            assert update.view.contact_warning.startswith("no news since")
            assert update.view.state is JobState.TRAINING
        finally:
            slurm.repair_login_node()
        wait_for(lambda: not is_silent(), "news")
        jobs.wait_for_step(job_id, run=1, step=step + 50)
        services.jobs.lifecycle.stop(job_id)
        view = jobs.wait_until(job_id, lambda view: view.state.is_over, "the stop")
        assert view.state is JobState.INTERRUPTED
    finally:
        services.close()
