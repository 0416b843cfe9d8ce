"""One cluster for all tests in here, whole again after each of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from installers.console import Progress
from tests.cluster.cluster import Cluster

_IMAGE_LIMIT_S = 1200.0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first test that wants the cluster may wait until its image is made, on a slow line."""
    for item in items:
        wanted = getattr(item, "fixturenames", ())
        if item.path.is_relative_to(Path(__file__).parent) and "cluster" in wanted:
            item.add_marker(pytest.mark.timeout(_IMAGE_LIMIT_S))
            return


@pytest.fixture(scope="session")
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """Three nodes that are up, once for all tests; node3 is bare.

    What a test breaks through their methods is mended after it, and what it leaves running there
    is ended; files stay.
    """
    # Making the image takes a minute, once: that is told where somebody sees it.
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        standing = Cluster(tmp_path_factory.mktemp("cluster"), progress=Progress(sys.stderr))
        standing.__enter__()
    try:
        yield standing
    finally:
        standing.__exit__()


@pytest.fixture(autouse=True)
def _healed(request: pytest.FixtureRequest) -> Iterator[None]:
    if "cluster" not in request.fixturenames:
        yield
        return
    standing: Cluster = request.getfixturevalue("cluster")
    before = {process for node in standing.nodes.values() for process in node.processes()}
    yield
    standing.heal(before)
