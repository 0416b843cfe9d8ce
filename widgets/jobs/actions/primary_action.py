"""The main action for the state of an open job, and the keys of actions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from backend.records.jobs.state import JobState
from backend.records.jobs.summary import JobSummary
from backend.records.jobs.view import JobView

KEYS_OF_ACTS = {"Stop": "Ctrl+.", "Export…": "Ctrl+E", "Clone": "Ctrl+D"}
KILL_TIP = "Everything after the last checkpoint will be lost"
START_OVER_TIP = "Train again from the first step; the files of the earlier run are kept"


class PrimaryAction(Enum):
    """The action of the button next to the job's name."""

    START = auto()
    CANCEL = auto()
    STOP = auto()
    KILL = auto()
    RESUME = auto()
    START_OVER = auto()
    EXPORT = auto()


@dataclass(frozen=True)
class MainAct:
    """The button next to the name; ``is_primary`` if it is highlighted."""

    act: PrimaryAction
    text: str
    icon: str
    is_primary: bool = False
    is_able: bool = True
    tip: str = ""


def main_act(
    view: JobView | JobSummary, has_checkpoints: bool | None, *, is_overdue: bool = False
) -> MainAct:
    """Return the main action for the state of a job.

    For a job that failed, the tab "What happened" has the highlighted action.

    Args:
        has_checkpoints: There are checkpoints to export or resume from; None if not known yet.
        is_overdue: Stopping takes longer than expected.
    """
    has_none = has_checkpoints is False
    stands_out = not view.state.has_failed
    if view.state is JobState.STOPPING and is_overdue:
        return MainAct(PrimaryAction.KILL, "Kill now", "x-circle", tip=KILL_TIP)
    if view.state is JobState.STOPPING:
        return MainAct(PrimaryAction.STOP, "Stopping…", "stop", is_able=False)
    if view.state.is_live:
        return MainAct(PrimaryAction.STOP, "Stop", "stop")
    if view.state is JobState.CREATED:
        return MainAct(PrimaryAction.START, "Start", "play", is_primary=True)
    if view.state is JobState.QUEUED:
        again = PrimaryAction.START_OVER if has_none else PrimaryAction.RESUME
        return MainAct(again if view.run else PrimaryAction.START, "Start now", "play")
    if view.state is JobState.FINISHED:
        tip = "There is no checkpoint to export" if has_none else ""
        return MainAct(
            PrimaryAction.EXPORT, "Export…", "upload-simple", is_able=not has_none, tip=tip
        )
    if has_none:
        tip = f"There is no checkpoint to resume from. {START_OVER_TIP}"
        return MainAct(
            PrimaryAction.START_OVER, "Start over", "arrow-clockwise", stands_out, tip=tip
        )
    return MainAct(PrimaryAction.RESUME, "Resume", "play", stands_out)
