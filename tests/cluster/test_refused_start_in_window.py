"""A start that nodes cannot follow: shown, fixed and started in the window."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.main.bootstrap import Program
from backend.records.jobs.state import JobState
from backend.records.jobs.view import JobView
from backend.records.library.item import Kind
from tests.cluster.faults import SEEDED_FAULTS
from tests.cluster.ready import ReadyCluster
from tests.integration.tiny import raw_job, write_sources
from tests.programs import services_of
from widgets.jobs.preflight.preflight_dialog import PreflightDialog

pytestmark = pytest.mark.slow

LEFT_BUTTON = Qt.MouseButton.LeftButton


@pytest.fixture
def job(program: Program, tmp_path: Path) -> JobView:
    model, loader, dataset = write_sources(tmp_path / "sources")
    library = services_of(program).library
    for kind, path in ((Kind.MODEL, model), (Kind.LOADER, loader), (Kind.DATASET, dataset)):
        library.import_item(kind, path, "tiny")
    placement = [{"node": name, "processes": 1} for name in ("node1", "node2")]
    return services_of(program).jobs.create(raw_job(placement=placement, epochs=1))


def dialog_of(program: Program) -> PreflightDialog:
    session = program._job_controllers.jobs._start_controller.session
    assert session is not None
    return session.dialog


def repair(dialog: PreflightDialog, check: str, qtbot: QtBot) -> None:
    finding = next(row for row in dialog._rows if row.check == check)
    qtbot.mouseClick(dialog._rows[finding].button, LEFT_BUTTON)
    qtbot.waitUntil(dialog._check_again.isEnabled)
    assert not [row.message for row in dialog._rows if row.check == check]


def test_x01_a_refused_start_is_fixed_by_its_buttons_and_then_starts(
    program: Program, ready_cluster: ReadyCluster, job: JobView, qtbot: QtBot
) -> None:
    starts = program._job_controllers.jobs._start_controller
    with (
        SEEDED_FAULTS["agent_stopped"].seed(ready_cluster, "node2"),
        SEEDED_FAULTS["cluster_key_missing"].seed(ready_cluster, "node1"),
    ):
        program._job_controllers.jobs.start(job.id)
        qtbot.waitUntil(lambda: starts.session is not None)
        dialog = dialog_of(program)
        qtbot.waitUntil(lambda: not dialog._is_busy)
        assert {finding.check for finding in dialog._rows if finding.blocks} == {
            "agent",
            "SSH between nodes",
        }
        assert services_of(program).jobs.queries.show(job.id).run == 0
        assert dialog._start_smaller.text() == "Start on node1 only, 1 process"
        for check in ("agent", "SSH between nodes"):
            repair(dialog, check, qtbot)
        qtbot.waitUntil(dialog._start.isEnabled)
        qtbot.mouseClick(dialog._start, LEFT_BUTTON)
        qtbot.waitUntil(lambda: starts.session is None)
    done = services_of(program).jobs.queries.wait(job.id)
    assert (done.run, done.state) == (1, JobState.FINISHED)
