"""The preflight check of a job, and the fixes that the program can do itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from backend.base.errors import BackendError, as_backend_error
from backend.base.log import suppress
from backend.base.progress import Progress
from backend.base.room import disk_space
from backend.datastore.access.root_access import OpenRoot
from backend.datastore.jobs.checkpoint_files import list_checkpoints
from backend.datastore.jobs.files import read_job
from backend.datastore.queue import files as queue_files
from backend.node.checks import preflight_probe
from backend.node.system.process_identity import machine
from backend.records.jobs.config import JobConfig
from backend.records.jobs.placement import THIS_COMPUTER, ClusterPlacement, PlacementError
from backend.records.jobs.schedulers import scheduler_of
from backend.records.jobs.script import is_session, session_length_s
from backend.records.jobs.status import last_status
from backend.records.library.item import Pin
from backend.records.nodes.preflight import (
    Fix,
    Preflight,
    PreflightFinding,
    smaller_placement,
)
from backend.records.queue.entry import QueueEntry
from backend.records.queue.forecast import run_duration_s
from backend.records.queue.scheduling import Reservation, reservations_of
from backend.services.nodes.provisioning import ProvisioningService
from backend.services.nodes.registry import NodeRegistry
from backend.services.preflight import checks, installation, names, storage
from backend.services.preflight.compute_node import unchecked_finding
from backend.services.preflight.context import (
    JobPreflight,
    NodePreflight,
    PreflightContext,
    PreflightLimits,
    PreflightTarget,
    script_python_fields,
)
from backend.services.preflight.fixes import OnChange, PreflightFixes
from backend.services.preflight.run import PreflightRun
from backend.services.tools.training_python import next_run_config, training_python


class PreflightFailed(BackendError):
    """The nodes of a job cannot run it as they are, or the user should decide about a warning.

    Attributes:
        preflight: Every reason.
        config: The job that was refused.
    """

    def __init__(self, preflight: Preflight, config: JobConfig) -> None:
        findings = preflight.blocking_findings or preflight.warnings
        remedies = dict.fromkeys(finding.remedy for finding in findings if finding.remedy)
        if preflight.smaller_placement:
            nodes = ", ".join(placement.node for placement in preflight.smaller_placement)
            remedies[f"Or run on {nodes} only."] = None
        super().__init__(" ".join(map(_message_with_nodes, findings)), " ".join(remedies))
        self.preflight = preflight
        self.config = config


def _message_with_nodes(finding: PreflightFinding) -> str:
    """Return the message with the finding's nodes; a message of SSH has only an address."""
    message = finding.message
    nodes = [node for node in finding.nodes if node != THIS_COMPUTER and node not in message]
    return f"{', '.join(nodes)}: {message}" if nodes else message


class PreflightService:
    """Check and fix nodes. Every call blocks and may run on any thread."""

    def __init__(
        self,
        root: OpenRoot,
        node_registry: NodeRegistry,
        provisioning: ProvisioningService,
        python: Callable[[], str] = training_python,
        forecast_bytes: Callable[[JobConfig, Mapping[str, Pin]], int] = lambda config, pins: 0,
        limits: PreflightLimits | None = None,
        needs_torch: Callable[[JobConfig], bool] = lambda config: False,
        data_notes: Callable[[JobConfig], Sequence[str]] = lambda config: (),
        check_cluster: Callable[[ClusterPlacement], Sequence[PlacementError]] = lambda _: (),
    ) -> None:
        """Store the parts.

        See `JobForecaster.needed_bytes`, and for ``check_cluster`` `LauncherService.check`.
        """
        self._check_cluster = check_cluster
        self._root = root
        self._python = python
        self._forecast_bytes = forecast_bytes
        limits = limits or PreflightLimits()
        self._context = PreflightContext(
            root, node_registry, provisioning, python, limits, needs_torch, data_notes=data_notes
        )
        self._fixes = PreflightFixes(self._context)

    def run(
        self, config: JobConfig, job_id: str = "", is_cancelled: Callable[[], bool] = lambda: False
    ) -> Preflight:
        """Run all checks.

        With a ``job_id`` the disk space needed comes from the job's existing checkpoints.

        Raises:
            Cancelled: By ``is_cancelled``; probes in progress end by themselves.
        """
        config = next_run_config(config)
        if config.allocation is not None:
            return self._ask_scheduler(config.allocation)
        needed_bytes = self.needed_bytes(config, job_id)
        reservations = self._reservations(config, job_id)
        return PreflightRun(self._context, config, needed_bytes, reservations).run(is_cancelled)

    def _ask_scheduler(self, placement: ClusterPlacement) -> Preflight:
        """Compare what a job asks for with the cluster; its scheduler checks its nodes itself."""
        started_s, nodes = time.monotonic(), (placement.cluster,)
        scheduler = scheduler_of(placement)
        try:
            errors = self._check_cluster(placement)
        except BackendError as error:
            errors = (PlacementError(error.message, error.remedy),)
        findings = tuple(
            PreflightFinding(scheduler.name, False, error.message, error.remedy, nodes)
            for error in errors
        ) or (
            *((unchecked_finding(placement.cluster),) if scheduler.checks_nodes else ()),
            PreflightFinding(
                scheduler.name, True, f"{scheduler.name} accepts the job.", nodes=nodes
            ),
        )
        return Preflight(nodes, findings, time.monotonic() - started_s)

    def check_again(
        self,
        config: JobConfig,
        previous_preflight: Preflight,
        nodes: Sequence[str],
        job_id: str = "",
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> Preflight:
        """Update the results after a change to ``nodes``: only these nodes are checked again.

        The head node is checked with them, because it must reach them. If the head node changed or
        was removed from the job, all nodes are checked. Findings about nodes that were removed from
        the job are dropped.

        Raises:
            Cancelled: By ``is_cancelled``.
        """
        head = config.placement[0].node
        node_names = [placement.node for placement in config.placement]
        changed_nodes = [name for name in node_names if name in nodes]
        removed_nodes = [name for name in previous_preflight.nodes if name not in node_names]
        has_new_head = head in changed_nodes or head != previous_preflight.nodes[0]
        if has_new_head or not (changed_nodes or removed_nodes):
            return self.run(config, job_id, is_cancelled=is_cancelled)
        part = Preflight((), (), previous_preflight.took_s)
        if changed_nodes:
            nodes = (head, *changed_nodes)
            placement = tuple(p for p in config.placement if p.node in nodes)
            part_config = replace(config, placement=placement)
            part = self.run(part_config, job_id, is_cancelled=is_cancelled)
        preflight = previous_preflight.after_part(part, (*changed_nodes, *removed_nodes))
        preflight = replace(preflight, nodes=tuple(node_names), smaller_placement=())
        if preflight.succeeded:
            return preflight
        return replace(
            preflight, smaller_placement=smaller_placement(config.placement, preflight.findings)
        )

    def require(
        self, config: JobConfig, job_id: str = "", progress: Progress | None = None
    ) -> None:
        """Check before a start on nodes; for this computer alone, only disk and limits.

        Raises:
            PreflightFailed: The job cannot run, or ``progress`` does not accept that it would reach
                into a reservation.
            Cancelled: By ``progress``.
        """
        progress = progress or Progress()
        if all(placement.node == THIS_COMPUTER for placement in config.placement):
            preflight = self._check_this_computer(config, job_id)
        else:
            count = len(config.placement)
            subject = config.placement[0].node if count == 1 else f"{count} nodes"
            progress.step(0, 0, f"Checking {subject}")
            preflight = self.run(config, job_id, is_cancelled=lambda: progress.is_cancelled)
            if not preflight.succeeded:
                preflight = self._start_agents(preflight, progress)
        warnings = [f for f in preflight.warnings if f.check == names.RESERVATION]
        if not preflight.succeeded or not all(
            progress.accepts(f"{warning.message} {warning.remedy}") for warning in warnings
        ):
            raise PreflightFailed(preflight, config)
        progress.step(0, 0, "Starting")

    def _start_agents(self, preflight: Preflight, progress: Progress) -> Preflight:
        """Start agents that are down, such as after a reboot; return the other findings."""
        findings = preflight.blocking_findings
        agent_findings = [finding for finding in findings if finding.fix is Fix.START_AGENT]
        for finding in agent_findings:
            progress.step(0, 0, f"Starting the agent of {', '.join(finding.nodes)}")
        failures = self.fix_all(agent_findings) if agent_findings else {}
        fixed_findings = [finding for finding in agent_findings if finding not in failures]
        findings = tuple(f for f in preflight.findings if f not in fixed_findings)
        return replace(preflight, findings=findings)

    def fix_all(
        self,
        findings: Sequence[PreflightFinding],
        on_change: OnChange = lambda _preflight: None,
    ) -> dict[PreflightFinding, BackendError]:
        """Fix several findings at once; return those that could not be fixed, and why.

        A node with several findings is set up once, and nodes are set up in parallel. ``on_change``
        gets the progress. Fixes of the job itself are not done here: see `fixed_placement`.
        """
        return self._fixes.fix(findings, on_change)

    def _reservations(self, config: JobConfig, job_id: str) -> tuple[Reservation, ...]:
        """Return the reservations of other jobs into which a start now would reach."""
        now = datetime.now(UTC)
        with as_backend_error("The queue could not be read"):
            entries = queue_files.entries(self._root)
        queued_entry = next((entry for entry in entries if entry.job_id == job_id), None)
        status = last_status(self._root.job(job_id)) if job_id else None
        remaining_s = (
            run_duration_s(status.total_steps - status.step, status.pace_s) if status else None
        )
        start = QueueEntry(
            job_id,
            config.name,
            0,
            config.placement,
            machine(),
            lasts_s=remaining_s,
            length_s=(queued_entry.length_s if queued_entry else 0.0)
            or (session_length_s(config.arguments) if is_session(config.script) else 0.0),
            gives_way=config.gives_way,
        )
        return tuple(
            reservation
            for reservation in reservations_of(entries, now)
            if reservation.entry.job_id != job_id and reservation.blocks(start, now)
        )

    def _check_this_computer(self, config: JobConfig, job_id: str) -> Preflight:
        needed_bytes = self.needed_bytes(config, job_id)
        placement, result = config.placement[0], None
        # The check of the data root reports a root that is not available.
        with suppress(OSError):
            space = disk_space(self._root.path)
            if space.free_files is not None and space.lacks_files():
                result = storage.no_free_files(space.free_files)
            elif space.free_bytes < needed_bytes:
                result = storage.no_free_space(space.free_bytes, needed_bytes)
        target = PreflightTarget(
            *(THIS_COMPUTER, placement, self._python(), "", "", "", str(self._root.path), ""),
            is_head=True,
            loader_workers=config.loader_workers,
            **script_python_fields(config, self._context.needs_torch),
        )
        replies = {
            "shared_memory": preflight_probe.shared_memory({}),
            "limits": preflight_probe.limits({}),
        }
        if target.script_python:
            probe = installation.SCRIPT_PYTHON
            limit_s = self._context.limits.command_s
            request = {"argv": probe.argv(target), "command_limit_s": limit_s, "code_root": ""}
            replies[probe.name] = preflight_probe.command(request)
        node = NodePreflight(placement, target, replies=replies)
        job = JobPreflight("", "", (node,), reservations=self._reservations(config, job_id))
        check = checks.BY_NAME[names.RESERVATION]
        findings = (*checks.judge_replies(node), *check.node_findings(node, job, None))
        if result is not None:
            findings = (checks.BY_NAME[names.DISK].finding(result),)
        return Preflight((THIS_COMPUTER,), findings, 0.0)

    def needed_bytes(self, config: JobConfig, job_id: str) -> int:
        """Return the size of the future checkpoints: the kept ones, and one being written.

        Without a ``job_id`` the job does not exist yet.
        """
        with suppress(BackendError, OSError, ValueError):
            if not job_id:
                return self._forecast_bytes(config, {})
            folder = self._root.job(job_id)
            self._root.files.refresh_job(folder)
            checkpoints = list_checkpoints(folder, config.checkpoint)
            if not checkpoints:
                return self._forecast_bytes(config, read_job(folder).pins)
            largest_bytes = max(record.bytes for record in checkpoints)
            checkpoint_count = config.checkpoint.keep_latest + config.checkpoint.keep_best + 2
            return largest_bytes * max(0, checkpoint_count - len(checkpoints))
        return 0
