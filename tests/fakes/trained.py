"""Jobs with the files of a training: real folders, real histories, nothing was computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from backend.datastore.jobs.files import create_job
from backend.records.base.atomic_files import replace_json
from backend.records.jobs.config import CheckpointPolicy, JobConfig, Optimizer
from backend.records.jobs.history import Block, encode
from backend.records.jobs.placement import Placement
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RunExit, RunStatus
from backend.records.library.item import Pin
from tests.fakes.mounted_root import mounted

STARTED = datetime(2026, 11, 21, 7, 0, tzinfo=UTC)
STEPS_PER_EPOCH = 10
CONFIG = JobConfig(
    name="digits",
    model="mlp",
    dataset="digits",
    loader="digits",
    epochs=3,
    batch_size=32,
    optimizer=Optimizer("sgd", 0.01),
    placement=(Placement("this-computer", 2),),
    checkpoint=CheckpointPolicy(best_metric="validation/accuracy", best_mode="max"),
)


def job(
    root: Path,
    name: str,
    losses: Sequence[float] = (),
    accuracies: Sequence[float] = (),
    state: JobState = JobState.FINISHED,
    step_s: float = 1.0,
    pins: Mapping[str, Pin] | None = None,
    **settings: object,
) -> str:
    """The id of a job that made a step for each loss, and an evaluation an epoch.

    Args:
        pins: Of a model, dataset and loader that are there; else they are of none.
        settings: What differs from `CONFIG`.
    """
    config = replace(CONFIG, name=name, **settings)  # type: ignore[arg-type]  # as the caller says
    pins = pins or {"model": Pin("mlp", 1, "0" * 64), "dataset": Pin("digits", 1, "0" * 64)}
    root.mkdir(parents=True, exist_ok=True)
    data_root = mounted(root)
    file = create_job(data_root, config, pins)
    folder = data_root.job(file.id)
    if state is not JobState.CREATED:
        status = RunStatus(
            state,
            run=1,
            epoch=-(-len(losses) // STEPS_PER_EPOCH),
            epochs=config.epochs,
            step=len(losses),
            total_steps=config.epochs * STEPS_PER_EPOCH,
            steps_per_epoch=STEPS_PER_EPOCH,
        )
        attempt = folder.attempt(1)
        attempt.path.mkdir(parents=True)
        replace_json(folder.status, status.to_dict())
        if state.is_over:
            replace_json(attempt.exit, RunExit(1, state, "").to_dict())
    write_steps(folder.history, 1, losses, accuracies, step_s=step_s)
    return file.id


def write_steps(
    path: Path,
    first: int,
    losses: Sequence[float],
    accuracies: Sequence[float] = (),
    *,
    run: int = 1,
    step_s: float = 1.0,
    late_s: float = 0.0,
) -> None:
    """Append steps, each epoch's in two blocks, with an evaluation at the end of each epoch."""
    path.parent.mkdir(parents=True, exist_ok=True)
    half_epoch_steps = STEPS_PER_EPOCH // 2
    start = first
    pending = list(accuracies)
    with path.open("ab") as file:
        while start < first + len(losses):
            end = min(
                start + half_epoch_steps - (start - 1) % half_epoch_steps, first + len(losses)
            )
            metrics: dict[str, Sequence[float]] = {"loss": losses[start - first : end - first]}
            if (end - 1) % STEPS_PER_EPOCH == 0 and pending:
                gaps = [float("nan")] * (end - start - 1)
                metrics["validation/accuracy"] = [*gaps, pending.pop(0)]
            file.write(_block(run, start, end, metrics, end * step_s + late_s))
            start = end


def _block(
    run: int, start: int, end: int, metrics: Mapping[str, Sequence[float]], seconds: float
) -> bytes:
    epoch = (end - 2) // STEPS_PER_EPOCH + 1
    stamp = (STARTED + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")
    step = (end - 2) % STEPS_PER_EPOCH + 1
    return encode(Block("TRAINING", run, epoch, step, start, stamp, metrics))
