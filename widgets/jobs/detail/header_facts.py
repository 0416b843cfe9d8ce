"""The texts in the header of an open job: place and start, figures, the cost of stopping."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from backend.records.base.timestamps import instant
from backend.records.jobs.checkpoint import Checkpoint
from backend.records.jobs.metric_labels import metric_words, short_metric
from backend.records.jobs.state import JobState
from backend.records.jobs.view import JobView
from backend.records.queue.entry import QueuePlace
from widgets.common import formats
from widgets.common.key_value_row import Fact
from widgets.jobs.list.job_columns import took_s, where
from widgets.jobs.list.job_delegate import forecast


def circumstances(view: JobView) -> str:
    """Return where the job runs, since when, and who started it."""
    now = datetime.now().astimezone()
    words = [f"{where(view)}"]
    started = instant(view.status.started)
    if started is not None:
        by = f" by {view.user}" if view.user else ""
        run = f"run {formats.count(view.run)} " if view.run > 1 else ""
        words.append(f"{run}started {formats.moment_long(started, now)}{by}")
    continued = view.status.continued
    if continued is not None and continued.nodes:
        since = formats.moment(instant(continued.since), now)
        words.insert(1, f"{continued.nodes} since {since}")
    return " · ".join(words)


def facts(view: JobView) -> list[Fact]:
    now = datetime.now().astimezone()
    facts = []
    if view.state.is_live and view.status.eta_s is not None:
        ready = now + timedelta(seconds=view.status.eta_s)
        facts.append(Fact("Ready at", formats.about(ready, now), "live"))
        facts.append(Fact("Left", formats.duration(view.status.eta_s)))
    elif view.state.is_live and view.config.script:
        facts.append(Fact("Runs for", formats.duration(took_s(view, now))))
    elif not view.state.is_live and view.run:
        label = "Took in total" if view.status.earlier_s else "Took"
        facts.append(Fact(label, formats.duration(took_s(view, now))))
    if view.run:
        if view.epochs and view.status.epoch:
            facts.append(Fact("Epoch", formats.of(view.status.epoch, view.epochs)))
        elif view.status.epoch:
            facts.append(Fact("Epoch", formats.count(view.status.epoch)))
        facts.append(Fact("Step", step_words(view)))
    if view.best_metric is not None:
        name, best = view.best_metric
        facts.append(
            # Of the best checkpoint: an evaluation without one may have been better.
            Fact(f"Best saved: {short_metric(name)}", formats.metric(best), tip=metric_words(name))
        )
    loss = view.status.metrics.get("loss")
    if loss is not None:
        tip = "Training loss of the newest step only; the curve is smoothed"
        facts.append(Fact("Loss, raw", formats.metric(loss), tip=tip))
    if view.status.samples_per_second is not None and view.state.is_live:
        facts.append(Fact("Speed", formats.per_second(view.status.samples_per_second, "samples")))
    if not view.run and view.epochs:
        facts.append(Fact("Epochs", formats.count(view.epochs)))
        facts.append(Fact("Global batch", formats.count(view.config.global_batch_size)))
    return facts


def step_words(view: JobView) -> str:
    """Return ``540 of 900``, or only the step while the total is not known."""
    if view.status.total_steps:
        return formats.of(view.step, view.status.total_steps)
    return formats.count(view.step) if view.step else formats.NONE


def what_stop_costs(
    view: JobView,
    checkpoints: Sequence[Checkpoint],
    place: QueuePlace | None = None,
    *,
    is_overdue: bool = False,
) -> str:
    """Return what pressing the button costs; ``is_overdue``: stopping takes too long."""
    newest = max(checkpoints, key=lambda c: (c.step, c.run), default=None)
    there = when = at = ""
    if newest is not None:
        # The time itself: "5 min ago" would not change while no update arrives.
        made = instant(newest.created)
        when = formats.moment_long(made, datetime.now().astimezone()) if made else ""
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
    if view.state.is_queued and place is not None:
        foreseen = forecast(place)
        return f"Starts {foreseen}. {there}".strip() if foreseen else there
    if view.config.script and view.run and not there:
        return "There is no checkpoint."
    return there
