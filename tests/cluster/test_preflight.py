"""The preflight check of real nodes: it finds each seeded fault by name, and no other.

Faults of different nodes are seeded side by side, because all are to be found at once; those that
touch what is between the nodes come alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from backend.base.errors import Cancelled
from backend.records.base.layout import NodeHome
from backend.records.jobs.config import JobConfig
from backend.records.jobs.job_file import parse_job
from backend.records.jobs.placement import Placement
from backend.records.nodes.preflight import Fix, Preflight, PreflightFinding, fixed_placement
from backend.services.preflight import checks, names
from backend.services.preflight import run as preflight_run
from backend.services.preflight.context import read_ssh_settings
from backend.ssh.interface import Shell, Unreachable
from tests.cluster.faults import SEEDED_FAULTS
from tests.cluster.faults_of_machine import GPUS_FILE, two_gpus
from tests.cluster.faults_to_repair import jobs_for_their_owner_alone, ssh_settings_missing
from tests.cluster.ready import ReadyCluster
from tests.fakes.nvml.driver import build
from tests.integration.tiny import raw_job

NODES = ("node1", "node2", "node3")
slow = pytest.mark.slow
FAULT_GROUPS: tuple[dict[str, str], ...] = (
    {"node1": "cluster_key_readable_by_all", "node2": "torch_missing", "node3": "program_changed"},
    {"node1": "cluster_key_missing", "node2": "left_over_process", "node3": "mpirun_missing"},
    {"node1": "ssh_client_missing", "node2": "clock_ahead", "node3": "home_noexec"},
    {"node1": "ssh_settings_not_writable", "node2": "prted_missing", "node3": "agent_stopped"},
    {"node1": "another_open_mpi", "node2": "sshd_wants_another_user", "node3": "not_set_up"},
    {"node1": "shared_memory_tiny", "node2": "host_key_changed", "node3": "mpirun_not_executable"},
    {"node1": "data_root_unmounted", "node2": "powered_off", "node3": "python_missing"},
    {"node1": "few_open_files", "node2": "cable_pulled", "node3": "another_folder_there"},
    {"node1": "horovod_missing", "node2": "sshd_hangs", "node3": "home_disk_full"},
    {
        "node1": "environment_of_another_user",
        "node2": "desktop_key_removed",
        "node3": "program_missing",
    },
    {"node1": "data_root_read_only", "node2": "out_of_service", "node3": "another_torch"},
    {"node2": "cluster_key_not_listed", "node3": "authorized_keys_writable_by_all"},
    {"node2": "address_gone", "node3": "sshd_stopped"},
    {
        "node1": "cluster_key_damaged",
        "node2": "data_root_not_seen_then",
        "node3": "old_program",
    },
    {"node2": "firewall"},
    {"node2": "mtu_too_large"},
    {"node2": "data_root_full"},
)
REPAIRED_FAULTS: tuple[dict[str, tuple[str, ...]], ...] = (
    {
        "node1": ("cluster_key_readable_by_all",),
        "node2": ("program_missing",),
        "node3": ("left_over_process",),
    },
    {
        "node1": ("agent_stopped",),
        "node2": ("cluster_key_not_listed",),
        "node3": ("not_set_up",),
    },
    {"node1": ("cluster_key_missing",), "node3": ("old_program",)},
    {
        "node1": ("ssh_settings_not_writable",),
        "node2": ("out_of_service", "data_root_not_seen_then"),
        "node3": ("program_changed",),
    },
    {
        "node1": ("horovod_missing", "prted_missing"),
        "node2": ("another_torch", "mpirun_missing"),
        "node3": ("torch_missing", "mpirun_not_executable", "address_gone"),
    },
    {
        "node1": ("another_open_mpi", "cluster_key_damaged"),
        "node2": ("environment_of_another_user",),
    },
)
"""Faults that the program fixes, several of a node at once."""
GPU_FAULTS = ("gpu_not_there", "gpu_busy", "gpu_lost")


def config(*nodes: str, processes: int = 2) -> JobConfig:
    placement = [{"node": name, "processes": processes} for name in nodes or NODES]
    return _parsed(placement)


def _parsed(placement: Sequence[object]) -> JobConfig:
    parsed = parse_job(raw_job(placement=placement))
    assert parsed.config is not None, parsed.errors
    return parsed.config


def failed_checks(result: Preflight) -> set[tuple[str, tuple[str, ...]]]:
    return {(finding.check, finding.nodes) for finding in result.findings if not finding.ok}


def only_finding(result: Preflight, check: str) -> PreflightFinding:
    (finding,) = (f for f in result.findings if f.check == check and not f.ok)
    return finding


def assert_in_order(ready: ReadyCluster, result: Preflight) -> None:
    assert result.succeeded, result.blocking_findings
    assert not failed_checks(result)
    assert result.smaller_placement == ()
    assert not list(ready.cluster.share.glob("jobs/.*")), "something was left behind"


def test_every_fault_is_seeded_and_there_are_thirty() -> None:
    seeded = [name for batch in FAULT_GROUPS for name in batch.values()]
    assert sorted([*seeded, *GPU_FAULTS]) == sorted(SEEDED_FAULTS)
    assert len(SEEDED_FAULTS) >= 30
    # Too many processes, reservations, data, and scripts (test_script_packages_on_nodes) have tests
    # of their own; MPI for Python is imported as Horovod is.
    other_checks = {names.PROCESSES, names.MPI4PY, names.SCRIPT_PYTHON, names.DATA}
    other_checks |= {names.RESERVATION}
    reported_checks = {check for f in SEEDED_FAULTS.values() for check in f.checks}
    assert reported_checks == set(checks.BY_NAME) - other_checks


def test_a_cluster_in_order_passes(ready_cluster: ReadyCluster) -> None:
    result = ready_cluster.services.preflight.run(config())
    assert_in_order(ready_cluster, result)
    passed_checks = {finding.check for finding in result.findings}
    skipped_checks = {names.GPUS, names.MPI4PY, names.SCRIPT_PYTHON, names.DATA}
    assert passed_checks == set(checks.BY_NAME) - skipped_checks


@slow
def test_unusual_but_working_nodes_block_no_start(ready_cluster: ReadyCluster) -> None:
    """Docker's bridges of one address on all nodes, a distant node, and one that is busy."""
    for node in ready_cluster.cluster.nodes.values():
        node.add_docker_bridge()
    ready_cluster["node3"].delay(40)
    ready_cluster["node1"].run(["sh", "-c", "(while :; do :; done) >/dev/null 2>&1 </dev/null &"])
    result = ready_cluster.services.preflight.run(config())
    assert result.succeeded, result.blocking_findings


@pytest.mark.parametrize(
    "batch",
    [
        pytest.param(
            batch,
            marks=() if "host_key_changed" in batch.values() else slow,
            id="+".join(batch.values()),
        )
        for batch in FAULT_GROUPS
    ],
)
def test_faults_are_found_by_name_and_no_other(
    ready_cluster: ReadyCluster, batch: dict[str, str]
) -> None:
    with ExitStack() as stack:
        expected = set()
        for node, name in batch.items():
            stack.enter_context(SEEDED_FAULTS[name].seed(ready_cluster, node))
            expected |= SEEDED_FAULTS[name].expected(node)
        result = ready_cluster.services.preflight.run(config())
    assert failed_checks(result) == expected, [
        finding.message for finding in result.blocking_findings
    ]
    for finding in result.blocking_findings:
        assert finding.message.endswith(".")
        assert finding.remedy
    assert not list(ready_cluster.cluster.share.glob("jobs/.*"))


@slow
def test_busy_lost_and_missing_gpus_are_found(ready_cluster: ReadyCluster, tmp_path: Path) -> None:
    library = build(tmp_path, f'STATE_FILE="{GPUS_FILE}"') / "libnvidia-ml.so.1"
    uuids = [f"GPU-0000000{index}-aaaa-bbbb-cccc-dddddddddddd" for index in (0, 1)]
    job = _parsed([{"node": name, "gpus": uuids} for name in NODES])
    preflight = ready_cluster.services.preflight
    with ExitStack() as stack:
        for node in NODES:
            stack.enter_context(two_gpus(ready_cluster, node, library))
        first_result = preflight.run(job)
        assert failed_checks(first_result) == set(), [
            finding.message for finding in first_result.findings
        ]
        for node, name in zip(NODES, GPU_FAULTS, strict=True):
            stack.enter_context(SEEDED_FAULTS[name].seed(ready_cluster, node))
        result = preflight.run(job)
    assert failed_checks(result) == {(names.GPUS, (node,)) for node in NODES}
    busy = next(finding for finding in result.blocking_findings if finding.nodes == ("node2",))
    assert "GPU 1 of node2 is in use by root" in busy.message
    assert "holds 18 GiB" in busy.message
    assert result.smaller_placement == tuple(Placement(name, gpus=(uuids[0],)) for name in NODES)


@slow
def test_a_smaller_set_that_would_pass_is_offered(ready_cluster: ReadyCluster) -> None:
    preflight = ready_cluster.services.preflight
    ready_cluster["node2"].stop_sshd()
    result = preflight.run(config())
    assert [placement.node for placement in result.smaller_placement] == ["node1", "node3"]
    finding = only_finding(result, names.SSH)
    assert finding.fix is Fix.LEAVE_OUT
    (error,) = preflight.fix_all((finding,)).values()
    assert "cannot fix this" in error.message
    assert preflight.run(config("node1", "node3")).succeeded


def test_the_program_fixes_at_least_twenty_of_the_faults() -> None:
    fault_names = [name for batch in REPAIRED_FAULTS for names in batch.values() for name in names]
    assert len(fault_names) == len(set(fault_names))
    fault_count = len(fault_names) + len(("jobs_for_their_owner_alone",))
    assert fault_count >= 20, "counted without those for which the job goes elsewhere"


@slow
@pytest.mark.parametrize(
    "batch", REPAIRED_FAULTS, ids=lambda batch: "+".join(itertools.chain(*batch.values()))
)
def test_the_program_fixes_repairable_faults(
    ready_cluster: ReadyCluster, batch: dict[str, tuple[str, ...]]
) -> None:
    preflight = ready_cluster.services.preflight
    with ExitStack() as stack:
        expected = set()
        for node, names in batch.items():
            for name in names:
                stack.enter_context(SEEDED_FAULTS[name].seed(ready_cluster, node))
                expected |= SEEDED_FAULTS[name].expected(node)
        first_result = preflight.run(config())
        assert failed_checks(first_result) == expected, [
            finding.message for finding in first_result.blocking_findings
        ]
        assert preflight.fix_all((*first_result.blocking_findings, *first_result.warnings)) == {}
        second_result = preflight.run(config())
        assert second_result.succeeded, second_result.blocking_findings
        assert failed_checks(second_result) == set()


def test_only_fixed_nodes_are_checked_again(ready_cluster: ReadyCluster) -> None:
    preflight = ready_cluster.services.preflight
    with (
        SEEDED_FAULTS["agent_stopped"].seed(ready_cluster, "node2"),
        SEEDED_FAULTS["agent_stopped"].seed(ready_cluster, "node3"),
    ):
        first_result = preflight.run(config())
        finding = next(f for f in first_result.blocking_findings if f.nodes == ("node2",))
        assert not preflight.fix_all((finding,))
        # Had it been asked, its sshd would be the fault.
        ready_cluster["node3"].stop_sshd()
        second_result = preflight.check_again(config(), first_result, ("node2",))
    assert failed_checks(second_result) == {(names.AGENT, ("node3",))}
    assert second_result.nodes == NODES
    assert [node_finding.node for node_finding in second_result.smaller_placement] == [
        "node1",
        "node2",
    ]


@slow
def test_the_preflight_check_writes_missing_ssh_settings(ready_cluster: ReadyCluster) -> None:
    with ssh_settings_missing(ready_cluster, "node1"):
        result = ready_cluster.services.preflight.run(config())
    assert result.succeeded, result.blocking_findings
    messages = [finding.message for finding in result.findings if finding.check == names.SETTINGS]
    assert messages == ["The SSH settings of mpirun on node1 were outdated and have been updated."]


@slow
def test_a_connection_that_breaks_while_settings_are_read_is_reported(
    ready_cluster: ReadyCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = 0

    def break_second_read(shell: Shell, home: NodeHome) -> list[bytes]:
        nonlocal reads
        reads += 1
        if reads == 2:
            raise Unreachable("The connection to node1 broke off.", "Connect again.")
        return read_ssh_settings(shell, home)

    monkeypatch.setattr(preflight_run, "read_ssh_settings", break_second_read)
    result = ready_cluster.services.preflight.run(config())
    assert failed_checks(result) == {(names.SETTINGS, ("node1",))}


@slow
def test_jobs_that_their_owner_kept_for_himself_are_shared(ready_cluster: ReadyCluster) -> None:
    preflight = ready_cluster.services.preflight
    with jobs_for_their_owner_alone(ready_cluster):
        first_result = preflight.run(config())
        assert {
            (finding.check, finding.nodes, finding.fix)
            for finding in first_result.blocking_findings
        } == {(names.DATA_ROOT, (node,), Fix.SHARE_JOBS) for node in NODES}
        assert first_result.smaller_placement == ()
        assert not preflight.fix_all(first_result.blocking_findings[:1])
        assert preflight.run(config()).succeeded
        root, jobs = ready_cluster.cluster.share, ready_cluster.cluster.share / "jobs"
        assert jobs.stat().st_mode == root.stat().st_mode


@slow
def test_another_gpu_is_taken_where_one_is_free(
    ready_cluster: ReadyCluster, tmp_path: Path
) -> None:
    library = build(tmp_path, f'STATE_FILE="{GPUS_FILE}"') / "libnvidia-ml.so.1"
    free_gpu, requested_gpu = (f"GPU-0000000{i}-aaaa-bbbb-cccc-dddddddddddd" for i in (0, 1))
    job = _parsed([{"node": name, "gpus": [requested_gpu]} for name in NODES])
    preflight = ready_cluster.services.preflight
    with ExitStack() as stack:
        for node in NODES:
            stack.enter_context(two_gpus(ready_cluster, node, library))
        for node, name in zip(NODES, GPU_FAULTS, strict=True):
            stack.enter_context(SEEDED_FAULTS[name].seed(ready_cluster, node))
        placement = job.placement
        for finding in preflight.run(job).blocking_findings:
            assert finding.fix is Fix.TAKE_FREE_GPUS
            placement = fixed_placement(placement, finding)
        assert placement == tuple(Placement(name, gpus=(free_gpu,)) for name in NODES)
        second_result = preflight.run(replace(job, placement=placement))
    assert second_result.succeeded, second_result.blocking_findings


@slow
def test_an_unknown_node_and_too_many_processes_are_faults(ready_cluster: ReadyCluster) -> None:
    preflight = ready_cluster.services.preflight
    result = preflight.run(config("node1", "gpu99", processes=100))
    assert failed_checks(result) == {(names.PROCESSES, ("node1",)), (names.NODE, ("gpu99",))}
    finding = only_finding(result, names.PROCESSES)
    smaller_placement = fixed_placement(config("node1", processes=100).placement, finding)
    assert result.smaller_placement == smaller_placement
    assert preflight.run(replace(config(), placement=smaller_placement)).succeeded


def test_a_preflight_can_be_cancelled(ready_cluster: ReadyCluster) -> None:
    with pytest.raises(Cancelled):
        ready_cluster.services.preflight.run(config(), is_cancelled=lambda: True)
    assert not list(ready_cluster.cluster.share.glob("jobs/.*"))


@slow
def test_a_job_on_this_computer_alone_waits_for_no_node(ready_cluster: ReadyCluster) -> None:
    result = ready_cluster.services.preflight.run(config("this-computer"))
    assert_in_order(ready_cluster, result)
    assert names.SSH not in {finding.check for finding in result.findings}
