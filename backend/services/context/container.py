"""Opens a data root: its catalogue, and the services that use it.

By default the catalogue is in the user's own data folder, under a name made of the data root's
path, so that two data roots never share one.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from backend.base.errors import BackendError
from backend.catalogue.store import Catalogue, open_catalogue, set_aside
from backend.datastore.access.root_access import DataRootAccess
from backend.datastore.remote.staging_access import StagingAccess
from backend.node.system.start_supervisor import CODE_ROOT
from backend.records.base.account import expanded
from backend.records.base.layout import DataRoot
from backend.records.base.remote_root import RemoteRoot
from backend.records.nodes.entry import NodeAddress, NodeEntry
from backend.services.bundles.replay import ReplayService
from backend.services.bundles.service import BundleService
from backend.services.jobs.comparison import ComparisonService
from backend.services.jobs.forecast import JobForecasts
from backend.services.jobs.inspection import InspectionService
from backend.services.jobs.logs import LogService
from backend.services.jobs.prediction import PredictionService
from backend.services.jobs.run_starter import RunStarter
from backend.services.jobs.service import JobService
from backend.services.jobs.templates import TemplateService
from backend.services.jobs.trial_run import CanaryService
from backend.services.library.data_scan import DataScanService
from backend.services.library.service import LibraryService
from backend.services.nodes.head_node import HeadNodeLauncher
from backend.services.nodes.provisioning import SetUpService, default_places
from backend.services.nodes.registry import Accept, AskPassphrase, ClusterService
from backend.services.nodes.service import NodeService
from backend.services.notifications.service import NoticeService
from backend.services.preflight.limits import PreflightLimits
from backend.services.preflight.service import PreflightService
from backend.services.queue.service import QueueService
from backend.services.studies.service import StudyService
from backend.services.sweeps.service import SweepService
from backend.services.tools.event_viewer import EventViewers
from backend.services.tools.packages import PackageService
from backend.ssh import persistent_connection
from backend.ssh.interface import Shell


@dataclass(frozen=True)
class Services:
    """The services of one data root. Close it at the end."""

    library: LibraryService
    scans: DataScanService
    event_viewers: EventViewers
    jobs: JobService
    nodes: NodeService
    cluster: ClusterService
    set_up: SetUpService
    packages: PackageService
    preflight: PreflightService
    canary: CanaryService
    logs: LogService
    queue: QueueService
    notices: NoticeService
    comparison: ComparisonService
    predictions: PredictionService
    bundles: BundleService
    replays: ReplayService
    sweeps: SweepService
    studies: StudyService
    templates: TemplateService
    inspection: InspectionService
    data_root: DataRoot
    share: DataRootAccess
    catalogue: Catalogue

    def close(self) -> None:
        self.event_viewers.close()
        self.share.close()
        self.catalogue.close()


def default_data_root() -> Path:
    return Path.home() / "ringmaster"


def default_catalogue(data_root: Path | RemoteRoot) -> Path:
    """Return the default path of the catalogue of a data root."""
    import platformdirs

    return platformdirs.user_data_path("ringmaster") / "catalogues" / f"{_key(data_root)}.sqlite"


def open_services(
    data_root: Path | RemoteRoot,
    catalogue: Path | None = None,
    *,
    accept: Accept | None = None,
    passphrase: AskPassphrase | None = None,
    given: Accept = lambda key: False,
) -> Services:
    """Open a data root; create its folder if only that is missing.

    ``accept`` and ``passphrase`` ask the user on the way to one that is reached over SSH; for
    ``given`` see `ClusterService`.

    Raises:
        BackendError: The data root is missing or cannot be reached (`HostKeyUnknown`,
            `PassphraseNeeded`), or the catalogue cannot be used (then a `CatalogueError`).
            Nothing was changed.
    """
    if not isinstance(data_root, RemoteRoot):
        data_root = _checked(data_root)
    key = _key(data_root)
    if catalogue is None:
        import platformdirs

        place = default_catalogue(data_root)
        cache = platformdirs.user_cache_path("ringmaster") / key
        mirror = platformdirs.user_cache_path("ringmaster") / "mirrors" / key
        # One file for all data roots: the identity of a machine does not depend on them.
        profile = platformdirs.user_data_path("ringmaster") / "cluster"
    else:
        place = expanded(catalogue).absolute()
        cache = place.with_name(f"{place.name}.cache")
        mirror = place.with_name(f"{place.name}.mirror")
        profile = place.with_name(f"{place.name}.cluster")
    if isinstance(data_root, RemoteRoot):
        root = DataRoot(mirror, data_root.label)
        cluster = ClusterService(root, profile, given=given)
        cluster.share = _reached(root, data_root, cluster, accept, passphrase)
    else:
        root = DataRoot(data_root)
        cluster = ClusterService(root, profile, given=given)
        cluster.share = _carrying(root, cluster)
    share = cluster.share
    opened = open_catalogue(place)
    library = LibraryService(root, opened, cache / "looks", share=share)
    set_up = SetUpService(
        root,
        default_places(key, CODE_ROOT / "installers" / "constraints.txt"),
        open_shell=lambda entry: cluster.open_shell(entry.name),
        look=lambda entry, shell: cluster.facts(entry, shell),
        host_key=lambda entry: cluster.host_key(entry.name),
        share=share,
    )
    nodes = NodeService(root, cluster, HeadNodeLauncher(cluster, set_up), place, share=share)
    first_bytes = JobForecasts(root, library, opened, share).needed_bytes
    limits = PreflightLimits.of(os.environ)
    preflight = PreflightService(
        root, cluster, set_up, share=share, first_bytes=first_bytes, limits=limits
    )
    jobs = JobService(root, library, nodes, preflight, opened, cache, share)
    library.see_job = jobs.queries.show
    canary = CanaryService(root, cluster, RunStarter(root, library, nodes, share), share)
    logs = LogService(root, share)
    queue = QueueService(root, jobs, nodes, preflight.needed_bytes, share)
    sweeps = SweepService(jobs, queue)
    services = Services(
        library=library,
        scans=DataScanService(library, cache / "looks"),
        event_viewers=EventViewers(root, share),
        jobs=jobs,
        nodes=nodes,
        cluster=cluster,
        set_up=set_up,
        packages=PackageService(cluster, set_up),
        preflight=preflight,
        canary=canary,
        logs=logs,
        queue=queue,
        notices=NoticeService(root, share, cluster.list, cluster.open_shell),
        comparison=ComparisonService(jobs.queries),
        predictions=PredictionService(jobs.queries, library, cache / "predictions", share),
        bundles=BundleService(root, library, jobs, opened, share),
        replays=ReplayService(root, library, nodes, jobs, share),
        sweeps=sweeps,
        studies=StudyService(root, library, jobs.queries, sweeps, share),
        templates=TemplateService(root, share),
        inspection=InspectionService(library, jobs.queries, share, cache / "looks"),
        data_root=root,
        share=share,
        catalogue=opened,
    )
    if opened.is_new:
        library.rescan()
    return services


def set_catalogue_aside(data_root: Path | RemoteRoot, catalogue: Path | None = None) -> Path:
    """Rename a damaged catalogue, so that `open_services` builds a new one from the files.

    Raises:
        BackendError: It cannot be renamed; nothing was changed.
    """
    root = expanded(data_root).absolute() if isinstance(data_root, Path) else data_root
    place = default_catalogue(root) if catalogue is None else expanded(catalogue).absolute()
    return set_aside(place)


def _key(data_root: Path | RemoteRoot) -> str:
    place = data_root.resolve() if isinstance(data_root, Path) else data_root
    return hashlib.sha256(str(place).encode("utf-8", "replace")).hexdigest()[:16]


def _reached(
    root: DataRoot,
    far: RemoteRoot,
    cluster: ClusterService,
    accept: Accept | None,
    passphrase: AskPassphrase | None,
) -> DataRootAccess:
    from backend.datastore.remote.mirror import Mirror

    address = NodeAddress(far.host, far.port, far.user)

    def connect() -> Shell:
        return cluster.connect(
            address,
            accept,
            passphrase,
            limit_s=persistent_connection.SILENCE_S,
            silence_s=persistent_connection.SILENCE_S,
        )

    mirror = Mirror(root, far, connect)
    mirror.open()
    return mirror


def _carrying(root: DataRoot, cluster: ClusterService) -> DataRootAccess:
    def connect(entry: NodeEntry) -> Shell:
        return cluster.connect(
            entry.address,
            limit_s=persistent_connection.SILENCE_S,
            silence_s=persistent_connection.SILENCE_S,
        )

    return StagingAccess(root, connect)


def _checked(data_root: Path) -> Path:
    path = expanded(data_root).absolute()
    try:
        path.mkdir(exist_ok=True)
    except FileExistsError as error:
        raise BackendError(
            f"The data root {path} is a file.", "Choose a folder: --data-root DIR."
        ) from error
    except FileNotFoundError as error:
        raise BackendError(
            f"The data root {path} does not exist, nor does its parent folder.",
            "Mount the share, or choose another folder: --data-root DIR.",
        ) from error
    except OSError as error:
        raise BackendError(
            f"The data root {path} cannot be opened: {error.strerror or error}.",
            "Check that it is mounted and that you may read it, or choose another folder: "
            "--data-root DIR.",
        ) from error
    return path
