"""What can be done with an open job: the one act that fits its state, and its menu."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMenu

from backend.records.job_view import JobView
from backend.records.state import JobState

KEYS_OF_ACTS = {"Stop": "Ctrl+.", "Export…": "Ctrl+E", "Clone": "Ctrl+D"}


@dataclass(frozen=True)
class MainAct:
    """The button beside the name: ``is_primary`` when it is what one came for."""

    text: str
    icon: str
    is_primary: bool = False
    is_able: bool = True


def main_act(view: JobView) -> MainAct:
    """The one act that fits the state."""
    if view.state is JobState.STOPPING:
        return MainAct("Stopping…", "stop", is_able=False)
    if view.state.is_live:
        return MainAct("Stop", "stop")
    if view.state is JobState.CREATED:
        return MainAct("Start", "play", is_primary=True)
    if view.state is JobState.QUEUED:
        return MainAct("Start now", "play")
    if view.state is JobState.FINISHED:
        return MainAct("Export…", "upload-simple")
    return MainAct("Resume", "play", is_primary=True)


@dataclass(frozen=True)
class JobWishes:
    """What each line of the menu does; those with a job's id are given it."""

    clone: Callable[[str], object]
    compare: Callable[[str], object]
    export: Callable[[], object]
    bundle: Callable[[str], object]
    replay: Callable[[str], object]
    replayed: Callable[[str], object]
    resume_elsewhere: Callable[[], object]
    look_before: Callable[[str], object]
    rename: Callable[[], object]
    start_over: Callable[[str], object]
    open_folder: Callable[[str], object]
    copy_id: Callable[[str], object]
    trash: Callable[[str], object]


def fill_menu(
    menu: QMenu, view: JobView, wishes: JobWishes, *, has_checkpoints: bool, is_busy: bool
) -> None:
    """Add all that can be done with the job; what does not fit its state is off."""
    live, job = view.state.is_live, view.id
    has_finished = view.state is JobState.FINISHED
    acts: tuple[tuple[str, bool, Callable[[], object]], ...] = (
        ("Clone", True, lambda: wishes.clone(job)),
        ("Compare", True, lambda: wishes.compare(job)),
        ("Export…", has_checkpoints, wishes.export),
        ("Bundle…", not live, lambda: wishes.bundle(job)),
        ("Replay…", view.state.is_over, lambda: wishes.replay(job)),
        ("How the replay went", view.state.is_over, lambda: wishes.replayed(job)),
        (
            "Resume on other nodes…",
            has_checkpoints and view.state.is_over and not has_finished,
            wishes.resume_elsewhere,
        ),
        (
            "Check before a start…",
            not live and not is_busy and not has_finished,
            lambda: wishes.look_before(job),
        ),
        ("Rename", True, wishes.rename),
        (
            "Start over, keeping the earlier run",
            bool(view.run) and not live,
            lambda: wishes.start_over(job),
        ),
        ("Open folder", True, lambda: wishes.open_folder(job)),
        ("Copy id", True, lambda: wishes.copy_id(job)),
    )
    for text, able, act in acts:
        added = menu.addAction(text, act)
        added.setEnabled(able)
        # Told beside the words; the key itself is heard by the page.
        added.setShortcut(KEYS_OF_ACTS.get(text, ""))
        added.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
    menu.addSeparator()
    menu.addAction("Move to the trash", lambda: wishes.trash(job)).setEnabled(not live)
