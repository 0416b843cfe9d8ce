"""The questions about jobs: tags, the trash, the priority, and the nodes on which to resume."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from PySide6.QtWidgets import QWidget

from backend.records.base.timestamps import instant
from backend.records.base.validation import sanitize, tags_error
from backend.records.nodes.reading import NodeState
from backend.records.queue.entry import (
    MAX_LENGTH_S,
    MAX_PRIORITY,
    MIN_PRIORITY,
    START_TIME_FORMS,
    QueueEntry,
    parse_start_time,
)
from widgets.common import formats
from widgets.common.dialog import Question
from widgets.common.fields import Field, LineEdit, SpinBox
from widgets.common.labels import Label
from widgets.common.layout import row
from widgets.common.theme import S3
from widgets.jobs.placement.placement_picker import PlacementPicker

_PRIORITY_W, _HOURS_W, _QUEUE_W = 96, 144, 600
_MOVE_W, _NODES_H = 720, 280
_MAX_NAMES, _NAME_CHARS = 3, 40


def tag_question(
    names: Sequence[str],
    current_tags: Sequence[str],
    change_tags: Callable[[tuple[str, ...], tuple[str, ...]], object],
    parent: QWidget | None = None,
) -> Question:
    """Ask for tags to add to several jobs, and tags to remove; other tags stay."""
    hint = "Tags, separated by commas"
    add_edit = LineEdit(placeholder=hint, name="Tags to add")
    remove_edit = LineEdit(placeholder=hint, name="Tags to remove")
    add_field = Field("Add", add_edit)
    note = (
        f"Current tags: {sanitize(', '.join(current_tags), 120)}"
        if current_tags
        else "These jobs have no tags."
    )

    def read_tags() -> tuple[tuple[str, ...], tuple[str, ...]]:
        return _split_tags(add_edit.text()), _split_tags(remove_edit.text())

    def check() -> bool:
        add_field.set_error(tags_error(read_tags()[0]))
        return not add_field.error() and any(read_tags())

    head = Label(f"Tag {formats.plural(len(names), 'job')}", "title")
    question = Question("Tag", "Tag", lambda: change_tags(*read_tags()), parent, head=head)
    remove_field = Field("Remove", remove_edit, note=note)
    return question.ask(_names_text(names), add_field, remove_field, check=check)


def reason_question(
    verb: str,
    names: Sequence[str],
    owners: str,
    action: Callable[[str], object],
    parent: QWidget | None = None,
) -> Question:
    """Ask whether jobs of other users are to be stopped or removed, and why."""
    edit = LineEdit(placeholder="The GPUs are needed until Friday", name="Reason")
    subject = "a job" if len(names) == 1 else formats.plural(len(names), "job")
    head = Label(f"{verb} {subject} of {owners}?", "title")
    question = Question(verb, verb, lambda: action(edit.text()), parent, head=head)
    note = f"{owners} will be notified, with your name and the reason."
    return question.ask(_names_text(names), Field("Reason", edit, note=note))


class TrashQuestion(Question):
    """Asks whether jobs may go to the trash, and shows their size on disk."""

    def __init__(
        self, names: Sequence[str], action: Callable[[], object], parent: QWidget | None = None
    ) -> None:
        super().__init__(
            *("Move to trash", "Move to trash", action, parent),
            head=Label(f"Move {formats.plural(len(names), 'job')} to the trash?", "title"),
            close_label="Keep them" if len(names) > 1 else "Keep it",
            icon="trash",
            is_dangerous=True,
        )
        self._size_label = Label("Computing their size…", "body", "text2", wrap=True)
        self.ask(_names_text(names), self._size_label, check=lambda: False)

    def show_size(self, size_bytes: int) -> None:
        """Show the size of the jobs, with logs, curves and checkpoints."""
        self._size_label.setText(
            f"{formats.disk(size_bytes)} with logs, curves and checkpoints. They stay in the "
            "trash of the data root until it is emptied."
        )
        self.action_button.setEnabled(True)

    def show_error(self, message: str) -> None:
        self._size_label.setText(message)
        self._size_label.set_color_role("bad")


def queue_question(
    entry: QueueEntry,
    on_answer: Callable[[int, datetime | None, float], object],
    parent: QWidget | None = None,
) -> Question:
    """Ask for the priority of a job in the queue, its earliest start, and the hours it reserves."""
    priority = SpinBox(entry.priority, minimum=MIN_PRIORITY, maximum=MAX_PRIORITY, name="Priority")
    priority.setFixedWidth(_PRIORITY_W)
    start_time = instant(entry.not_before)
    time_text = f"{start_time.astimezone():%Y-%m-%d %H:%M}" if start_time is not None else ""
    edit = LineEdit(time_text, placeholder="as soon as possible", name="Not before")
    field = Field("Not before", edit)
    hours_text = f"{entry.length_s / 3600:g}" if entry.length_s else ""
    hours_edit = LineEdit(hours_text, placeholder="no reservation", name="Reserve for")
    hours_edit.setFixedWidth(_HOURS_W)
    hours_field = Field("Reserve for, in hours", hours_edit)

    def read_time() -> datetime | None:
        time_text = edit.text().strip()
        return parse_start_time(time_text, datetime.now().astimezone()) if time_text else None

    def read_hours() -> float:
        text = hours_edit.text().strip().replace(",", ".")
        hours = float(text) if text else 0.0
        if not 0 <= hours * 3600 <= MAX_LENGTH_S:
            raise ValueError
        return hours

    def check() -> bool:
        """Show the time in the text, or examples of its format."""
        field.set_error("")
        hours_field.set_error("")
        try:
            read_hours()
        except ValueError:  # Of any text.
            hours_field.set_error(f"A number up to {MAX_LENGTH_S / 3600:.0f}")
        field.set_note(f"For example {START_TIME_FORMS}. Empty: as soon as possible.")
        try:
            start_time = read_time()
        except ValueError as error:
            field.set_error(str(error))
        else:
            if start_time is not None:
                field.set_note(f"Not before {formats.full_time(start_time)}")
        return not field.error() and not hours_field.error()

    def save() -> None:
        on_answer(priority.value(), read_time(), read_hours())

    verb = "Save" if entry.job_id else "Queue"
    return Question("Priority and time", verb, save, parent, width=_QUEUE_W).ask(
        f"“{sanitize(entry.name, _NAME_CHARS)}” starts automatically when its turn "
        "comes and its nodes are free. Higher priorities start first. With a time and hours, its "
        "GPUs are kept free for it from then on.",
        row(Field("Priority", priority), (field, 1), hours_field, gap=S3, top=True),
        check=check,
    )


class MoveQuestion(Question):
    """Asks where to resume a stopped job.

    Args:
        placement: The placement of the last run.
        resume: Called with the new ``placement`` of the job file.
        excluded_node: The node that the job leaves; the dialog does not select it.
    """

    def __init__(
        self,
        job_name: str,
        placement: Sequence[Mapping[str, Any]],
        states: tuple[NodeState, ...],
        resume: Callable[[list[Mapping[str, Any]]], object],
        parent: QWidget | None = None,
        *,
        excluded_node: str = "",
    ) -> None:
        picker = PlacementPicker(_NODES_H)
        super().__init__(
            *("Resume on other nodes", "Resume", lambda: resume(picker.value()), parent),
            icon="play",
            width=_MOVE_W,
        )
        self._picker = picker
        self.ask(
            f"{job_name} resumes from its newest checkpoint, at the same epoch and sample. "
            "From now on it runs on the nodes that you choose"
            + (f"; {excluded_node} is left out." if excluded_node else "."),
            self._picker,
            check=self._check_placement,
        )
        # Insert it first: a widget added to a styled parent keeps its original fonts.
        self._picker.show_nodes(states)
        self._picker.put([entry for entry in placement if entry.get("node") != excluded_node])
        self._picker.set_need(sum(len(entry.get("gpus", ())) for entry in placement), excluded_node)
        self._picker.changed.connect(self.update_button)
        self.update_button()
        self.action_button.setFocus()

    def show_nodes(self, states: tuple[NodeState, ...]) -> None:
        self._picker.show_nodes(states)
        self.update_button()

    def _check_placement(self) -> bool:
        count = sum(
            len(entry.get("gpus", ())) or int(entry.get("processes", 0))
            for entry in self._picker.value()
        )
        processes = formats.plural(count, "process", "processes")
        self.action_button.setText(f"Resume on {processes}" if count else "Resume")
        return count > 0


def _names_text(names: Sequence[str]) -> str:
    names_text = ", ".join(f"“{sanitize(name, _NAME_CHARS)}”" for name in names[:_MAX_NAMES])
    hidden_count = len(names) - _MAX_NAMES
    return names_text + (f" and {formats.count(hidden_count)} more" if hidden_count > 0 else "")


def _split_tags(text: str) -> tuple[str, ...]:
    tags = (tag.strip() for tag in text.split(","))
    return tuple(dict.fromkeys(tag for tag in tags if tag))
