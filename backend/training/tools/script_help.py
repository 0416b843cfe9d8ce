"""Run a script with ``--help``, and read the arguments that it takes."""

from __future__ import annotations

import os
import select
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from backend.base import process_signals
from backend.base.errors import BackendError
from backend.records.jobs.script_help import ScriptHelp, read_help
from backend.training.script_rank import copy_script, script_program
from backend.training.tools import protocol as tool_protocol

_OUTPUT_LIMIT_BYTES = 1_000_000
_CHUNK_BYTES, _TICK_S = 1 << 16, 0.1
_TERMINAL_COLUMNS = "500"
"""Columns, so that a program wraps no line where it can help it."""
_REMEDY = "Type its arguments."


def read_script_help(request: Mapping[str, Any], report: tool_protocol.Report) -> dict[str, Any]:
    """``script`` is its folder; ``entry``, ``python``, ``words`` before the option, ``limit_s``."""
    command = [
        *script_program(Path(request["script"]), request["entry"], request["python"]),
        *map(str, request["words"]),
        "--help",
    ]
    command_label = " ".join([*command[1:-1], "--help"])
    report(f"Running {command_label}…")
    folder = Path("script")
    copy_script(request["script"], folder)
    try:
        output, code = _run_command(command, folder, float(request["limit_s"]), command_label)
    except OSError as error:
        raise BackendError(f"{command[0]} cannot be started: {error.strerror}.", _REMEDY) from error
    if b"\0" in output:
        raise BackendError(f"{command_label} printed no text.", _REMEDY)
    text = output.decode("utf-8", "replace")
    options = read_help(text)
    if options:
        return ScriptHelp(options).to_dict()
    last_line = next(
        (
            command_label.strip()
            for command_label in reversed(text.splitlines())
            if command_label.strip()
        ),
        "",
    )
    if code:
        raise BackendError(
            f"{command_label} ended with {code}: {last_line or 'it printed nothing'}", _REMEDY
        )
    raise BackendError(f"{command_label} lists no options that can be read.", _REMEDY)


def _run_command(
    command: list[str], folder: Path, limit_s: float, command_label: str
) -> tuple[bytes, int]:
    """Return what a command printed, and its exit code; both streams are one.

    Raises:
        BackendError: It printed too much, or did not end in time.
    """
    terminal_variables = {
        "COLUMNS": _TERMINAL_COLUMNS,
        "TERMINAL_WIDTH": _TERMINAL_COLUMNS,
        "TERM": "dumb",
        "NO_COLOR": "1",
    }
    environment = {**os.environ, **terminal_variables}
    # Our modules are not the script's.
    environment.pop("PYTHONPATH", None)
    child = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert child.stdout is not None
    output = bytearray()
    deadline = time.monotonic() + limit_s
    try:
        while True:
            is_over = child.poll() is not None
            readable_files, _, _ = select.select([child.stdout], [], [], _TICK_S)
            chunk = os.read(child.stdout.fileno(), _CHUNK_BYTES) if readable_files else b""
            output += chunk
            if len(output) > _OUTPUT_LIMIT_BYTES:
                raise BackendError(f"{command_label} printed more than 1 MB.", _REMEDY)
            # A process that it left may keep the pipe open.
            if is_over and not chunk:
                return bytes(output), child.wait()
            if time.monotonic() > deadline:
                raise BackendError(
                    f"{command_label} did not end within {limit_s:g} s; the script may have "
                    "begun to train.",
                    _REMEDY,
                )
            if readable_files and not chunk:
                # It closed its output, and continues.
                time.sleep(_TICK_S)
    finally:
        process_signals.kill(child)
        child.stdout.close()


if __name__ == "__main__":
    tool_protocol.main(read_script_help)
