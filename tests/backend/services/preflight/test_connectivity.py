"""Who is to blame when connections fail."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from backend.records.jobs.placement import Placement
from backend.records.nodes.preflight import Fix, PreflightFinding
from backend.services.preflight.check import Result
from backend.services.preflight.checks import BY_NAME, judge_replies
from backend.services.preflight.connectivity import (
    ConnectionTest,
    busy_load,
    login_findings,
    route_findings,
)
from backend.services.preflight.context import (
    JobPreflight,
    NodePreflight,
    PreflightLimits,
    PreflightTarget,
)
from backend.services.preflight.names import DATA_ROOT, PYTHON, PYTORCH, ROUTE, SSH_BETWEEN_NODES

FOUR = ("a", "b", "c", "d")
WELL = {"connected": True, "bytes": 8_000_000, "seconds": 0.1, "why": ""}
NO_CONNECTION = {"connected": False, "bytes": 0, "seconds": 0.0, "why": "timed out"}
STUCK = {**NO_CONNECTION, "connected": True}
SLOW = {**WELL, "seconds": 2.0}


def findings(
    bad_results: dict[tuple[str, str], dict[str, Any]],
    logins: dict[str, tuple[int, str]] | None = None,
    nodes: tuple[str, ...] = FOUR,
) -> list[PreflightFinding]:
    route_tests = [
        ConnectionTest(*pair, bad_results.get(pair, WELL)) for pair in permutations(nodes, 2)
    ]
    login_tests = [
        ConnectionTest(nodes[0], node, {"code": code, "why": reason})
        for node, (code, reason) in (logins or {}).items()
    ]
    return judge(route_tests, login_tests)


def judge(
    route_tests: list[ConnectionTest], login_tests: list[ConnectionTest]
) -> list[PreflightFinding]:
    return [
        *map(BY_NAME[ROUTE].finding, route_findings(route_tests)),
        *map(BY_NAME[SSH_BETWEEN_NODES].finding, login_findings(login_tests, route_tests)),
    ]


def to_and_from(node: str, fields: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    return {pair: fields for pair in permutations(FOUR, 2) if node in pair}


def test_working_connections_have_no_finding() -> None:
    assert findings({}, {"b": (0, ""), "c": (0, "")}) == []


def test_a_node_that_no_other_node_reaches_is_named_alone() -> None:
    only_to = {pair: NO_CONNECTION for pair in permutations(FOUR, 2) if pair[1] == "c"}
    for bad in (only_to, to_and_from("c", NO_CONNECTION)):
        (finding,) = findings(bad)
        assert finding.nodes == ("c",)
        assert "fail (timed out)" in finding.message


def test_one_pair_that_does_not_meet_is_named_as_a_pair() -> None:
    (finding,) = findings({("b", "d"): NO_CONNECTION, ("d", "b"): NO_CONNECTION})
    assert set(finding.nodes) == {"b", "d"}


def test_both_of_two_unconnected_nodes_are_named() -> None:
    (finding,) = findings({("a", "b"): NO_CONNECTION}, nodes=("a", "b"))
    assert finding.nodes == ("a", "b")


def test_a_connection_that_carries_nothing_is_blamed_on_the_packet_size() -> None:
    (finding,) = findings(to_and_from("b", STUCK))
    assert "large packets" in finding.message
    assert "MTU" in finding.remedy


def test_a_slow_network_is_a_warning() -> None:
    (finding,) = findings(to_and_from("b", SLOW))
    assert finding.is_warning
    assert finding.nodes == ("b",)
    assert "4.0 MB/s" in finding.message


def test_ssh_that_fails_for_want_of_a_route_is_no_second_fault() -> None:
    logins = {"b": (0, ""), "c": (255, "ssh: connect to host: timed out"), "d": (0, "")}
    (finding,) = findings(to_and_from("c", NO_CONNECTION), logins)
    assert finding.nodes == ("c",)


def test_a_node_that_no_other_node_lets_in_is_itself_at_fault() -> None:
    logins = {n: (255, f"lab@{n}: Permission denied (publickey).") for n in FOUR[1:]}
    (finding,) = findings({}, logins)
    assert finding.nodes == ("a",)
    assert finding.fix is Fix.INSTALL_CLUSTER_KEY
    logins["d"] = (0, "")
    assert [f.nodes for f in findings({}, logins)] == [("b",), ("c",)]


@pytest.mark.parametrize("busy", ["", "b is busy (load 34 on 2 cores)"])
def test_a_busy_node_does_not_excuse_a_node_that_no_other_lets_in(busy: str) -> None:
    fields = {"code": 255, "why": "lab@x: Permission denied (publickey)."}
    (finding,) = judge([], [ConnectionTest("a", node, fields, busy) for node in ("b", "c")])
    assert finding.nodes == ("a",)
    assert "busy" not in finding.message


def test_a_shell_that_cannot_read_the_command_of_mpirun_is_named_at_its_node() -> None:
    fields = {"code": 1, "why": "fish: Unsupported use of '='.", "shell": True}
    met = [ConnectionTest("a", node, fields) for node in ("b", "c")]
    judged_findings = judge([], met)
    assert [f.nodes for f in judged_findings] == [("b",), ("c",)]
    assert judged_findings[0].message == (
        "The login shell of b cannot run mpirun's commands: fish: Unsupported use of '='."
    )
    assert judged_findings[0].fix is Fix.INSTALL_CLUSTER_KEY


@pytest.mark.parametrize(
    ("reason", "code", "busy", "message"),
    [
        ("it did not end within 21 s", 124, "b is busy (load 34 on 2 cores)", "b is busy (load 34"),
        ("Connection timed out during banner exchange", 255, "b is busy (load 9 on 4 cores)", "9"),
        ("it did not end within 21 s", 124, "a is busy (load 20 on 2 cores)", "a is busy (load 20"),
        ("it did not end within 5 s", 124, "", "cannot log in to b by SSH"),
        ("Connection timed out", 255, "", "cannot log in to b by SSH"),
        ("connect to host b port 22: Connection timed out", 255, "", "Connection timed out"),
    ],
)
@pytest.mark.parametrize("others_fail", [True, False])
def test_a_late_login_blames_the_load_and_no_key(
    reason: str, code: int, busy: str, message: str, others_fail: bool
) -> None:
    fields = {"code": code, "why": reason}
    login_tests = [ConnectionTest("a", "b", fields, busy)]
    login_tests.append(
        ConnectionTest("a", "c", fields if others_fail else {"code": 0, "why": ""}, busy)
    )
    finding = judge([], login_tests)[0]
    assert message in finding.message or (others_fail and not busy)
    assert "key" not in finding.remedy
    assert finding.fix is Fix.LEAVE_OUT


@pytest.mark.parametrize(
    ("load", "cores", "login_s", "times"),
    [
        (0.0, 2, 0.2, 1.0),
        (2.0, 2, 0.5, 1.0),
        (6.0, 2, 0.5, 3.0),
        (34.0, 2, 0.5, 5.0),
        (34.0, 64, 0.5, 1.0),
        (0.1, 8, 4.0, 4.0),
        (0.1, 8, 60.0, 5.0),
    ],
)
def test_the_limits_follow_the_load_of_a_node_and_its_last_login(
    load: float, cores: int, login_s: float, times: float
) -> None:
    limits = PreflightLimits()
    node_limits = limits.for_node(login_s, load, cores)
    assert node_limits.total_s / limits.total_s == times


@pytest.mark.parametrize(
    ("load", "cores", "message"),
    [(34.0, 2, "load 34 on 2 cores"), (3.9, 2, ""), (4.0, 2, "load 4 on 2 cores"), (34.0, 64, "")],
)
def test_the_load_is_named_where_it_is_a_reason(load: float, cores: int, message: str) -> None:
    fields = {"load": load, "cores": cores}
    assert busy_load(fields) == message
    target = PreflightTarget("b", Placement("b", 1), *["/x"] * 6, is_head=True, library="mpi4py")
    replies = {"imports": None, "load": fields}
    node = NodePreflight(target.placement, target, replies=replies)
    (finding,) = (f for f in judge_replies(node) if "MPI for Python" in f.message)
    assert (f"b is busy ({message})" in finding.message) is bool(message)


@pytest.mark.parametrize(
    ("check", "node", "code", "is_said"),
    [
        (PYTHON, "b", 1, False),
        (PYTHON, "b", 255, False),
        (PYTHON, "a", 1, True),
        (PYTORCH, "b", 1, True),
        (DATA_ROOT, "b", 255, True),
        (PYTHON, "b", 0, False),
    ],
)
def test_a_login_fails_with_the_python_that_filters_its_commands(
    check: str, node: str, code: int, is_said: bool
) -> None:
    fields = {"code": code, "why": "sh: 1: python: not found" if code else "", "shell": False}
    nodes = tuple(
        NodePreflight(
            Placement(name, 1),
            PreflightTarget(name, Placement(name, 1), *["/x"] * 6, is_head=name == "a"),
        )
        for name in ("a", "b")
    )
    nodes[0].connection_results = [{"kind": "ssh", "node": "b", "facts": fields}]
    job = JobPreflight("", "", nodes)
    job.findings.append(BY_NAME[check].finding(Result("It does not start."), node))
    (judge_logins,) = BY_NAME[SSH_BETWEEN_NODES].job_judges
    assert bool(list(judge_logins(job))) is is_said


DENIED, NO_PYTHON = (255, "lab@x: Permission denied (publickey)."), (1, "sh: no python")


@pytest.mark.parametrize(
    ("logins", "excused_nodes", "blamed_nodes"),
    [
        ({"b": DENIED, "c": DENIED}, ("b",), ["a"]),
        ({"b": DENIED, "c": DENIED, "d": DENIED}, ("b", "c"), ["a"]),
        ({"b": DENIED, "c": DENIED}, (), ["a"]),
        ({"b": NO_PYTHON, "c": NO_PYTHON}, ("b", "c"), []),
        ({"b": NO_PYTHON, "c": DENIED}, ("b",), ["c"]),
        ({"b": DENIED, "c": (0, "")}, ("b",), []),
        ({"b": DENIED}, ("b",), []),
    ],
)
def test_the_head_is_blamed_for_a_fault_at_all_nodes(
    logins: dict[str, tuple[int, str]], excused_nodes: tuple[str, ...], blamed_nodes: list[str]
) -> None:
    login_tests = [
        ConnectionTest("a", node, {"code": code, "why": reason})
        for node, (code, reason) in logins.items()
    ]
    findings = login_findings(login_tests, [], excused_nodes)
    assert [node for f in findings for node in f.nodes or ()] == blamed_nodes


def test_each_word_of_ssh_has_its_own_sentence() -> None:
    for reason, message_part, fix in (
        ("Host key verification failed.", "another host key", Fix.LEAVE_OUT),
        ("connect to host b port 22: Connection refused", "refuses", Fix.LEAVE_OUT),
        ("Bad owner or permissions on config", "Bad owner", Fix.INSTALL_CLUSTER_KEY),
    ):
        (finding,) = findings({}, {"b": (255, reason), "c": (0, "")})
        assert message_part in finding.message
        assert finding.fix is fix
    (finding,) = findings({}, {"b": (127, "No such file or directory"), "c": (0, "")})
    assert finding.nodes == ("a",)
    assert "has no ssh" in finding.message
