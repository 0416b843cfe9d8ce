"""A node without Horovod trains by DDP; what needs Horovod there is said once, with a way out."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from backend.provisioning.code_archive import bundle_name
from backend.records.jobs.job_file import parse_job
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

INFO = NodeInfo(
    *("gpu", "Debian 12", "x86_64", "6.1", "mai", "/home/mai/.ringmaster"),
    data_root="/lab/ring",
    cores=8,
)


def node(name: str, *, horovod: bool) -> NodeEntry:
    environment = f"/e/{horovod}/bin"
    installation = NodeInstallation(
        *(f"{environment}/python", f"{environment}/mpirun", "5.0.11", environment),
        *(f"/b/{bundle_name()}", "/c"),
        limits_key=True,
        without_horovod=not horovod,
    )
    return NodeEntry(name, NodeAddress(name), INFO, installation, f"10.77.0.{name[-1]}/24")


WITH_HOROVOD, WITHOUT_HOROVOD = node("gpu1", horovod=True), node("gpu2", horovod=False)
ALSO_WITHOUT_HOROVOD = node("gpu3", horovod=False)


def run(strategy: str, *entries: NodeEntry, is_local: bool = False) -> PreflightRun:
    names = [entry.name for entry in entries] + [THIS_COMPUTER] * is_local
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
    all_findings, _ = checks.judge(preflight.job)
    return [f for f in all_findings if not f.ok and f.check != names.NODE]


def checks_and_nodes(preflight: PreflightRun) -> list[tuple[str, tuple[str, ...]]]:
    return [(f.check, f.nodes) for f in findings(preflight)]


@pytest.mark.parametrize(
    ("strategy", "entries", "lacking"),
    [
        ("allreduce", [WITHOUT_HOROVOD], ["gpu2"]),
        ("allreduce", [WITHOUT_HOROVOD, ALSO_WITHOUT_HOROVOD], ["gpu2", "gpu3"]),
        ("allreduce", [WITH_HOROVOD, WITHOUT_HOROVOD], ["gpu2"]),
        ("allreduce", [WITH_HOROVOD], []),
        ("ddp", [WITH_HOROVOD, WITHOUT_HOROVOD], ["gpu2"]),
        ("ddp", [WITHOUT_HOROVOD, ALSO_WITHOUT_HOROVOD], []),
        ("ddp", [WITH_HOROVOD], []),
        ("alone", [WITHOUT_HOROVOD], []),
    ],
)
def test_each_node_that_lacks_required_horovod_has_one_finding(
    strategy: str, entries: list[NodeEntry], lacking: list[str]
) -> None:
    assert checks_and_nodes(run(strategy, *entries)) == [
        (names.HOROVOD, (name,)) for name in lacking
    ]


def test_the_way_out_is_ddp_or_a_set_up_with_horovod() -> None:
    (finding,) = findings(run("allreduce", WITHOUT_HOROVOD))
    assert finding.message == "gpu2 has no Horovod, which the strategy allreduce needs."
    assert finding.remedy == "Choose the strategy DDP, or set gpu2 up with Horovod."
    (mixed,) = findings(run("ddp", WITH_HOROVOD, WITHOUT_HOROVOD))
    assert mixed.message == (
        "gpu2 has no Horovod and gpu1 has it; the nodes of a job need the same."
    )
    assert mixed.remedy == "Choose other nodes, or set gpu2 up with Horovod."


def test_this_computer_is_judged_by_the_environment_that_trains(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(preflight_run, "has_horovod", lambda: False)
    (finding,) = findings(run("allreduce", is_local=True))
    assert (finding.check, finding.nodes, finding.fix) == (
        names.HOROVOD,
        (THIS_COMPUTER,),
        Fix.NONE,
    )
    assert finding.remedy.endswith("or run ./installers/run doctor.")
    assert checks_and_nodes(run("ddp", is_local=True)) == []


@pytest.mark.parametrize(
    ("strategy", "entry", "library"),
    [
        ("allreduce", WITH_HOROVOD, "horovod"),
        ("allreduce", WITHOUT_HOROVOD, "mpi4py"),
        ("ddp", WITH_HOROVOD, "mpi4py"),
        ("alone", WITH_HOROVOD, ""),
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
    preflight = run("ddp", WITHOUT_HOROVOD)
    preflight.collect_nodes()
    imports = {"code": 0, "torch": "2.13.0", "failed": "mpi4py", "why": "RuntimeError: no MPI"}
    preflight.job.nodes[0].replies = {"imports": imports}
    (finding,) = checks.judge_replies(preflight.job.nodes[0])
    assert finding.message == "MPI for Python cannot be imported on gpu2: RuntimeError: no MPI."
    assert (finding.check, finding.fix) == (names.MPI4PY, Fix.SET_UP_AGAIN)


@pytest.mark.parametrize(
    ("strategy", "unused"), [("allreduce", {names.MPI4PY}), ("ddp", {names.HOROVOD})]
)
def test_only_checked_parts_are_reported_as_in_order(strategy: str, unused: set[str]) -> None:
    preflight = run(strategy, WITH_HOROVOD)
    preflight.collect_nodes()
    _, unanswered = checks.judge(preflight.job)
    assert {names.HOROVOD, names.MPI4PY} - {check for check, _ in unanswered} == unused


def test_the_repair_sets_the_node_up_with_horovod_and_keeps_its_other_options() -> None:
    entries = {entry.name: entry for entry in (WITH_HOROVOD, WITHOUT_HOROVOD)}
    requests: list[tuple[tuple[str, ...], SetUpOptions]] = []

    def set_up(names: Any, on_change: Any, options: SetUpOptions) -> dict[str, NodeEntry]:
        requests.append((names, options))
        return {}

    cluster: Any = SimpleNamespace(
        entry=entries.__getitem__, list=lambda: (WITH_HOROVOD, WITHOUT_HOROVOD)
    )
    service: Any = SimpleNamespace(set_up=set_up, authorize_all=None)
    context = PreflightContext(mounted(Path("/lab/ring")), cluster, service, lambda: "")
    fixer = PreflightFixes(context)
    missing = findings(run("allreduce", WITHOUT_HOROVOD))
    assert fixer.fix(missing, lambda update: None) == {}
    assert requests == [(("gpu2",), SetUpOptions(limits_key=True))]
