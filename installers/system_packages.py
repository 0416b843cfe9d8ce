"""Requirements of Ringmaster on the operating system, and their installation.

Each requirement is tested, not looked up: a library exists if it can be loaded, a tool if it is in
PATH. Package databases name the same library differently (Debian's libglib2.0-0 is libglib2.0-0t64
in Ubuntu 24.04) and do not list what was installed in another way.
"""

from __future__ import annotations

import contextlib
import ctypes
import glob
import os
import shutil
import sys
import sysconfig
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from installers.console import PreparationError, Progress, run_logged


def _loads(soname: str) -> bool:
    try:
        ctypes.CDLL(soname)
    except OSError:  # not installed, or of another architecture
        return False
    return True


def _has_tool(name: str) -> bool:
    # Folders of programs for root are not in every user's PATH.
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
    return shutil.which(name, path=path) is not None


def _has_font(pattern: str) -> bool:
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share")
    folders = (Path("/usr/share/fonts"), Path("/usr/local/share/fonts"), data / "fonts")
    return any(any(folder.rglob(pattern)) for folder in folders)


@dataclass(frozen=True)
class SystemPackage:
    """A requirement and the Debian package that has it."""

    package: str
    name: str
    is_there: Callable[[str], object]


def _has_header(name: str) -> bool:
    return (Path(sysconfig.get_path("include")) / name).exists()


def _matches_file(pattern: str) -> bool:
    return bool(glob.glob(pattern))


BUILD = (
    SystemPackage("g++", "g++", shutil.which),
    SystemPackage("make", "make", shutil.which),
    SystemPackage("python{}.{}-dev".format(*sys.version_info[:2]), "Python.h", _has_header),
)

# `readelf -d` of PySide6-Essentials 6.11.3: QtCore, QtGui, QtWidgets, and the offscreen platform.
QT = (
    SystemPackage("libegl1", "libEGL.so.1", _loads),
    SystemPackage("libgl1", "libGL.so.1", _loads),
    SystemPackage("libdbus-1-3", "libdbus-1.so.3", _loads),
    SystemPackage("libfontconfig1", "libfontconfig.so.1", _loads),
    SystemPackage("libglib2.0-0", "libgthread-2.0.so.0", _loads),
    SystemPackage("libgssapi-krb5-2", "libgssapi_krb5.so.2", _loads),
    SystemPackage("libxkbcommon0", "libxkbcommon.so.0", _loads),
    SystemPackage("libx11-6", "libX11.so.6", _loads),
)

# The same of plugins/platforms/libqxcb.so and libQt6XcbQpa.so.6.
WINDOW = (
    SystemPackage("libx11-xcb1", "libX11-xcb.so.1", _loads),
    SystemPackage("libxcb-cursor0", "libxcb-cursor.so.0", _loads),
    SystemPackage("libxcb-glx0", "libxcb-glx.so.0", _loads),
    SystemPackage("libxcb-icccm4", "libxcb-icccm.so.4", _loads),
    SystemPackage("libxcb-image0", "libxcb-image.so.0", _loads),
    SystemPackage("libxcb-keysyms1", "libxcb-keysyms.so.1", _loads),
    SystemPackage("libxcb-randr0", "libxcb-randr.so.0", _loads),
    SystemPackage("libxcb-render-util0", "libxcb-render-util.so.0", _loads),
    SystemPackage("libxcb-shape0", "libxcb-shape.so.0", _loads),
    SystemPackage("libxcb-sync1", "libxcb-sync.so.1", _loads),
    SystemPackage("libxcb-xfixes0", "libxcb-xfixes.so.0", _loads),
    SystemPackage("libxcb-xkb1", "libxcb-xkb.so.1", _loads),
    SystemPackage("libxkbcommon-x11-0", "libxkbcommon-x11.so.0", _loads),
)

FONTS = (
    SystemPackage("fonts-inter", "*Inter*", _has_font),
    SystemPackage("fonts-jetbrains-mono", "*JetBrainsMono*", _has_font),
)

# The test cluster: namespaces, disks in files, a Debian for its nodes, and their clocks.
CLUSTER = (
    SystemPackage("debootstrap", "debootstrap", _has_tool),
    SystemPackage(
        "debian-archive-keyring", "/usr/share/keyrings/debian-archive-keyring.gpg", os.path.exists
    ),
    SystemPackage("e2fsprogs", "mkfs.ext4", _has_tool),
    SystemPackage("gcc", "gcc", _has_tool),
    SystemPackage("iproute2", "ip", _has_tool),
    SystemPackage("libc6-dev", "/usr/include/dlfcn.h", os.path.exists),
    SystemPackage("mount", "losetup", _has_tool),
    SystemPackage("openssh-client", "ssh", _has_tool),
    SystemPackage("openssh-server", "/usr/sbin/sshd", os.path.exists),
    SystemPackage("util-linux", "nsenter", _has_tool),
)

# A Slurm cluster in namespaces: its controller, its daemons, and what they know each other by.
SLURM = (
    SystemPackage("munge", "munged", _has_tool),
    SystemPackage("slurm-wlm", "slurmctld", _has_tool),
    SystemPackage(
        "slurm-wlm-basic-plugins",
        "/usr/lib/*-linux-gnu/slurm-wlm/select_cons_tres.so",
        _matches_file,
    ),
)

# Its accounting, which the slow tests install themselves.
SLURM_DATABASE = (
    SystemPackage("mariadb-server", "mariadbd", _has_tool),
    SystemPackage("slurmdbd", "slurmdbd", _has_tool),
)

# A real screen for the tests of the window: an X server, a window manager, a tray, input, and
# `xrandr`, which adds a second screen to the server and removes it.
SCREEN = (
    SystemPackage("openbox", "openbox", _has_tool),
    SystemPackage("trayer", "trayer", _has_tool),
    SystemPackage("x11-xserver-utils", "xrandr", _has_tool),
    SystemPackage("xdotool", "xdotool", _has_tool),
    SystemPackage("xvfb", "Xvfb", _has_tool),
)

LIBRARIES: dict[str, tuple[SystemPackage, ...]] = {
    "headless": (),
    "window": QT + WINDOW,
    "test": QT + WINDOW + SCREEN + CLUSTER + SLURM,
}


def list_missing(requirements: Sequence[SystemPackage]) -> list[str]:
    """Return the missing packages, in the order of the requirements."""
    return [
        requirement.package
        for requirement in requirements
        if not requirement.is_there(requirement.name)
    ]


def install_missing(requirements: Sequence[SystemPackage], log: Path, progress: Progress) -> None:
    """Install what is missing as root; otherwise report the administrator's command."""
    packages = list_missing(requirements)
    if packages and _may_install():
        _install(packages, log, progress)
        packages = list_missing(requirements)
    if packages:
        raise PreparationError(
            f"This machine lacks {_list_packages(packages)}; "
            f"an administrator installs {'it' if len(packages) == 1 else 'them'} with: "
            f"apt-get install {' '.join(packages)}"
        )


def recommend_fonts(log: Path, progress: Progress) -> None:
    """Recommend the window's own fonts: useful, but not required."""
    packages = list_missing(FONTS)
    if packages and _may_install():
        with contextlib.suppress(PreparationError):
            _install(packages, log, progress)
        packages = list_missing(FONTS)
    if packages:
        progress.note(
            "Two fonts of the window are missing; an administrator installs them with: apt-get "
            f"install {' '.join(packages)}"
        )


def _may_install() -> bool:
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def _install(packages: Sequence[str], log: Path, progress: Progress) -> None:
    install = ["apt-get", "install", "-y", "-q", "--no-install-recommends"]
    install += ["-o", "DPkg::Lock::Timeout=300", *packages]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}

    def run(command: Sequence[str]) -> None:
        run_logged(command, log=log, progress=progress, label="apt-get", environment=environment)

    with progress.step(f"Installing {_list_packages(packages)}"):
        try:
            run(install)
        except PreparationError:
            # A fresh machine has no package lists, an old one has outdated lists.
            run(["apt-get", "update", "-q"])
            run(install)


def _list_packages(packages: Sequence[str]) -> str:
    """Name the packages, unless the list is long; the command names them anyway."""
    if len(packages) > 3:
        return f"{len(packages)} packages of the system"
    return " and ".join(filter(None, [", ".join(packages[:-1]), packages[-1]]))
