"""Judges of the way to a node: its entry, SSH, host key and clock. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from backend.base.errors import BackendError
from backend.node.system import wording
from backend.records.base.program_name import COMMAND
from backend.records.base.validation import sanitize
from backend.records.jobs.placement import THIS_COMPUTER
from backend.records.nodes.preflight import Fix
from backend.services.preflight import names
from backend.services.preflight.check import Result, unchecked_result
from backend.services.preflight.context import JobPreflight, NodePreflight
from backend.services.preflight.limits import VARIABLE
from backend.services.preflight.node_probe import NoPython
from backend.ssh.interface import HostKeyChanged, HostKeyUnknown, LoginRefused, Unreachable

CLOCK_WARNING_S = 60.0


def node(node: NodePreflight, job: JobPreflight) -> Iterator[Result]:
    name, entry, label = node.name, node.entry, wording.node_label(node.name)
    if entry is None and name != THIS_COMPUTER:
        nodes = ", ".join(job.cluster_nodes)
        yield Result(
            f"There is no node “{sanitize(name)}”.",
            f"Known nodes: {nodes}." if nodes else f"Add it: {COMMAND} node add HOST",
        )
    if entry is not None and not entry.in_service:
        yield Result(
            f"{name} is out of service.",
            "Put it back into service, or run without it.",
            Fix.PUT_INTO_SERVICE,
        )
    if entry is not None and entry.installation is None:
        yield Result(f"{name} is not set up.", f"Set {name} up.", Fix.SET_UP_AGAIN)
    if node.target is not None and not node.finished_event.is_set():
        yield Result(
            f"{label} has not answered within {job.limit_s:g} s.",
            f"Check the load of {label} and its network, then check again. For slow nodes, set "
            f"{VARIABLE} to more seconds.",
        )
    if node.error is not None and not isinstance(node.error, BackendError):
        yield unchecked_result(name, (names.NODE,), repr(node.error))


def ssh(node: NodePreflight, job: JobPreflight) -> Iterator[Result]:
    error = node.error
    if not isinstance(error, BackendError) or isinstance(
        error, (HostKeyChanged, HostKeyUnknown, NoPython)
    ):
        return
    is_clear = isinstance(error, (LoginRefused, Unreachable))
    prefix = "" if is_clear else f"{node.name} cannot be reached: "
    yield Result(prefix + error.message, error.remedy)


def host_key(node: NodePreflight, job: JobPreflight) -> Iterator[Result]:
    error = node.error
    if isinstance(error, HostKeyUnknown):
        details = {"host_key": error.key}
        yield Result(error.message, error.remedy, Fix.ACCEPT_HOST_KEY, details=details)
    elif isinstance(error, HostKeyChanged):
        yield Result(error.message, error.remedy)


def has_answered(node: NodePreflight, job: JobPreflight) -> bool:
    return bool(node.listener_reply)


def clock(node: NodePreflight, job: JobPreflight) -> Iterator[Result]:
    offset_s = node.clock_offset_s
    if abs(offset_s) >= CLOCK_WARNING_S:
        direction = "ahead of" if offset_s > 0 else "behind"
        yield Result(
            f"The clock of {node.name} is {abs(offset_s) / 60:.0f} min {direction} this "
            "computer's; times in its logs will look wrong.",
            f"Switch on time synchronisation on {node.name}: timedatectl set-ntp true",
        )
