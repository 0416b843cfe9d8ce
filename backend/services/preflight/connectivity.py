"""Judge the connections between the nodes of a job: find the node at fault. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from backend.base.errors import BackendError
from backend.records.base.validation import sanitize
from backend.records.nodes.preflight import Fix
from backend.services.preflight.check import Result
from backend.services.preflight.context import Facts, JobPreflight, NodePreflight

SLOW_BYTES_PER_S = 10e6
"""Less than Fast Ethernet; training across such nodes waits for the network."""
_BUSY_PER_CORE = 2.0
_NO_END = 124
_REMEDY = "Open all ports between the nodes of the cluster; mpirun and the ranks use random ones."
_MTU_REMEDY = (
    "Give both nodes and the switch between them the same MTU: ip link set dev INTERFACE mtu 1500"
)


@dataclass(frozen=True)
class Meeting:
    """One node's attempt to reach another, with the facts of `preflight_probe`.

    ``busy``: which of them is busy, as a clause, or "".
    """

    source: str
    target: str
    facts: Facts
    busy: str = ""

    @property
    def works(self) -> bool:
        return bool(self.facts["bytes"])


def busy(facts: Facts) -> str:
    """Return ``load 34 on 2 cores`` for a node that is busy, otherwise ""."""
    load, cores = facts.get("load", 0.0), facts.get("cores", 1)
    return f"load {load:.0f} on {cores} cores" if load >= _BUSY_PER_CORE * cores else ""


def _others(node: NodePreflight, job: JobPreflight) -> set[str]:
    return {one.name for one in job.nodes} - {node.name}


def without_address(node: NodePreflight, job: JobPreflight) -> set[str]:
    return set() if node.address else _others(node, job)


def without_settings(node: NodePreflight, job: JobPreflight) -> set[str]:
    leads = node.target is None or node.target.leads
    return _others(node, job) if leads and not isinstance(node.settings, bool) else set()


def unmet(kind: str, node: NodePreflight, job: JobPreflight) -> set[str]:
    """Return the other nodes that ``node`` should have reached and has no result for."""
    if node.target is not None and kind == "ssh" and not node.target.leads:
        return set()
    return _others(node, job) - {one["node"] for one in node.met if one["kind"] == kind}


def no_common_network(job: JobPreflight) -> Iterator[Result]:
    if (error := job.network_error) is not None:
        names = tuple(node.name for node in job.asked)
        yield Result(error.message, error.remedy, Fix.NONE, names)


def not_its_address(node: NodePreflight, job: JobPreflight) -> Iterator[Result]:
    if node.address and node.heard and not node.port:
        yield Result(
            f"{node.name} no longer has the address {node.address}, which the other nodes use: "
            f"{sanitize(str(node.heard['why']))}.",
            "Check the node again; it may have a new address.",
        )


def settings(node: NodePreflight, job: JobPreflight) -> Iterator[Result]:
    if isinstance(error := node.settings, BackendError):
        yield Result(
            f"The SSH settings of mpirun on {node.name} cannot be updated: {error.message}",
            error.remedy,
        )
    elif node.settings:
        yield Result(
            f"The SSH settings of mpirun on {node.name} were outdated and have been updated.",
            fix=Fix.NONE,
            details={"ok": True},
        )


def meetings(kind: str, job: JobPreflight) -> list[Meeting]:
    nodes = {node.name: node for node in job.nodes}
    return [
        Meeting(node.name, met["node"], met["facts"], _who_is_busy(nodes[met["node"]], node))
        for node in job.nodes
        for met in node.met
        if met["kind"] == kind
    ]


def _who_is_busy(*nodes: NodePreflight) -> str:
    loads = ((node.name, busy(node.heard)) for node in nodes)
    return next((f"{name} is busy ({load})" for name, load in loads if load), "")


def route_findings(meetings: Sequence[Meeting]) -> Iterator[Result]:
    nodes = len({one.source for one in meetings})
    for blamed, some in _blamed([one for one in meetings if not one.works], nodes):
        yield _no_route(blamed, some)
    slow = [one for one in meetings if one.works and _rate(one) < SLOW_BYTES_PER_S]
    for blamed, some in _blamed(slow, nodes):
        rate = min(map(_rate, some))
        names = " and ".join(blamed)
        yield Result(
            f"The network of {names} transfers only {rate / 1e6:.1f} MB/s; the ranks will wait for "
            "it.",
            "Check its cable, and whether other programs use the network.",
            Fix.NONE,
            blamed,
            details={"is_warning": True},
        )


def log_in_findings(
    log_ins: Sequence[Meeting], meetings: Sequence[Meeting], excused: Collection[str] = ()
) -> Iterator[Result]:
    """``log_ins`` are those of the head node; without a route they fail too and are ignored.

    ``excused``: the nodes that have another fault, with which a login fails, too.
    """
    lost = {(one.source, one.target) for one in meetings if not one.works}
    refused = [one for one in log_ins if one.facts["code"]]
    refused = [one for one in refused if (one.source, one.target) not in lost]
    blamed = [one for one in refused if one.target not in excused]
    is_everywhere = len(refused) == len(log_ins) > 1 == len({_reason(one) for one in refused})
    if blamed and is_everywhere and not blamed[0].facts.get("shell"):
        # If all attempts of one node fail in the same way, that node is at fault.
        yield _no_log_in_anywhere(blamed[0])
    else:
        yield from map(_no_log_in, blamed)


def _rate(one: Meeting) -> float:
    return float(one.facts["bytes"]) / max(float(one.facts["seconds"]), 1e-6)


def _blamed(
    failed: Sequence[Meeting], nodes: int
) -> Iterator[tuple[tuple[str, ...], list[Meeting]]]:
    """Group failures by the node at fault: one that reaches no other, or none reaches; or a pair.

    With two nodes it cannot be decided; then the pair is at fault.
    """
    left = list(failed)
    while left:
        targets = Counter(one.target for one in left)
        sources = Counter(one.source for one in left)
        target, to = targets.most_common(1)[0]
        source, of = sources.most_common(1)[0]
        if nodes > 2 and max(to, of) == nodes - 1:
            name = target if to >= of else source
            some = [one for one in left if name in (one.source, one.target)]
            yield (name,), some
        else:
            pair = {left[0].source, left[0].target}
            some = [one for one in left if {one.source, one.target} == pair]
            yield (some[0].source, some[0].target), some
        left = [one for one in left if one not in some]


def _no_route(blamed: tuple[str, ...], some: Sequence[Meeting]) -> Result:
    is_open = any(one.facts["connected"] for one in some)
    why = sanitize(str(some[0].facts["why"]), 120)
    if len(blamed) == 1:
        sources = sorted({one.source for one in some if one.source != blamed[0]})
        who = f"{blamed[0]} and {' or '.join(sources) or 'other nodes'}"
    else:
        who = " and ".join(blamed)
    if is_open:
        return Result(
            f"Connections between {who} open, but no data arrives ({why}): large packets "
            "are lost on the way.",
            _MTU_REMEDY,
            nodes=blamed,
        )
    return Result(
        f"Connections between {who} fail ({why}), though both nodes are on: a "
        "firewall or a wrong route.",
        _REMEDY,
        nodes=blamed,
    )


_SSH_WORDS: Mapping[str, tuple[str, str, Fix]] = {
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


def _reason(one: Meeting) -> str:
    """Return ssh's message without the names."""
    return str(one.facts["why"]).rpartition(": ")[2]


def _no_log_in_anywhere(one: Meeting) -> Result:
    found = _no_log_in(one)
    if found.nodes == (one.source,) or (one.busy and _is_late(one)):
        return found
    return replace(
        found,
        sentence=f"{one.source} cannot log in to any other node of the job by SSH, as mpirun must: "
        f"{_said(one)}.",
        nodes=(one.source,),
    )


def _said(one: Meeting) -> str:
    return (
        sanitize(str(one.facts["why"]).rstrip("."), 160)
        or f"ssh ended with code {one.facts['code']}"
    )


def _is_late(one: Meeting) -> bool:
    return one.facts["code"] == _NO_END or "timed out" in str(one.facts["why"])


def _late(one: Meeting) -> Result:
    """No key changes how long a login takes."""
    sentence = f"{one.source} cannot log in to {one.target} by SSH, as mpirun must: {_said(one)}."
    remedy = (
        f"Log in to {one.target} from {one.source} by hand to see what it waits for, such as a "
        "name server or a disk; then check again."
    )
    if one.busy:
        sentence = (
            f"{one.busy}: the SSH login of {one.source} at {one.target}, which mpirun needs, "
            f"failed twice: {_said(one)}."
        )
        remedy = "Wait until the load falls, or end what runs on it; then check again."
    return Result(sentence, remedy, Fix.LEAVE_OUT, (one.target,))


def _no_log_in(one: Meeting) -> Result:
    why = str(one.facts["why"])
    if one.facts.get("shell"):
        return Result(
            f"The login shell of {one.target} cannot run mpirun's commands: {_said(one)}.",
            "Install the cluster's key again, which uses /bin/sh. With your own key between the "
            f"nodes, change the login shell on {one.target}: chsh -s /bin/bash.",
            nodes=(one.target,),
        )
    names = {"source": one.source, "target": one.target}
    for words, (sentence, remedy, fix) in _SSH_WORDS.items():
        if words in why:
            return Result(
                sentence.format(**names), remedy.format(**names), fix, nodes=(one.target,)
            )
    if _is_late(one):
        return _late(one)
    if one.facts["code"] == 127 and not why.startswith("ssh:"):
        return Result(
            f"{one.source} has no ssh, which mpirun needs to reach the other nodes.",
            f"Install it on {one.source}: apt-get install openssh-client",
            Fix.LEAVE_OUT,
            (one.source,),
        )
    return Result(
        f"{one.source} cannot log in to {one.target} by SSH, as mpirun must: {_said(one)}.",
        "Install the cluster's key again. If that fails, log in by hand: on "
        f"{one.source}, ssh {one.target}.",
        nodes=(one.target,),
    )
