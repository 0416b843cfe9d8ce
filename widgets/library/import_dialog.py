"""Import a folder or a zip as a dataset, a model or a loader.

Opened by the button of a place, or by dropping something on the window; then the kind is a guess
from what the folder holds, and the name is filled in from the folder's.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QFileDialog, QWidget

from backend.records.library import Kind
from backend.records.values import name_fault
from widgets.common.answer import Answer
from widgets.common.buttons import Button, SegmentedControl
from widgets.common.fields import Field, LineEdit, beside_field
from widgets.common.fitted_dialog import FittedDialog
from widgets.common.layout import STRETCH, col, row
from widgets.common.text import Label
from widgets.common.theme import S2, S3, S4, S6

_WIDTH = 520


@dataclass(frozen=True)
class ImportWish:
    """What is to be imported, from where, and what it will be called."""

    kind: Kind
    source: str
    name: str


class ImportDialog(FittedDialog):
    """One dialog for the three kinds.

    Signals:
        import_requested: An `ImportWish`; answer with `show_progress`, then `accept` or
            `show_error`.
        cancel_requested: The import under way is not wanted any more.
    """

    import_requested = Signal(object)
    cancel_requested = Signal()

    def __init__(
        self,
        kind: Kind,
        source: str = "",
        name: str = "",
        taken: dict[Kind, dict[str, int]] | None = None,
        parent: QWidget | None = None,
    ) -> None:
        """The dialog.

        Args:
            taken: Names that exist, with the number of their newest version.
        """
        super().__init__("Import", _WIDTH, parent)
        self._taken = taken or {}
        self._under_way = False
        kinds = [(k.value, k.value.capitalize()) for k in Kind]
        self._kind = SegmentedControl(kinds, kind.value, name="What it is")
        self._kind.chosen.connect(self._changed)
        self._source = LineEdit(source, placeholder="Folder or zip", name="From")
        self._source.textChanged.connect(self._source_changed)
        folder = Button("Folder…", icon="folder-open")
        folder.clicked.connect(self._choose_folder)
        archive = Button("Zip…", icon="folder-open")
        archive.clicked.connect(self._choose_zip)
        self._source_field = Field("From", self._source)
        self._name = LineEdit(name, placeholder="Name", name="Name")
        self._name.textChanged.connect(self._changed)
        self._name_field = Field("Name", self._name)
        self._answer = Answer("Importing")
        self._answer.cancelled.connect(self.cancel_requested)
        self._import = Button("Import", kind="primary")
        self._import.setDefault(True)
        self._import.clicked.connect(self._wish)
        self._close = Button("Cancel")
        self._close.clicked.connect(self.reject)
        self.setLayout(
            col(
                Label("Import", "title"),
                S2,
                self._kind,
                row((self._source_field, 1), beside_field(folder), beside_field(archive), gap=S2),
                self._name_field,
                self._answer,
                S2,
                row(STRETCH, self._close, self._import, gap=S2),
                gap=S3,
                margins=(S6, S4, S6, S4),
            )
        )
        if source and not name:
            self._source_changed(source)
        self._check()
        (self._name if source else self._source).setFocus()

    def show_progress(self, share: float | None, text: str) -> None:
        self._under_way = True
        self._answer.show_progress(share, text)
        self._check()

    def show_error(self, sentence: str, remedy: str = "") -> None:
        """The import was refused, and nothing was changed."""
        self._under_way = False
        self._answer.say("bad", f"{sentence} {remedy}".strip())
        self._check()

    def reject(self) -> None:
        if self._under_way:
            self.cancel_requested.emit()
        super().reject()

    @Slot(str)
    def _source_changed(self, source: str) -> None:
        if not self._name.isModified():
            path = PurePath(source)
            self._name.setText(path.stem if path.suffix.lower() == ".zip" else path.name)
        self._changed()

    @Slot()
    def _changed(self) -> None:
        if not self._under_way:
            self._answer.clear()
        self._check()

    @Slot()
    def _check(self) -> None:
        name = self._name.text()
        kind = Kind(self._kind.key())
        fault = name_fault(name) if name else ""
        self._name_field.set_error(fault)
        version = self._taken.get(kind, {}).get(name)
        note = f"“{name}” exists; this becomes its version {version + 1}." if version else ""
        self._name_field.set_note(note)
        ready = bool(name and not fault and self._source.text()) and not self._under_way
        self._import.setEnabled(ready)
        # While something is under way, its own line has the way out.
        self._close.setVisible(not self._under_way)

    @Slot()
    def _choose_folder(self) -> None:
        chosen = QFileDialog.getExistingDirectory(self, "Folder to import", self._source.text())
        if chosen:
            self._source.setText(chosen)

    @Slot()
    def _choose_zip(self) -> None:
        chosen, _ = QFileDialog.getOpenFileName(
            self, "Zip to import", self._source.text(), "Zip files (*.zip)"
        )
        if chosen:
            self._source.setText(chosen)

    @Slot()
    def _wish(self) -> None:
        source = self._source.text().strip()
        wish = ImportWish(Kind(self._kind.key()), source, self._name.text())
        self.show_progress(None, "Looking")
        self.import_requested.emit(wish)


def guessed_kind(names: tuple[str, ...]) -> Kind:
    """What a folder with these file names is, by its entry file."""
    for kind in (Kind.MODEL, Kind.LOADER):
        if kind.entry_file in names:
            return kind
    return Kind.DATASET
