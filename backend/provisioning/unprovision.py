"""Remove from a node what set-up installed, and report the freed bytes."""

from __future__ import annotations

import json
from pathlib import PurePosixPath

from backend.base.errors import BackendError
from backend.base.log import swallowed
from backend.provisioning import agent_commands, cluster_key
from backend.provisioning.agent_commands import AgentPlace
from backend.provisioning.node_environment import STAMP
from backend.provisioning.provisioner import disk_usage
from backend.records.base.layout import NodeHome
from backend.records.nodes.entry import NodeEntry
from backend.ssh.interface import Shell

_REMOVE_LIMIT_S = 600.0


def remove(entry: NodeEntry, shell: Shell) -> int:
    """End the agent, remove the cluster's key, and remove the program's folder on the node.

    Returns the bytes freed. The rest of an earlier, incomplete removal is removed too.

    Raises:
        BackendError: A run has a process there, or something there cannot be ended or removed.
    """
    home = _home(entry)
    _refuse_strange(shell, home.path)
    place = _place(entry, shell)
    if place is not None:
        _refuse_running(entry.name, shell, place)
        # First what would restart it, then the agent, however it was started.
        shell.run(agent_commands.leave(place))
        if not shell.run(agent_commands.stop(place)).ok:
            raise BackendError(
                f"The agent on {entry.name} does not end, so nothing was removed.",
                "Restart the node, then remove it again.",
            )
    cluster_key.remove_key(shell, home)
    return _remove(shell, home.path)


def environments(entry: NodeEntry, shell: Shell) -> dict[str, int]:
    """Return the environments on a node by name, with their size in bytes on disk."""
    folder = _home(entry).environments
    try:
        found = shell.listing(str(folder))
    except FileNotFoundError:
        return {}
    names = sorted(PurePosixPath(one.path).name for one in found if one.is_folder)
    return {n: disk_usage(shell, str(folder / n)) for n in names if not n.startswith(".")}


def remove_environment(entry: NodeEntry, shell: Shell, name: str) -> int:
    """Remove an environment that is no longer used, with the wheels that no other one uses.

    Returns the bytes freed.

    Raises:
        BackendError: It is the node's current one, does not exist, or is used by a run.
    """
    if entry.installation is not None and name == entry.installation.environment:
        raise BackendError(
            f"{name} is the environment that {entry.name} trains with.",
            "Remove the whole node, or set it up with a newer Ringmaster first.",
        )
    if name not in environments(entry, shell):
        raise BackendError(f"{entry.name} has no environment {name}.")
    place = _place(entry, shell)
    if place is not None:
        _refuse_running(entry.name, shell, place)
    home = _home(entry)
    freed = _remove(shell, home.environments / name)
    used = {wheel for other in environments(entry, shell) for wheel in _wheels(shell, home, other)}
    for one in shell.listing(str(home.wheels)):
        if PurePosixPath(one.path).name not in used:
            freed += _remove(shell, PurePosixPath(one.path))
    return freed


def _wheels(shell: Shell, home: NodeHome, environment: str) -> list[str]:
    try:
        stamp = json.loads(shell.read(str(home.environments / environment / STAMP)))
        return [str(name) for name in stamp["wheels"]]
    except (FileNotFoundError, ValueError, KeyError, TypeError) as error:
        swallowed(error)
        return []


def _home(entry: NodeEntry) -> NodeHome:
    if entry.facts is None:
        raise BackendError(
            f"{entry.name} was never inspected, so nothing of Ringmaster is known on it."
        )
    return NodeHome(PurePosixPath(entry.facts.home))


def _place(entry: NodeEntry, shell: Shell) -> AgentPlace | None:
    """Return the agent's paths; None if nothing is left that could run it."""
    if entry.facts is None or entry.installation is None:
        return None
    there = entry.installation
    # After an upgrade of the node's Python an environment may not start any more.
    for python in (there.python, *(found.path for found in entry.facts.pythons)):
        place = AgentPlace(entry.name, python, there.bundle, entry.facts)
        if shell.run(agent_commands.answers(place)).ok:
            return place
    return None


def _refuse_running(name: str, shell: Shell, place: AgentPlace) -> None:
    answer = shell.run(agent_commands.runs(place))
    if runs := answer.out.split():
        raise BackendError(
            f"{name} still has processes of {', '.join(runs)}, so nothing was removed.",
            "Stop that job, or wait for its end.",
        )


def _refuse_strange(shell: Shell, folder: PurePosixPath) -> None:
    """Refuse a path, which came from a file, unless it is inside the user's home folder."""
    answer = shell.run(
        ["sh", "-c", 'cd && pwd -P; cd "$1" 2>/dev/null && pwd -P', "sh", str(folder)]
    )
    user_home, *there = answer.out.splitlines() or [""]
    if there and not there[0].startswith(f"{user_home.rstrip('/')}/"):
        raise BackendError(
            f"{folder} is not inside the home folder {user_home}; it was not removed."
        )


def _remove(shell: Shell, folder: PurePosixPath) -> int:
    size = disk_usage(shell, str(folder))
    done = shell.run(["rm", "-rf", "--", str(folder)], limit_s=_REMOVE_LIMIT_S)
    if not done.ok:
        raise BackendError(
            f"{folder} could not be removed: {done.complaint}.",
            "Make the node's user the owner of that folder, then remove it again.",
        )
    return size
