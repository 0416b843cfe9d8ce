"""The port and the secret with which the ranks of a run meet."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from backend.base.rendezvous_point import (
    PORT_VARIABLE,
    SECRET_VARIABLE,
    RendezvousPoint,
    listen,
    take_secret,
)


def test_a_reserved_port_is_for_processes_of_this_account_that_share_it() -> None:
    point = RendezvousPoint("127.0.0.1")
    port = int(point.variables[PORT_VARIABLE])
    with pytest.raises(OSError, match="in use"), socket.create_server(("127.0.0.1", port)):
        pass
    with listen("127.0.0.1", port) as listener:
        assert listener.getsockname() == ("127.0.0.1", port)
    point.release()
    with socket.create_server(("127.0.0.1", port)):
        pass


def test_two_runs_have_two_secrets() -> None:
    points = [RendezvousPoint("localhost") for _ in range(2)]
    secrets = {point.variables[SECRET_VARIABLE] for point in points}
    assert len(secrets) == 2
    assert all(len(bytes.fromhex(secret)) == 32 for secret in secrets)
    for point in points:
        point.release()


def test_programs_that_a_rank_starts_do_not_get_the_secret(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(SECRET_VARIABLE, "00ff" * 16)
    assert take_secret() == bytes.fromhex("00ff" * 16)
    query = f"import os; print(os.environ.get({SECRET_VARIABLE!r}))"
    completed = subprocess.run(
        [sys.executable, "-c", query], env=os.environ, capture_output=True, text=True, check=True
    )
    assert completed.stdout.strip() == "None"
    with pytest.raises(KeyError):
        take_secret()
