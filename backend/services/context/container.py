"""Opens a data root: its catalogue, and the services that use it.

By default the catalogue is in the user's own data folder, under a name made of the data root's
path, so that two data roots never share one. A service is imported and made when it is first used:
a command uses few of them.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from backend.base.errors import BackendError
from backend.datastore.access.root_access import DataRootAccess, OpenRoot
from backend.records.base.account import expand_home
from backend.records.base.layout import DataRoot
from backend.records.base.remote_root import RemoteRoot

if TYPE_CHECKING:
    from backend.catalogue.store import Catalogue
    from backend.records.nodes.entry import NodeAddress
    from backend.services.bundles.replay import ReplayService
    from backend.services.bundles.service import BundleService
    from backend.services.jobs.comparison import ComparisonService
    from backend.services.jobs.inspection import InspectionService
    from backend.services.jobs.job_file import TemplateService
    from backend.services.jobs.logs import LogService
    from backend.services.jobs.planner import JobPlanner
    from backend.services.jobs.prediction import PredictionService
    from backend.services.jobs.queries import JobQueries
    from backend.services.jobs.run_reaper import RunReaper
    from backend.services.jobs.service import JobService
    from backend.services.jobs.sessions import SessionService
    from backend.services.jobs.trial_run import TrialRunService
    from backend.services.jobs.usage import UsageService
    from backend.services.library.data_scan import DataScanService
    from backend.services.library.gallery import GalleryService
    from backend.services.library.service import LibraryService
    from backend.services.nodes.launchers import LauncherService
    from backend.services.nodes.provisioning import ProvisioningService
    from backend.services.nodes.registry import Accept, AskPassphrase, NodeRegistry
    from backend.services.nodes.service import NodeService
    from backend.services.notifications.service import NotificationService
    from backend.services.preflight.compute_node import ComputeNodeCheck
    from backend.services.preflight.service import PreflightService
    from backend.services.queue.service import QueueService
    from backend.services.reports.service import ReportService
    from backend.services.studies.service import StudyService
    from backend.services.sweeps.service import SweepService
    from backend.services.tools.event_viewer import EventViewers
    from backend.services.tools.packages import PackageService
    from backend.services.verify.service import VerifyService
    from backend.ssh.interface import Shell

_ANSWER_LIMIT_S = 4.0
"""A folder of a share is opened in milliseconds; only a server that is away takes seconds."""
Service = TypeVar("Service")


class cached_service(Generic[Service]):  # noqa: N801 - a decorator, as functools.cached_property
    """A service that is made at its first use, by one thread."""

    def __init__(self, make: Callable[[Any], Service]) -> None:
        self._make = make

    def __get__(self, services: Services, _: object) -> Service:
        instances, name = vars(services), self._make.__name__
        with services.creation_lock:
            if name not in instances:
                instances[name] = self._make(services)
            service: Service = instances[name]
            return service


class Services:
    """The services of one data root. Any thread may use them; close the container at the end.

    Attributes:
        data_root: The data root, or its local mirror.
        creation_lock: Held while a service is made.
    """

    def __init__(
        self,
        data_root: Path | RemoteRoot,
        catalogue: Path | None,
        accept: Accept | None,
        passphrase: AskPassphrase | None,
        is_trusted_key: Accept,
    ) -> None:
        self._root_key = _root_key(data_root)
        if catalogue is None:
            import platformdirs

            self._catalogue_path = default_catalogue(data_root)
            self._cache = platformdirs.user_cache_path("ringmaster") / self._root_key
            mirror = platformdirs.user_cache_path("ringmaster") / "mirrors" / self._root_key
            # One file for all data roots: the identity of a machine does not depend on them.
            self._profile = platformdirs.user_data_path("ringmaster") / "cluster"
        else:
            self._catalogue_path = path = expand_home(catalogue).absolute()
            self._cache = path.with_name(f"{path.name}.cache")
            mirror = path.with_name(f"{path.name}.mirror")
            self._profile = path.with_name(f"{path.name}.cluster")
        self._is_trusted_key = is_trusted_key
        self.creation_lock = threading.RLock()
        files: DataRootAccess
        if isinstance(data_root, RemoteRoot):
            from backend.datastore.remote.mirror import Mirror
            from backend.records.nodes.entry import NodeAddress

            address = NodeAddress(data_root.host, data_root.port, data_root.user)
            files = Mirror(
                DataRoot(mirror), data_root, lambda: self._connect(address, accept, passphrase)
            )
            self.data_root = OpenRoot(mirror, files)
        else:
            from backend.datastore.remote.staging_access import StagingAccess

            files = StagingAccess(DataRoot(data_root), lambda entry: self._connect(entry.address))
            self.data_root = OpenRoot(data_root, files)

    @property
    def trash(self) -> str:
        """The path of the trash, as users know it."""
        return self.data_root.display_path(self.data_root.trash)

    def make_all(self) -> Services:
        """Make every service, so that a window never waits for its creation; return `self`."""
        for name, member in vars(Services).items():
            if isinstance(member, cached_service):
                getattr(self, name)
        return self

    def close(self) -> None:
        instances = vars(self)
        for resource in (
            instances.get("event_viewers"),
            instances.get("sessions"),
            instances.get("launchers"),
            self.data_root.files,
            instances.get("catalogue"),
        ):
            if resource is not None:
                resource.close()

    def _connect(
        self,
        address: NodeAddress,
        accept: Accept | None = None,
        passphrase: AskPassphrase | None = None,
    ) -> Shell:
        from backend.ssh.persistent_connection import SILENCE_S

        return self.cluster.connect(
            address, accept, passphrase, limit_s=SILENCE_S, silence_s=SILENCE_S
        )

    @cached_service
    def catalogue(self) -> Catalogue:
        from backend.catalogue.store import open_catalogue

        catalogue = open_catalogue(self._catalogue_path)
        if catalogue.is_new:
            from backend.base.progress import Progress
            from backend.datastore.jobs.files import JobFolderReader
            from backend.services.library.rescan import Rescan

            jobs = JobFolderReader(self.data_root)
            Rescan(self.data_root, catalogue, jobs).read_all(Progress())
        return catalogue

    @cached_service
    def cluster(self) -> NodeRegistry:
        from backend.services.nodes.registry import NodeRegistry

        return NodeRegistry(self.data_root, self._profile, is_trusted_key=self._is_trusted_key)

    @cached_service
    def queries(self) -> JobQueries:
        from backend.services.jobs.queries import JobQueries

        return JobQueries(
            self.data_root,
            self.catalogue,
            self._cache,
            lambda folder, run: self.launchers.condition(folder, run),
        )

    @cached_service
    def reaper(self) -> RunReaper:
        from backend.services.jobs.run_reaper import RunReaper

        return RunReaper(self.queries)

    @cached_service
    def launchers(self) -> LauncherService:
        from backend.services.nodes.launchers import LauncherService

        return LauncherService(self.data_root, self.cluster, self.nodes.heads)

    @cached_service
    def library(self) -> LibraryService:
        from backend.services.library.service import LibraryService

        previews = self._cache / "looks"
        return LibraryService(self.data_root, self.catalogue, previews, self.queries.show)

    @cached_service
    def provisioning(self) -> ProvisioningService:
        from backend.node.system.start_supervisor import CODE_ROOT
        from backend.services.nodes.provisioning import ProvisioningService, default_paths

        return ProvisioningService(
            self.data_root,
            default_paths(self._root_key, CODE_ROOT / "installers" / "constraints.txt"),
            open_shell=lambda entry: self.cluster.open_shell(entry.name),
            inspect=lambda entry, shell: self.cluster.node_info(entry, shell),
            host_key=lambda entry: self.cluster.host_key(entry.name),
        )

    @cached_service
    def packages(self) -> PackageService:
        from backend.services.tools.packages import PackageService

        return PackageService(self.cluster, self.provisioning)

    @cached_service
    def nodes(self) -> NodeService:
        from backend.services.nodes.head_node import HeadNodes
        from backend.services.nodes.service import NodeService

        heads = HeadNodes(self.cluster, self.provisioning)
        return NodeService(self.data_root, self.cluster, heads, self._catalogue_path)

    @cached_service
    def preflight(self) -> PreflightService:
        from backend.services.jobs.forecast import JobForecaster
        from backend.services.preflight.context import PreflightLimits
        from backend.services.preflight.service import PreflightService

        forecasts = JobForecaster(self.data_root, self.library, self.catalogue)
        return PreflightService(
            self.data_root,
            self.cluster,
            self.provisioning,
            forecast_bytes=forecasts.needed_bytes,
            needs_torch=lambda config: self.library.script_imports(config.script, "torch"),
            data_notes=self.library.data_notes,
            check_cluster=lambda placement: self.launchers.check(placement),
            limits=PreflightLimits.from_environment(os.environ),
        )

    @cached_service
    def compute_nodes(self) -> ComputeNodeCheck:
        from backend.services.preflight.compute_node import ComputeNodeCheck

        return ComputeNodeCheck(self.data_root, self.launchers.cluster, self.nodes.login_site)

    @cached_service
    def jobs(self) -> JobService:
        from backend.services.jobs.service import JobService

        return JobService(
            self.data_root,
            self.library,
            self.nodes,
            self.preflight,
            self.catalogue,
            self._cache,
            self.queries,
            self.reaper,
            self.launchers,
        )

    @cached_service
    def usage(self) -> UsageService:
        from backend.services.jobs.usage import UsageService

        return UsageService(self.data_root, self.queries)

    @cached_service
    def trial_runs(self) -> TrialRunService:
        from backend.services.jobs.run_starter import RunStarter
        from backend.services.jobs.trial_run import TrialRunService

        starter = RunStarter(self.data_root, self.library, self.nodes, self.launchers)
        return TrialRunService(self.data_root, self.cluster, starter)

    @cached_service
    def planner(self) -> JobPlanner:
        from backend.services.jobs.planner import JobPlanner
        from backend.services.jobs.validation import JobValidator

        ids_of = self.queries.ids_of
        validator = JobValidator(self.data_root, self.library, self.nodes, ids_of)
        return JobPlanner(self.data_root, self.jobs, validator, self.trial_runs)

    @cached_service
    def logs(self) -> LogService:
        from backend.services.jobs.logs import LogService

        return LogService(self.data_root)

    @cached_service
    def queue(self) -> QueueService:
        from backend.services.queue.service import QueueService

        needed_bytes = self.preflight.needed_bytes
        return QueueService(self.data_root, self.jobs, self.nodes, self.launchers, needed_bytes)

    @cached_service
    def sweeps(self) -> SweepService:
        from backend.services.sweeps.service import SweepService

        return SweepService(self.data_root, self.jobs, self.queue)

    @cached_service
    def studies(self) -> StudyService:
        from backend.services.studies.service import StudyService

        return StudyService(self.data_root, self.library, self.queries, self.sweeps, self.gallery)

    @cached_service
    def gallery(self) -> GalleryService:
        from backend.services.library.gallery import GalleryService

        return GalleryService(self.library)

    @cached_service
    def scans(self) -> DataScanService:
        from backend.services.library.data_scan import DataScanService

        return DataScanService(self.library, self._cache / "looks")

    @cached_service
    def event_viewers(self) -> EventViewers:
        from backend.services.tools.event_viewer import EventViewers

        return EventViewers(self.data_root)

    @cached_service
    def sessions(self) -> SessionService:
        from backend.services.jobs.sessions import SessionService

        return SessionService(self.library, self.nodes, self.queries, self.cluster)

    @cached_service
    def notifications(self) -> NotificationService:
        from backend.services.notifications.service import NotificationService

        cluster = self.cluster
        return NotificationService(self.data_root, cluster.list, cluster.open_shell)

    @cached_service
    def comparison(self) -> ComparisonService:
        from backend.services.jobs.comparison import ComparisonService

        return ComparisonService(self.queries)

    @cached_service
    def predictions(self) -> PredictionService:
        from backend.services.jobs.prediction import PredictionService

        cache = self._cache / "predictions"
        return PredictionService(self.queries, self.library, cache)

    @cached_service
    def bundles(self) -> BundleService:
        from backend.services.bundles.service import BundleService

        return BundleService(self.data_root, self.library, self.jobs, self.catalogue)

    @cached_service
    def replays(self) -> ReplayService:
        from backend.services.bundles.replay import ReplayService

        return ReplayService(self.data_root, self.library, self.nodes, self.jobs)

    @cached_service
    def verification(self) -> VerifyService:
        from backend.services.verify.service import VerifyService

        return VerifyService(self)

    @cached_service
    def reports(self) -> ReportService:
        from backend.services.reports.service import ReportService

        return ReportService(self)

    @cached_service
    def templates(self) -> TemplateService:
        from backend.services.jobs.job_file import TemplateService

        return TemplateService(self.data_root)

    @cached_service
    def inspection(self) -> InspectionService:
        from backend.services.jobs.inspection import InspectionService

        return InspectionService(self.library, self.queries, self._cache / "looks")


def default_catalogue(data_root: Path | RemoteRoot) -> Path:
    """Return the default path of the catalogue of a data root."""
    import platformdirs

    return (
        platformdirs.user_data_path("ringmaster") / "catalogues" / f"{_root_key(data_root)}.sqlite"
    )


def open_services(
    data_root: Path | RemoteRoot,
    catalogue: Path | None = None,
    *,
    accept: Accept | None = None,
    passphrase: AskPassphrase | None = None,
    is_trusted_key: Accept = lambda key: False,
) -> Services:
    """Open a data root; create its folder if only that is missing.

    ``accept`` and ``passphrase`` ask the user on the way to a data root that is reached over SSH;
    for ``is_trusted_key`` see `NodeRegistry`. A catalogue that cannot be used raises a
    `CatalogueError` at its first use.

    Raises:
        BackendError: The data root is missing or cannot be reached (`HostKeyUnknown`,
            `PassphraseNeeded`). Nothing was changed.
    """
    if not isinstance(data_root, RemoteRoot):
        data_root = _require_data_root(data_root)
    services = Services(data_root, catalogue, accept, passphrase, is_trusted_key)
    services.data_root.files.open()
    return services


def set_catalogue_aside(data_root: Path | RemoteRoot, catalogue: Path | None = None) -> Path:
    """Rename a damaged catalogue, so that `open_services` builds a new one from the files.

    Raises:
        BackendError: The catalogue cannot be renamed; nothing was changed.
    """
    from backend.catalogue.store import set_aside

    root = expand_home(data_root).absolute() if isinstance(data_root, Path) else data_root
    path = default_catalogue(root) if catalogue is None else expand_home(catalogue).absolute()
    return set_aside(path)


def _root_key(data_root: Path | RemoteRoot) -> str:
    root = data_root.resolve() if isinstance(data_root, Path) else data_root
    return hashlib.sha256(str(root).encode("utf-8", "replace")).hexdigest()[:16]


def _require_data_root(data_root: Path) -> Path:
    from backend.node.system.timeout_call import TimeoutCall

    path = expand_home(data_root).absolute()

    def list_folder() -> None:
        path.mkdir(exist_ok=True)
        # A share remembers that a folder exists; opening the folder asks the server.
        os.listdir(path)

    try:
        TimeoutCall(_ANSWER_LIMIT_S).call(list_folder)
    except TimeoutError as error:
        raise BackendError(
            f"The data root {path} does not answer.",
            "Check that its file server runs and that this computer reaches it, then try again.",
        ) from error
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
