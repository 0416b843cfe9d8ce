"""Opens everything that belongs to one data root: the catalogue and the services over it.

Without a place given, the catalogue lies in the user's own data folder under a name made of the
data root's path, so that two data roots never share one.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from backend.catalogue.store import Catalogue, open_catalogue, set_aside
from backend.errors import BackendError
from backend.node.start import CODE_ROOT
from backend.records.layout import DataRoot
from backend.services.canary import CanaryService
from backend.services.cluster import ClusterService
from backend.services.heads import Heads
from backend.services.jobs import JobService
from backend.services.library import LibraryService
from backend.services.nodes import NodeService
from backend.services.preflight import PreflightService
from backend.services.run_start import RunStarter
from backend.services.set_up import SetUpService, default_places


@dataclass(frozen=True)
class Services:
    """What a person can do in one data root. Close it in the end."""

    library: LibraryService
    jobs: JobService
    nodes: NodeService
    cluster: ClusterService
    set_up: SetUpService
    preflight: PreflightService
    canary: CanaryService
    data_root: DataRoot
    catalogue: Catalogue

    def close(self) -> None:
        self.catalogue.close()


def default_data_root() -> Path:
    return Path.home() / "ringmaster"


def default_catalogue(data_root: Path) -> Path:
    """Where the catalogue of a data root lies when nobody says otherwise."""
    import platformdirs

    return platformdirs.user_data_path("ringmaster") / "catalogues" / f"{_key(data_root)}.sqlite"


def open_services(data_root: Path, catalogue: Path | None = None) -> Services:
    """Open a data root; the folder is made when only it is missing.

    Raises:
        BackendError: The data root is not there, or the catalogue cannot be used (then a
            `CatalogueError`). Nothing was changed.
    """
    root = DataRoot(_checked(data_root))
    if catalogue is None:
        import platformdirs

        place = default_catalogue(root.path)
        cache = platformdirs.user_cache_path("ringmaster") / _key(root.path)
        # One for all data roots: who a machine is does not depend on what is trained there.
        profile = platformdirs.user_data_path("ringmaster") / "cluster"
    else:
        place = catalogue.expanduser().absolute()
        cache = place.with_name(f"{place.name}.cache")
        profile = place.with_name(f"{place.name}.cluster")
    opened = open_catalogue(place)
    library = LibraryService(root, opened, cache / "looks")
    cluster = ClusterService(root, profile)
    set_up = SetUpService(
        root,
        default_places(_key(root.path), CODE_ROOT / "installers" / "constraints.txt"),
        open_shell=lambda entry: cluster.open_shell(entry.name),
        look=lambda entry, shell: cluster.facts(entry, shell),
        host_key=cluster.host_key,
    )
    nodes = NodeService(root, cluster, Heads(cluster, set_up), place)
    jobs = JobService(root, library, nodes, opened, cache)
    library.see_job = jobs.show
    preflight = PreflightService(root, cluster, set_up)
    canary = CanaryService(root, cluster, RunStarter(root, library, nodes))
    services = Services(library, jobs, nodes, cluster, set_up, preflight, canary, root, opened)
    if opened.is_new:
        library.rescan()
    return services


def set_catalogue_aside(data_root: Path, catalogue: Path | None = None) -> Path:
    """Rename a damaged catalogue, so that `open_services` builds a new one from the files.

    Raises:
        BackendError: It cannot be renamed; nothing was changed.
    """
    root = data_root.expanduser().absolute()
    place = default_catalogue(root) if catalogue is None else catalogue.expanduser().absolute()
    return set_aside(place)


def _key(data_root: Path) -> str:
    return hashlib.sha256(str(data_root.resolve()).encode("utf-8", "replace")).hexdigest()[:16]


def _checked(data_root: Path) -> Path:
    path = data_root.expanduser().absolute()
    try:
        path.mkdir(exist_ok=True)
    except FileExistsError as error:
        raise BackendError(
            f"The data root {path} is a file.", "Choose a folder: --data-root DIR."
        ) from error
    except FileNotFoundError as error:
        raise BackendError(
            f"The data root {path} is not there, and neither is the folder above it.",
            "Mount the share, or choose another folder: --data-root DIR.",
        ) from error
    except OSError as error:
        raise BackendError(
            f"The data root {path} cannot be opened: {error.strerror or error}.",
            "Check that it is mounted and that you may read it, or choose another folder: "
            "--data-root DIR.",
        ) from error
    return path
