"""Jobs across nodes that use Debian's own Open MPI 4.1, with the very Horovod of the others."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from backend.base.errors import BackendError
from backend.datastore.nodes import files as node_files
from backend.provisioning.provisioner import ALREADY_INSTALLED
from backend.records.base.atomic_files import read_json
from backend.records.jobs.config import JobConfig
from backend.records.jobs.job_file import parse_job
from backend.records.jobs.view import JobView
from backend.records.nodes.entry import NodeEntry, SetUp
from backend.records.nodes.preflight import Preflight
from backend.records.nodes.provisioning_options import SetUpOptions
from backend.services.preflight import names
from installers.console import Progress
from tests.cluster import debian_mpi
from tests.cluster.ready import ReadyCluster
from tests.cluster.runs import (
    continue_on_other_nodes,
    job_starter,
    kill_process_of_run,
    makes_steps,
    require_cut_node_is_named,
    stock_library,
)
from tests.cluster.thief import gets_no_shell_and_no_files, lets_a_run_begin_and_end
from tests.fakes.mounted_root import mounted
from tests.integration.tiny import raw_job

pytestmark = pytest.mark.slow

NODES = ("node1", "node2", "node3")
BUNDLED_VERSION, DEBIAN_VERSION = "5.0.11", "4.1.4"
SYSTEM_MPI = SetUpOptions(system_mpi=True)


@pytest.fixture(scope="module")
def entries_before(ready_cluster: ReadyCluster) -> dict[str, NodeEntry]:
    """The nodes as they were set up with the Open MPI that Ringmaster brings."""
    return {name: ready_cluster.entry(name) for name in NODES}


@pytest.fixture(scope="module")
def stocked(
    ready_cluster: ReadyCluster,
    entries_before: dict[str, NodeEntry],
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[ReadyCluster]:
    """Set up with Debian's Open MPI for the tests in here, and as it was for all others."""
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        packages = debian_mpi.provide(Progress(sys.stderr))
    nodes = list(ready_cluster.cluster.nodes.values())
    with ThreadPoolExecutor(len(nodes)) as pool:
        list(pool.map(lambda node: debian_mpi.install(node, packages), nodes))
        set_up(ready_cluster, NODES, SYSTEM_MPI)
        stock_library(ready_cluster, tmp_path_factory.mktemp("sources"))
        yield ready_cluster
        updates = set_up(ready_cluster, NODES, SetUpOptions())
        assert updates
        assert all(u.steps[4].message.endswith(f"{ALREADY_INSTALLED}.") for u in updates)
        list(pool.map(lambda node: debian_mpi.purge(node, packages), nodes))
    assert {name: ready_cluster.entry(name) for name in NODES}.keys() == entries_before.keys()


@pytest.fixture
def run(stocked: ReadyCluster) -> Iterator[Callable[..., JobView]]:
    """Starts a job on nodes; what a test leaves running is stopped."""
    with job_starter(stocked) as start:
        yield start


def set_up(ready: ReadyCluster, names: Sequence[str], options: SetUpOptions) -> list[SetUp]:
    latest_updates: dict[str, SetUp] = {}
    results = ready.services.provisioning.set_up(
        names, lambda update: latest_updates.__setitem__(update.node, update), options=options
    )
    for result in results.values():
        assert isinstance(result, NodeEntry), result
    return list(latest_updates.values())


def config() -> JobConfig:
    parsed = parse_job(raw_job(placement=[{"node": name, "processes": 1} for name in NODES]))
    assert parsed.config is not None
    return parsed.config


def run_preflight(ready: ReadyCluster) -> Preflight:
    return ready.services.preflight.run(config())


def test_a_job_trains_on_debians_open_mpi_stops_and_goes_on_on_two_others(
    stocked: ReadyCluster, run: Callable[..., JobView]
) -> None:
    installation = stocked.entry("node3").installation
    assert installation is not None
    assert (installation.mpirun, installation.mpi_version) == (debian_mpi.MPIRUN, DEBIAN_VERSION)
    result = run_preflight(stocked)
    assert result.succeeded, result.blocking_findings
    assert names.OPEN_MPI in {finding.check for finding in result.findings if finding.ok}

    view = run(*NODES)
    assert makes_steps(view)
    assert (view.world_size, view.error) == (3, None)
    launched = read_json(stocked.services.data_root.job(view.id).launch)
    assert launched["launcher"]["path"] == debian_mpi.MPIRUN
    continue_on_other_nodes(stocked, view)


@pytest.mark.parametrize(
    ("victim", "name"), [("rank_bootstrap.py", "node2"), ("mpirun", "node1"), ("orted", "node2")]
)
def test_f02_f03_a_run_names_any_killed_process_and_leaves_nothing(
    stocked: ReadyCluster, run: Callable[..., JobView], victim: str, name: str
) -> None:
    error = kill_process_of_run(stocked, run("node1", "node2"), name, victim)
    if victim == "rank_bootstrap.py":
        assert (error.rank, error.node) == (1, "node2")
        assert "signal 9" in error.message


def test_f08_a_permanently_cut_node_is_named_and_holds_nothing(
    stocked: ReadyCluster, run: Callable[..., JobView]
) -> None:
    require_cut_node_is_named(stocked, run("node1", "node2"))


def test_f62_a_limited_key_starts_only_the_daemon_of_debian(
    stocked: ReadyCluster, run: Callable[..., JobView]
) -> None:
    gets_no_shell_and_no_files(stocked)
    lets_a_run_begin_and_end(stocked, run)


def test_a_missing_daemon_is_found_before_the_start(stocked: ReadyCluster) -> None:
    stocked["node2"].run_as_root("mv", "/usr/bin/orted", "/usr/bin/orted.gone")
    try:
        (finding,) = run_preflight(stocked).blocking_findings
    finally:
        stocked["node2"].run_as_root("mv", "/usr/bin/orted.gone", "/usr/bin/orted")
    assert (finding.check, finding.nodes) == (names.OPEN_MPI, ("node2",))
    assert "/usr/bin/orted on node2 cannot be executed" in finding.message


@pytest.mark.parametrize("changed_nodes", [("node3",), ("node1",)])
def test_nodes_of_both_versions_are_named_in_one_sentence_each_and_made_alike(
    stocked: ReadyCluster, entries_before: dict[str, NodeEntry], changed_nodes: Sequence[str]
) -> None:
    """A node that was off while the others were set up with their own Open MPI."""
    root = mounted(stocked.cluster.share)
    for name in changed_nodes:
        node_files.write_entry(root, entries_before[name])
    result = run_preflight(stocked)
    findings = [finding for finding in result.blocking_findings if finding.check == names.OPEN_MPI]
    assert findings == list(result.blocking_findings)
    versions = {
        name: BUNDLED_VERSION if name in changed_nodes else DEBIAN_VERSION for name in NODES
    }
    other_nodes = [name for name in NODES[1:] if versions[name] != versions["node1"]]
    assert [finding.nodes for finding in findings] == [(name,) for name in other_nodes]
    for finding, name in zip(findings, other_nodes, strict=True):
        assert finding.message == (
            f"Open MPI is {versions['node1']} on node1 and {versions[name]} on {name}; "
            "the nodes of a job need the same."
        )
        assert finding.remedy == f"Set up node1 and {name} again together."
    assert not stocked.services.preflight.fix_all(findings[:1])
    assert {stocked.entry(name).has_own_mpi for name in NODES} == {True}
    assert run_preflight(stocked).succeeded


def test_a_node_of_another_version_is_refused_at_set_up(stocked: ReadyCluster) -> None:
    result = stocked.services.provisioning.set_up(("node3",), lambda update: None)["node3"]
    assert isinstance(result, BackendError)
    assert result.message.startswith(
        f"node3 has Open MPI {BUNDLED_VERSION} and node1 has {DEBIAN_VERSION};"
    )
    assert run_preflight(stocked).succeeded


def test_packages_are_fetched_once(stocked: ReadyCluster) -> None:
    output = io.StringIO()
    packages = debian_mpi.provide(Progress(output))
    assert debian_mpi.PACKAGE in debian_mpi.names(packages)
    assert output.getvalue() == ""
