"""A cluster takes of this machine only what it gives back, however its owner ends."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.cluster import processor
from tests.cluster.cluster import Cluster, check_rights
from tests.cluster.commands import ClusterError
from tests.cluster.slot import Slot, loops_below, mounts_below
from tests.waiting import wait_for

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).resolve().parents[2]
PROGRAM = """
    import signal
    import sys
    from pathlib import Path
    from tests.cluster.cluster import Cluster

    # A shell that starts the tests in the background makes all below it ignore this.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with Cluster(Path(sys.argv[1]), nodes=("solo",), cores=0.5) as cluster:
        cluster["solo"].run(["sh", "-c", "sleep 1000 >/dev/null 2>&1 &"])
        print(cluster.slot.number, flush=True)
        sys.stdin.read()
"""


def traces(slot: Slot, folder: Path) -> list[str]:
    """Return the traces of a cluster: links, namespaces, mounts, loop devices and so on."""
    traces = [*slot.links(), *slot.namespaces(), *mounts_below(folder), *loops_below(folder)]
    traces += map(str, processor.groups(slot.namespace("")))
    for process in Path("/proc").glob("[0-9]*"):
        try:
            argv = (process / "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if os.fsencode(folder) in argv and int(process.name) != os.getpid():
            traces.append(f"process {process.name}")
    return traces + [str(disk) for disk in folder.rglob("*.ext4")]


@contextmanager
def other_run(folder: Path) -> Iterator[tuple[subprocess.Popen[str], Slot]]:
    """Another test run with a cluster of its own."""
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), str(folder)],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as program:
        assert program.stdout is not None
        yield program, Slot(int(program.stdout.readline()))


def is_released(slot: Slot) -> bool:
    """The slot is free: neither owner nor guard holds it."""
    with slot.lock.open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def guard_of(program: subprocess.Popen[str]) -> psutil.Process:
    children = psutil.Process(program.pid).children()
    (guard,) = (child for child in children if "tests.cluster.slot" in child.cmdline())
    return guard


def test_two_clusters_stand_side_by_side_and_one_goes_without_a_trace(
    cluster: Cluster, tmp_path: Path
) -> None:
    with Cluster(tmp_path, nodes=("solo",)) as second_cluster:
        assert second_cluster.slot != cluster.slot
        assert second_cluster.ssh("solo", "hostname").stdout == "solo\n"
        trace_text = " ".join(traces(second_cluster.slot, tmp_path))
        for trace in (
            second_cluster.slot.bridge,
            "-solo",
            "share",
            "/dev/loop",
            "process",
            "disk.ext4",
        ):
            assert trace in trace_text
    assert traces(second_cluster.slot, tmp_path) == []
    assert is_released(second_cluster.slot)
    assert cluster.ssh("node1", "hostname").stdout == "node1\n"


def test_a_test_that_fails_inside_leaves_nothing(tmp_path: Path) -> None:
    def fail(cluster: Cluster) -> None:
        cluster["solo"].power_off()
        raise ZeroDivisionError

    second_cluster = Cluster(tmp_path, nodes=("solo",))
    with pytest.raises(ZeroDivisionError), second_cluster:
        fail(second_cluster)
    assert traces(second_cluster.slot, tmp_path) == []


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_ended_run_leaves_nothing(end: signal.Signals, tmp_path: Path) -> None:
    with other_run(tmp_path) as (program, slot):
        assert len(traces(slot, tmp_path)) > 5
        program.send_signal(end)
        program.wait(30.0)
    wait_for(lambda: is_released(slot), "the end of the guard")
    assert traces(slot, tmp_path) == []


def test_the_next_start_clears_the_rest_of_a_run_with_a_dead_guard(tmp_path: Path) -> None:
    with other_run(tmp_path / "killed") as (program, slot):
        guard_of(program).kill()
        program.kill()
        program.wait(30.0)
    assert len(traces(slot, tmp_path / "killed")) > 5
    with Cluster(tmp_path / "next", nodes=("solo",)) as second_cluster:
        assert second_cluster.slot == slot
        assert second_cluster.ssh("solo", "hostname").stdout == "solo\n"
    assert traces(slot, tmp_path / "killed") == []


def test_a_start_that_fails_half_way_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "start.sh"
    broken.write_text("echo the kernel has no overlay >&2; exit 1\n")
    monkeypatch.setattr("tests.cluster.node._START", broken)
    second_cluster = Cluster(tmp_path / "cluster", nodes=("solo",))
    with (
        pytest.raises(ClusterError, match="solo did not start: the kernel has no overlay"),
        second_cluster,
    ):
        pass
    assert traces(second_cluster.slot, tmp_path / "cluster") == []


def test_users_other_than_root_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(ClusterError, match="run the tests as root"):
        check_rights()


def test_a_kernel_that_refuses_namespaces_is_quoted() -> None:
    program = "from tests.cluster.cluster import check_rights; check_rights()"
    completed = subprocess.run(
        ["setpriv", "--bounding-set=-sys_admin", sys.executable, "-c", program],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=60.0,
        check=False,
    )
    assert completed.returncode == 1
    assert "This kernel refuses the test cluster its namespaces" in completed.stderr
    assert "Operation not permitted" in completed.stderr
