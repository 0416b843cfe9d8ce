"""Jobs of three sweeps, and other jobs."""

from __future__ import annotations

from dataclasses import replace

from backend.records.jobs.state import JobState
from backend.records.jobs.status import RankError
from backend.records.jobs.view import JobView
from tests.widgets.jobs.list.test_jobs_table import LOCAL_CONFIG, NODE, TWO, VIEWS, job

S = JobState
LR = "sweep:digits lr"
LONG = "sweep:a sweep whose owner was never told where a name is to end, and went on and on"


def swept(tag, values, state, number, **changes):
    view = job(
        f"{tag[6:]} {values}",
        state,
        changes.pop("config", LOCAL_CONFIG),
        tags=(tag, "mnist"),
        **changes,
    )
    return replace(view, id=f"{tag[6:20]}-{number}", created=f"2026-11-20T08:{number:02d}:00Z")


LR_JOBS: tuple[JobView, ...] = (
    swept(LR, "lr=0.3", S.ERROR, 0, share=0.2, begun=3, took=0.2,
          error=RankError("The loss is not a number.", 0, "this-computer")),
    swept(LR, "lr=0.1", S.FINISHED, 1, share=1, best=("validation/loss", 0.0412), begun=3, took=1),
    swept(LR, "lr=0.05", S.FINISHED, 2, share=1, best=("validation/loss", 0.0631), begun=2, took=1),
    swept(LR, "lr=0.02", S.FINISHED, 3, share=1, best=("validation/loss", 0.11), begun=2, took=1),
    swept(LR, "lr=0.01", S.TRAINING, 4, share=0.64, best=("validation/loss", 0.31), begun=0.5),
    swept(LR, "lr=0.005", S.TRAINING, 5, share=0.3, begun=0.25),
)  # fmt: skip
LONG_JOBS: tuple[JobView, ...] = tuple(
    swept(LONG, f"optimizer=adamw batch={2 ** n} lr=0.00{n + 1}", S.FINISHED, n, share=1,
          best=("validation/a metric with a long name", 0.5 + n / 100), begun=30 + n, took=5.5,
          config=TWO, user="somebody-with-a-long-name")
    for n in range(9)
)  # fmt: skip
WAITING_JOBS: tuple[JobView, ...] = tuple(
    swept("sweep:unet seeds", f"seed={n}", S.QUEUED, n, config=NODE) for n in range(3)
)
ALL_JOBS = (*VIEWS, *LR_JOBS, *LONG_JOBS, *WAITING_JOBS)
