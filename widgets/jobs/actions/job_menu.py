"""The actions of one job, for the menus of its header and of its row."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QMenu

from backend.records.jobs.state import JobState
from backend.records.jobs.summary import JobSummary
from backend.records.jobs.view import JobView
from backend.records.queue.entry import QueuePlace
from widgets.jobs.actions.job_actions import JobActions
from widgets.jobs.actions.primary_action import KEYS_OF_ACTS, PrimaryAction, main_act
from widgets.jobs.queue.queue_dialog import QueueDialog

Do = Callable[[], object]
OnPage = Callable[[Do], Do]
"""Wraps an action that needs the page of the job: the page is opened first."""
QUEUE_TIP = "Start automatically when its turn comes and its nodes are free"
_CAN_GO_ON = frozenset({JobState.INTERRUPTED, JobState.ERROR, JobState.LOST})


def add_main_act(
    menu: QMenu,
    job: JobView | JobSummary,
    actions: JobActions,
    on_page: OnPage,
    has_checkpoints: bool | None,
) -> None:
    """Add the main action of the job's header, with its export below."""
    act, job_id = main_act(job, has_checkpoints), job.id
    do: dict[PrimaryAction, Do] = {
        PrimaryAction.START: on_page(partial(actions.start_requested.emit, job_id)),
        PrimaryAction.STOP: partial(actions.stop_requested.emit, job_id),
        PrimaryAction.RESUME: on_page(partial(actions.resume_requested.emit, job_id, "")),
        PrimaryAction.START_OVER: on_page(partial(actions.start_over_requested.emit, job_id)),
    }
    if act.act in do:
        _add(menu, act.text, act.is_able, do[act.act])


def add_acts(
    menu: QMenu,
    job: JobView | JobSummary,
    actions: JobActions,
    *,
    export: Do,
    elsewhere: Do,
    rename: Do | None,
    on_page: OnPage = lambda act: act,
    has_checkpoints: bool | None = None,
    busy: bool = False,
) -> None:
    """Add all actions of a job; those that do not fit its state are disabled.

    Args:
        export, elsewhere, rename: Actions that ask for more; None where offered already.
        on_page: Wraps an action that needs the page of the job.
        has_checkpoints: There are checkpoints to export or resume from; None if not known yet.
        busy: An action on the job is under way.
    """
    live, job_id = job.state.is_live, job.id
    has_finished = job.state is JobState.FINISHED
    acts: tuple[tuple[str, bool, Do | None], ...] = (
        ("Clone", True, partial(actions.clone_requested.emit, job_id)),
        ("Compare", True, partial(actions.compare_requested.emit, (job_id,))),
        ("Export…", bool(has_checkpoints), export),
        ("Bundle…", not live, partial(actions.bundle_requested.emit, job_id)),
        ("Replay…", job.state.is_over, partial(actions.replay_requested.emit, job_id)),
        (
            "Show replay result",
            job.state.is_over,
            partial(actions.replayed_requested.emit, job_id),
        ),
        (
            "Resume on other nodes…",
            bool(has_checkpoints) and job.state.is_over and not has_finished,
            elsewhere,
        ),
        (
            "Pre-flight check…",
            not live and not busy and not has_finished,
            on_page(partial(actions.preflight_requested.emit, job_id)),
        ),
        ("Rename", True, rename),
        (
            "Start over, keeping the earlier run",
            bool(job.run) and not live,
            on_page(partial(actions.start_over_requested.emit, job_id)),
        ),
        ("Open TensorBoard", bool(job.run), partial(actions.events_requested.emit, job_id, False)),
        (
            "Open TensorBoard with weights",
            bool(has_checkpoints),
            partial(actions.events_requested.emit, job_id, True),
        ),
        ("Open folder", True, partial(actions.folder_requested.emit, job_id)),
        ("Copy id", True, partial(QGuiApplication.clipboard().setText, job_id)),
    )
    for text, able, act in acts:
        if act is not None:
            _add(menu, text, able, act)
    menu.addSeparator()
    _add(menu, "Move to the trash", not live, partial(actions.remove_requested.emit, job_id))


def add_queue_acts(
    menu: QMenu,
    job: JobView | JobSummary,
    place: QueuePlace | None,
    actions: JobActions,
    has_checkpoints: bool | None,
) -> None:
    """Add the queue actions that fit a job; none for a job that runs or has finished."""
    # The checkpoints of a job in the list are not known; a job without steps has none.
    may_go_on = job.progress > 0 if has_checkpoints is None else has_checkpoints
    if job.state is JobState.CREATED:
        menu.addAction("Queue", partial(actions.queue_requested.emit, job.id))
    elif job.state in _CAN_GO_ON and may_go_on:
        menu.addAction("Queue resume", partial(actions.queue_requested.emit, job.id))
    elif job.state is JobState.QUEUED:
        top = menu.addAction("Move to the top", partial(actions.top_requested.emit, job.id))
        top.setEnabled(place is not None and place.number > 1)
        if place is not None:
            window = menu.parentWidget()

            def change() -> None:
                dialog = QueueDialog(place.entry, actions, window)
                dialog.finished.connect(dialog.deleteLater)
                dialog.open()

            menu.addAction("Priority and time…", change)
        menu.addAction("Remove from queue", partial(actions.leave_requested.emit, job.id))


def _add(menu: QMenu, text: str, able: bool, act: Do) -> None:
    added = menu.addAction(text, act)
    added.setEnabled(able)
    # Only displayed next to the text; the page handles the key.
    added.setShortcut(KEYS_OF_ACTS.get(text, ""))
    added.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
