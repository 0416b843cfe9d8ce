"""Shared libraries of a bundle, and where they are found.

A program finds libraries in its own folder by its RUNPATH, so no variable has to be set that the
programs it starts (ssh, a file manager) would inherit and fail with.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from installers.console import PreparationError

# Libraries that must be the desktop's own: the C library, and those that belong to its graphics
# driver, fonts and sessions.
# https://github.com/AppImageCommunity/pkg2appimage/blob/master/excludelist gives the reason for
# each; libxcb-* here are those that Mesa includes, GLib and D-Bus those of any desktop.
_OF_THE_HOST = re.compile(
    r"ld-linux.*|lib(c|m|dl|rt|util|pthread|resolv|anl|stdc\+\+|gcc_s)\.so\..*"
    r"|lib(GL|EGL|GLX|OpenGL|GLdispatch|drm|gbm|X11|X11-xcb|wayland-[a-z]+)\.so\..*"
    r"|libxcb(-(dri2|dri3|glx|present|randr|shm|sync|xfixes))?\.so\..*"
    r"|lib(fontconfig|freetype|harfbuzz|z|expat|uuid)\.so\..*"
    r"|lib(glib|gthread|gobject|gio|gmodule)-2\.0\.so\..*|libdbus-1\.so\..*"
)
_ELF = b"\x7fELF"
_GLIBC = re.compile(rb"GLIBC_2\.(\d+)")
_FOUND = re.compile(r"^\s*(\S+) => (/\S.*) \(0x", re.MULTILINE)

# Modules that the window imports (the two of OpenGL are pyqtgraph's), and plugins loaded by name.
_QT_MODULES = ("QtCore", "QtGui", "QtOpenGL", "QtOpenGLWidgets", "QtSvg", "QtWidgets")
_QT_PLUGINS = (
    "iconengines/libqsvgicon.so",
    "imageformats/libqgif.so",
    "imageformats/libqico.so",
    "imageformats/libqjpeg.so",
    "imageformats/libqsvg.so",
    "imageformats/libqwebp.so",
    "platforminputcontexts/libcomposeplatforminputcontextplugin.so",
    "platforminputcontexts/libibusplatforminputcontextplugin.so",
    "platforms/libqminimal.so",
    "platforms/libqoffscreen.so",
    "platforms/libqwayland.so",
    "platforms/libqxcb.so",
    "platformthemes/libqxdgdesktopportal.so",
    "wayland-decoration-client/libadwaita.so",
    "wayland-decoration-client/libbradient.so",
    "wayland-graphics-integration-client/libqt-plugin-wayland-egl.so",
    "wayland-shell-integration/libqt-shell.so",
    "wayland-shell-integration/libxdg-shell.so",
    "xcbglintegrations/libqxcb-egl-integration.so",
    "xcbglintegrations/libqxcb-glx-integration.so",
)
_QT_FILES = ("__init__.py", "_config.py", "_git_pyside_version.py")


class Elf:
    """Programs and libraries, read and changed with patchelf."""

    def __init__(self, patchelf: Path) -> None:
        self._patchelf = patchelf

    def needed(self, path: Path) -> tuple[str, ...]:
        """Return the names of the libraries that a file itself needs."""
        return tuple(self._ask("--print-needed", path).split())

    def search(self, path: Path, folder: Path) -> None:
        """Let a file find its libraries in a folder, after those that it already searches."""
        here = os.path.relpath(folder, path.parent)
        place = "$ORIGIN" if here == "." else f"$ORIGIN/{here}"
        places = [one for one in self._ask("--print-rpath", path).strip().split(":") if one]
        if place not in places:
            self._ask("--set-rpath", ":".join([*places, place]), path)

    def _ask(self, *words: str | Path) -> str:
        done = subprocess.run([self._patchelf, *words], capture_output=True, text=True)
        if done.returncode:
            raise PreparationError(f"patchelf stopped at {words[-1]}: {done.stderr.strip()}")
        return done.stdout


def elves(folder: Path) -> Iterator[Path]:
    """Yield every program and shared library in a folder."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                if file.read(4) == _ELF:
                    yield path


def least_glibc(files: Iterable[Path]) -> str:
    """Return the oldest C library with which all of these files load."""
    found = (int(minor) for path in files for minor in _GLIBC.findall(path.read_bytes()))
    return f"2.{max(found)}"


def trim_qt(packages: Path, elf: Elf) -> None:
    """Keep of PySide6 what the window needs: 100 MB of 230."""
    qt = packages / "PySide6"
    kept = [qt / name for name in _QT_FILES] + sorted(qt.glob("libpyside6.*"))
    kept += [qt / f"{name}.abi3.so" for name in _QT_MODULES]
    kept += [qt / "Qt/plugins" / name for name in _QT_PLUGINS]
    if missing := [path for path in kept if not path.is_file()]:
        raise PreparationError(f"PySide6 no longer has {missing[0].relative_to(qt)}.")
    wanted = set(kept)
    waiting = [path for path in kept if path.suffix != ".py"]
    while waiting:
        for name in elf.needed(waiting.pop()):
            library = qt / "Qt/lib" / name
            if library.exists() and library not in wanted:
                wanted.add(library)
                waiting.append(library)
    for path in sorted(qt.rglob("*")):
        if not path.is_dir() and path not in wanted and qt / "support" not in path.parents:
            path.unlink()
    _remove_empty(qt)


def _remove_empty(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()


def bring_libraries(
    files: Collection[Path], shipped: Collection[str], home: Path, elf: Elf
) -> tuple[Path, ...]:
    """Copy to ``home`` the system's libraries that files need and not every desktop has.

    ``shipped`` are the names of the libraries that came with the packages. Returns where each of
    the others came from.
    """
    brought: dict[str, Path] = {}
    home.mkdir(parents=True, exist_ok=True)
    waiting = list(files)
    while waiting:
        file = waiting.pop()
        lacking = [
            name
            for name in elf.needed(file)
            if name not in shipped and not _OF_THE_HOST.fullmatch(name)
        ]
        places = _places(file) if set(lacking) - brought.keys() else {}
        for name in lacking:
            if name not in brought:
                if name not in places:
                    raise PreparationError(f"{file.name} needs {name}, which is missing here.")
                brought[name] = places[name]
                shutil.copyfile(places[name], home / name)
                elf.search(home / name, home)
                waiting.append(places[name])
        if lacking and file in files:
            elf.search(file, home)
    return tuple(sorted(path.resolve() for path in brought.values()))


def _places(file: Path) -> dict[str, Path]:
    """Return where the loader finds the libraries of a file, by name."""
    environment = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    listed = subprocess.run(["ldd", file], capture_output=True, text=True, env=environment).stdout
    return {name: Path(place) for name, place in _FOUND.findall(listed)}
