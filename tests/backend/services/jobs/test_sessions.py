"""The way of a browser to a session on another node, through a real sshd."""

from __future__ import annotations

import http.server
import json
import re
import threading
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from backend.base.errors import BackendError
from backend.records.jobs.config import JobConfig
from backend.records.jobs.job_file import parse_job
from backend.records.jobs.placement import Placement
from backend.records.jobs.script import SESSION
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RankError, RunStatus
from backend.records.jobs.view import JobView
from backend.records.nodes.entry import NodeAddress
from backend.records.slurm.placement import SlurmPlacement
from backend.services.jobs.sessions import SessionService
from backend.ssh.client import connect
from tests.backend.ssh.sshd_rig import Sshd
from tests.waiting import LIMIT_S

pytest_plugins = ["tests.backend.ssh.sshd_fixtures"]


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.path.encode())

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def port() -> Iterator[int]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


SETTINGS = {
    "name": "session on gpu1",
    "script": f"{SESSION}@1",
    "entry": "session.py",
    "placement": [{"node": "gpu1", "gpus": ["GPU-a"]}],
}


def view_of(**settings: Any) -> JobView:
    config = parse_job({**SETTINGS, **settings}).config
    assert config is not None
    return JobView("j1", "session", config, "", RunStatus(JobState.TRAINING, run=3))


@pytest.fixture
def make_sessions(sshd: Sshd) -> Iterator[Callable[[JobView], SessionService]]:
    """A desktop's services, on which ``gpu1`` is the sshd."""
    services: list[SessionService] = []

    def make(view: JobView) -> SessionService:
        parts: Any = {
            "library": None,
            "nodes": None,
            "queries": SimpleNamespace(show=lambda _id: view),
            "cluster": SimpleNamespace(
                entry=lambda _name: SimpleNamespace(
                    info=SimpleNamespace(home=f"{sshd.home}/.ringmaster")
                ),
                open_shell=lambda _name: connect(
                    sshd.address, sshd.known_hosts, ssh_config=sshd.ssh_config
                ),
            ),
        }
        services.append(SessionService(**parts))
        return services[-1]

    yield make
    for service in services:
        service.close()


def write_address(sshd: Sshd, port: int) -> None:
    folder = sshd.home / ".ringmaster/sessions/j1-3"
    folder.mkdir(parents=True)
    (folder / "session.json").write_text(json.dumps({"port": port, "token": "secret"}))


def url_of(page: Path) -> str:
    match = re.search(r"url=([^\"]+)", page.read_text("utf-8"))
    assert match is not None
    return match[1]


@pytest.mark.parametrize(
    ("arguments", "page"),
    [
        ([], "lab"),
        (["--kind", "jupyter"], "lab"),
        (["--kind", "terminal", "--hours", "8"], "terminals/1"),
    ],
)
def test_the_page_leads_through_ssh_to_the_port_of_the_node(
    make_sessions: Callable[[JobView], SessionService],
    sshd: Sshd,
    port: int,
    arguments: list[str],
    page: str,
) -> None:
    write_address(sshd, port)
    sessions = make_sessions(view_of(arguments=arguments))
    url = url_of(sessions.open("j1"))
    assert f":{port}/" not in url
    with urllib.request.urlopen(url, timeout=LIMIT_S) as response:
        assert response.read() == f"/{page}?token=secret".encode()
    # The tunnel is used again, so that pages that are open stay connected.
    assert url_of(sessions.open("j1")) == url


@pytest.mark.parametrize(
    ("address", "command"),
    [
        (NodeAddress("10.0.0.7"), "ssh 10.0.0.7"),
        (NodeAddress("gpu1", 2222, "anna", jump="bob@gate"), "ssh -J bob@gate -p 2222 anna@gpu1"),
        (NodeAddress("gpu1", identity="/no/such key"), "ssh gpu1"),
    ],
)
def test_the_own_ssh_of_the_user_has_a_command_and_the_gpus_of_the_session(
    address: NodeAddress, command: str
) -> None:
    parts: Any = {
        "library": None,
        "nodes": None,
        "queries": SimpleNamespace(show=lambda _id: view_of()),
        "cluster": SimpleNamespace(entry=lambda _name: SimpleNamespace(address=address)),
    }
    expected_commands = (command, "export CUDA_VISIBLE_DEVICES=GPU-a")
    assert SessionService(**parts).ssh_command("j1") == expected_commands


SLURM = replace(
    view_of().config, allocation=SlurmPlacement("login"), placement=(Placement("login", 1),)
)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (view_of(script="mine@1").config, "The job j1 is no session."),
        (SLURM, "Slurm chose the node of the session j1, to which no tunnel leads."),
    ],
)
def test_what_no_tunnel_leads_to_is_refused(
    make_sessions: Callable[[JobView], SessionService], config: JobConfig, message: str
) -> None:
    view = replace(view_of(), config=config)
    with pytest.raises(BackendError) as caught:
        make_sessions(view).open("j1")
    assert str(caught.value) == message


def test_a_session_of_which_the_node_restarted_says_so(
    make_sessions: Callable[[JobView], SessionService],
) -> None:
    error = RankError("gpu1 was restarted.", 0, "gpu1")
    view = replace(view_of(), status=RunStatus(JobState.ERROR, run=3, error=error))
    with pytest.raises(BackendError) as caught:
        make_sessions(view).open("j1")
    assert str(caught.value) == "The session j1 does not run: gpu1 was restarted."
    assert caught.value.remedy == "Start it, or start another session."
