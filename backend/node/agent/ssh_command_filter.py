"""Filter for the commands that the cluster's key may start on a node, unless that is not wanted.

sshd executes this instead of the client's command (``command=`` in authorized_keys), and passes
that command as text. It is never given to a shell. It is refused unless it is one of the commands
that the program itself sends between nodes, with programs and folders that set-up created below
``~/.ringmaster`` (or on the data root, where nodes share an environment):

- mpirun's daemon, with the variables that mpirun sets for it;
- the cleanup after a run, which also returns the last output of its ranks, or whether the node
  sees the job's folder, and starts the agent that set-up installed;
- ``true``, with which preflight checks the connection;
- ``echo $SHELL``, with which mpirun asks for the syntax of the daemon's command.

A client that has the key and speaks mpirun's own protocol can still have its daemon start programs
as this user; that is the daemon's purpose. A shell, file access and tunnels are not available.

It uses the standard library only and no module of its folder, as it is executed with ``python -I``.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

_VARIABLES = (
    *("PRTE_PREFIX", "PMIX_PREFIX", "OPAL_PREFIX"),
    *("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"),
)
_SETTING = re.compile(
    rf"\s*(?P<name>{'|'.join(_VARIABLES)})=(?P<places>[A-Za-z0-9._/+:-]*?)"
    # What it held before, as 5.0 and as 4.1 write it.
    r"(?P<before>:?(?:\$(?P=name)|\$\{(?P=name):-\}))?\s*;\s*export\s+(?P=name)\s*;"
)
SYSTEMS_OWN = ("/usr/", "/opt/")
# 4.1 names the nodes by its own expression, such as [2:10].77.0.3@0(2).
_PLAIN = re.compile(r"[A-Za-z0-9 @._,;:/+=^~\[\]()-]*")
_DAEMONS = ("prted", "orted")
_SWEEP = "backend.node.run.remote_cleanup"
_SEE = "--see"
_WATCH = "backend.node.run.launch_daemon"
_TAG = re.compile(r"[A-Za-z0-9._-]+/[0-9]+")
REFUSAL = "This key only starts runs of Ringmaster."


class CommandRefused(Exception):
    """The command is not one of those that the key is for."""


def allowed(asked: str, ours: Sequence[Path], carried: Path) -> tuple[dict[str, str], list[str]]:
    """Return the variables to set and the command to execute for what a client requested.

    ``ours`` are the folders of environments and bundles that set-up created; ``carried`` is the
    folder of jobs on a node that does not see the data root: it is read, and nothing in it is
    executed.

    Raises:
        CommandRefused: The command is not allowed.
    """
    try:
        variables, rest = _settings(asked, ours)
        argv = shlex.split(rest)
    except ValueError as error:
        raise CommandRefused from error
    if argv == ["true"] and not variables:
        return {}, argv
    if argv == ["echo", "$SHELL"] and not variables:
        # mpirun asks which shell reads its text. No shell does; the form for bash is parsed here.
        return {}, ["echo", "/bin/bash"]
    if argv[:1] == ["env"] and not variables:
        return _sweep(argv, ours, carried)
    if not argv or Path(argv[0]).name not in _DAEMONS:
        raise CommandRefused
    if not (argv[0] in _DAEMONS or _is_sound(argv[0], ours)):
        raise CommandRefused
    # No shell parses these; they are what mpirun writes, not a second command.
    if not all(_PLAIN.fullmatch(word) and not word.endswith(";") for word in argv):
        raise CommandRefused
    return variables, argv


def _settings(asked: str, ours: Sequence[Path]) -> tuple[dict[str, str], str]:
    """Return the variables that mpirun sets before its daemon; their earlier values are dropped."""
    variables = {}
    while found := _SETTING.match(asked):
        name = found["name"]
        places = [place for place in found["places"].split(":") if place]
        if not all(_is_sound(place, ours) for place in places):
            raise CommandRefused
        if found["before"] and os.environ.get(name):
            places.append(os.environ[name])
        variables[name] = ":".join(places)
        asked = asked[found.end() :]
    return variables, asked


def _sweep(
    argv: list[str], ours: Sequence[Path], carried: Path
) -> tuple[dict[str, str], list[str]]:
    if argv[3:5] != ["-m", _SWEEP] or not _TAG.fullmatch("".join(argv[5:6])):
        raise CommandRefused
    more = argv[6:]
    # Whether a folder can be seen is all that is answered about it.
    asks_sight = len(more) == 2 and more[0] == _SEE and os.path.isabs(more[1])
    # On nodes that do not see the data root, the run's folder is in the folder that replaces it.
    if not (asks_sight or (len(more) <= 1 and all(_is_ours(one, (carried,)) for one in more))):
        raise CommandRefused
    name, _, code = argv[1].partition("=")
    if name != "PYTHONPATH" or not _is_ours(code, ours) or not _is_ours(argv[2], ours):
        raise CommandRefused
    return {name: code}, argv[2:]


def _is_ours(place: str, ours: Sequence[Path]) -> bool:
    """Return whether set-up created it: it lies below one of its folders and does not leave it."""
    normal = os.path.normpath(place)
    return any(normal.startswith(f"{folder}/") for folder in ours)


def _is_sound(place: str, ours: Sequence[Path]) -> bool:
    """Return whether only set-up or the system's administrator can put programs there."""
    return _is_ours(place, ours) or os.path.normpath(place).startswith(SYSTEMS_OWN)


def main() -> NoReturn:
    home = Path(os.path.abspath(__file__)).parents[1]
    ours = [home / "environments", home / "bundles"]
    if sys.prefix != sys.base_prefix:
        # The environment that runs this code; nodes may share one on the data root.
        ours.append(Path(sys.prefix).parent)
    try:
        asked = os.environ.get("SSH_ORIGINAL_COMMAND", "")
        variables, argv = allowed(asked, ours, home / "carried")
    except CommandRefused:  # its caller only learns that it was refused
        sys.stderr.write(f"{REFUSAL}\n")
        sys.exit(1)
    if Path(argv[0]).name in _DAEMONS:
        variables, argv = watched(variables, argv, home / "bundles")
    os.execvpe(argv[0], argv, {**os.environ, **variables})


def watched(
    variables: Mapping[str, str], argv: Sequence[str], bundles: Path
) -> tuple[dict[str, str], list[str]]:
    """Return what starts mpirun's daemon under the program's watch, by the newest bundle."""
    codes = [
        path for path in bundles.glob("*") if (path / f"{_WATCH.replace('.', '/')}.py").is_file()
    ]
    if not codes:
        # Set up by an older version.
        return dict(variables), list(argv)
    code = max(codes, key=lambda path: path.stat().st_mtime)
    return {**variables, "PYTHONPATH": str(code)}, [sys.executable, "-m", _WATCH, *argv]


if __name__ == "__main__":
    main()
