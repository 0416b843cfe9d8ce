"""A Slurm cluster on this machine: Debian's own slurmctld, slurmd and munged, in namespaces.

Each machine has an address, a name, a boot id, a /tmp and shared memory of its own, and the files
of this one, so the Python that runs the tests trains there, too. The desktop is this machine: it
calls `sbatch` and its companions as a login node does. Ended jobs are in a file, or with
``has_database`` in slurmdbd's, with the account `ACCOUNT` for all users.

`SlurmCluster.open_login_node` adds a login node with sshd. A user who comes by it has an account on
all machines, a home that they share, and `SHARE`, a folder that the desktop does not see.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from backend.ssh.interface import CommandResult
from installers import system_packages
from installers.console import Progress
from tests.cluster.cable import Cable
from tests.cluster.cluster import check_rights
from tests.cluster.commands import ClusterError, call, ip
from tests.cluster.slot import Slot, claim_slot, end_processes, processes_in
from tests.waiting import LIMIT_S, wait_for

NODES = ("sn1", "sn2", "sn3")
GPUS_OF_A_NODE = 2
SHORT_LIMIT_S = 120
"""The time limit of the partition `short`."""
USER, USER_ID, HOME = "lab", 7000, "/srv/home"
SHARE = "/srv/share"
"""The folder that all machines but the desktop share, as a path there."""
ACCOUNT = "physics"
_CONTROLLER, _LOGIN = "sctl", "slogin"
_START = Path(__file__).with_name("slurm_node.sh")
_ROOT = Path(__file__).resolve().parents[2]

_SSHD_CONFIG = """\
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
PidFile none
PasswordAuthentication no
StrictModes no
UsePAM no
UseDNS no
Subsystem sftp internal-sftp
SetEnv SLURM_CONF={folder}/slurm.conf OMP_NUM_THREADS=1
"""

_SLURM_CONF = """\
ClusterName=ringmaster
SlurmctldHost={controller}({address})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=30
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/completions
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
MpiDefault=none
ReturnToService=2
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
KillWait=30
OverTimeLimit=0
SlurmdTimeout=300
SchedulerParameters=sched_interval=2,batch_sched_delay=1
NodeName={nodes} NodeAddr={addresses} CPUs=2 Gres=gpu:{gpus} State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE PriorityTier=10 PreemptMode=OFF
PartitionName=short Nodes=ALL MaxTime={short_minutes} PriorityTier=10 PreemptMode=OFF GraceTime=0
PartitionName=spare Nodes=ALL MaxTime=60 PriorityTier=1 PreemptMode=REQUEUE GraceTime=0
"""
_MEMORY_LIMITS = {
    "ProctrackType=proctrack/linuxproc": "ProctrackType=proctrack/cgroup",
    "TaskPlugin=task/none": "TaskPlugin=task/cgroup",
    "CR_Core\n": "CR_Core_Memory\n",
    "CPUs=2 Gres": "CPUs=2 RealMemory=4000 Gres",
}
_ACCOUNTING = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost={address}
AccountingStoragePass={folder}/munge.socket
AccountingStorageEnforce=associations,limits,qos
AccountingStoreFlags=job_comment
"""
_SLURMDBD_CONF = """\
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
DbdHost={controller}
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm
LogFile={folder}/slurmdbd.log
PidFile={folder}/slurmdbd.pid
"""
_DATABASE_USER = "GRANT ALL ON slurm.* TO slurm@127.0.0.1 IDENTIFIED BY 'slurm';\n"


class SlurmCluster:
    """A context manager: inside, three nodes are idle; afterwards no process is left of them.

    Raises:
        ClusterError: This machine does not let us build one; the sentence says what it refused.
    """

    def __init__(
        self, data: Path, *, has_database: bool = False, limits_memory: bool = False
    ) -> None:
        """``data`` is the folder that all machines share with the desktop.

        With ``limits_memory`` control groups keep a job to the memory that it asked for.
        """
        self._has_database = has_database
        self._limits_memory = limits_memory
        self.data = data.resolve()
        self.folder = Path()
        self.slot = Slot(-1)
        self._stack = contextlib.ExitStack()
        self._cables: dict[str, Cable] = {}
        self._machines: dict[str, subprocess.Popen[bytes]] = {}
        self._cgroups = ""

    def __enter__(self) -> SlurmCluster:
        check_rights()
        required_packages = system_packages.SLURM
        if self._has_database:
            required_packages += system_packages.SLURM_DATABASE
        self.data.mkdir(parents=True, exist_ok=True)
        system_packages.install_missing(required_packages, self.data / "packages.log", Progress())
        with contextlib.ExitStack() as stack:
            self.slot = stack.enter_context(claim_slot(self.data))
            # Not in a folder of pytest's, which are closed to munged.
            self.folder = Path(f"/run/ringmaster-slurm-{self.slot.number}")
            shutil.rmtree(self.folder, ignore_errors=True)
            stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
            for path in self._user_folders.values():
                stack.callback(shutil.rmtree, path, ignore_errors=True)
            stack.callback(self._end_machines)
            self._write_settings()
            self._connect_desktop()
            self._start_controller()
            if self._has_database:
                self._add_account()
            self._start_nodes()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables with which Slurm's commands reach this cluster."""
        return {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf")}

    @property
    def subnet(self) -> str:
        return str(self.slot.subnet)

    def call(self, *argv: str, limit_s: float = LIMIT_S) -> str:
        """Run a command of Slurm's on the desktop and return its output.

        Raises:
            ClusterError: It failed, with what it complained of.
        """
        return call("env", f"SLURM_CONF={self.folder / 'slurm.conf'}", *argv, limit_s=limit_s)

    def run(
        self, argv: Sequence[str], *, input: bytes = b"", limit_s: float = LIMIT_S
    ) -> CommandResult:
        """Run a command as the login node of a launcher does."""
        completed = subprocess.run(
            argv,
            input=input,
            capture_output=True,
            env=self.environment,
            timeout=limit_s,
            check=False,
        )
        out, err = (
            text.decode("utf-8", "replace") for text in (completed.stdout, completed.stderr)
        )
        return CommandResult(completed.returncode, out, err)

    @property
    def _user_folders(self) -> Mapping[str, Path]:
        """The folders of this machine behind `SHARE` and `HOME`."""
        return {SHARE: self.data / "share", HOME: self.data / "home"}

    @property
    def login_address(self) -> str:
        return self._cables[_LOGIN].address

    @property
    def identity(self) -> Path:
        """The private key with which the user logs in at the login node."""
        return self.folder / "user_key"

    @property
    def host_fingerprint(self) -> str:
        """The fingerprint of the login node's sshd, as its administrator would tell it."""
        return call("ssh-keygen", "-lf", self.folder / "host_key.pub").split()[1]

    def open_login_node(self) -> None:
        """Start sshd on a machine of its own; it answers when this returns."""
        for key in ("host_key", "user_key"):
            call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / key)
        shutil.copy(self.folder / "user_key.pub", self.folder / "authorized_keys")
        Path("/run/sshd").mkdir(exist_ok=True)
        config = self.folder / "sshd_config"
        config.write_text(_SSHD_CONFIG.format(folder=self.folder))
        self._cables[_LOGIN].plug_in()
        self._start_machine(_LOGIN, "/usr/sbin/sshd", "-D", "-e", "-f", str(config))
        wait_for(self._login_node_answers, "an answer of sshd", hint=self._logs)

    def _login_node_answers(self) -> bool:
        self._check_machine(_LOGIN)
        with contextlib.suppress(OSError), socket.create_connection((self.login_address, 22), 1):
            return True
        return False

    def states(self) -> dict[str, str]:
        """Return what Slurm calls the state of each node: idle, mixed, down*."""
        lines = self.call("sinfo", "-h", "-N", "-p", "main", "-o", "%N %T").splitlines()
        states = {}
        for line in lines:
            node, state = line.split()
            states[node] = state
        return states

    def cut(self, node: str) -> None:
        """Pull the network cable of a node."""
        self._cables[node].cut()

    def repair(self, node: str) -> None:
        """Plug the cable in again, and let Slurm use a node that it has given up."""
        self._cables[node].repair()
        if self.states()[node].startswith("down"):
            self.call("scontrol", "update", f"NodeName={node}", "State=RESUME")

    def cut_login_node(self) -> None:
        """Pull the network cable of the login node."""
        self._cables[_LOGIN].cut()

    def repair_login_node(self) -> None:
        self._cables[_LOGIN].repair()

    def cancel_all(self) -> None:
        """End all jobs; every node is idle when this returns."""
        for job_id in self.call("squeue", "-h", "-o", "%A").split():
            self.call("scancel", job_id)
        self._wait_until_idle()

    def _write_settings(self) -> None:
        for name in ("state", *(f"spool-{node}" for node in NODES)):
            (self.folder / name).mkdir(parents=True)
        shared = {self.data, _ROOT, Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve()}
        lines_of_tmp = [f"{path}\n" for path in sorted(shared) if path.is_relative_to("/tmp")]
        (self.folder / "shared_of_tmp").write_text("".join(lines_of_tmp))
        for source in self._user_folders.values():
            source.mkdir()
            os.chown(source, USER_ID, USER_ID)
        lines = [f"{source} {target}\n" for target, source in self._user_folders.items()]
        (self.folder / "mounts").write_text("".join(lines))
        account = f"{USER}:x:{USER_ID}:"
        accounts = {"passwd": f"{account}{USER_ID}::{HOME}:/bin/bash", "group": account}
        for name, line in accounts.items():
            (self.folder / name).write_text(f"{Path('/etc', name).read_text()}{line}\n")
        names = (_CONTROLLER, *NODES, _LOGIN)
        self._cables = {n: Cable(self.slot, i, n) for i, n in enumerate(names, start=1)}
        lines = ["127.0.0.1 localhost", f"{self.slot.subnet[1]} desktop"]
        lines += [f"{cable.address} {name}" for name, cable in self._cables.items()]
        (self.folder / "hosts").write_text("\n".join(lines) + "\n")
        gpus = range(GPUS_OF_A_NODE)
        for index in gpus:
            call("mknod", self.folder / f"gpu{index}", "c", "1", "3")
        (self.folder / "gres.conf").write_text(
            f"NodeName={','.join(NODES)} Name=gpu File={self.folder}/gpu[0-{gpus[-1]}]\n"
        )
        settings = _SLURM_CONF + _ACCOUNTING * self._has_database
        for usual_setting, setting in _MEMORY_LIMITS.items() if self._limits_memory else ():
            settings = settings.replace(usual_setting, setting)
        (self.folder / "slurm.conf").write_text(
            settings.format(
                controller=_CONTROLLER,
                address=self._cables[_CONTROLLER].address,
                folder=self.folder,
                nodes=",".join(NODES),
                addresses=",".join(self._cables[node].address for node in NODES),
                gpus=GPUS_OF_A_NODE,
                short_minutes=SHORT_LIMIT_S // 60,
            )
        )
        key = self.folder / "munge.key"
        key.write_bytes(secrets.token_bytes(1024))
        key.chmod(0o400)

    def _connect_desktop(self) -> None:
        slot = self.slot
        ip(
            [
                f"link add {slot.bridge} address {slot.mac(0)} type bridge",
                f"address add {slot.subnet[1]}/{slot.subnet.prefixlen} dev {slot.bridge}",
                f"link set {slot.bridge} up",
            ]
        )

    def _start_controller(self) -> None:
        # One munged serves all machines: they share its socket.
        files = {"socket": "socket", "key-file": "key", "log-file": "log", "pid-file": "pid"}
        options = [f"--{option}={self.folder}/munge.{name}" for option, name in files.items()]
        munged = ["munged", "--foreground", "--force", *options]
        munged += [f"--seed-file={self.folder}/munge.seed"]
        # The file of cgroups is read by slurmd only, but has to be one.
        self._write_cgroup_settings("v1")
        # munged stays when slurmctld is away.
        away = self._controller_is_away
        database = self._write_database_settings() if self._has_database else ""
        controller = f"while sleep 0.2; do [ -e {away} ] || slurmctld -D; done"
        script = f"{' '.join(munged)} & {database} {controller}"
        self._cables[_CONTROLLER].plug_in()
        self._start_machine(_CONTROLLER, "sh", "-c", script)
        wait_for(self._controller_answers, "an answer of slurmctld", hint=self._logs)

    def _write_database_settings(self) -> str:
        """Return the commands that start MariaDB and slurmdbd on the controller."""
        config = self.folder / "slurmdbd.conf"
        config.write_text(_SLURMDBD_CONF.format(folder=self.folder, controller=_CONTROLLER))
        config.chmod(0o600)
        (self.folder / "user.sql").write_text(_DATABASE_USER)
        options = ["--no-defaults", "--user=root", f"--datadir={self.folder}/mysql"]
        call("mariadb-install-db", *options, "--skip-test-db")
        options += [f"--socket={self.folder}/mysql.socket", "--bind-address=127.0.0.1"]
        options += [f"--init-file={self.folder}/user.sql"]
        # slurmdbd tries again until the database answers.
        return f"mariadbd {' '.join(options)} & slurmdbd -D &"

    @property
    def _controller_is_away(self) -> Path:
        return self.folder / "controller_is_away"

    def _add_account(self) -> None:
        def is_registered() -> bool:
            with contextlib.suppress(ClusterError):
                return "ringmaster" in self.call("sacctmgr", "-n", "show", "cluster")
            return False

        wait_for(is_registered, "slurmdbd with the cluster", hint=self._logs)
        for command in (f"account {ACCOUNT}", f"user root,{USER} account={ACCOUNT}"):
            self.call("sacctmgr", "-i", "add", *command.split())

    def set_shortest_job_age(self) -> None:
        """Let Slurm drop ended jobs from its queue after some seconds, not minutes."""
        with (self.folder / "slurm.conf").open("a") as settings:
            settings.write("MinJobAge=2\n")
        self.call("scontrol", "reconfigure")

    def stop_controller(self) -> None:
        """Kill slurmctld; what runs on the nodes goes on."""
        self._controller_is_away.touch()
        for pid in processes_in(self._cables[_CONTROLLER].namespace):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                if Path("/proc", str(pid), "comm").read_text() == "slurmctld\n":
                    os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not self._controller_answers(), "the end of slurmctld")

    def start_controller(self) -> None:
        """Start slurmctld again, with the state that it stored."""
        self._controller_is_away.unlink()
        wait_for(self._controller_answers, "an answer of slurmctld", hint=self._logs)

    def _controller_answers(self) -> bool:
        self._check_machine(_CONTROLLER)
        with contextlib.suppress(ClusterError):
            return "UP" in self.call("scontrol", "ping")
        return False

    def _start_nodes(self) -> None:
        """Start slurmd with the version of control groups that this kernel gives to it."""
        is_v2 = Path("/sys/fs/cgroup/cgroup.controllers").exists()
        reasons: list[str] = []
        for node in NODES:
            self._cables[node].plug_in()
        for version in ("v2", "v1") if is_v2 else ("v1", "v2"):
            self._write_cgroup_settings(version)
            try:
                for node in NODES:
                    self._start_machine(node, "slurmd", "-D", "-N", node)
                self._wait_until_idle()
            except ClusterError as error:
                reasons.append(f"control groups {version}: {error}")
                for node in NODES:
                    end_processes(self._cables[node].namespace)
            else:
                return
        raise ClusterError(f"No slurmd starts on this machine; {'; '.join(reasons)}")

    def _write_cgroup_settings(self, version: str) -> None:
        self._cgroups = version
        lines = [f"CgroupPlugin=cgroup/{version}", "CgroupMountpoint=/sys/fs/cgroup"]
        lines += ["CgroupAutomount=yes"] if version == "v1" else ["IgnoreSystemd=yes"]
        lines += ["ConstrainRAMSpace=yes"] if self._limits_memory else []
        (self.folder / "cgroup.conf").write_text("\n".join(lines) + "\n")

    def _start_machine(self, name: str, *command: str) -> None:
        namespace_options = ("--pid", "--mount", "--uts", "--ipc")
        argv: list[str | Path] = ["nsenter", f"--net=/run/netns/{self._cables[name].namespace}"]
        argv += ["unshare", "--fork", "--kill-child=KILL", *namespace_options]
        argv += ["/bin/sh", _START, name, self.folder, self._cgroups, *command]
        with (self.folder / f"{name}.log").open("wb") as log:
            self._machines[name] = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def _wait_until_idle(self) -> None:
        def are_idle() -> bool:
            for node in NODES:
                self._check_machine(node)
            states.update(self.states())
            return states == dict.fromkeys(NODES, "idle")

        def hint() -> str:
            return f"{states} {self.call('squeue', '-t', 'all')} {self._logs()}"

        states: dict[str, str] = {}
        wait_for(are_idle, "three idle nodes", hint=hint)

    def _check_machine(self, name: str) -> None:
        if self._machines[name].poll() is not None:
            raise ClusterError(f"{name} ended: {self._logs(name)}")

    def _logs(self, *names: str) -> str:
        """The last lines of the logs, for the message of a failure."""
        paths = sorted(self.folder.glob("*.log"))
        chosen_paths = [path for path in paths if not names or any(n in path.name for n in names)]
        ends = (path.read_text(errors="replace").splitlines()[-3:] for path in chosen_paths)
        return " | ".join(line for lines in ends for line in lines)

    def _end_machines(self) -> None:
        for name, machine in self._machines.items():
            end_processes(self._cables[name].namespace)
            machine.wait(LIMIT_S)
