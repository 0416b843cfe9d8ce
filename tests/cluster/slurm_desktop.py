"""The desktop of a user who reaches the tests' Slurm cluster by the name of its login node."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from backend.records.base.remote_root import RemoteRoot
from backend.records.nodes.entry import HostKey
from backend.services.context.container import Services, open_services
from tests.cluster.slurm import SHARE, USER, SlurmCluster

HOST = "hpc"
ROOT = RemoteRoot(HOST, f"{SHARE}/ring")


@contextmanager
def slurm_home(slurm: SlurmCluster, home: Path) -> Iterator[Path]:
    """Let the home of this process be ``home``, whose SSH settings name the login node."""
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh/config").write_text(
        f"Host {HOST}\n  HostName {slurm.login_address}\n  User {USER}\n"
        f"  IdentityFile {slurm.identity}\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        patch.delenv("SLURM_CONF", raising=False)
        yield home


def open_desktop(slurm: SlurmCluster, home: Path) -> Services:
    """Open the data root on the login node, whose key its administrator has told the user."""

    def is_known(key: HostKey) -> bool:
        return key.fingerprint == slurm.host_fingerprint

    return open_services(ROOT, home / "catalogue.sqlite", accept=is_known)
