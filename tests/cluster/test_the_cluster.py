"""Conditions of other tests: the nodes are machines, and break as machines do."""

from __future__ import annotations

import random
import shlex
import socket
import subprocess
import time
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.node import Node
from tests.waiting import LIMIT_S, wait_for

pytestmark = pytest.mark.slow

SILENCE_S = 0.5
DELAY_S = 0.040


def connection_to(node: Node) -> socket.socket:
    """An open connection to its sshd, whose banner was read."""
    connection = socket.create_connection((node.address, 22), timeout=LIMIT_S)
    assert connection.recv(64).startswith(b"SSH-2.0")
    connection.settimeout(SILENCE_S)
    return connection


def boot_id(node: Node) -> str:
    return node.read("/proc/sys/kernel/random/boot_id")


def test_the_desktops_key_opens_every_node_and_each_shows_its_own_host_key(
    cluster: Cluster,
) -> None:
    for name, node in cluster.nodes.items():
        answer = cluster.ssh(name, "sh", "-c", "hostname; id -un; pwd")
        assert answer.stdout.split() == [name, "lab", "/home/lab"], answer.stderr
        assert node.address == cluster.address_of(name)
    assert len({line.split()[2] for line in cluster.known_hosts}) == len(cluster.nodes) == 3


def test_a_node_that_shows_another_key_is_refused(cluster: Cluster) -> None:
    known_hosts = cluster.known_hosts_file.read_text()
    first_key, second_key = (line.split()[2] for line in cluster.known_hosts[:2])
    cluster.known_hosts_file.write_text(known_hosts.replace(first_key, second_key))
    try:
        answer = cluster.ssh("node1", "true")
    finally:
        cluster.known_hosts_file.write_text(known_hosts)
    assert answer.returncode == 255
    assert "Host key verification failed" in answer.stderr


def test_root_may_not_log_in(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "user", "root")
    answer = cluster.ssh("node1", "true")
    assert answer.returncode == 255
    assert "Permission denied (publickey)" in answer.stderr


def test_each_node_is_a_machine_of_its_own(cluster: Cluster) -> None:
    local_boot_id = Path("/proc/sys/kernel/random/boot_id").read_text()
    nodes = cluster.nodes.values()
    assert len({local_boot_id, *map(boot_id, nodes)}) == 4
    assert len({node.read("/etc/machine-id") for node in nodes}) == 3
    assert {node.read("/proc/sys/kernel/hostname").strip() for node in nodes} == set(cluster.nodes)
    for node in nodes:
        assert [p.argv[0] for p in node.processes() if p.pid == 1] == ["/bin/sh"]
        assert int(node.run(["sh", "-c", "echo $$"]).stdout) < 10_000
        listed_pids = node.run(["ps", "-e", "-o", "pid="]).stdout.split()
        assert {str(process.pid) for process in node.processes()} <= set(listed_pids)
        local_uptime, node_uptime = Path("/proc/uptime").read_text(), node.read("/proc/uptime")
        assert float(node_uptime.split()[0]) < float(local_uptime.split()[0])


def test_nodes_reach_only_each_other(cluster: Cluster) -> None:
    greet = (
        "import socket, sys; print(socket.create_connection((sys.argv[1], 22)).recv(8).decode())"
    )
    peers = [cluster.address_of("node2"), cluster.address_of("node3"), "node2"]
    for peer in peers:
        assert cluster["node1"].run(["python3", "-c", greet, peer]).stdout == "SSH-2.0-\n"
    routes = cluster["node1"].run(["ip", "-brief", "route"]).stdout.splitlines()
    assert [route.split()[0] for route in routes] == [cluster.subnet]


def test_only_the_bare_node_cannot_make_environments(cluster: Cluster) -> None:
    command = ["python3", "-c", "import ensurepip"]
    codes = {name: node.run(command).returncode for name, node in cluster.nodes.items()}
    assert codes == {"node1": 0, "node2": 0, "node3": 1}
    assert cluster["node1"].run(["python3", "-m", "venv", "try"]).returncode == 0
    assert cluster["node3"].run(["python3", "-c", "print(1)"]).stdout == "1\n"


def test_a_node_has_everything_that_ranks_need(cluster: Cluster) -> None:
    for node in cluster.nodes.values():
        free = "import os; s = os.statvfs('/home/lab'); print(s.f_bavail * s.f_frsize)"
        assert int(node.run(["python3", "-c", free]).stdout) > 7_000_000_000
        for folder in ("/tmp", "/dev/shm"):
            completed = node.run(
                ["sh", "-c", f"echo 1 >{folder}/x && cat {folder}/x; rm {folder}/x"]
            )
            assert completed.stdout == "1\n", completed.stderr


def test_orphans_are_taken_in(cluster: Cluster) -> None:
    node = cluster["node1"]
    node.run(["sh", "-c", "(sh -c 'sleep 0.05' &) ; true"])
    wait_for(lambda: not [p for p in node.processes() if p.uid], "the end of the orphan")


def test_a_cut_node_is_silent_and_comes_back_with_its_connections(cluster: Cluster) -> None:
    node = cluster["node2"]
    with connection_to(node) as connection:
        node.cut()
        with pytest.raises(OSError, match=r"timed out|No route"):
            socket.create_connection((node.address, 22), timeout=SILENCE_S)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        assert boot_id(node)
        node.repair()
        connection.sendall(b"SSH-2.0-test\r\n")
        connection.settimeout(LIMIT_S)
        assert connection.recv(1)
    assert cluster.ssh("node2", "true").returncode == 0


def time_to_connect_s(node: Node) -> float:
    """The least of three: other work on this machine makes a connection slower, never faster."""
    times = []
    for _ in range(3):
        started_s = time.monotonic()
        socket.create_connection((node.address, 22), timeout=LIMIT_S).close()
        times.append(time.monotonic() - started_s)
    return min(times)


def is_near_again(node: Node) -> None:
    wait_for(lambda: time_to_connect_s(node) < DELAY_S, "a connection without the delay")


def test_a_distant_node_answers_later_and_loses_nothing(cluster: Cluster) -> None:
    node = cluster["node2"]
    with connection_to(node) as connection:
        node.delay(40)
        assert time_to_connect_s(node) >= DELAY_S
        connection.sendall(b"SSH-2.0-test\r\n")
        connection.settimeout(LIMIT_S)
        assert connection.recv(1), "the connection did not live through it"
    content = random.Random(1).randbytes(20_000_000)
    (cluster.share / "content").write_bytes(content)
    fetched = subprocess.run(
        ["ssh", *cluster.ssh_options, cluster.target("node2"), f"cat {cluster.data_root}/content"],
        capture_output=True,
        timeout=LIMIT_S,
        check=True,
    )
    assert fetched.stdout == content
    node.delay(0)
    is_near_again(node)


def test_a_delayed_node_can_be_cut_and_switched_off(cluster: Cluster) -> None:
    node = cluster["node2"]
    node.delay(40)
    node.cut()
    with pytest.raises(OSError, match=r"timed out|No route"):
        socket.create_connection((node.address, 22), timeout=SILENCE_S)
    node.repair()
    assert time_to_connect_s(node) >= DELAY_S
    node.power_off()
    node.boot()
    is_near_again(node)


def test_a_clock_goes_wrong_for_running_programs_too(cluster: Cluster) -> None:
    node = cluster["node1"]
    tick = "import sys, time\nfor line in sys.stdin: print(time.time(), flush=True)"
    with subprocess.Popen(
        ["ssh", *cluster.ssh_options, cluster.target("node1"), f"python3 -c {shlex.quote(tick)}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as session:
        requests, answers = session.stdin, session.stdout
        assert requests is not None
        assert answers is not None

        def offset_s() -> float:
            requests.write(b"\n")
            requests.flush()
            return float(answers.readline()) - time.time()

        assert offset_s() == pytest.approx(0, abs=60)
        node.set_clock(-600)
        assert offset_s() == pytest.approx(-600, abs=60)
        node_time_s = float(cluster.ssh("node1", "date", "+%s.%N").stdout)
        assert node_time_s - time.time() == pytest.approx(-600, abs=60)
        assert cluster["node2"].run(["date", "+%s"]).stdout >= str(int(time.time()) - 60)
        node.run(["touch", "new"])
        modified_s = float(node.run(["stat", "-c", "%Y", "new"]).stdout)
        assert modified_s - time.time() == pytest.approx(0, abs=60)
        node.set_clock(0)
        assert offset_s() == pytest.approx(0, abs=60)


def test_a_reboot_closes_connections_keeps_files_and_gives_a_new_boot_id(
    cluster: Cluster,
) -> None:
    node = cluster["node2"]
    previous_boot_id = boot_id(node)
    assert node.run(["sh", "-c", "echo kept >kept; echo gone >/tmp/gone"]).returncode == 0
    with connection_to(node) as connection:
        node.shut_down()
        assert connection.recv(1) == b""
    assert not node.is_on
    node.boot()
    assert cluster.ssh("node2", "cat", "kept", "/tmp/gone").stdout == "kept\n"
    assert boot_id(node) != previous_boot_id


def test_a_loss_of_power_closes_nothing(cluster: Cluster) -> None:
    node = cluster["node2"]
    node.run(["sh", "-c", "sleep 1000 >/dev/null 2>&1 &"])
    (asleep,) = (p for p in node.processes() if p.argv == ("sleep", "1000"))
    with connection_to(node) as connection:
        node.power_off()
        with pytest.raises(TimeoutError):
            connection.recv(1)
    assert not Path("/proc", str(asleep.host_pid)).exists()
    node.boot()
    assert cluster.ssh("node2", "hostname").stdout == "node2\n"


def test_a_full_disk_takes_not_one_byte(cluster: Cluster) -> None:
    node = cluster["node1"]
    node.fill_disk()
    answer = cluster.ssh("node1", "cp", "/etc/hostname", "file")
    assert "No space left on device" in answer.stderr
    assert cluster["node2"].run(["sh", "-c", "echo text >file"]).returncode == 0
    node.free_disk()
    assert cluster.ssh("node1", "sh", "-c", "echo text >file && cat file").stdout == "text\n"


def test_the_share_is_seen_by_all_and_can_go(cluster: Cluster) -> None:
    assert cluster.share.is_mount()
    (cluster.share / "from-desktop").write_text("desktop")
    for name in cluster.nodes:
        path = f"{cluster.data_root}/from-{name}"
        command = f"cat {cluster.data_root}/from-desktop; echo {name} >{path}"
        assert cluster.ssh(name, "sh", "-c", command).stdout == "desktop"
        assert (cluster.share / f"from-{name}").read_text() == f"{name}\n"
    node = cluster["node1"]
    node.unmount_share()
    assert node.run(["ls", "-A", cluster.data_root]).stdout == ""
    assert "from-node1" in cluster["node2"].run(["ls", cluster.data_root]).stdout
    node.mount_share()
    assert "from-node2" in node.run(["ls", cluster.data_root]).stdout


def test_a_share_disappears_under_its_users(cluster: Cluster) -> None:
    node = cluster["node1"]
    with subprocess.Popen(
        ["ssh", *cluster.ssh_options, cluster.target("node1"), f"cat >{cluster.data_root}/open"],
        stdin=subprocess.PIPE,
    ) as writer:
        wait_for((cluster.share / "open").exists, "a file that is open")
        node.unmount_share()
        assert node.run(["ls", "-A", cluster.data_root]).stdout == ""
        writer.communicate(b"still", timeout=LIMIT_S)
    assert (cluster.share / "open").read_text() == "still"


def test_without_sshd_a_node_refuses_and_open_sessions_stay(cluster: Cluster) -> None:
    node = cluster["node1"]
    with subprocess.Popen(
        ["ssh", *cluster.ssh_options, cluster.target("node1"), "cat"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as session:
        wait_for(lambda: any(p.argv == ("cat",) for p in node.processes()), "a session")
        node.stop_sshd()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((node.address, 22), timeout=LIMIT_S)
        assert session.communicate(b"alive", timeout=LIMIT_S)[0] == b"alive"
    node.start_sshd()
    assert cluster.ssh("node1", "true").returncode == 0


def test_dockers_address_can_be_the_same_on_every_node(cluster: Cluster) -> None:
    for node in cluster.nodes.values():
        node.add_docker_bridge()
        address_line = node.run(["ip", "-brief", "-4", "address", "show", "docker0"]).stdout
        assert address_line.split() == ["docker0", "UP", "172.17.0.1/16"]
    cluster.heal()
    assert "172.17" not in cluster["node1"].run(["ip", "-brief", "address"]).stdout


def test_healing_ends_the_processes_of_a_test_and_fixes_its_damage(cluster: Cluster) -> None:
    node, second_node = cluster["node1"], cluster["node2"]
    initial_processes = set(node.processes())
    node.run(["sh", "-c", "sleep 1000 >/dev/null 2>&1 &"])
    node.fill_disk()
    node.unmount_share()
    node.stop_sshd()
    node.cut()
    second_node.power_off()
    cluster.heal(initial_processes)
    assert {p.argv for p in node.processes()} == {p.argv for p in initial_processes}
    assert cluster.ssh("node1", "sh", "-c", "echo text >file && cat file").stdout == "text\n"
    assert node.run(["test", "-w", cluster.data_root]).returncode == 0
    assert cluster.ssh("node2", "hostname").stdout == "node2\n"
