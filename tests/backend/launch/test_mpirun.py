"""The command that starts a run: one spelling for Open MPI 4.1 and 5.0, and nothing of a user's in
what a shell will see."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.base.errors import BackendError
from backend.launch import mpirun
from backend.launch.mpirun import Network
from backend.launch.placement import NodeResources, rank_plans, this_computer
from backend.records.jobs.config import JobConfig, parse_job
from backend.records.jobs.launch import RankPlan

GUARD = (
    "/venv/bin/python",
    "-m",
    "backend.node.run.rank_guard",
    "--job",
    "/data/jobs/7",
    "--run",
    "3",
)


def job(placement: Sequence[dict[str, Any]], **settings: Any) -> JobConfig:
    parsed = parse_job(
        {
            "name": "n",
            "model": "m",
            "dataset": "d",
            "loader": "l",
            "epochs": 1,
            "batch_size": 1,
            "optimizer": {"name": "sgd", "lr": 0.1},
            "placement": list(placement),
            **settings,
        }
    )
    assert parsed.config is not None, parsed.errors
    return parsed.config


def command(config: JobConfig, ranks: Sequence[RankPlan], **options: Any) -> tuple[str, ...]:
    values: dict[str, Any] = {
        "job_folder": "/data/jobs/7",
        "run": 3,
        "python": "/venv/bin/python",
        "mpirun": "/venv/bin/mpirun",
        **options,
    }
    return mpirun.command(config, ranks, **values)


LOCAL_JOB = job([{"node": "this-computer", "processes": 2}])
ONE_NODE = (
    "/venv/bin/mpirun --bind-to none --map-by slot --mca pml ob1 --mca btl ^openib "
    "--mca mpi_yield_when_idle 1 "
    "-x RINGMASTER_RUN -x PYTHONPATH -x PYTHONUTF8 -x HOROVOD_STALL_SHUTDOWN_TIME_SECONDS "
    "-x MASTER_PORT -x RINGMASTER_RUN_SECRET "
    "-np 2 -H 127.0.0.1:2"
)


@pytest.mark.parametrize("version", [4, 5])
def test_m04_this_computer_has_one_command_for_both_versions(version: int) -> None:
    ranks = rank_plans(LOCAL_JOB, [this_computer(2)])
    argv = command(LOCAL_JOB, ranks, version=version, cores={"this-computer": 2})
    assert argv == (*ONE_NODE.split(), *GUARD)


@pytest.mark.parametrize(
    ("gpus", "cores", "yields"), [(0, 1, True), (0, 64, True), (2, 1, True), (2, 2, False)]
)
def test_waiting_ranks_yield_where_another_rank_needs_the_core(
    gpus: int, cores: int, yields: bool
) -> None:
    names = [f"GPU-{number}" for number in range(gpus)]
    devices = {"gpus": names} if gpus else {"processes": 2}
    config = job([{"node": "this-computer", **devices}])
    ranks = rank_plans(config, [this_computer(cores, tuple(names))])
    argv = command(config, ranks, cores={"this-computer": cores})
    assert ("--mca mpi_yield_when_idle 1" in " ".join(argv)) is yields


CLUSTER = job([{"node": "a", "processes": 2}, {"node": "b", "processes": 4}])
RESOURCES = [NodeResources("a", "10.77.0.1", 8), NodeResources("b", "10.77.0.2", 8)]


@pytest.mark.parametrize(("version", "keepalive"), [(4, "--mca"), (5, "--prtemca")])
def test_m04_several_nodes_differ_between_the_versions_in_the_keepalive_alone(
    version: int, keepalive: str
) -> None:
    argv = command(
        CLUSTER,
        rank_plans(CLUSTER, RESOURCES),
        version=version,
        cores={"a": 8, "b": 8},
        network=Network("10.77.0.0/24", "/data/nodes/ssh_config"),
    )
    assert argv == (
        *[
            "/venv/bin/mpirun",
            "--bind-to",
            "none",
            "--map-by",
            "slot",
            "--mca",
            "pml",
            "ob1",
            "--mca",
            "btl",
            "^openib",
        ],
        *["--mca", "mpi_yield_when_idle", "1"],
        *["--mca", "btl_tcp_if_include", "10.77.0.0/24"],
        *["--mca", "btl_tcp_port_min_v4", "32768", "--mca", "btl_tcp_port_range_v4", "28232"],
        *("--mca", "plm_rsh_args", "-F /data/nodes/ssh_config"),
        *(keepalive, "oob_tcp_keepalive_time", "20"),
        *(keepalive, "oob_tcp_keepalive_intvl", "10"),
        *(keepalive, "oob_tcp_keepalive_probes", "4"),
        *[
            "-x",
            "RINGMASTER_RUN",
            "-x",
            "PYTHONPATH",
            "-x",
            "PYTHONUTF8",
            "-x",
            "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS",
        ],
        *["-x", "MASTER_PORT", "-x", "RINGMASTER_RUN_SECRET"],
        *["-np", "6", "-H", "10.77.0.1:2,10.77.0.2:4"],
        *GUARD,
    )


@pytest.mark.parametrize(
    ("processes", "strategy", "on_failure", "seconds"),
    [
        (1, {"name": "downpour", "servers": 1}, {}, "0"),
        (1, {"name": "downpour", "servers": 1}, {"shrink": True}, "0"),
        (1, {"name": "downpour", "servers": 2}, {}, "20"),
        (2, {"name": "downpour", "servers": 2}, {}, "0"),
        (2, {"name": "ddp"}, {}, "20"),
        (2, {"name": "ddp"}, {"retries": 1}, "5"),
        (2, {"name": "ddp"}, {"shrink": True}, "5"),
    ],
)
def test_mpirun_watches_nodes_without_which_the_job_cannot_continue(
    processes: int, strategy: dict[str, Any], on_failure: dict[str, Any], seconds: str
) -> None:
    placement = [{"node": "a", "processes": processes}, {"node": "b", "processes": 4}]
    config = job(placement, strategy=strategy, on_failure=on_failure)
    argv = command(
        config, rank_plans(config, RESOURCES), network=Network("10.77.0.0/24", "/data/s")
    )
    assert argv[argv.index("oob_tcp_keepalive_time") + 1] == seconds


def test_nodes_that_meet_by_address_are_all_given_to_mpirun() -> None:
    network = Network("10.1.0.5/32,10.2.0.7", "/data/ssh_config")
    argv = command(CLUSTER, rank_plans(CLUSTER, RESOURCES), network=network)
    assert argv[argv.index("btl_tcp_if_include") + 1] == "10.1.0.5/32,10.2.0.7/32"
    with pytest.raises(BackendError, match="not a subnet"):
        command(CLUSTER, rank_plans(CLUSTER, RESOURCES), network=Network("10.1.0.5/32,", "/data/s"))


def test_one_process_alone_needs_no_mpirun() -> None:
    config = job([{"node": "this-computer", "processes": 1}], strategy={"name": "alone"})
    assert command(config, rank_plans(config, [this_computer(2)]), mpirun="") == GUARD


def test_horovods_own_watch_speaks_after_the_guards() -> None:
    for limit in (5.0, 600.0, 86_400.0):
        config = job([{"node": "this-computer", "processes": 2}], stall_limit_s=limit)
        variables = mpirun.environment(config, job_id="7", run=3, code_root="/code")
        waits_s = limit + max(3.0, 0.1 * limit)
        assert int(variables["HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"]) > waits_s + 30
        assert variables["RINGMASTER_RUN"] == "7/3"


@pytest.mark.parametrize(
    "network",
    [
        Network("10.0.0.0/24; touch /tmp/bad", "/data/ssh_config"),
        Network("$(reboot)", "/data/ssh_config"),
        Network("10.0.0.0/24", "/data/my folder/ssh_config"),
        Network("10.0.0.0/24", "/data/$(reboot)"),
        Network("10.0.0.0/24", "/data/a;b"),
        Network("10.0.0.0/24", "-oProxyCommand=reboot"),
    ],
)
def test_f57_a_network_with_more_than_an_address_and_a_path_is_refused(
    network: Network,
) -> None:
    with pytest.raises(BackendError):
        command(CLUSTER, rank_plans(CLUSTER, RESOURCES), network=network)


@given(st.text())
def test_f57_no_address_carries_an_option_a_list_or_shell_text(host: str) -> None:
    resources = [NodeResources("a", host, 8), NodeResources("b", "10.0.0.2", 8)]
    network = Network("10.0.0.0/24", "/data/ssh_config")
    try:
        argv = command(CLUSTER, rank_plans(CLUSTER, resources), network=network)
    except BackendError:
        return
    assert argv[argv.index("-H") + 1] == f"{host}:2,10.0.0.2:4"
    assert not set(host) & set(" ,;$()`'\"\\\n&|<>*?~#=")
    assert not host.startswith("-")


@given(st.text(st.characters(exclude_characters="\0", codec="utf-8")))
def test_f57_text_of_users_is_byte_exact_and_only_in_arguments(
    text: str,
) -> None:
    placement = [{"node": "this-computer", "processes": 2}]
    config = job(placement, name="j", notes=text, environment={"MINE": text})
    argv = command(config, rank_plans(config, [this_computer(2)]), job_folder="/data/" + text)
    assert argv[argv.index("--job") + 1] == "/data/" + text
    assert [part for part in argv if "/data/" in part] == ["/data/" + text]
    assert "MINE" not in argv
    variables = mpirun.environment(config, job_id="7", run=1, code_root="/code")
    assert shlex.split(mpirun.shell_line(argv, variables))[-len(argv) :] == list(argv)


def test_m04_the_command_as_shown_runs_when_it_is_pasted() -> None:
    line = mpirun.shell_line(["/bin/sh", "-c", 'printf %s "$A"'], {"A": "it's; $(touch bad)"})
    done = subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, check=True)
    assert done.stdout == "it's; $(touch bad)"


def test_ranks_are_numbered_node_by_node_as_mpirun_does() -> None:
    assert rank_plans(CLUSTER, RESOURCES) == (
        RankPlan(0, 0, "a", "10.77.0.1"),
        RankPlan(1, 1, "a", "10.77.0.1"),
        RankPlan(2, 0, "b", "10.77.0.2"),
        RankPlan(3, 1, "b", "10.77.0.2"),
        RankPlan(4, 2, "b", "10.77.0.2"),
        RankPlan(5, 3, "b", "10.77.0.2"),
    )


def test_each_rank_has_the_gpu_that_was_chosen_for_it() -> None:
    config = job([{"node": "this-computer", "gpus": ["GPU-b", "GPU-a"]}])
    ranks = rank_plans(config, [this_computer(8, ("GPU-a", "GPU-b", "GPU-c"))])
    assert [plan.gpu for plan in ranks] == ["GPU-b", "GPU-a"]


@pytest.mark.parametrize(
    ("placement", "message"),
    [
        (
            [{"node": "this-computer", "processes": 9}],
            "this-computer has 2 cores, enough for 8 processes; the job asks for 9.",
        ),
        (
            [{"node": "gpu7", "processes": 1}],
            "Unknown node “gpu7”. Known nodes: this-computer.",
        ),
        (
            [{"node": "this-computer", "gpus": ["GPU-x"]}],
            "GPU GPU-x does not exist on this-computer, which has no GPU.",
        ),
    ],
)
def test_f51_an_impossible_placement_is_reported_with_its_numbers(
    placement: list[dict[str, Any]], message: str
) -> None:
    with pytest.raises(BackendError) as caught:
        rank_plans(job(placement), [this_computer(2)])
    assert str(caught.value) == message
