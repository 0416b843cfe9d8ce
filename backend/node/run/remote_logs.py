"""Logs and exit records of ranks on other nodes, copied to the head node without a data root.

The other node prints one line of JSON, and the head node puts it into its own folder of the job:
the exit records of the ranks, complete, and the end of each log.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from backend.base.log import suppress, swallowed
from backend.node.run import run_files
from backend.records.base.access_modes import open_for_writing
from backend.records.base.atomic_files import replace_bytes
from backend.records.base.layout import JobFolder

_MARK = "ringmaster-words "
_LOG_BYTES = 2_000_000
_RECORD_BYTES = 4_000_000
# Each byte becomes one character: a log may hold anything.
_ONE_TO_ONE = "latin-1"


def pack_output(folder: JobFolder, run: int) -> str:
    """On the other node: return a line with what its ranks wrote in this run."""
    payload: dict[str, Any] = {"records": {}, "logs": {}}
    attempt = folder.attempt(run).path
    for path in _files(attempt, "rank-*.json"):
        payload["records"][path.name] = _tail(path, _RECORD_BYTES)[1]
    # The launch record was copied there after the logs of earlier runs.
    launch_changed_s = _changed_s(folder.launch)
    for path in _files(folder.logs, "rank-*.log"):
        if _changed_s(path) >= launch_changed_s:
            payload["logs"][path.name] = _tail(path, _LOG_BYTES)
    return f"{_MARK}{json.dumps(payload)}\n"


def unpack_output(output: bytes, folder: JobFolder, run: int, ranks: Sequence[int]) -> str:
    """On the head node: keep the output of ``ranks``; return all other output."""
    other_lines = []
    for line in output.decode("utf-8", "replace").splitlines():
        if not line.startswith(_MARK):
            other_lines.append(line)
            continue
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            _write_output(json.loads(line[len(_MARK) :]), folder, run, ranks)
    return "\n".join(other_lines)


def _write_output(payload: Any, folder: JobFolder, run: int, ranks: Sequence[int]) -> None:
    attempt = folder.attempt(run)
    for rank in ranks:
        log = folder.rank_log(rank)
        if log.name in payload["logs"]:
            start, text = payload["logs"][log.name]
            _append(log, int(start), text.encode(_ONE_TO_ONE))
        # Last, as its guard writes it: a reader of the exit record may read the log.
        for path in (attempt.rank_error(rank), attempt.rank_exit(rank)):
            if path.name in payload["records"]:
                replace_bytes(path, payload["records"][path.name].encode(_ONE_TO_ONE))


def _append(log: Path, start: int, content: bytes) -> None:
    """Append a piece; the head node has what the other node had of earlier runs."""
    present_bytes = run_files.size(log)
    with open(open_for_writing(log), "ab") as file:
        if start > present_bytes:
            file.write(
                f"── {start - present_bytes} bytes of this run stayed on the node ──\n".encode()
            )
        file.write(content[max(0, present_bytes - start) :])


def _files(folder: Path, pattern: str) -> list[Path]:
    return sorted(folder.glob(pattern))


def _changed_s(path: Path) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError as error:
        swallowed(error)
        return 0.0


def _tail(path: Path, limit_bytes: int) -> tuple[int, str]:
    """Return the offset of the end of a file, and that end."""
    start = max(0, run_files.size(path) - limit_bytes)
    try:
        with path.open("rb") as file:
            file.seek(start)
            return start, file.read(limit_bytes).decode(_ONE_TO_ONE)
    except OSError as error:
        swallowed(error)
        return start, ""
