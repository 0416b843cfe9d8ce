"""A person and a bare machine: added, trusted, set up and trained on, all in the window."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.bootstrap import Program
from backend.records.cluster import StepState
from backend.records.job_view import JobView
from backend.records.library import Kind
from backend.records.node import Presence
from backend.records.state import JobState
from tests.cluster.cluster import Cluster
from tests.cluster.windows import services, window_on
from tests.integration.tiny import raw_job, write_sources
from widgets.cluster.add_node_dialog import AddNodeDialog

SET_UP_MS = 600_000
TRAINED_MS = 240_000


@pytest.fixture
def program(
    cluster: Cluster,
    qapp: QApplication,
    qtbot: QtBot,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Program]:
    with window_on(qapp, cluster.share, tmp_path, monkeypatch, qtbot) as program:
        yield program
        # Whoever tries again begins with a node that nobody has added.
        for entry in services(program).cluster.list():
            services(program).cluster.remove(entry.name)


def adding(program: Program) -> AddNodeDialog:
    dialog = program._node_controller._adding
    assert dialog is not None
    return dialog


@pytest.mark.timeout(1200)
def test_m03_a_bare_machine_is_added_trusted_set_up_and_trained_on_in_the_window(
    program: Program,
    cluster: Cluster,
    qtbot: QtBot,
    tmp_path: Path,
) -> None:
    program.window.go("nodes")
    program.nodes.add_requested.emit()
    dialog = adding(program)
    for field, text in (
        ("host", cluster.address_of("node3")),
        ("user", cluster.user),
        ("identity", str(cluster.identity)),
        ("data_root", cluster.data_root),
    ):
        dialog._edits[field].setText(text)
        dialog._edits[field].textEdited.emit(text)
    dialog._name.setText("node3")
    dialog._edited("name")
    qtbot.mouseClick(dialog._look, Qt.MouseButton.LeftButton)

    # The key was never seen: a person compares it and says yes; Enter alone does not.
    qtbot.waitUntil(dialog._trust.isVisible, timeout=30_000)
    shown = dialog._trust.fingerprint.text()
    assert shown in _fingerprint(cluster)
    assert services(program).cluster.list() == ()
    qtbot.mouseClick(dialog._trust.trust, Qt.MouseButton.LeftButton)

    set_up = program._node_controller.set_ups
    qtbot.waitUntil(lambda: set_up._dialog is not None, timeout=60_000)
    news = program.nodes._set_ups
    qtbot.waitUntil(lambda: "node3" in news and news["node3"].is_over, timeout=SET_UP_MS)
    failed = news["node3"].failed
    assert failed is None, f"{failed.title}: {failed.sentence}\n{failed.output}"
    assert [step.title for step in news["node3"].steps][-1] == "Trial"
    assert all(step.state is StepState.DONE for step in news["node3"].steps)
    assert set_up._dialog is not None
    set_up._dialog.close()

    qtbot.waitUntil(lambda: _presence(program) is Presence.ONLINE, timeout=30_000)
    view = _train(program, tmp_path)
    qtbot.waitUntil(lambda: _state(program, view).is_over, timeout=TRAINED_MS)
    assert _state(program, view) is JobState.FINISHED


def _fingerprint(cluster: Cluster) -> str:
    import subprocess

    return subprocess.run(
        ["ssh-keygen", "-lf", cluster.known_hosts_file], capture_output=True, text=True, check=True
    ).stdout


def _presence(program: Program) -> Presence | None:
    state = program.nodes._states.get("node3")
    return state.presence if state is not None else None


def _train(program: Program, tmp_path: Path) -> JobView:
    model, loader, dataset = write_sources(tmp_path / "sources")
    library = services(program).library
    for kind, path in ((Kind.MODEL, model), (Kind.LOADER, loader), (Kind.DATASET, dataset)):
        library.import_item(kind, path, "tiny")
    raw = raw_job(placement=[{"node": "node3", "processes": 2}], epochs=2)
    view = services(program).jobs.create(raw)
    program._job_controller.start(view.id)
    return view


def _state(program: Program, view: JobView) -> JobState:
    return services(program).jobs.show(view.id).state
