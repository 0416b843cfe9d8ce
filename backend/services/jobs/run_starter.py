"""Start a run: from a job's folder to a supervisor that no longer needs this desktop.

Everything that can be refused comes before the claim (`backend.node.run.run_start`), and little
comes after it: if a desktop dies in between, the run never begins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from backend.base.errors import BackendError
from backend.base.log import suppress
from backend.base.progress import Progress
from backend.datastore.access.root_access import OpenJob, OpenRoot
from backend.datastore.jobs.files import JobFile
from backend.datastore.library.library_files import VersionFolder
from backend.datastore.queue import files as queue_files
from backend.launch.launcher import Launcher
from backend.launch.network import common_subnet
from backend.launch.placement import (
    NodePaths,
    allocation_launch,
    common_paths,
    require_capacity,
    require_same_access,
)
from backend.node.run import launch_command, run_start
from backend.node.system import wording
from backend.provisioning.script_wheels import environment_name
from backend.records.base import content
from backend.records.base.layout import SIDECAR_SUFFIX
from backend.records.base.program_name import COMMAND
from backend.records.jobs.config import JobConfig
from backend.records.jobs.launch import (
    RANK_MODULE,
    SCRIPT_MODULE,
    Launch,
    RankLauncher,
    RankPlan,
    rank_plans,
)
from backend.records.jobs.placement import THIS_COMPUTER, ClusterPlacement
from backend.records.jobs.schedulers import scheduler_of
from backend.records.jobs.script import REQUIREMENTS
from backend.records.library.item import KINDS, Kind
from backend.records.sweeps.spec import sweep_name, sweep_of
from backend.services.tools.training_python import next_run_config, training_error
from backend.ssh.interface import Unreachable

if TYPE_CHECKING:
    from backend.services.library.service import LibraryService
    from backend.services.nodes.launchers import LauncherService
    from backend.services.nodes.service import NodeService


@dataclass(frozen=True)
class PreparedRun:
    """A run that only has to be claimed and started.

    Its job has the strategy that is possible now, see `next_run_config`.
    """

    launch: Launch
    staged_nodes: tuple[str, ...] = ()
    """Nodes that do not see the data root, so that files must be copied to them."""


class RunStarter:
    """Plans, prepares and starts runs."""

    def __init__(
        self,
        root: OpenRoot,
        library: LibraryService,
        nodes: NodeService,
        launchers: LauncherService,
    ) -> None:
        self._root = root
        self._library = library
        self._nodes = nodes
        self._launchers = launchers

    def start(
        self,
        folder: OpenJob,
        file: JobFile,
        run: int,
        *,
        resume_from: str = "",
        start_from: str = "",
        steps_limit: int = 0,
        progress: Progress | None = None,
    ) -> bool:
        """Start run ``run``; return False if another desktop, or a second click, was first.

        ``run`` is the number after the last ended run of which the caller knows: a new count could
        start a run beside the run of another desktop. A run that does not resume begins with empty
        folders: the files of earlier runs are moved.

        Raises:
            BackendError: The job cannot run with its settings, or its supervisor did not start.
            Cancelled: By ``progress``, before the run was claimed.
            OSError: The job's folder cannot be written.
        """
        progress = progress or Progress()
        prepared_run = self.prepare(
            file, run, resume_from=resume_from, start_from=start_from, progress=progress
        )
        launch = replace(prepared_run.launch, steps_limit=steps_limit)
        staged_nodes = prepared_run.staged_nodes
        access = self._root.files
        if staged_nodes:
            weights = [Path(p) for p in (resume_from, start_from) if p]
            sidecars = [path.with_suffix(SIDECAR_SUFFIX) for path in weights]
            files = [file for path in weights for _, file in content.files_of(path)]
            required_files = (*files, *(path for path in sidecars if path.exists()))
            access.provide(
                staged_nodes, folder, self._version_paths(file), required_files, progress
            )
        if launch.config.on_failure.continues:
            self._prepare_other_heads(launch.ranks)
        launcher = self._launchers.launcher(file.config.allocation)
        with launcher.connect(launch):
            if not run_start.claim(folder, run, access):
                return False
            try:
                run_start.write(folder, launch, access)
            except OSError:
                run_start.give_back(folder, launch, access)
                raise
            if staged_nodes:
                access.hand_over(staged_nodes, folder, run, Progress())
            self._submit(launcher, folder, launch, sweep_name(sweep_of(file.tags)))
            queue_files.leave(self._root, folder)
        return True

    def end(self, folder: OpenJob, placement: ClusterPlacement) -> None:
        """Take the newest run from its scheduler, whether it waits or not."""
        self._launchers.launcher(placement).end(folder)

    def _submit(self, launcher: Launcher, folder: OpenJob, launch: Launch, sweep: str) -> None:
        """Hand a claimed run over; one that a scheduler refuses is given back."""
        try:
            launcher.submit(folder, launch, sweep)
        except Unreachable:  # The scheduler may have the job: only its own answer is certain.
            raise
        except BackendError:
            if launch.launcher.is_allocated:
                run_start.give_back(folder, launch, self._root.files)
            raise

    def _prepare_other_heads(self, ranks: Sequence[RankPlan]) -> None:
        """Enable every node to lead the run after a loss of the head."""
        for plan in {plan.node: plan for plan in ranks if plan.node != ranks[0].node}.values():
            with suppress(BackendError):
                self._nodes.heads.prepare((plan, *ranks))

    def _version_paths(self, file: JobFile) -> tuple[Path, ...]:
        paths = (
            VersionFolder(self._root, KINDS[key], pin.name, pin.version).path
            for key, pin in file.pins.items()
        )
        return tuple(dict.fromkeys(paths))

    def prepare(
        self,
        file: JobFile,
        run: int,
        *,
        resume_from: str = "",
        start_from: str = "",
        progress: Progress | None = None,
    ) -> PreparedRun:
        """Plan a run before its number is claimed.

        Missing environments of a script are made.

        Raises:
            BackendError: The job cannot run with its settings.
            Cancelled: By ``progress``.
        """
        for key, pin in file.pins.items():
            self._library.verify(KINDS[key], pin)
        prepared_run = self.plan(file.config, file.id, run)
        launch = prepared_run.launch
        data_root = str(PurePosixPath(launch.job_folder).parents[1])
        folders = {
            key: self._path_on_nodes(self._library.content(KINDS[key], pin.reference), data_root)
            for key, pin in file.pins.items()
        }
        launch = replace(
            launch,
            model_source=folders.get("model", ""),
            loader_source=folders.get("loader", ""),
            dataset_files=folders.get("dataset", ""),
            script_source=folders.get("script", ""),
            validation_loader_source=folders.get("validation_loader", ""),
            validation_dataset_files=folders.get("validation_dataset", ""),
            resume_from=self._path_on_nodes(Path(resume_from), data_root) if resume_from else "",
            start_from=self._path_on_nodes(Path(start_from), data_root) if start_from else "",
            hashes={key: pin.sha256 for key, pin in file.pins.items()},
        )
        python = self._script_python(file, launch, progress or Progress())
        return replace(prepared_run, launch=replace(launch, script_python=python))

    def _script_python(self, file: JobFile, launch: Launch, progress: Progress) -> str:
        if file.config.python != REQUIREMENTS:
            return file.config.python
        pin = file.pins["script"]
        source = self._library.open_content(Kind.SCRIPT, pin.reference, progress)
        name = environment_name(launch.python, source, pin.sha256)
        cluster = file.config.allocation
        nodes = [cluster.cluster] if cluster is not None else [rank.node for rank in launch.ranks]
        return self._nodes.heads.provisioning.provide_script(
            tuple(dict.fromkeys(nodes)), launch.python, name, source, progress
        )

    def plan(self, config: JobConfig, job_id: str, run: int) -> PreparedRun:
        """Plan the command of the supervisor and the node of each rank, without the job's files.

        Raises:
            BackendError: The chosen nodes cannot run the job, or cannot train together.
        """
        config = next_run_config(config)
        if config.allocation is not None:
            return PreparedRun(self._plan_allocation(config, config.allocation, job_id, run))
        node_names = {placement.node for placement in config.placement}
        if THIS_COMPUTER in node_names and (error := training_error()) is not None:
            raise error
        capacities = self._nodes.capacities()
        used_capacities = {c.node: c for c in capacities if c.node in node_names}
        require_same_access(used_capacities.values())
        is_multi_node = len(used_capacities) > 1
        networks, hosts = "", {c.node: c.host for c in used_capacities.values()}
        if is_multi_node:
            networks, hosts = common_subnet(
                {node: c.addresses for node, c in used_capacities.items()}
            )
        require_capacity(config, capacities)
        ranks = rank_plans(config, hosts)
        site = common_paths(tuple(used_capacities.values()))
        staged_nodes: tuple[str, ...] = ()
        if used_capacities[ranks[0].node].is_staged:
            staged_nodes = tuple(dict.fromkeys(rank.node for rank in ranks))
        if staged_nodes and config.on_failure.continues:
            raise BackendError(
                f"{staged_nodes[0]} does not see the data root, so no node can continue the job "
                "after a failure.",
                "Set “Retries” to 0 and turn off “Drop a lost node”, or mount the data "
                f"root on {staged_nodes[0]} and add it again.",
            )
        rank_counts = Counter(rank.node for rank in ranks)
        is_crowded = any(n > used_capacities[node].cores for node, n in rank_counts.items())
        launch = replace(
            self._launch(config, site, job_id, run),
            ranks=ranks,
            launcher=RankLauncher(site.mpirun, site.mpi_major, networks, is_crowded=is_crowded),
            ssh_config=site.ssh_config if is_multi_node else "",
            is_staged=is_multi_node and bool(staged_nodes),
        )
        launch_command.command(launch)  # refuses what mpirun must not get
        return PreparedRun(launch, staged_nodes)

    def _launch(self, config: JobConfig, site: NodePaths, job_id: str, run: int) -> Launch:
        """Return a launch without its ranks and without the job's files."""
        # A single process needs no mpirun, so it runs on nodes without one.
        if config.needs_mpirun and not site.mpirun:
            allocation = config.allocation
            node = allocation.cluster if allocation is not None else config.placement[0].node
            raise BackendError(
                f"mpirun was not found on {wording.node_label(node)}.",
                f"Run {COMMAND} doctor to see how to install it; a job of one process with the "
                "strategy “alone” needs none.",
            )
        return Launch(
            job_id=job_id,
            run=run,
            config=config,
            ranks=(),
            model_source="",
            loader_source="",
            dataset_files="",
            python=site.python,
            job_folder=self._path_on_nodes(self._root.job(job_id).path, site.data_root),
            code_root=site.code_root,
            launcher=RankLauncher(site.mpirun, site.mpi_major),
            rank_module=SCRIPT_MODULE if config.script else RANK_MODULE,
        )

    def _plan_allocation(
        self, config: JobConfig, placement: ClusterPlacement, job_id: str, run: int
    ) -> Launch:
        """Plan a run on nodes that a scheduler chooses; they have the paths of the login node."""
        site = self._nodes.login_site(placement.cluster)
        label = wording.node_label(placement.cluster)
        if site is None:
            raise BackendError(f"{label} is not set up.", f"Set up {label} first.")
        if not site.data_root:
            raise BackendError(
                f"{label} does not see the data root, and so the nodes of "
                f"{scheduler_of(placement).name} do not, either.",
                "Use a data root on a folder that the whole cluster shares.",
            )
        return allocation_launch(self._launch(config, site, job_id, run), placement)

    def _path_on_nodes(self, path: Path, data_root: str) -> str:
        """Return the path on the nodes of a run for a path of this desktop.

        Raises:
            BackendError: The nodes do not see the path.
        """
        local_root = self._root.path.absolute()
        if data_root == str(local_root):
            return str(path.absolute())
        try:
            return str(PurePosixPath(data_root, *path.absolute().relative_to(local_root).parts))
        except ValueError as error:
            raise BackendError(
                f"{path} is outside the data root, so the nodes cannot see it.",
                f"Copy it into {self._root.display_path(local_root)}.",
            ) from error
