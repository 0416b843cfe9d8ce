"""Programs that the test cluster runs on this machine, each within a time limit."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.waiting import LIMIT_S


class ClusterError(Exception):
    """The test cluster cannot be had, or does not do what it was asked; str() says why."""


def call(*argv: str | Path, input: str = "", limit_s: float = LIMIT_S) -> str:
    """Run a program and return its output.

    Raises:
        ClusterError: It failed, with what it complained of, or did not end in time.
    """
    command = [str(part) for part in argv]
    try:
        completed = subprocess.run(
            command, input=input, capture_output=True, text=True, timeout=limit_s, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise ClusterError(f"{' '.join(command)} did not end within {limit_s:.0f} s") from error
    except FileNotFoundError as error:
        raise ClusterError(f"{command[0]} is not installed; ./installers/test does that") from error
    if completed.returncode:
        complaint = completed.stderr.strip() or f"it ended with code {completed.returncode}"
        raise ClusterError(f"{' '.join(command)}: {complaint}")
    return completed.stdout


def ip(lines: Sequence[str], namespace: str = "") -> None:
    """Hand several commands to one ip(8), in a network namespace if one is named."""
    namespace_option = ("-n", namespace) if namespace else ()
    call("ip", *namespace_option, "-batch", "-", input="\n".join(lines) + "\n")
