"""The actions on several jobs, wherever they are offered."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from PySide6.QtCore import QObject, Signal, Slot
from PySide6.QtWidgets import QMenu

from widgets.common import formats

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


class BulkActions(QObject):
    """The actions on several jobs: requested in the table, for a sweep, or by a key.

    Signals:
        compare_requested, tag_requested, stop_requested, export_requested, csv_requested,
        clone_requested, trash_requested: Ids of the jobs, as a tuple.
    """

    compare_requested = Signal(object)
    tag_requested = Signal(object)
    stop_requested = Signal(object)
    export_requested = Signal(object)
    csv_requested = Signal(object)
    trash_requested = Signal(object)
    clone_requested = Signal(object)

    def fill(self, menu: QMenu, ids: tuple[str, ...], live: int) -> None:
        """Add the actions on these jobs, of which `live` are running."""
        for act in many_acts(len(ids), live):
            menu.addAction(act.text, partial(self.act, act.key, ids)).setEnabled(not act.why_not)

    @Slot(str, object)
    def act(self, key: str, ids: tuple[str, ...]) -> None:
        """Request the `ManyAct` of this key for these jobs."""
        wishes = {
            "compare": self.compare_requested,
            "tag": self.tag_requested,
            "stop": self.stop_requested,
            "export": self.export_requested,
            "csv": self.csv_requested,
            "clone": self.clone_requested,
            "trash": self.trash_requested,
        }
        wishes[key].emit(ids)
