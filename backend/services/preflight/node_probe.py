"""A node's part of a preflight check, over one connection: listen, probe, meet the others."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from backend.base.errors import BackendError
from backend.services.preflight.context import PreflightLimits
from backend.ssh.interface import Shell, Unreachable

SAMPLE_BYTES = 8 * 2**20
_GRACE_S = 2.0
_SOURCE = Path(__file__).resolve().parents[2] / "node" / "checks" / "preflight_probe.py"

Request = Mapping[str, Any]


class NoPython(BackendError):
    """The node has no Python that could run the probe."""


def listen(
    shell: Shell, python: str, address: str, token: str, visitors: int, limits: PreflightLimits
) -> tuple[Mapping[str, Any], float]:
    """Start a listener on the node; return its reply, and the node's clock minus this clock.

    Raises:
        NoPython: ``python`` does not start.
        Unreachable: The connection broke.
    """
    started_s, timer_start = time.time(), time.monotonic()
    listener = {"address": address, "token": token, "visitors": visitors}
    answer = shell.run(
        probe_command(python, "listen", {**listener, "limit_s": limits.total_s + _GRACE_S}),
        input=source(),
        limit_s=limits.listen_s,
    )
    took_s = time.monotonic() - timer_start
    try:
        reply: Mapping[str, Any] = json.loads(answer.out)
        return reply, float(reply["clock"]) - (started_s + took_s / 2)
    except (ValueError, KeyError, TypeError) as error:
        raise NoPython(answer.complaint) from error


def end_listener(shell: Shell, python: str, listener: Request, limits: PreflightLimits) -> None:
    """End the listener on a node, which ends by itself after its last visitor."""
    shell.run(probe_command(python, "dismiss", listener), input=source(), limit_s=limits.listen_s)


def probe_node(shell: Shell, python: str, request: Request) -> dict[str, Any]:
    """Return the replies of one node by probe name, None for late replies."""
    lines: list[str] = []
    argv, limit_s = probe_command(python, "check", request), request["limit_s"] + _GRACE_S
    try:
        shell.run(argv, input=source(), limit_s=limit_s, on_line=lines.append)
    except Unreachable:
        # A hanging probe may keep the connection open; what it sent before is valid.
        if not lines:
            raise
    return {result["name"]: result["facts"] for result in results(lines)}


def connect_to_peers(
    shell: Shell, python: str, request: Request, limits: PreflightLimits
) -> list[dict[str, Any]]:
    """Return the results of connecting one node to the others; a late login has two."""
    lines: list[str] = []
    # A late login is tried once more.
    limit_s = 2 * (limits.connection_s + 1) + _GRACE_S
    full_request = {**request, "limit_s": limits.connection_s, "bytes": SAMPLE_BYTES}
    argv = probe_command(python, "meet", full_request)
    shell.run(argv, input=source(), limit_s=limit_s, on_line=lines.append)
    return list(results(lines))


def probe_locally(request: Request) -> dict[str, Any]:
    """Probe this computer as `probe_node` does."""
    argv = [sys.executable, "-I", str(_SOURCE), "check", json.dumps(request)]
    try:
        completed_process = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=request["limit_s"] + _GRACE_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        output = error.stdout or b""
    else:
        output = completed_process.stdout
    lines = output.decode("utf-8", "replace").splitlines()
    return {result["name"]: result["facts"] for result in results(lines)}


@lru_cache(maxsize=1)
def source() -> bytes:
    """Return the source, read once: an update during a session must not mix two versions."""
    return _SOURCE.read_bytes()


def results(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield the JSON results among other output of a remote program."""
    for line in lines:
        try:
            result = json.loads(line)
        except ValueError:  # a login shell may print its own lines
            continue
        if isinstance(result, dict) and "facts" in result:
            yield result


def probe_command(python: str, mode: str, request: Request) -> list[str]:
    return [python, "-I", "-", mode, json.dumps(request)]
