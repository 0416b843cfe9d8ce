"""One open job: its states, its banners, each of its tabs."""

from __future__ import annotations

from dataclasses import replace

from backend.records.alarm import DIVERGED, NOT_A_NUMBER, Alarm
from backend.records.node import Presence
from backend.records.state import JobState
from tests.pictures import lab
from tests.pictures.gallery import EVERY, LARGE, SMALL, SMALLEST, WIDE, screen
from tests.pictures.screens.jobs import open_job
from tests.pictures.stage import Stage
from tests.widgets.jobs.jobs_rig import show_jobs
from tests.widgets.jobs.test_log_tab import Logs
from widgets.cluster.node_history import NodeHistory

THREE = (LARGE, SMALL, SMALLEST)


def _others(view):
    """All jobs, this one in its place."""
    return tuple(view if one.id == view.id else one for one in lab.JOBS)


@screen("job-slow-rank", (LARGE, SMALL, WIDE))
def job_slow_rank(stage: Stage) -> None:
    page = open_job(stage)
    scroll = page.detail.curves.ranks
    scroll.parentWidget().parentWidget().parentWidget().ensureWidgetVisible(scroll)


@screen("job-warns", THREE)
def job_warns(stage: Stage) -> None:
    view = replace(
        lab.LIVE, alarms=(Alarm(NOT_A_NUMBER, 4000, "One batch was no number."), lab.RISES)
    )
    open_job(stage, view, _others(view), rises_at=11_000)


@screen("job-in-doubt")
def job_in_doubt(stage: Stage) -> None:
    view = replace(lab.LIVE, doubt="no news from gpu06 since 14:02")
    stage.show_cluster((view, lab.EVALUATING), lab.nodes())
    open_job(stage, view, _others(view))


@screen("job-stopping")
def job_stopping(stage: Stage) -> None:
    view = replace(lab.LIVE, state=JobState.STOPPING, message="mai stopped it.")
    open_job(stage, view, _others(view))


@screen("job-set-up")
def job_set_up(stage: Stage) -> None:
    view = replace(lab.LIVE, state=JobState.SETUP, step=0, epoch=0, metrics={}, best_metric=None,
                   eta_s=None, samples_per_second=None, rank_step_ms=())  # fmt: skip
    page = open_job(stage, replace(view, run=0), _others(view))
    page.show_view(view)


@screen("stopped", THREE)
def stopped(stage: Stage) -> None:
    open_job(stage, lab.STOPPED)


@screen("stopped-at-once")
def stopped_at_once(stage: Stage) -> None:
    """Before its first checkpoint: there is nothing to go on from."""
    said = "Stopped before the first step; there is no checkpoint yet."
    begun = replace(lab.STOPPED, step=0, epoch=0, metrics={}, best_metric=None)
    page = open_job(stage, replace(begun, message=said))
    page.detail.curves.clear(lab.STOPPED.name)
    page.detail.show_checkpoints(lab.STOPPED.id, ())


@screen("draft")
def draft(stage: Stage) -> None:
    open_job(stage, lab.DRAFT)


@screen("queued")
def queued(stage: Stage) -> None:
    open_job(stage, lab.QUEUED)


@screen("finished")
def finished(stage: Stage) -> None:
    open_job(stage, lab.FINISHED)


@screen("refused")
def refused(stage: Stage) -> None:
    page = open_job(stage, lab.STOPPED)
    page.detail.show_error(
        lab.STOPPED.id,
        "gpu03 did not answer for 10 s, so nothing was started.",
        "Check again, or resume on other nodes.",
    )


def _failed(stage: Stage, view, tab: str = "failure", **more):
    page = open_job(stage, view, _others(view), tab=tab, **more)
    return page.detail


@screen("failed", EVERY)
def failed(stage: Stage) -> None:
    detail = _failed(stage, lab.FAILED)
    detail.show_nodes(lab.nodes())
    history = NodeHistory()
    history.put_past(lab.full_memory())
    detail.show_pasts({"gpu03": history}, {}, lab.NOW)


@screen("failed-no-past")
def failed_no_past(stage: Stage) -> None:
    """Nobody kept what the node did, so the loss stands alone."""
    _failed(stage, lab.FAILED)


@screen("failed-at-once")
def failed_at_once(stage: Stage) -> None:
    """Before its first step: there is no curve at all."""
    view = replace(lab.FAILED, step=0, epoch=0, metrics={}, best_metric=None)
    page = stage.jobs
    show_jobs(page, _others(view))
    page.open_job(view.id)
    page.detail.show_checkpoints(view.id, ())


@screen("failed-diverged")
def failed_diverged(stage: Stage) -> None:
    """The loss ran away, and then was no number."""
    rises = Alarm(DIVERGED, 7_700, "The loss is at 2.31, 4.2 times its best (0.55 at step 7 350).")
    ends = Alarm(NOT_A_NUMBER, lab.FAILED.step, "The loss of rank 1 is not a number.")
    error = replace(lab.FAILED.error, sentence=ends.sentence, cause="", rank=1, evidence=())
    view = replace(lab.FAILED, alarms=(rises, ends), message=ends.sentence, error=error)
    _failed(stage, view, rises_at=7_400)


@screen("failed-unknown")
def failed_unknown(stage: Stage) -> None:
    _failed(stage, lab.UNKNOWN)


@screen("failed-lost")
def failed_lost(stage: Stage) -> None:
    _failed(stage, lab.LOST)


@screen("failed-warned")
def failed_warned(stage: Stage) -> None:
    """It had warned before it ended."""
    ends = Alarm(NOT_A_NUMBER, lab.FAILED.step, "The loss of rank 1 is not a number.")
    view = replace(lab.FAILED, alarms=(lab.RISES, ends))
    _failed(stage, view, "curves")


@screen("failed-curves")
def failed_curves(stage: Stage) -> None:
    _failed(stage, lab.FAILED, "curves")


def _ranks(stage: Stage, nodes, with_past: bool = True) -> None:
    page = open_job(stage, tab="ranks")
    page.detail.show_nodes(nodes)
    histories = {}
    for state in nodes if with_past else ():
        histories[state.name] = NodeHistory()
        histories[state.name].put_past(lab.past(state.name))
    page.detail.show_pasts(histories, {state.name: "2 s ago" for state in nodes}, lab.NOW)


@screen("ranks", EVERY)
def ranks(stage: Stage) -> None:
    _ranks(stage, lab.nodes())


@screen("ranks-no-news")
def ranks_no_news(stage: Stage) -> None:
    gone = (replace(s, presence=Presence.OFFLINE, reading=None) for s in lab.nodes())
    _ranks(stage, tuple(gone), with_past=False)


@screen("checkpoints", EVERY)
def checkpoints(stage: Stage) -> None:
    open_job(stage, tab="checkpoints")


@screen("checkpoints-empty")
def checkpoints_empty(stage: Stage) -> None:
    open_job(stage, lab.DRAFT, tab="checkpoints")


@screen("checkpoints-huge")
def checkpoints_huge(stage: Stage) -> None:
    page = open_job(stage, lab.FINISHED, tab="checkpoints")
    one = lab.checkpoints()[-1]
    page.detail.show_checkpoints(
        lab.FINISHED.id,
        tuple(
            replace(one, name=f"epoch-{n:04d}-step-{n * 390:06d}", epoch=n, step=n * 390,
                    is_latest=n == 500, is_best=n == 480)
            for n in range(1, 501)
        ),
    )  # fmt: skip


def _log(stage: Stage, lines=lab.LOG):
    page = open_job(stage, lab.FAILED)
    log = page.detail.log
    Logs(log, r3=lines, r0=[], all=list(lines), mpirun=["── run 1 ──"])
    log.open_job(lab.FAILED)
    page.detail._choose_tab("log")
    return log


@screen("log", EVERY)
def log(stage: Stage) -> None:
    _log(stage)


@screen("log-search")
def log_search(stage: Stage) -> None:
    shown = _log(stage)
    shown.view.verticalScrollBar().setValue(0)
    shown._search.setText("loss")
    shown._search._say()
    shown.view.go_to(4)


@screen("log-empty")
def log_empty(stage: Stage) -> None:
    _log(stage)._picker.choose("0")


@screen("log-reading")
def log_reading(stage: Stage) -> None:
    open_job(stage, lab.FAILED, tab="log")


@screen("settings-of-job", EVERY)
def settings_of_job(stage: Stage) -> None:
    page = open_job(stage, tab="settings")
    command = ("mpirun", "-np", "16", "-H", "gpu06:8,gpu07:8", "--map-by", "slot", "-x",
               "NCCL_SOCKET_IFNAME=eth0", "python", "-m", "backend.node.guard")  # fmt: skip
    page.detail.show_settings(
        lab.LIVE.id, 'name = "retinanet-r50 · coco 2x"\nepochs = 50\n', command
    )


@screen("settings-of-job-toml")
def settings_of_job_toml(stage: Stage) -> None:
    settings_of_job(stage)
    stage.jobs.detail.settings._turn(True)


@screen("notes", THREE)
def notes(stage: Stage) -> None:
    open_job(stage, tab="notes")


@screen("notes-empty")
def notes_empty(stage: Stage) -> None:
    open_job(stage, lab.FINISHED, tab="notes")
