"""A node's part of a pre-flight check, over one connection: listen, probe, meet the others."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from backend.base.errors import BackendError
from backend.ssh.interface import CommandResult, Shell, Unreachable

LOOK_LIMIT_S = 12.0
COMMAND_LIMIT_S = 11.0
ROOT_LIMIT_S = 4.0
MEET_LIMIT_S = 4.0
SAMPLE_BYTES = 8 * 2**20
_LISTEN_LIMIT_S = 8.0
_GRACE_S = 2.0
_USUAL_LOGIN_S = 1.0
_MOST_PATIENCE = 5.0
_SOURCE = Path(__file__).resolve().parents[2] / "node" / "checks" / "preflight_probe.py"

Request = Mapping[str, Any]


class NoPython(BackendError):
    """The node has no Python that could run the probe."""


def patience(login_s: float, facts: Mapping[str, Any] | None = None) -> float:
    """Return how many times the usual limits a node gets, by its last login and its load."""
    load, cores = (float((facts or {}).get(name, 1)) for name in ("load", "cores"))
    return min(_MOST_PATIENCE, max(1.0, load / max(cores, 1.0), login_s / _USUAL_LOGIN_S))


def listen(
    shell: Shell, python: str, address: str, token: str, visitors: int, times: float = 1.0
) -> tuple[Mapping[str, Any], float]:
    """Start a listener on the node; return its facts, and the node's clock minus this one's.

    ``times`` is the `patience` with the node.

    Raises:
        NoPython: ``python`` does not start.
        Unreachable: The connection broke.
    """
    began, start = time.time(), time.monotonic()
    answer = shell.run(
        _argv(python, "listen", {"address": address, "token": token, "visitors": visitors}),
        input=_source(),
        limit_s=_LISTEN_LIMIT_S * times,
    )
    took_s = time.monotonic() - start
    try:
        facts: Mapping[str, Any] = json.loads(answer.out)
        return facts, float(facts["clock"]) - (began + took_s / 2)
    except (ValueError, KeyError, TypeError) as error:
        raise NoPython(_why(answer)) from error


def probe_node(shell: Shell, python: str, request: Request, times: float = 1.0) -> dict[str, Any]:
    """Return the facts of one node by question, None for those not answered in time."""
    facts: dict[str, Any] = {}
    lines = _Lines(lambda line: facts.__setitem__(line["name"], line["facts"]))
    limit_s = LOOK_LIMIT_S * times + _GRACE_S
    argv = _argv(python, "check", _bounded(request, times))
    try:
        shell.run(argv, input=_source(), limit_s=limit_s, on_line=lines.hear)
    except Unreachable:
        # A hanging probe may keep the connection open; what it sent before is valid.
        if not facts:
            raise
    return facts


def meet(shell: Shell, python: str, request: Request, times: float = 1.0) -> list[dict[str, Any]]:
    """Return the results of connecting one node to the others; a login that is late has two."""
    met: list[dict[str, Any]] = []
    limit_s = MEET_LIMIT_S * times
    limits = {"limit_s": limit_s, "bytes": SAMPLE_BYTES}
    argv = _argv(python, "meet", {**request, **limits})
    lines = _Lines(met.append)
    shell.run(
        argv,
        input=_source(),
        limit_s=2 * (limit_s + 1) + _GRACE_S,
        on_line=lines.hear,
    )
    return met


def probe_here(request: Request) -> dict[str, Any]:
    """Probe this computer as `probe_node` does."""
    argv = [sys.executable, "-I", str(_SOURCE), "check", json.dumps(_bounded(request, 1.0))]
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LOOK_LIMIT_S + _GRACE_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        said = error.stdout or b""
    else:
        said = done.stdout
    facts: dict[str, Any] = {}
    lines = _Lines(lambda line: facts.__setitem__(line["name"], line["facts"]))
    for line in said.decode("utf-8", "replace").splitlines():
        lines.hear(line)
    return facts


@lru_cache(maxsize=1)
def _source() -> bytes:
    """Return the source, read once: an update during a session must not mix two versions."""
    return _SOURCE.read_bytes()


class _Lines:
    """JSON objects among other output of a remote program."""

    def __init__(self, take: Callable[[dict[str, Any]], None]) -> None:
        self._take = take

    def hear(self, line: str) -> None:
        try:
            found = json.loads(line)
        except ValueError:
            return
        if isinstance(found, dict) and "facts" in found:
            self._take(found)


def _bounded(request: Request, times: float) -> Request:
    return {
        **request,
        "limit_s": LOOK_LIMIT_S * times,
        "command_limit_s": COMMAND_LIMIT_S * times,
        "root_limit_s": ROOT_LIMIT_S * times,
    }


def _argv(python: str, mode: str, request: Request) -> list[str]:
    return [python, "-I", "-", mode, json.dumps(request)]


def _why(answer: CommandResult) -> str:
    return answer.complaint
