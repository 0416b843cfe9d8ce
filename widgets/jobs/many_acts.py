"""What can be done with several jobs at once, wherever it is offered."""

from __future__ import annotations

from dataclasses import dataclass

from widgets.common import formats

MOST_COMPARED = 8
"""A plot has eight colours."""


@dataclass(frozen=True)
class ManyAct:
    """One act. ``why_not`` is "" when it can be done."""

    key: str
    text: str
    icon: str
    why_not: str = ""


def many_acts(count: int, live: int) -> tuple[ManyAct, ...]:
    """The acts on so many jobs, of which so many are under way, the likeliest first."""
    most = MOST_COMPARED
    fits_plot = "" if 2 <= count <= most else f"Choose 2 to {most} jobs"
    fits_file = "" if count <= most else f"Choose up to {most} jobs"
    one = "" if count == 1 else "Choose one job: the form holds one"
    rests = "" if not live else "Stop those that are running first"
    stop = f"Stop {formats.count(live)}" if live > 1 else "Stop"
    return (
        ManyAct("compare", "Compare", "chart-line-up", fits_plot),
        ManyAct("tag", "Tag…", "tag"),
        ManyAct("stop", stop, "stop", "" if live else "None of them is running"),
        ManyAct("export", "Export…", "upload-simple"),
        ManyAct("clone", "Clone", "copy", one),
        ManyAct("csv", "Save CSV…", "download-simple", fits_file),
        ManyAct("trash", "Move to trash…", "trash", rests),
    )
