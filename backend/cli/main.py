"""The command line: parse, call one service, print. Exit codes are 0, 1 and 2.

A failure of the world is one sentence and exit code 1; a bug keeps its traceback. Everything heavy
is imported by the command that needs it: listing jobs must not wait for numpy.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from backend.base import log
from backend.base.errors import BackendError
from backend.cli import (
    bundle,
    compare,
    jobs,
    library,
    nodes,
    notice,
    predict,
    preflight,
    queue,
    study,
    template,
    tensorboard,
)
from backend.cli.arguments import make_parser
from backend.cli.printing import FAILED, OK, print_json, print_note

if TYPE_CHECKING:
    from backend.records.base.remote_root import RemoteRoot
    from backend.services.context.container import Services

Window = Callable[["Path | RemoteRoot", Path | None, int | None], int]
"""Opens the window on a data root and catalogue; a number starts the example with it."""


def _open_streams() -> None:
    """Open the standard streams that were closed by the caller, such as a service or ``>&-``.

    Otherwise the next file that is opened would get the number of a stream, and its output.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            nothing = Path(os.devnull).open(mode, encoding="utf-8")  # noqa: SIM115 - until the end
            setattr(sys, name, nothing)


def run(argv: Sequence[str], open_window: Window) -> int:
    """Do what ``argv`` says; the exit code. The window is the caller's: here no Qt is known."""
    _open_streams()
    parser = make_parser()
    arguments = parser.parse_args(argv)
    as_json = getattr(arguments, "json", False)
    if getattr(arguments, "verbose", False):
        log.to_stderr()
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


def _places(arguments: argparse.Namespace) -> tuple[Path | RemoteRoot, Path | None]:
    from backend.services.context.container import default_data_root

    data_root = getattr(arguments, "data_root", None) or default_data_root()
    return data_root, getattr(arguments, "catalogue", None)


def _command(arguments: argparse.Namespace, as_json: bool) -> int:
    from backend.services.context.container import open_services

    has_person = nodes.has_person(as_json)
    services = open_services(
        *_places(arguments),
        accept=nodes.acceptance(arguments, has_person),
        passphrase=nodes.passphrase if has_person else None,
    )
    try:
        action = getattr(arguments, "action", "")
        if (arguments.command, action) in _JOB_COMMANDS:
            jobs.reap(services, arguments)
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


_JOB_COMMANDS = frozenset(
    {
        ("rescan", ""),
        ("queue", "list"),
        *(("study", action) for action in ("show", "stop", "resume", "export")),
        *(
            ("job", action)
            for action in (
                *("acts", "annotate", "bundle", "checkpoints", "clone", "compare", "export"),
                *("history", "keep", "layers", "list", "log", "predict", "remove", "replay"),
                *("runs", "show", "stop", "tag", "tensorboard", "wait"),
            )
        ),
    }
)
"""Commands that reap runs before they read jobs; start, resume and queue do so themselves."""
_Command = Callable[["Services", argparse.Namespace, bool], int]
_COMMANDS: dict[tuple[str, str], _Command] = {
    ("demo", ""): _demo,
    ("doctor", ""): nodes.doctor,
    ("rescan", ""): library.rescan,
    ("mirror", "clear"): library.clear_mirror,
    **{
        (kind, action): command
        for kind in ("dataset", "model", "loader")
        for action, command in (
            ("import", library.import_item),
            ("list", library.list_items),
            ("show", library.show),
            ("changes", library.show_changes),
            ("remove", library.remove),
        )
    },
    ("project", "import"): library.import_project,
    ("dataset", "preview"): library.preview,
    ("dataset", "scan"): library.scan,
    ("model", "check"): library.check_model,
    ("model", "layers"): library.model_layers,
    ("model", "weights"): library.give_weights,
    ("node", "add"): nodes.add,
    ("node", "list"): nodes.list_nodes,
    ("node", "check"): nodes.check,
    ("node", "forget"): nodes.remove_host_key,
    ("node", "forget-passphrase"): nodes.remove_passphrase,
    ("node", "orphans"): nodes.orphans,
    ("node", "provision"): nodes.provision,
    ("node", "remove"): nodes.remove,
    ("node", "unprovision"): nodes.unprovision,
    ("job", "create"): jobs.create,
    ("job", "simulate"): jobs.simulate,
    ("job", "start"): jobs.start,
    ("job", "preflight"): preflight.preflight,
    ("job", "queue"): queue.queue,
    ("job", "unqueue"): queue.unqueue,
    ("job", "reorder"): queue.reorder,
    ("queue", "list"): queue.list_queue,
    ("queue", "pause"): queue.pause,
    ("queue", "resume"): queue.resume,
    ("study", "list"): study.list_studies,
    ("study", "start"): study.start,
    ("study", "show"): study.show,
    ("study", "stop"): study.stop,
    ("study", "resume"): study.resume,
    ("study", "export"): study.export,
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
    ("job", "stop"): jobs.stop,
    ("job", "resume"): jobs.resume,
    ("job", "wait"): jobs.wait,
    ("job", "show"): jobs.show,
    ("job", "list"): jobs.list_jobs,
    ("job", "runs"): jobs.runs,
    ("job", "history"): jobs.history,
    ("job", "tensorboard"): tensorboard.serve,
    ("job", "compare"): compare.compare,
    ("job", "sweep"): jobs.sweep_jobs,
    ("job", "log"): jobs.log,
    ("job", "checkpoints"): jobs.checkpoints,
    ("job", "keep"): jobs.keep,
    ("job", "acts"): jobs.acts,
    ("job", "layers"): jobs.layers,
    ("job", "export"): jobs.export,
    ("job", "predict"): predict.predict,
    ("job", "bundle"): bundle.bundle,
    ("job", "unbundle"): bundle.unbundle,
    ("job", "replay"): bundle.replay,
    ("job", "replayed"): bundle.replayed,
    ("job", "clone"): jobs.clone,
    ("job", "annotate"): jobs.annotate,
    ("job", "tag"): jobs.tag,
    ("job", "remove"): jobs.remove,
    ("job", "restore"): jobs.restore,
}
