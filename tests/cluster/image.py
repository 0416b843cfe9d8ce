"""The file system that every node of the test cluster starts from: a Debian 12, made once.

It lies in the cache beside the environments, under a name that holds the recipe: whoever changes
this file gets a new one.  It is made under another name and renamed when it is whole.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import platformdirs

from installers.console import Argument, Progress, run_logged
from installers.files import locked, scratch_folder

SUITE = "bookworm"
USER = "lab"
USER_ID = 1000
VENV_PACKAGES = ("python3-venv", "python3.11-venv", "python3-pip-whl", "python3-setuptools-whl")
"""What a bare node lacks: all that Debian's python3 needs to make an environment by itself."""

_PACKAGES = ("openssh-server", "python3", "python3-venv", "iproute2", "procps")
_MAKING_LIMIT_S = 900
_CHANGE_LIMIT_S = 60


def recipe() -> str:
    """A short name of how the image is made: changes when this file does."""
    return hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:8]


def provide(progress: Progress, images: Path | None = None) -> Path:
    """The root folder of the image, made now if there is none; nobody may write to it.

    Raises:
        PreparationError: Debian's packages cannot be had, or the disk is full.
    """
    images = images or platformdirs.user_cache_path("ringmaster") / "images"
    images.mkdir(parents=True, exist_ok=True)
    image = images / f"debian-{SUITE}-{recipe()}"
    with locked(images / f"{image.name}.lock", "the image of the test cluster", progress) as held:
        if not image.exists():
            with (
                progress.step("Making the Debian image of the test cluster, once"),
                scratch_folder(images / f"{image.name}.tmp") as temporary,
            ):
                make(temporary / "root", images / f"{image.name}.log", progress, held)
                (temporary / "root").rename(image)
    return image


def make(root: Path, log: Path, progress: Progress, lock: int) -> None:
    """Fill ``root``; what the programs say goes to ``log``."""

    def run(command: Sequence[Argument], limit_s: int) -> None:
        run_logged(
            # What debootstrap mounts goes with its mount namespace, even when it is killed.
            ["timeout", "--kill-after=5", str(limit_s), "unshare", "--mount", *command],
            log=log,
            progress=progress,
            label="Making the image of the test cluster",
            environment={**os.environ, "DPKG_FORCE": "unsafe-io", "LC_ALL": "C.UTF-8"},
            hold=(lock,),
        )

    include = f"--include={','.join(_PACKAGES)}"
    bootstrap: list[Argument] = [
        "debootstrap",
        "--variant=minbase",
        include,
        SUITE,
        root,
        *mirror(),
    ]
    run(bootstrap, _MAKING_LIMIT_S)
    add_user = ["useradd", "--create-home", "--uid", str(USER_ID), "--shell", "/bin/bash", USER]
    run(["chroot", root, *add_user], _CHANGE_LIMIT_S)
    for pattern in ("etc/ssh/ssh_host_*", "var/cache/apt/archives/*.deb", "etc/resolv.conf"):
        for file in root.glob(pattern):
            file.unlink()
    shutil.rmtree(root / "var/lib/apt/lists")
    (root / "etc/machine-id").write_text("")


def mirror() -> list[str]:
    """From where this machine takes the packages of the same Debian; [] leaves the choice open."""
    with contextlib.suppress(FileNotFoundError):
        told = subprocess.run(
            ["apt-get", "--print-uris", "update"],
            capture_output=True,
            text=True,
            timeout=_CHANGE_LIMIT_S,
            check=False,
        )
        if found := re.search(rf"'(https?://\S+)/dists/{SUITE}/InRelease'", told.stdout):
            return [found[1]]
    return []
