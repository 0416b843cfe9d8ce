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
from tests.cluster.ready import ReadyCluster, open_ready_cluster, patience
from tests.cluster.remote_desktop import known_keys
from tests.cluster.windows import open_program
from tests.scheduling import is_of_cluster

# A failed assertion of a helper is explained in words, too.
pytest.register_assert_rewrite("tests.cluster.runs", "tests.cluster.thief")

_IMAGE_LIMIT_S = 1200.0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Allow the first test of a cluster more time: image, wheels and set-up come first."""
    fixture_names: set[str] = set()
    for item in items:
        item_fixtures = getattr(item, "fixturenames", ())
        if is_of_cluster(item.nodeid):
            cluster_names = {"cluster", "ready_cluster"}.intersection(item_fixtures)
            for cluster_name in cluster_names - fixture_names:
                item.add_marker(pytest.mark.timeout(_IMAGE_LIMIT_S))
                fixture_names.add(cluster_name)


@pytest.fixture(scope="session")
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """Three nodes that are up, once for all tests; node3 is bare.

    What a test breaks through their methods is fixed after it, and what it leaves running there
    is ended; files stay.
    """
    with _running_cluster(request, tmp_path_factory.mktemp("cluster")) as running_cluster:
        yield running_cluster


@pytest.fixture(scope="session")
def ready_cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ReadyCluster]:
    """Another three nodes, added and set up; see `tests.cluster.ready`. Each test finds them well.

    It is not `cluster`, whose nodes nothing of this program has touched.
    """
    with (
        _running_cluster(request, tmp_path_factory.mktemp("ready")) as running_cluster,
        open_ready_cluster(running_cluster, tmp_path_factory.mktemp("desktop")) as ready,
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
    with open_program(qapp, cluster.share, tmp_path, monkeypatch, qtbot, keys) as program:
        yield program


@contextmanager
def _running_cluster(request: pytest.FixtureRequest, folder: Path) -> Iterator[Cluster]:
    # Making the image takes a minute, once: that is said where the user sees it.
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        running_cluster = Cluster(folder, progress=Progress(sys.stderr))
        running_cluster.__enter__()
    try:
        yield running_cluster
    finally:
        running_cluster.__exit__()


@pytest.fixture(autouse=True)
def _healed(request: pytest.FixtureRequest) -> Iterator[None]:
    clusters: list[Cluster] = []
    if "cluster" in request.fixturenames:
        clusters.append(request.getfixturevalue("cluster"))
    if "ready_cluster" in request.fixturenames:
        ready: ReadyCluster = request.getfixturevalue("ready_cluster")
        # Before what runs is noted down: an agent that lives now outlives the test.
        ready.revive()
        clusters.append(ready.cluster)
    initial_processes = {
        process for c in clusters for node in c.nodes.values() for process in node.processes()
    }
    yield
    for healed_cluster in clusters:
        healed_cluster.heal(initial_processes)
