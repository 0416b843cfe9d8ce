"""An open job: its states, its banners, each of its tabs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from PySide6.QtWidgets import QMenu

from backend.records.jobs.audit_entry import AuditEntry
from backend.records.jobs.config import StrategyConfig
from backend.records.jobs.history import RunStart
from backend.records.jobs.job_file import parse_job
from backend.records.jobs.placement import Placement
from backend.records.jobs.prediction import Guess, PredictedSample
from backend.records.jobs.sample_history import SampleAnswer, SampleHistory, SampleValidation
from backend.records.jobs.script import SESSION
from backend.records.jobs.slow_cause import Cause, SlowCause, StepTimes
from backend.records.jobs.state import JobState
from backend.records.jobs.status import DIVERGED, LOSS_NOT_A_NUMBER, NOT_A_NUMBER, Alarm, RankError
from backend.records.jobs.view import JobCommand, JobRun
from backend.records.nodes.reading import Presence
from tests.job_views import replace_fields
from tests.pictures import lab
from tests.pictures.gallery import EVERY, LARGE, SMALL, SMALLEST, WIDE, screen
from tests.pictures.screens.jobs import open_job
from tests.pictures.screens.library import digits
from tests.pictures.screens.tries import detections
from tests.pictures.stage import Stage
from tests.widgets.jobs.jobs_rig import show_jobs
from tests.widgets.jobs.log.test_log_tab import Logs
from tests.windows import find_only
from widgets.jobs.curves.curves_layout import LargePlot
from widgets.library.install_dialog import InstallDialog
from widgets.nodes.history.node_history import NodeHistory
from widgets.plots.curve_data import XAxis

THREE = (LARGE, SMALL, SMALLEST)


def _with_view(view):
    """Return all jobs, ``view`` in place of the job with its id."""
    return tuple(view if job.id == view.id else job for job in lab.JOBS)


@screen("job-slow-rank", (LARGE, SMALL, WIDE))
def job_slow_rank(stage: Stage) -> None:
    page = open_job(stage)
    page.detail.show_nodes(lab.nodes())
    page.detail.show_view(lab.LIVE)
    scroll = page.detail.curves.ranks
    scroll.parentWidget().parentWidget().parentWidget().ensureWidgetVisible(scroll)


@screen("job-slurm", THREE)
def job_slurm(stage: Stage) -> None:
    """A job on nodes that Slurm chose, beside the nodes of the lab."""
    open_job(stage, lab.IN_SLURM, _with_view(lab.IN_SLURM)).detail.show_view(lab.IN_SLURM)


@screen("job-slurm-waiting", THREE)
def job_slurm_waiting(stage: Stage) -> None:
    view = lab.IN_SLURM_QUEUE
    open_job(stage, view, _with_view(view)).detail.show_view(view)


@screen("job-session", THREE)
def job_session(stage: Stage) -> None:
    """JupyterLab on two GPUs; the browser is one click away."""
    config = parse_job(
        {
            "name": "session on gpu06",
            "script": f"{SESSION}@1",
            "entry": "session.py",
            "arguments": ["--hours", "8", "--idle-min", "30"],
            "processes_per": "node",
            "placement": [lab.TWO_NODES.placement[0].to_dict()],
        }
    ).config
    assert config is not None
    view = replace_fields(
        lab.LIVE,
        name=config.name,
        config=config,
        best_metric=None,
        epoch=0,
        total_steps=0,
        step=0,
        metrics={},
        eta_s=None,
        rank_step_ms=(),
        slow_ranks=(),
        unused_s=740.0,
    )
    page = open_job(stage, view, _with_view(view))
    page.detail.show_view(view)


@screen("job-why-slow", THREE)
def job_why_slow(stage: Stage) -> None:
    """A rank waits for its loader; each cell has the parts of a step."""
    _show_cause(stage, SlowCause(Cause.DATA, 11, 131.0, 492.0, 4.0), (11,))


@screen("job-network", (LARGE, SMALL))
def job_network(stage: Stage) -> None:
    """Communication takes most of a step on every rank."""
    _show_cause(stage, SlowCause(Cause.COMMUNICATION, None, 420.0, 790.0), ())


def _show_cause(stage: Stage, cause: SlowCause, slow_ranks: tuple[int, ...]) -> None:
    data = tuple(131.0 if rank in slow_ranks else 4.0 for rank in range(16))
    compute = tuple(336.0 + rank * 37 % 17 for rank in range(16))
    step_ms = tuple(round(sum(parts), 1) for parts in zip(data, compute, strict=True))
    waits = tuple(max(step_ms) - item for item in step_ms)
    exchange = 420.0 if cause.rank is None else 21.0
    on_cpus = tuple(Placement(item.node, 8) for item in lab.TWO_NODES.placement)
    view = replace_fields(
        lab.LIVE,
        config=replace(lab.TWO_NODES, placement=on_cpus),
        rank_step_ms=step_ms,
        slow_ranks=slow_ranks,
        slow_cause=cause,
        step_times=StepTimes(data, compute, waits, exchange),
    )
    page = open_job(stage, view, _with_view(view))
    page.detail.show_view(view)
    strip = page.detail.curves.ranks
    stage.settle()
    page.detail.curves._scroll.ensureWidgetVisible(strip)
    stage.settle()


@screen("job-warns", THREE)
def job_warns(stage: Stage) -> None:
    view = replace_fields(
        lab.LIVE, alarms=(Alarm(NOT_A_NUMBER, 4000, "One batch was no number."), lab.RISING_LOSS)
    )
    open_job(stage, view, _with_view(view), rises_at=11_000)


@screen("curves-read", (LARGE, SMALL, WIDE))
def curves_read(stage: Stage) -> None:
    """The pointer is on the loss, and every plot says what it was there."""
    page = open_job(stage)
    stage.settle()
    find_only(LargePlot, page.detail.curves).move_pointer(5_000.0)


@screen("curves-samples", (LARGE, SMALL, WIDE))
def curves_samples(stage: Stage, is_detector: bool = False) -> None:
    """The fixed validation samples below the loss, with the answers at the last validation."""
    page = open_job(stage)
    stage.settle()
    samples = tuple(PredictedSample(sample, "") for sample in digits()[:10])
    guesses = [(Guess(str(n + n // 7), 0.98 - n / 14),) for n in range(10)]
    answers = tuple(SampleAnswer(guess) for guess in guesses)
    if is_detector:
        samples = detections().examples[:10]
        answers = tuple(SampleAnswer(boxes=sample.boxes) for sample in samples)
    validations = tuple(SampleValidation(540 * n, n, answers) for n in range(1, 20))
    page.detail.curves.samples.show_samples(SampleHistory(samples, validations))


screen("curves-samples-boxes", (LARGE,))(lambda stage: curves_samples(stage, is_detector=True))


def downpour(stage: Stage, tab: str = ""):
    """A job of one server and fifteen workers."""
    config = replace(lab.TWO_NODES, strategy=StrategyConfig("downpour"))
    view = replace_fields(lab.LIVE, config=config, rank_step_ms=(0.0, *lab.STEP_MS[1:]))
    page = open_job(stage, view, _with_view(view))
    update = lab.history(view)
    steps = update.history.steps
    chance = np.random.default_rng(5)
    mean = 14 + chance.normal(0, 0.4, len(steps)) + 3 * np.exp(-steps / 900)
    strategy_metrics = {
        "staleness mean": mean,
        "staleness p95": np.round(mean + 7 + chance.normal(0, 0.6, len(steps))),
        "staleness max": np.round(mean + 14 + chance.normal(0, 2.0, len(steps))),
        "pushes per second": 43 + chance.normal(0, 1.0, len(steps)),
        "server queue": np.round(np.abs(chance.normal(0, 0.9, len(steps)))),
    }
    metrics = {**update.history.metrics, **strategy_metrics}
    page.detail.curves.clear(view.name, view.id)
    page.detail.curves.append(replace(update.history, metrics=metrics))
    page.detail.show_nodes(lab.nodes())
    page.detail.show_view(view)
    if tab:
        page.detail.tabs.choose(tab)
    return page


@screen("job-downpour", (LARGE, SMALL, WIDE))
def job_downpour(stage: Stage) -> None:
    """Staleness, pushes and the queue of the server have their plots."""
    curves = downpour(stage).detail.curves
    stage.settle()
    curves._scroll.ensureWidgetVisible(curves.ranks)
    stage.settle()


screen("ranks-downpour")(lambda stage: downpour(stage, "ranks"))


@screen("curves-log", (LARGE, SMALL, WIDE))
def curves_log(stage: Stage) -> None:
    """Both axes logarithmic: each step of the first hundred has its room."""
    curves = open_job(stage).detail.curves
    curves.toggle_log_y()
    curves.toggle_log_x()
    curves._axis_choice._group.button(curves._axis_choice._keys.index("time")).click()


@screen("curves-marked")
def curves_marked(stage: Stage) -> None:
    """The job was stopped, failed and resumed; some losses were NaN, and one was an outlier."""
    page = stage.jobs
    show_jobs(page, lab.JOBS)
    page.open_job(lab.LIVE.id)
    update = lab.history(lab.LIVE)
    loss = update.history.metrics["loss"].copy()
    loss[8_000], loss[6_000:6_020], loss[10_500:10_600] = 900.0, float("nan"), float("inf")
    starts = (
        RunStart(1, 1),
        RunStart(2, 3_901, JobState.INTERRUPTED),
        RunStart(3, 9_361, JobState.ERROR),
    )
    metrics = {**update.history.metrics, "loss": loss}
    page.show_update(
        replace(update, history=replace(update.history, metrics=metrics, run_starts=starts))
    )
    page.detail.show_checkpoints(lab.LIVE.id, lab.checkpoints(lab.LIVE))
    page.detail.curves._axis_choice._group.button(
        page.detail.curves._axis_choice._keys.index("clock")
    ).click()
    stage.settle()
    curves = page.detail.curves
    find_only(LargePlot, curves).move_pointer(curves.run_curves.x_at_step(8_000, XAxis.CLOCK))


@screen("job-in-doubt")
def job_in_doubt(stage: Stage) -> None:
    view = replace(lab.LIVE, contact_warning="no news from gpu06 since 14:02")
    stage.show_cluster((view, lab.EVALUATING), lab.nodes())
    open_job(stage, view, _with_view(view))


@screen("job-stopping")
def job_stopping(stage: Stage) -> None:
    view = replace_fields(lab.LIVE, state=JobState.STOPPING, message="mai stopped it.", eta_s=None)
    open_job(stage, view, _with_view(view))


@screen("job-overdue")
def job_overdue(stage: Stage) -> None:
    """The job should have stopped by now."""
    view = replace_fields(
        lab.LIVE, state=JobState.STOPPING, message="Stop requested by ben.", eta_s=None
    )
    page = open_job(stage, view, _with_view(view))
    page.detail._stopping_s = -1e6
    page.detail.show_view(view)


_RUNS = (
    JobRun(3, JobState.TRAINING, started_at=lab.LIVE.status.started_at,
           first_step=1, last_step=9600),
    JobRun(2, JobState.INTERRUPTED, 2, "Stopped by ben. Saved at epoch 4, step 4,000.",
           "2026-11-12T09:10:00Z", "2026-11-12T13:04:00Z", 2001, 4000),
    JobRun(1, JobState.ERROR, 2, "", "2026-11-11T16:00:00Z", "2026-11-11T18:21:00Z", 1, 2000),
)  # fmt: skip


def _with_runs(stage: Stage):
    view = replace_fields(lab.LIVE, run=3)
    return open_job(stage, view, _with_view(view)).detail


@screen("job-runs")
def job_runs(stage: Stage) -> None:
    detail = _with_runs(stage)
    stage.settle()
    detail.show_runs(lab.LIVE.id, _RUNS)
    stage.overlay = next(menu for menu in detail.findChildren(QMenu) if menu.isVisible())


@screen("job-earlier-run", THREE)
def job_earlier_run(stage: Stage) -> None:
    detail = _with_runs(stage)
    detail._earlier_runs.show_runs(_RUNS)
    earlier_view = replace_fields(lab.STOPPED, id=lab.LIVE.id, name=lab.LIVE.name, run=2)
    detail.show_earlier_run(lab.LIVE.id, 2, lab.history(earlier_view))


@screen("job-set-up")
def job_set_up(stage: Stage) -> None:
    view = replace_fields(lab.LIVE, state=JobState.SETUP, step=0, epoch=0, metrics={},
                   best_metric=None, eta_s=None, samples_per_second=None,
                   rank_step_ms=(), slow_ranks=())  # fmt: skip
    page = open_job(stage, replace_fields(view, run=0), _with_view(view))
    page.show_view(view)


screen("stopped", THREE)(lambda stage: open_job(stage, lab.STOPPED))


@screen("stopped-at-once")
def stopped_at_once(stage: Stage) -> None:
    """Before its first checkpoint: there is nothing to go on from."""
    message = "Stopped before the first step; there is no checkpoint yet."
    view = replace_fields(lab.STOPPED, step=0, epoch=0, metrics={}, best_metric=None)
    page = open_job(stage, replace_fields(view, message=message))
    page.detail.curves.clear(lab.STOPPED.name)
    page.detail.show_checkpoints(lab.STOPPED.id, ())


screen("draft")(lambda stage: open_job(stage, lab.DRAFT))
screen("queued")(lambda stage: open_job(stage, lab.QUEUED))
screen("finished")(lambda stage: open_job(stage, lab.FINISHED))


@screen("refused")
def refused_start(stage: Stage) -> None:
    page = open_job(stage, lab.STOPPED)
    page.detail.show_error(
        lab.STOPPED.id,
        "gpu03 did not answer for 10 s, so nothing was started.",
        "Check again, or resume on other nodes.",
    )


def _open_failed(stage: Stage, view, tab: str = "failure", **options):
    page = open_job(stage, view, _with_view(view), tab=tab, **options)
    return page.detail


@screen("failed", EVERY)
def failed(stage: Stage) -> None:
    detail = _open_failed(stage, lab.FAILED)
    detail.show_nodes(lab.nodes())
    history = NodeHistory()
    history.set_agent_history(lab.full_memory())
    detail.show_node_histories({"gpu03": history}, {}, lab.NOW)


# The node has no history, so the loss stands alone.
screen("failed-no-past")(lambda stage: _open_failed(stage, lab.FAILED))


@screen("failed-at-once")
def failed_at_once(stage: Stage) -> None:
    """Before its first step: there is no curve at all."""
    view = replace_fields(lab.FAILED, step=0, epoch=0, metrics={}, best_metric=None)
    page = stage.jobs
    show_jobs(page, _with_view(view))
    page.open_job(view.id)
    page.detail.show_checkpoints(view.id, ())


@screen("failed-diverged")
def failed_diverged(stage: Stage) -> None:
    """The loss ran away, and then was no number."""
    first_alarm = Alarm(
        DIVERGED, 7_700, "The loss is 2.31, 4.2 times its best (0.55 at step 7 350)."
    )
    last_alarm = Alarm(
        NOT_A_NUMBER, lab.FAILED.step, "The loss became NaN at step 7994 (epoch 20)."
    )
    error = RankError(
        last_alarm.message,
        1,
        "gpu03",
        cause=LOSS_NOT_A_NUMBER,
        remedy="Resume with a lower learning rate, or clone the job with gradient clipping.",
    )
    view = replace_fields(
        lab.FAILED, alarms=(first_alarm, last_alarm), message=last_alarm.message, error=error
    )
    _open_failed(stage, view, rises_at=7_400)


screen("failed-unknown")(lambda stage: _open_failed(stage, lab.UNKNOWN))


@screen("failed-module")
def failed_module(stage: Stage) -> None:
    message = "bks_model.py, line 4 needs the module “timm_extras”, which is not installed here."
    trace = "ModuleNotFoundError: No module named 'timm_extras'"
    error = RankError(message, 3, "gpu03", trace, "module_missing")
    _open_failed(stage, replace_fields(lab.FAILED, message=message, error=error))


@screen("install-package")
def install_package(stage: Stage) -> None:
    failed_module(stage)
    dialog = stage.lay_over(InstallDialog("timm_extras", ("gpu03", "gpu04"), stage.window))
    dialog.show_error("timm_extras is not installed on gpu03: pip could not fetch the wheels.")


screen("failed-lost")(lambda stage: _open_failed(stage, lab.LOST_JOB))


@screen("failed-warned")
def failed_warned(stage: Stage) -> None:
    """The job had warned before it ended."""
    last_alarm = Alarm(NOT_A_NUMBER, lab.FAILED.step, "The loss of rank 1 is not a number.")
    view = replace_fields(lab.FAILED, alarms=(lab.RISING_LOSS, last_alarm))
    _open_failed(stage, view, "curves")


screen("failed-curves")(lambda stage: _open_failed(stage, lab.FAILED, "curves"))


def _ranks(stage: Stage, nodes, with_past: bool = True) -> None:
    page = open_job(stage, tab="ranks")
    page.detail.show_nodes(nodes)
    histories = {}
    for state in nodes if with_past else ():
        histories[state.name] = NodeHistory()
        histories[state.name].set_agent_history(lab.agent_history(state.name))
    page.detail.show_node_histories(histories, {state.name: "2 s ago" for state in nodes}, lab.NOW)


screen("ranks", EVERY)(lambda stage: _ranks(stage, lab.nodes()))


@screen("ranks-no-updates")
def ranks_no_updates(stage: Stage) -> None:
    offline_states = (replace(s, presence=Presence.OFFLINE, reading=None) for s in lab.nodes())
    _ranks(stage, tuple(offline_states), with_past=False)


@screen("checkpoints", EVERY)
def checkpoints(stage: Stage) -> None:
    page = open_job(stage, tab="checkpoints")
    first_checkpoint, *remaining_checkpoints = lab.checkpoints()
    page.detail.show_checkpoints(
        lab.LIVE.id, (replace(first_checkpoint, is_kept=True), *remaining_checkpoints)
    )
    page.detail.checkpoints.show_file_check(first_checkpoint.name, "checked", "found right")


screen("checkpoints-empty")(lambda stage: open_job(stage, lab.DRAFT, tab="checkpoints"))


@screen("checkpoints-reading")
def checkpoints_reading(stage: Stage) -> None:
    page = open_job(stage, tab="checkpoints")
    page.detail.checkpoints.begin_reading()


@screen("checkpoints-unreadable")
def checkpoints_unreadable(stage: Stage) -> None:
    checkpoints_reading(stage)
    stage.jobs.detail.checkpoints.show_error(
        "/lab/ring/jobs does not answer: stale file handle. Mount the share again."
    )


@screen("checkpoints-huge")
def checkpoints_huge(stage: Stage) -> None:
    page = open_job(stage, lab.FINISHED, tab="checkpoints")
    checkpoint = lab.checkpoints()[-1]
    page.detail.show_checkpoints(
        lab.FINISHED.id,
        tuple(
            replace(checkpoint, name=f"epoch-{n:04d}-step-{n * 390:06d}", epoch=n, step=n * 390,
                    is_latest=n == 500, is_best=n == 480)
            for n in range(1, 501)
        ),
    )  # fmt: skip


def _log(stage: Stage, lines=lab.LOG):
    page = open_job(stage, lab.FAILED)
    log = page.detail.log
    Logs(log, r3=lines, r0=[], all=list(lines), mpirun=["── run 1 ──"])
    log.open_job(lab.FAILED)
    page.detail.tabs.choose("log")
    return log


screen("log", EVERY)(_log)


@screen("log-search")
def log_search(stage: Stage) -> None:
    log = _log(stage)
    log.view.verticalScrollBar().setValue(0)
    log._search.setText("loss")
    log._search._send_text()
    log.view.go_to(4)


screen("log-empty")(lambda stage: _log(stage)._picker.choose("0"))


@screen("log-unreadable")
def log_unreadable(stage: Stage) -> None:
    page = open_job(stage, lab.FAILED, tab="log")
    message = "logs/rank-3.log does not answer: stale file handle."
    page.detail.log.show_error(lab.FAILED.id, page.detail.log.source, message)


# Hundreds of thousands of lines: their numbers have room, and the last ones are shown.
screen("log-huge")(lambda stage: _log(stage, lab.LOG * 10_000))
screen("log-reading")(lambda stage: open_job(stage, lab.FAILED, tab="log"))


@screen("settings-of-job", EVERY)
def settings_of_job(stage: Stage) -> None:
    page = open_job(stage, tab="settings")
    folder = f"/srv/ringmaster/jobs/{lab.LIVE.id}"
    command = JobCommand(
        f"env RINGMASTER_RUN={lab.LIVE.id}-20261124-184302/1 PYTHONPATH=/home/lab/.ringmaster/b1 "
        "mpirun --bind-to none --map-by slot -np 16 -H gpu06:8,gpu07:8 python -m "
        f"backend.node.run.rank_guard --job {folder} --run 1 --by-hand 20261124-184302",
        "gpu06",
        f"{folder}/by-hand/20261124-184302",
    )
    page.detail.settings.show_file('name = "retinanet-r50 · coco 2x"\nepochs = 50\n', command)


@screen("settings-of-job-toml")
def settings_of_job_toml(stage: Stage) -> None:
    settings_of_job(stage)
    stage.jobs.detail.settings._show_format(True)


@screen("notes", THREE)
def notes(stage: Stage) -> None:
    page = open_job(stage, tab="notes")
    first_checkpoint, *_ = lab.checkpoints()
    page.detail.notes.show_audit_entries(
        (
            AuditEntry(
                lab.ago(4 * lab.MINUTE), f"Always kept: {first_checkpoint.name}", "ben", "desk-7"
            ),
            AuditEntry(lab.ago(30 * lab.MINUTE), "Tags changed to baseline", "mai", "desk-3"),
            AuditEntry(lab.ago(74 * lab.MINUTE), "Started", "mai", "desk-3"),
            AuditEntry(lab.ago(75 * lab.MINUTE), "Created", "mai"),
        ),
    )


screen("notes-empty")(lambda stage: open_job(stage, lab.FINISHED, tab="notes"))
