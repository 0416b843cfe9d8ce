"""The invented lab of all pictures: its jobs, nodes, library, and what they went through.

Times are counted back from now, as the window counts them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np

from backend.records.jobs.checkpoint import Checkpoint
from backend.records.jobs.config import JobConfig
from backend.records.jobs.history import HistoryUpdate, RunStart
from backend.records.jobs.job_file import parse_job
from backend.records.jobs.state import JobState
from backend.records.jobs.status import DIVERGED, Alarm, EvidenceLine, RankError, RunStatus
from backend.records.jobs.view import JobView, RunUpdate
from backend.records.nodes.history import PastGpu, PastReading
from backend.records.nodes.reading import NodeState
from backend.records.queue.entry import Cause, Queue, QueuedJob, QueueEntry, WaitReason
from backend.records.slurm.placement import SlurmPlacement
from tests.job_views import replace_fields
from tests.widgets.nodes import samples
from widgets.nodes.history.node_history import NodeHistoryData, to_history_data

NOW = time.time()
MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
LONG_NAME = "retinanet-resnet50-fpn-coco2017-augmented-mosaic-warm-restarts-seed-4711-second-try "
LONG_NODE = "node-rack3-row7-machine-{:03d}.cluster.example.org"
STEPS, TOTAL, PER_EPOCH = 12_480, 19_500, 390
EIGHT = tuple(f"GPU-{n}" for n in range(8))
S = JobState


def ago(seconds: float) -> str:
    return "" if seconds < 0 else datetime.fromtimestamp(NOW - seconds, UTC).isoformat()


def config(
    name: str, *nodes: str, gpus: int = 8, epochs: int = 50, **settings: object
) -> JobConfig:
    """A job file; on this computer where no node is named."""
    parts = name.split(" · ")
    placement: list[dict[str, object]] = [
        {"node": node, "gpus": list(EIGHT[:gpus])} for node in nodes
    ]
    raw = {
        "name": name,
        "model": parts[0].split(",")[0],
        "dataset": "digits" if "digits" in name else parts[-1].split()[0],
        "loader": "digits" if "digits" in name else "coco-boxes",
        "epochs": epochs,
        "batch_size": 16,
        "optimizer": {"name": "sgd", "lr": 0.02, "momentum": 0.9},
        "schedule": {"name": "cosine", "warmup_epochs": 3},
        "placement": placement or [{"node": "this-computer", "processes": 2}],
        **settings,
    }
    config = parse_job(raw).config
    assert config is not None, parse_job(raw).errors
    return config


def job(
    key: str,
    name: str,
    state: JobState,
    job_config: JobConfig,
    share: float = 0.0,
    best: tuple[str, float] | None = None,
    *,
    start_age_s: float = -1.0,
    end_age_s: float = -1.0,
    user: str = "mai",
    **fields: object,
) -> JobView:
    """Create a job. Ages are in seconds; -1 where the run did not start or end."""
    view = JobView(
        key,
        name,
        job_config,
        ago(max(start_age_s, HOUR) + HOUR),
        RunStatus(
            state,
            run=int(start_age_s >= 0),
            epoch=round(job_config.epochs * share),
            step=int(TOTAL * share),
            total_steps=TOTAL,
            steps_per_epoch=PER_EPOCH,
            started_at=ago(start_age_s),
            updated_at=ago(end_age_s),
        ),
        best_metric=best,
        user=user,
    )
    if end_age_s >= 0 and job_config.uses_gpus:
        view = replace_fields(
            view, energy_j=330.0 * job_config.world_size * (start_age_s - end_age_s)
        )
    return replace_fields(view, **fields)


TWO_NODES = config("retinanet-r50 · coco", "gpu06", "gpu07")
IN_SLURM_CONFIG = replace(
    TWO_NODES,
    placement=tuple(
        replace(placement, node=f"a100-{number:03}", gpus=tuple(f"slurm:{n}" for n in range(8)))
        for number, placement in zip((17, 23), TWO_NODES.placement, strict=True)
    ),
    allocation=SlurmPlacement("hpc", 2, gpus=8, partition="a100", time_limit_min=720),
)
STEP_MS = tuple(471.0 if rank == 11 else 344.0 + rank * 37 % 17 for rank in range(16))
RISING_LOSS = Alarm(DIVERGED, 11_900, "The loss is 2.31, 4.2 times its best (0.55 at step 9 850).")
LIVE = job(
    "j1", samples.JOBS["j1"], S.TRAINING, TWO_NODES, STEPS / TOTAL, ("validation/mAP", 0.371),
    start_age_s=74 * MINUTE, metrics={"loss": 0.277}, eta_s=41 * MINUTE, samples_per_second=551.0,
    rank_step_ms=STEP_MS, slow_ranks=(11,), tags=("baseline",),
    notes="The reference for everything on coco.",
)  # fmt: skip
IN_SLURM = replace(LIVE, config=IN_SLURM_CONFIG)
IN_SLURM_QUEUE = job(
    "j1", samples.JOBS["j1"], S.QUEUED,
    replace(IN_SLURM_CONFIG, placement=IN_SLURM_CONFIG.allocation.placements()),
    start_age_s=MINUTE,
    started_at="",
    message="Waits in Slurm's queue. It waits for nodes or GPUs to become free. "
    "Slurm expects to start it at 2026-12-01 18:40:00.",
)  # fmt: skip
EVALUATING = job(
    "j2", samples.JOBS["j2"], S.EVALUATING, config("unet-cells · cells", "gpu01", gpus=4), 0.91,
    ("validation/dice", 0.902), start_age_s=52 * MINUTE, user="ben", eta_s=6 * MINUTE,
    metrics={"loss": 0.09}, rank_step_ms=(212.0, 209.0, 214.0, 211.0),
)  # fmt: skip
QUEUED = job("j3", "retinanet-r50 · lr 0.08", S.QUEUED, TWO_NODES)
STOPPED = job(
    "j4", "vit-s16 · plankton", S.INTERRUPTED, config("vit-s16 · plankton", "gpu03"), 0.48,
    ("validation/top-1", 0.824), start_age_s=20 * HOUR, end_age_s=17 * HOUR,
    message="Stopped by mai, saved at step 9 360",
)  # fmt: skip
TRACE = (
    "Traceback (most recent call last):",
    '  File "/lab/ring/models/vit-s16/v3/src/bks_model.py", line 88, in forward',
    "    x = self.blocks(x) + self.position",
    '  File "/lab/ring/models/vit-s16/v3/src/blocks.py", line 41, in forward',
    "    a = (q @ k.transpose(-2, -1)) * self.scale",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.30 GiB. GPU 3 has a total "
    "capacity of 79.10 GiB of which 1.02 GiB is free.",
)
FAILED = job(
    "j5", "vit-s16 · plankton adamw", S.ERROR,
    config("vit-s16 · plankton", "gpu03", batch_size=32), 0.41, ("validation/top-1", 0.817),
    start_age_s=6 * HOUR, end_age_s=4 * HOUR, metrics={"loss": 1.07},
    message="Rank 3 on gpu03: Out of GPU memory. Try batch size 16 instead of 32.",
    error=RankError(
        "Out of GPU memory. Try batch size 16 instead of 32.", 3, "gpu03",
        "\n".join(TRACE), "gpu_memory", "",
        tuple(EvidenceLine("rank-3.log", 894 + n, TRACE[n]) for n in (1, 5)),
    ),
)  # fmt: skip
LOST_JOB = job(
    "j8", "speech-ctc · small", S.LOST, config("speech-ctc · speech", "gpu11"), 0.77,
    ("validation/WER", 0.142), start_age_s=15 * HOUR, end_age_s=12 * HOUR, user="chen",
    message="No news from gpu11 since 03:12",
)  # fmt: skip
FINISHED = job(
    "j6", "digits, two workers", S.FINISHED, config("digits, two workers", epochs=20), 1.0,
    ("validation/accuracy", 0.981), start_age_s=2 * HOUR, end_age_s=2 * HOUR - 48, user="lan",
    metrics={"loss": 0.061},
)  # fmt: skip
DRAFT = job("j12", "gan-textures · 256", S.CREATED, config("gan-textures · textures", "gpu02"))
_GPU02 = config("deeplab · road-scenes", "gpu02")
_DIGITS = config("digits · lr 0.1")
JOBS = (
    LIVE, EVALUATING, QUEUED, STOPPED, FAILED, FINISHED,
    job("j7", "deeplab · road scenes", S.FINISHED, _GPU02, 1, ("validation/mIoU", 0.764),
        start_age_s=29 * HOUR, end_age_s=24 * HOUR, user="chen", tags=("roads",)),
    LOST_JOB,
    job("j9", "unet-cells · baseline", S.FINISHED, EVALUATING.config, 1, ("validation/dice", 0.887),
        start_age_s=3 * DAY, end_age_s=3 * DAY - 3 * HOUR, user="ben", tags=("baseline", "cells")),
    job("j10", "digits · lr 0.1", S.FINISHED, _DIGITS, 1, ("validation/accuracy", 0.979),
        start_age_s=3 * DAY, end_age_s=3 * DAY - 44),
    job("j11", "retinanet-r50 · frozen bn", S.FINISHED, TWO_NODES, 1, ("validation/mAP", 0.362),
        start_age_s=4 * DAY, end_age_s=4 * DAY - 2 * HOUR),
    DRAFT,
    job("j13", "deeplab · road scenes lr 0.02", S.FINISHED, _GPU02, 1, ("validation/mIoU", 0.751),
        start_age_s=5 * DAY, end_age_s=5 * DAY - 5 * HOUR, user="chen", tags=("roads",)),
)  # fmt: skip
LONG_JOBS = (
    replace(LIVE, name=LONG_NAME, tags=("a tag that goes on and on", "b", "c")),
    replace(FAILED, name=LONG_NAME + "lr 0.1", user="somebody-with-a-long-name"),
    replace(
        LOST_JOB,
        name=LONG_NAME + "lr 0.2",
        config=config("a · b", *(LONG_NODE.format(n) for n in range(64))),
        best_metric=("validation/a metric with quite a long name", 0.142),
    ),
    *(replace(DRAFT, id=f"d{n}", name=f"{n} {LONG_NAME}") for n in range(3)),
)
UNKNOWN = replace_fields(
    FAILED,
    message="Rank 3 on gpu03 exited with code 7, and its log does not say why.",
    error=RankError(
        "Rank 3 on gpu03 exited with code 7, and its log does not say why.", 3, "gpu03", "",
        "unknown", "",
        tuple(EvidenceLine("rank-3.log", 870 + n, f"step {8200 + n}  loss {1.1 - n / 99:.4f}")
              for n in range(15)),
    ),
)  # fmt: skip


def many_jobs(count: int = 3000) -> tuple[JobView, ...]:
    ended_jobs = [view for view in JOBS if view.state.is_over]
    copies = (
        replace(
            ended_jobs[n % len(ended_jobs)],
            id=f"m{n}",
            name=f"{ended_jobs[n % len(ended_jobs)].name} {n}",
        )
        for n in range(count)
    )
    return (*JOBS, *copies)


def queue() -> Queue:
    """Return a queue with one job."""
    reason = WaitReason(Cause.BUSY, "“retinanet-r50 · coco 2x” is on gpu06 and gpu07.")
    entry = QueueEntry(QUEUED.id, QUEUED.name, 1, QUEUED.config.placement, "m1")
    return Queue((QueuedJob(entry, 1, reason, 41 * MINUTE),))


def long_queue() -> tuple[tuple[JobView, ...], Queue]:
    """Nine wait, for all there is to wait for."""
    reasons = (
        WaitReason(Cause.BUSY, "“retinanet-r50 · coco 2x” is on gpu06 and gpu07."),
        WaitReason(
            Cause.TURN,
            ("Waiting for “retinanet-r50 · lr 0.08”, which is before it in the queue on gpu06."),
        ),
        WaitReason(Cause.FOREIGN, "GPU 1 of gpu03 is in use by alice: python (pid 4711)."),
        WaitReason(Cause.NOT_BEFORE, "Not before 02:00 on 22 November."),
    )
    views, queued_jobs = [], []
    for n in range(9):
        name = LONG_NAME if n == 4 else f"retinanet-r50 · lr {0.08 + n / 100:.2f}"
        view = replace(QUEUED, id=f"q{n}", name=name)
        entry = QueueEntry(view.id, name, 1, view.config.placement, "m1", priority=5 - n)
        wait_s = 41 * MINUTE * (n + 1) if n < 2 else None
        views.append(view)
        queued_jobs.append(QueuedJob(entry, n + 1, reasons[n % 4], wait_s))
    return (LIVE, *views, DRAFT), Queue(tuple(queued_jobs))


def checkpoints(view: JobView = LIVE) -> tuple[Checkpoint, ...]:
    """Return the checkpoints that retention keeps: the newest two and the best."""
    epoch = view.status.epoch - 1
    epochs = (epoch - 12, epoch - 2, epoch)
    return tuple(
        Checkpoint(
            f"epoch-{kept_epoch:04d}-step-{kept_epoch * PER_EPOCH:06d}",
            1,
            kept_epoch,
            kept_epoch * PER_EPOCH,
            0,
            306_000_000,
            f"{kept_epoch:02d}" * 32,
            "cd" * 32,
            ago(NOW - _end_s(view) + 4 * MINUTE + 2.3 * MINUTE * (epoch - kept_epoch)),
            {"validation/loss": (0.402, 0.361, 0.368)[n]},
            "policy",
            is_latest=n == 2,
            is_best=n == 1,
        )
        for n, kept_epoch in enumerate(epochs)
        if kept_epoch > 0
    )


def _end_s(view: JobView) -> float:
    """Return the time when a job ended, or the current time."""
    return datetime.fromisoformat(view.status.ended_at).timestamp() if view.status.ended_at else NOW


def history(view: JobView, *, seed: int = 1, rises_at: int = 0) -> RunUpdate:
    """The curves of a run up to its last step; with ``rises_at`` the loss diverges from there."""
    chance = np.random.default_rng(seed)
    count = max(view.step, 1)
    steps = np.arange(1, count + 1)
    share = steps / TOTAL
    smooth_loss = 0.26 + 2.4 * np.exp(-share * 9.0) + 0.25 * np.exp(-share * 2.0)
    smooth_loss -= 0.09 / (1 + np.exp(-(share - 0.47) / 0.008))
    # The curves end at what the head of the job says.
    smooth_loss *= dict(view.status.metrics).get("loss", smooth_loss[-1]) / smooth_loss[-1]
    if rises_at:
        smooth_loss += np.maximum(0, steps - rises_at) / 900
    loss = smooth_loss * chance.lognormal(0.0, 0.06, count)
    is_epoch_end = steps % PER_EPOCH == 0
    validation_loss, best_values = np.full(count, np.nan), np.full(count, np.nan)
    validation_loss[is_epoch_end] = (
        smooth_loss[is_epoch_end]
        + 0.09
        + 0.05 * share[is_epoch_end]
        + chance.normal(0, 0.006, is_epoch_end.sum())
    )
    best_values[is_epoch_end] = 0.38 * (1 - np.exp(-share[is_epoch_end] * 6.0)) + chance.normal(
        0, 0.003, is_epoch_end.sum()
    )
    if view.best_metric is not None and is_epoch_end.any():
        best_values *= view.best_metric[1] / np.nanmax(best_values)
    speed = np.where(share < 0.38, 734.0, 551.0) + chance.normal(0, 5.0, count)
    warm = 3 * PER_EPOCH
    learning_rate = np.where(steps < warm, steps / warm, 0.5 + 0.5 * np.cos(np.pi * share)) * 0.04
    metric = (view.best_metric or ("validation/mAP", 0.0))[0]
    pace = 0.355
    if view.status.ended_at and view.status.started_at:
        pace = (_end_s(view) - datetime.fromisoformat(view.status.started_at).timestamp()) / count
    update = HistoryUpdate(
        steps,
        (steps - 1) // PER_EPOCH + 1,
        steps * pace,
        {
            "loss": loss,
            "validation/loss": validation_loss,
            metric: best_values,
            "samples_per_second": speed,
            "learning_rate": learning_rate,
        },
        (RunStart(1, 1),),
        0,
        started_s=_end_s(view) - count * pace,
    )
    return RunUpdate(view, update)


# The nodes.

_KINDS = (
    *("half", "free", "few", "free", "few", "ours"),
    *("ours", "other", "free", "few", "half", "free"),
)


def nodes() -> tuple[NodeState, ...]:
    """Twelve: one is slowed by heat, and one is gone."""
    states = [samples.state(f"gpu{n:02d}", kind) for n, kind in enumerate(_KINDS, 1)]
    states[6] = samples.hot_node(states[6])
    states[10] = samples.offline_node(states[10])
    return tuple(states)


def agent_history(name: str, *, over_s: float = 90 * MINUTE) -> NodeHistoryData:
    """Return the readings of an agent over hours or days; on gpu07 one GPU gets hot."""
    lines = []
    chance = np.random.default_rng(3)
    hours = 90 * MINUTE
    steps = [(s, 300.0) for s in np.arange(-over_s, -hours, 300.0).tolist()]
    steps += [(s, 20.0) for s in np.arange(-hours, 0, 20.0).tolist()]
    for second, every_s in steps:
        heat = 25 * min(1.0, max(0.0, (second + 40 * MINUTE) / 600)) if name == "gpu07" else 0.0
        gpus = []
        for n in range(8):
            extra_c = heat if n == 3 else 0.0
            wave = 1.5 * np.sin(second / 700 + n) + chance.normal(0, 0.4)
            is_slowed = extra_c > 20
            message = "slowed by heat" if is_slowed else ""
            clock = 1060.0 if is_slowed else 1410.0
            gpus.append(PastGpu(EIGHT[n], 66.0 + wave + extra_c, clock, 94.0 + wave, 61.0, 372.0,
                                message, is_slowed, 2.0 * n * (second > -HOUR), 0.0))  # fmt: skip
        lines.append(PastReading(NOW + second, 46.0, 1e9, tuple(gpus), every_s))
    return to_history_data(lines)


def full_memory(view: JobView = FAILED) -> NodeHistoryData:
    """Return the readings of an agent in the half hour before the memory of a GPU was full."""
    lines = []
    end, chance = _end_s(view), np.random.default_rng(4)
    for second in np.arange(-40 * MINUTE, 30, 20.0).tolist():
        growth_percents = 18.0 * max(0.0, min(1.0, (second + 130) / 60)), 23.0 * float(second > -25)
        gpus = []
        for n in range(8):
            extra_percent = sum(growth_percents) if n == 3 else 0.0
            memory = min(100.0, 58.0 + n % 3 + chance.normal(0, 0.4) + extra_percent)
            gpus.append(PastGpu(EIGHT[n], 66.0, 1410.0, 94.0, memory, 372.0, "", False))
        lines.append(PastReading(end + second, 46.0, 1e9, tuple(gpus)))
    return to_history_data(lines)


def live(views: Sequence[JobView] = JOBS) -> tuple[JobView, ...]:
    return tuple(view for view in views if view.state.is_live)


LOG = (
    "── run 1, rank 3 on gpu03, 2026-11-21T09:38:12Z ──",
    "\x1b[2m09:38:14\x1b[0m \x1b[1;34mINFO\x1b[0m  model \x1b[35mvit-s16\x1b[0m, 22 M weights",
    "\x1b[2m09:38:15\x1b[0m \x1b[1;33mWARN\x1b[0m  no \x1b[4mpretrained\x1b[0m weights given",
    "/usr/lib/python3/site-packages/torch/functional.py:1: UserWarning: " + "a long line, " * 40,
    *(
        f"\x1b[2m09:{38 + n // 60:02d}:{n % 60:02d}\x1b[0m "
        f"\x1b[32mstep {n:5d}\x1b[0m  loss {2 / (n + 2):.4f}"
        for n in range(16, 900)
    ),
    *TRACE,
)
