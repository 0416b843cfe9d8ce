"""Inspect a node through a shell: its equipment, and its clock relative to this computer's."""

from __future__ import annotations

import ipaddress
import json
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from backend.base.errors import BackendError
from backend.base.log import suppress
from backend.records.base.atomic_files import replace_bytes
from backend.records.base.validation import sanitize
from backend.records.nodes.entry import OLDEST_PYTHON, PYTHON_NEED, NodeInfo
from backend.ssh.interface import Shell

_SOURCES = ("base/cores.py", "node/checks/node_facts.py")
_READ_LIMIT_S = 90.0
_CLOCK_LIMIT_S = 15.0
_CLOCK_READINGS = 3
_CLOCK = "import time; print(repr(time.time()))"
_NOT_FOUND = 127
WriteFile = Callable[[Path, bytes], None]


@dataclass(frozen=True)
class NodeInspection:
    """``ranks_address``: the IP, with its prefix, at which ranks on other nodes reach it."""

    node_info: NodeInfo
    ranks_address: str


def source() -> bytes:
    """Return what a node runs: one program from two files."""
    backend = Path(__file__).resolve().parents[1]
    return b"\n".join((backend / name).read_bytes() for name in _SOURCES)


def inspect(
    shell: Shell,
    node: str,
    data_root: Path,
    node_data_root: str = "",
    write_file: WriteFile = replace_bytes,
    remove_file: Callable[[Path], None] = Path.unlink,
) -> NodeInspection:
    """Inspect ``node``; ``node_data_root`` is the data root's path there if it is another.

    The data root is found only if the node reads what this computer has just written to it;
    ``write_file`` and ``remove_file`` act on a file below ``data_root``.

    Raises:
        BackendError: It has no Python, an old one, or a home that cannot be written.
        Unreachable: The connection broke.
    """
    offset_s = _clock_offset_s(shell, node)
    with _proof_file(data_root, write_file, remove_file) as (name, content):
        argv = ["python3", "-I", "-", node_data_root or str(data_root), name, content]
        answer = shell.run(argv, input=source(), limit_s=_READ_LIMIT_S)
    if not answer.ok:
        raise _no_answer(node, answer.complaint)
    try:
        raw = json.loads(answer.out)
        reached_at, home_fault = str(raw.pop("reached_at")), str(raw.pop("home_fault"))
        node_info = replace(NodeInfo.from_dict(raw), clock_offset_s=offset_s)
        address = ranks_address(node_info, reached_at)
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise _no_answer(node, str(error)) from error
    if home_fault:
        raise BackendError(
            f"Nothing can be written to the home folder of {node_info.user} on {node}: "
            f"{sanitize(home_fault)}.",
            "Free some space in it, make that user its owner, or use another user.",
        )
    _check_python(node, node_info)
    return NodeInspection(node_info, address)


def ranks_address(node_info: NodeInfo, reached_at: str) -> str:
    """Return the interface that took the desktop's connection, or the first outward one, or ""."""
    interface_addresses = [
        (interface, ipaddress.ip_interface(interface.address)) for interface in node_info.interfaces
    ]
    for _, address in interface_addresses:
        if reached_at and _is_within(reached_at, address) and not address.is_loopback:
            return str(address)
    outside_addresses = [
        address
        for interface, address in interface_addresses
        if not (address.is_loopback or address.is_link_local or interface.is_inner)
    ]
    # Open MPI selects interfaces more reliably with IPv4.
    outside_addresses.sort(key=lambda address: address.version)
    return str(outside_addresses[0]) if outside_addresses else ""


def _is_within(text: str, address: Any) -> bool:
    try:
        reached_ip = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:  # a name in place of an address
        return False
    # An sshd that listens for both versions writes IPv4 this way.
    return (getattr(reached_ip, "ipv4_mapped", None) or reached_ip) in address.network


def _clock_offset_s(shell: Shell, node: str) -> float:
    """Return the node's clock minus ours, from the fastest answer: the error is half its time."""
    readings = []
    for _ in range(_CLOCK_READINGS):
        # A round trip is measured with a clock that cannot be set meanwhile.
        start_s, start_monotonic_s = time.time(), time.monotonic()
        answer = shell.run(["python3", "-I", "-c", _CLOCK], limit_s=_CLOCK_LIMIT_S)
        round_trip_s = time.monotonic() - start_monotonic_s
        if answer.code == _NOT_FOUND:
            raise BackendError(
                f"{node} has no python3.", f"Install it on {node}: apt-get install python3"
            )
        try:
            readings.append((round_trip_s, float(answer.out) - (start_s + round_trip_s / 2)))
        except ValueError:
            raise _no_answer(node, answer.complaint) from None
    return min(readings)[1]


@contextmanager
def _proof_file(
    data_root: Path, write_file: WriteFile, remove_file: Callable[[Path], None]
) -> Iterator[tuple[str, str]]:
    """Write a temporary file to the data root that only a reader of this very folder can see."""
    name, content = f".ringmaster-look-{secrets.token_hex(8)}", secrets.token_hex(16)
    path = data_root / name
    try:
        write_file(path, content.encode())
    except OSError as error:
        raise BackendError(
            f"The data root {data_root} cannot be written: {error.strerror}.",
            "Check that it is mounted and writable.",
        ) from error
    try:
        yield name, content
    finally:
        with suppress(OSError, BackendError):
            remove_file(path)


def _check_python(node: str, node_facts: NodeInfo) -> None:
    newest_python = max(node_facts.pythons, key=lambda p: p.version_numbers, default=None)
    if newest_python is None or newest_python.version_numbers < OLDEST_PYTHON:
        version = newest_python.version if newest_python is not None else "missing"
        raise BackendError(
            f"Python on {node} is {sanitize(version)}; {PYTHON_NEED}",
            "Install a newer one in addition, for example: apt-get install python3.11 "
            "python3.11-venv",
        )


def _no_answer(node: str, reason: str) -> BackendError:
    return BackendError(
        f"{node} could not be inspected: {sanitize(reason, 160)}.",
        f"Log in to {node} and run: python3 -I -c 'import ctypes, json, ssl'",
    )
