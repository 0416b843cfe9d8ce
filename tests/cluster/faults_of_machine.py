"""Faults of a node as a machine, and of the data root on it."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from backend.services.preflight import names
from tests.cluster.commands import call
from tests.cluster.ready import ReadyCluster
from tests.cluster.seeding import (
    SITE,
    environment,
    read_only_folder,
    rewritten_file,
    run_as_root,
    seeded_fault,
)

GPUS_FILE = "/run/gpus"

# The machine.


@seeded_fault(names.HOME)
def home_disk_full(ready: ReadyCluster, node: str) -> Iterator[None]:
    ready[node].fill_disk()
    yield
    ready[node].free_disk()


@seeded_fault(names.HOME)
def home_noexec(ready: ReadyCluster, node: str) -> Iterator[None]:
    run_as_root(
        ready,
        node,
        "mount --bind /home/lab /home/lab; mount -o remount,bind,noexec /home/lab",
    )
    yield
    run_as_root(ready, node, "umount -l /home/lab")


@seeded_fault(names.SHARED_MEMORY)
def shared_memory_tiny(ready: ReadyCluster, node: str) -> Iterator[None]:
    run_as_root(ready, node, "mount -o remount,size=1m /dev/shm")
    yield
    run_as_root(ready, node, "mount -o remount,size=50% /dev/shm")


@seeded_fault(names.OPEN_FILES)
def few_open_files(ready: ReadyCluster, node: str) -> Iterator[None]:
    run_as_root(ready, node, "prlimit --nofile=128:128 --pid $(cat /run/sshd.pid)")
    yield
    # A limit that was lowered cannot be raised again, so another sshd takes over.
    ready[node].stop_sshd()
    ready[node].start_sshd()


@seeded_fault(names.CLOCK)
def clock_ahead(ready: ReadyCluster, node: str) -> Iterator[None]:
    ready[node].set_clock(600)
    yield
    ready[node].set_clock(0)


@seeded_fault(names.GPUS)
def gpu_not_there(ready: ReadyCluster, node: str) -> Iterator[None]:
    describe_gpus(ready, node, "gpus 1")
    yield
    describe_gpus(ready, node)


@seeded_fault(names.GPUS)
def gpu_busy(ready: ReadyCluster, node: str) -> Iterator[None]:
    describe_gpus(ready, node, "gpus 2", "process 1 1 18432")
    yield
    describe_gpus(ready, node)


@seeded_fault(names.GPUS)
def gpu_lost(ready: ReadyCluster, node: str) -> Iterator[None]:
    describe_gpus(ready, node, "gpus 2", "lost 1")
    yield
    describe_gpus(ready, node)


def describe_gpus(ready: ReadyCluster, node: str, *lines: str) -> None:
    """See `tests/fakes/nvml/nvml.c`; without a line the node has two GPUs in good order."""
    text = "".join(f"{line}\n" for line in lines or ("gpus 2",))
    run_as_root(ready, node, f"printf '{text}' >{GPUS_FILE}")


@contextmanager
def two_gpus(ready: ReadyCluster, node: str, library: Path) -> Iterator[None]:
    """A driver with two GPUs, and a PyTorch that says it could use them.

    Its agent does not outlive them: it would continue to report GPUs that do not answer any more.
    """
    folder_name = f"nvml-{node}"
    shutil.copy(library, ready.cluster.share / folder_name)
    into = "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"
    run_as_root(ready, node, f"cp {ready.cluster.data_root}/{folder_name} {into}")
    describe_gpus(ready, node)
    path = f"{environment(ready, node)}/{SITE}/torch/version.py"
    try:
        with rewritten_file(ready, node, path, "cat; echo 'cuda = \"12.8\"'"):
            yield
    finally:
        run_as_root(ready, node, f"rm {into} {GPUS_FILE}")
        ready.stop_agent(node)


# The data root.


@seeded_fault(names.DATA_ROOT)
def data_root_unmounted(ready: ReadyCluster, node: str) -> Iterator[None]:
    ready[node].unmount_share()
    yield
    ready[node].mount_share()


@seeded_fault(names.DATA_ROOT)
def data_root_read_only(ready: ReadyCluster, node: str) -> Iterator[None]:
    with read_only_folder(ready, node, ready.cluster.data_root):
        yield


@seeded_fault(names.DATA_ROOT)
def another_folder_there(ready: ReadyCluster, node: str) -> Iterator[None]:
    root = ready.cluster.data_root
    run_as_root(ready, node, f"mount -t tmpfs tmpfs {root}; mkdir {root}/jobs; chmod 777 {root}")
    yield
    run_as_root(ready, node, f"umount -l {root}")


@seeded_fault(names.DISK, shared=True)
def data_root_full(ready: ReadyCluster, node: str) -> Iterator[None]:
    full = ready.cluster.share / "full"
    disk_stat = os.statvfs(ready.cluster.share)
    size, path = disk_stat.f_bavail * disk_stat.f_frsize, shlex.quote(str(full))
    call("sh", "-c", f"{{ fallocate -l {size} {path}; cat /dev/zero >>{path}; }} 2>&1; true")
    yield
    full.unlink()
