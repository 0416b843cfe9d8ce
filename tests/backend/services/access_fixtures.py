"""A data root, both ways; a module that uses them names this one in ``pytest_plugins``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from backend.records.nodes import health
from backend.services.tools import tool_process
from backend.services.tools.tool_process import ToolError
from backend.ssh import persistent_connection
from tests.backend.services.access_cases import Heart, Place
from tests.backend.ssh.sshd_rig import Sshd
from tests.waiting import LIMIT_S


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node may be silent for minutes: on a busy machine its beats and its answers come late."""
    monkeypatch.setattr(health, "_SHORTEST_S", 60.0)
    monkeypatch.setattr(persistent_connection, "SILENCE_S", LIMIT_S)


# All other tests of the services and of the window mount their data root.
@pytest.fixture(params=[pytest.param("mounted", marks=pytest.mark.slow), "sftp"])
def place(
    request: pytest.FixtureRequest, tmp_path: Path, sshd: Sshd, patient: None
) -> Iterator[Place]:
    made = Place(tmp_path, sshd, request.param == "mounted")
    yield made
    made.close()


@pytest.fixture
def remote_place(tmp_path: Path, sshd: Sshd, patient: None) -> Iterator[Place]:
    """Over SFTP alone: what there is to say about the wire."""
    made = Place(tmp_path, sshd, False)
    yield made
    made.close()


@pytest.fixture
def beat() -> Iterator[Callable[[Place], Heart]]:
    hearts: list[Heart] = []

    def begin(place: Place) -> Heart:
        place.add_node()
        hearts.append(Heart(place.root))
        return hearts[-1]

    yield begin
    for heart in hearts:
        heart.stop()


@pytest.fixture
def uncounted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is measured when a job is made: that takes a process with torch."""

    def measure(*_: object, **__: object) -> None:
        raise ToolError("not now")

    monkeypatch.setattr(tool_process, "count_samples", measure)
