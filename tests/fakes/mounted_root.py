"""A data root that this computer mounts, without staged roots."""

from __future__ import annotations

from pathlib import Path

from backend.datastore.access.root_access import DataRootAccess, OpenRoot

MOUNTED = DataRootAccess()


def mounted(path: Path) -> OpenRoot:
    return OpenRoot(path, MOUNTED)
