"""What the catalogue's tests share: jobs and items as others hand them to it."""

from __future__ import annotations

from typing import Any

from backend.records.jobs.config import JobConfig, Optimizer
from backend.records.jobs.placement import Placement
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RankError, RunStatus
from backend.records.jobs.view import JobView
from backend.records.library.item import Kind, LibraryItem, Pin
from tests.job_views import replace_fields

CONFIG = JobConfig(
    name="digits",
    model="mlp",
    dataset="digits",
    loader="digits",
    epochs=3,
    batch_size=32,
    optimizer=Optimizer("adam", 0.01, {"betas": (0.8, 0.9)}),
    placement=(Placement("this-computer", 2),),
)


def item(name: str = "digits", version: int = 1, kind: Kind = Kind.DATASET) -> LibraryItem:
    return LibraryItem(
        kind=kind,
        name=name,
        version=version,
        sha256="ab" * 32,
        bytes=2**40,
        files=3,
        created="2026-11-21T08:00:00Z",
        source="/home/anna/digits",
        details={"items": 1797, "warning": ""},
    )


def job(number: int = 1, **changes: Any) -> JobView:
    view = JobView(
        id=f"20261121-{number:06d}",
        name=f"Ziffern Größe {number}",
        config=CONFIG,
        created=f"2026-11-21T08:{number // 60 % 60:02d}:{number % 60:02d}.{number:06d}Z",
        best_metric=("validation/loss", 0.25),
        user="anna",
        notes="with the new optics, 100 %_sure",
        tags=("demo", "Ärger"),
        pins={"model": Pin("mlp", 2, "cd" * 32)},
        status=RunStatus(
            JobState.ERROR,
            run=2,
            epoch=1,
            step=50,
            total_steps=150,
            steps_per_epoch=50,
            metrics={"loss": 0.5, "validation/loss": None},
            message="Rank 1 failed",
            error=RankError("Rank 1: division by zero", 1, "gpu3", "Traceback …"),
            started_at="2026-11-21T08:01:00Z",
            updated_at="2026-11-21T08:02:00Z",
            earlier_gpu_s=0.0,
            earlier_energy_j=0.0,
        ),
    )
    return replace_fields(view, **changes)
