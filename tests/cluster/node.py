"""One machine of the test cluster: namespaces, a disk, an sshd, and what can befall it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import struct
import subprocess
import time
import uuid
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tests.cluster import image
from tests.cluster.cable import Cable
from tests.cluster.commands import ClusterError, call, ip
from tests.cluster.processor import Processor
from tests.cluster.slot import Slot, end_processes, loops_below, processes_in
from tests.waiting import LIMIT_S, wait_for

DATA_ROOT = "/srv/data"
CLOCK_OFFSET = Path("var/lib/clock-offset")
_START = Path(__file__).with_name("node_start.sh")
_GRACE_S = 2.0
_CONNECT_S = 1.0
"""For a try of many: the kernel of a node that is up takes a connection at once."""


@dataclass(frozen=True)
class Process:
    """A process of a node. ``pid`` is the node's own number, ``host_pid`` this machine's."""

    pid: int
    host_pid: int
    uid: int
    argv: tuple[str, ...]


@dataclass(frozen=True)
class NodePlan:
    """The parts of a node.

    ``folder`` holds its disk, the log of its starts, and under ``identity`` the files that are its
    own; ``index`` counts from 1 and gives its address.  A bare node has python3 and nothing beside.
    ``cores`` is the processor that is its own, such as 0.2; None: it takes all that this machine
    has.
    """

    name: str
    index: int
    folder: Path
    image: Path
    share: Path
    is_bare: bool
    cores: float | None = None


class Node:
    """A machine that can be used, and broken.

    Every method returns when its effect is there, and raises `ClusterError` when it does not come.
    """

    def __init__(self, slot: Slot, plan: NodePlan) -> None:
        self.name = plan.name
        self._plan = plan
        self._cable = Cable(slot, plan.index, plan.name)
        self.address = self._cable.address
        self._namespace = self._cable.namespace
        self._log = plan.folder / "start.log"
        self.processor = None if plan.cores is None else Processor(self._namespace, plan.cores)
        self._process: subprocess.Popen[bytes] | None = None
        self._init = 0

    def __repr__(self) -> str:
        return f"<Node {self.name} {self.address}>"

    @property
    def is_on(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def boot(self) -> None:
        """Switch it on; its sshd answers when this returns."""
        if self.is_on:
            raise ClusterError(f"{self.name} is on already")
        self._cable.plug_in()
        clocks = (time.CLOCK_BOOTTIME, time.CLOCK_MONOTONIC)
        boot_s, monotonic_s = (int(time.clock_gettime(clock)) for clock in clocks)
        namespace_options = ("--pid", "--mount", "--uts", "--ipc", "--cgroup", "--time")
        missing_packages = image.VENV_PACKAGES if self._plan.is_bare else ()
        argv: list[str | Path] = []
        if self.processor is not None:
            self.processor.make()
            argv += self.processor.enter_command()
        argv += ["nsenter", f"--net=/run/netns/{self._namespace}"]
        argv += ["unshare", "--fork", "--kill-child=KILL", *namespace_options]
        argv += ["--propagation", "slave", f"--boottime=-{boot_s}", f"--monotonic=-{monotonic_s}"]
        argv += ["/bin/sh", _START, self.name]
        argv += [str(uuid.uuid4()), self._plan.folder, self._plan.image, *missing_packages]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._wait_for_sshd()
        (self._init,) = (p.host_pid for p in self.processes() if p.pid == 1)

    def power_off(self) -> None:
        """Take its power away: nothing is closed or announced. Its disk stays."""
        self._cable.pull()
        self._end()

    def shut_down(self) -> None:
        """Switch it off in order: processes are asked to end, connections are closed."""
        system_pids = {1, *(p.pid for p in self.processes() if p.argv == ("sleep", "infinity"))}
        user_processes = [p for p in self.processes() if p.pid not in system_pids]
        for process in user_processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.host_pid, signal.SIGTERM)
        with contextlib.suppress(AssertionError):
            wait_for(
                lambda: not set(user_processes) & set(self.processes()), "an end in order", _GRACE_S
            )
        end_processes(self._namespace)
        self._cable.pull()
        self._end()

    def reboot(self) -> None:
        """In order: `shut_down`, then `boot`. For a loss of power: `power_off`, then `boot`."""
        self.shut_down()
        self.boot()

    def run(
        self,
        argv: Sequence[str],
        user: str = image.USER,
        *,
        input: str = "",
        limit_s: float = LIMIT_S,
    ) -> subprocess.CompletedProcess[str]:
        """Execute a program there, in the user's home, without sshd or network.

        It is ended after ``limit_s`` with the exit code 124.
        """
        namespace_options = ("--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--time")
        ids = (f"--reuid={user}", f"--regid={user}", "--init-groups")
        user_command = ("setpriv", *ids, "--reset-env", "env")
        home = "/root" if user == "root" else f"/home/{user}"
        enter_command = self.processor.enter_command() if self.processor is not None else []
        enter_command += ["nsenter", f"--target={self._init}", *namespace_options]
        enter_command += [*user_command, f"--chdir={home}"]
        return subprocess.run(
            [*enter_command, "timeout", "--kill-after=1", str(limit_s), *argv],
            input=input,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit_s + LIMIT_S,
            check=False,
        )

    def run_as_root(self, *argv: str, limit_s: float = LIMIT_S) -> str:
        """Execute a program as root and return its output.

        Raises:
            ClusterError: It failed, with what it complained of.
        """
        completed = self.run(argv, user="root", limit_s=limit_s)
        if completed.returncode:
            raise ClusterError(f"{' '.join(argv)} on {self.name}: {completed.stderr.strip()}")
        return completed.stdout

    def read(self, path: str) -> str:
        """A file's text, as root."""
        return self.run_as_root("cat", path)

    def processes(self) -> list[Process]:
        """All that runs there, PID 1 with its sleep included."""
        processes = []
        for host_pid in processes_in(self._namespace):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                folder = Path("/proc", str(host_pid))
                lines = (folder / "status").read_text().splitlines()
                status = dict(line.split(":", 1) for line in lines)
                ids = status["NSpid"].split()
                if len(ids) > 1:  # otherwise it is the desktop's end of something that runs there
                    argv = (folder / "cmdline").read_text(errors="replace").split("\0")[:-1]
                    uid = int(status["Uid"].split()[0])
                    processes.append(Process(int(ids[-1]), host_pid, uid, tuple(argv)))
        return sorted(processes, key=lambda process: process.pid)

    def freeze(self) -> None:
        """Let all its processes stand still, as a paused machine does: its address answers."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        for process in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.host_pid, number)

    def cut(self) -> None:
        """Pull its network cable."""
        self._cable.cut()

    def repair(self) -> None:
        """Plug the cable in again."""
        self._cable.repair()

    def forget_neighbours(self) -> None:
        """Forget the hardware addresses of the other nodes."""
        self._cable.forget_neighbours()

    def block_desktop(self) -> None:
        """Hear nothing of the desktop, and be heard no more, in silence; other nodes still do."""
        self._cable.block_desktop_route()

    def unblock_desktop(self) -> None:
        self._cable.restore_desktop_route()

    def delay(self, round_trip_ms: float) -> None:
        """Delay every answer by that much, as of a distant node; 0 ends it.

        It lasts until the next boot.
        """
        self._cable.delay(round_trip_ms / 1000)

    def set_clock(self, offset_s: float) -> None:
        """Let its wall clock show another time than the desktop's, for what runs there as well.

        It lasts over a reboot.
        """
        offset = struct.pack("=q", round(offset_s * 1e9))
        with Path("/proc", str(self._init), "root", CLOCK_OFFSET).open("r+b") as file:
            file.write(offset)

    def stop_sshd(self) -> None:
        """No new connection is taken; those that are open stay, as with ``systemctl stop ssh``."""
        self.run_as_root("sh", "-c", "kill $(cat /run/sshd.pid)")
        wait_for(lambda: self._banner() == b"", f"the end of sshd on {self.name}")

    def start_sshd(self) -> None:
        self.run_as_root("/usr/sbin/sshd", "-E", "/var/log/sshd.log")
        self._wait_for_sshd()

    def fill_disk(self) -> None:
        """Leave not one byte for anybody on its disk."""
        fill = (
            "fallocate -l $(($(stat -f -c '%a * %S' /var))) /var/full;"
            " cat /dev/zero >>/var/full; true"
        )
        self.run_as_root("sh", "-c", fill)

    def free_disk(self) -> None:
        self.run_as_root("rm", "-f", "/var/full")

    def unmount_share(self) -> None:
        """Take the data root away under whatever uses it: an empty folder is left."""
        call("umount", "--lazy", self._mount_point)

    def mount_share(self) -> None:
        self._mount_point.mkdir(exist_ok=True)
        call("mount", "--bind", self._plan.share, self._mount_point)

    @contextlib.contextmanager
    def lent_folder(self, folder: Path) -> Iterator[str]:
        """Mount a folder of this machine on the node for a block; yields its path there."""
        mount_point = self._plan.folder / "srv" / folder.name
        mount_point.mkdir()
        call("mount", "--bind", folder, mount_point)
        try:
            yield f"{PurePosixPath(DATA_ROOT).parent}/{folder.name}"
        finally:
            call("umount", "--lazy", mount_point)
            mount_point.rmdir()

    def add_docker_bridge(self) -> None:
        """A second interface with the address that Docker gives itself on every machine.

        It lasts until the next boot.
        """
        ip(
            [
                "link add docker0 type bridge",
                "link add vethdocker type veth peer name vethinner",
                "link set vethdocker master docker0",
                "link set vethdocker up",
                "link set vethinner up",
                "address add 172.17.0.1/16 dev docker0",
                "link set docker0 up",
            ],
            self._namespace,
        )

    def remove_docker_bridge(self) -> None:
        ip(["link delete docker0", "link delete vethdocker"], self._namespace)

    def reap(self) -> None:
        """See it gone, after the cluster was taken down."""
        self._cable.end_relay()
        if self._process is not None:
            self._process.wait(LIMIT_S)

    def heal(self, initial_processes: Collection[Process] | None = None) -> None:
        """Make it whole again, whatever its methods have done to it.

        Processes of users that are not among ``initial_processes`` are ended.
        """
        if not self.is_on:
            self.boot()
        if initial_processes is not None:
            wait_for(
                lambda: not self._end_newer(initial_processes),
                f"the end of processes on {self.name}",
            )
        self.repair()
        if self._cable.is_delayed:
            self.delay(0)
        if self._cable.is_blocked:
            self.unblock_desktop()
        if not self._banner():
            self.start_sshd()
        self.free_disk()
        self.set_clock(0)
        if not self._mount_point.is_mount():
            self.mount_share()
        if "docker0" in call("ip", "-n", self._namespace, "-brief", "link"):
            self.remove_docker_bridge()

    def make_disk(self, size_bytes: int) -> None:
        """A new, empty disk; the file grows with what is written."""
        disk = self._plan.folder / "disk.ext4"
        make_file_system(disk, size_bytes)
        (self._plan.folder / "disk").mkdir(exist_ok=True)

    @property
    def _mount_point(self) -> Path:
        return self._plan.folder / "srv" / Path(DATA_ROOT).name

    def _end_newer(self, initial_processes: Collection[Process]) -> list[Process]:
        older_pids = {process.host_pid for process in initial_processes}
        newer_processes = [p for p in self.processes() if p.uid and p.host_pid not in older_pids]
        for process in newer_processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.host_pid, signal.SIGKILL)
        return newer_processes

    def _end(self) -> None:
        assert self._process is not None
        end_processes(self._namespace)
        call("ip", "netns", "delete", self._namespace)
        self._process.wait(LIMIT_S)
        folder = self._plan.folder
        wait_for(lambda: not loops_below(folder), f"the end of the disk of {self.name}")

    def _wait_for_sshd(self) -> None:
        def answers() -> bool:
            if not self.is_on:
                raise ClusterError(f"{self.name} did not start: {self._log.read_text()}")
            return self._banner().startswith(b"SSH-2.0")

        wait_for(answers, f"an answer of {self.name}", hint=self._log.read_text)

    def _banner(self) -> bytes:
        """The first words of its sshd, b"" when it has none."""
        with (
            contextlib.suppress(OSError),
            socket.create_connection((self.address, 22), timeout=_CONNECT_S) as connection,
        ):
            connection.settimeout(LIMIT_S)
            return connection.recv(64)
        return b""


def make_file_system(file: Path, size_bytes: int) -> None:
    """An empty ext4 in a sparse file.

    It has no journal: what a node loses with its power is its processes, never the page cache,
    which is this machine's; and a journal takes 70 MB of the real disk.
    """
    file.unlink(missing_ok=True)
    with file.open("wb") as disk:
        disk.truncate(size_bytes)
    call("mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", "-E", "nodiscard", file)
    shutil.chown(file, "root")
