"""A window that is killed while the job that it started trains on nodes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from backend.records.jobs.state import JobState
from backend.records.jobs.view import JobView
from backend.services.context.container import open_services
from tests.cluster.ready import ReadyCluster
from tests.cluster.remote_desktop import known_keys
from tests.cluster.runs import CALM, ENDLESS, wait_for_no_processes
from tests.cluster.user import User
from tests.cluster.windows import open_program
from tests.integration.tiny import raw_job
from tests.programs import WINDOW_THAT_STARTS_A_JOB
from tests.waiting import wait_for

pytestmark = pytest.mark.slow

pytest_plugins = ["tests.cluster.runs_fixtures"]

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def job(
    stocked: ReadyCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[JobView]:
    """Trains on two nodes, started by a window of this desktop that is gone since."""
    for name in ("CONFIG", "DATA"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    root_paths = (stocked.cluster.share, tmp_path / "catalogue.sqlite")
    services = open_services(*root_paths)
    for key in known_keys(stocked.cluster):
        services.cluster.accept_key(key)
    services.close()
    jobs = stocked.services.jobs
    placement = [{"node": node, "processes": 1} for node in ("node1", "node2")]
    job = jobs.create(raw_job(placement=placement, epochs=ENDLESS, environment=CALM))
    command = [sys.executable, "-c", WINDOW_THAT_STARTS_A_JOB, *map(str, root_paths), job.id]
    window = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)})
    try:
        wait_for(lambda: jobs.queries.show(job.id).step > 5, "a job that the window started")
    finally:
        window.send_signal(signal.SIGKILL)
        window.wait()
    yield jobs.queries.show(job.id)
    jobs.lifecycle.stop(job.id)
    jobs.queries.wait(job.id)


def test_m12_a_window_killed_while_its_job_trains_on_nodes_costs_nothing(
    stocked: ReadyCluster,
    job: JobView,
    qapp: QApplication,
    qtbot: QtBot,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with open_program(qapp, stocked.cluster.share, tmp_path, monkeypatch, qtbot) as program:
        user = User(program, qtbot, tmp_path / "pictures")
        user.wait(lambda: program.jobs.open_id == job.id)
        curve = program.jobs.detail.curves.curve
        user.wait(lambda: len(curve("loss") or ()) > job.step + 5)
        loss_curve = curve("loss")
        assert loss_curve is not None
        steps = list(loss_curve.steps)
        assert steps == list(range(1, len(steps) + 1)), "the curve has a gap"
        user.take_picture("found-again")
        user.press_button("Stop")
        user.wait(lambda: stocked.services.jobs.queries.show(job.id).state is JobState.INTERRUPTED)
    wait_for_no_processes(stocked)
