"""A plan trains a job only where it can: else it says what does not fit, or why it waits."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from backend.base.errors import BackendError
from backend.base.progress import Progress
from backend.records.jobs.plan import JobPlan, Measurement
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RunStatus
from backend.records.jobs.view import GPU_CHECK, JobCheck
from backend.records.library.preview import ModelCheck
from backend.records.nodes.reading import Finding
from backend.services.jobs.planner import JobPlanner
from backend.services.jobs.validation import CheckedJob
from tests.backend.services.jobs.test_form_figures import GIB, GPUS, LOCAL, NODES, config

CHECK = JobCheck(trial=ModelCheck(10**6, 10**6, 4 * 10**6, activation_bytes=10**6))
STATUS = RunStatus(
    JobState.INTERRUPTED, step=20, steps_per_epoch=10, pace_s=0.1, peak_memory_bytes=GIB
)


def planned(
    *placement: dict[str, Any], check: JobCheck = CHECK, batch_size: int = 32
) -> tuple[JobPlan, list[Any]]:
    """Return the plan, and the placements that were trained on."""
    job = config(placement[0], batch_size)
    other_nodes = [config(other).placement[0] for other in placement[1:]]
    job = replace(job, placement=(*job.placement, *other_nodes))
    measured: list[Any] = []

    def measure(measured_config, pins, report, cancelled):  # type: ignore[no-untyped-def]
        measured.append([p.node for p in measured_config.placement])
        report(JobState.STOPPING)
        return Measurement(STATUS, 5.0, 12.0, 0.0, 1000)

    validator = SimpleNamespace(check=lambda raw: CheckedJob(job, job), node_states=lambda: NODES)
    jobs = SimpleNamespace(try_batch=lambda raw, progress: True, check=lambda raw: check)
    root = SimpleNamespace(files=SimpleNamespace(is_mounted=False))
    planner: Any = JobPlanner(root, jobs, validator, SimpleNamespace(measure=measure))  # type: ignore[arg-type]
    return planner.plan({}, progress=Progress()), measured


def test_a_batch_that_does_not_fit_is_not_trained() -> None:
    large_check = replace(CHECK, trial=replace(CHECK.trial, activation_bytes=GIB))
    plan, measured = planned(GPUS, check=large_check)
    assert measured == []
    assert plan.step_s is None
    assert plan.fit_message.startswith("Batch 32 does not fit into 16.0 GiB; 15 does")


def test_one_node_is_measured_for_all_of_them_with_its_power() -> None:
    plan, measured = planned(GPUS, LOCAL)
    assert measured == [["gpu01"]]
    assert plan.memory.total_bytes == GIB
    assert plan.power_w
    assert [nodes.nodes for nodes in plan.by_nodes] == [1, 2, 4]


def test_a_gpu_in_use_is_named_and_not_disturbed() -> None:
    message = "GPU 1 of gpu01 is in use by alice; the job can start when it is free."
    busy_check = replace(CHECK, findings=(Finding(GPU_CHECK, False, message),))
    with pytest.raises(BackendError, match="in use by alice"):
        planned(GPUS, check=busy_check)
