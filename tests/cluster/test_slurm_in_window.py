"""A user of the window and a Slurm cluster: from the name of its login node to a curve."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.main.bootstrap import Program
from backend.records.jobs.state import JobState
from backend.records.jobs.view import JobView
from backend.records.library.item import Kind
from tests.cluster.slurm import SlurmCluster
from tests.cluster.slurm_desktop import HOST, ROOT, slurm_home
from tests.cluster.user import User
from tests.integration.tiny import write_sources
from tests.programs import open_program, services_of
from widgets.common.theme_manager import ThemeChoice
from widgets.nodes.provisioning.add_node_dialog import AddNodeDialog

pytestmark = pytest.mark.slow
SET_UP_MS = 600_000
SIZES = ((1280, 800), (1920, 1080))


@pytest.fixture
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    with SlurmCluster(tmp_path_factory.mktemp("slurm")) as cluster:
        cluster.open_login_node()
        yield cluster


@pytest.fixture
def program(
    slurm: SlurmCluster,
    qapp: QApplication,
    qtbot: QtBot,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Program]:
    for name in ("CONFIG", "DATA"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    with slurm_home(slurm, tmp_path / "home") as home:
        paths = ROOT, home / "catalogue.sqlite"
        with open_program(qapp, qtbot, *paths, lambda p: p.window.page_key == "refusal") as program:
            program.window.resize(*SIZES[0])
            yield program


@pytest.fixture
def user(program: Program, qtbot: QtBot, tmp_path: Path) -> User:
    return User(program, qtbot, tmp_path / "pictures")


def take_pictures(program: Program, user: User, name: str) -> None:
    """Take pictures in both themes at each of `SIZES`, where pictures are requested."""
    if "CLUSTER_PICTURES" not in os.environ:
        return
    for theme in (ThemeChoice.DARK, ThemeChoice.LIGHT):
        program._themes.choose(theme)
        for width, height in reversed(SIZES):
            program.window.resize(width, height)
            user.take_picture(f"{name}-{theme.value}-{width}")


@pytest.mark.timeout(1200)
def test_the_whole_way_to_a_curve_of_three_nodes_is_gone_in_the_window(
    program: Program, slurm: SlurmCluster, user: User, tmp_path: Path
) -> None:
    assert program.data_root_opener.unknown_key is not None
    assert program.data_root_opener.unknown_key.fingerprint == slurm.host_fingerprint
    take_pictures(program, user, "first-key")
    user.press_button("The fingerprint matches: accept the key")
    user.wait(lambda: program.is_built and program._services is not None)
    _add_cluster(program, user)
    for kind, source in zip(
        (Kind.MODEL, Kind.LOADER, Kind.DATASET), write_sources(tmp_path), strict=True
    ):
        services_of(program).library.import_item(kind, source, "tiny")
    _start_on_three(program, user)
    try:
        user.wait(lambda: _view(program).step > 20)
    finally:
        take_pictures(program, user, "training")
    assert _view(program).world_size == 3
    user.press_button("Stop")
    user.wait(lambda: _view(program).state is JobState.INTERRUPTED)
    take_pictures(program, user, "stopped")


def _add_cluster(program: Program, user: User) -> None:
    user.press_button("Nodes")
    user.press_button("Add a node")
    user.write_field("Host", HOST)
    user.press_button("More")
    user.press_button("This is the login node of a Slurm cluster: Slurm starts the jobs")
    take_pictures(program, user, "add-a-cluster")
    user.press_button("Connect")
    assert isinstance(program._node_controller.dialog, AddNodeDialog)
    set_ups = program.nodes._set_ups
    user.wait(lambda: HOST in set_ups)
    user.wait(lambda: set_ups[HOST].is_over, SET_UP_MS)
    assert set_ups[HOST].failed_step is None, set_ups[HOST].failed_step
    take_pictures(program, user, "set-up")
    user.press_button("Close")
    program.nodes.open_node(HOST)
    card = program.nodes.detail._partitions_card
    user.wait(card.isVisible)
    take_pictures(program, user, "cluster")


def _start_on_three(program: Program, user: User) -> None:
    user.press_button("Jobs")
    user.press_key("Ctrl+N")
    form = program._pages.form
    user.wait(form.isVisible)
    fields = form._fields
    user.wait(lambda: fields.field("slurm.cluster").isVisible())
    fields.show_value("slurm.cluster", HOST)
    user.wait(lambda: fields.field("slurm.partition").control.count() == 4)
    user.write_field("Nodes of Slurm", "3")
    user.write_field("Epochs", "100000")
    take_pictures(program, user, "new-job")
    user.press_button("Start.*")


def _view(program: Program) -> JobView:
    assert program.jobs.open_view is not None
    return program.jobs.open_view
