"""A Python environment on a node: missing wheels are sent and installed without a network.

An environment is made in a folder of another name and renamed after its test, so that no incomplete
environment is used, and two desktops may set up one node at once. Its name identifies its content
(`Wheelhouse.environment`). In a complete environment nothing is changed, because jobs may use it;
packages of user code are only added.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from backend.base.errors import BackendError
from backend.base.log import suppress, swallowed
from backend.node.system.mpi import PYTHON_VERSION
from backend.provisioning.step_reporter import StepReporter
from backend.provisioning.wheelhouse import Wheel, Wheelhouse
from backend.records.base.layout import NodeHome
from backend.ssh.interface import Machine
from backend.ssh.sftp import RemoteFile

STAMP = "ringmaster.json"
_BUILDING = ".building-"
_ABANDONED_MINUTES = 60
"""A set-up takes minutes; an older folder is the rest of a broken connection."""
_LEAST_FREE_BYTES = 2_000_000_000
_GROWTH = 4
"""An environment from 206 MB of wheels takes 753 MB, besides the wheels."""
_INSTALL_LIMIT_S = 900.0
_RELOCATABLE = b"relocatable = true\n"
"""A setting of an environment, for uv: programs in ``bin`` find its Python by their own place, so
they run after it was renamed."""
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
"""Prints what sha256sum prints, which is four times slower on Debian 12: it does not use the
processor's SHA instructions."""
_UNPACK_UV = """import os, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as wheel:
    (name,) = (name for name in wheel.namelist() if name.endswith(".data/scripts/uv"))
    with open(sys.argv[2], "wb") as file:
        file.write(wheel.read(name))
os.chmod(sys.argv[2], 0o755)"""
_RETRY_REMEDY = "Set the node up again; it continues from here."
_INSTALL = ("pip", "install", "--no-config", "--offline", "--no-index", "--no-deps")
"""The words after ``uv`` that install wheels, without an index and the settings of a node."""

OnBytes = Callable[[int, int], None]
BringWheel = Callable[[Path, Wheel, str, OnBytes], "int | None"]
"""Source, wheel, target, callback of bytes -> bytes sent, or None if it was not delivered."""


def _new_name() -> str:
    """Return a name for an environment that is being made."""
    return f"{_BUILDING}{secrets.token_hex(4)}"


class NodeEnvironments:
    """The environments and wheels of one node, or of this computer."""

    def __init__(self, shell: Machine, home: NodeHome, steps: StepReporter) -> None:
        self._shell = shell
        self._home = home
        self._steps = steps
        self.bring: BringWheel | None = None
        """Another way to deliver a wheel than to send it; None if there is none."""

    def find(self, name: str) -> Mapping[str, Any] | None:
        """Return the stamp of a complete environment whose Python starts, None if there is none."""
        folder = self._home.environments / name
        stamp = self.stamp(name)
        if stamp is None:
            return None
        # The link bin/python leads to the node's own Python, which an upgrade may have replaced.
        answer = self._steps.run_command(
            self._shell, [str(folder / "bin/python"), "-I", "-c", PYTHON_VERSION]
        )
        is_same_version = answer.out.strip().rpartition(".")[0] == str(stamp.get("python"))
        return stamp if answer.ok and is_same_version else None

    def stamp(self, name: str) -> Mapping[str, Any] | None:
        """Return the stamp of an environment that was complete when made, None if missing."""
        try:
            stamp = json.loads(self._shell.read(str(self._home.environments / name / STAMP)))
        except (FileNotFoundError, ValueError) as error:
            swallowed(error)
            return None
        return stamp if isinstance(stamp, dict) else None

    def mark_used(self, name: str) -> None:
        """Note the time, by which `unprovision.environments` finds those that are not used."""
        self._steps.run_command(self._shell, ["touch", "--", str(self._home.environments / name)])

    def python_version(self, python: str) -> str:
        remedy = "If it does not start on the node at all, let an administrator reinstall it."
        output = self._steps.require_output(
            self._shell, [python, "-I", "-c", PYTHON_VERSION], f"{python} does not start", remedy
        )
        return output.strip()

    def make_empty(self, python: str, house: Wheelhouse) -> PurePosixPath:
        """Make an empty environment under a unique name."""
        environments = self._home.environments
        self._make_folders((environments, self._home.wheels))
        self._clear_abandoned()
        self._require_space(house)
        folder = environments / _new_name()
        # Without pip: Debian's python3 lacks the package that installs it (python3-venv).
        self._steps.require_output(
            self._shell,
            [python, "-I", "-m", "venv", "--without-pip", str(folder)],
            f"{python} cannot make an environment",
            "Let an administrator of the node run: apt-get install python3-venv.",
        )
        settings = str(folder / "pyvenv.cfg")
        self._shell.write(settings, self._shell.read(settings) + _RELOCATABLE)
        return folder

    def push(self, python: str, house: Wheelhouse, wheels: Sequence[Wheel]) -> int:
        """Send the wheels that are not on the node byte for byte; return the bytes sent.

        ``python`` is any Python that starts on the node.
        """
        folder = self._home.wheels
        present_sizes = {
            PurePosixPath(file.path).name: file.bytes for file in self._listing(folder)
        }
        candidates = [wheel for wheel in wheels if present_sizes.get(wheel.name) == wheel.bytes]
        intact_wheels = self._intact_wheels(python, candidates)
        missing_wheels = [wheel for wheel in wheels if wheel not in intact_wheels]
        total_bytes, sent_bytes = sum(wheel.bytes for wheel in missing_wheels), 0
        for wheel in missing_wheels:
            earlier_bytes = sent_bytes

            def on_bytes(
                done_bytes: int, size: int, wheel: Wheel = wheel, earlier_bytes: int = earlier_bytes
            ) -> None:
                self._steps.show_message(
                    f"Sending {wheel.package}: {(earlier_bytes + done_bytes) / 1e6:.0f} of "
                    f"{total_bytes / 1e6:.0f} MB"
                )

            source, target = house.folder / wheel.name, str(folder / wheel.name)
            delivered_bytes = self.bring(source, wheel, target, on_bytes) if self.bring else None
            if delivered_bytes is None:
                self._steps.add_line(f"sending {wheel.name}, {wheel.bytes} bytes")
                self._shell.send(source, target, on_bytes)
                delivered_bytes = wheel.bytes
            sent_bytes += delivered_bytes
        intact_wheels = self._intact_wheels(python, missing_wheels)
        damaged_wheels = [wheel for wheel in missing_wheels if wheel not in intact_wheels]
        if damaged_wheels and self.bring is not None:
            self.bring = None
            return sent_bytes + self.push(python, house, damaged_wheels)
        if damaged_wheels:
            raise BackendError(
                f"{damaged_wheels[0].name} differs on the node: it was damaged during the "
                "transfer, or on one of the two disks.",
                f"Remove {house.folder}, so that the wheels are fetched again, then set the node "
                "up again.",
            )
        return sent_bytes

    def install(self, folder: PurePosixPath, house: Wheelhouse, wheels: Sequence[Wheel]) -> None:
        """Install wheels that are on the node."""
        if not wheels:
            return
        python, uv = str(folder / "bin/python"), str(folder / "uv")
        wheel = str(self._home.wheels / house.uv.name)
        failure = "The packages could not be installed"
        self._steps.require_output(
            self._shell, [python, "-I", "-c", _UNPACK_UV, wheel, uv], failure, _RETRY_REMEDY
        )
        # Its cache in the environment's own file system, so that files are linked and not copied.
        argv = ["env", f"TMPDIR={folder}", uv, *_INSTALL, "--no-cache", "--python", python]
        argv += [str(self._home.wheels / wheel.name) for wheel in wheels]
        self._steps.show_message(f"Installing {len(wheels)} packages")
        self._steps.require_output(self._shell, argv, failure, _RETRY_REMEDY, _INSTALL_LIMIT_S)
        self._steps.require_output(self._shell, ["rm", "--", uv], failure, _RETRY_REMEDY)

    def finish(self, folder: PurePosixPath, name: str, stamp: Mapping[str, Any]) -> PurePosixPath:
        """Rename a tested environment; use another desktop's if that one was faster."""
        target = self._home.environments / name
        self._shell.write(str(folder / STAMP), (json.dumps(dict(stamp), indent=1) + "\n").encode())
        if self._rename(folder, target):
            return target
        if self.find(name) is None:
            # An environment of that name is damaged; a complete one is never removed here.
            discarded_folder = target.with_name(_new_name())
            self._rename(target, discarded_folder)
            self.drop(discarded_folder)
            if not self._rename(folder, target):
                self.drop(folder)
                raise BackendError(
                    f"{target} cannot be created: that name is in use.", _RETRY_REMEDY
                )
            return target
        self.drop(folder)
        return target

    def _rename(self, folder: PurePosixPath, target: PurePosixPath) -> bool:
        """Rename a folder, unless one of that name exists."""
        return self._steps.run_command(self._shell, ["mv", "-T", "--", str(folder), str(target)]).ok

    def drop(self, folder: PurePosixPath) -> None:
        """Remove an incomplete environment; if the connection broke, the next set-up does it."""
        with suppress(BackendError):
            self._shell.run(["rm", "-rf", "--", str(folder)], limit_s=_INSTALL_LIMIT_S)

    def _make_folders(self, folders: Sequence[PurePosixPath]) -> None:
        self._steps.require_output(
            self._shell,
            ["mkdir", "-p", "--", *map(str, folders)],
            f"The folder {self._home.path} cannot be made on the node",
            "Make that user the owner of its home folder on the node, with write permission.",
        )

    def _clear_abandoned(self) -> None:
        age_filter = ["-name", f"{_BUILDING}*", "-mmin", f"+{_ABANDONED_MINUTES}"]
        find = [
            "find",
            str(self._home.environments),
            "-mindepth",
            "1",
            "-maxdepth",
            "1",
            *age_filter,
        ]
        self._steps.run_command(self._shell, [*find, "-exec", "rm", "-rf", "--", "{}", "+"], 300)

    def _require_space(self, house: Wheelhouse) -> None:
        needed_bytes = max(_LEAST_FREE_BYTES, _GROWTH * sum(wheel.bytes for wheel in house.wheels))
        output = self._steps.require_output(
            self._shell,
            ["df", "-Pk", "--", str(self._home.path)],
            f"The free space on the disk of {self._home.path} could not be read",
        )
        free_bytes = int(output.splitlines()[-1].split()[3]) * 1024
        if free_bytes < needed_bytes:
            raise BackendError(
                f"The disk of {self._home.path} on the node has {free_bytes / 1e9:.1f} GB free, "
                f"and setting up needs {needed_bytes / 1e9:.0f} GB.",
                f"Free some space in {self._home.path}, then set the node up again.",
            )

    def _listing(self, folder: PurePosixPath) -> tuple[RemoteFile, ...]:
        try:
            return self._shell.listing(str(folder))
        except FileNotFoundError:
            return ()

    def _intact_wheels(self, python: str, wheels: Sequence[Wheel]) -> set[Wheel]:
        """Return the wheels whose bytes on the node are correct."""
        if not wheels:
            return set()
        paths = [str(self._home.wheels / wheel.name) for wheel in wheels]
        argv = [python, "-I", "-c", _DIGESTS, *paths]
        answer = self._steps.run_command(self._shell, argv, limit_s=300)
        lines = (line.split("  ", 1) for line in answer.out.splitlines() if "  " in line)
        digests = {path: digest for digest, path in lines}
        return {
            wheel
            for wheel, path in zip(wheels, paths, strict=True)
            if digests.get(path) == wheel.sha256
        }
