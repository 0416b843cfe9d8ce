"""The command that starts a run: one spelling for Open MPI 4.1 and 5.0, and nothing of a user's in
what a shell will see."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.base.errors import BackendError
from backend.launch.placement import require_capacity, this_computer
from backend.node.run.launch_command import command, environment, shell_line
from backend.records.jobs.config import JobConfig
from backend.records.jobs.job_file import parse_job
from backend.records.jobs.launch import Launch, RankLauncher, RankPlan, rank_plans

HOSTS = {"this-computer": "127.0.0.1", "a": "10.77.0.1", "b": "10.77.0.2"}
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


def launch_of(config: JobConfig, hosts: Mapping[str, str] = HOSTS, **changes: Any) -> Launch:
    launcher = RankLauncher("/venv/bin/mpirun", networks="10.77.0.0/24")
    values: dict[str, Any] = {
        "python": "/venv/bin/python",
        "job_folder": "/data/jobs/7",
        "code_root": "/code",
        "ssh_config": "/data/nodes/ssh_config",
        "launcher": launcher,
        **changes,
    }
    return Launch("7", 3, config, rank_plans(config, hosts), "", "", "", **values)


def command_of(config: JobConfig, **launcher: Any) -> tuple[str, ...]:
    launch = launch_of(config)
    return command(replace(launch, launcher=replace(launch.launcher, **launcher)))


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
    assert command_of(LOCAL_JOB, version=version) == (*ONE_NODE.split(), *GUARD)


@pytest.mark.parametrize(
    ("devices", "is_crowded", "yields"),
    [
        ({"processes": 2}, True, True),
        ({"processes": 2}, False, True),
        ({"gpus": ["GPU-a", "GPU-b"]}, True, True),
        ({"gpus": ["GPU-a", "GPU-b"]}, False, False),
    ],
)
def test_waiting_ranks_yield_where_another_rank_needs_the_core(
    devices: dict[str, Any], is_crowded: bool, yields: bool
) -> None:
    argv = command_of(job([{"node": "this-computer", **devices}]), is_crowded=is_crowded)
    assert ("--mca mpi_yield_when_idle 1" in " ".join(argv)) is yields


CLUSTER = job([{"node": "a", "processes": 2}, {"node": "b", "processes": 4}])


@pytest.mark.parametrize(("version", "keepalive"), [(4, "--mca"), (5, "--prtemca")])
def test_m04_several_nodes_differ_between_the_versions_in_the_keepalive_alone(
    version: int, keepalive: str
) -> None:
    assert command_of(CLUSTER, version=version) == (
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
        *["-x", "RINGMASTER_RUN", "-x", "PYTHONPATH", "-x", "PYTHONUTF8"],
        *[
            "-x",
            "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS",
            "-x",
            "MASTER_PORT",
            "-x",
            "RINGMASTER_RUN_SECRET",
        ],
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
    argv = command_of(config)
    assert argv[argv.index("oob_tcp_keepalive_time") + 1] == seconds


def test_nodes_that_meet_by_address_are_all_given_to_mpirun() -> None:
    argv = command_of(CLUSTER, networks="10.1.0.5/32,10.2.0.7")
    assert argv[argv.index("btl_tcp_if_include") + 1] == "10.1.0.5/32,10.2.0.7/32"
    with pytest.raises(BackendError, match="not a subnet"):
        command_of(CLUSTER, networks="10.1.0.5/32,")


def test_one_process_alone_needs_no_mpirun() -> None:
    config = job([{"node": "this-computer", "processes": 1}], strategy={"name": "alone"})
    assert command_of(config, path="") == GUARD


@pytest.mark.parametrize(
    ("config", "rank_module"),
    [
        (LOCAL_JOB, "backend.training.rank"),
        (CLUSTER, "backend.training.rank"),
        (LOCAL_JOB, "backend.training.script_rank"),
        (
            job([{"node": "this-computer", "processes": 1}], strategy={"name": "alone"}),
            "backend.training.rank",
        ),
    ],
)
@pytest.mark.parametrize("version", [4, 5])
def test_a_record_that_stored_its_command_still_yields_it(
    config: JobConfig, rank_module: str, version: int
) -> None:
    launcher = RankLauncher("/venv/bin/mpirun", version, "10.77.0.0/24")
    launch = launch_of(config, launcher=launcher, rank_module=rank_module)
    raw = launch.to_dict()
    for key in ("launcher", "job_folder", "code_root", "rank_module"):
        del raw[key]
    argv = [*command(launch), "--module", rank_module]

    old_launch = Launch.from_dict({**raw, "argv": argv, "environment": environment(launch)})

    assert command(old_launch) == command(launch)
    assert environment(old_launch) == environment(launch)
    assert old_launch.rank_module == rank_module


def test_horovods_own_watch_speaks_after_the_guards() -> None:
    for limit in (5.0, 600.0, 86_400.0):
        config = job([{"node": "this-computer", "processes": 2}], stall_limit_s=limit)
        variables = environment(launch_of(config))
        waits_s = limit + max(3.0, 0.1 * limit)
        assert int(variables["HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"]) > waits_s + 30
        assert variables["RINGMASTER_RUN"] == "7/3"


@pytest.mark.parametrize(
    ("networks", "ssh_config"),
    [
        ("10.0.0.0/24; touch /tmp/bad", "/data/ssh_config"),
        ("$(reboot)", "/data/ssh_config"),
        ("10.0.0.0/24", "/data/my folder/ssh_config"),
        ("10.0.0.0/24", "/data/$(reboot)"),
        ("10.0.0.0/24", "/data/a;b"),
        ("10.0.0.0/24", "-oProxyCommand=reboot"),
    ],
)
def test_f57_a_network_with_more_than_an_address_and_a_path_is_refused(
    networks: str, ssh_config: str
) -> None:
    with pytest.raises(BackendError):
        command(launch_of(CLUSTER, ssh_config=ssh_config, launcher=RankLauncher(networks=networks)))


@given(st.text())
def test_f57_no_address_carries_an_option_a_list_or_shell_text(host: str) -> None:
    try:
        argv = command(launch_of(CLUSTER, {"a": host, "b": "10.0.0.2"}))
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
    launch = launch_of(config, job_folder="/data/" + text)
    argv = command(launch)
    assert argv[argv.index("--job") + 1] == "/data/" + text
    assert [part for part in argv if "/data/" in part] == ["/data/" + text]
    assert "MINE" not in argv
    assert shlex.split(shell_line(argv, environment(launch)))[-len(argv) :] == list(argv)


def test_m04_the_command_as_shown_runs_when_it_is_pasted() -> None:
    line = shell_line(["/bin/sh", "-c", 'printf %s "$A"'], {"A": "it's; $(touch bad)"})
    done = subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, check=True)
    assert done.stdout == "it's; $(touch bad)"


def test_ranks_are_numbered_node_by_node_as_mpirun_does() -> None:
    assert rank_plans(CLUSTER, HOSTS) == (
        RankPlan(0, 0, "a", "10.77.0.1"),
        RankPlan(1, 1, "a", "10.77.0.1"),
        RankPlan(2, 0, "b", "10.77.0.2"),
        RankPlan(3, 1, "b", "10.77.0.2"),
        RankPlan(4, 2, "b", "10.77.0.2"),
        RankPlan(5, 3, "b", "10.77.0.2"),
    )


def test_each_rank_has_the_gpu_that_was_chosen_for_it() -> None:
    config = job([{"node": "this-computer", "gpus": ["GPU-b", "GPU-a"]}])
    require_capacity(config, [this_computer(8, ("GPU-a", "GPU-b", "GPU-c"))])
    ranks = rank_plans(config, HOSTS)
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
        require_capacity(job(placement), [this_computer(2)])
    assert str(caught.value) == message
