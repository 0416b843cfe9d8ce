"""JupyterLab on a node, as a job."""

from __future__ import annotations

import signal
import sys
import time
import webbrowser
from contextlib import suppress
from typing import Annotated

from backend.cli.command import ArgSpec, command
from backend.cli.parameters import JobId, parse_hours, start_time
from backend.cli.printing import OK, Answer, Table, local_time_text
from backend.cli.runs import state_answer
from backend.cli.session import Session, has_display
from backend.node.system.wording import node_label
from backend.records.base.program_name import COMMAND
from backend.records.jobs.script import SESSION_KINDS
from backend.records.queue.entry import START_TIME_FORMS
from backend.services.context.container import Services

_POLL_S = 5.0


@command("session start")
def start(
    session: Session,
    node: Annotated[str, ArgSpec("NODE", "this-computer, or the name of a node")],
    *,
    gpus: Annotated[
        str, ArgSpec("GPUS", "a number of free GPUs, or UUIDs as in GPU-…,GPU-…; default: 1 if any")
    ] = "",
    hours: Annotated[float, ArgSpec("H", "time limit, default 8", parse=parse_hours)] = 8.0,
    idle_min: Annotated[float, ArgSpec("MIN", "end after minutes unused, default 30")] = 30.0,
    kind: Annotated[
        str, ArgSpec(help="page in the browser; default: jupyter", choices=tuple(SESSION_KINDS))
    ] = "jupyter",
    folder: Annotated[str, ArgSpec("PATH", "folder on the node; default: the home")] = "",
    queue: Annotated[bool, "start when its turn comes and the GPUs are free"] = False,
    not_before: Annotated[
        str, ArgSpec("TIME", f"queue it, and reserve its GPUs from then on: {START_TIME_FORMS}")
    ] = "",
    open: Annotated[bool, "open it in the browser, which is the default, or do not"] = True,
) -> Answer | int:
    """Start JupyterLab or a terminal on a node, and open it in the browser."""
    services, start = session.services, start_time(not_before)
    limits = ("--hours", f"{hours:g}", "--idle-min", f"{idle_min:g}")
    arguments = (*limits, "--folder", folder) if folder else limits
    arguments = (*arguments, "--kind", kind) if kind != "jupyter" else arguments
    raw = services.sessions.job_file(node, gpus, arguments)
    if queue or start is not None:
        view = services.jobs.create(raw, session.progress)
        queued_job = services.queue.enqueue(view.id, not_before=start, progress=session.progress)
        view = services.queries.show(view.id)
        return Answer(view, f"{view.id}: {view.state_label}. {queued_job.full_message}")
    view = services.jobs.create_and_start(raw, session.progress)
    return _serve(session, view.id) if open else state_answer(view)


@command("session open", reads_jobs=True)
def open_session(session: Session, id: JobId) -> int:
    """Open a session in the browser, and keep the connection until Ctrl+C."""
    return _serve(session, id)


@command("session ssh", reads_jobs=True)
def show_ssh(services: Services, id: JobId) -> Answer:
    """Show the SSH command that leads to a session, for a terminal or VS Code."""
    ssh, devices = services.sessions.ssh_command(id)
    return Answer({"ssh": ssh, "environment": devices}, "\n".join(filter(None, (ssh, devices))))


def _serve(session: Session, job_id: str) -> int:
    services = session.services
    for number in (signal.SIGTERM, signal.SIGHUP):
        # As Ctrl+C, so that the page with the token does not stay.
        signal.signal(number, signal.default_int_handler)
    page = services.sessions.open(job_id, session.progress)
    session.print(
        Answer(
            {"id": job_id, "page": str(page)},
            f"The session {job_id} is ready; {page} leads to it.",
            f"Ctrl+C ends the connection; the session stays: {COMMAND} session open {job_id}",
        )
    )
    sys.stdout.flush()
    if has_display() and not session.as_json:
        webbrowser.open(page.as_uri())
    with suppress(KeyboardInterrupt):
        while services.queries.show(job_id).state.is_live:
            time.sleep(_POLL_S)
    return OK


@command("session list", reads_jobs=True)
def list_sessions(services: Services) -> Answer:
    """The sessions that run or wait."""
    views = [
        view
        for view in services.queries.list()
        if view.is_session and (view.state.is_live or view.state.is_queued)
    ]
    rows = (
        (
            view.id,
            view.state_label,
            node_label(view.nodes[0]),
            str(sum(len(placement.gpus) for placement in view.config.placement)),
            view.user,
            local_time_text(view.status.started_at),
        )
        for view in views
    )
    head = ("ID", "STATE", "NODE", "GPUS", "USER", "SINCE")
    empty_hint = f"No session runs. Start one: {COMMAND} session start NODE"
    return Answer(views, Table(head, rows, empty_hint))
