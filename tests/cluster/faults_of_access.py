"""Faults that keep the desktop out of a node, and nodes from each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from backend.records.nodes.entry import Interface, NodeEntry
from backend.services.preflight import names
from tests.cluster.commands import call
from tests.cluster.ready import ReadyCluster
from tests.cluster.seeding import (
    changed_entry,
    move_away,
    rewritten_file,
    run_as_root,
    seeded_fault,
)

# Getting in.


@seeded_fault(names.SSH)
def sshd_stopped(ready: ReadyCluster, node: str) -> Iterator[None]:
    ready[node].stop_sshd()
    yield
    ready[node].start_sshd()


@seeded_fault(names.SSH)
def sshd_hangs(ready: ReadyCluster, node: str) -> Iterator[None]:
    run_as_root(ready, node, "kill -STOP $(cat /run/sshd.pid)")
    yield
    run_as_root(ready, node, "kill -CONT $(cat /run/sshd.pid)")


@seeded_fault(names.SSH)
def desktop_key_removed(ready: ReadyCluster, node: str) -> Iterator[None]:
    with rewritten_file(ready, node, "/home/lab/.ssh/authorized_keys", "grep restrict"):
        yield


@seeded_fault(names.SSH)
def authorized_keys_writable_by_all(ready: ReadyCluster, node: str) -> Iterator[None]:
    run_as_root(ready, node, "chmod 666 /home/lab/.ssh/authorized_keys")
    yield
    run_as_root(ready, node, "chmod 600 /home/lab/.ssh/authorized_keys")


@seeded_fault(names.SSH)
def sshd_wants_another_user(ready: ReadyCluster, node: str) -> Iterator[None]:
    path = "/etc/ssh/sshd_config.d/cluster.conf"
    with rewritten_file(ready, node, path, "cat; echo AllowUsers somebody"):
        _reload_sshd(ready, node)
        yield
    _reload_sshd(ready, node)


@seeded_fault(names.HOST_KEY)
def host_key_changed(ready: ReadyCluster, node: str) -> Iterator[None]:
    key = "/etc/ssh/ssh_host_ed25519_key"
    with move_away(ready, node, key), move_away(ready, node, f"{key}.pub"):
        run_as_root(ready, node, f"ssh-keygen -q -t ed25519 -N '' -f {key}")
        _reload_sshd(ready, node)
        yield
        run_as_root(ready, node, f"rm {key} {key}.pub")
    _reload_sshd(ready, node)


@seeded_fault(names.SSH)
def cable_pulled(ready: ReadyCluster, node: str) -> Iterator[None]:
    ready[node].cut()
    yield
    ready[node].repair()


@seeded_fault(names.SSH)
def powered_off(ready: ReadyCluster, node: str) -> Iterator[None]:
    ready[node].power_off()
    yield
    ready[node].boot()
    ready.revive()


def _reload_sshd(ready: ReadyCluster, node: str) -> None:
    """sshd executes itself and accepts no connection before it writes its pid file."""
    reload_command = "pid=$(cat /run/sshd.pid); rm /run/sshd.pid; kill -HUP $pid"
    run_as_root(ready, node, f"{reload_command}; until [ -s /run/sshd.pid ]; do sleep 0.01; done")


# Among each other.


@seeded_fault(names.SSH_BETWEEN_NODES)
def cluster_key_not_listed(ready: ReadyCluster, node: str) -> Iterator[None]:
    with rewritten_file(ready, node, "/home/lab/.ssh/authorized_keys", "grep -v restrict"):
        yield


@seeded_fault(names.SSH_BETWEEN_NODES)
def cluster_key_readable_by_all(ready: ReadyCluster, node: str) -> Iterator[None]:
    run_as_root(ready, node, f"chmod 644 {ready.home}/ssh/id_cluster")
    yield
    run_as_root(ready, node, f"chmod 600 {ready.home}/ssh/id_cluster")


@seeded_fault(names.SSH_BETWEEN_NODES)
def cluster_key_missing(ready: ReadyCluster, node: str) -> Iterator[None]:
    with move_away(ready, node, f"{ready.home}/ssh/id_cluster"):
        yield


@seeded_fault(names.SSH_BETWEEN_NODES)
def ssh_client_missing(ready: ReadyCluster, node: str) -> Iterator[None]:
    with move_away(ready, node, "/usr/bin/ssh"):
        yield


@seeded_fault(names.SETTINGS)
def ssh_settings_not_writable(ready: ReadyCluster, node: str) -> Iterator[None]:
    folder = f"{ready.home}/ssh"
    run_as_root(ready, node, f"chown root {folder}; chmod 755 {folder}")
    yield
    run_as_root(ready, node, f"chown lab {folder}; chmod 700 {folder}; rm -rf {folder}.not-ours-*")


@seeded_fault(names.ROUTE)
def firewall(ready: ReadyCluster, node: str) -> Iterator[None]:
    """Answers from the ports that mpirun and ranks use are lost; sshd's port is open."""
    rule = "ipproto 6 sport 1024-65534 blackhole pref 10"
    run_as_root(ready, node, f"ip rule add {rule}")
    yield
    run_as_root(ready, node, f"ip rule del {rule}")


@seeded_fault(names.ROUTE)
def mtu_too_large(ready: ReadyCluster, node: str) -> Iterator[None]:
    """Its cable's other end takes small packets only, and drops the others in silence."""
    number = list(ready.cluster.nodes).index(node) + 1
    other_end = ready.cluster.slot.link("n", number)
    previous_mtu = call("cat", f"/sys/class/net/{other_end}/mtu").strip()
    run_as_root(ready, node, "ip link set eth0 gso_max_segs 1")
    call("ip", "link", "set", other_end, "mtu", "600")
    yield
    call("ip", "link", "set", other_end, "mtu", previous_mtu)
    run_as_root(ready, node, "ip link set eth0 gso_max_segs 65535")


# What the desktop knows.


@seeded_fault(names.NODE)
def out_of_service(ready: ReadyCluster, node: str) -> Iterator[None]:
    with changed_entry(ready, node, lambda entry: replace(entry, in_service=False)):
        yield


@seeded_fault(names.NODE)
def not_set_up(ready: ReadyCluster, node: str) -> Iterator[None]:
    with changed_entry(ready, node, lambda entry: replace(entry, installation=None)):
        yield


@seeded_fault(names.NETWORK)
def address_gone(ready: ReadyCluster, node: str) -> Iterator[None]:
    """Give the node another address than the one that the other nodes know."""
    foreign_address = f"{ready.cluster.subnet.rpartition('.')[0]}.99/24"

    def change(entry: NodeEntry) -> NodeEntry:
        assert entry.info is not None
        info = replace(entry.info, interfaces=(Interface("eth0", foreign_address),))
        return replace(entry, ranks_address=foreign_address, info=info)

    with changed_entry(ready, node, change):
        yield
