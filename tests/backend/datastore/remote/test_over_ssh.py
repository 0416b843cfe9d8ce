"""A node that is asked over SSH, with no agent: does it answer, and its figures."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from backend.base.errors import BackendError
from backend.records.nodes.entry import NodeEntry
from backend.services.nodes import registry, ssh_reading
from backend.services.nodes.registry import NodeRegistry
from backend.services.nodes.service import _orphans
from backend.ssh.banner_check import check_banner
from backend.ssh.interface import CommandResult, HostKeyUnknown, Unreachable
from backend.ssh.ssh_config import Hop
from tests.backend.ssh.sshd_rig import USER, Sshd
from tests.fakes.local_shell import LocalShell
from tests.fakes.mounted_root import mounted
from tests.waiting import LIMIT_S
from tests.widgets.nodes import samples

pytest_plugins = ["tests.backend.ssh.sshd_fixtures"]


@pytest.fixture
def service(tmp_path: Path, sshd: Sshd) -> NodeRegistry:
    registry = NodeRegistry(mounted(tmp_path), tmp_path / "desktop", sshd.ssh_config)
    registry.accept_key(sshd.host_key)
    return registry


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a server greets late."""
    monkeypatch.setattr(check_banner, "__defaults__", (LIMIT_S,))
    monkeypatch.setattr(registry, "KNOCK_LIMIT_S", LIMIT_S)


@contextmanager
def listening(answer: Callable[[socket.socket], None]) -> Iterator[Hop]:
    """A port here that answers one connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            line, _ = server.accept()
            with line:
                answer(line)

        thread = threading.Thread(target=serve)
        thread.start()
        yield Hop("gpu1", "127.0.0.1", server.getsockname()[1], USER)
        thread.join()


def test_f11_an_sshd_sends_its_banner_and_a_stopped_one_is_named(
    service: NodeRegistry, sshd: Sshd
) -> None:
    service.check_banner(sshd.address)
    sshd.stop()
    with pytest.raises(Unreachable, match="no SSH server listens on it"):
        service.check_banner(sshd.address)


def test_f11_an_sshd_that_hangs_is_given_up(sshd: Sshd) -> None:
    sshd.freeze()
    with pytest.raises(Unreachable, match="did not answer"):
        check_banner(Hop("gpu1", "127.0.0.1", sshd.port, USER), limit_s=0.3)


@pytest.mark.parametrize("banner", [b"HTTP/1.1 400 Bad Request\r\n", b"SS", b""])
def test_a_host_without_an_ssh_banner_is_refused(banner: bytes) -> None:
    with (
        listening(lambda line: line.sendall(banner)) as hop,
        pytest.raises(Unreachable, match="is not an SSH server"),
    ):
        check_banner(hop)


def test_a_server_that_drips_bytes_is_given_up() -> None:
    is_over = threading.Event()

    def drip(line: socket.socket) -> None:
        line.sendall(b"S")
        is_over.wait(LIMIT_S)

    with listening(drip) as hop:
        with pytest.raises(Unreachable, match="did not answer"):
            check_banner(hop, limit_s=0.3)
        is_over.set()


def test_the_node_behind_a_jump_host_must_answer(
    service: NodeRegistry, make_sshd: Callable[..., Sshd], sshd: Sshd
) -> None:
    jump = make_sshd()
    jump.allow(sshd.client_key)
    address = replace(sshd.address, jump=f"{USER}@127.0.0.1:{jump.port}")
    with pytest.raises(HostKeyUnknown):
        service.check_banner(address)
    service.accept_key(jump.host_key)
    sshd.ssh_config.write_text(f"IdentityFile {sshd.client_key}\n")
    service.check_banner(address)
    sshd.stop()
    with pytest.raises(Unreachable):
        service.check_banner(address)


def test_a_bare_node_is_read_and_nothing_is_left_on_it(tmp_path: Path) -> None:
    shell = LocalShell(tmp_path / "home")
    previous_paths = sorted(path for path in shell.home.rglob("*"))
    entry = NodeEntry("bare", samples.entry("bare").address)
    first, second = ssh_reading.read(shell, entry), ssh_reading.read(shell, entry)
    assert (first.name, first.cpu.cores > 0, first.memory_used_bytes > 0) == ("bare", True, True)
    assert first.cpu.use_percent is not None
    assert second.heartbeat > first.heartbeat
    assert sorted(path for path in shell.home.rglob("*")) == previous_paths
    assert shell.commands[0][0] == "python3"


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "[" * 100_000,
        "[]",
        json.dumps({"name": "gpu1"}),
        json.dumps({**samples.reading("gpu1").to_dict(), "memory_total_bytes": float("nan")}),
        " " * 2_000_000 + json.dumps(samples.reading("gpu1").to_dict()),
    ],
    ids=["nothing", "deep", "list", "half", "nan", "long"],
)
def test_f59_the_answer_of_a_node_is_not_trusted(tmp_path: Path, answer: str) -> None:
    shell = LocalShell(tmp_path / "home")
    shell.on_run = lambda argv: CommandResult(0, answer, "")
    with pytest.raises(BackendError, match="gpu1 returns no reading over SSH"):
        ssh_reading.read(shell, samples.entry("gpu1"))


def test_f59_text_read_over_ssh_controls_no_terminal(tmp_path: Path) -> None:
    shell = LocalShell(tmp_path / "home")
    raw = {**samples.reading("other").to_dict(), "host": "\x1b[2Jx", "heartbeat": 0}
    shell.on_run = lambda argv: CommandResult(0, json.dumps(raw), "")
    reading = ssh_reading.read(shell, samples.entry("gpu1"))
    assert (reading.name, "\x1b" in reading.host) == ("gpu1", False)


def test_f59_the_process_report_of_a_node_is_not_trusted() -> None:
    record = {**samples.orphan(7).to_dict(), "command": "\x1b[2Jrm"}
    (orphan,) = _orphans("gpu1", {"orphans": [record]})
    assert (orphan.process.pid, "\x1b" in orphan.command) == (7, False)
    for report in ([], {}, {"orphans": 1}, {"orphans": [{**record, "age_s": "old"}]}):
        with pytest.raises(BackendError, match="The answer of gpu1 about its processes"):
            _orphans("gpu1", report)
