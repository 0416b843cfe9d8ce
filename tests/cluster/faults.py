"""What can be wrong with the nodes of a job: each fault as it is made, and unmade, and called.

`expected` are the checks that must report it, with the nodes that they must name; nothing else may
be reported. ``{node}`` is filled in, as most faults can be anybody's.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from backend.datastore import node_files
from backend.datastore.shared_folders import make_folder
from backend.records.cluster import Interface, NodeEntry
from backend.records.layout import DataRoot
from backend.services import preflight_words as words
from tests.cluster.commands import ClusterError, call, wait_for
from tests.cluster.ready import ReadyCluster

Spoil = Callable[[ReadyCluster, str], Iterator[None]]
GPUS_FILE = "/run/gpus"
_SITE = "lib/python3.11/site-packages"


@dataclass(frozen=True)
class Fault:
    name: str
    checks: tuple[str, ...]
    spoil: Spoil
    is_shared: bool = False
    """It is nobody's: the findings name no node."""

    def expected(self, node: str) -> set[tuple[str, tuple[str, ...]]]:
        return {(check, () if self.is_shared else (node,)) for check in self.checks}

    @contextmanager
    def made(self, ready: ReadyCluster, node: str) -> Iterator[None]:
        spoiling = self.spoil(ready, node)
        next(spoiling)
        try:
            yield
        finally:
            # Not thrown in there: a test that fails must not leave the fault to the next one.
            next(spoiling, None)


FAULTS: dict[str, Fault] = {}


def fault(*checks: str, shared: bool = False) -> Callable[[Spoil], Spoil]:
    def keep(spoil: Spoil) -> Spoil:
        name = spoil.__name__.strip("_")
        FAULTS[name] = Fault(name, checks, spoil, shared)
        return spoil

    return keep


def as_root(ready: ReadyCluster, node: str, command: str) -> None:
    done = ready[node].run(["sh", "-ec", command], user="root")
    if done.returncode:
        raise ClusterError(f"{command} on {node}: {done.stderr}")


@contextmanager
def read_only_over(ready: ReadyCluster, node: str, path: str) -> Iterator[None]:
    """What is opened under ``path`` from now on cannot be written; files that are open can.

    It is made read-only where nobody writes: the kernel refuses that while a file is being opened.
    """
    aside = "/mnt/read-only"
    make = f"mkdir -p {aside}; mount --bind {path} {aside}; mount -o remount,bind,ro {aside}"
    as_root(ready, node, f"{make}; mount --bind {aside} {path}; umount {aside}")
    yield
    as_root(ready, node, f"umount -l {path}")


def _environment(ready: ReadyCluster, node: str) -> str:
    installation = ready.entry(node).installation
    assert installation is not None
    return installation.python.rpartition("/bin/")[0]


@contextmanager
def moved(ready: ReadyCluster, node: str, path: str) -> Iterator[None]:
    """A file or folder that is not there; what a fix has put in its place stays."""
    quoted = shlex.quote(path)
    as_root(ready, node, f"mv {quoted} {quoted}.away")
    try:
        yield
    finally:
        # A fix may have made the folder above anew, without what was moved in the old one.
        as_root(
            ready,
            node,
            f"if [ -e {quoted} ]; then rm -rf {quoted}.away;"
            f" elif [ -e {quoted}.away ]; then mv {quoted}.away {quoted}; fi",
        )


@contextmanager
def rewritten(ready: ReadyCluster, node: str, path: str, edit: str) -> Iterator[None]:
    """A file changed by a command that reads it and prints what it shall be; put back after."""
    quoted = shlex.quote(path)
    as_root(
        ready,
        node,
        f"cp -p {quoted} {quoted}.away; {{ {edit}; }} <{quoted}.away >{quoted}",
    )
    try:
        yield
    finally:
        as_root(ready, node, f"if [ -e {quoted}.away ]; then mv {quoted}.away {quoted}; fi")


@contextmanager
def changed_entry(
    ready: ReadyCluster, node: str, change: Callable[[NodeEntry], NodeEntry]
) -> Iterator[None]:
    """Another ``node.json``; put back unless a fix has written it anew."""
    root = DataRoot(ready.cluster.share)
    before = ready.entry(node)
    spoiled = change(before)
    node_files.write_entry(root, spoiled)
    try:
        yield
    finally:
        if ready.entry(node) == spoiled:
            node_files.write_entry(root, before)


# Getting in.


@fault(words.SSH)
def sshd_stopped(ready: ReadyCluster, node: str) -> Iterator[None]:
    ready[node].stop_sshd()
    yield
    ready[node].start_sshd()


@fault(words.SSH)
def sshd_hangs(ready: ReadyCluster, node: str) -> Iterator[None]:
    as_root(ready, node, "kill -STOP $(cat /run/sshd.pid)")
    yield
    as_root(ready, node, "kill -CONT $(cat /run/sshd.pid)")


@fault(words.SSH)
def desktop_key_removed(ready: ReadyCluster, node: str) -> Iterator[None]:
    with rewritten(ready, node, "/home/lab/.ssh/authorized_keys", "grep restrict"):
        yield


@fault(words.SSH)
def authorized_keys_writable_by_all(ready: ReadyCluster, node: str) -> Iterator[None]:
    as_root(ready, node, "chmod 666 /home/lab/.ssh/authorized_keys")
    yield
    as_root(ready, node, "chmod 600 /home/lab/.ssh/authorized_keys")


@fault(words.SSH)
def sshd_wants_another_user(ready: ReadyCluster, node: str) -> Iterator[None]:
    path = "/etc/ssh/sshd_config.d/cluster.conf"
    with rewritten(ready, node, path, "cat; echo AllowUsers somebody"):
        as_root(ready, node, "kill -HUP $(cat /run/sshd.pid)")
        yield
    as_root(ready, node, "kill -HUP $(cat /run/sshd.pid)")


@fault(words.HOST_KEY)
def host_key_changed(ready: ReadyCluster, node: str) -> Iterator[None]:
    key = "/etc/ssh/ssh_host_ed25519_key"
    with moved(ready, node, key), moved(ready, node, f"{key}.pub"):
        as_root(ready, node, f"ssh-keygen -q -t ed25519 -N '' -f {key}")
        as_root(ready, node, "kill -HUP $(cat /run/sshd.pid)")
        yield
        as_root(ready, node, f"rm {key} {key}.pub")
    as_root(ready, node, "kill -HUP $(cat /run/sshd.pid)")


@fault(words.SSH)
def cable_pulled(ready: ReadyCluster, node: str) -> Iterator[None]:
    ready[node].cut()
    yield
    ready[node].mend()


@fault(words.SSH)
def powered_off(ready: ReadyCluster, node: str) -> Iterator[None]:
    ready[node].power_off()
    yield
    ready[node].boot()
    ready.revive()


# What set-up left there.


@fault(words.PYTORCH)
def torch_missing(ready: ReadyCluster, node: str) -> Iterator[None]:
    with moved(ready, node, f"{_environment(ready, node)}/{_SITE}/torch"):
        yield


@fault(words.HOROVOD)
def horovod_missing(ready: ReadyCluster, node: str) -> Iterator[None]:
    with moved(ready, node, f"{_environment(ready, node)}/{_SITE}/horovod"):
        yield


@fault(words.PYTORCH)
def another_torch(ready: ReadyCluster, node: str) -> Iterator[None]:
    path = f"{_environment(ready, node)}/{_SITE}/torch/version.py"
    with rewritten(ready, node, path, "sed \"s/^__version__ = .*/__version__ = '2.9.0'/\""):
        yield


@fault(words.OPEN_MPI)
def mpirun_missing(ready: ReadyCluster, node: str) -> Iterator[None]:
    with moved(ready, node, f"{_environment(ready, node)}/bin/mpirun"):
        yield


@fault(words.OPEN_MPI)
def mpirun_not_executable(ready: ReadyCluster, node: str) -> Iterator[None]:
    path = f"{_environment(ready, node)}/bin/mpirun"
    as_root(ready, node, f"chmod -x {path}")
    yield
    as_root(ready, node, f"chmod +x {path}")


@fault(words.OPEN_MPI)
def prted_missing(ready: ReadyCluster, node: str) -> Iterator[None]:
    with moved(ready, node, f"{_environment(ready, node)}/bin/prted"):
        yield


@fault(words.OPEN_MPI)
def another_open_mpi(ready: ReadyCluster, node: str) -> Iterator[None]:
    path = f"{_environment(ready, node)}/bin/mpirun"
    with moved(ready, node, path):
        said = "#!/bin/sh\\necho 'mpirun (Open MPI) 4.1.4'\\n"
        as_root(ready, node, f'printf "{said}" >{path}; chmod +x {path}')
        yield
        # What a fix has put there stays.
        as_root(ready, node, f"if head -c 99 {path} | grep -q 4.1.4; then rm -f {path}; fi")


@fault(words.PROGRAM)
def program_changed(ready: ReadyCluster, node: str) -> Iterator[None]:
    path = f"{bundle(ready, node)}/backend/node/guard.py"
    with rewritten(ready, node, path, "cat; echo '# changed'"):
        yield


@fault(words.PROGRAM)
def program_missing(ready: ReadyCluster, node: str) -> Iterator[None]:
    with moved(ready, node, bundle(ready, node)):
        yield


def bundle(ready: ReadyCluster, node: str) -> str:
    installation = ready.entry(node).installation
    assert installation is not None
    return installation.bundle


@fault(words.PYTHON)
def environment_of_another_user(ready: ReadyCluster, node: str) -> Iterator[None]:
    folder = f"{ready.home}/environments"
    as_root(ready, node, f"chown root {folder}; chmod 700 {folder}")
    yield
    # A fix has set it aside; 230 MB that nobody needs.
    as_root(ready, node, f"chown lab {folder}; chmod 755 {folder}; rm -rf {folder}.not-ours-*")


@fault(words.PYTHON)
def python_missing(ready: ReadyCluster, node: str) -> Iterator[None]:
    with moved(ready, node, "/usr/bin/python3.11"):
        yield


@fault(words.AGENT)
def agent_stopped(ready: ReadyCluster, node: str) -> Iterator[None]:
    ready.stop_agent(node)
    yield
    ready.revive()


@fault(words.LEFTOVERS)
def left_over_process(ready: ReadyCluster, node: str) -> Iterator[None]:
    jobs = DataRoot(ready.cluster.share).jobs
    make_folder(jobs, exist_ok=True)
    run = jobs / f"20200101-{node}" / "attempts" / "1"
    run.mkdir(parents=True)
    (run / "exit.json").write_text("{}")
    tag = f"RINGMASTER_RUN=20200101-{node}/1"
    ready[node].run(["sh", "-c", f"{tag} setsid sleep 3600 >/dev/null 2>&1 </dev/null &"])
    asleep = ("sleep", "3600")
    wait_for(lambda: any(p.argv == asleep for p in ready[node].processes()), "No process came")
    yield
    for process in ready[node].processes():
        if process.argv == asleep:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.host_pid, 9)
    call("rm", "-rf", run.parents[1])


# The machine.


@fault(words.HOME)
def home_disk_full(ready: ReadyCluster, node: str) -> Iterator[None]:
    ready[node].fill_disk()
    yield
    ready[node].free_disk()


@fault(words.HOME)
def home_noexec(ready: ReadyCluster, node: str) -> Iterator[None]:
    as_root(
        ready,
        node,
        "mount --bind /home/lab /home/lab; mount -o remount,bind,noexec /home/lab",
    )
    yield
    as_root(ready, node, "umount -l /home/lab")


@fault(words.SHARED_MEMORY)
def shared_memory_tiny(ready: ReadyCluster, node: str) -> Iterator[None]:
    as_root(ready, node, "mount -o remount,size=1m /dev/shm")
    yield
    as_root(ready, node, "mount -o remount,size=50% /dev/shm")


@fault(words.OPEN_FILES)
def few_open_files(ready: ReadyCluster, node: str) -> Iterator[None]:
    as_root(ready, node, "prlimit --nofile=128:128 --pid $(cat /run/sshd.pid)")
    yield
    # A limit that was lowered can be raised again by nobody, so another sshd takes over.
    ready[node].stop_sshd()
    ready[node].start_sshd()


@fault(words.CLOCK)
def clock_ahead(ready: ReadyCluster, node: str) -> Iterator[None]:
    ready[node].set_clock(600)
    yield
    ready[node].set_clock(0)


@fault(words.GPUS)
def gpu_not_there(ready: ReadyCluster, node: str) -> Iterator[None]:
    describe_gpus(ready, node, "gpus 1")
    yield
    describe_gpus(ready, node)


@fault(words.GPUS)
def gpu_busy(ready: ReadyCluster, node: str) -> Iterator[None]:
    describe_gpus(ready, node, "gpus 2", "process 1 1 18432")
    yield
    describe_gpus(ready, node)


@fault(words.GPUS)
def gpu_lost(ready: ReadyCluster, node: str) -> Iterator[None]:
    describe_gpus(ready, node, "gpus 2", "lost 1")
    yield
    describe_gpus(ready, node)


def describe_gpus(ready: ReadyCluster, node: str, *lines: str) -> None:
    """See `tests/fakes/nvml/nvml.c`; without a line the node has two GPUs in good order."""
    text = "".join(f"{line}\n" for line in lines or ("gpus 2",))
    as_root(ready, node, f"printf '{text}' >{GPUS_FILE}")


@contextmanager
def two_gpus(ready: ReadyCluster, node: str, library: Path) -> Iterator[None]:
    """A driver with two GPUs, and a PyTorch that says it could use them."""
    place = f"nvml-{node}"
    shutil.copy(library, ready.cluster.share / place)
    into = "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"
    as_root(ready, node, f"cp {ready.cluster.data_root}/{place} {into}")
    describe_gpus(ready, node)
    path = f"{_environment(ready, node)}/{_SITE}/torch/version.py"
    try:
        with rewritten(ready, node, path, "cat; echo 'cuda = \"12.8\"'"):
            yield
    finally:
        as_root(ready, node, f"rm {into} {GPUS_FILE}")


# The data root.


@fault(words.DATA_ROOT)
def data_root_unmounted(ready: ReadyCluster, node: str) -> Iterator[None]:
    ready[node].unmount_share()
    yield
    ready[node].mount_share()


@fault(words.DATA_ROOT)
def data_root_read_only(ready: ReadyCluster, node: str) -> Iterator[None]:
    with read_only_over(ready, node, ready.cluster.data_root):
        yield


@fault(words.DATA_ROOT)
def another_folder_there(ready: ReadyCluster, node: str) -> Iterator[None]:
    root = ready.cluster.data_root
    as_root(ready, node, f"mount -t tmpfs tmpfs {root}; mkdir {root}/jobs; chmod 777 {root}")
    yield
    as_root(ready, node, f"umount -l {root}")


@fault(words.DISK, shared=True)
def data_root_full(ready: ReadyCluster, node: str) -> Iterator[None]:
    full = ready.cluster.share / "full"
    room = os.statvfs(ready.cluster.share)
    size, path = room.f_bavail * room.f_frsize, shlex.quote(str(full))
    call("sh", "-c", f"{{ fallocate -l {size} {path}; cat /dev/zero >>{path}; }} 2>&1; true")
    yield
    full.unlink()


# Among each other.


@fault(words.BETWEEN)
def cluster_key_not_listed(ready: ReadyCluster, node: str) -> Iterator[None]:
    with rewritten(ready, node, "/home/lab/.ssh/authorized_keys", "grep -v restrict"):
        yield


@fault(words.BETWEEN)
def cluster_key_readable_by_all(ready: ReadyCluster, node: str) -> Iterator[None]:
    as_root(ready, node, f"chmod 644 {ready.home}/ssh/id_cluster")
    yield
    as_root(ready, node, f"chmod 600 {ready.home}/ssh/id_cluster")


@fault(words.BETWEEN)
def cluster_key_missing(ready: ReadyCluster, node: str) -> Iterator[None]:
    with moved(ready, node, f"{ready.home}/ssh/id_cluster"):
        yield


@fault(words.BETWEEN)
def ssh_client_missing(ready: ReadyCluster, node: str) -> Iterator[None]:
    with moved(ready, node, "/usr/bin/ssh"):
        yield


@fault(words.SETTINGS)
def ssh_settings_not_writable(ready: ReadyCluster, node: str) -> Iterator[None]:
    folder = f"{ready.home}/ssh"
    as_root(ready, node, f"chown root {folder}; chmod 755 {folder}")
    yield
    as_root(ready, node, f"chown lab {folder}; chmod 700 {folder}; rm -rf {folder}.not-ours-*")


@fault(words.ROUTE)
def firewall(ready: ReadyCluster, node: str) -> Iterator[None]:
    """Answers from the ports that mpirun and ranks use are lost; sshd's port is open."""
    rule = "ipproto 6 sport 1024-65534 blackhole pref 10"
    as_root(ready, node, f"ip rule add {rule}")
    yield
    as_root(ready, node, f"ip rule del {rule}")


@fault(words.ROUTE)
def mtu_too_large(ready: ReadyCluster, node: str) -> Iterator[None]:
    """Its cable's other end takes small packets only, and drops the others in silence."""
    number = list(ready.cluster.nodes).index(node) + 1
    other_end = ready.cluster.slot.link("n", number)
    before = call("cat", f"/sys/class/net/{other_end}/mtu").strip()
    as_root(ready, node, "ip link set eth0 gso_max_segs 1")
    call("ip", "link", "set", other_end, "mtu", "600")
    yield
    call("ip", "link", "set", other_end, "mtu", before)
    as_root(ready, node, "ip link set eth0 gso_max_segs 65535")


# What the desktop knows.


@fault(words.NODE)
def out_of_service(ready: ReadyCluster, node: str) -> Iterator[None]:
    with changed_entry(ready, node, lambda entry: replace(entry, in_service=False)):
        yield


@fault(words.NODE)
def not_set_up(ready: ReadyCluster, node: str) -> Iterator[None]:
    with changed_entry(ready, node, lambda entry: replace(entry, installation=None)):
        yield


@fault(words.NETWORK)
def address_gone(ready: ReadyCluster, node: str) -> Iterator[None]:
    """It has another address than that by which the others know it."""
    foreign = f"{ready.cluster.subnet.rpartition('.')[0]}.99/24"

    def change(entry: NodeEntry) -> NodeEntry:
        assert entry.facts is not None
        facts = replace(entry.facts, interfaces=(Interface("eth0", foreign),))
        return replace(entry, ranks_address=foreign, facts=facts)

    with changed_entry(ready, node, change):
        yield
