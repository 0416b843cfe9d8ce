"""Judges of the ways to a node and between nodes: find the node at fault. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from backend.base.errors import BackendError
from backend.node.system import wording
from backend.records.base.program_name import COMMAND
from backend.records.base.validation import sanitize
from backend.records.jobs.placement import THIS_COMPUTER
from backend.records.nodes.preflight import Fix
from backend.services.preflight import names
from backend.services.preflight.check import Result, unchecked_result
from backend.services.preflight.context import VARIABLE, JobPreflight, NodePreflight, Reply
from backend.services.preflight.node_probe import NoPython
from backend.ssh.interface import HostKeyChanged, HostKeyUnknown, LoginRefused, Unreachable

SLOW_BYTES_PER_S = 10e6
"""Limit of a slow network, below Fast Ethernet: training across such nodes waits for it."""
_BUSY_PER_CORE = 2.0
_TIMED_OUT = 124
_REMEDY = "Open all ports between the nodes of the cluster; mpirun and the ranks use random ones."
_MTU_REMEDY = (
    "Give both nodes and the switch between them the same MTU: ip link set dev INTERFACE mtu 1500"
)


@dataclass(frozen=True)
class ConnectionTest:
    """One node's attempt to reach another, with the result of `preflight_probe`.

    ``load_clause`` names the busy node of the two, or is "".
    """

    source: str
    target: str
    result: Reply
    load_clause: str = ""

    @property
    def succeeded(self) -> bool:
        return bool(self.result["bytes"])


def busy_load(reply: Reply) -> str:
    """Return ``load 34 on 2 cores`` for a node that is busy, otherwise ""."""
    load, cores = reply.get("load", 0.0), reply.get("cores", 1)
    return f"load {load:.0f} on {cores} cores" if load >= _BUSY_PER_CORE * cores else ""


def _other_nodes(node: NodePreflight, job: JobPreflight) -> set[str]:
    return {n.name for n in job.nodes} - {node.name}


def peers_without_address(node: NodePreflight, job: JobPreflight) -> set[str]:
    return set() if node.address else _other_nodes(node, job)


def peers_without_settings(node: NodePreflight, job: JobPreflight) -> set[str]:
    is_head = node.target is None or node.target.is_head
    has_settings = isinstance(node.settings_update, bool)
    return _other_nodes(node, job) if is_head and not has_settings else set()


def untested_peers(kind: str, node: NodePreflight, job: JobPreflight) -> set[str]:
    """Return the other nodes that ``node`` should have reached and has no result for."""
    if node.target is not None and kind == "ssh" and not node.target.is_head:
        return set()
    results = [result for result in node.connection_results if result["kind"] == kind]
    return _other_nodes(node, job) - {result["node"] for result in results}


def no_common_network(job: JobPreflight) -> Iterator[Result]:
    if (error := job.network_error) is not None:
        names = tuple(node.name for node in job.target_nodes)
        yield Result(error.message, error.remedy, Fix.NONE, names)


def outdated_address(node: NodePreflight, job: JobPreflight) -> Iterator[Result]:
    if node.address and node.listener_reply and not node.port:
        yield Result(
            f"{node.name} no longer has the address {node.address}, which the other nodes use: "
            f"{sanitize(str(node.listener_reply['why']))}.",
            "Check the node again; it may have a new address.",
        )


def settings(node: NodePreflight, job: JobPreflight) -> Iterator[Result]:
    if isinstance(error := node.settings_update, BackendError):
        yield Result(
            f"The SSH settings of mpirun on {node.name} cannot be updated: {error.message}",
            error.remedy,
        )
    elif node.settings_update:
        yield Result(
            f"The SSH settings of mpirun on {node.name} were outdated and have been updated.",
            fix=Fix.NONE,
            details={"ok": True},
        )


def connection_tests(kind: str, job: JobPreflight) -> list[ConnectionTest]:
    nodes = {node.name: node for node in job.nodes}
    return [
        ConnectionTest(
            node.name, result["node"], result["facts"], _load_clause(nodes[result["node"]], node)
        )
        for node in job.nodes
        for result in node.connection_results
        if result["kind"] == kind
    ]


def _load_clause(*nodes: NodePreflight) -> str:
    busy_loads = ((node.name, busy_load(node.listener_reply)) for node in nodes)
    return next((f"{name} is busy ({load})" for name, load in busy_loads if load), "")


def route_findings(route_tests: Sequence[ConnectionTest]) -> Iterator[Result]:
    node_count = len({test.source for test in route_tests})
    failed_tests = [test for test in route_tests if not test.succeeded]
    for faulty_nodes, group in _group_by_faulty_node(failed_tests, node_count):
        yield _missing_route(faulty_nodes, group)
    open_tests = [test for test in route_tests if test.succeeded]
    slow_tests = [test for test in open_tests if _bytes_per_s(test) < SLOW_BYTES_PER_S]
    for faulty_nodes, group in _group_by_faulty_node(slow_tests, node_count):
        rate = min(map(_bytes_per_s, group))
        names = " and ".join(faulty_nodes)
        yield Result(
            f"The network of {names} transfers only {rate / 1e6:.1f} MB/s; the ranks will wait for "
            "it.",
            "Check its cable, and whether other programs use the network.",
            Fix.NONE,
            faulty_nodes,
            details={"is_warning": True},
        )


def login_findings(
    login_tests: Sequence[ConnectionTest],
    route_tests: Sequence[ConnectionTest],
    excused_nodes: Collection[str] = (),
) -> Iterator[Result]:
    """Yield the findings on the logins of the head node, except those that fail without a route.

    ``excused_nodes`` have another finding, with which a login fails, too.
    """
    unreachable_pairs = {(test.source, test.target) for test in route_tests if not test.succeeded}
    refused_tests = [test for test in login_tests if test.result["code"]]
    refused_tests = [t for t in refused_tests if (t.source, t.target) not in unreachable_pairs]
    blamed_tests = [test for test in refused_tests if test.target not in excused_nodes]
    # ssh's messages without the names.
    reasons = {str(test.result["why"]).rpartition(": ")[2] for test in refused_tests}
    is_everywhere = len(refused_tests) == len(login_tests) > 1 == len(reasons)
    if blamed_tests and is_everywhere and not blamed_tests[0].result.get("shell"):
        # If all attempts of one node fail in the same way, that node is at fault.
        yield _failed_source(blamed_tests[0])
    else:
        yield from map(_failed_login, blamed_tests)


def _bytes_per_s(test: ConnectionTest) -> float:
    return float(test.result["bytes"]) / max(float(test.result["seconds"]), 1e-6)


def _group_by_faulty_node(
    failed_tests: Sequence[ConnectionTest], node_count: int
) -> Iterator[tuple[tuple[str, ...], list[ConnectionTest]]]:
    """Group failures by the node that reaches no other, or that none reaches; or by the pair.

    With two nodes it cannot be decided; then the pair is at fault.
    """
    remaining_tests = list(failed_tests)
    while remaining_tests:
        targets = Counter(test.target for test in remaining_tests)
        sources = Counter(test.source for test in remaining_tests)
        target, target_failures = targets.most_common(1)[0]
        source, source_failures = sources.most_common(1)[0]
        if node_count > 2 and max(target_failures, source_failures) == node_count - 1:
            faulty_node = target if target_failures >= source_failures else source
            group = [test for test in remaining_tests if faulty_node in (test.source, test.target)]
            yield (faulty_node,), group
        else:
            pair = {remaining_tests[0].source, remaining_tests[0].target}
            group = [test for test in remaining_tests if {test.source, test.target} == pair]
            yield (group[0].source, group[0].target), group
        remaining_tests = [test for test in remaining_tests if test not in group]


def _missing_route(faulty_nodes: tuple[str, ...], failed_tests: Sequence[ConnectionTest]) -> Result:
    is_open = any(test.result["connected"] for test in failed_tests)
    cause = sanitize(str(failed_tests[0].result["why"]), 120)
    if len(faulty_nodes) == 1:
        sources = sorted({test.source for test in failed_tests if test.source != faulty_nodes[0]})
        endpoints = f"{faulty_nodes[0]} and {' or '.join(sources) or 'other nodes'}"
    else:
        endpoints = " and ".join(faulty_nodes)
    if is_open:
        return Result(
            f"Connections between {endpoints} open, but no data arrives ({cause}): large packets "
            "are lost on the way.",
            _MTU_REMEDY,
            nodes=faulty_nodes,
        )
    return Result(
        f"Connections between {endpoints} fail ({cause}), though both nodes are on: a "
        "firewall or a wrong route.",
        _REMEDY,
        nodes=faulty_nodes,
    )


_SSH_FINDINGS: Mapping[str, tuple[str, str, Fix]] = {
    "Host key verification failed": (
        "{target} presents another host key to {source} than the accepted one.",
        "Ask the administrator of {target}. If the change is intended, remove the old key and "
        "check the node again.",
        Fix.LEAVE_OUT,
    ),
    "Permission denied": (
        "{target} refuses the SSH login of {source}, so mpirun cannot start ranks on {target}.",
        "Install the cluster's key again.",
        Fix.INSTALL_CLUSTER_KEY,
    ),
    "Connection refused": (
        "{target} refuses the SSH connections of {source}.",
        "Start sshd on the address that the other nodes use.",
        Fix.LEAVE_OUT,
    ),
}


def _failed_source(test: ConnectionTest) -> Result:
    result = _failed_login(test)
    if result.nodes == (test.source,) or (test.load_clause and _is_late(test)):
        return result
    return replace(
        result,
        message=f"{test.source} cannot log in to any other node of the job by SSH, as mpirun "
        f"must: {_ssh_message(test)}.",
        nodes=(test.source,),
    )


def _ssh_message(test: ConnectionTest) -> str:
    return (
        sanitize(str(test.result["why"]).rstrip("."), 160)
        or f"ssh ended with code {test.result['code']}"
    )


def _login_message(test: ConnectionTest) -> str:
    return (
        f"{test.source} cannot log in to {test.target} by SSH, as mpirun must: "
        f"{_ssh_message(test)}."
    )


def _is_late(test: ConnectionTest) -> bool:
    return test.result["code"] == _TIMED_OUT or "timed out" in str(test.result["why"])


def _late_login(test: ConnectionTest) -> Result:
    """Return the result of a login that ran past its limit, which no key makes faster."""
    message = _login_message(test)
    remedy = (
        f"Log in to {test.target} from {test.source} by hand to see what it waits for, such as a "
        "name server or a disk; then check again."
    )
    if test.load_clause:
        message = (
            f"{test.load_clause}: the SSH login of {test.source} at {test.target}, which mpirun "
            f"needs, failed twice: {_ssh_message(test)}."
        )
        remedy = "Wait until the load falls, or end what runs on it; then check again."
    return Result(message, remedy, Fix.LEAVE_OUT, (test.target,))


def _failed_login(test: ConnectionTest) -> Result:
    cause = str(test.result["why"])
    if test.result.get("shell"):
        return Result(
            f"The login shell of {test.target} cannot run mpirun's commands: {_ssh_message(test)}.",
            "Install the cluster's key again, which uses /bin/sh. With your own key between the "
            f"nodes, change the login shell on {test.target}: chsh -s /bin/bash.",
            nodes=(test.target,),
        )
    names = {"source": test.source, "target": test.target}
    for ssh_text, (message, remedy, fix) in _SSH_FINDINGS.items():
        if ssh_text in cause:
            return Result(
                message.format(**names), remedy.format(**names), fix, nodes=(test.target,)
            )
    if _is_late(test):
        return _late_login(test)
    if test.result["code"] == 127 and not cause.startswith("ssh:"):
        return Result(
            f"{test.source} has no ssh, which mpirun needs to reach the other nodes.",
            f"Install it on {test.source}: apt-get install openssh-client",
            Fix.LEAVE_OUT,
            (test.source,),
        )
    return Result(
        _login_message(test),
        "Install the cluster's key again. If that fails, log in by hand: on "
        f"{test.source}, ssh {test.target}.",
        nodes=(test.target,),
    )


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
