"""The texts in the header of an open job: place and start, figures, the cost of stopping."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from backend.records.base.timestamps import instant
from backend.records.jobs.checkpoint import Checkpoint
from backend.records.jobs.metric_labels import metric_label, short_metric_label
from backend.records.jobs.state import JobState
from backend.records.jobs.view import JobView
from backend.records.queue.entry import QueuedJob
from widgets.common import formats
from widgets.common.key_value_row import KeyValue
from widgets.jobs.list.job_columns import duration_s, resources_label
from widgets.jobs.list.job_delegate import start_forecast


def run_details(view: JobView) -> str:
    """Return where the job runs, since when, and who started it."""
    now = datetime.now().astimezone()
    words = [f"{resources_label(view)}"]
    started = instant(view.status.started_at)
    if started is not None:
        by = f" by {view.user}" if view.user else ""
        run = f"run {formats.count(view.run)} " if view.run > 1 else ""
        words.append(f"{run}started {formats.time_with_day(started, now)}{by}")
    continued = view.status.continuation
    if continued is not None and continued.nodes:
        since = formats.time_or_day(instant(continued.started_at), now)
        words.insert(1, f"{continued.nodes} since {since}")
    return " · ".join(words)


def header_figures(view: JobView) -> list[KeyValue]:
    now = datetime.now().astimezone()
    facts = []
    if view.state.is_live and view.status.eta_s is not None:
        ready = now + timedelta(seconds=view.status.eta_s)
        facts.append(KeyValue("Ready at", formats.estimated_time(ready, now), "live"))
        facts.append(KeyValue("Left", formats.duration(view.status.eta_s)))
    elif view.state.is_live and view.config.script:
        facts.append(KeyValue("Runs for", formats.duration(duration_s(view, now))))
    elif not view.state.is_live and view.run:
        label = "Took in total" if view.status.earlier_s else "Took"
        facts.append(KeyValue(label, formats.duration(duration_s(view, now))))
    if view.run:
        if view.epochs and view.status.epoch:
            facts.append(KeyValue("Epoch", formats.count_of(view.status.epoch, view.epochs)))
        elif view.status.epoch:
            facts.append(KeyValue("Epoch", formats.count(view.status.epoch)))
        facts.append(KeyValue("Step", step_label(view)))
    if view.best_metric is not None:
        name, best = view.best_metric
        facts.append(
            # Of the best checkpoint: an evaluation without one may have been better.
            KeyValue(f"Best saved: {short_metric_label(name)}", formats.metric(best), tip=metric_label(name))
        )
    loss = view.status.metrics.get("loss")
    if loss is not None:
        tip = "Training loss of the newest step only; the curve is smoothed"
        facts.append(KeyValue("Loss, raw", formats.metric(loss), tip=tip))
    if view.status.samples_per_second is not None and view.state.is_live:
        facts.append(KeyValue("Speed", formats.per_second(view.status.samples_per_second, "samples")))
    if not view.run and view.epochs:
        facts.append(KeyValue("Epochs", formats.count(view.epochs)))
        facts.append(KeyValue("Global batch", formats.count(view.config.global_batch_size)))
    return facts


def step_label(view: JobView) -> str:
    """Return ``540 of 900``, or only the step while the total is not known."""
    if view.status.total_steps:
        return formats.count_of(view.step, view.status.total_steps)
    return formats.count(view.step) if view.step else formats.NONE


def stop_cost_message(
    view: JobView,
    checkpoints: Sequence[Checkpoint],
    queue_position: QueuedJob | None = None,
    *,
    is_overdue: bool = False,
) -> str:
    """Return what pressing the button costs; ``is_overdue``: stopping takes too long."""
    newest = max(checkpoints, key=lambda c: (c.step, c.run), default=None)
    there = when = at = ""
    if newest is not None:
        # The time itself: "5 min ago" would not change while no update arrives.
        made = instant(newest.created)
        when = formats.time_with_day(made, datetime.now().astimezone()) if made else ""
        at = f"epoch {newest.epoch}" if newest.epoch else f"step {formats.count(newest.step)}"
        # A script's file may name no step.
        at = at if newest.epoch or newest.step else newest.name
        there = f"Newest checkpoint: {at}, {when}.".replace(", .", ".")
    if view.state is JobState.STOPPING and is_overdue:
        rest = f"{at}, {when}" if newest is not None else "its start"
        # Short enough for a small window, whatever the day of the checkpoint.
        return f"Stopping is slow. “Kill now” loses everything after {rest}."
    if view.state is JobState.STOPPING:
        if view.config.script:
            return f"The script was asked to stop. {there}".strip()
        return "Finishing this step and saving a checkpoint…"
    if view.state.is_live:
        safe = "Stopping is safe: a checkpoint is saved first."
        if view.config.script:
            safe = "" if there else "There is no checkpoint yet: stopping loses all work."
        return f"{safe} {there}".strip()
    if view.state is JobState.CREATED:
        return "Not started yet."
    if view.state.is_queued and queue_position is not None:
        foreseen = start_forecast(queue_position)
        return f"Starts {foreseen}. {there}".strip() if foreseen else there
    if view.config.script and view.run and not there:
        return "There is no checkpoint."
    return there
