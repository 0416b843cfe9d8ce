"""A Python environment on a node: what lacks there is sent, and it is installed without a network.

It is made in a folder of another name and renamed when it has proved itself, so that no half one is
ever used, and of two desktops that set up one node at once both may end well. Its name tells its
content (`Wheelhouse.environment`); one that is whole is never changed, as jobs may run from it.
A script in ``bin`` still names the folder in which it was installed: call modules, ``-m``.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from backend.base.errors import BackendError
from backend.base.log import suppress
from backend.provisioning.step_reporter import Steps
from backend.provisioning.wheelhouse import Wheel, Wheelhouse
from backend.records.base.layout import NodeHome
from backend.ssh.interface import RemoteFile, Shell

STAMP = "ringmaster.json"
_BUILDING = ".building-"
_ABANDONED_MINUTES = 60
"""A set-up takes minutes; what is older was left by a connection that broke."""
_LEAST_FREE_BYTES = 2_000_000_000
_GROWTH = 4
"""An environment of 206 MB of wheels has 753 MB; the wheels stay beside it."""
_INSTALL_LIMIT_S = 900.0
_VERSION = "import sys; print('%d.%d.%d' % sys.version_info[:3])"
_DIGESTS = """import hashlib, sys
for path in sys.argv[1:]:
    try:
        with open(path, "rb") as file:
            digest = hashlib.sha256()
            while piece := file.read(1 << 20):
                digest.update(piece)
        print(digest.hexdigest(), path, sep="  ")
    except OSError as error:
        print(error, file=sys.stderr)"""
"""What sha256sum prints, which on Debian 12 takes four times as long: it does without the
processor's own instructions."""
_AGAIN = "Set the node up again; it goes on from here."

Tell = Callable[[int, int], None]
Bring = Callable[[Path, Wheel, str, Tell], "int | None"]
"""Source, wheel, target and who hears of bytes -> bytes sent, or None when it was not brought."""


class NodeEnvironments:
    """The environments and wheels of one node."""

    def __init__(self, shell: Shell, home: NodeHome, steps: Steps) -> None:
        self._shell = shell
        self._home = home
        self._steps = steps
        self.bring: Bring | None = None
        """Another way for a wheel than to be sent; None when there is no other."""

    def find(self, name: str) -> Mapping[str, Any] | None:
        """The stamp of a whole environment whose Python still starts, None when it must be made."""
        folder = self._home.environments / name
        stamp = self.stamp(name)
        if stamp is None:
            return None
        # The link bin/python leads to the node's own Python, which an upgrade may have replaced.
        answer = self._steps.run(self._shell, [str(folder / "bin/python"), "-c", _VERSION])
        same = answer.out.strip().rpartition(".")[0] == str(stamp.get("python"))
        return stamp if answer.ok and same else None

    def stamp(self, name: str) -> Mapping[str, Any] | None:
        """The stamp of an environment that was whole when it was made, None when there is none."""
        try:
            stamp = json.loads(self._shell.read(str(self._home.environments / name / STAMP)))
        except (FileNotFoundError, ValueError):
            return None
        return stamp if isinstance(stamp, dict) else None

    def python_version(self, python: str) -> str:
        remedy = "Look there whether it starts at all; an administrator installs it anew."
        said = self._steps.must(
            self._shell, [python, "-c", _VERSION], f"{python} does not start", remedy
        )
        return said.strip()

    def begin(self, python: str, house: Wheelhouse) -> PurePosixPath:
        """An empty environment under a name that nobody else uses."""
        environments = self._home.environments
        self._make_folders((environments, self._home.wheels))
        self._clear_abandoned()
        self._ask_for_room(house)
        folder = environments / f"{_BUILDING}{secrets.token_hex(4)}"
        # Without pip: Debian's python3 lacks what would put it there (python3-venv).
        self._steps.must(
            self._shell,
            [python, "-m", "venv", "--without-pip", str(folder)],
            f"{python} cannot make an environment",
            "An administrator of the node installs what it lacks: apt-get install python3-venv.",
        )
        return folder

    def push(self, python: str, house: Wheelhouse, wheels: Sequence[Wheel]) -> int:
        """Send the wheels that are not there byte for byte already; gives the bytes sent.

        ``python`` is any that starts there.
        """
        folder = self._home.wheels
        present = {PurePosixPath(one.path).name: one.bytes for one in self._listing(folder)}
        candidates = [wheel for wheel in wheels if present.get(wheel.name) == wheel.bytes]
        intact = self._intact(python, candidates)
        lacking = [wheel for wheel in wheels if wheel not in intact]
        total, sent = sum(wheel.bytes for wheel in lacking), 0
        for wheel in lacking:
            before = sent

            def tell(done: int, size: int, wheel: Wheel = wheel, before: int = before) -> None:
                self._steps.say(
                    f"Sending {wheel.package}: {(before + done) / 1e6:.0f} of {total / 1e6:.0f} MB"
                )

            source, target = house.folder / wheel.name, str(folder / wheel.name)
            brought = self.bring(source, wheel, target, tell) if self.bring else None
            if brought is None:
                self._steps.line(f"sending {wheel.name}, {wheel.bytes} bytes")
                self._shell.send(source, target, tell)
                brought = wheel.bytes
            sent += brought
        intact = self._intact(python, lacking)
        damaged = [wheel for wheel in lacking if wheel not in intact]
        if damaged and self.bring is not None:
            self.bring = None
            return sent + self.push(python, house, damaged)
        if damaged:
            raise BackendError(
                f"{damaged[0].name} is not on the node what it is here: it was damaged on the way, "
                "or on one of the two disks.",
                f"Remove {house.folder}, so that the wheels are fetched anew, then set the node up "
                "again.",
            )
        return sent

    def install(self, folder: PurePosixPath, house: Wheelhouse, wheels: Sequence[Wheel]) -> None:
        """Install wheels that are there already; no index and no setting of the node's is read."""
        pip = self._home.wheels / house.pip.name / "pip"
        paths = [str(self._home.wheels / wheel.name) for wheel in wheels]
        argv = ["env", "PIP_CONFIG_FILE=/dev/null", str(folder / "bin/python"), str(pip)]
        argv += ["--isolated", "install", "--no-index", "--no-deps", "--no-compile"]
        argv += ["--no-cache-dir", "--no-warn-script-location", "--root-user-action", "ignore"]
        argv += ["--disable-pip-version-check", *paths]
        self._steps.say(f"Installing {len(wheels)} packages")
        self._steps.must(
            self._shell, argv, "The packages could not be installed", _AGAIN, _INSTALL_LIMIT_S
        )

    def finish(self, folder: PurePosixPath, name: str, stamp: Mapping[str, Any]) -> PurePosixPath:
        """Give a proved environment its name; another desktop's, if that one was quicker."""
        final = self._home.environments / name
        self._shell.write(str(folder / STAMP), (json.dumps(dict(stamp), indent=1) + "\n").encode())
        if self._named(folder, final):
            return final
        if self.find(name) is None:
            # What has the name was damaged later; nothing that is whole is ever taken away here.
            aside = final.with_name(f"{_BUILDING}{secrets.token_hex(4)}")
            self._named(final, aside)
            self.drop(aside)
            if not self._named(folder, final):
                self.drop(folder)
                raise BackendError(f"{final} cannot be made: another one stands there.", _AGAIN)
            return final
        self.drop(folder)
        return final

    def _named(self, folder: PurePosixPath, final: PurePosixPath) -> bool:
        """Rename a folder, unless one of that name is there."""
        return self._steps.run(self._shell, ["mv", "-T", "--", str(folder), str(final)]).ok

    def drop(self, folder: PurePosixPath) -> None:
        """Take away what was being made; a connection that is gone leaves it to the next set-up."""
        with suppress(BackendError):
            self._shell.run(["rm", "-rf", "--", str(folder)], limit_s=_INSTALL_LIMIT_S)

    def _make_folders(self, folders: Sequence[PurePosixPath]) -> None:
        self._steps.must(
            self._shell,
            ["mkdir", "-p", "--", *map(str, folders)],
            f"The folder {self._home.path} cannot be made on the node",
            "Let the home folder there belong to that user, with the right to write.",
        )

    def _clear_abandoned(self) -> None:
        old = ["-name", f"{_BUILDING}*", "-mmin", f"+{_ABANDONED_MINUTES}"]
        find = ["find", str(self._home.environments), "-mindepth", "1", "-maxdepth", "1", *old]
        self._steps.run(self._shell, [*find, "-exec", "rm", "-rf", "--", "{}", "+"], 300)

    def _ask_for_room(self, house: Wheelhouse) -> None:
        needed = max(_LEAST_FREE_BYTES, _GROWTH * sum(wheel.bytes for wheel in house.wheels))
        said = self._steps.must(
            self._shell,
            ["df", "-Pk", "--", str(self._home.path)],
            f"The room on the disk of {self._home.path} cannot be asked for",
        )
        free = int(said.splitlines()[-1].split()[3]) * 1024
        if free < needed:
            raise BackendError(
                f"The disk of {self._home.path} on the node has {free / 1e9:.1f} GB free, and "
                f"setting up needs {needed / 1e9:.0f} GB.",
                "Make room there, then set the node up again.",
            )

    def _listing(self, folder: PurePosixPath) -> tuple[RemoteFile, ...]:
        try:
            return self._shell.listing(str(folder))
        except FileNotFoundError:
            return ()

    def _intact(self, python: str, wheels: Sequence[Wheel]) -> set[Wheel]:
        """Those whose bytes on the node are the ones that they should be."""
        if not wheels:
            return set()
        paths = [str(self._home.wheels / wheel.name) for wheel in wheels]
        argv = [python, "-I", "-c", _DIGESTS, *paths]
        answer = self._steps.run(self._shell, argv, limit_s=300)
        lines = (line.split("  ", 1) for line in answer.out.splitlines() if "  " in line)
        found = {path: digest for digest, path in lines}
        return {
            wheel
            for wheel, path in zip(wheels, paths, strict=True)
            if found.get(path) == wheel.sha256
        }
