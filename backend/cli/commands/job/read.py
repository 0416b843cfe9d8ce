"""``job list|show|runs|history|log|acts``."""

from __future__ import annotations

import time
from argparse import ArgumentTypeError
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from backend.cli.command import ArgSpec, command
from backend.cli.parameters import JobId, RunNumber
from backend.cli.printing import (
    Answer,
    Properties,
    RawText,
    Table,
    duration_text,
    local_time_text,
    number_text,
    print_note,
)
from backend.cli.runs import cause_message
from backend.records.base.program_name import COMMAND
from backend.records.base.terminal_text import last_state, strip_codes
from backend.records.jobs.config import JobConfig
from backend.records.jobs.flat_settings import default_settings, effective_settings
from backend.records.jobs.script import command_line, entry_args
from backend.records.jobs.settings import is_named, label, sort_key, value_label
from backend.records.jobs.view import JOULES_A_KWH
from backend.records.library.item import KINDS
from backend.services.context.container import Services

if TYPE_CHECKING:
    from backend.records.jobs.history import HistoryUpdate
    from backend.records.jobs.view import JobView

_LOG_CHUNK_BYTES = 256 * 1024
_SHOWN_SETTINGS = (
    *("name", "epochs", "batch_size", "placement", "arguments", "entry"),
    *("optimizer.name", "optimizer.lr", "schedule.name"),
)


@command("job list", reads_jobs=True)
def list_jobs(services: Services) -> Answer:
    """Every job."""
    views = services.queries.list()
    rows = (
        (
            view.id,
            view.state_label,
            "–" if view.progress is None else f"{view.progress:.0%}",
            view.name,
            cause_message(view) or view.status.message,
        )
        for view in views
    )
    empty_hint = f"There are no jobs yet. Make one: {COMMAND} job create FILE.toml"
    return Answer(views, Table(("ID", "STATE", "PROGRESS", "NAME", "MESSAGE"), rows, empty_hint))


@command("job show", reads_jobs=True)
def show(services: Services, id: JobId) -> Answer:
    """One job."""
    view = services.queries.show(id)
    return Answer(view, Properties(_properties(services, view)))


def _properties(services: Services, view: JobView) -> Iterator[tuple[str, str]]:
    config, root = view.config, services.data_root
    servers = config.strategy.servers
    queued_job = services.queue.read().find_job(view.id) if view.state.is_queued else None
    yield from (
        ("Job", view.id),
        ("Name", view.name),
        (
            "State",
            f"{view.state_label} ({view.contact_warning})"
            if view.contact_warning
            else view.state_label,
        ),
        (
            "Queue",
            f"place {queued_job.number}: {queued_job.message}" if queued_job is not None else "",
        ),
        (
            "Reason",
            queued_job.entry.reason if queued_job is not None else _continuation_message(view),
        ),
        ("Cause", cause_message(view)),
        ("Fix", view.error.remedy if view.error else ""),
        ("Message", view.status.message),
        *(("Warning", alarm.message) for alarm in view.status.alarms),
        ("Run", str(view.run) if view.run else ""),
        ("Epoch", _fraction(view.status.epoch, view.epochs)),
        ("Step", _fraction(view.step, view.status.total_steps)),
        ("Time left", duration_text(view.status.eta_s) if view.state.is_live else ""),
        ("Slow", view.slow_message()),
        *((name, number_text(value)) for name, value in view.status.metrics.items()),
        *((kind.replace("_", " ").capitalize(), p.reference) for kind, p in view.pins.items()),
        *(_script_properties(config) if config.script else _training_properties(config)),
        *_changed_settings(view),
        ("Processes", f"{config.workers} workers, {servers} servers" if servers else ""),
        (
            "Placement",
            ", ".join(f"{p.node}: {', '.join(p.gpus) or p.processes}" for p in config.placement)
            if config.allocation is None
            else "",
        ),
        ("Tags", ", ".join(view.tags)),
        ("Notes", view.notes),
        ("Created", f"{local_time_text(view.created)}{' by ' + view.user if view.user else ''}"),
        ("Started", local_time_text(view.status.started_at)),
        ("Ended", local_time_text(view.status.ended_at) if view.state.is_over else ""),
        ("GPU hours", _figure(view.gpu_s(time.time()), 3600)),
        ("Energy", _figure(view.status.total_energy_j, JOULES_A_KWH, " kWh")),
        ("Folder", root.display_path(root.job(view.id).path)),
        ("Evidence", _evidence(view)),
        ("Traceback", view.error.traceback if view.error else ""),
    )


def _continuation_message(view: JobView) -> str:
    """Return why the program itself continued the job, and on how many nodes."""
    continuation = view.status.continuation
    if continuation is None or view.state.is_queued:
        return ""
    count = (
        f" {continuation.nodes} since {local_time_text(continuation.started_at)}."
        if continuation.nodes
        else ""
    )
    return f"{continuation.reason}{count}"


def _fraction(value: int, total: int) -> str:
    return f"{value} of {total}" if total else str(value or "")


def _script_properties(config: JobConfig) -> Iterator[tuple[str, str]]:
    yield "Command", command_line((*entry_args(config.entry), *config.arguments))


def _training_properties(config: JobConfig) -> Iterator[tuple[str, str]]:
    optimizer, size = config.optimizer, config.batch_size
    yield "Optimizer", f"{optimizer.name}, rate {optimizer.lr:g}, {config.schedule.name}"
    global_size = config.global_batch_size
    yield "Batch", f"{size} × {global_size // size} = {global_size}"


def _changed_settings(view: JobView) -> Iterator[tuple[str, str]]:
    """Yield the settings that differ from their defaults and that no other line shows."""
    settings, defaults = effective_settings(view), default_settings(view.config)
    for key in sorted(settings, key=sort_key):
        is_shown = key in (*KINDS, *_SHOWN_SETTINGS)
        if is_named(key) and not is_shown and settings[key] != defaults.get(key):
            yield label(key), value_label(key, settings[key])


def _evidence(view: JobView) -> str:
    lines = view.error.evidence if view.error is not None else ()
    return "\n".join(f"{line.location}: {line.text}" if line.file else line.text for line in lines)


def _figure(value: float | None, unit_size: float, unit: str = "") -> str:
    return "" if value is None else f"{value / unit_size:.3g}{unit}"


@command("job runs", reads_jobs=True)
def runs(services: Services, id: JobId) -> Answer:
    """The runs of a job, and their results."""
    job_runs = services.queries.runs(id)
    rows = (
        (
            str(run.number),
            run.state.label,
            local_time_text(run.started_at),
            f"{run.first_step} to {run.last_step}" if run.last_step else "",
            f"runs/{run.put_away}" if run.put_away else "",
            run.changes,
            run.message,
        )
        for run in job_runs
    )
    head = ("RUN", "STATE", "STARTED", "STEPS", "PUT AWAY", "CHANGED", "MESSAGE")
    return Answer(job_runs, Table(head, rows, "It never ran."))


@command("job history", reads_jobs=True)
def history(services: Services, id: JobId, *, run: RunNumber = 0) -> Answer:
    """Every step's metrics."""
    update = services.queries.history(id, run)
    for problem in update.problems:
        print_note(problem)
    names = list(update.metrics)
    rows = (
        (str(step), str(epoch), *(number_text(float(update.metrics[n][k])) for n in names))
        for k, (step, epoch) in enumerate(zip(update.steps, update.epochs, strict=True))
    )
    head = ("STEP", "EPOCH", *(name.upper() for name in names))
    return Answer(lambda: _columns(update), Table(head, rows, "No step has been made yet."))


def _columns(update: HistoryUpdate) -> dict[str, Any]:
    return {
        "step": [int(step) for step in update.steps],
        "epoch": [int(epoch) for epoch in update.epochs],
        "metrics": {
            name: [float(value) for value in values] for name, values in update.metrics.items()
        },
    }


def _rank(text: str) -> int:
    if not text.isdecimal():
        raise ArgumentTypeError(f"“{text}” should be a rank's number, 0 or more")
    return int(text)


@command("job log", reads_jobs=True)
def log(
    services: Services,
    id: JobId,
    *,
    rank: Annotated[int | None, ArgSpec("R", "default: mpirun's log", parse=_rank)] = None,
    run: RunNumber = 0,
) -> Answer:
    """The log of a rank or of mpirun."""
    chunks = _log_chunks(services, id, rank, run)
    return Answer(lambda: {"rank": rank, "text": "".join(chunks)}, map(RawText, chunks))


def _log_chunks(services: Services, job_id: str, rank: int | None, run: int) -> Iterator[str]:
    """A log as the window shows it, some whole lines at a time."""
    offset, incomplete_line = 0, ""
    while True:
        chunk = services.queries.log(job_id, rank, offset, _LOG_CHUNK_BYTES, run)
        lines, end, incomplete_line = (incomplete_line + chunk.text).rpartition("\n")
        yield strip_codes(lines + end)
        if "\r" in incomplete_line:
            # A progress bar without ends of lines can be megabytes long.
            incomplete_line = last_state(incomplete_line) + "\r" * incomplete_line.endswith("\r")
        if chunk.offset == offset or chunk.offset >= chunk.size:
            break
        offset = chunk.offset
    yield strip_codes(incomplete_line)


@command("job acts", reads_jobs=True)
def acts(services: Services, id: JobId) -> Answer:
    """The users who started, stopped and changed a job."""
    entries = services.jobs.audit_entries(id)
    rows = ((local_time_text(entry.time), entry.message) for entry in entries)
    return Answer(entries, Table(("TIME", "WHAT"), rows))
