"""One cluster for all tests in here, whole again after each of them.

What protects a merge brings up `ready_cluster` and no other; tests that use `cluster` are slow.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.main.bootstrap import Program
from backend.records.nodes import health
from installers.console import Progress
from tests.cluster.cluster import Cluster
from tests.cluster.ready import ReadyCluster, made_ready, patience
from tests.cluster.remote_desktop import known_keys
from tests.cluster.windows import window_on

# A failed assertion of a helper is explained in words, too.
pytest.register_assert_rewrite("tests.cluster.runs", "tests.cluster.thief")

_IMAGE_LIMIT_S = 1200.0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Who wants a cluster first may wait until it is made: its image, wheels, nodes set up."""
    fixture_names: set[str] = set()
    for item in items:
        wanted = getattr(item, "fixturenames", ())
        if item.path.is_relative_to(Path(__file__).parent):
            for made in {"cluster", "ready_cluster"}.intersection(wanted) - fixture_names:
                item.add_marker(pytest.mark.timeout(_IMAGE_LIMIT_S))
                fixture_names.add(made)


@pytest.fixture(scope="session")
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """Three nodes that are up, once for all tests; node3 is bare.

    What a test breaks through their methods is fixed after it, and what it leaves running there
    is ended; files stay.
    """
    with _standing(request, tmp_path_factory.mktemp("cluster")) as standing:
        yield standing


@pytest.fixture(scope="session")
def ready_cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ReadyCluster]:
    """Another three nodes, added and set up; see `tests.cluster.ready`. Each test finds them well.

    It is not `cluster`, whose nodes nothing of this program has touched.
    """
    with (
        _standing(request, tmp_path_factory.mktemp("ready")) as standing,
        made_ready(standing, tmp_path_factory.mktemp("desktop")) as ready,
    ):
        yield ready


@pytest.fixture(autouse=True)
def _patience() -> Iterator[None]:
    with patience():
        yield


@pytest.fixture
def soon_missed(_patience: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent counts as gone after three beats again, for tests in which one is."""
    monkeypatch.setattr(health, "_MISSED_BEATS", 3)


@pytest.fixture
def program(
    ready_cluster: ReadyCluster,
    qapp: QApplication,
    qtbot: QtBot,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Program]:
    """The window of a desktop that knows the ready nodes and their keys."""
    cluster, keys = ready_cluster.cluster, known_keys(ready_cluster.cluster)
    with window_on(qapp, cluster.share, tmp_path, monkeypatch, qtbot, keys) as program:
        yield program


@contextmanager
def _standing(request: pytest.FixtureRequest, folder: Path) -> Iterator[Cluster]:
    # Making the image takes a minute, once: that is said where the user sees it.
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        standing = Cluster(folder, progress=Progress(sys.stderr))
        standing.__enter__()
    try:
        yield standing
    finally:
        standing.__exit__()


@pytest.fixture(autouse=True)
def _healed(request: pytest.FixtureRequest) -> Iterator[None]:
    standing: list[Cluster] = []
    if "cluster" in request.fixturenames:
        standing.append(request.getfixturevalue("cluster"))
    if "ready_cluster" in request.fixturenames:
        ready: ReadyCluster = request.getfixturevalue("ready_cluster")
        # Before what runs is noted down: an agent that lives now outlives the test.
        ready.revive()
        standing.append(ready.cluster)
    before = {
        process for one in standing for node in one.nodes.values() for process in node.processes()
    }
    yield
    for one in standing:
        one.heal(before)
