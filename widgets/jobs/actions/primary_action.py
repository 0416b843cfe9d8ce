"""The one act that fits the state of an open job, and the keys of acts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from backend.records.jobs.state import JobState
from backend.records.jobs.summary import JobLine
from backend.records.jobs.view import JobView

KEYS_OF_ACTS = {"Stop": "Ctrl+.", "Export…": "Ctrl+E", "Clone": "Ctrl+D"}
KILL_TIP = "What it did since its newest checkpoint is lost"
START_OVER_TIP = "From its first step; what the earlier run left is kept"


class Act(Enum):
    """What can be wished with the button beside the name."""

    START = auto()
    CANCEL = auto()
    STOP = auto()
    KILL = auto()
    RESUME = auto()
    START_OVER = auto()
    EXPORT = auto()


@dataclass(frozen=True)
class MainAct:
    """The button beside the name: ``is_primary`` when it is what one came for."""

    act: Act
    text: str
    icon: str
    is_primary: bool = False
    is_able: bool = True
    tip: str = ""


def main_act(
    view: JobView | JobLine, has_checkpoints: bool | None, *, is_overdue: bool = False
) -> MainAct:
    """The one act that fits the state.

    Of a job that failed the page "What happened" has the act that stands out.

    Args:
        has_checkpoints: There are some to export or to go on from; None while nobody knows.
        is_overdue: It should have stopped by now.
    """
    has_none = has_checkpoints is False
    stands_out = not view.state.has_failed
    if view.state is JobState.STOPPING and is_overdue:
        return MainAct(Act.KILL, "Kill now", "x-circle", tip=KILL_TIP)
    if view.state is JobState.STOPPING:
        return MainAct(Act.STOP, "Stopping…", "stop", is_able=False)
    if view.state.is_live:
        return MainAct(Act.STOP, "Stop", "stop")
    if view.state is JobState.CREATED:
        return MainAct(Act.START, "Start", "play", is_primary=True)
    if view.state is JobState.QUEUED:
        again = Act.START_OVER if has_none else Act.RESUME
        return MainAct(again if view.run else Act.START, "Start now", "play")
    if view.state is JobState.FINISHED:
        tip = "There is no checkpoint to export" if has_none else ""
        return MainAct(Act.EXPORT, "Export…", "upload-simple", is_able=not has_none, tip=tip)
    if has_none:
        tip = f"There is no checkpoint to resume from. {START_OVER_TIP}"
        return MainAct(Act.START_OVER, "Start over", "arrow-clockwise", stands_out, tip=tip)
    return MainAct(Act.RESUME, "Resume", "play", stands_out)
