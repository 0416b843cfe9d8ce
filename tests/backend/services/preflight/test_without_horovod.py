"""A node without Horovod trains by DDP; what needs Horovod there is said once, with a way out."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from backend.provisioning.code_archive import bundle_name
from backend.records.jobs.config import parse_job
from backend.records.jobs.placement import THIS_COMPUTER
from backend.records.nodes.entry import NodeAddress, NodeEntry, NodeInfo, NodeInstallation
from backend.records.nodes.preflight import Fix, PreflightFinding
from backend.records.nodes.provisioning_options import SetUpOptions
from backend.services.preflight import checks, names
from backend.services.preflight import run as preflight_run
from backend.services.preflight.context import PreflightContext
from backend.services.preflight.fixes import PreflightFixes
from backend.services.preflight.run import PreflightRun
from tests.fakes.mounted_root import mounted
from tests.integration.tiny import raw_job

FACTS = NodeInfo(
    *("gpu", "Debian 12", "x86_64", "6.1", "mai", "/home/mai/.ringmaster"),
    data_root="/lab/ring",
    cores=8,
)


def node(name: str, *, horovod: bool) -> NodeEntry:
    environment = f"/e/{horovod}/bin"
    there = NodeInstallation(
        *(f"{environment}/python", f"{environment}/mpirun", "5.0.11", environment),
        *(f"/b/{bundle_name()}", "/c"),
        limits_key=True,
        without_horovod=not horovod,
    )
    return NodeEntry(name, NodeAddress(name), FACTS, there, f"10.77.0.{name[-1]}/24")


HAS, LACKS = node("gpu1", horovod=True), node("gpu2", horovod=False)
LACKS_TOO = node("gpu3", horovod=False)


def run(strategy: str, *entries: NodeEntry, here: bool = False) -> PreflightRun:
    names = [entry.name for entry in entries] + [THIS_COMPUTER] * here
    placement = [{"node": name, "processes": 2 if strategy != "alone" else 1} for name in names]
    config = parse_job(raw_job(placement=placement, strategy={"name": strategy})).config
    assert config is not None
    cluster: Any = SimpleNamespace(list=lambda: entries)
    context = PreflightContext(
        mounted(Path("/lab/ring")), cluster, cluster, lambda: "/usr/bin/python3"
    )
    return PreflightRun(context, config, 0)


def findings(preflight: PreflightRun) -> list[PreflightFinding]:
    """What is said without asking, besides that the nodes were not asked."""
    preflight.collect_nodes()
    found, _ = checks.judge(preflight.job)
    return [one for one in found if not one.ok and one.check != names.NODE]


def known(preflight: PreflightRun) -> list[tuple[str, tuple[str, ...]]]:
    return [(one.check, one.nodes) for one in findings(preflight)]


@pytest.mark.parametrize(
    ("strategy", "entries", "lacking"),
    [
        ("allreduce", [LACKS], ["gpu2"]),
        ("allreduce", [LACKS, LACKS_TOO], ["gpu2", "gpu3"]),
        ("allreduce", [HAS, LACKS], ["gpu2"]),
        ("allreduce", [HAS], []),
        ("ddp", [HAS, LACKS], ["gpu2"]),
        ("ddp", [LACKS, LACKS_TOO], []),
        ("ddp", [HAS], []),
        ("alone", [LACKS], []),
    ],
)
def test_each_node_that_lacks_required_horovod_has_one_finding(
    strategy: str, entries: list[NodeEntry], lacking: list[str]
) -> None:
    assert known(run(strategy, *entries)) == [(names.HOROVOD, (name,)) for name in lacking]


def test_the_way_out_is_ddp_or_a_set_up_with_horovod() -> None:
    (needed,) = findings(run("allreduce", LACKS))
    assert needed.message == "gpu2 has no Horovod, which the strategy allreduce needs."
    assert needed.remedy == "Choose the strategy DDP, or set gpu2 up with Horovod."
    (mixed,) = findings(run("ddp", HAS, LACKS))
    assert mixed.message == (
        "gpu2 has no Horovod and gpu1 has it; the nodes of a job need the same."
    )
    assert mixed.remedy == "Choose other nodes, or set gpu2 up with Horovod."


def test_this_computer_is_judged_by_the_environment_that_trains(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(preflight_run, "has_horovod", lambda: False)
    (needed,) = findings(run("allreduce", here=True))
    assert (needed.check, needed.nodes, needed.fix) == (names.HOROVOD, (THIS_COMPUTER,), Fix.NONE)
    assert needed.remedy.endswith("or run ./installers/run doctor.")
    assert known(run("ddp", here=True)) == []


@pytest.mark.parametrize(
    ("strategy", "entry", "library"),
    [
        ("allreduce", HAS, "horovod"),
        ("allreduce", LACKS, "mpi4py"),
        ("ddp", HAS, "mpi4py"),
        ("alone", HAS, ""),
    ],
)
def test_the_node_imports_modules_of_the_strategy_and_no_missing_horovod(
    strategy: str, entry: NodeEntry, library: str
) -> None:
    preflight = run(strategy, entry)
    preflight.collect_nodes()
    request = preflight.request(preflight.job.nodes[0])
    assert (request["library"], "mpirun" in request["asked"]) == (library, bool(library))


def test_a_module_that_cannot_be_imported_is_named_and_has_a_fix() -> None:
    preflight = run("ddp", LACKS)
    preflight.collect_nodes()
    imports = {"code": 0, "torch": "2.13.0", "failed": "mpi4py", "why": "RuntimeError: no MPI"}
    preflight.job.nodes[0].replies = {"imports": imports}
    (found,) = checks.judge_replies(preflight.job.nodes[0])
    assert found.message == "MPI for Python cannot be imported on gpu2: RuntimeError: no MPI."
    assert (found.check, found.fix) == (names.MPI4PY, Fix.SET_UP_AGAIN)


@pytest.mark.parametrize(
    ("strategy", "unused"), [("allreduce", {names.MPI4PY}), ("ddp", {names.HOROVOD})]
)
def test_only_checked_parts_are_reported_as_in_order(strategy: str, unused: set[str]) -> None:
    preflight = run(strategy, HAS)
    preflight.collect_nodes()
    _, unanswered = checks.judge(preflight.job)
    assert {names.HOROVOD, names.MPI4PY} - {check for check, _ in unanswered} == unused


def test_the_repair_sets_the_node_up_with_horovod_and_keeps_its_other_options() -> None:
    entries = {entry.name: entry for entry in (HAS, LACKS)}
    asked: list[tuple[tuple[str, ...], SetUpOptions]] = []

    def set_up(names: Any, on_change: Any, options: SetUpOptions) -> dict[str, NodeEntry]:
        asked.append((names, options))
        return {}

    cluster: Any = SimpleNamespace(entry=entries.__getitem__, list=lambda: (HAS, LACKS))
    service: Any = SimpleNamespace(set_up=set_up, authorize_all=None)
    context = PreflightContext(mounted(Path("/lab/ring")), cluster, service, lambda: "")
    fixer = PreflightFixes(context)
    missing = findings(run("allreduce", LACKS))
    assert fixer.fix(missing, lambda update: None) == {}
    assert asked == [(("gpu2",), SetUpOptions(limits_key=True))]
