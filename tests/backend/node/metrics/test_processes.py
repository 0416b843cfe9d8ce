"""The processes that use a node most are read with their owner, and without their arguments."""

from __future__ import annotations

import getpass
import subprocess
import sys
from pathlib import Path

import pytest

from backend.node.metrics.processes import ProcessReader
from backend.records.nodes.reading import short_command

BUSY = """
import os, sys
block = bytearray(64 << 20)
print("ready", flush=True)
sys.stdin.readline()
while sum(os.times()[:2]) < 0.4: pass
print("done", flush=True)
sys.stdin.readline()
"""


def test_a_busy_process_is_shown_with_its_owner_cpu_and_memory(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(BUSY)
    command = [sys.executable, str(script), "--password=secret"]
    processes = ProcessReader()
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as busy:
        assert busy.stdin is not None
        assert busy.stdout is not None
        busy.stdout.readline()
        assert all(process.cpu_percent == 0 for process in processes.read(frozenset()))
        busy.stdin.write("\n")
        busy.stdin.flush()
        busy.stdout.readline()
        process_list = processes.read(frozenset({busy.pid}))
        busy.stdin.close()
    busy_process = next(process for process in process_list if process.pid == busy.pid)
    assert busy_process.user == getpass.getuser()
    assert busy_process.command.endswith(" train.py")
    assert busy_process.cpu_percent > 0
    assert busy_process.memory_bytes >= 64 << 20
    assert not any("secret" in process.command for process in process_list)
    later = [processes.read(frozenset({busy.pid})) for _ in range(5)]
    assert all(process.pid != busy.pid for process in later[-1])


@pytest.mark.parametrize(
    ("command", "label"),
    [
        ("/usr/bin/python3.11 /home/mai/train.py --key abc", "python3.11 train.py"),
        ("/e/bin/python -m backend.training.rank --x /a/b", "python -m backend.training.rank"),
        ("python -c import_this", "python"),
        ("python", "python"),
        ("/opt/matlab/bin/MATLAB -nodesktop -r secret", "MATLAB"),
        ("[kworker/0:1]", "0:1]"),
        ("sshd: mai@pts/3", "sshd:"),
        ("mysqld --password=x", "mysqld"),
        ("", ""),
        ("   ", ""),
    ],
)
def test_a_command_is_shown_as_its_program_and_script(command: str, label: str) -> None:
    assert short_command(command) == label
