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

_MOST_BYTES = 1_000_000
_PIECE, _TICK_S = 1 << 16, 0.1
_WIDE = "500"
"""Columns, so that a program wraps no line where it can help it."""
_REMEDY = "Type its arguments."


def read(request: Mapping[str, Any], report: tool_protocol.Report) -> dict[str, Any]:
    """``script`` is its folder; ``entry``, ``python``, ``words`` before the option, ``limit_s``."""
    command = [
        *script_program(Path(request["script"]), request["entry"], request["python"]),
        *map(str, request["words"]),
        "--help",
    ]
    line = " ".join([*command[1:-1], "--help"])
    report(f"Running {line}…")
    folder = Path("script")
    copy_script(request["script"], folder)
    try:
        output, code = _output(command, folder, float(request["limit_s"]), line)
    except OSError as error:
        raise BackendError(f"{command[0]} cannot be started: {error.strerror}.", _REMEDY) from error
    if b"\0" in output:
        raise BackendError(f"{line} printed no text.", _REMEDY)
    text = output.decode("utf-8", "replace")
    found = read_help(text)
    if found:
        return ScriptHelp(found).to_dict()
    last = next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
    if code:
        raise BackendError(f"{line} ended with {code}: {last or 'it printed nothing'}", _REMEDY)
    raise BackendError(f"{line} lists no options that can be read.", _REMEDY)


def _output(command: list[str], folder: Path, limit_s: float, line: str) -> tuple[bytes, int]:
    """Return what a command printed, and its exit code; both streams are one.

    Raises:
        BackendError: It printed too much, or did not end in time.
    """
    plain = {"COLUMNS": _WIDE, "TERMINAL_WIDTH": _WIDE, "TERM": "dumb", "NO_COLOR": "1"}
    environment = {**os.environ, **plain}
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
            ready, _, _ = select.select([child.stdout], [], [], _TICK_S)
            piece = os.read(child.stdout.fileno(), _PIECE) if ready else b""
            output += piece
            if len(output) > _MOST_BYTES:
                raise BackendError(f"{line} printed more than 1 MB.", _REMEDY)
            # A process that it left may keep the pipe open.
            if is_over and not piece:
                return bytes(output), child.wait()
            if time.monotonic() > deadline:
                raise BackendError(
                    f"{line} did not end within {limit_s:g} s; the script may have begun to train.",
                    _REMEDY,
                )
            if ready and not piece:
                # It closed its output, and continues.
                time.sleep(_TICK_S)
    finally:
        process_signals.kill(child)
        child.stdout.close()


if __name__ == "__main__":
    tool_protocol.main(read)
