"""mpirun's daemon under watch: it starts and ends as without."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import wait_for

ROOT = Path(__file__).parents[4]
# As prted does: the first process ends when the second one is in the background.
DAEMON = """
import os, sys, socket
if os.fork():
    os._exit(int(sys.argv[2]))
os.setsid()
server = socket.create_server(("127.0.0.1", 0))
with open(sys.argv[1] + ".part", "w") as file:
    file.write(f"{os.getpid()} {server.getsockname()[1]} {os.environ.get('PYTHONPATH')}")
os.rename(sys.argv[1] + ".part", sys.argv[1])
connection, _ = server.accept()
connection.recv(100, socket.MSG_WAITALL)
"""


@pytest.mark.parametrize("code", [0, 3])
def test_a_daemon_goes_into_the_background_and_an_outsider_does_not_hold_it_up(
    tmp_path: Path, code: int
) -> None:
    daemon_file = tmp_path / "daemon"
    command = [sys.executable, "-m", "backend.node.run.launch_daemon", sys.executable, "-c", DAEMON]
    done = subprocess.run(
        [*command, str(daemon_file), str(code)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert done.returncode == code
    wait_for(daemon_file.exists, "the daemon")
    pid, port, python_path = daemon_file.read_text().split()
    assert python_path == "None"
    with socket.create_connection(("127.0.0.1", int(port))) as outsider:
        outsider.sendall(bytes(32))
        wait_for(lambda: not Path(f"/proc/{pid}").exists(), "the end of the daemon")


def test_a_daemon_that_does_not_exist_is_said_by_the_exit_code() -> None:
    command = [sys.executable, "-m", "backend.node.run.launch_daemon", "/no/prted"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode
    assert "/no/prted" in done.stderr
