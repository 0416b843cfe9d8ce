"""The Python of a bundle: the one that builds it, with the desktop's packages, in one folder.

CPython finds its library next to its executable, also after both are moved together. A program
frozen into one executable would have no Python for `python -m pip`, which fetches the wheels for
nodes, nor for the processes that outlive the window.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path

from installers.console import Progress, run_logged

_NAME = "python{}.{}".format(*sys.version_info[:2])
# Not needed by a desktop program: tests, Tk, headers; and modules whose libraries not every system
# has (Berkeley DB, NIS, curses, readline, and crypt, which newer C libraries lack).
_NOT_OF_THE_LIBRARY = shutil.ignore_patterns(
    *("__pycache__", "test", "tests", "idlelib", "tkinter", "turtle*", "ensurepip", "lib2to3"),
    *("config-*", "site-packages", "dist-packages", "sitecustomize.py", "EXTERNALLY-MANAGED"),
    *("pydoc_data", "_test*", "_xxtest*", "_ctypes_test*", "xxlimited*", "_tkinter*", "_crypt.*"),
    *("_dbm.*", "_gdbm.*", "nis.*", "_curses*", "readline.*", "ossaudiodev*", "spwd*"),
)
_NOT_OF_PACKAGES = ("tests", "examples", "include")
_NOT_OF_WHEELS = ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json")


def executable() -> Path:
    """Return the building Python, outside of any virtual environment."""
    return Path(getattr(sys, "_base_executable", sys.executable)).resolve()


def copy_interpreter(target: Path) -> Path:
    """Copy executable and standard library; return the new executable."""
    (target / "bin").mkdir(parents=True)
    python = target / "bin" / _NAME
    shutil.copyfile(executable(), python)
    python.chmod(0o755)
    (target / "bin/python3").symlink_to(_NAME)
    library = Path(sysconfig.get_path("stdlib"))
    # Links of a distribution that point outside the library.
    shutil.copytree(
        library,
        target / "lib" / _NAME,
        ignore=_NOT_OF_THE_LIBRARY,
        ignore_dangling_symlinks=True,
    )
    return python


def packages_of(python: Path) -> Path:
    """Return where a Python finds packages by itself: Debian's has its own name for it."""
    code = "import site; print(site.getsitepackages()[-1])"
    # -B: compiled files must not contain the path where they were made.
    command = [str(python), "-I", "-B", "-c", code]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    return Path(answer.stdout.strip())


def install(
    requirements: Sequence[str],
    folder: Path,
    constraints: Path,
    log: Path,
    progress: Progress,
    environment: Mapping[str, str],
    hold: Sequence[int],
) -> None:
    """Install wheels into a folder unchanged: no scripts with paths of this computer."""
    run_logged(
        [
            *(sys.executable, "-m", "pip", "install", "--no-input", "--no-compile"),
            *("--only-binary", ":all:", "--constraint", str(constraints)),
            *("--target", str(folder), *requirements),
        ],
        log=log,
        progress=progress,
        label="Installing Python packages",
        environment=environment,
        hold=hold,
    )


def trim_packages(packages: Path) -> None:
    """Remove files for developers of the packages, and files that depend on this computer."""
    shutil.rmtree(packages / "bin", ignore_errors=True)
    for path in sorted(packages.rglob("*")):
        if path.is_dir() and path.name in _NOT_OF_PACKAGES and "PySide6" not in path.parts:
            shutil.rmtree(path)
    for path in sorted(packages.rglob("*.dist-info/*")):
        if path.name in _NOT_OF_WHEELS:
            path.unlink()
    for path in sorted(packages.rglob("*.pyi")):
        path.unlink()


def compile_sources(
    folder: Path, log: Path, progress: Progress, environment: Mapping[str, str]
) -> None:
    """Compile every module once: users of the bundle may be unable to write there.

    Compiled files are never compared with their source, whose time is the archive's.
    """
    run_logged(
        [
            *(sys.executable, "-m", "compileall", "-q", "-f", "-j", "0"),
            *("--invalidation-mode", "unchecked-hash", "-s", str(folder.parent), str(folder)),
        ],
        log=log,
        progress=progress,
        label="Compiling Python modules",
        # The order of sets, and with it the bytes, depends on the seed.
        environment={**environment, "PYTHONHASHSEED": "0"},
    )
