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
_HOST_LIBRARIES = re.compile(
    r"ld-linux.*|lib(c|m|dl|rt|util|pthread|resolv|anl|stdc\+\+|gcc_s)\.so\..*"
    r"|lib(GL|EGL|GLX|OpenGL|GLdispatch|drm|gbm|X11|X11-xcb|wayland-[a-z]+)\.so\..*"
    r"|libxcb(-(dri2|dri3|glx|present|randr|shm|sync|xfixes))?\.so\..*"
    r"|lib(fontconfig|freetype|harfbuzz|z|expat|uuid)\.so\..*"
    r"|lib(glib|gthread|gobject|gio|gmodule)-2\.0\.so\..*|libdbus-1\.so\..*"
)
_ELF = b"\x7fELF"
_GLIBC = re.compile(rb"GLIBC_2\.(\d+)")
_LDD_LINE = re.compile(r"^\s*(\S+) => (/\S.*) \(0x", re.MULTILINE)

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


class ElfEditor:
    """Programs and libraries, read and changed with patchelf."""

    def __init__(self, patchelf: Path) -> None:
        self._patchelf = patchelf

    def needed_libraries(self, path: Path) -> tuple[str, ...]:
        """Return the names of the libraries that a file itself needs."""
        return tuple(self._run("--print-needed", path).split())

    def add_search_folder(self, path: Path, folder: Path) -> None:
        """Let a file find its libraries in a folder, after those that it already searches."""
        relative_folder = os.path.relpath(folder, path.parent)
        search_path = "$ORIGIN" if relative_folder == "." else f"$ORIGIN/{relative_folder}"
        search_paths = [
            entry for entry in self._run("--print-rpath", path).strip().split(":") if entry
        ]
        if search_path not in search_paths:
            self._run("--set-rpath", ":".join([*search_paths, search_path]), path)

    def _run(self, *arguments: str | Path) -> str:
        completed = subprocess.run([self._patchelf, *arguments], capture_output=True, text=True)
        if completed.returncode:
            raise PreparationError(
                f"patchelf stopped at {arguments[-1]}: {completed.stderr.strip()}"
            )
        return completed.stdout


def elf_files(folder: Path) -> Iterator[Path]:
    """Yield every program and shared library in a folder."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                if file.read(4) == _ELF:
                    yield path


def least_glibc(files: Iterable[Path]) -> str:
    """Return the oldest C library with which all of these files load."""
    versions = (int(minor) for path in files for minor in _GLIBC.findall(path.read_bytes()))
    return f"2.{max(versions)}"


def trim_qt(packages: Path, elf: ElfEditor) -> None:
    """Keep of PySide6 what the window needs: 100 MB of 230."""
    qt = packages / "PySide6"
    start_files = [qt / name for name in _QT_FILES] + sorted(qt.glob("libpyside6.*"))
    start_files += [qt / f"{name}.abi3.so" for name in _QT_MODULES]
    start_files += [qt / "Qt/plugins" / name for name in _QT_PLUGINS]
    if missing_files := [path for path in start_files if not path.is_file()]:
        raise PreparationError(f"PySide6 no longer has {missing_files[0].relative_to(qt)}.")
    needed_files = set(start_files)
    pending_files = [path for path in start_files if path.suffix != ".py"]
    while pending_files:
        for name in elf.needed_libraries(pending_files.pop()):
            library = qt / "Qt/lib" / name
            if library.exists() and library not in needed_files:
                needed_files.add(library)
                pending_files.append(library)
    for path in sorted(qt.rglob("*")):
        if not path.is_dir() and path not in needed_files and qt / "support" not in path.parents:
            path.unlink()
    _remove_empty_folders(qt)


def _remove_empty_folders(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()


def copy_libraries(
    files: Collection[Path], bundled_names: Collection[str], target: Path, elf: ElfEditor
) -> tuple[Path, ...]:
    """Copy to ``target`` the system's libraries that files need and not every desktop has.

    ``bundled_names`` are those of the libraries that came with the packages. Returns the source of
    each of the others.
    """
    copied_libraries: dict[str, Path] = {}
    target.mkdir(parents=True, exist_ok=True)
    pending_files = list(files)
    while pending_files:
        file = pending_files.pop()
        needed_names = [
            name
            for name in elf.needed_libraries(file)
            if name not in bundled_names and not _HOST_LIBRARIES.fullmatch(name)
        ]
        sources = _library_paths(file) if set(needed_names) - copied_libraries.keys() else {}
        for name in needed_names:
            if name not in copied_libraries:
                if name not in sources:
                    raise PreparationError(f"{file.name} needs {name}, which is missing here.")
                copied_libraries[name] = sources[name]
                shutil.copyfile(sources[name], target / name)
                elf.add_search_folder(target / name, target)
                pending_files.append(sources[name])
        if needed_names and file in files:
            elf.add_search_folder(file, target)
    return tuple(sorted(path.resolve() for path in copied_libraries.values()))


def _library_paths(file: Path) -> dict[str, Path]:
    """Return where the loader finds the libraries of a file, by name."""
    environment = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    ldd_output = subprocess.run(
        ["ldd", file], capture_output=True, text=True, env=environment
    ).stdout
    return {name: Path(path) for name, path in _LDD_LINE.findall(ldd_output)}
