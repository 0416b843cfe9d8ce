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
_NAMES_SHOWN, _NAME_CHARS = 3, 40


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
        self._add = LineEdit(placeholder=hint, name="Tags to add")
        self._remove = LineEdit(placeholder=hint, name="Tags to remove")
        for edit in (self._add, self._remove):
            edit.textChanged.connect(self._fit)
        note = (
            f"Current tags: {sanitize(', '.join(current_tags), 120)}"
            if current_tags
            else "These jobs have no tags."
        )
        self._add_field = Field("Add", self._add)
        self._save = self.default_button("Tag", self._request)
        self.fill(
            Label(_named(names), "body", "text2", wrap=True),
            self._add_field,
            Field("Remove", self._remove, note=note),
            head=Label(f"Tag {formats.plural(len(names), 'job')}", "title"),
            foot=(self.close_button(), self._save),
        )
        self._fit()

    @Slot()
    def _fit(self) -> None:
        add, remove = _words(self._add.text()), _words(self._remove.text())
        fault = tags_error(add)
        self._add_field.set_error(fault)
        self._save.setEnabled(not fault and bool(add or remove))

    @Slot()
    def _request(self) -> None:
        self.requested.emit(_words(self._add.text()), _words(self._remove.text()))
        self.accept()


class TrashDialog(Dialog):
    """Asks whether jobs may go to the trash, and shows their size on disk.

    Signals:
        requested: Confirms it.
    """

    requested = Signal()

    def __init__(self, names: Sequence[str], parent: QWidget | None = None) -> None:
        super().__init__("Move to trash", _WIDTH, parent)
        self._size = Label("Computing their size…", "body", "text2", wrap=True)
        self._go = Button("Move to trash", kind="danger", icon="trash")
        self._go.setEnabled(False)
        self._go.clicked.connect(self._request)
        keep = "Keep them" if len(names) > 1 else "Keep it"
        self.fill(
            Label(_named(names), "body", "text2", wrap=True),
            self._size,
            head=Label(f"Move {formats.plural(len(names), 'job')} to the trash?", "title"),
            foot=(self.default_button(keep, self.reject, kind="plain"), self._go),
        )

    def show_size(self, size_bytes: int) -> None:
        """Show the size of the jobs, with logs, curves and checkpoints."""
        self._size.setText(
            f"{formats.disk(size_bytes)} with logs, curves and checkpoints. They stay in the "
            "trash of the data root until it is emptied."
        )
        self._go.setEnabled(True)

    def show_error(self, sentence: str) -> None:
        self._size.setText(sentence)
        self._size.set_color_role("bad")

    @Slot()
    def _request(self) -> None:
        self.requested.emit()
        self.accept()


def _named(names: Sequence[str]) -> str:
    shown = ", ".join(f"“{sanitize(name, _NAME_CHARS)}”" for name in names[:_NAMES_SHOWN])
    rest = len(names) - _NAMES_SHOWN
    return f"{shown} and {formats.count(rest)} more" if rest > 0 else shown


def _words(text: str) -> tuple[str, ...]:
    words = (word.strip() for word in text.split(","))
    return tuple(dict.fromkeys(word for word in words if word))
