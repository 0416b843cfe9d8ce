"""The actions on several jobs, wherever they are offered."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from PySide6.QtWidgets import QMenu

from widgets.common import formats
from widgets.jobs.actions.job_actions import JobActions

MOST_COMPARED = 8
"""The number of colours of a plot."""


@dataclass(frozen=True)
class ManyAct:
    """One action; ``why_not`` is "" if it is enabled."""

    key: str
    text: str
    icon: str
    why_not: str = ""


def many_acts(count: int, live: int) -> tuple[ManyAct, ...]:
    """Return the actions on `count` jobs, `live` of which are running, the most likely first."""
    most = MOST_COMPARED
    fits_plot = "" if 2 <= count <= most else f"Select 2 to {most} jobs"
    rests = "" if not live else "Stop the running jobs first"
    stop = f"Stop {formats.count(live)}" if live > 1 else "Stop"
    return (
        ManyAct("compare", "Compare", "chart-line-up", fits_plot),
        ManyAct("tag", "Tag…", "tag"),
        ManyAct("stop", stop, "stop", "" if live else "None of them is running"),
        ManyAct("export", "Export…", "upload-simple"),
        ManyAct("clone", "Clone", "copy"),
        ManyAct("csv", "Save CSV…", "download-simple"),
        ManyAct("trash", "Move to trash…", "trash", rests),
    )


def add_many_acts(menu: QMenu, ids: tuple[str, ...], live: int, actions: JobActions) -> None:
    """Add the actions on these jobs, of which `live` are running."""
    for act in many_acts(len(ids), live):
        request = partial(actions.act_on_many, act.key, ids)
        menu.addAction(act.text, request).setEnabled(not act.why_not)
