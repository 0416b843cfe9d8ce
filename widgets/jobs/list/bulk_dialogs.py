"""The dialogs for several jobs: change tags, and move to the trash."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QWidget

from backend.records.base.validation import sanitize, tags_error
from widgets.common import formats
from widgets.common.buttons import Button
from widgets.common.dialog import Dialog
from widgets.common.fields import Field, LineEdit
from widgets.common.labels import Label

_WIDTH = 460
_MAX_NAMES, _NAME_CHARS = 3, 40


class TagDialog(Dialog):
    """Adds tags to several jobs and removes tags from them; other tags stay.

    Signals:
        requested: The tags to add and the tags to remove, as tuples.
    """

    requested = Signal(object, object)

    def __init__(
        self, names: Sequence[str], current_tags: Sequence[str], parent: QWidget | None = None
    ) -> None:
        super().__init__("Tag", _WIDTH, parent)
        hint = "Tags, separated by commas"
        self._add_edit = LineEdit(placeholder=hint, name="Tags to add")
        self._remove_edit = LineEdit(placeholder=hint, name="Tags to remove")
        for edit in (self._add_edit, self._remove_edit):
            edit.textChanged.connect(self._check_tags)
        note = (
            f"Current tags: {sanitize(', '.join(current_tags), 120)}"
            if current_tags
            else "These jobs have no tags."
        )
        self._add_field = Field("Add", self._add_edit)
        self._tag_button = self.default_button("Tag", self._request)
        self.fill(
            Label(_names_text(names), "body", "text2", wrap=True),
            self._add_field,
            Field("Remove", self._remove_edit, note=note),
            head=Label(f"Tag {formats.plural(len(names), 'job')}", "title"),
            foot=(self.close_button(), self._tag_button),
        )
        self._check_tags()

    @Slot()
    def _check_tags(self) -> None:
        added_tags = _split_tags(self._add_edit.text())
        removed_tags = _split_tags(self._remove_edit.text())
        error_text = tags_error(added_tags)
        self._add_field.set_error(error_text)
        self._tag_button.setEnabled(not error_text and bool(added_tags or removed_tags))

    @Slot()
    def _request(self) -> None:
        self.requested.emit(
            _split_tags(self._add_edit.text()), _split_tags(self._remove_edit.text())
        )
        self.accept()


class TrashDialog(Dialog):
    """Asks whether jobs may go to the trash, and shows their size on disk.

    Signals:
        requested: The user confirmed the move.
    """

    requested = Signal()

    def __init__(self, names: Sequence[str], parent: QWidget | None = None) -> None:
        super().__init__("Move to trash", _WIDTH, parent)
        self._size_label = Label("Computing their size…", "body", "text2", wrap=True)
        self._trash_button = Button("Move to trash", kind="danger", icon="trash")
        self._trash_button.setEnabled(False)
        self._trash_button.clicked.connect(self._request)
        keep_label = "Keep them" if len(names) > 1 else "Keep it"
        self.fill(
            Label(_names_text(names), "body", "text2", wrap=True),
            self._size_label,
            head=Label(f"Move {formats.plural(len(names), 'job')} to the trash?", "title"),
            foot=(self.default_button(keep_label, self.reject, kind="plain"), self._trash_button),
        )

    def show_size(self, size_bytes: int) -> None:
        """Show the size of the jobs, with logs, curves and checkpoints."""
        self._size_label.setText(
            f"{formats.disk(size_bytes)} with logs, curves and checkpoints. They stay in the "
            "trash of the data root until it is emptied."
        )
        self._trash_button.setEnabled(True)

    def show_error(self, message: str) -> None:
        self._size_label.setText(message)
        self._size_label.set_color_role("bad")

    @Slot()
    def _request(self) -> None:
        self.requested.emit()
        self.accept()


def _names_text(names: Sequence[str]) -> str:
    names_text = ", ".join(f"“{sanitize(name, _NAME_CHARS)}”" for name in names[:_MAX_NAMES])
    hidden_count = len(names) - _MAX_NAMES
    return names_text + (f" and {formats.count(hidden_count)} more" if hidden_count > 0 else "")


def _split_tags(text: str) -> tuple[str, ...]:
    tags = (tag.strip() for tag in text.split(","))
    return tuple(dict.fromkeys(tag for tag in tags if tag))
