"""Reap and watch the runs of jobs, start silent agents, and show the state of a job."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from backend.base.errors import BackendError
from backend.cli.printing import Answer, print_note
from backend.records.base.program_name import COMMAND
from backend.services.context.container import Services

if TYPE_CHECKING:
    from backend.cli.session import Session
    from backend.records.jobs.view import JobView, RunUpdate

_log = logging.getLogger(__name__)
_WAKE_EVERY_S = 30.0


def reap(services: Services, job_texts: str | Sequence[str] | None) -> None:
    """Reap the jobs that a command names, or all, before it reads them; start silent agents.

    A job that cannot be read or reaped is reported by the command itself.
    """
    nodes: list[str] = []
    job_texts = (job_texts,) if isinstance(job_texts, str) else job_texts
    for text in services.reaper.unfinished_job_ids() if job_texts is None else job_texts:
        try:
            job_id = text if job_texts is None else services.queries.find(text)
            services.reaper.reap(job_id)
            nodes += services.reaper.agent_nodes(job_id)
        except BackendError:
            _log.debug("The job %s could not be reaped", text, exc_info=True)
    wake_agents(services, nodes)


def wake_agents(services: Services, names: Iterable[str]) -> None:
    """Start the agents of silent nodes, and report what was found."""
    names = tuple(names)
    if not names:
        return
    results = services.provisioning.wake_silent_nodes(names, services.cluster.check_banner)
    for name, result in results.items():
        if isinstance(result, BackendError):
            print_note(f"No news arrives from {name}. {result.with_remedy}")
        elif result:
            print_note(
                f"The agent of {name} did not run and was started. It closes the runs that ended "
                "with a restart of the node within some seconds."
            )


def watch(session: Session, job_id: str) -> JobView:
    """Wait for the end of a run, with progress bars on a terminal."""
    services = session.services
    due_s = time.monotonic() + _WAKE_EVERY_S

    def on_update(update: RunUpdate) -> None:
        nonlocal due_s
        session.progress.show(update.view)
        if update.view.contact_warning and time.monotonic() >= due_s:
            wake_agents(services, update.view.nodes)
            due_s = time.monotonic() + _WAKE_EVERY_S

    try:
        view = services.queries.wait(job_id, on_update)
    except KeyboardInterrupt:
        raise BackendError(
            f"The job {job_id} continues; only the waiting has ended.",
            f"To stop the job: {COMMAND} job stop {job_id}",
        ) from None
    finally:
        session.progress.close()
    return view if services.reaper.reap(job_id) is None else services.queries.show(job_id)


def follow(session: Session, job_id: str) -> Answer:
    """Wait for the end of a run; what happens to this process does nothing to the run."""
    from backend.records.jobs.state import JobState

    view = watch(session, job_id)
    return state_answer(
        view, has_failed=view.state not in (JobState.FINISHED, JobState.INTERRUPTED)
    )


def state_answer(view: JobView, *, has_failed: bool = False) -> Answer:
    """Return a job as JSON, or its state in one line and the reason for it."""
    progress = ""
    status = view.status
    if status.total_steps:
        if status.epoch and view.epochs:
            progress = f", epoch {status.epoch} of {view.epochs}"
        progress += f", step {status.step} of {status.total_steps}"
    reason = [text] if (text := cause_message(view) or status.message) else []
    return Answer(view, f"{view.id}: {view.state_label}{progress}", reason, has_failed=has_failed)


def cause_message(view: JobView) -> str:
    if view.error is None:
        return ""
    rank_label = "" if view.error.rank is None else f"Rank {view.error.rank}"
    if rank_label and view.error.node:
        rank_label += f" on {view.error.node}"
    message = view.error.message
    return (
        message if not rank_label or message.startswith(rank_label) else f"{rank_label}: {message}"
    )
