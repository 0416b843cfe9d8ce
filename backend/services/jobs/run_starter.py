"""Start a run: from a job's folder to a supervisor that no longer needs this desktop.

Everything that can be refused comes before the claim (`backend.node.run.run_start`), and little
comes after it: if a desktop dies in between, the run never begins.
"""

from __future__ import annotations

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
from backend.launch import mpirun
from backend.launch.network import common_subnet
from backend.launch.placement import NodePaths, common_paths, rank_plans, require_same_access
from backend.node.run import run_start
from backend.node.system import wording
from backend.provisioning.script_wheels import environment_name
from backend.records.base import content
from backend.records.base.layout import SIDECAR_SUFFIX
from backend.records.base.program_name import COMMAND
from backend.records.jobs.config import JobConfig
from backend.records.jobs.launch import Launch, RankPlan
from backend.records.jobs.placement import THIS_COMPUTER
from backend.records.jobs.script import REQUIREMENTS
from backend.records.library.item import KINDS, Kind
from backend.services.tools.training_python import next_run_config, training_error

if TYPE_CHECKING:
    from backend.services.library.service import LibraryService
    from backend.services.nodes.service import NodeService


@dataclass(frozen=True)
class RunPlan:
    """A planned run: ``site`` has the paths on its nodes, the first of which leads."""

    argv: tuple[str, ...]
    ranks: tuple[RankPlan, ...]
    site: NodePaths
    config: JobConfig
    """The job with the strategy that is possible now, see `next_run_config`."""
    staged_nodes: tuple[str, ...] = ()
    """Nodes that do not see the data root, so that files must be copied to them."""


@dataclass(frozen=True)
class PreparedRun:
    """A run that only has to be claimed and started."""

    plan: RunPlan
    launch: Launch


class RunStarter:
    """Plans, prepares and starts runs."""

    def __init__(
        self,
        root: OpenRoot,
        library: LibraryService,
        nodes: NodeService,
    ) -> None:
        self._root = root
        self._library = library
        self._nodes = nodes

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
        plan = prepared_run.plan
        launch = replace(prepared_run.launch, steps_limit=steps_limit)
        access = self._root.files
        if plan.staged_nodes:
            weights = [Path(p) for p in (resume_from, start_from) if p]
            sidecars = [path.with_suffix(SIDECAR_SUFFIX) for path in weights]
            files = [file for path in weights for _, file in content.files_of(path)]
            required_files = (*files, *(path for path in sidecars if path.exists()))
            access.provide(
                plan.staged_nodes, folder, self._version_paths(file), required_files, progress
            )
        if plan.config.on_failure.continues:
            self._prepare_other_heads(plan.ranks)
        with self._nodes.head(plan.ranks) as head:
            if not run_start.claim(folder, run, access):
                return False
            try:
                run_start.write(folder, launch, access)
            except OSError:
                run_start.give_back(folder, launch, access)
                raise
            if plan.staged_nodes:
                access.hand_over(plan.staged_nodes, folder, run, Progress())
            head.start(folder, run, plan.site)
            queue_files.leave(self._root, folder)
        return True

    def _prepare_other_heads(self, ranks: Sequence[RankPlan]) -> None:
        """Enable every node to lead the run after a loss of the head."""
        for plan in {plan.node: plan for plan in ranks if plan.node != ranks[0].node}.values():
            with suppress(BackendError):
                self._nodes.prepare_head((plan, *ranks))

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
        plan = self.plan(file.config, file.id, run)
        file = replace(file, config=plan.config)
        launch = self._launch(file, run, plan, resume_from, start_from)
        python = self._script_python(file, plan, progress or Progress())
        return PreparedRun(plan, replace(launch, script_python=python))

    def _script_python(self, file: JobFile, plan: RunPlan, progress: Progress) -> str:
        if file.config.python != REQUIREMENTS:
            return file.config.python
        pin = file.pins["script"]
        source = self._library.open_content(Kind.SCRIPT, pin.reference, progress)
        base_python = plan.site.python
        name = environment_name(base_python, source, pin.sha256)
        nodes = tuple(dict.fromkeys(rank.node for rank in plan.ranks))
        return self._nodes.provide_script(nodes, base_python, name, source, progress)

    def plan(self, config: JobConfig, job_id: str, run: int) -> RunPlan:
        """Plan the command of the supervisor, and the node of each rank.

        Raises:
            BackendError: The chosen nodes cannot run the job, or cannot train together.
        """
        config = next_run_config(config)
        node_names = {placement.node for placement in config.placement}
        if THIS_COMPUTER in node_names and (error := training_error()) is not None:
            raise error
        capacities = self._nodes.capacities()
        used_capacities = [c for c in capacities if c.node in node_names]
        require_same_access(used_capacities)
        network = None
        if len(used_capacities) > 1:
            cidr, hosts = common_subnet({c.node: c.addresses for c in used_capacities})
            capacities = tuple(replace(c, host=hosts.get(c.node, c.host)) for c in capacities)
        ranks = rank_plans(config, capacities)
        site = common_paths(used_capacities)
        if len(used_capacities) > 1:
            network = mpirun.Network(cidr, site.ssh_config)
        # A single process needs no mpirun, so it runs on nodes without one.
        if config.needs_mpirun and not site.mpirun:
            raise BackendError(
                f"mpirun was not found on {wording.node_label(ranks[0].node)}.",
                f"Run {COMMAND} doctor to see how to install it; a job of one process with the "
                "strategy “alone” needs none.",
            )
        argv = mpirun.command(
            config,
            ranks,
            job_folder=self._path_on_nodes(self._root.job(job_id).path, site),
            run=run,
            python=site.python,
            mpirun=site.mpirun,
            version=site.mpi_major,
            cores={c.node: c.cores for c in capacities},
            network=network,
        )
        staged_nodes: tuple[str, ...] = ()
        if used_capacities[0].is_staged:
            staged_nodes = tuple(dict.fromkeys(rank.node for rank in ranks))
        if staged_nodes and config.on_failure.continues:
            raise BackendError(
                f"{staged_nodes[0]} does not see the data root, so no node can continue the job "
                "after a failure.",
                "Set “Retries” to 0 and turn off “Drop a lost node”, or mount the data "
                f"root on {staged_nodes[0]} and add it again.",
            )
        return RunPlan(argv, ranks, site, config, staged_nodes)

    def _path_on_nodes(self, path: Path, site: NodePaths) -> str:
        """Return the path on the nodes of a run for a path of this desktop.

        Raises:
            BackendError: The nodes do not see the path.
        """
        local_root = self._root.path.absolute()
        if site.data_root == str(local_root):
            return str(path.absolute())
        try:
            return str(
                PurePosixPath(site.data_root, *path.absolute().relative_to(local_root).parts)
            )
        except ValueError as error:
            raise BackendError(
                f"{path} is outside the data root, so the nodes cannot see it.",
                f"Copy it into {self._root.display_path(local_root)}.",
            ) from error

    def _launch(
        self, file: JobFile, run: int, plan: RunPlan, resume_from: str, start_from: str
    ) -> Launch:
        content = {
            key: self._path_on_nodes(self._library.content(KINDS[key], pin.reference), plan.site)
            for key, pin in file.pins.items()
        }
        is_multi_node = len({rank.node for rank in plan.ranks}) > 1
        return Launch(
            job_id=file.id,
            run=run,
            config=file.config,
            argv=plan.argv,
            ranks=plan.ranks,
            model_source=content.get("model", ""),
            loader_source=content.get("loader", ""),
            dataset_files=content.get("dataset", ""),
            script_source=content.get("script", ""),
            validation_loader_source=content.get("validation_loader", ""),
            validation_dataset_files=content.get("validation_dataset", ""),
            resume_from=self._path_on_nodes(Path(resume_from), plan.site) if resume_from else "",
            start_from=self._path_on_nodes(Path(start_from), plan.site) if start_from else "",
            environment=mpirun.environment(
                file.config, job_id=file.id, run=run, code_root=plan.site.code_root
            ),
            hashes={key: pin.sha256 for key, pin in file.pins.items()},
            python=plan.site.python,
            ssh_config=plan.site.ssh_config if is_multi_node else "",
            is_staged=is_multi_node and bool(plan.staged_nodes),
        )
