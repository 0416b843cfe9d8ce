"""What the cluster's key may start on a node, when a person wants it to start nothing else.

sshd executes this instead of what the client asked for (``command=`` in authorized_keys), and
hands that over as text. It is never given to a shell: it is one of the things that the
program itself asks for between nodes, with programs and folders that set-up made below
``~/.ringmaster`` (or on the data root, where nodes share an environment), or it is refused:

- mpirun's daemon, with the variables that mpirun sets for it;
- the sweep of what a run left, which says what its ranks there wrote last;
- ``true``, by which the look before a start proves the way;
- ``echo $SHELL``, by which mpirun asks in which form it shall name its daemon.

Whoever has the key and speaks mpirun's own protocol can still have its daemon start programs as
this user; that is what the daemon is for. What is gone is the shell, files, and every tunnel.

Standard library only, no module beside it, as it is executed alone with ``python -I``.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Sequence
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
_SYSTEMS_OWN = ("/usr/", "/opt/")
# 4.1 names the nodes by an expression of its own, such as [2:10].77.0.3@0(2).
_PLAIN = re.compile(r"[A-Za-z0-9 @._,;:/+=^~\[\]()-]*")
_DAEMONS = ("prted", "orted")
_SWEEP = "backend.node.run.remote_cleanup"
_TAG = re.compile(r"[A-Za-z0-9._-]+/[0-9]+")
REFUSAL = "This key starts runs of Ringmaster and nothing else."


class CommandRefused(Exception):
    """It is none of the things that the key is for."""


def allowed(asked: str, ours: Sequence[Path], carried: Path) -> tuple[dict[str, str], list[str]]:
    """Variables to set, and what to execute, for what a client asked for.

    ``ours`` are the folders of environments and bundles that set-up made, ``carried`` is where jobs
    lie on a node that does not see the data root: read, and never executed.

    Raises:
        Refused: It is none of these.
    """
    try:
        variables, rest = _settings(asked, ours)
        argv = shlex.split(rest)
    except ValueError as error:
        raise CommandRefused from error
    if argv == ["true"] and not variables:
        return {}, argv
    if argv == ["echo", "$SHELL"] and not variables:
        # mpirun asks which shell reads its text. None does; the form for bash is understood here.
        return {}, ["echo", "/bin/bash"]
    if argv[:1] == ["env"] and not variables:
        return _sweep(argv, ours, carried)
    if not argv or Path(argv[0]).name not in _DAEMONS:
        raise CommandRefused
    if not (argv[0] in _DAEMONS or _is_sound(argv[0], ours)):
        raise CommandRefused
    # No shell sees them; they are what mpirun writes, and no second command's.
    if not all(_PLAIN.fullmatch(word) and not word.endswith(";") for word in argv):
        raise CommandRefused
    return variables, argv


def _settings(asked: str, ours: Sequence[Path]) -> tuple[dict[str, str], str]:
    """What mpirun sets before it names its daemon; what a variable held before stays behind."""
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
    # Where nodes do not see the data root, the run's folder in what they have in its place.
    if len(argv) > 7 or not all(_is_ours(folder, (carried,)) for folder in argv[6:]):
        raise CommandRefused
    name, _, code = argv[1].partition("=")
    if name != "PYTHONPATH" or not _is_ours(code, ours) or not _is_ours(argv[2], ours):
        raise CommandRefused
    return {name: code}, argv[2:]


def _is_ours(place: str, ours: Sequence[Path]) -> bool:
    """Whether set-up made it: below one of ours, with no way out of there."""
    normal = os.path.normpath(place)
    return any(normal.startswith(f"{folder}/") for folder in ours)


def _is_sound(place: str, ours: Sequence[Path]) -> bool:
    """Whether nobody but set-up or the system's administrator puts programs there."""
    return _is_ours(place, ours) or os.path.normpath(place).startswith(_SYSTEMS_OWN)


def main() -> NoReturn:
    home = Path(os.path.abspath(__file__)).parents[1]
    ours = [home / "environments", home / "bundles"]
    if sys.prefix != sys.base_prefix:
        # The environment that this runs from; one that nodes share lies on the data root.
        ours.append(Path(sys.prefix).parent)
    try:
        asked = os.environ.get("SSH_ORIGINAL_COMMAND", "")
        variables, argv = allowed(asked, ours, home / "carried")
    except CommandRefused:
        sys.stderr.write(f"{REFUSAL}\n")
        sys.exit(1)
    os.execvpe(argv[0], argv, {**os.environ, **variables})


if __name__ == "__main__":
    main()
