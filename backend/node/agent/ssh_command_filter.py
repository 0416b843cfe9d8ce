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
SYSTEM_FOLDERS = ("/usr/", "/opt/")
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


def allowed_command(
    requested_command: str, own_folders: Sequence[Path], jobs_folder: Path
) -> tuple[dict[str, str], list[str]]:
    """Return the variables to set and the command to execute for what a client requested.

    ``own_folders`` are those of environments and bundles that set-up created; ``jobs_folder`` is
    the one on a node that does not see the data root: it is read, and nothing in it is executed.

    Raises:
        CommandRefused: The command is not allowed.
    """
    try:
        variables, daemon_command = _settings(requested_command, own_folders)
        argv = shlex.split(daemon_command)
    except ValueError as error:
        raise CommandRefused from error
    if argv == ["true"] and not variables:
        return {}, argv
    if argv == ["echo", "$SHELL"] and not variables:
        # mpirun asks which shell reads its text. No shell does; the form for bash is parsed here.
        return {}, ["echo", "/bin/bash"]
    if argv[:1] == ["env"] and not variables:
        return _sweep(argv, own_folders, jobs_folder)
    if not argv or Path(argv[0]).name not in _DAEMONS:
        raise CommandRefused
    if not (argv[0] in _DAEMONS or _is_trusted_path(argv[0], own_folders)):
        raise CommandRefused
    # No shell parses these; they are what mpirun writes, not a second command.
    if not all(_PLAIN.fullmatch(token) and not token.endswith(";") for token in argv):
        raise CommandRefused
    return variables, argv


def _settings(command: str, own_folders: Sequence[Path]) -> tuple[dict[str, str], str]:
    """Return the variables that mpirun sets before its daemon; their earlier values are dropped."""
    variables = {}
    while match := _SETTING.match(command):
        name = match["name"]
        paths = [path for path in match["places"].split(":") if path]
        if not all(_is_trusted_path(path, own_folders) for path in paths):
            raise CommandRefused
        if match["before"] and os.environ.get(name):
            paths.append(os.environ[name])
        variables[name] = ":".join(paths)
        command = command[match.end() :]
    return variables, command


def _sweep(
    argv: list[str], own_folders: Sequence[Path], jobs_folder: Path
) -> tuple[dict[str, str], list[str]]:
    if argv[3:5] != ["-m", _SWEEP] or not _TAG.fullmatch("".join(argv[5:6])):
        raise CommandRefused
    extra_args = argv[6:]
    # Whether a folder can be seen is all that is answered about it.
    asks_sight = len(extra_args) == 2 and extra_args[0] == _SEE and os.path.isabs(extra_args[1])
    # On nodes that do not see the data root, the run's folder is in the folder that replaces it.
    if not (
        asks_sight
        or (len(extra_args) <= 1 and all(_is_own_path(arg, (jobs_folder,)) for arg in extra_args))
    ):
        raise CommandRefused
    name, _, code = argv[1].partition("=")
    if (
        name != "PYTHONPATH"
        or not _is_own_path(code, own_folders)
        or not _is_own_path(argv[2], own_folders)
    ):
        raise CommandRefused
    return {name: code}, argv[2:]


def _is_own_path(path: str, own_folders: Sequence[Path]) -> bool:
    """Return whether set-up created it: it lies below one of its folders and does not leave it."""
    normal_path = os.path.normpath(path)
    return any(normal_path.startswith(f"{folder}/") for folder in own_folders)


def _is_trusted_path(path: str, own_folders: Sequence[Path]) -> bool:
    """Return whether only set-up or the system's administrator can put programs there."""
    return _is_own_path(path, own_folders) or os.path.normpath(path).startswith(SYSTEM_FOLDERS)


def main() -> NoReturn:
    home = Path(os.path.abspath(__file__)).parents[1]
    own_folders = [home / "environments", home / "bundles"]
    if sys.prefix != sys.base_prefix:
        # The environment that runs this code; nodes may share one on the data root.
        own_folders.append(Path(sys.prefix).parent)
    try:
        requested_command = os.environ.get("SSH_ORIGINAL_COMMAND", "")
        variables, argv = allowed_command(requested_command, own_folders, home / "carried")
    except CommandRefused:  # its caller only learns that it was refused
        sys.stderr.write(f"{REFUSAL}\n")
        sys.exit(1)
    if Path(argv[0]).name in _DAEMONS:
        variables, argv = watch_daemon(variables, argv, home / "bundles")
    os.execvpe(argv[0], argv, {**os.environ, **variables})


def watch_daemon(
    variables: Mapping[str, str], argv: Sequence[str], bundles: Path
) -> tuple[dict[str, str], list[str]]:
    """Return the command for mpirun's daemon under the program's watch, by the newest bundle."""
    code_roots = [
        path for path in bundles.glob("*") if (path / f"{_WATCH.replace('.', '/')}.py").is_file()
    ]
    if not code_roots:
        # Set up by an older version.
        return dict(variables), list(argv)
    newest_root = max(code_roots, key=lambda path: path.stat().st_mtime)
    return {**variables, "PYTHONPATH": str(newest_root)}, [sys.executable, "-m", _WATCH, *argv]


if __name__ == "__main__":
    main()
