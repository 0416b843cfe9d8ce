"""A data root, both ways; a module that uses them names this one in ``pytest_plugins``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from backend.records.nodes import health
from backend.services.tools import tool_process
from backend.services.tools.tool_process import ToolError
from backend.ssh import persistent_connection
from tests.backend.services.access_cases import DataSite, Heart
from tests.backend.ssh.sshd_rig import Sshd
from tests.waiting import LIMIT_S


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node may be silent for minutes: on a busy machine its beats and its answers come late."""
    monkeypatch.setattr(health, "_SHORTEST_S", 60.0)
    monkeypatch.setattr(persistent_connection, "SILENCE_S", LIMIT_S)


# All other tests of the services and of the window mount their data root.
@pytest.fixture(params=[pytest.param("mounted", marks=pytest.mark.slow), "sftp"])
def site(
    request: pytest.FixtureRequest, tmp_path: Path, sshd: Sshd, patient: None
) -> Iterator[DataSite]:
    data_site = DataSite(tmp_path, sshd, request.param == "mounted")
    yield data_site
    data_site.close()


@pytest.fixture
def remote_site(tmp_path: Path, sshd: Sshd, patient: None) -> Iterator[DataSite]:
    """Over SFTP alone: what there is to say about the wire."""
    data_site = DataSite(tmp_path, sshd, False)
    yield data_site
    data_site.close()


@pytest.fixture
def beat() -> Iterator[Callable[[DataSite], Heart]]:
    hearts: list[Heart] = []

    def start_heart(site: DataSite) -> Heart:
        site.add_node()
        hearts.append(Heart(site.root))
        return hearts[-1]

    yield start_heart
    for heart in hearts:
        heart.stop()


@pytest.fixture
def uncounted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is measured when a job is made: that takes a process with torch."""

    def measure(*_: object, **__: object) -> None:
        raise ToolError("not now")

    monkeypatch.setattr(tool_process, "count_samples", measure)
