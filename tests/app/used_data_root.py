"""A data root that has been in use: jobs that ended, a sweep, a queue, a long log."""

from __future__ import annotations

from pathlib import Path

from backend.records.base.layout import DataRoot
from backend.records.jobs.config import Optimizer
from backend.records.jobs.state import JobState
from backend.services.context.container import open_services
from backend.services.context.example import create_example
from tests.fakes import trained

SWEEP, SWEEP_NAME, SWEPT = "sweep:digits-k3pf", "digits", 6
FALLING = [2.0 / step for step in range(1, 31)]
QUEUED_NAMES = ("first in line", "second in line", "third in line")
LOG_LINES, FAULT_LINE = 400, 300
NEEDLES = (40, 120, 210)


def move_in(root: Path, catalogue: Path) -> dict[str, str]:
    """The ids of its jobs by their names. The queue is paused."""
    ids = {}
    services = open_services(root, catalogue)
    raw = services.jobs.clone(create_example(services, 1).id)
    services.queue.pause()
    for name in QUEUED_NAMES:
        ids[name] = services.jobs.create({**raw, "name": name, "tags": []}).id
        services.queue.enqueue(ids[name])
    services.close()
    for number, rate in enumerate((0.01, 0.03, 0.1)):
        for size in (16, 32):
            name = f"digits batch={size} lr={rate}"
            ids[name] = trained.job(
                root,
                name,
                FALLING,
                [0.6, 0.7, 0.8 + number / 20],
                optimizer=Optimizer("sgd", rate),
                batch_size=size,
                tags=(SWEEP,),
            )
    ids["slow"] = trained.job(root, "slow", FALLING, [0.7, 0.8, 0.85])
    ids["fast"] = trained.job(
        root, "fast", FALLING[:20], [0.8, 0.9], optimizer=Optimizer("sgd", 0.02), tags=("quick",)
    )
    ids["failed"] = trained.job(root, "failed", FALLING[:12], state=JobState.ERROR)
    log = DataRoot(root).job(ids["failed"]).rank_log(0)
    log.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"step {number}" for number in range(1, LOG_LINES + 1)]
    for number in NEEDLES:
        lines[number - 1] += ", a needle"
    lines[FAULT_LINE - 1] = "Traceback (most recent call last):"
    log.write_text("\n".join(lines) + "\n")
    return ids


def rows_of_all(total: int) -> int:
    """Of a list of so many jobs: those of the sweep are folded into one."""
    return total - SWEPT + 1
