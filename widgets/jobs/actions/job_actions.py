"""The table of all actions on jobs, read by headers, menus, bars, the palette and the shortcuts.

A new action is an entry here, and a handler in a controller: ``actions.on(STOP, self._stop)``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeAlias

from PySide6.QtWidgets import QMenu

from backend.records.jobs.checkpoint import Checkpoint
from backend.records.jobs.state import JobState
from backend.records.jobs.summary import JobSummary
from backend.records.jobs.view import WHY_NO_RESUME, JobView
from backend.records.queue.entry import QueuePlace
from widgets.common import formats
from widgets.common.actions import Action, Request, Requests, always, fill_menu, never
from widgets.common.lazy_file_drag import Promise

JobIds: TypeAlias = tuple[str, ...]
MOST_COMPARED = 8
"""The number of colours of a plot."""
_START_OVER_TIP = "Train again from the first step; the files of the earlier run are kept"
_CAN_GO_ON = frozenset({JobState.INTERRUPTED, JobState.ERROR, JobState.LOST})


@dataclass(frozen=True)
class JobFacts:
    """The facts that decide which actions on a job are offered.

    Attributes:
        has_checkpoints: There are some to export or resume from; None if not known yet.
        place: Its place in the queue.
        busy: The action under way ("Stopping…"), "" for none.
        can_cancel: The action under way can be cancelled.
        is_overdue: Stopping takes longer than expected.
        in_table: Its row in the table is asked, where the name is edited in place.
    """

    job: JobView | JobSummary
    has_checkpoints: bool | None = None
    place: QueuePlace | None = None
    busy: str = ""
    can_cancel: bool = False
    is_overdue: bool = False
    in_table: bool = False

    @property
    def may_go_on(self) -> bool:
        """Return whether it can resume, by what is known: a job without steps cannot."""
        known = self.has_checkpoints
        may = self.job.state in _CAN_GO_ON and self.job.resumes
        return may and (may_have_checkpoints(self.job) if known is None else known)


def may_have_checkpoints(job: JobView | JobSummary) -> bool:
    """Return False for a job without steps; those of a script without a total are not known."""
    return job.progress is None or job.progress > 0


@dataclass(frozen=True)
class Selection:
    """The number of selected jobs, of those that run, and of those in the queue."""

    count: int
    live: int
    waiting: int

    @property
    def stop_text(self) -> str:
        """Return ``Stop``, ``Stop 2``, ``Stop 2 and 5 waiting`` or ``Remove 5 from queue``."""
        if not self.waiting:
            return f"Stop {formats.count(self.live)}" if self.live > 1 else "Stop"
        if not self.live:
            return f"Remove {formats.count(self.waiting)} from queue"
        return f"Stop {formats.count(self.live)} and {formats.count(self.waiting)} waiting"


JobAction: TypeAlias = Action[[str], JobFacts]
BulkAction: TypeAlias = Action[[JobIds], Selection]

# The main action, for the button next to the name. It depends on the state.

START = JobAction("start", "Start", "play", on_page=True, is_primary=True)
CANCEL = JobAction("cancel", "Cancel", "x")
STOP = JobAction("stop", "Stop", "stop", keys="Ctrl+.", does="Stop the open job")
KILL = JobAction(
    "kill", "Kill now", "x-circle", tip="Everything after the last checkpoint will be lost"
)
RESUME = JobAction("resume", "Resume", "play", on_page=True)

# The menu of a job, in groups.

QUEUE = JobAction(
    "queue",
    "Queue",
    tip="Start automatically when its turn comes and its nodes are free",
    titled=lambda on: "Queue" if on.job.state is JobState.CREATED else "Queue resume",
    offered=lambda on: on.job.state is JobState.CREATED or on.may_go_on,
)
TOP = JobAction(
    "top",
    "Move to the top",
    offered=lambda on: on.job.state.is_queued,
    able=lambda on: on.place is not None and on.place.number > 1,
)
PRIORITY = JobAction(
    "priority",
    "Priority and time…",
    offered=lambda on: on.job.state.is_queued and on.place is not None,
)
LEAVE = JobAction(
    "leave",
    "Remove from queue",
    tip="Remove the job from the queue",
    offered=lambda on: on.job.state.is_queued,
)

CLONE = JobAction("clone", "Clone", "copy", keys="Ctrl+D", does="Clone the open job")
COMPARE = JobAction("compare", "Compare", "chart-line-up")
EXPORT = JobAction(
    "export",
    "Export…",
    "upload-simple",
    keys="Ctrl+E",
    does="Export its newest checkpoint",
    why_not="There is no checkpoint to export",
    able=lambda on: bool(on.has_checkpoints),
    on_page=True,
)
BUNDLE = JobAction("bundle", "Bundle…", able=lambda on: not on.job.state.is_live)
REPLAY = JobAction("replay", "Replay…", able=lambda on: on.job.state.is_over)
ELSEWHERE = JobAction(
    "elsewhere",
    "Resume on other nodes…",
    offered=lambda on: (
        bool(on.has_checkpoints)
        and on.job.state.is_over
        and on.job.state is not JobState.FINISHED
        and on.job.resumes
    ),
    on_page=True,
)
PREFLIGHT = JobAction(
    "preflight",
    "Preflight check…",
    offered=lambda on: not on.job.state.is_live and on.job.state is not JobState.FINISHED,
    able=lambda on: not on.busy,
    on_page=True,
)
RENAME = JobAction(
    "rename",
    "Rename",
    keys="F2",
    does="Rename the open job",
    offered=lambda on: not on.in_table,
    on_page=True,
)
START_OVER = JobAction(
    "start_over",
    "Start over, keeping the earlier run",
    "arrow-clockwise",
    able=lambda on: bool(on.job.run) and not on.job.state.is_live,
    on_page=True,
)
EVENTS = JobAction("events", "Open TensorBoard", able=lambda on: bool(on.job.run))
WEIGHTS = JobAction(
    "weights",
    "Open TensorBoard with weights",
    offered=lambda on: not on.job.is_script,
    able=lambda on: bool(on.has_checkpoints),
)
FOLDER = JobAction("folder", "Open folder")
COPY_ID = JobAction("copy_id", "Copy id")
COPY_FOLDER = JobAction("copy_folder", "Copy the folder's path")

TRASH = JobAction("trash", "Move to the trash", able=lambda on: not on.job.state.is_live)

QUEUE_ACTIONS = (QUEUE, TOP, PRIORITY, LEAVE)
JOB_ACTIONS = (CLONE, COMPARE, EXPORT, ELSEWHERE, PREFLIGHT, RENAME, START_OVER, EVENTS, FOLDER)
MORE_ACTIONS = (BUNDLE, REPLAY, WEIGHTS, COPY_ID, COPY_FOLDER)
KEYED = (STOP, *(action for action in JOB_ACTIONS if action.keys))


def fill_job_menu(
    menu: QMenu,
    first: Sequence[JobAction],
    on: JobFacts,
    ask: Callable[[JobAction], object],
) -> None:
    """Add the actions of a job, after ``first``; the rare ones have a menu of their own."""
    fill_menu(menu, (first, JOB_ACTIONS), on, ask, with_keys=True)
    fill_menu(menu.addMenu("More"), (MORE_ACTIONS,), on, ask)
    fill_menu(menu, ((TRASH,),), on, ask)


def main_action(on: JobFacts) -> JobAction:
    """Return the main action for the state of a job, with the text that it has there.

    For a job that failed, the tab "What happened" has the highlighted action.
    """
    if on.can_cancel:
        return CANCEL
    found = _main_of_state(on)
    if on.busy:
        found = replace(found, text=on.busy, keys="", tip="", why_not="", able=never)
    return found


def _main_of_state(on: JobFacts) -> JobAction:
    state, has_none = on.job.state, on.has_checkpoints is False
    stands_out = not state.has_failed
    if state is JobState.STOPPING and on.is_overdue:
        return KILL
    if state is JobState.STOPPING:
        return replace(STOP, text="Stopping…", keys="", able=never)
    if state.is_live:
        return STOP
    if state is JobState.CREATED:
        return START
    if state.is_queued:
        again = START_OVER if has_none or not on.job.resumes else RESUME
        now = again if on.job.run else START
        return replace(now, text="Start now", icon="play", is_primary=False, able=always)
    if state is JobState.FINISHED:
        return replace(EXPORT, able=lambda on: on.has_checkpoints is not False)
    if has_none:
        tip = f"There is no checkpoint to resume from. {_START_OVER_TIP}"
        return replace(START_OVER, text="Start over", tip=tip, is_primary=stands_out, able=always)
    if not on.job.resumes:
        return replace(RESUME, why_not=WHY_NO_RESUME, able=never)
    return replace(RESUME, is_primary=stands_out)


# Actions on several jobs, the most likely first.

COMPARE_ALL = BulkAction(
    "compare_all",
    COMPARE.text,
    COMPARE.icon,
    why_not=f"Select 2 to {MOST_COMPARED} jobs",
    able=lambda on: 2 <= on.count <= MOST_COMPARED,
)
TAG_ALL = BulkAction("tag_all", "Tag…", "tag")
STOP_ALL = BulkAction(
    "stop_all",
    STOP.text,
    STOP.icon,
    STOP.keys,
    "Stop the selected jobs, or that of the row",
    why_not="None of them runs or waits",
    titled=lambda on: on.stop_text,
    able=lambda on: bool(on.live + on.waiting),
)
EXPORT_ALL = BulkAction(
    "export_all", EXPORT.text, EXPORT.icon, EXPORT.keys, "Export their newest checkpoints"
)
CLONE_ALL = BulkAction("clone_all", CLONE.text, CLONE.icon, CLONE.keys, "Clone the selected jobs")
CSV_ALL = BulkAction("csv_all", "Save CSV…", "download-simple")
TRASH_ALL = BulkAction(
    "trash_all",
    "Move to trash…",
    "trash",
    why_not="Stop the running jobs first",
    able=lambda on: not on.live,
)
BULK_ACTIONS = (COMPARE_ALL, TAG_ALL, STOP_ALL, EXPORT_ALL, CLONE_ALL, CSV_ALL, TRASH_ALL)
KEYED_BULK = sorted((action for action in BULK_ACTIONS if action.keys), key=lambda one: one.keys)
SWEEP_ACTIONS = tuple(action for action in BULK_ACTIONS if action != CLONE_ALL)
"""The form holds one job."""

# Requests of single buttons and dialogs. The first argument is a job id unless it is described.


@dataclass(frozen=True)
class CheckpointDrag:
    """A checkpoint that is dragged out of the window, and the promise of its file."""

    job_id: str
    checkpoint: Checkpoint
    format: str
    file_name: str
    promise: Promise


NEW = Request[[]]("new")
"""Open the form of a new job."""
BACK = Request[[]]("back")
"""Show the list (narrow windows)."""
RESUME_FROM = Request[[str, str]]("resume_from")
"""And the name of a checkpoint, "" for the newest."""
NEW_FROM = Request[[str, str]]("new_from")
VERIFY = Request[[str, str]]("verify")
RESUME_ELSEWHERE = Request[[str, object]]("resume_elsewhere")
"""And ``placement`` as a job file has it."""
RESUME_WITH = Request[[str, Mapping[str, Any]]]("resume_with")
"""And the settings that change, by name."""
CLONE_WITH = Request[[str, Mapping[str, Any]]]("clone_with")
SET_NAME = Request[[str, str]]("set_name")
SET_NOTES = Request[[str, str]]("set_notes")
SET_TAGS = Request[[str, tuple[str, ...]]]("set_tags")
CSV = Request[[str]]("csv")
"""Save all its curves."""
READ_CHECKPOINTS = Request[[str]]("read_checkpoints")
READ_SETTINGS = Request[[str]]("read_settings")
READ_HISTORY = Request[[str]]("read_history")
READ_RUNS = Request[[str]]("read_runs")
EARLIER = Request[[str, int]]("earlier")
"""And the number of an earlier run; show its curves and log."""
NEWEST = Request[[str]]("newest")
"""Show the newest run."""
TRY = Request[[JobView, Sequence[Checkpoint], str]]("try")
"""A job, its checkpoints, and the name of the one to try."""
DRAW_NUMBER = Request[[str, str]]("draw_number")
"""And the pattern of a number in its log."""
KEEP = Request[[str, Checkpoint]]("keep")
"""Keep a checkpoint always, or no more."""
INSPECT = Request[[str, str, Sequence[Checkpoint]]]("inspect")
"""And the name of a checkpoint to look into, and all checkpoints."""
EXPORT_TO = Request[[str, str, str, str]]("export_to")
"""And a checkpoint (its name, "best" or "latest"), a format and a path."""
CANCEL_EXPORT = Request[[]]("cancel_export")
EXPORT_KIND = Request[[str]]("export_kind")
"""The format of an export, to be stored for the next one."""
SHOW_FILE = Request[[str]]("show_file")
"""Path of an exported file, to be shown in the file manager."""
DRAG = Request[[CheckpointDrag]]("drag")
"""The receiver sets the path of its promise at once."""
SAVE = Request[[str, bytes]]("save")
"""A suggested file name, and the bytes to save."""
SHOW_NODE = Request[[str]]("show_node")
"""The name of a node."""
CHANGE_QUEUED = Request[[str, int, datetime | None]]("change_queued")
"""And its new priority, and the time before which it does not start."""
MOVE_QUEUED = Request[[str, str, str]]("move_queued")
"""And the job before or after which to place it; the other id is ""."""
PAUSE_QUEUE = Request[[bool]]("pause_queue")
"""Whether to pause or resume the queue."""


class JobActions(Requests):
    """The requests on jobs."""
