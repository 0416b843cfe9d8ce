"""The actions on jobs, one signal each: widgets emit them, controllers connect to them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from PySide6.QtCore import QObject, Signal, SignalInstance

from backend.records.jobs.checkpoint import Checkpoint
from widgets.common.lazy_file_drag import Promise


@dataclass(frozen=True)
class ExportRequest:
    """A checkpoint of a job (its name, "best" or "latest") to export to a path."""

    job_id: str
    checkpoint: str
    format: str
    path: str


@dataclass(frozen=True)
class CheckpointDrag:
    """A checkpoint that is dragged out of the window, and the promise of its file."""

    job_id: str
    checkpoint: Checkpoint
    format: str
    file_name: str
    promise: Promise


@dataclass(frozen=True)
class QueueChange:
    """A new priority of a waiting job, and the time before which it does not start."""

    job_id: str
    priority: int
    not_before: datetime | None


@dataclass(frozen=True)
class QueueMove:
    """A waiting job, and the job before or after which to place it; the other id is ""."""

    job_id: str
    before: str = ""
    after: str = ""


class JobActions(QObject):
    """All actions on jobs. The first argument is a job id unless it is described here.

    Signals:
        new_requested: Open the form of a new job (no argument).
        study_requested: Open the gallery of studies (no argument).
        resume_requested, new_from_requested, verify_requested: And the name of a checkpoint; ""
            resumes from the newest.
        resume_elsewhere_requested: And ``placement`` as a job file has it.
        resume_with_requested, clone_with_requested: And the settings that change, by name.
        replay_requested: Fill the form to repeat the job.
        replayed_requested: Show the result of the replay.
        rename_requested, notes_requested, tags_requested: And the new text, or a tuple of tags.
        checkpoints_requested, settings_requested, history_requested, runs_requested: Read them.
        earlier_requested: And the number of an earlier run; show its curves and log.
        newest_requested: Show the newest run.
        try_requested: A `JobView`, its checkpoints, and the name of the one to try.
        events_requested: Open TensorBoard; True: with the model's graph and weights.
        keep_requested: And a `Checkpoint` to keep always, or no more.
        inspect_requested: And the name of a checkpoint to look into, and all checkpoints.
        export_requested: An `ExportRequest`.
        export_kind_chosen: The format of an export, to be stored for the next one.
        file_requested: Path of an exported file, to be shown in the file manager.
        drag_requested: A `CheckpointDrag`; the receiver sets the path of its promise at once.
        save_requested: A suggested file name, and the bytes to save.
        node_requested: The name of a node to show.
        change_requested, move_requested: A `QueueChange`, a `QueueMove`.
        pause_requested: Whether to pause or resume the queue.
        compare_requested, many_…_requested: Ids of jobs, as a tuple.
        back_requested: Show the list (narrow windows).
    """

    new_requested = Signal()
    study_requested = Signal()
    start_requested = Signal(str)
    start_cancelled = Signal(str)
    stop_requested = Signal(str)
    kill_requested = Signal(str)
    resume_requested = Signal(str, str)
    resume_elsewhere_requested = Signal(str, object)
    resume_with_requested = Signal(str, object)
    start_over_requested = Signal(str)
    preflight_requested = Signal(str)
    clone_requested = Signal(str)
    clone_with_requested = Signal(str, object)
    new_from_requested = Signal(str, str)
    bundle_requested = Signal(str)
    replay_requested = Signal(str)
    replayed_requested = Signal(str)
    rename_requested = Signal(str, str)
    notes_requested = Signal(str, str)
    tags_requested = Signal(str, object)
    remove_requested = Signal(str)
    folder_requested = Signal(str)
    events_requested = Signal(str, bool)
    csv_requested = Signal(str)
    checkpoints_requested = Signal(str)
    settings_requested = Signal(str)
    history_requested = Signal(str)
    runs_requested = Signal(str)
    earlier_requested = Signal(str, int)
    newest_requested = Signal(str)
    try_requested = Signal(object, object, str)
    keep_requested = Signal(str, object)
    verify_requested = Signal(str, str)
    inspect_requested = Signal(str, str, object)
    export_requested = Signal(ExportRequest)
    export_cancelled = Signal()
    export_kind_chosen = Signal(str)
    file_requested = Signal(str)
    drag_requested = Signal(CheckpointDrag)
    save_requested = Signal(str, object)
    node_requested = Signal(str)
    queue_requested = Signal(str)
    leave_requested = Signal(str)
    top_requested = Signal(str)
    change_requested = Signal(QueueChange)
    move_requested = Signal(QueueMove)
    pause_requested = Signal(bool)
    compare_requested = Signal(object)
    many_tag_requested = Signal(object)
    many_stop_requested = Signal(object)
    many_export_requested = Signal(object)
    many_csv_requested = Signal(object)
    many_clone_requested = Signal(object)
    many_trash_requested = Signal(object)
    back_requested = Signal()

    def act_on_many(self, key: str, ids: tuple[str, ...]) -> None:
        """Request the `ManyAct` of this key for these jobs."""
        signals: dict[str, SignalInstance] = {
            "compare": self.compare_requested,
            "tag": self.many_tag_requested,
            "stop": self.many_stop_requested,
            "export": self.many_export_requested,
            "csv": self.many_csv_requested,
            "clone": self.many_clone_requested,
            "trash": self.many_trash_requested,
        }
        signals[key].emit(ids)
