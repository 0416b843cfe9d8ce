"""All that can be done with one job, for the menu of its head and for that of its row."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QMenu

from backend.records.jobs.state import JobState
from backend.records.jobs.summary import JobSummary
from backend.records.jobs.view import JobView
from widgets.jobs.actions.primary_action import KEYS_OF_ACTS, PrimaryAction, main_act
from widgets.jobs.actions.signals import JobActions

Do = Callable[[], object]
OnPage = Callable[[Do], Do]
"""Makes of an act that is asked about on the page of the job one that opens that page first."""


def add_main_act(
    menu: QMenu,
    job: JobView | JobSummary,
    wishes: JobActions,
    on_page: OnPage,
    has_checkpoints: bool | None,
) -> None:
    """The act that the head of the job has a button for; an export stands below."""
    act, job_id = main_act(job, has_checkpoints), job.id
    do: dict[PrimaryAction, Do] = {
        PrimaryAction.START: on_page(partial(wishes.start_requested.emit, job_id)),
        PrimaryAction.STOP: partial(wishes.stop_requested.emit, job_id),
        PrimaryAction.RESUME: on_page(partial(wishes.resume_requested.emit, job_id, "")),
        PrimaryAction.START_OVER: on_page(partial(wishes.start_over_requested.emit, job_id)),
    }
    if act.act in do:
        _add(menu, act.text, act.is_able, do[act.act])


def add_acts(
    menu: QMenu,
    job: JobView | JobSummary,
    wishes: JobActions,
    *,
    export: Do,
    elsewhere: Do,
    rename: Do | None,
    on_page: OnPage = lambda act: act,
    has_checkpoints: bool | None = None,
    busy: bool = False,
) -> None:
    """All that can be done with a job; what does not fit its state is off.

    Args:
        export, elsewhere, rename: What asks for more; None where that is offered already.
        on_page: For what is asked about on the page of the job.
        has_checkpoints: There are some to export or to go on from; None while nobody knows.
        busy: Something is being done with it.
    """
    live, job_id = job.state.is_live, job.id
    has_finished = job.state is JobState.FINISHED
    acts: tuple[tuple[str, bool, Do | None], ...] = (
        ("Clone", True, partial(wishes.clone_requested.emit, job_id)),
        ("Compare", True, partial(wishes.compare_requested.emit, job_id)),
        ("Export…", bool(has_checkpoints), export),
        ("Bundle…", not live, partial(wishes.bundle_requested.emit, job_id)),
        ("Replay…", job.state.is_over, partial(wishes.replay_requested.emit, job_id)),
        (
            "How the replay went",
            job.state.is_over,
            partial(wishes.replayed_requested.emit, job_id),
        ),
        (
            "Resume on other nodes…",
            bool(has_checkpoints) and job.state.is_over and not has_finished,
            elsewhere,
        ),
        (
            "Check before a start…",
            not live and not busy and not has_finished,
            on_page(partial(wishes.preflight_requested.emit, job_id)),
        ),
        ("Rename", True, rename),
        (
            "Start over, keeping the earlier run",
            bool(job.run) and not live,
            on_page(partial(wishes.start_over_requested.emit, job_id)),
        ),
        ("Open folder", True, partial(wishes.folder_requested.emit, job_id)),
        ("Copy id", True, partial(QGuiApplication.clipboard().setText, job_id)),
    )
    for text, able, act in acts:
        if act is not None:
            _add(menu, text, able, act)
    menu.addSeparator()
    _add(menu, "Move to the trash", not live, partial(wishes.remove_requested.emit, job_id))


def _add(menu: QMenu, text: str, able: bool, act: Do) -> None:
    added = menu.addAction(text, act)
    added.setEnabled(able)
    # Told beside the words; the key itself is heard by the page.
    added.setShortcut(KEYS_OF_ACTS.get(text, ""))
    added.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
