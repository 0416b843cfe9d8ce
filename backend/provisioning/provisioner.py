"""Set a node up in seven steps, each of which checks, installs what is missing, and tests.

Nothing here needs root or a package index on the node. Each step finds the work of an earlier
set-up, so that repeating it continues where the last one failed, and only checks a node that is
ready. An upgrade is installed next to the old version, never over it: runs keep theirs.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import PurePosixPath
from typing import Protocol

from backend.base.errors import BackendError
from backend.base.progress import Progress
from backend.node.checks.doctor import two_ranks_agree, two_ranks_command
from backend.node.checks.preflight_probe import IMPORTS
from backend.node.system.mpi import require_supported, version_in
from backend.provisioning import agent_commands, cluster_key
from backend.provisioning.agent_commands import AgentPaths
from backend.provisioning.cluster_key import ClusterKey, Peer
from backend.provisioning.code_archive import CodeArchive
from backend.provisioning.horovod_wheels import HorovodWheel, WheelTarget
from backend.provisioning.node_environment import NodeEnvironments
from backend.provisioning.step_reporter import StepReporter
from backend.provisioning.wheelhouse import OPEN_MPI, Relay, Wheel, Wheelhouse
from backend.records.base.layout import NodeHome
from backend.records.base.validation import sanitize
from backend.records.nodes.entry import (
    NodeEntry,
    NodeInfo,
    NodeInstallation,
    NodePython,
    SetUp,
)
from backend.records.nodes.provisioning_options import SetUpOptions, choice_errors
from backend.ssh.interface import Machine, Shell

TITLES = ("Reach", "Inspect", "Python", "Open MPI", "PyTorch", "Agent", "Test")
ALREADY_INSTALLED = "was already installed"
_TRIAL = "trial.txt"
_TRIAL_LIMIT_S = 120
_AGENT_LIMIT_S = 20.0
_REFUSED_LIMIT_S = 3.0
_BUSY_PER_CORE = 2.0
_USUAL_SHELLS = ("", "sh", "bash", "dash")
_AS_ROOT = tuple(
    f"{name}_ALLOW_RUN_AS_ROOT{suffix}=1"
    for name in ("OMPI", "PRTE")
    for suffix in ("", "_CONFIRM")
)
_LIST_MISSING = """import importlib.metadata, sys
for name in sys.argv[1:]:
    try:
        importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        print(name)"""


class Wheels(Protocol):
    """The source of wheels for a set-up; see `backend.services.nodes.provisioning`."""

    def choose(
        self, name: str, node_facts: NodeInfo
    ) -> tuple[NodePython, WheelTarget, HorovodWheel | None]:
        """See `backend.provisioning.horovod_wheels.choose`."""

    def gather(
        self,
        target: WheelTarget,
        horovod: HorovodWheel | None,
        on_line: Callable[[str], None],
        is_cancelled: Callable[[], bool],
    ) -> Wheelhouse:
        """See `backend.provisioning.wheelhouse.Wheelhouses.gather`."""

    def gather_more(
        self,
        house: Wheelhouse,
        target: WheelTarget,
        package: str,
        on_line: Callable[[str], None],
        is_cancelled: Callable[[], bool],
    ) -> Wheelhouse:
        """See `backend.provisioning.wheelhouse.Wheelhouses.gather_more`."""


@dataclass(frozen=True)
class SetUpPlan:
    """The input of a set-up, besides the node.

    Args:
        inspect: Inspects the node.
        options: The user's choices; ``packages`` are all that user code needs.
        agree: Called with the node's Open MPI version; raises BackendError if other nodes have
            another one.
        key: The cluster's key, None if ``options.own_key`` is used.
        peers: Every node that mpirun may reach from this one.
        start_agent: The command that starts the agent and ends at once.
        exclusive_access: Held while an environment of that name is checked and made, so that only
            one of several nodes that share it makes it.
        relay: Delivers wheels to several nodes, None if they are sent to each node.
        allocate: Opens the compute node that makes the environment, None for the node itself.
    """

    wheels: Wheels
    bundle: CodeArchive
    inspect: Callable[[Shell], NodeInfo]
    options: SetUpOptions
    agree: Callable[[str], None] = lambda version: None
    key: ClusterKey | None = None
    peers: Sequence[Peer] = ()
    start_agent: Callable[[AgentPaths], Sequence[str]] = agent_commands.start
    exclusive_access: Callable[[str], AbstractContextManager[object]] = nullcontext
    relay: Relay | None = None
    allocate: Callable[[Shell, Progress], AbstractContextManager[Shell]] | None = None


def set_up(
    entry: NodeEntry,
    open_shell: Callable[[NodeEntry], Shell],
    plan: SetUpPlan,
    on_change: Callable[[SetUp], None],
    is_cancelled: Callable[[], bool] = lambda: False,
) -> NodeEntry:
    """Set a node up, or find that it is set up; return the entry with facts and installation.

    Blocks for minutes the first time. ``on_change`` is called on this thread.

    Raises:
        BackendError: A step failed; `SetUp.failed_step` has the same message, and its output.
        Cancelled: By ``is_cancelled``. Completed steps stay and are used by the next set-up.
    """
    steps = StepReporter(entry.name, TITLES, on_change, is_cancelled)
    work = _SetUpWork(entry, plan, steps, is_cancelled)
    steps.start()
    try:
        steps.run_step(lambda: work.reach(open_shell))
        for step in (
            work.inspect,
            work.python,
            work.open_mpi,
            work.packages,
            work.agent,
            work.trial,
        ):
            steps.run_step(step)
        return work.updated_entry()
    finally:
        work.close()


class _StepProgress(Progress):
    """The wait for a job as the message of a step, which raises `Cancelled`."""

    def __init__(self, steps: StepReporter) -> None:
        super().__init__()
        self._steps = steps

    def report(self, done_amount: float, total: float, label: str) -> None:
        self._steps.show_message(label)


class _SetUpWork:
    """A set-up in progress; each method is a step and returns its outcome."""

    shell: Shell
    node_facts: NodeInfo
    _builder: Shell
    _build_facts: NodeInfo
    home: NodeHome
    environments: NodeEnvironments
    house: Wheelhouse
    _target: WheelTarget

    def __init__(
        self,
        entry: NodeEntry,
        plan: SetUpPlan,
        steps: StepReporter,
        is_cancelled: Callable[[], bool],
    ) -> None:
        self._entry = entry
        self._plan = plan
        self._steps = steps
        self._is_cancelled = is_cancelled
        self._is_open = self._has_horovod = self._limits_key = False
        self._name = ""
        self._environment_wheels: tuple[Wheel, ...] = ()
        self._folder = PurePosixPath()
        self._is_complete = False
        self._mpirun = self._mpi_version = self._ssh_config = self._bundle = ""
        self._sent_bytes = 0
        self._access = ExitStack()
        self._allocation = ExitStack()

    def reach(self, open_shell: Callable[[NodeEntry], Shell]) -> str:
        self.shell = open_shell(self._entry)
        self._is_open = True
        user = self._steps.require_output(
            self.shell,
            ["id", "-un"],
            f"{self._entry.name} does not run commands",
            "Ask the node's administrator for a login shell for this account.",
        )
        return f"As {user.strip()}, without a password."

    def inspect(self) -> str:
        self.node_facts = node_facts = self._plan.inspect(self.shell)
        # Before wheels are fetched and sent for minutes.
        current_entry = replace(self._entry, info=node_facts)
        for error in choice_errors(self._plan.options, [current_entry], (), "").values():
            raise BackendError(error)
        relay, root = self._plan.relay, node_facts.data_root
        self.home = self._environments_home = NodeHome(PurePosixPath(node_facts.home))
        if self._plan.options.shared:
            self._environments_home = NodeHome.shared_in(PurePosixPath(root))
        build_label = self._open_builder()
        self.environments = NodeEnvironments(self._builder, self._environments_home, self._steps)
        if (
            relay is not None
            and root
            and node_facts.data_root_writable
            and not self._entry.is_staged
        ):
            self.environments.bring = partial(relay.bring, self.shell, self._steps, root)
        node_facts = self._build_facts
        gpus = f"{len(node_facts.gpus)} × {node_facts.gpus[0]}" if node_facts.gpus else "no GPU"
        shell = PurePosixPath(node_facts.login_shell).name
        shell_note = "" if shell in _USUAL_SHELLS else f", login shell {sanitize(shell)}"
        return (
            f"{node_facts.system}, {node_facts.machine}, {node_facts.cores} cores, "
            f"{gpus}{shell_note}{build_label}."
        )

    def _open_builder(self) -> str:
        """Open what makes the environment; return its description, "" for the node itself."""
        self._builder, self._build_facts = self.shell, self.node_facts
        if self._plan.allocate is None:
            return ""
        self._builder = self._allocation.enter_context(
            self._plan.allocate(self.shell, _StepProgress(self._steps))
        )
        self._build_facts = self._plan.inspect(self._builder)
        if not self._build_facts.data_root_writable:
            raise BackendError(
                f"The compute node {self._build_facts.hostname} cannot write to the data root "
                f"{self.node_facts.data_root}.",
                "Mount the same share on it, at the same path as on the login node.",
            )
        return f"; the environment is made on {self._build_facts.hostname}"

    def python(self) -> str:
        chosen_python, target, horovod = self._plan.wheels.choose(
            self._entry.name, self._build_facts
        )
        self._target = target
        self._has_horovod = horovod is not None
        self.house = self._plan.wheels.gather(
            target, horovod, self._steps.add_line, self._is_cancelled
        )
        self._name, self._environment_wheels = self.house.environment(
            system_mpi=self._plan.options.system_mpi
        )
        if self._plan.options.shared:
            self._steps.show_message("Waiting for the node that makes the environment")
            self._access.enter_context(self._plan.exclusive_access(self._name))
        self._is_complete = self.environments.find(self._name) is not None
        if self._is_complete:
            self._access.close()
            self._folder = self._environments_home.environments / self._name
            return f"Python {chosen_python.version} {ALREADY_INSTALLED}."
        if self._plan.options.shared and self.environments.stamp(self._name) is not None:
            # Other nodes use it, so it is not made again for this one.
            folder = self._environments_home.environments / self._name
            raise BackendError(
                f"The shared environment {folder} does not start on {self._entry.name}: its Python "
                f"{self.house.python} is in another place, or the data root is mounted noexec.",
                f"Set {self._entry.name} up with its own environment.",
            )
        version = self.environments.python_version(chosen_python.path)
        self._folder = self.environments.make_empty(chosen_python.path, self.house)
        self.environments.python_version(str(self._folder / "bin/python"))
        return f"Python {version}, {chosen_python.path}."

    def open_mpi(self) -> str:
        if self._plan.options.system_mpi:
            self._mpirun = self._build_facts.mpirun
        else:
            self._mpirun = str(self._folder / "bin/mpirun")
            if not self._is_complete:
                wheels = [wheel for wheel in self._environment_wheels if wheel.package == OPEN_MPI]
                self._push(wheels)
                self.environments.install(self._folder, self.house, wheels)
        output = self._steps.require_output(
            self._builder, [self._mpirun, "--version"], f"{self._mpirun} does not start"
        )
        version = require_supported(
            version_in(output),
            f"{self._mpirun} on {self._entry.name}",
            "Use Ringmaster's Open MPI.",
        )
        self._mpi_version = version
        self._plan.agree(version)
        ssh_access = self._set_up_ssh_access()
        was_installed = self._is_complete or self._plan.options.system_mpi
        return (
            f"Open MPI {version}{f' {ALREADY_INSTALLED}' if was_installed else ''}; {ssh_access}."
        )

    def _set_up_ssh_access(self) -> str:
        """Set up mpirun's SSH access from this node to the others; return a description."""
        outcome = "connects to the other nodes with your own key"
        if self._plan.key is not None:
            sources = cluster_key.sources(self._entry, self._plan.peers)
            # By its final name: the folder in which it is made will be renamed.
            python = str(self._environments_home.environments / self._name / "bin/python")
            reason = ""
            if self._plan.options.limits_key:
                mpirun = self._mpirun if self._plan.options.system_mpi else python
                reason = cluster_key.reason_against_limit(self.home, python, mpirun)
            self._limits_key = self._plan.options.limits_key and not reason
            gate = python if self._limits_key else ""
            cluster_key.install_key(self.shell, self.home, self._plan.key, sources, gate)
            outcome = f"the cluster's key is accepted from {sources.replace(',', ', ')}"
            outcome += ", for runs only" if gate else ""
            outcome += f", also for a shell and files, since {reason}" if reason else ""
        self._ssh_config = cluster_key.write_settings(
            self.shell, self.home, self._plan.peers, self._plan.options.own_key
        )
        return outcome

    def packages(self) -> str:
        name = "Horovod" if self._has_horovod else "mpi4py"
        proof = f"import torch.distributed; {IMPORTS[name.lower()]}"
        versions = f"{name} {self.house.version(name.lower())}, torch {self.house.version('torch')}"
        if self._is_complete:
            return f"{versions} {ALREADY_INSTALLED}{self._add_packages()}."
        needed_wheels = [wheel for wheel in self._environment_wheels if wheel.package != OPEN_MPI]
        self._push(needed_wheels)
        self._steps.show_message("Installing")
        self.environments.install(self._folder, self.house, needed_wheels)
        self._steps.show_message("Importing")
        self._steps.require_output(
            self._builder,
            [str(self._folder / "bin/python"), "-I", "-c", proof],
            f"{name} cannot be used on {self._entry.name}",
            "Install what its output names as missing, then set the node up again.",
            limit_s=300,
        )
        stamp = {
            "python": self.house.python,
            "wheels": [wheel.name for wheel in (self.house.uv, *self._environment_wheels)],
        }
        building_folder, self._folder = (
            self._folder,
            self._environments_home.environments / self._name,
        )
        self.environments.finish(building_folder, self._name, stamp)
        self._is_complete = True
        self._access.close()
        if not self._plan.options.system_mpi:
            self._mpirun = str(self._folder / "bin/mpirun")
        added_packages = self._add_packages()
        return f"{versions}{added_packages}; {self._sent_bytes / 1e6:.0f} MB sent."

    def _add_packages(self) -> str:
        """Add what user code needs to the complete environment; return the packages as text.

        Nothing that the environment has changes, so running jobs are not affected.
        """
        python = str(self._folder / "bin/python")
        with (
            self._plan.exclusive_access(self._name) if self._plan.options.shared else nullcontext()
        ):
            for package in self._missing_packages(self._plan.options.packages):
                self._steps.show_message(f"Fetching {package}")
                extended_house = self._plan.wheels.gather_more(
                    self.house, self._target, package, self._steps.add_line, self._is_cancelled
                )
                missing_packages = self._missing_packages(
                    [wheel.package for wheel in extended_house.wheels]
                )
                wheels = [
                    wheel for wheel in extended_house.wheels if wheel.package in missing_packages
                ]
                self._sent_bytes += self.environments.push(
                    python, extended_house, [extended_house.uv, *wheels]
                )
                self.environments.install(self._folder, extended_house, wheels)
        return "".join(f", {package}" for package in self._plan.options.packages)

    def _missing_packages(self, packages: Sequence[str]) -> Sequence[str]:
        """Return the packages that the environment does not have."""
        if not packages:
            return ()
        argv = [str(self._folder / "bin/python"), "-I", "-c", _LIST_MISSING, *packages]
        return self._steps.require_output(
            self._builder, argv, "The packages cannot be listed"
        ).split()

    def _push(self, wheels: Sequence[Wheel]) -> None:
        """Send wheels to the node, and uv, which installs them."""
        python = str(self._folder / "bin/python")
        sent_wheels = [self.house.uv, *wheels]
        self._sent_bytes += self.environments.push(python, self.house, sent_wheels)

    def agent(self) -> str:
        name = self._plan.bundle.name
        folder = self.home.bundles / name
        self._bundle = str(folder)
        if not self._steps.run_command(self.shell, ["test", "-d", self._bundle]).ok:
            self._unpack(folder)
        agent = AgentPaths(
            self._entry.name, str(self._folder / "bin/python"), self._bundle, self.node_facts
        )
        remedy = "Fix the cause that its output names, then set the node up again."
        folders = [str(self.home.state)]
        if self._entry.is_staged:
            folders += [agent.folder, f"{self.node_facts.data_root}/jobs"]
        self._steps.require_output(
            self.shell,
            ["mkdir", "-p", "--", *folders],
            "The agent's folder cannot be made",
            remedy,
        )
        check_command = agent_commands.check(agent)
        if self._steps.run_command(self.shell, check_command).ok:
            return "Runs already."
        self._steps.require_output(
            self.shell, agent_commands.stop(agent), "The older agent does not end", remedy
        )
        answer = self._steps.run_command(self.shell, self._plan.start_agent(agent))
        # Another desktop may have started an agent of the same bundle first.
        if not self._steps.run_command(
            self.shell,
            agent_commands.check(agent, limit_s=_AGENT_LIMIT_S if answer.ok else _REFUSED_LIMIT_S),
        ).ok:
            raise BackendError(
                f"The agent was started and wrote nothing to {agent.folder}."
                if answer.ok
                else f"The agent does not start: {answer.complaint.rstrip('.')}.",
                f"Fix the cause named in {self.home.agent_log} on the node, then set it up again.",
            )
        return (
            f"Runs. {agent_commands.start_message(answer.out) or f'It writes to {agent.folder}.'}"
        )

    def _unpack(self, folder: PurePosixPath) -> None:
        temporary_folder = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}")
        archive = temporary_folder / "bundle.tar.gz"
        failure = "The program's own part could not be put on the node"
        steps, shell = self._steps, self.shell
        steps.require_output(shell, ["mkdir", "-p", "--", str(temporary_folder)], failure)
        shell.write(str(archive), self._plan.bundle.archive)
        steps.require_output(
            shell, ["tar", "-xzf", str(archive), "-C", str(temporary_folder)], failure
        )
        steps.require_output(shell, ["rm", "--", str(archive)], failure)
        # If two desktops unpack the same archive, the second finds it there.
        if not steps.run_command(shell, ["mv", "-T", "--", str(temporary_folder), str(folder)]).ok:
            steps.require_output(shell, ["rm", "-rf", "--", str(temporary_folder)], failure)
            steps.require_output(shell, ["test", "-d", str(folder)], failure)

    def trial(self) -> str:
        """Let two ranks of this node add up a number: tests Python, torch and Open MPI."""
        # With a shared environment, each node has its own result.
        stamp = f"{self.home.path}/{self._name}.{_TRIAL}" if self._plan.options.shared else ""
        stamp = stamp or str(self._folder / _TRIAL)
        tested_versions = f"{self._mpirun} {self._mpi_version}\n".encode()
        try:
            if self.shell.read(stamp) == tested_versions:
                return "MPI test has already passed (2 ranks)."
        except FileNotFoundError:
            pass
        python = str(self._folder / "bin/python")
        time_limit = ["timeout", "-k", "5", str(_TRIAL_LIMIT_S)]
        argv = [*time_limit, "env", *_AS_ROOT, *two_ranks_command(self._mpirun, python)]
        failure = f"Two ranks on {self._entry.name} could not work together"
        remedy = "Fix the problem of mpirun that its output names, then set the node up again."
        self._steps.show_message(f"Starting two ranks, which takes some seconds{self._busy_note()}")
        output = self._steps.require_output(
            self._builder, argv, failure, remedy, limit_s=_TRIAL_LIMIT_S + 30
        )
        if not two_ranks_agree(output):
            raise BackendError(f"{failure}: they did not get the same sum.", remedy)
        self.shell.write(stamp, tested_versions)
        return "MPI test passed (2 ranks)."

    def _busy_note(self) -> str:
        """Return that the node is busy, as the end of a sentence."""
        load = self._builder.run(["cat", "/proc/loadavg"]).out.partition(" ")[0]
        cores = self._build_facts.cores
        if not re.fullmatch(r"\d+(\.\d+)?", load) or float(load) < _BUSY_PER_CORE * cores:
            return ""
        return f", and longer now: the node is busy (load {float(load):.0f} on {cores} cores)"

    def updated_entry(self) -> NodeEntry:
        return replace(
            self._entry,
            info=self.node_facts,
            installation=NodeInstallation(
                python=str(self._folder / "bin/python"),
                mpirun=self._mpirun,
                mpi_version=self._mpi_version,
                environment=self._name,
                bundle=self._bundle,
                ssh_config=self._ssh_config,
                own_key=self._plan.options.own_key,
                limits_key=self._limits_key,
                without_horovod=not self._has_horovod,
                packages=self._plan.options.packages,
                in_job=self._plan.options.in_job,
                partition=self._plan.options.partition,
                bytes=disk_usage(self.shell, str(self.home.path)),
            ),
        )

    def close(self) -> None:
        with self._access:
            if self._is_open:
                with self._allocation:
                    if self._folder.name and not self._is_complete:
                        self.environments.drop(self._folder)
                self.shell.close()


def disk_usage(shell: Machine, path: str) -> int:
    """Return the bytes on disk below a folder of a node, 0 if there is none."""
    answer = shell.run(["du", "-sk", "--", path], limit_s=300)
    size_kib = answer.out.split("\t", 1)[0].strip()
    return int(size_kib) * 1024 if size_kib.isdecimal() else 0
