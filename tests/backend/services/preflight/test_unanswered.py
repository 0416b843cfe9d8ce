"""A check that was not made has not passed: it is named, and it prevents the start."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from backend.base.errors import BackendError
from backend.cli.commands.job.run import preflight_lines
from backend.provisioning import cluster_key
from backend.provisioning.code_archive import bundle_name
from backend.records.jobs.job_file import parse_job
from backend.records.jobs.placement import Placement
from backend.records.nodes.preflight import Fix, Preflight
from backend.records.queue.entry import QueueEntry
from backend.records.queue.scheduling import Reservation
from backend.services.preflight import checks, names, node_probe
from backend.services.preflight import run as preflight_run
from backend.services.preflight.context import (
    VARIABLE,
    JobPreflight,
    NodePreflight,
    PreflightContext,
    PreflightLimits,
)
from backend.services.preflight.run import PreflightRun
from backend.ssh.interface import Unreachable
from tests.backend.services.preflight.test_without_horovod import INFO, node
from tests.conftest import LogWatch
from tests.fakes.mounted_root import mounted
from tests.integration.tiny import raw_job
from tests.waiting import LIMIT_S
from widgets.jobs.preflight import preflight_text

GOOD: dict[str, Any] = {
    "data_root": {"there": True, "seen": True, "why": "", "free": 10**12},
    "home": {"free": 10**12, "why": "", "noexec": False},
    "program": {"digest": bundle_name()},
    "agent": {"code": 0, "why": ""},
    "imports": {"code": 0, "torch": "2.13.0", "cuda": "", "mpi4py": "4.0.0"},
    "mpirun": {"code": 0, "out": "mpirun (Open MPI) 5.0.11", "why": "", "daemon": ""},
    "leftovers": {"code": 0, "orphans": []},
    "shared_memory": {"free": 10**12, "why": ""},
    "limits": {"open_files": 1024, "hard": 4096},
    "script_python": {"code": 0, "why": ""},
}
NODES = ("gpu1", "gpu2")
LIMITS = PreflightLimits()
BROKEN = Unreachable("The connection broke.", "Connect again.")


class Nodes:
    """Two nodes in good order; ``answers`` changes those of gpu2, ``hangs`` is never over."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.answers: dict[str, Any] = {}
        self.hangs = False
        self.probe_fault: Exception | None = None
        self.meet_fault: BackendError | None = None
        self.is_over = threading.Event()
        self.has_begun = False
        monkeypatch.setattr(node_probe, "listen", lambda *_: ({"port": 1}, 0.0))
        monkeypatch.setattr(node_probe, "probe_node", self.probe)
        monkeypatch.setattr(node_probe, "connect_to_peers", self.meet)
        monkeypatch.setattr(cluster_key, "write_settings", lambda *_: None)

    def open_shell(self, name: str) -> Any:
        if self.hangs and name == "gpu2":
            self.is_over.wait()
            raise BROKEN
        do_nothing: Any = lambda *_, **__: None  # noqa: E731
        return SimpleNamespace(name=name, close=do_nothing, run=do_nothing, read=lambda *_: b"")

    def probe(self, shell: Any, python: str, request: Any) -> dict[str, Any]:
        if shell.name == "gpu2" and self.probe_fault is not None:
            raise self.probe_fault
        (self.root / request["folder"] / request["node"]).write_text(request["nonce"])
        return {**GOOD, **(self.answers if shell.name == "gpu2" else {})}

    def meet(self, shell: Any, python: str, request: Any, limits: Any) -> list[dict[str, Any]]:
        if self.meet_fault is not None:
            raise self.meet_fault
        fields = {"bytes": 10**9, "seconds": 1.0, "connected": True, "why": "", "code": 0}
        kinds = ["route", *(["ssh"] if request["ssh"] else [])]
        return [{"kind": k, "node": n, "facts": fields} for k in kinds for n in request["peers"]]

    def now(self) -> float:
        """The limits pass as soon as every node that answers has done so."""
        if not self.hangs or not self.has_begun:
            self.has_begun = True
            return 0.0
        (gpu1,) = (n for n in self.run.job.target_nodes if n.name == "gpu1")
        return LIMITS.total_s + 1 if gpu1.finished_event.is_set() else LIMITS.listening_s

    def check(self) -> Preflight:
        entries = [
            replace(node(name, horovod=True), info=replace(INFO, data_root=str(self.root)))
            for name in NODES
        ]
        placement = [{"node": name, "processes": 2} for name in NODES]
        raw = raw_job(placement=placement, strategy={"name": "ddp"})
        config = parse_job(raw).config
        assert config is not None
        cluster: Any = SimpleNamespace(list=lambda: entries, open_shell=self.open_shell, peers=list)
        context = PreflightContext(
            mounted(self.root), cluster, cluster, lambda: "/usr/bin/python3", now=self.now
        )
        # So that the checks of a script are made, too.
        config = replace(config, python="/opt/python")
        self.run = PreflightRun(context, config, 0)
        return self.run.run(lambda: False)


@pytest.fixture
def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Nodes]:
    fake_nodes = Nodes(tmp_path, monkeypatch)
    yield fake_nodes
    fake_nodes.is_over.set()


def passed_checks(preflight: Preflight) -> set[str]:
    return {f.check for f in preflight.findings if f.ok}


def test_nodes_in_good_order_pass_every_check(nodes: Nodes) -> None:
    preflight = nodes.check()
    assert preflight.succeeded, preflight.blocking_findings
    assert passed_checks(preflight) == {*checks.BY_NAME} - {names.GPUS, names.HOROVOD, names.DATA}
    assert preflight.unchecked_pairs == ()


@pytest.mark.parametrize(
    "error", ["", "meet_fault", "probe_fault"], ids=["all met", "none met", "none probed"]
)
def test_listeners_end_with_the_check_and_not_before(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch, error: str
) -> None:
    end_calls: queue.Queue[tuple[str, str, int, int, bool]] = queue.Queue()
    is_over = False

    def open_shell(name: str) -> Any:
        def end(argv: list[str], **_: object) -> None:
            listener = json.loads(argv[-1])
            end_calls.put((name, argv[-2], listener["port"], listener["visitors"], is_over))

        return SimpleNamespace(name=name, close=lambda: None, read=lambda *_: b"", run=end)

    def judge(job: JobPreflight) -> tuple[tuple[()], tuple[()]]:
        nonlocal is_over
        is_over = True
        return (), ()

    monkeypatch.setattr(preflight_run, "judge", judge)
    monkeypatch.setattr(nodes, "open_shell", open_shell)
    if error:
        setattr(nodes, error, BROKEN)
    nodes.check()
    results = sorted(end_calls.get(timeout=LIMIT_S) for _ in NODES)
    assert results == [(name, "dismiss", 1, 1, True) for name in NODES]


def test_a_silent_node_blocks_in_every_view(
    nodes: Nodes, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes.hangs = True
    preflight = nodes.check()
    message = "gpu2 has not answered within 25 s."
    assert [f.message for f in preflight.blocking_findings] == [message]
    assert VARIABLE in preflight.blocking_findings[0].remedy
    assert [f.node for f in preflight.smaller_placement] == ["gpu1"]
    document = preflight.to_dict()
    assert not document["passed"]
    assert {"check": "SSH", "node": "gpu2"} in document["unchecked"]
    text = "\n".join(preflight_lines(preflight))
    assert message in text
    assert "1 problem prevents the job from starting" in text
    assert "Not checked: " in text
    assert message in preflight_text.report_text(preflight, None)
    assert preflight_text.heading_text(preflight) == "1 problem prevents this job from starting"
    # Whatever was green needed no answer of gpu2.
    assert passed_checks(preflight) == {names.NETWORK, names.PROCESSES, names.RESERVATION}


PROBES = {check.probe.name: check.probe for check in checks.CHECKS if check.probe is not None}


@pytest.mark.parametrize("probe", PROBES)
@pytest.mark.parametrize(
    "late_answer", [None, {"code": 124}, {}], ids=["no answer", "late", "empty"]
)
def test_no_check_is_green_without_the_answer_to_its_probe(
    nodes: Nodes, probe: str, late_answer: Any, log_watch: LogWatch
) -> None:
    if late_answer == {} and probe not in ("imports", "gpus", "leftovers"):
        log_watch.expect("gpu2 could not be judged")
    nodes.answers = {probe: late_answer}
    preflight = nodes.check()
    probe_checks = {check.name: check for check in checks.CHECKS if check.probe is PROBES[probe]}
    assert passed_checks(preflight) & probe_checks.keys() == set()
    # No GPU is asked for. Slow imports delay a start, and do not prevent it.
    findings = [
        f for f in (*preflight.blocking_findings, *preflight.warnings) if f.check in probe_checks
    ]
    assert [f.nodes for f in findings] == [("gpu2",)] * (probe != "gpus")
    never_block = ("gpus", "leftovers", *(["imports"] if late_answer != {} else []))
    assert preflight.succeeded == (probe in never_block)


@pytest.mark.parametrize(
    ("question", "answer", "check", "unknown"),
    [
        ("leftovers", None, names.LEFTOVERS, {names.LEFTOVERS}),
        ("leftovers", {"code": 1, "orphans": [], "why": "No module"}, names.LEFTOVERS, set()),
        ("imports", None, names.MPI4PY, {names.PYTHON, names.PYTORCH, names.MPI4PY}),
        ("imports", {"code": 124}, names.MPI4PY, {names.PYTHON, names.PYTORCH, names.MPI4PY}),
    ],
)
def test_an_unanswered_minor_check_is_a_warning_and_not_green(
    nodes: Nodes, question: str, answer: Any, check: str, unknown: set[str]
) -> None:
    nodes.answers = {question: answer}
    preflight = nodes.check()
    assert (preflight.succeeded, [f.check for f in preflight.warnings]) == (True, [check])
    assert passed_checks(preflight) & {check, *unknown} == set()


def _python_broken(nodes: Nodes) -> None:
    nodes.answers = {"imports": {"code": 1, "failed": "python", "why": "gone"}}


def _root_not_seen(nodes: Nodes) -> None:
    nodes.answers = {"data_root": {"there": False, "seen": False, "why": "", "free": None}}


def _probe_ended(nodes: Nodes) -> None:
    nodes.probe_fault = BROKEN


def _probe_broken(nodes: Nodes) -> None:
    nodes.probe_fault = KeyError("facts")


def _unmet(nodes: Nodes) -> None:
    nodes.meet_fault = BROKEN


@pytest.mark.parametrize(
    ("happens", "not_green"),
    [
        (_python_broken, {names.PYTORCH, names.MPI4PY}),
        (_root_not_seen, {names.DISK, names.AGENT, names.LEFTOVERS}),
        (_probe_ended, {names.OPEN_MPI, names.AGENT, names.SHARED_MEMORY, names.DISK}),
        (_probe_broken, {names.OPEN_MPI, names.AGENT, names.SHARED_MEMORY, names.DISK}),
        (_unmet, {names.ROUTE, names.SSH_BETWEEN_NODES}),
    ],
)
def test_a_check_hidden_by_another_fault_is_not_green(
    nodes: Nodes,
    happens: Callable[[Nodes], None],
    not_green: set[str],
    log_watch: LogWatch,
) -> None:
    happens(nodes)
    if nodes.probe_fault is not None and nodes.probe_fault is not BROKEN:
        log_watch.expect("The check of gpu2 failed")
    preflight = nodes.check()
    assert preflight.blocking_findings
    assert passed_checks(preflight) & not_green == set()
    assert {check for check, _ in preflight.unchecked_pairs} | {
        f.check for f in preflight.blocking_findings
    } >= not_green


def test_a_second_check_of_a_part_replaces_its_passed_checks(nodes: Nodes) -> None:
    full_preflight = nodes.check()
    nodes.hangs, nodes.has_begun = True, False
    merged_preflight = full_preflight.after_part(nodes.check(), ("gpu2",))
    assert [f.message for f in merged_preflight.blocking_findings] == [
        "gpu2 has not answered within 25 s."
    ]
    assert names.AGENT not in passed_checks(merged_preflight)
    nodes.hangs = False
    nodes.is_over.set()
    healed = merged_preflight.after_part(nodes.check(), ("gpu2",))
    assert (healed.succeeded, healed.unchecked_pairs) == (True, ())
    assert passed_checks(healed) == passed_checks(full_preflight)


@pytest.mark.parametrize(
    ("text", "whole_s", "inspection_s"),
    [("", 25.0, 12.0), ("50", 50.0, 24.0), (" 12.5 ", 12.5, 6.0)],
)
def test_slow_nodes_get_more_time_in_every_part(
    text: str, whole_s: float, inspection_s: float
) -> None:
    limits = PreflightLimits.from_environment({VARIABLE: text})
    assert (limits.total_s, limits.inspection_s) == (whole_s, inspection_s)
    assert limits.listening_s + limits.connection_s < limits.total_s


@pytest.mark.parametrize("text", ["soon", "0", "-3", "nan", "inf", "1e9"])
def test_an_invalid_time_limit_is_refused(text: str) -> None:
    with pytest.raises(BackendError, match=f"{VARIABLE} is “{text}”"):
        PreflightLimits.from_environment({VARIABLE: text})


@pytest.mark.parametrize(
    ("reserved_gpus", "gpu_text", "fix"),
    [
        (("GPU-b",), "GPU 1 of gpu03 is", Fix.LEAVE_OUT),
        (("GPU-a", "GPU-b"), "GPU 0 and GPU 1 of gpu03 are", Fix.NONE),
        (("GPU-c",), "", Fix.NONE),
    ],
)
def test_the_gpus_that_another_job_reserved_are_named_and_can_be_left_out(
    reserved_gpus: tuple[str, ...], gpu_text: str, fix: Fix
) -> None:
    begin = datetime.now(UTC)
    entry = QueueEntry("t", "thesis", 1, (Placement("gpu03", 0, reserved_gpus),), "m", user="anna")
    reservation = Reservation(entry, begin, begin + timedelta(hours=1))
    gpus = [{"uuid": uuid, "index": index} for index, uuid in enumerate(("GPU-a", "GPU-b"))]
    placement = Placement("gpu03", 0, ("GPU-a", "GPU-b"))
    node = NodePreflight(placement, replies={"gpus": {"gpus": gpus}})
    job = JobPreflight("", "", (node,), reservations=(reservation,))
    findings = list(checks.BY_NAME[names.RESERVATION].node_findings(node, job, None))
    messages = [finding.message.partition(" reserved for ") for finding in findings]
    assert [message[0] for message in messages] == ([gpu_text] if gpu_text else [])
    assert all(message[2].startswith("“thesis” by anna from ") for message in messages)
    assert [(f.fix, f.gpus, f.blocks) for f in findings] == (
        [(fix, reserved_gpus, False)] if gpu_text else []
    )
