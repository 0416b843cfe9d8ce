"""The command line: parse, call one service, print. Exit codes are 0, 1 and 2.

A failure of the world is one sentence and exit code 1; a bug keeps its traceback. Everything heavy
is imported by the command that needs it: listing jobs must not wait for numpy.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backend.cli import bundle, compare, nodes, notice, preflight, queue, sweep, template
from backend.cli.arguments import make_parser
from backend.cli.asked import placement_of, progress_bar
from backend.cli.printing import (
    FAILED,
    OK,
    in_bytes,
    in_figures,
    in_time,
    print_facts,
    print_json,
    print_line,
    print_note,
    print_table,
    shown,
)
from backend.errors import BackendError
from backend.records.state import JobState

if TYPE_CHECKING:
    from backend.records.far_root import FarRoot
    from backend.records.job_view import JobView
    from backend.records.library import Kind, LibraryItem
    from backend.services.workplace import Services

_LOG_PIECE = 256 * 1024


Window = Callable[["Path | FarRoot", Path | None, int | None], int]
"""Opens the window on a data root and catalogue; a number starts the example with it."""


def run(argv: Sequence[str], open_window: Window) -> int:
    """Do what ``argv`` says; the exit code. The window is the caller's: here no Qt is known."""
    parser = make_parser()
    arguments = parser.parse_args(argv)
    as_json = getattr(arguments, "json", False)
    # A name may hold what the terminal's encoding does not know; a result is no reason to fail.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        if arguments.command is None:
            return open_window(*_places(arguments), None)
        if arguments.command == "demo":
            wants_window = not arguments.headless and not as_json and _has_display()
            if wants_window:
                return open_window(*_places(arguments), arguments.workers)
        code = _command(arguments, as_json)
        sys.stdout.flush()
    except BackendError as error:
        _tell(error, as_json)
        return FAILED
    except KeyboardInterrupt:
        print_note("Interrupted.")
        return FAILED
    except BrokenPipeError:
        # Who read the output has enough of it (``| head``). Python would complain again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    return code


def _tell(error: BackendError, as_json: bool) -> None:
    if as_json:
        print_json({"error": {"sentence": error.sentence, "remedy": error.remedy}})
    else:
        print_note(" ".join(filter(None, (error.sentence, error.remedy))))


def _places(arguments: argparse.Namespace) -> tuple[Path | FarRoot, Path | None]:
    from backend.services.workplace import default_data_root

    data_root = getattr(arguments, "data_root", None) or default_data_root()
    return data_root, getattr(arguments, "catalogue", None)


def _command(arguments: argparse.Namespace, as_json: bool) -> int:
    from backend.services.workplace import open_services

    has_person = nodes.has_person(as_json)
    services = open_services(
        *_places(arguments),
        accept=nodes.acceptance(arguments, has_person),
        passphrase=nodes.passphrase if has_person else None,
    )
    try:
        action = getattr(arguments, "action", "")
        return _COMMANDS[arguments.command, action](services, arguments, as_json)
    finally:
        services.close()


def _demo(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    from backend.cli.demo import run_demo

    return run_demo(services, arguments.workers, as_json)


def _has_display() -> bool:
    if sys.platform in ("win32", "darwin"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


# Library


def _import(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    with progress_bar(as_json) as bar:
        item = services.library.import_item(
            _kind(arguments), arguments.path, arguments.name, progress=bar
        )
    if as_json:
        print_json(item)
    else:
        print_line(
            f"Imported {item.kind.value} {item.reference}: {_files(item.files)}, "
            f"{in_bytes(item.bytes)}."
        )
    return OK


def _library_list(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    items = services.library.list(_kind(arguments))
    if as_json:
        print_json(items)
        return OK
    print_table(
        ("NAME", "VERSION", "FILES", "SIZE", "CREATED", "SHA-256"),
        (
            (
                item.name,
                str(item.version),
                str(item.files),
                in_bytes(item.bytes),
                _moment(item.created),
                item.sha256[:12],
            )
            for item in items
        ),
        f"There are no {arguments.command}s yet.",
    )
    return OK


def _library_show(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    item = services.library.show(_kind(arguments), arguments.reference)
    if as_json:
        print_json(item)
    else:
        _print_item(item)
    return OK


def _print_item(item: LibraryItem) -> None:
    print_facts(
        [
            ("Name", item.name),
            ("Version", str(item.version)),
            ("Files", str(item.files)),
            ("Size", in_bytes(item.bytes)),
            ("Created", _moment(item.created)),
            ("Source", item.source),
            ("SHA-256", item.sha256),
            *((name.replace("_", " ").capitalize(), _fact(v)) for name, v in item.facts.items()),
        ]
    )


def _fact(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _library_remove(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    item = services.library.remove(_kind(arguments), arguments.reference)
    if as_json:
        print_json(item)
    else:
        print_line(f"Moved {item.kind.value} {item.reference} to {_trash(services)}.")
    return OK


def _trash(services: Services) -> str:
    return services.share.shown(services.data_root.trash)


def _preview(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    with progress_bar(as_json) as bar:
        preview = services.library.preview(
            arguments.reference, arguments.loader, split=arguments.split, progress=bar
        )
    _print_record(preview, as_json)
    return OK


def _check_model(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    with progress_bar(as_json) as bar:
        check = services.library.check_model(
            arguments.reference, dataset=arguments.dataset, loader=arguments.loader, progress=bar
        )
    _print_record(check, as_json)
    return OK


def _rescan(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    with progress_bar(as_json) as bar:
        report = services.library.rescan(progress=bar)
    _print_record(report, as_json)
    return OK


def _print_record(record: object, as_json: bool) -> None:
    from backend.cli.printing import plain

    if as_json:
        print_json(record)
        return
    print_facts(
        (name.replace("_", " ").capitalize(), _fact(value))
        for name, value in plain(record).items()
        if value not in (None, "", [], {})
    )


def _kind(arguments: argparse.Namespace) -> Kind:
    from backend.records.library import Kind

    return Kind(arguments.command)


# Jobs


def _create(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    raw = template.asked_job(services, arguments)
    with progress_bar(as_json) as bar:
        view = services.jobs.create(raw, bar)
    if as_json:
        print_json(view)
    else:
        print_line(f"Created {view.id}: {view.name}")
        print_note(f"Start it: main.py job start {view.id}")
    return OK


def _sweep(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    with progress_bar(as_json) as bar:
        done = sweep.sweep(services, arguments, bar)
    return sweep.tell(done, as_json)


def _start(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    job_id = services.jobs.find(arguments.id)
    placement = placement_of(arguments)
    view = services.jobs.start(job_id, start_over=True, placement=placement)
    return _after_wish(services, view, arguments.wait, as_json)


def _resume(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    job_id = services.jobs.find(arguments.id)
    placement = placement_of(arguments)
    view = services.jobs.resume(job_id, arguments.checkpoint, placement)
    return _after_wish(services, view, arguments.wait, as_json)


def _stop(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    view = services.jobs.stop(services.jobs.find(arguments.id))
    if arguments.wait and view.state.is_live:
        return _follow(services, view.id, as_json)
    _print_state(view, as_json)
    return OK


def _wait(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    return _follow(services, services.jobs.find(arguments.id), as_json)


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
            f"The job {job_id} goes on; only the waiting has ended.",
            f"To stop the job: main.py job stop {job_id}",
        ) from None
    _print_state(view, as_json)
    return OK if view.state in (JobState.FINISHED, JobState.INTERRUPTED) else FAILED


def watch(services: Services, job_id: str, as_json: bool) -> JobView:
    """Wait for the end of a run, with bars where a person looks."""
    if as_json or not sys.stderr.isatty():
        return services.jobs.wait(job_id)
    from backend.cli.bars import RunBars

    with RunBars() as bars:
        return services.jobs.wait(job_id, lambda update: bars.show(update.view))


def _print_state(view: JobView, as_json: bool) -> None:
    if as_json:
        print_json(view)
        return
    print_line(f"{view.id}: {view.state.word}{_progress_words(view)}")
    if view.error is not None:
        print_line(_cause(view))
    elif view.message:
        print_line(view.message)


def _progress_words(view: JobView) -> str:
    if not view.total_steps:
        return ""
    return f", epoch {view.epoch} of {view.epochs}, step {view.step} of {view.total_steps}"


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


def _show(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    view = services.jobs.show(services.jobs.find(arguments.id))
    if as_json:
        print_json(view)
        return OK
    config = view.config
    place = services.queue.look().of(view.id) if view.state is JobState.QUEUED else None
    print_facts(
        [
            ("Job", view.id),
            ("Name", view.name),
            ("State", f"{view.state.word}{' (' + view.doubt + ')' if view.doubt else ''}"),
            ("Queue", f"place {place.number}: {place.sentence}" if place is not None else ""),
            ("Cause", _cause(view)),
            ("Way out", view.error.remedy if view.error else ""),
            ("Message", view.message),
            ("Run", str(view.run) if view.run else ""),
            ("Epoch", f"{view.epoch} of {view.epochs}"),
            ("Step", f"{view.step} of {view.total_steps}" if view.total_steps else ""),
            ("Time left", in_time(view.eta_s) if view.state.is_live else ""),
            *((name, in_figures(value)) for name, value in view.metrics.items()),
            *((kind.replace("_", " ").capitalize(), p.reference) for kind, p in view.pins.items()),
            (
                "Optimizer",
                f"{config.optimizer.name}, rate {config.optimizer.lr:g}, {config.schedule.name}",
            ),
            ("Batch", f"{config.batch_size} × {config.world_size} = {config.global_batch_size}"),
            (
                "Placement",
                ", ".join(
                    f"{p.node}: {', '.join(p.gpus) or p.processes}" for p in config.placement
                ),
            ),
            ("Tags", ", ".join(view.tags)),
            ("Notes", view.notes),
            ("Created", f"{_moment(view.created)}{' by ' + view.user if view.user else ''}"),
            ("Started", _moment(view.started)),
            ("Ended", _moment(view.ended)),
            ("Folder", services.share.shown(services.data_root.job(view.id).path)),
            ("Proof", _evidence(view)),
            ("Traceback", view.error.traceback if view.error else ""),
        ]
    )
    return OK


def _job_list(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    views = services.jobs.list()
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
                _cause(view) or view.message,
            )
            for view in views
        ),
        "There are no jobs yet. Make one: main.py job create FILE.toml",
    )
    return OK


def _history(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    update = services.jobs.history(services.jobs.find(arguments.id))
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


def _log(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    job_id = services.jobs.find(arguments.id)
    offset, pieces = 0, []
    while True:
        chunk = services.jobs.log(job_id, arguments.rank, offset, _LOG_PIECE)
        if as_json:
            pieces.append(chunk.text)
        else:
            sys.stdout.write(shown(chunk.text))
        if chunk.offset == offset or chunk.offset >= chunk.size:
            break
        offset = chunk.offset
    if as_json:
        print_json({"rank": arguments.rank, "text": "".join(pieces)})
    return OK


def _checkpoints(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    found = services.jobs.checkpoints(services.jobs.find(arguments.id))
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
                    for word, is_so in (("latest", record.is_latest), ("best", record.is_best))
                    if is_so
                ),
                ", ".join(f"{name} {in_figures(v)}" for name, v in record.metrics.items()),
            )
            for record in found
        ),
        "There is no checkpoint yet.",
    )
    return OK


def _export(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    job_id = services.jobs.find(arguments.id)
    with progress_bar(as_json) as bar:
        path = services.jobs.export(
            job_id, arguments.checkpoint, arguments.format, arguments.output, progress=bar
        )
    if as_json:
        print_json({"path": str(path), "bytes": path.stat().st_size, "format": arguments.format})
    else:
        print_line(f"Wrote {path} ({in_bytes(path.stat().st_size)}).")
    return OK


def _clone(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    raw = services.jobs.clone(services.jobs.find(arguments.id))
    if arguments.output is not None:
        path = services.jobs.write_file(raw, arguments.output)
        if as_json:
            print_json({"path": str(path)})
        else:
            print_line(
                f"Wrote {path}. Change it, then: main.py job create {shlex.quote(str(path))}"
            )
    elif as_json:
        print_json(raw)
    else:
        import tomli_w

        sys.stdout.write(tomli_w.dumps(raw))
    return OK


def _annotate(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    tags = None if arguments.tag is None else tuple(tag for tag in arguments.tag if tag)
    view = services.jobs.annotate(
        services.jobs.find(arguments.id), name=arguments.name, notes=arguments.notes, tags=tags
    )
    _print_state(view, as_json)
    return OK


def _tag(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    jobs = services.jobs
    views = [
        jobs.retag(job_id, arguments.add, arguments.remove)
        for job_id in map(jobs.find, arguments.ids)
    ]
    if as_json:
        print_json(views)
        return OK
    for view in views:
        print_line(f"{view.id}  {view.name}: {', '.join(view.tags) or 'no tags'}")
    return OK


def _job_remove(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    view = services.jobs.remove(services.jobs.find(arguments.id))
    if as_json:
        print_json(view)
    else:
        print_line(f"Moved {view.id} to {_trash(services)}.")
    return OK


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"


def _moment(stamp: str) -> str:
    """A time of the files, as people read it, in their own time zone."""
    from datetime import datetime

    if not stamp:
        return ""
    try:
        return datetime.fromisoformat(stamp).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except ValueError:
        return stamp


_Command = Callable[["Services", argparse.Namespace, bool], int]
_COMMANDS: dict[tuple[str, str], _Command] = {
    ("demo", ""): _demo,
    ("doctor", ""): nodes.doctor,
    ("rescan", ""): _rescan,
    **{
        (kind, action): command
        for kind in ("dataset", "model", "loader")
        for action, command in (
            ("import", _import),
            ("list", _library_list),
            ("show", _library_show),
            ("remove", _library_remove),
        )
    },
    ("dataset", "preview"): _preview,
    ("model", "check"): _check_model,
    ("node", "add"): nodes.add,
    ("node", "list"): nodes.list_nodes,
    ("node", "check"): nodes.check,
    ("node", "forget"): nodes.forget,
    ("node", "forget-passphrase"): nodes.forget_passphrase,
    ("node", "orphans"): nodes.orphans,
    ("node", "provision"): nodes.provision,
    ("node", "remove"): nodes.remove,
    ("node", "unprovision"): nodes.unprovision,
    ("job", "create"): _create,
    ("job", "start"): _start,
    ("job", "preflight"): preflight.preflight,
    ("job", "queue"): queue.queue,
    ("job", "unqueue"): queue.unqueue,
    ("job", "reorder"): queue.reorder,
    ("queue", "list"): queue.list_queue,
    ("queue", "pause"): queue.pause,
    ("queue", "resume"): queue.resume,
    ("template", "list"): template.list_templates,
    ("template", "show"): template.show,
    ("template", "save"): template.save,
    ("template", "rename"): template.rename,
    ("template", "remove"): template.remove,
    ("notice", "show"): notice.show,
    ("notice", "webhook"): notice.webhook,
    ("notice", "mail"): notice.mail,
    ("notice", "set"): notice.set_channels,
    ("notice", "test"): notice.send_test,
    ("job", "stop"): _stop,
    ("job", "resume"): _resume,
    ("job", "wait"): _wait,
    ("job", "show"): _show,
    ("job", "list"): _job_list,
    ("job", "history"): _history,
    ("job", "compare"): compare.compare,
    ("job", "sweep"): _sweep,
    ("job", "log"): _log,
    ("job", "checkpoints"): _checkpoints,
    ("job", "export"): _export,
    ("job", "bundle"): bundle.bundle,
    ("job", "unbundle"): bundle.unbundle,
    ("job", "replay"): bundle.replay,
    ("job", "replayed"): bundle.replayed,
    ("job", "clone"): _clone,
    ("job", "annotate"): _annotate,
    ("job", "tag"): _tag,
    ("job", "remove"): _job_remove,
}
