"""Import a folder, an archive or a file as a dataset, a model or a loader, or as all three.

Opened by the button of a page, or by dropping something on the window; then the kind is a guess
from the folder's contents, and the name is that of the folder.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath

from PySide6.QtCore import QTimer, Signal, Slot
from PySide6.QtWidgets import QFileDialog, QWidget

from backend.records.base.validation import name_error
from backend.records.library.item import Kind
from backend.records.library.project import ImportGuess, Project
from widgets.common.buttons import Button, SegmentedControl
from widgets.common.dialog import Dialog
from widgets.common.fields import Field, LineEdit, align_with_field
from widgets.common.layout import row
from widgets.common.task_status import TaskStatus
from widgets.common.theme import S2
from widgets.library.page_texts import project_words

_WIDTH = 520
_ALL, _THREE, _BOTH = "all", "All parts", "Both"
_ENDING = re.compile(
    r"(?<=.)((\.tar|\.[ct]sv|\.txt)?\.(zip|gz|bz2|xz)|\.(t[gx]z|tbz2?|tar|[ct]sv|txt|np[yz]|parquet))$",
    re.IGNORECASE,
)
"""Of archives and data files; a name of a folder may have a dot."""
_PAUSE_MS = 200
"""Has no key until a typed path was inspected."""


@dataclass(frozen=True)
class ImportRequest:
    """The source, kind and name of an import.

    With a ``project`` all its parts are imported.
    """

    kind: Kind
    source: str
    name: str
    project: Project | None = None


class ImportDialog(Dialog):
    """One dialog for the three kinds.

    Signals:
        guess_requested: The path in From changed; answer with `show_found`.
        import_requested: An `ImportRequest`; answer with `show_progress`, then `accept` or
            `show_error`.
        cancel_requested: Cancel the running import.
    """

    guess_requested = Signal(str)
    import_requested = Signal(object)
    cancel_requested = Signal()

    def __init__(
        self,
        kind: Kind,
        source: str = "",
        name: str = "",
        taken: dict[Kind, dict[str, int]] | None = None,
        parent: QWidget | None = None,
        *,
        prefers_all: bool = True,
    ) -> None:
        """Build the dialog.

        Args:
            taken: Existing names, with the number of their newest version.
            prefers_all: Select all parts if a folder holds them.
        """
        super().__init__("Import", _WIDTH, parent)
        self._taken = taken or {}
        self._prefers_all = prefers_all and not name
        self._project: Project | None = None
        self._under_way = False
        kinds = [(k.value, k.value.capitalize()) for k in Kind]
        self._kind = SegmentedControl([*kinds, (_ALL, _THREE)], kind.value, name="Kind")
        self._kind.set_tip(_ALL, "A folder with bks_model.py, bks_dataset.py and the data")
        self._kind.set_enabled(_ALL, False)
        self._pause = QTimer(self)
        self._pause.setSingleShot(True)
        self._pause.setInterval(_PAUSE_MS)
        self._pause.timeout.connect(self._ask)
        self._is_looking = False
        self._kind.key_chosen.connect(self._changed)
        self._source = LineEdit(source, placeholder="Folder or file", name="From")
        self._source.textChanged.connect(self._source_changed)
        folder = Button("Folder…", icon="folder-open")
        folder.clicked.connect(self._choose_folder)
        file = Button("File…", icon="folder-open")
        file.clicked.connect(self._choose_file)
        self._source_field = Field("From", self._source)
        self._name = LineEdit(name, placeholder="Name", name="Name")
        self._name.textChanged.connect(self._changed)
        self._name_field = Field("Name", self._name)
        self._answer = TaskStatus("Importing")
        self._answer.cancelled.connect(self.cancel_requested)
        self._import = self.default_button("Import", self._request)
        self._close = self.close_button("Cancel")
        self.fill(
            S2,
            self._kind,
            row((self._source_field, 1), align_with_field(folder), align_with_field(file)),
            self._name_field,
            self._answer,
            S2,
            foot=(self._close, self._import),
        )
        if source and not name:
            self._fill_name(source)
        self._check()
        (self._name if source else self._source).setFocus()

    def show_found(self, source: str, found: ImportGuess) -> None:
        """Take a guess at the contents of the path of `guess_requested`."""
        if source != self._path():
            return
        self._is_looking = False
        self._project = found.project
        has_data = found.project is None or Kind.DATASET in found.project.parts
        self._kind.set_text(_ALL, _THREE if has_data else _BOTH)
        self._kind.set_enabled(_ALL, found.project is not None)
        if found.project is not None and self._prefers_all:
            self._kind.choose(_ALL)
        elif found.project is None and self._kind.key() == _ALL:
            self._kind.choose(found.kind.value)
        self._changed()

    def show_progress(self, share: float | None, text: str) -> None:
        self._under_way = True
        self._answer.show_progress(share, text)
        self._check()

    def show_error(self, sentence: str, remedy: str = "") -> None:
        """Show why the import was refused; nothing was changed."""
        self._under_way = False
        self._answer.show_result("bad", f"{sentence} {remedy}".strip())
        self._check()

    def reject(self) -> None:
        if self._under_way:
            self.cancel_requested.emit()
        super().reject()

    @Slot(str)
    def _source_changed(self, source: str) -> None:
        self._fill_name(source)
        self._is_looking = bool(self._path())
        self._pause.start()
        if not self._path():
            self.show_found("", ImportGuess())
        self._changed()

    @Slot()
    def _ask(self) -> None:
        """Inspect the path; until the answer nothing can be imported."""
        self._pause.stop()
        if self._path():
            self.guess_requested.emit(self._path())

    def _path(self) -> str:
        return self._source.text().strip()

    def _fill_name(self, source: str) -> None:
        if not self._name.isModified():
            self._name.setText(_ENDING.sub("", PurePath(source).name))

    @Slot()
    def _changed(self) -> None:
        if not self._under_way:
            # There is room for it already: no field moves.
            self._answer.show_result("text2", self._found_words())
        self._check()

    @Slot()
    def _check(self) -> None:
        name = self._name.text()
        kinds = list(Kind) if self._kind.key() == _ALL else [Kind(self._kind.key())]
        fault = name_error(name) if name else ""
        self._name_field.set_error(fault)
        version = max(self._taken.get(kind, {}).get(name, 0) for kind in kinds)
        becomes = (
            "changed parts become its next version"
            if len(kinds) > 1
            else f"this becomes its version {version + 1}"
        )
        self._name_field.set_note(f"“{name}” exists; {becomes}." if version else "")
        is_free = not self._under_way and not self._is_looking
        self._import.setEnabled(bool(name and not fault and self._path()) and is_free)
        # While work is running, its own line has the Cancel button.
        self._close.setVisible(not self._under_way)

    def _found_words(self) -> str:
        if self._project is None:
            return ""
        if self._kind.key() == _ALL:
            return project_words(self._project)
        if Kind.DATASET in self._project.parts:
            return f"It has a model, a loader and data: choose “{_THREE}” to import them together."
        return f"It has a model and a loader: choose “{_BOTH}” to import them together."

    @Slot()
    def _choose_folder(self) -> None:
        chosen = QFileDialog.getExistingDirectory(self, "Folder to import", self._source.text())
        if chosen:
            self._source.setText(chosen)
            self._ask()

    @Slot()
    def _choose_file(self) -> None:
        chosen, _ = QFileDialog.getOpenFileName(self, "File to import", self._source.text())
        if chosen:
            self._source.setText(chosen)
            self._ask()

    @Slot()
    def _request(self) -> None:
        key = self._kind.key()
        project = self._project if key == _ALL else None
        kind = Kind.MODEL if key == _ALL else Kind(key)
        request = ImportRequest(kind, self._path(), self._name.text(), project)
        self.show_progress(None, "Reading the source")
        self.import_requested.emit(request)
