"""Debian's own Open MPI for nodes of the test cluster, fetched once, kept beside their image.

The nodes reach no mirror, and mpirun in everybody's PATH would be another machine's: the packages
lie here, and a test gives them to a node as its administrator would, with dpkg.  This machine
itself never has them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from installers.console import Progress, run_logged
from installers.files import locked, scratch_folder
from tests.cluster import image
from tests.cluster.node import Node

PACKAGE = "openmpi-bin"
MPIRUN = "/usr/bin/mpirun"
_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
_LIMIT_S = 300
_INSTALL_LIMIT_S = 120.0


def provide(progress: Progress) -> Path:
    """A folder of all packages that Open MPI needs beside those of the image.

    Raises:
        PreparationError: Debian's packages cannot be had, or the disk is full.
    """
    root = image.provide(progress)
    folder = root.with_name(f"{root.name}-{PACKAGE}")
    with locked(folder.with_name(f"{folder.name}.lock"), "Debian's Open MPI", progress) as lock:
        if not folder.exists():
            with (
                progress.step("Fetching Debian's Open MPI for the test cluster, once"),
                scratch_folder(folder.with_name(f"{folder.name}.tmp")) as temporary,
            ):
                _fetch(root, temporary, folder.with_name(f"{folder.name}.log"), progress, lock)
                (temporary / "archives").rename(folder)
    return folder


def _fetch(root: Path, temporary: Path, log: Path, progress: Progress, lock: int) -> None:
    """Fetch the packages that apt-get would install over those of the image."""
    for folder in ("lists/partial", "archives/partial"):
        (temporary / folder).mkdir(parents=True)
    settings = {
        "Dir::State::status": root / "var/lib/dpkg/status",
        "Dir::State::lists": temporary / "lists",
        "Dir::Etc::sourcelist": root / "etc/apt/sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::Etc::trusted": _KEYRING,
        "Dir::Etc::trustedparts": "/dev/null",
        "Dir::Cache": temporary,
        "Dir::Cache::archives": temporary / "archives",
        "APT::Sandbox::User": "root",
    }
    options = [part for name, value in settings.items() for part in ("-o", f"{name}={value}")]
    fetch = ["-y", "--no-install-recommends", "--download-only", "install", PACKAGE]
    for subcommand in (["update"], fetch):
        run_logged(
            ["timeout", str(_LIMIT_S), "apt-get", "-q", *options, *subcommand],
            log=log,
            progress=progress,
            label="Fetching Debian's Open MPI",
            environment={**os.environ, "LC_ALL": "C.UTF-8"},
            hold=(lock,),
        )


def install(node: Node, packages: Path) -> None:
    """Install them on a node, as root."""
    with node.lent_folder(packages) as folder:
        script = f"DPKG_FORCE=unsafe-io dpkg --install {folder}/*.deb"
        node.run_as_root("sh", "-c", script, limit_s=_INSTALL_LIMIT_S)


def purge(node: Node, packages: Path) -> None:
    """Take them from it again."""
    node.run_as_root("dpkg", "--purge", *names(packages), limit_s=_INSTALL_LIMIT_S)


def names(packages: Path) -> Sequence[str]:
    return sorted(file.name.partition("_")[0] for file in packages.glob("*.deb"))
