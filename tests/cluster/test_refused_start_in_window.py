"""A start that nodes cannot follow: told in the window, mended there, and started from there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QEvent, Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.bootstrap import Program
from backend.records.cluster import HostKey
from backend.records.job_view import JobView
from backend.records.library import Kind
from backend.records.state import JobState
from backend.services.workplace import Services
from tests.cluster.faults import FAULTS
from tests.cluster.ready import ReadyCluster
from tests.integration.tiny import raw_job, write_sources
from widgets.common.look import ThemeChoice
from widgets.jobs.preflight_dialog import PreflightDialog

LONG_MS = 240_000
LEFT = Qt.MouseButton.LeftButton


@pytest.fixture
def program(
    ready_cluster: ReadyCluster,
    qtbot: QtBot,
    qapp: QApplication,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Program]:
    for name in ("CONFIG", "DATA"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    program = Program(qapp, ready_cluster.cluster.share, tmp_path / "catalogue.sqlite", None)
    program._look.choose(ThemeChoice.LIGHT)
    qtbot.addWidget(program.window)
    program.show()
    qtbot.waitUntil(lambda: program.is_built and program._services is not None, timeout=LONG_MS)
    for entry in ready_cluster.services.cluster.list():
        text = ready_cluster.services.cluster.host_key(entry.name)
        kind = text.partition(" ")[0]
        services(program).cluster.trust(HostKey(entry.address.host, 22, kind, text, ""))
    yield program
    program.close()
    # A `Look` that lives on would dress the windows of other tests.
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)


@pytest.fixture
def job(program: Program, tmp_path: Path) -> JobView:
    model, loader, dataset = write_sources(tmp_path / "sources")
    library = services(program).library
    for kind, path in ((Kind.MODEL, model), (Kind.LOADER, loader), (Kind.DATASET, dataset)):
        library.import_item(kind, path, "tiny")
    placement = [{"node": name, "processes": 1} for name in ("node1", "node2")]
    return services(program).jobs.create(raw_job(placement=placement, epochs=1))


def services(program: Program) -> Services:
    assert program._services is not None
    return program._services


def dialog_of(program: Program) -> PreflightDialog:
    talk = program._job_controller._starts.talk
    assert talk is not None
    return talk.dialog


def test_x01_a_refused_start_is_mended_by_its_buttons_and_then_starts(
    program: Program, ready_cluster: ReadyCluster, job: JobView, qtbot: QtBot
) -> None:
    starts = program._job_controller._starts
    with (
        FAULTS["agent_stopped"].made(ready_cluster, "node2"),
        FAULTS["cluster_key_missing"].made(ready_cluster, "node1"),
    ):
        program._job_controller.start(job.id)
        qtbot.waitUntil(lambda: starts.talk is not None, timeout=LONG_MS)
        dialog = dialog_of(program)
        assert {finding.check for finding in dialog._rows if finding.blocks} == {
            "agent",
            "SSH between nodes",
        }
        assert services(program).jobs.show(job.id).run == 0
        assert dialog._smaller.text() == "Start on node1 alone, 1 process"
        for check in ("agent", "SSH between nodes"):
            finding = next(one for one in dialog._rows if one.check == check)
            qtbot.mouseClick(dialog._rows[finding].button, LEFT)
            qtbot.waitUntil(
                lambda check=check: (
                    not dialog._is_busy and all(one.check != check for one in dialog._rows)
                ),
                timeout=LONG_MS,
            )
        qtbot.waitUntil(dialog._start.isEnabled, timeout=LONG_MS)
        qtbot.mouseClick(dialog._start, LEFT)
        qtbot.waitUntil(lambda: starts.talk is None, timeout=LONG_MS)
    done = services(program).jobs.wait(job.id)
    assert (done.run, done.state) == (1, JobState.FINISHED)
