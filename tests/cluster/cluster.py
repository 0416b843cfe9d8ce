"""A cluster of machines made of namespaces on this one, with real sshd, and a desktop beside it.

The desktop is this machine: it has an address on the cluster's network, a key that lets it in as
``lab``, and the data root mounted at `Cluster.share`.  There is no way from the nodes to any other
network.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from installers.console import Progress
from tests.cluster import image
from tests.cluster.commands import ClusterError, call, ip
from tests.cluster.node import CLOCK_OFFSET, DATA_ROOT, Node, NodePlan, Process, make_file_system
from tests.cluster.slot import Slot, claim_slot
from tests.waiting import LIMIT_S

DISK_BYTES = 8_000_000_000

_CLOCK = Path(__file__).with_name("clock.c")
_SSHD_CONFIG = """\
PermitRootLogin no
PasswordAuthentication no
UseDNS no
SetEnv OMP_NUM_THREADS=1
"""
"""One thread for each rank: a node takes all cores of this machine for its own."""


class Cluster:
    """A context manager: inside, all nodes are up; afterwards nothing is left of them.

    Raises:
        ClusterError: This machine does not let us build one; the sentence says what it refused.
    """

    user = image.USER
    data_root = DATA_ROOT
    """The data root's path on every node; the desktop sees it at `share`."""

    def __init__(
        self,
        folder: Path,
        nodes: Sequence[str] = ("node1", "node2", "node3"),
        bare: Collection[str] = ("node3",),
        progress: Progress | None = None,
        cores: float | None = None,
    ) -> None:
        """``cores`` is each node's own processor; see `tests.cluster.node.Plan`."""
        self._folder = folder = folder.resolve()
        self._cores = cores
        self._names = tuple(nodes)
        self._bare = frozenset(bare)
        self._progress = progress or Progress(sys.stderr)
        self._stack = contextlib.ExitStack()
        self.nodes: dict[str, Node] = {}
        self.share = folder / "share"
        self.identity = folder / "desktop-key"
        """The private key with which the desktop goes to every node."""
        self.known_hosts: tuple[str, ...] = ()
        """One line for each node, with its address and its name."""
        self.known_hosts_file = folder / "known_hosts"
        self.slot = Slot(-1)

    def __enter__(self) -> Cluster:
        check_rights()
        root = image.provide(self._progress)
        self._folder.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as stack:
            stack.callback(self._reap_nodes)
            self.slot = stack.enter_context(claim_slot(self._folder))
            self._connect_desktop()
            self._make_share()
            call("gcc", "-shared", "-fPIC", "-O2", "-o", self._folder / "clock.so", _CLOCK)
            for index, name in enumerate(self._names, start=1):
                plan = NodePlan(
                    name,
                    index,
                    self._folder / name,
                    root,
                    self.share,
                    is_bare=name in self._bare,
                    cores=self._cores,
                )
                self._prepare(plan)
            self._write_identities()
            self._run_on_all(Node.boot)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def __getitem__(self, name: str) -> Node:
        return self.nodes[name]

    @property
    def subnet(self) -> str:
        """Return the subnet of all nodes and the desktop, such as ``10.77.0.0/24``."""
        return str(self.slot.subnet)

    @property
    def desktop_address(self) -> str:
        return str(self.slot.subnet[1])

    def address_of(self, name: str) -> str:
        return self.nodes[name].address

    def heal(self, initial_processes: Collection[Process] | None = None) -> None:
        """Make every node whole again, whatever its methods have done to it.

        Processes of users that are not among ``initial_processes`` are ended.
        """
        self._run_on_all(lambda node: node.heal(initial_processes))
        # After all are back: a caller that still asked for one that was away learns within three
        # seconds that there is no route to it, and so do all others who ask at that time.
        self._run_on_all(lambda node: node.forget_neighbours())

    @property
    def ssh_options(self) -> list[str]:
        """With which plain ``ssh`` and ``scp`` go to a node, whose key must be the known one."""
        options = {
            "IdentityFile": self.identity,
            "IdentitiesOnly": "yes",
            "UserKnownHostsFile": self.known_hosts_file,
            "GlobalKnownHostsFile": "/dev/null",
            "StrictHostKeyChecking": "yes",
            "BatchMode": "yes",
            "ConnectTimeout": 5,
        }
        return ["-F", "/dev/null", *(f"-o{key}={value}" for key, value in options.items())]

    def target(self, name: str) -> str:
        """Return user and address of a node, for ``ssh``."""
        return f"{self.user}@{self.address_of(name)}"

    def ssh(
        self, name: str, *argv: str, limit_s: float = LIMIT_S
    ) -> subprocess.CompletedProcess[str]:
        """Execute a program on a node with plain ``ssh``."""
        return subprocess.run(
            ["ssh", *self.ssh_options, self.target(name), shlex.join(argv)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit_s,
            check=False,
        )

    def _connect_desktop(self) -> None:
        slot = self.slot
        ip(
            [
                f"link add {slot.bridge} address {slot.mac(0)} type bridge",
                f"address add {self.desktop_address}/{slot.subnet.prefixlen} dev {slot.bridge}",
                f"link set {slot.bridge} up",
            ]
        )
        call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "desktop", "-f", self.identity)

    def _make_share(self) -> None:
        disk = self._folder / "share.ext4"
        make_file_system(disk, DISK_BYTES)
        self.share.mkdir()
        call("mount", "-o", "loop,noatime", disk, self.share)
        (self.share / "lost+found").rmdir()
        os.chown(self.share, image.USER_ID, image.USER_ID)

    def _prepare(self, plan: NodePlan) -> None:
        """A node's disk, its own files, and its way to the share."""
        identity = plan.folder / "identity"
        for folder in ("etc/ssh/sshd_config.d", "home/lab/.ssh", "usr/local/lib", "var/lib"):
            (identity / folder).mkdir(parents=True)
        shutil.copy(self._folder / "clock.so", identity / "usr/local/lib/clock.so")
        (identity / "etc/ld.so.preload").write_text("/usr/local/lib/clock.so\n")
        (identity / CLOCK_OFFSET).write_bytes(bytes(8))
        key = identity / "etc/ssh/ssh_host_ed25519_key"
        call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", plan.name, "-f", key)
        (identity / "etc/ssh/sshd_config.d/cluster.conf").write_text(_SSHD_CONFIG)
        # All nodes share the cores of one machine, which none of them can see.
        (identity / "home/lab/.openmpi").mkdir()
        (identity / "home/lab/.openmpi/mca-params.conf").write_text("mpi_yield_when_idle = 1\n")
        (identity / "etc/machine-id").write_text(f"{uuid.uuid4().hex}\n")
        (identity / "etc/hostname").write_text(f"{plan.name}\n")
        shutil.copy(self.identity.with_suffix(".pub"), identity / "home/lab/.ssh/authorized_keys")
        node = Node(self.slot, plan)
        self.nodes[plan.name] = node
        kind, text = key.with_suffix(".pub").read_text().split()[:2]
        self.known_hosts += (f"{node.address},{plan.name} {kind} {text}",)
        node.make_disk(DISK_BYTES)
        srv = plan.folder / "srv"
        srv.mkdir()
        call("mount", "--bind", srv, srv)
        call("mount", "--make-private", srv)
        call("mount", "--make-shared", srv)
        node.mount_share()

    def _write_identities(self) -> None:
        """Write the nodes' addresses and host keys."""
        lines = ["127.0.0.1 localhost", f"{self.desktop_address} desktop"]
        lines += [f"{node.address} {name}" for name, node in self.nodes.items()]
        for name in self.nodes:
            hosts = self._folder / name / "identity/etc/hosts"
            hosts.write_text("\n".join(lines) + "\n")
        self.known_hosts_file.write_text("\n".join(self.known_hosts) + "\n")

    def _reap_nodes(self) -> None:
        for node in self.nodes.values():
            node.reap()

    def _run_on_all(self, work: Callable[[Node], None]) -> None:
        with ThreadPoolExecutor(len(self.nodes)) as pool:
            for _ in pool.map(work, self.nodes.values()):
                pass


def check_rights() -> None:
    """Refuse early, with the kernel's own word."""
    if os.geteuid() != 0:
        raise ClusterError(
            "The test cluster is made of namespaces, mounts and loop devices, which only root may"
            " make: run the tests as root (in a container: --privileged)"
        )
    namespace_options = ("--pid", "--mount", "--uts", "--ipc", "--net", "--cgroup", "--time")
    try:
        call("unshare", "--fork", *namespace_options, "true")
    except ClusterError as error:
        raise ClusterError(
            f"This kernel refuses the test cluster its namespaces: {error}"
        ) from error
