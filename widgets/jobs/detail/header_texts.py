"""The texts in the header of an open job: place and start, figures, the cost of stopping."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from backend.records.base.timestamps import instant
from backend.records.jobs.checkpoint import Checkpoint
from backend.records.jobs.metric_names import metric_label, short_metric_label
from backend.records.jobs.state import JobState
from backend.records.jobs.view import JobView
from backend.records.queue.entry import QueuedJob
from widgets.common import formats
from widgets.common.key_value_row import KeyValue
from widgets.jobs.list.job_columns import duration_s, resources_label
from widgets.jobs.list.job_delegate import start_forecast

_IN_USE_S = 30.0
"""A session looks every 10 s whether it is used."""


def run_details(view: JobView) -> str:
    """Return the nodes of the job, its start, and the user who started it."""
    now = datetime.now().astimezone()
    parts = [f"{resources_label(view)}"]
    started_at = instant(view.status.started_at)
    if started_at is not None:
        user_suffix = f" by {view.user}" if view.user else ""
        run_prefix = f"run {formats.count(view.run)} " if view.run > 1 else ""
        parts.append(f"{run_prefix}started {formats.time_with_day(started_at, now)}{user_suffix}")
    continuation = view.status.continuation
    if continuation is not None and continuation.nodes:
        start_time = formats.time_or_day(instant(continuation.started_at), now)
        parts.insert(1, f"{continuation.nodes} since {start_time}")
    return " · ".join(parts)


def header_figures(view: JobView) -> list[KeyValue]:
    now = datetime.now().astimezone()
    if view.is_session and (view.state.is_live or not view.run):
        return _session_figures(view, now)
    figures = _duration_figures(view, now)
    if view.run and not view.is_session:
        if view.epochs and view.status.epoch:
            figures.append(KeyValue("Epoch", formats.count_of(view.status.epoch, view.epochs)))
        elif view.status.epoch:
            figures.append(KeyValue("Epoch", formats.count(view.status.epoch)))
        figures.append(KeyValue("Step", step_label(view)))
    if view.best_metric is not None:
        name, best_value = view.best_metric
        figures.append(
            # Of the best checkpoint: an evaluation without one may have been better.
            KeyValue(
                f"Best saved: {short_metric_label(name)}",
                formats.metric(best_value),
                tip=metric_label(name),
            )
        )
    loss = view.status.metrics.get("loss")
    if loss is not None:
        tip = "Training loss of the newest step only; the curve is smoothed"
        figures.append(KeyValue("Loss, raw", formats.metric(loss), tip=tip))
    if view.status.samples_per_second is not None and view.state.is_live:
        figures.append(
            KeyValue("Speed", formats.per_second(view.status.samples_per_second, "samples"))
        )
    if not view.run and view.epochs:
        figures.append(KeyValue("Epochs", formats.count(view.epochs)))
        figures.append(KeyValue("Global batch", formats.count(view.config.global_batch_size)))
    return figures


def _duration_figures(view: JobView, now: datetime) -> list[KeyValue]:
    if view.state.is_live and view.status.eta_s is not None:
        ready_time = now + timedelta(seconds=view.status.eta_s)
        ready_at = KeyValue("Ready at", formats.estimated_time(ready_time, now), "live")
        return [ready_at, KeyValue("Left", formats.duration(view.status.eta_s))]
    if view.state.is_live:
        label = "Runs for" if view.config.script else ""
    else:
        label = ("Took in total" if view.status.earlier_s else "Took") if view.run else ""
    return [KeyValue(label, formats.duration(duration_s(view, now)))] if label else []


def _session_figures(view: JobView, now: datetime) -> list[KeyValue]:
    """Return the time left of a session, the time without use, and its GPUs."""
    started_at, figures = instant(view.status.started_at), []
    if view.length_s:
        used_s = (now - started_at).total_seconds() if view.state.is_live and started_at else 0.0
        left_text = formats.duration(max(0.0, view.length_s - used_s))
        figures.append(KeyValue("Time left", left_text, tip="Until its time limit"))
    if view.state.is_live and view.status.unused_s is not None:
        is_used = view.status.unused_s < _IN_USE_S
        unused_text = "in use" if is_used else formats.duration(view.status.unused_s)
        figures.append(KeyValue("Unused for", unused_text, tip="No kernel, terminal or GPU worked"))
    uuids = [uuid for placement in view.config.placement for uuid in placement.gpus]
    figures.append(KeyValue("GPUs", formats.count(len(uuids)), tip=", ".join(uuids)))
    return figures


def step_label(view: JobView) -> str:
    """Return ``540 of 900``, or only the step while the total is unknown."""
    if view.status.total_steps:
        return formats.count_of(view.step, view.status.total_steps)
    return formats.count(view.step) if view.step else formats.NONE


def stop_cost_message(
    view: JobView,
    checkpoints: Sequence[Checkpoint],
    queued_job: QueuedJob | None = None,
    *,
    is_overdue: bool = False,
) -> str:
    """Return what Stop or Kill would lose, or how the job starts next.

    Args:
        is_overdue: Stopping takes too long.
    """
    checkpoint = max(checkpoints, key=lambda c: (c.step, c.run), default=None)
    newest_sentence, last_saved_text = "", "its start"
    if checkpoint is not None:
        # The time itself: "5 min ago" would not change while no update arrives.
        created = instant(checkpoint.created)
        saved_text = formats.time_with_day(created, datetime.now().astimezone()) if created else ""
        # A script's file may name no step.
        step_text = f"step {formats.count(checkpoint.step)}" if checkpoint.step else checkpoint.name
        position_text = f"epoch {checkpoint.epoch}" if checkpoint.epoch else step_text
        last_saved_text = ", ".join(filter(None, (position_text, saved_text)))
        newest_sentence = f"Newest checkpoint: {last_saved_text}."
    if view.state is JobState.STOPPING and is_overdue:
        # Short enough for a small window, whatever the day of the checkpoint.
        return f"Stopping is slow. “Kill now” loses everything after {last_saved_text}."
    if view.state is JobState.STOPPING:
        if view.config.script:
            return f"The script was asked to stop. {newest_sentence}".strip()
        return "Finishing this step and saving a checkpoint…"
    if view.state.is_live:
        stop_sentence = "Stopping is safe: a checkpoint is saved first."
        if view.is_session:
            return "Stopping ends its kernels: saved files stay, variables do not."
        if view.config.script:
            stop_sentence = (
                "" if newest_sentence else "There is no checkpoint yet: stopping loses all work."
            )
        return f"{stop_sentence} {newest_sentence}".strip()
    if view.state is JobState.CREATED:
        return "Not started yet."
    if view.state.is_queued and queued_job is not None:
        forecast = start_forecast(queued_job)
        return f"Starts {forecast}. {newest_sentence}".strip() if forecast else newest_sentence
    if view.config.script and view.run and not newest_sentence:
        return "There is no checkpoint."
    return newest_sentence
