"""Plan a job before it exists: train it for some seconds, and compute what the whole needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from backend.base.errors import BackendError
from backend.base.progress import Progress
from backend.base.room import disk_space
from backend.datastore.access.root_access import OpenRoot
from backend.records.jobs.config import JobConfig
from backend.records.jobs.plan import (
    DEFAULT_LINK_MBIT,
    JobPlan,
    batch_fit,
    memory_plan,
    plan_job,
)
from backend.records.jobs.state import JobState
from backend.records.nodes.reading import NodeState
from backend.services.jobs.service import JobService
from backend.services.jobs.trial_run import TrialRunService
from backend.services.jobs.validation import JobValidator, process_capacities


class JobPlanner:
    """Plans jobs. Every call blocks and may run on any thread."""

    def __init__(
        self,
        root: OpenRoot,
        jobs: JobService,
        validator: JobValidator,
        trial_runs: TrialRunService,
    ) -> None:
        self._root = root
        self._jobs = jobs
        self._validator = validator
        self._trial_runs = trial_runs

    def plan(
        self,
        raw: Mapping[str, Any],
        link_mbit: float = DEFAULT_LINK_MBIT,
        progress: Progress | None = None,
    ) -> JobPlan:
        """Train a job file on its first node for some seconds, and return what the job needs.

        A job whose batch does not fit in the memory is not trained. A strategy with servers, or
        that splits the network, needs all nodes of the job.

        Raises:
            BackendError: The file has an error, a GPU is in use, or training failed.
            Cancelled: By ``progress``; no process remains.
        """
        progress = progress or Progress()
        progress.step(0, 0, "Trying one batch")
        config, pins = self._checked_config(raw)
        self._jobs.try_batch(raw, progress)
        check = self._jobs.check(raw)
        if check.trial is None:
            raise BackendError("One batch of the job was not tried, so its model is not known.")
        if check.waits_for:
            findings = (finding for finding in check.findings if finding.check == check.waits_for)
            raise BackendError(" ".join(finding.message for finding in findings))
        states = self._validator.node_states()
        is_divisible = not (config.strategy.servers or config.strategy.is_split)
        if is_divisible:
            config = replace(config, placement=config.placement[:1])
        capacity_bytes = min(process_capacities(config, states), default=None)
        memory = memory_plan(config, check.trial, capacity_bytes, None)
        if capacity_bytes is not None and memory.activation_bytes:
            model_bytes = memory.total_bytes - memory.activation_bytes
            sample_bytes = check.trial.activation_bytes or 0
            fit = batch_fit(config, model_bytes, sample_bytes, capacity_bytes)
            if fit is not None:
                return JobPlan(config.placement[0].node, memory, config.batch_size, fit)

        powers_w: list[float] = []

        def report(state: JobState) -> None:
            progress.report(0, 0, f"Training for a moment: {state.label.lower()}")
            if state is JobState.STOPPING:
                powers_w.extend(_powers_w(config, self._validator.node_states()))

        measurement = self._trial_runs.measure(config, pins, report, lambda: progress.is_cancelled)
        peak_bytes = measurement.status.peak_memory_bytes
        memory = memory_plan(config, check.trial, capacity_bytes, peak_bytes)
        space = disk_space(self._root.path) if self._root.files.is_mounted else None
        return plan_job(
            config,
            memory,
            measurement,
            space,
            link_mbit,
            sum(powers_w) or None,
        )

    def _checked_config(self, raw: Mapping[str, Any]) -> tuple[JobConfig, dict[str, Any]]:
        checked_job = self._validator.check(raw)
        if checked_job.config is None or checked_job.errors:
            raise BackendError(" ".join(error.message for error in checked_job.errors))
        if checked_job.config.script:
            raise BackendError("A script decides itself what it trains, so it cannot be planned.")
        if (scheduler := checked_job.config.scheduler) is not None:
            raise BackendError(
                f"{scheduler.name} chooses the nodes of the job later, so nothing can be measured "
                "on them.",
                "Plan it on a computer with the same GPUs.",
            )
        return checked_job.config, checked_job.pins


def _powers_w(config: JobConfig, states: Mapping[str, NodeState]) -> list[float]:
    """Return the power of each GPU of the job whose node reports it."""
    uuids = {uuid for placement in config.placement for uuid in placement.gpus}
    return [
        gpu.power_w
        for placement in config.placement
        if (state := states.get(placement.node)) is not None and state.reading is not None
        for gpu in state.reading.gpus
        if gpu.uuid in uuids and gpu.power_w is not None
    ]
