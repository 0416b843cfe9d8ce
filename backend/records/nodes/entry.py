"""Nodes that users added: address, description, hours for other users, and result of the set-up.

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import Enum
from pathlib import PurePosixPath
from typing import Any

from backend.records.base.layout import NodeHome
from backend.records.base.schema import KEY, READ, STRICT, Record
from backend.records.base.validation import sanitize
from backend.records.jobs.schedulers import SCHEDULERS

ENTRY_SCHEMA = 1
NEVER, ALWAYS = "", "always"
EXAMPLE = "08:00–18:00 Mon–Fri"
_LONG_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_DAYS = tuple(day[:3] for day in _LONG_DAYS)
_MIDNIGHT = 24 * 60
_INNER_PREFIXES = (
    "docker",
    "br-",
    "veth",
    "virbr",
    "cni",
    "flannel",
    "podman",
    "lxc",
    "lxd",
    "cali",
)


@dataclass(frozen=True)
class NodeAddress:
    """Address of a node's sshd, and the user. Empty fields come from ``~/.ssh/config``.

    ``identity`` is the path of a private key on the desktop that added the node; another desktop
    uses its agent or its own keys. ``jump`` is OpenSSH's ProxyJump.
    """

    host: str
    port: int = 0
    user: str = ""
    identity: str = ""
    jump: str = ""


@dataclass(frozen=True)
class Interface:
    """An address of a node: ``address`` is an IP with its prefix, ``10.77.0.2/24``."""

    name: str
    address: str

    @property
    def is_inner(self) -> bool:
        """True for an interface of containers or VMs, which leads to no other node."""
        return self.name.startswith(_INNER_PREFIXES)


OLDEST_PYTHON = (3, 11)
"""For training: the numpy of the lock file needs it. The supervision of runs needs 3.9."""
PYTHON_NEED = "training needs {}.{} or newer.".format(*OLDEST_PYTHON)


@dataclass(frozen=True)
class NodePython:
    """A Python on a node. ``venv`` says whether it can create environments by itself."""

    path: str
    version: str
    venv: bool

    @property
    def version_numbers(self) -> tuple[int, ...]:
        return tuple(int(part) for part in self.version.split(".") if part.isdecimal())


@dataclass(frozen=True)
class NodeInfo(Record, label="description of a node", rules=STRICT):
    """A description of a node before anything is installed on it (``info.json``).

    ``clock_offset_s`` is the node's clock minus the desktop's, None if they were not compared.
    ``data_root`` is the path of the data root on the node, "" if the node does not see it. ``home``
    is the program's folder on the node.
    """

    hostname: str
    system: str
    machine: str
    kernel: str
    user: str
    home: str
    glibc: str = ""
    cpu_model: str = ""
    cores: int = 1
    memory_bytes: int = 0
    home_free_bytes: int | None = None
    data_root: str = ""
    data_root_writable: bool = False
    pythons: tuple[NodePython, ...] = ()
    mpirun: str = ""
    mpi_version: str = ""
    driver: str = ""
    gpus: tuple[str, ...] = ()
    """Names of the GPUs, by index."""
    interfaces: tuple[Interface, ...] = ()
    clock_offset_s: float | None = None
    keeps_services: str = ""
    """Service that restarts the agent after a reboot: "systemd", "crontab" or "" (nothing)."""
    login_shell: str = ""


@dataclass(frozen=True)
class NodeInstallation:
    """The result of setting a node up; every path is absolute and the node's own.

    ``environment`` names the recipe of the Python environment: nodes with the same name have the
    same versions. ``bundle`` is the folder of the package ``backend`` on the node.
    """

    python: str
    mpirun: str
    mpi_version: str
    environment: str
    bundle: str
    ssh_config: str
    """OpenSSH client file with which mpirun reaches the other nodes from this one."""
    own_key: str = ""
    """Path on the nodes of an existing key that connects them; "" for the cluster's key."""
    limits_key: bool = False
    """The cluster's key can start only training runs on this node."""
    without_horovod: bool = False
    packages: tuple[str, ...] = ()
    """Packages that user code needs besides, by name; each set-up installs them."""
    in_job: bool = False
    """The environment was made in a job of Slurm, of ``partition``; "" for the default."""
    partition: str = ""
    bytes: int = 0


@dataclass(frozen=True)
class NodeEntry(Record, label="node", newest_schema=ENTRY_SCHEMA, rules=STRICT):
    """``nodes/<name>/node.json``: one node, as the desktop that added it wrote it."""

    name: str
    address: NodeAddress
    info: NodeInfo | None = field(default=None, metadata={KEY: "facts"})
    installation: NodeInstallation | None = None
    ranks_address: str = ""
    """The IP, with its prefix, at which ranks on other nodes reach this one."""
    in_service: bool = True
    is_staged: bool = field(default=False, metadata={KEY: "no_share"})
    """The node does not see the data root:

    its `data_root` is a staged one (`NodeHome.staged_root`), and files are copied between the two
    over SSH.
    """
    gives_way: str = NEVER
    """Hours at which runs on the node give way to other users, as `parse_hours` returns them."""
    scheduler: str = field(default="", metadata={READ: None})
    """The key in `SCHEDULERS` if it is the login node of a cluster, which trains nothing itself.

    In the JSON it is a mark with this key: an agent that does not know it cannot read the entry.
    """
    schema: int = ENTRY_SCHEMA

    def to_dict(self) -> dict[str, Any]:
        raw = super().to_dict()
        if not raw["gives_way"]:
            del raw["gives_way"]  # An agent that does not know it yet cannot read the entry.
        for key in ("in_job", "partition") if self.installation is not None else ():
            if not raw["installation"][key]:
                del raw["installation"][key]
        return {**raw, self.scheduler: True} if self.scheduler else raw

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> NodeEntry:
        scheduler = next((key for key in SCHEDULERS if raw.get(key)), "")
        known_raw = {key: value for key, value in raw.items() if key not in SCHEDULERS}
        return replace(super().from_dict(known_raw), scheduler=scheduler)

    @property
    def is_ready(self) -> bool:
        return self.installation is not None

    @property
    def has_own_mpi(self) -> bool:
        """True if the node uses the Open MPI of its system, not Ringmaster's."""
        installation = self.installation
        return installation is not None and (
            PurePosixPath(installation.mpirun).parent != PurePosixPath(installation.python).parent
        )

    @property
    def shares_environment(self) -> bool:
        """True if its environment lies on the data root, for all similar nodes."""
        installation = self.installation
        if installation is None or not self.data_root:
            return False
        shared_home = NodeHome.shared_in(PurePosixPath(self.data_root))
        return PurePosixPath(installation.python).is_relative_to(shared_home.path)

    @property
    def data_root(self) -> str:
        return self.info.data_root if self.info is not None else ""

    @property
    def addresses(self) -> tuple[str, ...]:
        """All its addresses with their prefix; the one that other nodes use comes first."""
        addresses = [self.ranks_address] if self.ranks_address else []
        if self.info is not None:
            addresses += [
                interface.address for interface in self.info.interfaces if not interface.is_inner
            ]
        return tuple(dict.fromkeys(addresses))


@dataclass(frozen=True)
class HostKey:
    """The key that an sshd presented. ``text`` is the part of a known-hosts line after the name."""

    host: str
    port: int
    kind: str
    text: str
    fingerprint: str
    """Fingerprint as ``ssh-keygen -l`` prints it: ``SHA256:…``."""


@dataclass(frozen=True)
class SshOverview:
    """SSH settings and keys of this computer.

    Attributes:
        config: Path of the SSH client settings, "" if there are none.
        known_hosts: Path of the file of accepted host keys.
        accepted_keys: The keys in that file.
        keys: Existing key files that are tried if a node names no other.
        agent_keys: Number of keys in the SSH agent, None without an agent.
        passphrases: Number of passphrases in memory.
        keyring_error: Why the system keyring cannot store passphrases, "" if it can.
    """

    config: str
    known_hosts: str
    accepted_keys: tuple[HostKey, ...] = field(default=(), metadata={KEY: "accepted"})
    keys: tuple[str, ...] = ()
    agent_keys: int | None = None
    passphrases: int = 0
    keyring_error: str = field(default="", metadata={KEY: "keyring_fault"})


class StepState(Enum):
    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class SetUpStep:
    """A step of setting up a node, as the window shows it.

    ``message`` is the outcome in words ("Python 3.11.2", "already installed"); ``remedy`` says
    how to fix a failure; ``output`` is what the commands of the step printed.
    """

    title: str
    state: StepState = StepState.WAITING
    message: str = field(default="", metadata={KEY: "sentence"})
    remedy: str = ""
    output: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class SetUp:
    """Progress of setting up one node, sent whole at each change."""

    node: str
    steps: tuple[SetUpStep, ...] = field(default=())
    key: HostKey | None = None
    """A host key on the way that was not accepted: set-up waits for the user's decision."""
    accepted_fingerprint: str = field(default="", metadata={KEY: "accepted"})
    """Fingerprint of the key that was accepted before; then this one cannot be accepted here."""
    trusted_fingerprint: str = field(default="", metadata={KEY: "trusted"})
    """Fingerprint of the node's own key that the user accepted; "" before."""

    @property
    def is_over(self) -> bool:
        return self.failed_step is not None or all(s.state is StepState.DONE for s in self.steps)

    @property
    def failed_step(self) -> SetUpStep | None:
        failed_states = (StepState.FAILED, StepState.CANCELLED)
        return next((step for step in self.steps if step.state in failed_states), None)


def parse_hours(text: str) -> str:
    """Return "never", "always" or hours in their one form, `NEVER`, `ALWAYS` or `EXAMPLE`.

    Hours that end before they begin last until the next day. Without days they hold on each day.

    Raises:
        ValueError: It is none of them; the message is a sentence.
    """
    tokens = re.sub(r"\s*[-–]\s*", "–", text.strip().replace(",", " ")).split()
    if [token.lower() for token in tokens] in ([], ["never"], [ALWAYS]):
        return ALWAYS if tokens and tokens[0].lower() == ALWAYS else NEVER
    times = [token for token in tokens if token[0].isdigit()]
    if len(times) != 1 or times[0].count("–") != 1:
        raise ValueError(f"“{sanitize(text)}” is not never, always, or hours such as {EXAMPLE}.")
    start, end = (_minute(time) for time in times[0].split("–"))
    if start in (end, _MIDNIGHT):
        raise ValueError(f"The hours {times[0]} have no length; for the whole day: 00:00–24:00.")
    days = dict.fromkeys(_days_word(token) for token in tokens if token != times[0])
    return " ".join((f"{_clock(start)}–{_clock(end)}", *days))


def gives_way_at(hours: str, now: datetime) -> bool:
    """Return whether a node with these parsed hours gives way at this local time."""
    if hours in (NEVER, ALWAYS):
        return hours == ALWAYS
    times, *day_tokens = hours.split()
    start, end = (_minute(time) for time in times.split("–"))
    days = {day for token in day_tokens for day in _days(token)} or set(range(7))
    minute, day = now.hour * 60 + now.minute, now.weekday()
    if start < end:
        return day in days and start <= minute < end
    # The days are those on which the hours begin.
    yesterday = (now - timedelta(days=1)).weekday()
    return (day in days and minute >= start) or (yesterday in days and minute < end)


def _minute(time: str) -> int:
    match = re.fullmatch(r"(\d{1,2}):([0-5]\d)", time)
    minute = int(match[1]) * 60 + int(match[2]) if match else _MIDNIGHT + 1
    if minute > _MIDNIGHT:
        raise ValueError(f"“{sanitize(time)}” is not a time of day; write it as in {EXAMPLE}.")
    return minute


def _clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"


def _days_word(word: str) -> str:
    return "–".join(map(_day, word.split("–", 1)))


def _day(name: str) -> str:
    for long_name in _LONG_DAYS:
        if len(name) > 2 and long_name.lower().startswith(name.lower()):
            return long_name[:3]
    raise ValueError(f"“{sanitize(name)}” is not a day; the days are {', '.join(_DAYS)}.")


def _days(word: str) -> list[int]:
    start, *stops = (_DAYS.index(name) for name in word.split("–"))
    return [(start + n) % 7 for n in range(((stops[0] if stops else start) - start) % 7 + 1)]
