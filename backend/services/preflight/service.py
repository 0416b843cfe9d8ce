"""The preflight check of a job, and the fixes that the program can do itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from backend.base.errors import BackendError
from backend.base.log import suppress
from backend.base.progress import Progress
from backend.base.room import disk_space
from backend.datastore.access.root_access import OpenRoot
from backend.datastore.jobs.checkpoint_files import list_checkpoints
from backend.datastore.jobs.files import read_job
from backend.node.checks import preflight_probe
from backend.records.jobs.config import JobConfig
from backend.records.jobs.placement import THIS_COMPUTER
from backend.records.library.item import Pin
from backend.records.nodes.preflight import (
    Fix,
    Preflight,
    PreflightFinding,
    smaller_placement,
)
from backend.services.nodes.provisioning import ProvisioningService
from backend.services.nodes.registry import NodeRegistry
from backend.services.preflight import checks, installation, names, storage
from backend.services.preflight.context import (
    NodePreflight,
    PreflightContext,
    PreflightTarget,
    of_script,
)
from backend.services.preflight.fixes import OnChange, PreflightFixes
from backend.services.preflight.limits import PreflightLimits
from backend.services.preflight.run import PreflightRun
from backend.services.tools.training_python import next_run_config, training_python


class PreflightFailed(BackendError):
    """The nodes of a job cannot run it as they are. ``found`` has every reason.

    Attributes:
        config: The job that was to run.
    """

    def __init__(self, found: Preflight, config: JobConfig) -> None:
        remedies = dict.fromkeys(fault.remedy for fault in found.faults if fault.remedy)
        if found.smaller:
            remedies[f"Or run on {', '.join(one.node for one in found.smaller)} only."] = None
        super().__init__(" ".join(map(_with_place, found.faults)), " ".join(remedies))
        self.found = found
        self.config = config


def _with_place(fault: PreflightFinding) -> str:
    """Return the sentence with the nodes it is about; SSH names only an address."""
    unnamed = [n for n in fault.nodes if n != THIS_COMPUTER and n not in fault.sentence]
    return f"{', '.join(unnamed)}: {fault.sentence}" if unnamed else fault.sentence


class PreflightService:
    """Check and fix nodes. Every call blocks and may run on any thread."""

    def __init__(
        self,
        root: OpenRoot,
        cluster: NodeRegistry,
        set_up: ProvisioningService,
        python: Callable[[], str] = training_python,
        first_bytes: Callable[[JobConfig, Mapping[str, Pin]], int] = lambda config, pins: 0,
        limits: PreflightLimits | None = None,
        needs_torch: Callable[[JobConfig], bool] = lambda config: False,
        data_notes: Callable[[JobConfig], Sequence[str]] = lambda config: (),
    ) -> None:
        """Store the parts; for ``first_bytes`` see `JobForecasts.needed_bytes`."""
        self._root = root
        self._python = python
        self._first_bytes = first_bytes
        limits = limits or PreflightLimits()
        self._context = PreflightContext(
            root, cluster, set_up, python, limits, needs_torch, data_notes=data_notes
        )
        self._fixes = PreflightFixes(self._context)

    def run(
        self,
        config: JobConfig,
        job_id: str = "",
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Preflight:
        """Run all checks.

        With a ``job_id`` the disk space needed comes from the job's existing checkpoints.

        Raises:
            Cancelled: By ``cancelled``; probes in progress end by themselves.
        """
        config = next_run_config(config)
        return PreflightRun(self._context, config, self.needed_bytes(config, job_id)).fly(cancelled)

    def check_again(
        self,
        config: JobConfig,
        before: Preflight,
        nodes: Sequence[str],
        job_id: str = "",
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Preflight:
        """Update the results after a change to ``nodes``: only these are asked again.

        The head node is asked with them, because it must reach them. If it is one of them, or was
        removed from the job, all nodes are asked. Results about nodes that were removed from the
        job are dropped.

        Raises:
            Cancelled: By ``cancelled``.
        """
        head = config.placement[0].node
        names = [one.node for one in config.placement]
        asked = [name for name in names if name in nodes]
        gone = [name for name in before.nodes if name not in names]
        if not (asked or gone) or head in asked or head != before.nodes[0]:
            return self.run(config, job_id, cancelled=cancelled)
        part = Preflight((), (), before.took_s)
        if asked:
            few = tuple(one for one in config.placement if one.node in (head, *asked))
            part = self.run(replace(config, placement=few), job_id, cancelled=cancelled)
        found = before.after_part(part, (*asked, *gone))
        found = replace(found, nodes=tuple(names), smaller=())
        if found.passed:
            return found
        return replace(found, smaller=smaller_placement(config.placement, found.findings))

    def require(
        self, config: JobConfig, job_id: str = "", progress: Progress | None = None
    ) -> None:
        """Check before a start on nodes; for this computer alone, only disk and limits.

        Raises:
            PreflightFailed: The job cannot run.
            Cancelled: By ``progress``.
        """
        if all(one.node == THIS_COMPUTER for one in config.placement):
            self._require_on_this_computer(config, job_id)
            return
        progress = progress or Progress()
        count = len(config.placement)
        where = config.placement[0].node if count == 1 else f"{count} nodes"
        progress.step(0, 0, f"Checking {where}")
        found = self.run(config, job_id, cancelled=lambda: progress.is_cancelled)
        if not found.passed:
            found = self._with_agents(found, progress)
        if not found.passed:
            raise PreflightFailed(found, config)
        progress.step(0, 0, "Starting")

    def _with_agents(self, found: Preflight, progress: Progress) -> Preflight:
        """Start agents that are down, such as after a reboot; return the other findings."""
        down = [finding for finding in found.faults if finding.fix is Fix.START_AGENT]
        for finding in down:
            progress.step(0, 0, f"Starting the agent of {', '.join(finding.nodes)}")
        failed = self.fix_all(down) if down else {}
        started = [finding for finding in down if finding not in failed]
        return replace(found, findings=tuple(f for f in found.findings if f not in started))

    def fix_all(
        self,
        findings: Sequence[PreflightFinding],
        on_change: OnChange = lambda _preflight: None,
    ) -> dict[PreflightFinding, BackendError]:
        """Fix several findings at once; return those that could not be fixed, and why.

        A node with several findings is set up once, and nodes are set up in parallel. ``on_change``
        gets the progress. Fixes of the job itself are not done here: see `placement_after`.
        """
        return self._fixes.fix(findings, on_change)

    def _require_on_this_computer(self, config: JobConfig, job_id: str) -> None:
        needed, placement, result = self.needed_bytes(config, job_id), config.placement[0], None
        # The check of the data root reports one that is not available.
        with suppress(OSError):
            room = disk_space(self._root.path)
            if room.free_files is not None and room.lacks_files():
                result = storage.no_files(room.free_files)
            elif room.free_bytes < needed:
                result = storage.no_room(room.free_bytes, needed)
        site = PreflightTarget(
            *(THIS_COMPUTER, placement, self._python(), "", "", "", str(self._root.path), ""),
            leads=True,
            loader_workers=config.loader_workers,
            **of_script(config, self._context.needs_torch),
        )
        replies = {
            "shared_memory": preflight_probe.shared_memory({}),
            "limits": preflight_probe.limits({}),
        }
        if site.script_python:
            probe = installation.SCRIPT_PYTHON
            limit_s = self._context.limits.command_s
            request = {"argv": probe.argv(site), "command_limit_s": limit_s, "code_root": ""}
            replies[probe.name] = preflight_probe.command(request)
        node = NodePreflight(placement, site, replies=replies)
        found = tuple(checks.of_replies(node))
        if result is not None:
            found = (checks.BY_NAME[names.DISK].finding(result),)
        if any(one.blocks for one in found):
            raise PreflightFailed(Preflight((THIS_COMPUTER,), found, 0.0), config)

    def needed_bytes(self, config: JobConfig, job_id: str) -> int:
        """Return the size of the checkpoints to come: those that are kept, and one being written.

        Without a ``job_id`` the job does not exist yet.
        """
        with suppress(BackendError, OSError, ValueError):
            if not job_id:
                return self._first_bytes(config, {})
            folder = self._root.job(job_id)
            self._root.files.refresh_job(folder)
            found = list_checkpoints(folder, config.checkpoint)
            if not found:
                return self._first_bytes(config, read_job(folder).pins)
            largest = max(record.bytes for record in found)
            kept = config.checkpoint.keep_latest + config.checkpoint.keep_best + 2
            return largest * max(0, kept - len(found))
        return 0
