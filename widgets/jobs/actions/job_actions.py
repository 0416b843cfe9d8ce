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
from backend.records.jobs.view import NO_RESUME_REASON, JobView
from backend.records.queue.entry import QueuedJob
from widgets.common import formats
from widgets.common.actions import Action, Request, Requests, always, fill_menu, never
from widgets.common.drag_and_drop import FilePromise

JobIds: TypeAlias = tuple[str, ...]
MAX_COMPARED_JOBS = 8
"""The number of colours of a plot."""
_START_OVER_TIP = "Train again from the first step; the files of the earlier run are kept"
_RESUMABLE_STATES = frozenset({JobState.INTERRUPTED, JobState.ERROR, JobState.LOST})


@dataclass(frozen=True)
class JobSubject:
    """A job, with the properties that decide which actions are offered.

    Attributes:
        has_checkpoints: The job has checkpoints to export or resume from; None if not known yet.
        queued_job: The queue entry of the job, with its position.
        busy_label: The action under way ("Stopping…"), "" for none.
        can_cancel: The action under way can be cancelled.
        is_overdue: Stopping takes longer than expected.
        is_in_table: The menu belongs to a row of the table, where the name is edited in place.
    """

    job: JobView | JobSummary
    has_checkpoints: bool | None = None
    queued_job: QueuedJob | None = None
    busy_label: str = ""
    can_cancel: bool = False
    is_overdue: bool = False
    is_in_table: bool = False

    @property
    def can_resume(self) -> bool:
        """Return whether the job can resume, as long as is known: a job without steps cannot."""
        if self.job.state not in _RESUMABLE_STATES or not self.job.resumes:
            return False
        if self.has_checkpoints is None:
            return may_have_checkpoints(self.job)
        return self.has_checkpoints


def may_have_checkpoints(job: JobView | JobSummary) -> bool:
    """Return False for a job without steps; those of a script without a total are not known."""
    return job.progress is None or job.progress > 0


@dataclass(frozen=True)
class Selection:
    """The numbers of selected jobs, of live jobs, and of queued jobs among them."""

    count: int
    live_count: int
    queued_count: int

    @property
    def stop_text(self) -> str:
        """Return ``Stop``, ``Stop 2``, ``Stop 2 and 5 waiting`` or ``Remove 5 from queue``."""
        if not self.queued_count:
            return f"Stop {formats.count(self.live_count)}" if self.live_count > 1 else "Stop"
        if not self.live_count:
            return f"Remove {formats.count(self.queued_count)} from queue"
        return (
            f"Stop {formats.count(self.live_count)} and {formats.count(self.queued_count)} waiting"
        )


JobAction: TypeAlias = Action[[str], JobSubject]
BulkAction: TypeAlias = Action[[JobIds], Selection]

# The main action, for the button next to the name. It depends on the state.

START = JobAction("start", "Start", "play", needs_page=True, is_primary=True)
CANCEL = JobAction("cancel", "Cancel", "x")
STOP = JobAction("stop", "Stop", "stop", shortcut="Ctrl+.", shortcut_label="Stop the open job")
KILL = JobAction(
    "kill", "Kill now", "x-circle", tip="Everything after the last checkpoint will be lost"
)
RESUME = JobAction("resume", "Resume", "play", needs_page=True)

# The menu of a job, in groups.

QUEUE = JobAction(
    "queue",
    "Queue",
    tip="Start automatically when its turn comes and its nodes are free",
    make_title=lambda subject: "Queue" if subject.job.state is JobState.CREATED else "Queue resume",
    is_offered=lambda subject: subject.job.state is JobState.CREATED or subject.can_resume,
)
MOVE_TO_TOP = JobAction(
    "top",
    "Move to the top",
    is_offered=lambda subject: subject.job.state.is_queued,
    is_enabled=lambda subject: subject.queued_job is not None and subject.queued_job.number > 1,
)
PRIORITY = JobAction(
    "priority",
    "Priority and time…",
    make_title=lambda subject: (
        "Priority and time…" if subject.job.state.is_queued else "Queue for later…"
    ),
    is_offered=lambda subject: (
        subject.job.state is JobState.CREATED
        or (subject.job.state.is_queued and subject.queued_job is not None)
    ),
    needs_page=True,
)
LEAVE_QUEUE = JobAction(
    "leave",
    "Remove from queue",
    tip="Remove the job from the queue",
    is_offered=lambda subject: subject.job.state.is_queued,
)

CLONE = JobAction("clone", "Clone", "copy", shortcut="Ctrl+D", shortcut_label="Clone the open job")
COMPARE = JobAction("compare", "Compare", "chart-line-up")
EXPORT = JobAction(
    "export",
    "Export…",
    "upload-simple",
    shortcut="Ctrl+E",
    shortcut_label="Export its newest checkpoint",
    disabled_tip="There is no checkpoint to export",
    is_enabled=lambda subject: bool(subject.has_checkpoints),
    needs_page=True,
)
REPORT = JobAction("report", "Report…", "file-text")
BUNDLE = JobAction("bundle", "Bundle…", is_enabled=lambda subject: not subject.job.state.is_live)
REPLAY = JobAction("replay", "Replay…", is_enabled=lambda subject: subject.job.state.is_over)
MOVE = JobAction(
    "elsewhere",
    "Resume on other nodes…",
    is_offered=lambda subject: (
        bool(subject.has_checkpoints)
        and subject.job.state.is_over
        and subject.job.state is not JobState.FINISHED
        and subject.job.resumes
    ),
    needs_page=True,
)
PREFLIGHT = JobAction(
    "preflight",
    "Preflight check…",
    is_offered=lambda subject: (
        not subject.job.state.is_live and subject.job.state is not JobState.FINISHED
    ),
    is_enabled=lambda subject: not subject.busy_label,
    needs_page=True,
)
RENAME = JobAction(
    "rename",
    "Rename",
    shortcut="F2",
    shortcut_label="Rename the open job",
    is_offered=lambda subject: not subject.is_in_table,
    needs_page=True,
)
START_OVER = JobAction(
    "start_over",
    "Start over, keeping the earlier run",
    "arrow-clockwise",
    is_enabled=lambda subject: bool(subject.job.run) and not subject.job.state.is_live,
    needs_page=True,
)
TENSORBOARD = JobAction(
    "events", "Open TensorBoard", is_enabled=lambda subject: bool(subject.job.run)
)
TENSORBOARD_WEIGHTS = JobAction(
    "weights",
    "Open TensorBoard with weights",
    is_offered=lambda subject: not subject.job.is_script,
    is_enabled=lambda subject: bool(subject.has_checkpoints),
)
OPEN_FOLDER = JobAction("folder", "Open folder")
OPEN_SESSION = JobAction(
    "session",
    "Open session",
    "browser",
    tip="Show its JupyterLab or terminal in the browser",
    is_offered=lambda subject: subject.job.is_session and subject.job.state.is_live,
)
COPY_SSH = JobAction(
    "copy_ssh",
    "Copy SSH command",
    tip="For a terminal of your own, or for Remote - SSH of VS Code",
    is_offered=OPEN_SESSION.is_offered,
)
COPY_ID = JobAction("copy_id", "Copy id")
COPY_FOLDER = JobAction("copy_folder", "Copy the folder's path")

TRASH = JobAction(
    "trash", "Move to the trash", is_enabled=lambda subject: not subject.job.state.is_live
)

QUEUE_ACTIONS = (QUEUE, MOVE_TO_TOP, PRIORITY, LEAVE_QUEUE)
JOB_ACTIONS = (
    OPEN_SESSION,
    COPY_SSH,
    CLONE,
    COMPARE,
    EXPORT,
    REPORT,
    MOVE,
    PREFLIGHT,
    RENAME,
    START_OVER,
    TENSORBOARD,
    OPEN_FOLDER,
)
MORE_ACTIONS = (BUNDLE, REPLAY, TENSORBOARD_WEIGHTS, COPY_ID, COPY_FOLDER)
KEYED_ACTIONS = (STOP, *(action for action in JOB_ACTIONS if action.shortcut))


def fill_job_menu(
    menu: QMenu,
    leading_actions: Sequence[JobAction],
    subject: JobSubject,
    ask: Callable[[JobAction], object],
) -> None:
    """Add the actions of a job, after ``leading_actions``; rare actions have their own menu."""
    fill_menu(menu, (leading_actions, JOB_ACTIONS), subject, ask, with_shortcuts=True)
    fill_menu(menu.addMenu("More"), (MORE_ACTIONS,), subject, ask)
    fill_menu(menu, ((TRASH,),), subject, ask)


def main_action(subject: JobSubject) -> JobAction:
    """Return the main action for the state of a job, with its text in this state.

    For a job that failed, the tab "What happened" has the highlighted action.
    """
    if subject.can_cancel:
        return CANCEL
    action = OPEN_SESSION if opens_session(subject) else action_for_state(subject)
    if subject.busy_label:
        action = replace(
            action, text=subject.busy_label, shortcut="", tip="", disabled_tip="", is_enabled=never
        )
    return action


def opens_session(subject: JobSubject) -> bool:
    """Return whether the user can work in the job, which then comes before its stop."""
    return subject.job.is_session and subject.job.state is JobState.TRAINING


def action_for_state(subject: JobSubject) -> JobAction:
    state, has_no_checkpoint = subject.job.state, subject.has_checkpoints is False
    is_primary = not state.has_failed
    if state is JobState.STOPPING and subject.is_overdue:
        return KILL
    if state is JobState.STOPPING:
        return replace(STOP, text="Stopping…", shortcut="", is_enabled=never)
    if state.is_live:
        return STOP
    if state is JobState.CREATED:
        return START
    if state.is_queued:
        resume_action = START_OVER if has_no_checkpoint or not subject.job.resumes else RESUME
        start_action = resume_action if subject.job.run else START
        return replace(
            start_action,
            text="Start now",
            icon="play",
            is_primary=False,
            disabled_tip="The scheduler of its cluster starts it.",
            is_enabled=lambda subject: not subject.job.has_scheduler,
        )
    if state is JobState.FINISHED:
        return replace(EXPORT, is_enabled=lambda subject: subject.has_checkpoints is not False)
    if has_no_checkpoint:
        tip = f"There is no checkpoint to resume from. {_START_OVER_TIP}"
        return replace(
            START_OVER, text="Start over", tip=tip, is_primary=is_primary, is_enabled=always
        )
    if not subject.job.resumes:
        return replace(RESUME, disabled_tip=NO_RESUME_REASON, is_enabled=never)
    return replace(RESUME, is_primary=is_primary)


# Actions on several jobs, the most likely first.

COMPARE_ALL = BulkAction(
    "compare_all",
    COMPARE.text,
    COMPARE.icon,
    disabled_tip=f"Select 2 to {MAX_COMPARED_JOBS} jobs",
    is_enabled=lambda subject: 2 <= subject.count <= MAX_COMPARED_JOBS,
)
TAG_ALL = BulkAction("tag_all", "Tag…", "tag")
STOP_ALL = BulkAction(
    "stop_all",
    STOP.text,
    STOP.icon,
    STOP.shortcut,
    "Stop the selected jobs, or that of the row",
    disabled_tip="None of them runs or waits",
    make_title=lambda subject: subject.stop_text,
    is_enabled=lambda subject: bool(subject.live_count + subject.queued_count),
)
EXPORT_ALL = BulkAction(
    "export_all", EXPORT.text, EXPORT.icon, EXPORT.shortcut, "Export their newest checkpoints"
)
CLONE_ALL = BulkAction(
    "clone_all", CLONE.text, CLONE.icon, CLONE.shortcut, "Clone the selected jobs"
)
CSV_ALL = BulkAction("csv_all", "Save CSV…", "download-simple")
REPORT_ALL = BulkAction(
    "report_all",
    REPORT.text,
    REPORT.icon,
    disabled_tip=COMPARE_ALL.disabled_tip,
    is_enabled=COMPARE_ALL.is_enabled,
)
TRASH_ALL = BulkAction(
    "trash_all",
    "Move to trash…",
    "trash",
    disabled_tip="Stop the running jobs first",
    is_enabled=lambda subject: not subject.live_count,
)
BULK_ACTIONS = (
    COMPARE_ALL,
    TAG_ALL,
    STOP_ALL,
    EXPORT_ALL,
    CLONE_ALL,
    CSV_ALL,
    REPORT_ALL,
    TRASH_ALL,
)
KEYED_BULK_ACTIONS = sorted(
    (action for action in BULK_ACTIONS if action.shortcut), key=lambda action: action.shortcut
)
SWEEP_ACTIONS = tuple(
    replace(REPORT_ALL, is_enabled=always) if action == REPORT_ALL else action
    for action in BULK_ACTIONS
    if action != CLONE_ALL
)
"""The form holds one job; a report holds any number of a sweep."""


@dataclass(frozen=True)
class CheckpointSubject:
    """The chosen checkpoint of a job; only a script knows what is in its own checkpoints."""

    is_chosen: bool = False
    is_kept: bool = False
    is_of_script: bool = False

    @property
    def is_ours(self) -> bool:
        """Return whether this program can read the weights of the checkpoint."""
        return self.is_chosen and not self.is_of_script


# Requests of single buttons and dialogs. The first argument is a job id unless it is described.


@dataclass(frozen=True)
class CheckpointDrag:
    """A checkpoint that is dragged out of the window, and the promise of its file."""

    job_id: str
    checkpoint: Checkpoint
    format: str
    file_name: str
    promise: FilePromise


NEW_JOB = Request[[]]("new")
"""Open the form of a new job."""
BACK = Request[[]]("back")
"""Show the list (narrow windows)."""
RESUME_FROM = Request[[str, str]]("resume_from")
"""A job id, and the name of a checkpoint, "" for the newest."""
NEW_FROM = Action[[str, str], CheckpointSubject](
    "new_from",
    "New job from this",
    icon="plus",
    is_enabled=lambda subject: subject.is_ours,
)
VERIFY_CHECKPOINT = Action[[str, str], CheckpointSubject](
    "verify",
    "Check file",
    icon="shield-check",
    tip="Read the file and compare it with the hash stored when it was saved",
    is_enabled=lambda subject: subject.is_chosen,
)
RESUME_ON_NODES = Request[[str, object]]("resume_elsewhere")
"""A job id, and ``placement`` as a job file has it."""
RESUME_WITH = Request[[str, Mapping[str, Any]]]("resume_with")
"""A job id, and the settings that change, by name."""
CLONE_WITH = Request[[str, Mapping[str, Any]]]("clone_with")
SET_NAME = Request[[str, str]]("set_name")
SET_NOTES = Request[[str, str]]("set_notes")
SET_TAGS = Request[[str, tuple[str, ...]]]("set_tags")
SAVE_CSV = Request[[str]]("csv")
"""Save all its curves."""
READ_CHECKPOINTS = Request[[str]]("read_checkpoints")
READ_SETTINGS = Request[[str]]("read_settings")
READ_SAMPLES = Request[[str]]("read_samples")
READ_HISTORY = Request[[str]]("read_history")
READ_RUNS = Request[[str]]("read_runs")
SHOW_EARLIER_RUN = Request[[str, int]]("earlier")
"""A job id, and the number of an earlier run, to show its curves and log."""
SHOW_NEWEST_RUN = Request[[str]]("newest")
"""Show the newest run."""
TRY_CHECKPOINT = Request[[JobView, Sequence[Checkpoint], str]]("try")
"""A job, its checkpoints, and the name of the checkpoint to try."""
DRAW_NUMBER = Request[[str, str]]("draw_number")
"""A job id, and the pattern of a number in its log."""
KEEP_CHECKPOINT = Action[[str, Checkpoint], CheckpointSubject](
    "keep",
    "Keep always",
    icon="push-pin",
    make_title=lambda subject: "Stop keeping" if subject.is_kept else "Keep always",
    is_enabled=lambda subject: subject.is_chosen,
)
INSPECT_CHECKPOINT = Action[[str, str, Sequence[Checkpoint]], CheckpointSubject](
    "inspect",
    "Look inside…",
    icon="magnifying-glass",
    tip="Weights, gradients, and one sample on its way through the layers",
    is_enabled=lambda subject: subject.is_ours,
)
"""A job id, the name of a checkpoint to look into, and all checkpoints."""
CHECKPOINT_MENU_ACTIONS: tuple[Action[Any, CheckpointSubject], ...] = (
    NEW_FROM,
    INSPECT_CHECKPOINT,
    KEEP_CHECKPOINT,
    VERIFY_CHECKPOINT,
)
EXPORT_TO = Request[[str, str, str, str]]("export_to")
"""A job id, a checkpoint (its name, "best" or "latest"), a format and a path."""
CANCEL_EXPORT = Request[[]]("cancel_export")
EXPORT_FORMAT = Request[[str]]("export_kind")
"""The format of an export, to be stored for the next export."""
SHOW_FILE = Request[[str]]("show_file")
"""Path of an exported file, to be shown in the file manager."""
DRAG_CHECKPOINT = Request[[CheckpointDrag]]("drag")
"""The receiver sets the path of its promise at once."""
SAVE_FILE = Request[[str, bytes]]("save")
"""A suggested file name, and the bytes to save."""
SHOW_NODE = Request[[str]]("show_node")
"""The name of a node."""
SHOW_PROCESSES = Request[[str]]("show_processes")
"""The name of a node, whose processes are to be shown."""
CHANGE_QUEUED = Request[[str, int, datetime | None, float]]("change_queued")
"""A job id, its priority, its earliest start, and the hours that it reserves; not queued: queue."""
MOVE_QUEUED = Request[[str, str, str]]("move_queued")
"""A job id, and the job before or after which to place it; the other id is ""."""
PAUSE_QUEUE = Request[[bool]]("pause_queue")
"""Whether to pause or resume the queue."""


class JobActions(Requests):
    """The requests on jobs."""
