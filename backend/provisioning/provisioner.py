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
from backend.node.checks.doctor import two_ranks_agree, two_ranks_command
from backend.node.system.mpi import version_in
from backend.provisioning import agent_commands, cluster_key
from backend.provisioning.agent_commands import AgentPlace
from backend.provisioning.cluster_key import ClusterKey, Peer
from backend.provisioning.code_archive import CodeArchive
from backend.provisioning.horovod_wheels import HorovodWheel, WheelTarget
from backend.provisioning.node_environment import NodeEnvironments
from backend.provisioning.step_reporter import Steps
from backend.provisioning.wheel_relay import Relay
from backend.provisioning.wheelhouse import OPEN_MPI, Wheel, Wheelhouse
from backend.records.base.layout import NodeHome
from backend.records.base.validation import sanitize
from backend.records.nodes.entry import (
    NodeEntry,
    NodeFacts,
    NodeInstallation,
    PythonFound,
    SetUp,
)
from backend.ssh.interface import Machine, Shell

TITLES = ("Reach", "Inspect", "Python", "Open MPI", "PyTorch", "Agent", "Test")
THERE_ALREADY = "was already installed"
_TRIAL = "trial.txt"
_TRIAL_LIMIT_S = 120
_AGENT_LIMIT_S = 20.0
_REFUSED_LIMIT_S = 3.0
_BUSY_PER_CORE = 2.0
_USUAL_SHELLS = ("", "sh", "bash", "dash")
_AS_ROOT = tuple(
    f"{name}_ALLOW_RUN_AS_ROOT{end}=1" for name in ("OMPI", "PRTE") for end in ("", "_CONFIRM")
)
_PROVE_HOROVOD = (
    "import torch, horovod.torch as h; assert h.mpi_built(), 'Horovod was built without MPI'; "
    "print('torch', torch.__version__)"
)
_LACKING = """import importlib.metadata, sys
for name in sys.argv[1:]:
    try:
        importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        print(name)"""
_PROVE_DDP = (
    "import torch.distributed, mpi4py; mpi4py.rc.initialize = False; import mpi4py.MPI; "
    "print('torch', torch.__version__)"
)


class Wheels(Protocol):
    """The source of wheels for a set-up; see `backend.services.nodes.provisioning`."""

    def choose(
        self, name: str, facts: NodeFacts
    ) -> tuple[PythonFound, WheelTarget, HorovodWheel | None]:
        """See `backend.provisioning.horovod_wheels.choose`."""

    def gather(
        self,
        target: WheelTarget,
        horovod: HorovodWheel | None,
        on_line: Callable[[str], None],
        cancelled: Callable[[], bool],
    ) -> Wheelhouse:
        """See `backend.provisioning.wheelhouse.Wheelhouses.gather`."""

    def gather_more(
        self,
        house: Wheelhouse,
        target: WheelTarget,
        package: str,
        on_line: Callable[[str], None],
        cancelled: Callable[[], bool],
    ) -> Wheelhouse:
        """See `backend.provisioning.wheelhouse.Wheelhouses.gather_more`."""


@dataclass(frozen=True)
class SetUpPlan:
    """The input of a set-up, besides the node.

    Args:
        inspect: Inspects the node.
        agree: Called with the node's Open MPI version; raises BackendError if other nodes have
            another one.
        key: The cluster's key, None if ``own_key`` is used.
        own_key: Path on the nodes of the user's key that connects them already.
        limits_key: Restrict the cluster's key to training runs.
        peers: Every node that mpirun may reach from this one.
        start_agent: The command that starts the agent and ends at once.
        system_mpi: Use the node's own Open MPI, not the one of the wheel.
        shared: Make the environment on the data root, or use the one that another node made there.
        alone: Held while an environment of that name is checked and made, so that only one of
            several nodes that share it makes it.
        relay: Delivers wheels to several nodes, None if they are sent to each node.
        packages: What user code needs besides, by name.
    """

    wheels: Wheels
    bundle: CodeArchive
    inspect: Callable[[Shell], NodeFacts]
    agree: Callable[[str], None] = lambda version: None
    key: ClusterKey | None = None
    own_key: str = ""
    limits_key: bool = False
    peers: Sequence[Peer] = ()
    start_agent: Callable[[AgentPlace], Sequence[str]] = agent_commands.start
    system_mpi: bool = False
    shared: bool = False
    alone: Callable[[str], AbstractContextManager[object]] = nullcontext
    relay: Relay | None = None
    packages: tuple[str, ...] = ()


def set_up(
    entry: NodeEntry,
    open_shell: Callable[[NodeEntry], Shell],
    plan: SetUpPlan,
    on_change: Callable[[SetUp], None],
    cancelled: Callable[[], bool] = lambda: False,
) -> NodeEntry:
    """Set a node up, or find that it is; return the entry with facts and installation.

    Blocks for minutes the first time. ``on_change`` is called on this thread.

    Raises:
        BackendError: A step failed; `SetUp.failed` has the same words, and its output.
        Cancelled: By ``cancelled``. Completed steps stay and are used by the next set-up.
    """
    steps = Steps(entry.name, TITLES, on_change, cancelled)
    work = _Work(entry, plan, steps, cancelled)
    steps.start()
    try:
        steps.do(lambda: work.reach(open_shell))
        for step in (
            work.inspect,
            work.python,
            work.open_mpi,
            work.packages,
            work.agent,
            work.trial,
        ):
            steps.do(step)
        return work.ready()
    finally:
        work.leave()


class _Work:
    """A set-up in progress; each method is a step and returns its outcome."""

    shell: Shell
    facts: NodeFacts
    home: NodeHome
    environments: NodeEnvironments
    house: Wheelhouse
    _target: WheelTarget

    def __init__(
        self, entry: NodeEntry, plan: SetUpPlan, steps: Steps, cancelled: Callable[[], bool]
    ) -> None:
        self._entry = entry
        self._plan = plan
        self._steps = steps
        self._cancelled = cancelled
        self._is_open = self._has_horovod = self._limits_key = False
        self._name = ""
        self._chosen: tuple[Wheel, ...] = ()
        self._folder = PurePosixPath()
        self._is_whole = False
        self._mpirun = self._mpi_version = self._ssh_config = self._bundle = ""
        self._sent_bytes = 0
        self._alone = ExitStack()

    def reach(self, open_shell: Callable[[NodeEntry], Shell]) -> str:
        self.shell = open_shell(self._entry)
        self._is_open = True
        who = self._steps.must(
            self.shell,
            ["id", "-un"],
            f"{self._entry.name} does not run commands",
            "Ask the node's administrator for a login shell for this account.",
        )
        return f"As {who.strip()}, without a password."

    def inspect(self) -> str:
        self.facts = facts = self._plan.inspect(self.shell)
        # Now, before wheels are fetched and sent for minutes.
        if self._plan.system_mpi and not facts.mpirun:
            raise BackendError(
                f"{self._entry.name} has no Open MPI of its own.",
                "Use Ringmaster's Open MPI, or install one: apt-get install openmpi-bin.",
            )
        self.home = NodeHome(PurePosixPath(facts.home))
        self._place = self._place_of_environments()
        self.environments = NodeEnvironments(self.shell, self._place, self._steps)
        relay, root = self._plan.relay, facts.data_root
        if relay is not None and root and facts.data_root_writable and not self._entry.no_share:
            self.environments.bring = partial(relay.bring, self.shell, self._steps, root)
        gpus = f"{len(facts.gpus)} × {facts.gpus[0]}" if facts.gpus else "no GPU"
        shell = PurePosixPath(facts.login_shell).name
        more = "" if shell in _USUAL_SHELLS else f", login shell {sanitize(shell)}"
        return f"{facts.system}, {facts.machine}, {facts.cores} cores, {gpus}{more}."

    def _place_of_environments(self) -> NodeHome:
        if not self._plan.shared:
            return self.home
        name, root = self._entry.name, self.facts.data_root
        if not root or not self.facts.data_root_writable or self._entry.no_share:
            raise BackendError(
                f"{name} cannot write to the data root, so it cannot use a shared environment.",
                f"Mount it on {name} with write permission, or set {name} up without sharing.",
            )
        return NodeHome.shared_in(PurePosixPath(root))

    def python(self) -> str:
        found, target, horovod = self._plan.wheels.choose(self._entry.name, self.facts)
        self._target = target
        self._has_horovod = horovod is not None
        self.house = self._plan.wheels.gather(target, horovod, self._steps.line, self._cancelled)
        self._name, self._chosen = self.house.environment(system_mpi=self._plan.system_mpi)
        if self._plan.shared:
            self._steps.say("Waiting for the node that makes the environment")
            self._alone.enter_context(self._plan.alone(self._name))
        self._is_whole = self.environments.find(self._name) is not None
        if self._is_whole:
            self._alone.close()
            self._folder = self._place.environments / self._name
            return f"Python {found.version} {THERE_ALREADY}."
        if self._plan.shared and self.environments.stamp(self._name) is not None:
            # Other nodes use it, so it is not made again for this one.
            folder = self._place.environments / self._name
            raise BackendError(
                f"The shared environment {folder} does not start on {self._entry.name}: its Python "
                f"{self.house.python} is in another place, or the data root is mounted noexec.",
                f"Set {self._entry.name} up with its own environment.",
            )
        version = self.environments.python_version(found.path)
        self._folder = self.environments.begin(found.path, self.house)
        self.environments.python_version(str(self._folder / "bin/python"))
        return f"Python {version}, {found.path}."

    def open_mpi(self) -> str:
        if self._plan.system_mpi:
            self._mpirun = self.facts.mpirun
        else:
            self._mpirun = str(self._folder / "bin/mpirun")
            if not self._is_whole:
                wheels = [wheel for wheel in self._chosen if wheel.package == OPEN_MPI]
                self._push(wheels)
                self.environments.install(self._folder, self.house, wheels)
        said = self._steps.must(
            self.shell, [self._mpirun, "--version"], f"{self._mpirun} does not start"
        )
        found = version_in(said)
        if found is None or found.partition(".")[0] not in ("4", "5"):
            raise BackendError(
                f"{self._mpirun} on {self._entry.name} is {found or 'not Open MPI'}; 4.1 and 5.0 "
                "are supported.",
                "Use Ringmaster's Open MPI.",
            )
        self._mpi_version = found
        self._plan.agree(found)
        way = self._way_to_others()
        old = self._is_whole or self._plan.system_mpi
        return f"Open MPI {found}{f' {THERE_ALREADY}' if old else ''}; {way}."

    def _way_to_others(self) -> str:
        """Set up mpirun's SSH access from this node to the others; return a description."""
        outcome = "connects to the other nodes with your own key"
        if self._plan.key is not None:
            sources = cluster_key.sources(self._entry, self._plan.peers)
            # By its final name: the folder in which it is made will be renamed.
            python = str(self._place.environments / self._name / "bin/python")
            fault = ""
            if self._plan.limits_key:
                mpirun = self._mpirun if self._plan.system_mpi else python
                fault = cluster_key.limit_fault(self.home, python, mpirun)
            self._limits_key = self._plan.limits_key and not fault
            gate = python if self._limits_key else ""
            cluster_key.install_key(self.shell, self.home, self._plan.key, sources, gate)
            outcome = f"the cluster's key is accepted from {sources.replace(',', ', ')}"
            outcome += ", for runs only" if gate else ""
            outcome += f", also for a shell and files, since {fault}" if fault else ""
        self._ssh_config = cluster_key.write_settings(
            self.shell, self.home, self._plan.peers, self._plan.own_key
        )
        return outcome

    def packages(self) -> str:
        name, proof = ("Horovod", _PROVE_HOROVOD) if self._has_horovod else ("mpi4py", _PROVE_DDP)
        versions = f"{name} {self.house.version(name.lower())}, torch {self.house.version('torch')}"
        if self._is_whole:
            return f"{versions} {THERE_ALREADY}{self._add_packages()}."
        needed = [wheel for wheel in self._chosen if wheel.package != OPEN_MPI]
        self._push(needed)
        self._steps.say("Installing")
        self.environments.install(self._folder, self.house, needed)
        self._steps.say("Importing")
        self._steps.must(
            self.shell,
            [str(self._folder / "bin/python"), "-I", "-c", proof],
            f"{name} cannot be used on {self._entry.name}",
            "Install what its output names as missing, then set the node up again.",
            limit_s=300,
        )
        stamp = {
            "python": self.house.python,
            "wheels": [wheel.name for wheel in (self.house.uv, *self._chosen)],
        }
        building, self._folder = self._folder, self._place.environments / self._name
        self.environments.finish(building, self._name, stamp)
        self._is_whole = True
        self._alone.close()
        if not self._plan.system_mpi:
            self._mpirun = str(self._folder / "bin/mpirun")
        added = self._add_packages()
        return f"{versions}{added}; {self._sent_bytes / 1e6:.0f} MB sent."

    def _add_packages(self) -> str:
        """Add what user code needs to the complete environment; return it as words.

        Nothing that is in it changes, so running jobs are not affected.
        """
        python = str(self._folder / "bin/python")
        with self._plan.alone(self._name) if self._plan.shared else nullcontext():
            for package in self._lacking(self._plan.packages):
                self._steps.say(f"Fetching {package}")
                more = self._plan.wheels.gather_more(
                    self.house, self._target, package, self._steps.line, self._cancelled
                )
                lacking = self._lacking([wheel.package for wheel in more.wheels])
                wheels = [wheel for wheel in more.wheels if wheel.package in lacking]
                self._sent_bytes += self.environments.push(python, more, [more.uv, *wheels])
                self.environments.install(self._folder, more, wheels)
        return "".join(f", {package}" for package in self._plan.packages)

    def _lacking(self, packages: Sequence[str]) -> Sequence[str]:
        """Return those of these packages that the environment does not have."""
        if not packages:
            return ()
        argv = [str(self._folder / "bin/python"), "-I", "-c", _LACKING, *packages]
        return self._steps.must(self.shell, argv, "The packages cannot be listed").split()

    def _push(self, wheels: Sequence[Wheel]) -> None:
        """Send wheels to the node, and uv, which installs them."""
        python = str(self._folder / "bin/python")
        wanted = [self.house.uv, *wheels]
        self._sent_bytes += self.environments.push(python, self.house, wanted)

    def agent(self) -> str:
        name = self._plan.bundle.name
        folder = self.home.bundles / name
        self._bundle = str(folder)
        if not self._steps.run(self.shell, ["test", "-d", self._bundle]).ok:
            self._unpack(folder)
        place = AgentPlace(
            self._entry.name, str(self._folder / "bin/python"), self._bundle, self.facts
        )
        remedy = "Fix the cause that its output names, then set the node up again."
        folders = [str(self.home.state)]
        if self._entry.no_share:
            folders += [place.folder, f"{self.facts.data_root}/jobs"]
        self._steps.must(
            self.shell,
            ["mkdir", "-p", "--", *folders],
            "The agent's folder cannot be made",
            remedy,
        )
        lives = agent_commands.check(place)
        if self._steps.run(self.shell, lives).ok:
            return "Runs already."
        self._steps.must(
            self.shell, agent_commands.stop(place), "The older agent does not end", remedy
        )
        started = self._steps.run(self.shell, self._plan.start_agent(place))
        # Another desktop may have started an agent of the same bundle first.
        if not self._steps.run(
            self.shell,
            agent_commands.check(place, limit_s=_AGENT_LIMIT_S if started.ok else _REFUSED_LIMIT_S),
        ).ok:
            raise BackendError(
                f"The agent was started and wrote nothing to {place.folder}."
                if started.ok
                else f"The agent does not start: {started.complaint.rstrip('.')}.",
                f"Fix the cause named in {self.home.agent_log} on the node, then set it up again.",
            )
        return f"Runs. {agent_commands.kept(started.out) or f'It writes to {place.folder}.'}"

    def _unpack(self, folder: PurePosixPath) -> None:
        beside = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}")
        archive = beside / "bundle.tar.gz"
        fault = "The program's own part could not be put on the node"
        steps, shell = self._steps, self.shell
        steps.must(shell, ["mkdir", "-p", "--", str(beside)], fault)
        shell.write(str(archive), self._plan.bundle.archive)
        steps.must(shell, ["tar", "-xzf", str(archive), "-C", str(beside)], fault)
        steps.must(shell, ["rm", "--", str(archive)], fault)
        # If two desktops unpack the same archive, the second finds it there.
        if not steps.run(shell, ["mv", "-T", "--", str(beside), str(folder)]).ok:
            steps.must(shell, ["rm", "-rf", "--", str(beside)], fault)
            steps.must(shell, ["test", "-d", str(folder)], fault)

    def trial(self) -> str:
        """Let two ranks of this node add up a number: tests Python, torch and Open MPI."""
        # With a shared environment, each node has its own result.
        stamp = f"{self.home.path}/{self._name}.{_TRIAL}" if self._plan.shared else ""
        stamp = stamp or str(self._folder / _TRIAL)
        tried = f"{self._mpirun} {self._mpi_version}\n".encode()
        try:
            if self.shell.read(stamp) == tried:
                return "MPI test has already passed (2 ranks)."
        except FileNotFoundError:
            pass
        python = str(self._folder / "bin/python")
        limit = ["timeout", "-k", "5", str(_TRIAL_LIMIT_S)]
        argv = [*limit, "env", *_AS_ROOT, *two_ranks_command(self._mpirun, python)]
        fault = f"Two ranks on {self._entry.name} could not work together"
        remedy = "Fix the problem of mpirun that its output names, then set the node up again."
        self._steps.say(f"Starting two ranks, which takes some seconds{self._busy()}")
        said = self._steps.must(self.shell, argv, fault, remedy, limit_s=_TRIAL_LIMIT_S + 30)
        if not two_ranks_agree(said):
            raise BackendError(f"{fault}: they did not get the same sum.", remedy)
        self.shell.write(stamp, tried)
        return "MPI test passed (2 ranks)."

    def _busy(self) -> str:
        """Return that the node is busy, as the end of a sentence."""
        load = self.shell.run(["cat", "/proc/loadavg"]).out.partition(" ")[0]
        cores = self.facts.cores
        if not re.fullmatch(r"\d+(\.\d+)?", load) or float(load) < _BUSY_PER_CORE * cores:
            return ""
        return f", and longer now: the node is busy (load {float(load):.0f} on {cores} cores)"

    def ready(self) -> NodeEntry:
        return replace(
            self._entry,
            facts=self.facts,
            installation=NodeInstallation(
                python=str(self._folder / "bin/python"),
                mpirun=self._mpirun,
                mpi_version=self._mpi_version,
                environment=self._name,
                bundle=self._bundle,
                ssh_config=self._ssh_config,
                own_key=self._plan.own_key,
                limits_key=self._limits_key,
                without_horovod=not self._has_horovod,
                packages=self._plan.packages,
                bytes=disk_usage(self.shell, str(self.home.path)),
            ),
        )

    def leave(self) -> None:
        with self._alone:
            if self._is_open:
                if self._folder.name and not self._is_whole:
                    self.environments.drop(self._folder)
                self.shell.close()


def disk_usage(shell: Machine, path: str) -> int:
    """Return the bytes on disk below a folder of a node, 0 if there is none."""
    answer = shell.run(["du", "-sk", "--", path], limit_s=300)
    first = answer.out.split("\t", 1)[0].strip()
    return int(first) * 1024 if first.isdecimal() else 0
