"""Import a folder, an archive or a file as a dataset, a model or a loader, or as all three.

The dialog is opened by the button of a page, or by a drop on the window; then the kind is a guess
from the folder's contents, and the name is the folder's name.
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
from widgets.common.dialog import Dialog, TaskStatus
from widgets.common.fields import Field, LineEdit, align_with_field
from widgets.common.layout import row
from widgets.common.theme import S2
from widgets.library.page_texts import project_text

_WIDTH = 520
_ALL_PARTS, _ALL_PARTS_TITLE, _BOTH_PARTS_TITLE = "all", "All parts", "Both"
_SUFFIX_PATTERN = re.compile(
    r"(?<=.)((\.tar|\.[ct]sv|\.txt)?\.(zip|gz|bz2|xz)|\.(t[gx]z|tbz2?|tar|[ct]sv|txt|np[yz]|parquet))$",
    re.IGNORECASE,
)
"""The suffixes of archives and data files; a name of a folder may have a dot."""
_INSPECTION_DELAY_MS = 200
"""The pause after the last typed letter until the path is inspected."""


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
    """The dialog for all kinds of imports.

    Signals:
        guess_requested: The path in From changed; answer with `show_guess`.
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
        newest_versions: dict[Kind, dict[str, int]] | None = None,
        parent: QWidget | None = None,
        *,
        prefers_all: bool = True,
    ) -> None:
        """Build the dialog.

        Args:
            newest_versions: The newest version of each existing name, by kind.
            prefers_all: Select all parts if a folder holds them.
        """
        super().__init__("Import", _WIDTH, parent)
        self._newest_versions = newest_versions or {}
        self._prefers_all = prefers_all and not name
        self._project: Project | None = None
        self._is_importing = False
        kinds = [(k.value, k.value.capitalize()) for k in Kind]
        self._kind = SegmentedControl(
            [*kinds, (_ALL_PARTS, _ALL_PARTS_TITLE)], kind.value, name="Kind"
        )
        self._kind.set_tip(_ALL_PARTS, "A folder with bks_model.py, bks_dataset.py and the data")
        self._kind.set_enabled(_ALL_PARTS, False)
        self._inspection_timer = QTimer(self, singleShot=True, interval=_INSPECTION_DELAY_MS)
        self._inspection_timer.timeout.connect(self._request_guess)
        self._is_inspecting = False
        self._kind.key_chosen.connect(self._refresh)
        self._source = LineEdit(source, placeholder="Folder or file", name="From")
        self._source.textChanged.connect(self._accept_source)
        folder_button = Button("Folder…", icon="folder-open")
        folder_button.clicked.connect(self._choose_folder)
        file_button = Button("File…", icon="folder-open")
        file_button.clicked.connect(self._choose_file)
        self._source_field = Field("From", self._source)
        self._name = LineEdit(name, placeholder="Name", name="Name")
        self._name.textChanged.connect(self._refresh)
        self._name_field = Field("Name", self._name)
        self._status = TaskStatus("Importing")
        self._status.cancelled.connect(self.cancel_requested)
        self._import_button = self.default_button("Import", self._request_import)
        self._close_button = self.close_button("Cancel")
        self.fill(
            S2,
            self._kind,
            row(
                (self._source_field, 1),
                align_with_field(folder_button),
                align_with_field(file_button),
            ),
            self._name_field,
            self._status,
            S2,
            foot=(self._close_button, self._import_button),
        )
        if source and not name:
            self._fill_name(source)
        self._check_fields()
        (self._name if source else self._source).setFocus()

    def show_guess(self, source: str, guess: ImportGuess) -> None:
        """Take a guess at the contents of the path of `guess_requested`."""
        if source != self._path():
            return
        self._is_inspecting = False
        self._project = guess.project
        has_data = guess.project is None or Kind.DATASET in guess.project.parts
        self._kind.set_text(_ALL_PARTS, _ALL_PARTS_TITLE if has_data else _BOTH_PARTS_TITLE)
        self._kind.set_enabled(_ALL_PARTS, guess.project is not None)
        if guess.project is not None and self._prefers_all:
            self._kind.choose(_ALL_PARTS)
        elif guess.project is None and self._kind.key() == _ALL_PARTS:
            self._kind.choose(guess.kind.value)
        self._refresh()

    def show_progress(self, share: float | None, text: str) -> None:
        self._is_importing = True
        self._status.show_progress(share, text)
        self._check_fields()

    def show_error(self, message: str, remedy: str = "") -> None:
        """Show why the import was refused; nothing was changed."""
        self._is_importing = False
        self._status.show_result("bad", f"{message} {remedy}".strip())
        self._check_fields()

    def reject(self) -> None:
        if self._is_importing:
            self.cancel_requested.emit()
        super().reject()

    @Slot(str)
    def _accept_source(self, source: str) -> None:
        self._fill_name(source)
        self._is_inspecting = bool(self._path())
        self._inspection_timer.start()
        if not self._path():
            self.show_guess("", ImportGuess())
        self._refresh()

    @Slot()
    def _request_guess(self) -> None:
        """Inspect the path; until the answer nothing can be imported."""
        self._inspection_timer.stop()
        if self._path():
            self.guess_requested.emit(self._path())

    def _path(self) -> str:
        return self._source.text().strip()

    def _fill_name(self, source: str) -> None:
        if not self._name.isModified():
            self._name.setText(_SUFFIX_PATTERN.sub("", PurePath(source).name))

    @Slot()
    def _refresh(self) -> None:
        if not self._is_importing:
            # The status has its space already: no field moves.
            self._status.show_result("text2", self._project_text())
        self._check_fields()

    @Slot()
    def _check_fields(self) -> None:
        name = self._name.text()
        kinds = list(Kind) if self._kind.key() == _ALL_PARTS else [Kind(self._kind.key())]
        error = name_error(name) if name else ""
        self._name_field.set_error(error)
        version = max(self._newest_versions.get(kind, {}).get(name, 0) for kind in kinds)
        version_note = (
            "changed parts become its next version"
            if len(kinds) > 1
            else f"this becomes its version {version + 1}"
        )
        self._name_field.set_note(f"“{name}” exists; {version_note}." if version else "")
        is_idle = not self._is_importing and not self._is_inspecting
        self._import_button.setEnabled(bool(name and not error and self._path()) and is_idle)
        # While work is running, the line of its status has the Cancel button.
        self._close_button.setVisible(not self._is_importing)

    def _project_text(self) -> str:
        if self._project is None:
            return ""
        if self._kind.key() == _ALL_PARTS:
            return project_text(self._project)
        if Kind.DATASET in self._project.parts:
            contents, title = "a model, a loader and data", _ALL_PARTS_TITLE
        else:
            contents, title = "a model and a loader", _BOTH_PARTS_TITLE
        return f"It has {contents}: choose “{title}” to import them together."

    @Slot()
    def _choose_folder(self) -> None:
        path = QFileDialog.getExistingDirectory(self, "Folder to import", self._source.text())
        if path:
            self._source.setText(path)
            self._request_guess()

    @Slot()
    def _choose_file(self) -> None:
        path, _ = QFileDialog.getOpenFileName(self, "File to import", self._source.text())
        if path:
            self._source.setText(path)
            self._request_guess()

    @Slot()
    def _request_import(self) -> None:
        key = self._kind.key()
        project = self._project if key == _ALL_PARTS else None
        kind = Kind.MODEL if key == _ALL_PARTS else Kind(key)
        request = ImportRequest(kind, self._path(), self._name.text(), project)
        self.show_progress(None, "Reading the source")
        self.import_requested.emit(request)
