"""``job create|start|stop|…``: a job's life, and what it has made."""

from __future__ import annotations

import argparse
import logging
import shlex
import sys
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from backend.base.errors import BackendError
from backend.cli import sweep, template
from backend.cli.common_options import placement_of, progress_bar, trash_of
from backend.cli.printing import (
    FAILED,
    OK,
    in_bytes,
    in_figures,
    in_local_time,
    in_time,
    print_facts,
    print_json,
    print_line,
    print_note,
    print_table,
)
from backend.records.base.program_name import COMMAND
from backend.records.base.terminal_text import last_state, plain
from backend.records.jobs.state import JobState
from backend.records.jobs.view import JOULES_A_KWH
from backend.services.jobs.job_file import read_job_file, write_job_file

if TYPE_CHECKING:
    from backend.records.jobs.view import JobView, RunUpdate
    from backend.records.library.inspection import TensorValues
    from backend.services.context.container import Services

_log = logging.getLogger(__name__)
_LOG_PIECE = 256 * 1024
_WAKE_EVERY_S = 30.0


def reap(services: Services, arguments: argparse.Namespace) -> None:
    """Reap the jobs that a command names, or all, before it reads them; start silent agents.

    A job that cannot be read or reaped is reported by the command itself.
    """
    named = getattr(arguments, "id", None) or getattr(arguments, "ids", None)
    if named is None:
        ids = services.jobs.lifecycle.not_known_over()
    else:
        ids = (named,) if isinstance(named, str) else tuple(named)
    heads = []
    for text in ids:
        try:
            job_id = text if named is None else services.jobs.queries.find(text)
            services.jobs.lifecycle.reap(job_id)
            heads.append(services.jobs.lifecycle.head(job_id))
        except BackendError:
            _log.debug("The job %s could not be reaped", text, exc_info=True)
    wake(services, heads)


def wake(services: Services, names: Iterable[str]) -> None:
    """Start the agents of silent nodes, and report what was found."""
    for name, found in services.set_up.wake_silent(names).items():
        if isinstance(found, BackendError):
            print_note(f"No news arrives from {name}. {found.with_remedy}")
        elif found:
            print_note(
                f"The agent of {name} did not run and was started. It closes the runs that ended "
                "with a restart of the node within some seconds."
            )


def create(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    raw = template.asked_job(services, arguments)
    with progress_bar(as_json) as bar:
        view = services.jobs.create(raw, bar)
    if as_json:
        print_json(view)
    else:
        print_line(f"Created {view.id}: {view.name}")
        print_note(f"Start it: {COMMAND} job start {view.id}")
    return OK


def simulate(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    raw = read_job_file(arguments.file)
    with progress_bar(as_json) as bar:
        found = services.jobs.simulate(raw, arguments.staleness, arguments.random, bar)
    if as_json:
        print_json(found)
        return OK
    names = list(dict.fromkeys(name for epoch in found.epochs for name in epoch.values))
    rows = (
        (
            str(epoch.epoch),
            str(epoch.steps),
            in_figures(epoch.loss),
            *(in_figures(epoch.values.get(name)) for name in names),
            f"{epoch.staleness_mean:.1f}",
            str(epoch.staleness_max),
        )
        for epoch in found.epochs
    )
    print_table(("Epoch", "Updates", "Loss", *names, "Staleness", "Largest"), rows, "No epochs.")
    return OK


def sweep_jobs(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    with progress_bar(as_json) as bar:
        done = sweep.sweep(services, arguments, bar)
    return sweep.print_queued(done, as_json)


def start(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    job_id = services.jobs.queries.find(arguments.id)
    placement = placement_of(arguments)
    with progress_bar(as_json) as bar:
        view = services.jobs.lifecycle.start(job_id, arguments.start_over, placement, bar)
    return _after_wish(services, view, arguments.wait, as_json)


def resume(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    job_id = services.jobs.queries.find(arguments.id)
    placement = placement_of(arguments)
    with progress_bar(as_json) as bar:
        view = services.jobs.lifecycle.resume(
            job_id,
            arguments.checkpoint,
            placement,
            bar,
            batch_size=arguments.batch_size,
            learning_rate=arguments.learning_rate,
        )
    return _after_wish(services, view, arguments.wait, as_json)


def stop(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    end = services.jobs.lifecycle.kill if arguments.kill else services.jobs.lifecycle.stop
    view = end(services.jobs.queries.find(arguments.id))
    if arguments.wait and view.state.is_live:
        return _follow(services, view.id, as_json)
    _print_state(view, as_json)
    return OK


def wait(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    return _follow(services, services.jobs.queries.find(arguments.id), as_json)


def _after_wish(services: Services, view: JobView, wait: bool, as_json: bool) -> int:
    if wait:
        return _follow(services, view.id, as_json)
    _print_state(view, as_json)
    return OK


def _follow(services: Services, job_id: str, as_json: bool) -> int:
    """Wait for the end of a run; what happens to this process does nothing to the run."""
    try:
        view = watch(services, job_id, as_json)
    except KeyboardInterrupt:
        raise BackendError(
            f"The job {job_id} continues; only the waiting has ended.",
            f"To stop the job: {COMMAND} job stop {job_id}",
        ) from None
    _print_state(view, as_json)
    return OK if view.state in (JobState.FINISHED, JobState.INTERRUPTED) else FAILED


def watch(services: Services, job_id: str, as_json: bool) -> JobView:
    """Wait for the end of a run, with progress bars on a terminal."""
    due_s = time.monotonic() + _WAKE_EVERY_S

    def wake_if_silent(view: JobView) -> None:
        nonlocal due_s
        if view.doubt and time.monotonic() >= due_s:
            wake(services, (view.config.placement[0].node,))
            due_s = time.monotonic() + _WAKE_EVERY_S

    if as_json or not sys.stderr.isatty():
        view = services.jobs.queries.wait(job_id, lambda update: wake_if_silent(update.view))
    else:
        from backend.cli.progress_bars import RunBars

        with RunBars() as bars:

            def show_bars(update: RunUpdate) -> None:
                bars.show(update.view)
                wake_if_silent(update.view)

            view = services.jobs.queries.wait(job_id, show_bars)
    return (
        view if services.jobs.lifecycle.reap(job_id) is None else services.jobs.queries.show(job_id)
    )


def _print_state(view: JobView, as_json: bool) -> None:
    if as_json:
        print_json(view)
        return
    print_line(f"{view.id}: {view.state.word}{_progress_words(view)}")
    if view.error is not None:
        print_line(_cause(view))
    elif view.status.message:
        print_line(view.status.message)


def _progress_words(view: JobView) -> str:
    if not view.status.total_steps:
        return ""
    epoch, steps = view.status.epoch, view.status.total_steps
    return f", epoch {epoch} of {view.epochs}, step {view.step} of {steps}"


def _cause(view: JobView) -> str:
    if view.error is None:
        return ""
    where = "" if view.error.rank is None else f"Rank {view.error.rank}"
    if where and view.error.node:
        where += f" on {view.error.node}"
    sentence = view.error.sentence
    return sentence if not where or sentence.startswith(where) else f"{where}: {sentence}"


def _evidence(view: JobView) -> str:
    lines = view.error.evidence if view.error is not None else ()
    return "\n".join(f"{line.place}: {line.text}" if line.file else line.text for line in lines)


def show(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    view = services.jobs.queries.show(services.jobs.queries.find(arguments.id))
    if as_json:
        print_json(view)
        return OK
    config = view.config
    servers = config.strategy.servers
    place = services.queue.read().of(view.id) if view.state is JobState.QUEUED else None
    print_facts(
        [
            ("Job", view.id),
            ("Name", view.name),
            ("State", f"{view.state.word}{' (' + view.doubt + ')' if view.doubt else ''}"),
            ("Queue", f"place {place.number}: {place.sentence}" if place is not None else ""),
            ("Cause", _cause(view)),
            ("Fix", view.error.remedy if view.error else ""),
            ("Message", view.status.message),
            *(("Warning", alarm.sentence) for alarm in view.status.alarms),
            ("Run", str(view.run) if view.run else ""),
            ("Epoch", f"{view.status.epoch} of {view.epochs}"),
            (
                "Step",
                f"{view.step} of {view.status.total_steps}" if view.status.total_steps else "",
            ),
            ("Time left", in_time(view.status.eta_s) if view.state.is_live else ""),
            ("Slow", view.why_slow()),
            *((name, in_figures(value)) for name, value in view.status.metrics.items()),
            *((kind.replace("_", " ").capitalize(), p.reference) for kind, p in view.pins.items()),
            (
                "Optimizer",
                f"{config.optimizer.name}, rate {config.optimizer.lr:g}, {config.schedule.name}",
            ),
            ("Processes", f"{config.workers} workers, {servers} servers" if servers else ""),
            (
                "Batch",
                f"{config.batch_size} × {config.global_batch_size // config.batch_size} = "
                f"{config.global_batch_size}",
            ),
            (
                "Placement",
                ", ".join(
                    f"{p.node}: {', '.join(p.gpus) or p.processes}" for p in config.placement
                ),
            ),
            ("Tags", ", ".join(view.tags)),
            ("Notes", view.notes),
            ("Created", f"{in_local_time(view.created)}{' by ' + view.user if view.user else ''}"),
            ("Started", in_local_time(view.status.started)),
            ("Ended", in_local_time(view.status.ended)),
            ("GPU hours", _figure(view.gpu_s(time.time()), 3600)),
            ("Energy", _figure(view.status.total_energy_j, JOULES_A_KWH, " kWh")),
            ("Folder", services.share.shown(services.data_root.job(view.id).path)),
            ("Evidence", _evidence(view)),
            ("Traceback", view.error.traceback if view.error else ""),
        ]
    )
    return OK


def _figure(value: float | None, each: float, unit: str = "") -> str:
    return "" if value is None else f"{value / each:.3g}{unit}"


def list_jobs(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    views = services.jobs.queries.list()
    if as_json:
        print_json(views)
        return OK
    print_table(
        ("ID", "STATE", "PROGRESS", "NAME", "MESSAGE"),
        (
            (
                view.id,
                view.state.word,
                f"{view.progress:.0%}",
                view.name,
                _cause(view) or view.status.message,
            )
            for view in views
        ),
        f"There are no jobs yet. Make one: {COMMAND} job create FILE.toml",
    )
    return OK


def runs(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    found = services.jobs.queries.runs(services.jobs.queries.find(arguments.id))
    if as_json:
        print_json(found)
        return OK
    print_table(
        ("RUN", "STATE", "STARTED", "STEPS", "PUT AWAY", "MESSAGE"),
        (
            (
                str(run.number),
                run.state.word,
                in_local_time(run.started),
                f"{run.first_step} to {run.last_step}" if run.last_step else "",
                f"runs/{run.put_away}" if run.put_away else "",
                run.message,
            )
            for run in found
        ),
        "It never ran.",
    )
    return OK


def history(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    update = services.jobs.queries.history(services.jobs.queries.find(arguments.id), arguments.run)
    for problem in update.problems:
        print_note(problem)
    if as_json:
        print_json(
            {
                "step": [int(step) for step in update.steps],
                "epoch": [int(epoch) for epoch in update.epochs],
                "metrics": {
                    name: [float(value) for value in values]
                    for name, values in update.metrics.items()
                },
            }
        )
        return OK
    names = list(update.metrics)
    print_table(
        ("STEP", "EPOCH", *(name.upper() for name in names)),
        (
            (str(step), str(epoch), *(in_figures(float(update.metrics[n][k])) for n in names))
            for k, (step, epoch) in enumerate(zip(update.steps, update.epochs, strict=True))
        ),
        "No step has been made yet.",
    )
    return OK


def log(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    job_id = services.jobs.queries.find(arguments.id)
    pieces = _log_pieces(services, job_id, arguments.rank, arguments.run)
    if as_json:
        print_json({"rank": arguments.rank, "text": "".join(pieces)})
    else:
        for piece in pieces:
            sys.stdout.write(piece)
    return OK


def _log_pieces(services: Services, job_id: str, rank: int | None, run: int) -> Iterator[str]:
    """A log as the window shows it, some whole lines at a time."""
    offset, rest = 0, ""
    while True:
        chunk = services.jobs.queries.log(job_id, rank, offset, _LOG_PIECE, run)
        lines, end, rest = (rest + chunk.text).rpartition("\n")
        yield plain(lines + end)
        if "\r" in rest:
            # A progress bar without ends of lines can be megabytes long.
            rest = last_state(rest) + "\r" * rest.endswith("\r")
        if chunk.offset == offset or chunk.offset >= chunk.size:
            break
        offset = chunk.offset
    yield plain(rest)


def checkpoints(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    found = services.jobs.queries.checkpoints(services.jobs.queries.find(arguments.id))
    if as_json:
        print_json(found)
        return OK
    print_table(
        ("NAME", "EPOCH", "STEP", "SIZE", "", "METRICS"),
        (
            (
                record.name,
                str(record.epoch),
                str(record.step),
                in_bytes(record.bytes),
                " ".join(
                    word
                    for word, is_so in (
                        ("latest", record.is_latest),
                        ("best", record.is_best),
                        ("kept", record.is_kept),
                    )
                    if is_so
                ),
                ", ".join(f"{name} {in_figures(v)}" for name, v in record.metrics.items()),
            )
            for record in found
        ),
        "There is no checkpoint yet.",
    )
    return OK


def keep(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    job_id = services.jobs.queries.find(arguments.id)
    record = services.jobs.keep(job_id, arguments.checkpoint, is_kept=not arguments.undo)
    if as_json:
        print_json(record)
    elif record.is_kept:
        print_line(f"{record.name} is always kept.")
    else:
        print_line(f"{record.name} is kept as long as the job's settings say.")
    return OK


def acts(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    found = services.jobs.acts(services.jobs.queries.find(arguments.id))
    if as_json:
        print_json(found)
        return OK
    print_table(("TIME", "WHAT"), ((in_local_time(one.time), one.sentence) for one in found), "")
    return OK


def export(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    job_id = services.jobs.queries.find(arguments.id)
    with progress_bar(as_json) as bar:
        path = services.jobs.export(
            job_id, arguments.checkpoint, arguments.format, arguments.output, progress=bar
        )
    if as_json:
        print_json({"path": str(path), "bytes": path.stat().st_size, "format": arguments.format})
    else:
        print_line(f"Wrote {path} ({in_bytes(path.stat().st_size)}).")
    return OK


def layers(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    job_id = services.jobs.queries.find(arguments.id)
    with progress_bar(as_json) as bar:
        found = services.inspection.checkpoint(
            job_id, arguments.checkpoint, arguments.against, arguments.sample, progress=bar
        )
    if as_json:
        print_json(found)
        return OK
    rows: list[tuple[str, str, TensorValues | None]] = []
    for weight in found.weights:
        rows += (
            (weight.name, "weight", weight.values),
            (weight.name, "change", weight.change),
            (weight.name, "gradient", weight.gradient),
        )
    rows += ((row.name, "activation", row.values) for row in found.activations)
    print_table(
        ("LAYER", "WHAT", "MEAN", "STD", "LEAST", "MOST", "ZEROS", "NAN"),
        (
            (
                *(name, what),
                *map(in_figures, (s.mean, s.std, s.low, s.high)),
                *(f"{100 * values.zero_share:.0f} %", str(s.nan_count)),
            )
            for name, what, values in rows
            if values is not None and (s := values.spread)
        ),
        "The model has no weights.",
    )
    for warning in found.warnings:
        print_note(warning)
    return OK


def clone(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    raw = services.jobs.clone(services.jobs.queries.find(arguments.id))
    if arguments.output is not None:
        path = write_job_file(raw, arguments.output)
        if as_json:
            print_json({"path": str(path)})
        else:
            print_line(
                f"Wrote {path}. Change it, then: {COMMAND} job create {shlex.quote(str(path))}"
            )
    elif as_json:
        print_json(raw)
    else:
        import tomli_w

        sys.stdout.write(tomli_w.dumps(raw))
    return OK


def annotate(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    tags = None if arguments.tag is None else tuple(tag for tag in arguments.tag if tag)
    view = services.jobs.annotate(
        services.jobs.queries.find(arguments.id),
        name=arguments.name,
        notes=arguments.notes,
        tags=tags,
    )
    _print_state(view, as_json)
    return OK


def tag(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    jobs = services.jobs
    views = [
        jobs.retag(job_id, arguments.add, arguments.remove)
        for job_id in map(jobs.queries.find, arguments.ids)
    ]
    if as_json:
        print_json(views)
        return OK
    for view in views:
        print_line(f"{view.id}  {view.name}: {', '.join(view.tags) or 'no tags'}")
    return OK


def remove(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    view = services.jobs.remove(services.jobs.queries.find(arguments.id))
    if as_json:
        print_json(view)
    else:
        print_line(f"Moved {view.id} to {trash_of(services)}.")
    return OK


def restore(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    _print_state(services.jobs.restore(arguments.id), as_json)
    return OK
