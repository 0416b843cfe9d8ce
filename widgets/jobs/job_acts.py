"""The one act that fits the state of an open job, and the keys of acts."""

from __future__ import annotations

from dataclasses import dataclass

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
