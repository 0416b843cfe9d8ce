"""Servers and shells for tests; a module that uses them names this one in ``pytest_plugins``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from backend.ssh.client import connect
from backend.ssh.interface import Shell
from tests.backend.ssh.sshd_rig import Sshd


@pytest.fixture
def no_keys_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the agent nor ``~/.ssh`` of who runs the tests decides how they end."""
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    (tmp_path / "desktop-home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "desktop-home"))


@pytest.fixture
def make_sshd(tmp_path: Path, no_keys_of_the_user: None) -> Iterator[Callable[..., Sshd]]:
    servers: list[Sshd] = []

    def make(*settings: str, small_disk: Path | None = None) -> Sshd:
        servers.append(Sshd(tmp_path / f"sshd-{len(servers)}", settings, small_disk))
        servers[-1].start()
        servers[-1].trust()
        return servers[-1]

    yield make
    for sshd in servers:
        sshd.stop()


@pytest.fixture
def sshd(make_sshd: Callable[..., Sshd]) -> Sshd:
    return make_sshd()


@pytest.fixture
def enter() -> Iterator[Callable[..., Shell]]:
    shells: list[Shell] = []

    def enter(sshd: Sshd, **limits: float) -> Shell:
        shells.append(connect(sshd.address, sshd.known_hosts, ssh_config=sshd.ssh_config, **limits))
        return shells[-1]

    yield enter
    for shell in shells:
        shell.close()


@pytest.fixture
def shell(sshd: Sshd, enter: Callable[[Sshd], Shell]) -> Shell:
    return enter(sshd)
