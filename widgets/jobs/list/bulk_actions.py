"""The actions on several jobs, wherever they are offered."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from PySide6.QtWidgets import QMenu

from widgets.common import formats
from widgets.jobs.actions.job_actions import JobActions

MOST_COMPARED = 8
"""The number of colours of a plot."""
_AT_REST = "None of them runs or waits"


@dataclass(frozen=True)
class ManyAct:
    """One action; ``why_not`` is "" if it is enabled."""

    key: str
    text: str
    icon: str
    why_not: str = ""


def many_acts(count: int, live: int, waiting: int) -> tuple[ManyAct, ...]:
    """Return the actions on `count` jobs, the most likely first.

    ``live`` of the jobs are running, and ``waiting`` are in the queue.
    """
    most = MOST_COMPARED
    fits_plot = "" if 2 <= count <= most else f"Select 2 to {most} jobs"
    rests = "" if not live else "Stop the running jobs first"
    return (
        ManyAct("compare", "Compare", "chart-line-up", fits_plot),
        ManyAct("tag", "Tag…", "tag"),
        ManyAct("stop", _stop(live, waiting), "stop", "" if live or waiting else _AT_REST),
        ManyAct("export", "Export…", "upload-simple"),
        ManyAct("clone", "Clone", "copy"),
        ManyAct("csv", "Save CSV…", "download-simple"),
        ManyAct("trash", "Move to trash…", "trash", rests),
    )


def _stop(live: int, waiting: int) -> str:
    """Return ``Stop``, ``Stop 2``, ``Stop 2 and 5 waiting`` or ``Remove 5 from queue``."""
    if not waiting:
        return f"Stop {formats.count(live)}" if live > 1 else "Stop"
    if not live:
        return f"Remove {formats.count(waiting)} from queue"
    return f"Stop {formats.count(live)} and {formats.count(waiting)} waiting"


def add_many_acts(
    menu: QMenu, ids: tuple[str, ...], live: int, waiting: int, actions: JobActions
) -> None:
    """Add the actions on these jobs; see `many_acts`."""
    for act in many_acts(len(ids), live, waiting):
        request = partial(actions.act_on_many, act.key, ids)
        menu.addAction(act.text, request).setEnabled(not act.why_not)
