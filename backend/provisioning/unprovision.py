"""Remove from a node what set-up or scripts installed, and report the freed bytes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import NamedTuple

from backend.base.errors import BackendError
from backend.base.log import swallowed
from backend.provisioning import agent_commands, cluster_key
from backend.provisioning.agent_commands import AgentPaths
from backend.provisioning.node_environment import STAMP
from backend.provisioning.provisioner import disk_usage
from backend.provisioning.script_wheels import SCRIPT_MARK
from backend.records.base.layout import NodeHome
from backend.records.nodes.entry import NodeEntry
from backend.ssh.interface import Machine, Shell

_REMOVE_LIMIT_S = 600.0


class FoundEnvironment(NamedTuple):
    """An environment; ``unused_s`` is how long no script used it, or since when it exists."""

    name: str
    bytes: int
    unused_s: float

    @property
    def is_of_scripts(self) -> bool:
        return SCRIPT_MARK in self.name


def remove(entry: NodeEntry, shell: Shell) -> int:
    """End the agent, remove the cluster's key, and remove the program's folder on the node.

    Returns the bytes freed. The rest of an earlier, incomplete removal is removed too.

    Raises:
        BackendError: A run has a process there, or something there cannot be ended or removed.
    """
    home = home_of(entry)
    _require_inside_home(shell, home.path)
    agent = refuse_running_of(entry, shell, [home.path])
    if agent is not None:
        # First what would restart it, then the agent, however it was started.
        shell.run(agent_commands.remove(agent))
        if not shell.run(agent_commands.stop(agent)).ok:
            raise BackendError(
                f"The agent on {entry.name} does not end, so nothing was removed.",
                "Restart the node, then remove it again.",
            )
    cluster_key.remove_key(shell, home)
    return _remove(shell, home.path)


def environments(shell: Machine, home: NodeHome) -> tuple[FoundEnvironment, ...]:
    """Return the environments on a node, or here, by name."""
    try:
        entries = shell.listing(str(home.environments))
    except FileNotFoundError:
        return ()
    # By the machine's own clock.
    now_s = int(shell.run(["date", "+%s"]).out)
    return tuple(
        FoundEnvironment(entry.name, disk_usage(shell, entry.path), max(0, now_s - entry.mtime_s))
        for entry in sorted(entries, key=lambda entry: entry.name)
        if entry.is_folder and not entry.name.startswith(".")
    )


def remove_environments(shell: Machine, home: NodeHome, names: Iterable[str]) -> int:
    """Remove environments, and the wheels that no other one has; return the bytes freed."""
    freed_bytes = sum(_remove(shell, home.environments / name) for name in names)
    remaining_names = [environment.name for environment in environments(shell, home)]
    used_wheels = {wheel for name in remaining_names for wheel in _wheels(shell, home, name)}
    for file in shell.listing(str(home.wheels)):
        if file.name not in used_wheels:
            freed_bytes += _remove(shell, PurePosixPath(file.path))
    return freed_bytes


def _wheels(shell: Machine, home: NodeHome, environment: str) -> list[str]:
    try:
        stamp = json.loads(shell.read(str(home.environments / environment / STAMP)))
        return [str(name) for name in stamp["wheels"]]
    except (FileNotFoundError, ValueError, KeyError, TypeError) as error:
        swallowed(error)
        return []


def home_of(entry: NodeEntry) -> NodeHome:
    if entry.info is None:
        raise BackendError(
            f"{entry.name} was never inspected, so nothing of Ringmaster is known on it."
        )
    return NodeHome(PurePosixPath(entry.info.home))


def _find_agent(entry: NodeEntry, shell: Machine) -> AgentPaths | None:
    """Return the agent's paths; None if nothing is left that could run it."""
    if entry.info is None or entry.installation is None:
        return None
    installation = entry.installation
    # After an upgrade of the node's Python an environment may not start any more.
    for python in (installation.python, *(candidate.path for candidate in entry.info.pythons)):
        agent = AgentPaths(entry.name, python, installation.bundle, entry.info)
        if shell.run(agent_commands.probe(agent)).ok:
            return agent
    return None


def refuse_running(
    name: str, shell: Machine, python: str, bundle: str, folders: Iterable[PurePosixPath]
) -> None:
    """Refuse to remove folders that runs on ``name`` use; ``python`` and ``bundle`` are its own."""
    for folder in folders:
        if runs := shell.run(agent_commands.list_runs(python, bundle, folder)).out.split():
            raise BackendError(
                f"{name} still has processes of {', '.join(runs)}, so nothing was removed.",
                "Stop that job, or wait for its end.",
            )


def refuse_running_of(
    entry: NodeEntry, shell: Machine, folders: Iterable[PurePosixPath]
) -> AgentPaths | None:
    """Refuse to remove folders of a node that runs use; return the paths of its agent, if any."""
    agent = _find_agent(entry, shell)
    if agent is not None:
        refuse_running(entry.name, shell, agent.python, agent.bundle, folders)
    return agent


def _require_inside_home(shell: Shell, folder: PurePosixPath) -> None:
    """Refuse a path, which came from a file, unless it is inside the user's home folder."""
    answer = shell.run(
        ["sh", "-c", 'cd && pwd -P; cd "$1" 2>/dev/null && pwd -P', "sh", str(folder)]
    )
    user_home, *real_paths = answer.out.splitlines() or [""]
    if real_paths and not real_paths[0].startswith(f"{user_home.rstrip('/')}/"):
        raise BackendError(
            f"{folder} is not inside the home folder {user_home}; it was not removed."
        )


def _remove(shell: Machine, folder: PurePosixPath) -> int:
    size_bytes = disk_usage(shell, str(folder))
    answer = shell.run(["rm", "-rf", "--", str(folder)], limit_s=_REMOVE_LIMIT_S)
    if not answer.ok:
        raise BackendError(
            f"{folder} could not be removed: {answer.complaint}.",
            "Make the node's user the owner of that folder, then remove it again.",
        )
    return size_bytes
