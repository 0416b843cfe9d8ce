"""The gallery: models and loaders as plain code, added to the library with the chosen settings."""

from __future__ import annotations

import ast
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from backend.base.errors import BackendError
from backend.base.log import swallowed
from backend.base.progress import Progress
from backend.records.base import cells
from backend.records.base.atomic_files import read_json
from backend.records.base.program_name import COMMAND
from backend.records.base.validation import closest_match, sanitize
from backend.records.library.gallery import (
    IN_GALLERY,
    Card,
    CardFigures,
    DataShape,
    GalleryEntry,
    Suggestion,
    Value,
)
from backend.records.library.item import TRAINING_DETAIL, Kind, LibraryItem
from backend.services.context.example import EXAMPLE
from backend.services.jobs.job_file import read_job_file
from backend.services.library.dataset_shapes import recognize_shape
from backend.services.library.service import LibraryService

GALLERY = EXAMPLE.parent
CARD, FIGURES, PARTS = "card.toml", "figures.json", "parts"
_OWN_MODULES = {path.name: path for path in (Path(cells.__file__),)}
"""Modules of the program itself that an entry can have as a part."""
TASKS = ("classification", "detection", "regression")
_SIZE_KEYS = ("classes", "channels", "side", "features")


class GalleryService:
    """List the gallery and add from it. Every call blocks and may run on any thread."""

    def __init__(self, library: LibraryService, gallery: Path = GALLERY) -> None:
        self._library = library
        self._gallery = gallery

    def list(self, kind: Kind | None = None) -> tuple[GalleryEntry, ...]:
        """Return the entries of a kind, or all entries, by title."""
        entries = [
            self._read(k, path.parent)
            for k in (IN_GALLERY if kind is None else (kind,))
            for path in self._gallery.glob(f"{k.folder}/*/{CARD}")
        ]
        return tuple(
            sorted(entries, key=lambda entry: (entry.kind is Kind.LOADER, entry.card.title))
        )

    def show(self, name: str) -> GalleryEntry:
        """Return one entry.

        Raises:
            BackendError: There is no such entry.
        """
        for kind in IN_GALLERY:
            folder = self._gallery / kind.folder / name
            if folder.name == name and (folder / CARD).is_file():
                return self._read(kind, folder)
        suggestion = closest_match(name, tuple(entry.name for entry in self.list()))
        raise BackendError(
            f"The gallery has no “{sanitize(name)}”.",
            f"Did you mean “{suggestion}”?"
            if suggestion
            else f"To list it: {COMMAND} gallery list",
        )

    def values(
        self, name: str, settings: Mapping[str, str], kind: Kind | None = None
    ) -> dict[str, Value]:
        """Return the value of each setting of an entry.

        Raises:
            BackendError: There is no such entry of this kind, or a setting is invalid.
        """
        entry = self.show(name)
        if kind is not None and kind is not entry.kind:
            raise BackendError(
                f"“{name}” of the gallery is a {entry.kind.value}, not a {kind.value}."
            )
        try:
            return entry.card.values(settings)
        except ValueError as error:
            raise BackendError(
                f"{error}.", f"To see them: {COMMAND} gallery show {name}"
            ) from error

    def add(
        self,
        name: str,
        settings: Mapping[str, str],
        as_name: str = "",
        progress: Progress | None = None,
    ) -> LibraryItem:
        """Add an entry to the library, its settings written in as constants.

        Args:
            name: The name of the entry.
            settings: Typed values by the name of the setting; missing settings have defaults.
            as_name: The name in the library; by default that of the entry.
            progress: Reports the import.

        Raises:
            BackendError: There is no such entry, a setting is invalid, or the import failed;
                nothing was added.
        """
        with tempfile.TemporaryDirectory(prefix="ringmaster-gallery-") as folder:
            entry = self.write(name, settings, source := Path(folder) / name)
            item = self._library.import_item(
                entry.kind, source, as_name or name, progress, reuse_same=True
            )
        if entry.kind is not Kind.MODEL:
            return item
        return self._library.note(item, TRAINING_DETAIL, dict(entry.card.training))

    def write(self, name: str, settings: Mapping[str, str], folder: Path) -> GalleryEntry:
        """Write the code of an entry, with its parts and settings, into a new ``folder``.

        Raises:
            BackendError: There is no such entry, or a setting is invalid; nothing was written.
        """
        entry, values = self.show(name), self.values(name, settings)
        source = self._gallery / entry.kind.folder / name
        shutil.copytree(source, folder, ignore=shutil.ignore_patterns(CARD, FIGURES, "__pycache__"))
        for part in entry.card.parts:
            source_path = _OWN_MODULES.get(part, self._gallery / PARTS / part)
            shutil.copyfile(source_path, folder / part)
        code_path = folder / entry.kind.entry_file
        code_path.write_text(with_constants(code_path.read_text("utf-8"), values), "utf-8")
        return entry

    def suggest(self, dataset: str) -> Suggestion | None:
        """Return the loader that fits a dataset, by its files' names and first bytes.

        Raises:
            BackendError: There is no such dataset, or the data root is not available.
        """
        return recognize_shape(*self._library.first_bytes(Kind.DATASET, dataset))

    def data_shape(self, dataset: str, loader: str = "") -> DataShape:
        """Return the known sizes of a dataset, which a network has to accept.

        Numbers in the code of the loader, such as SIDE, precede those of the files.

        Raises:
            BackendError: A reference is unknown, or the data root is not available.
        """
        suggestion = self.suggest(dataset)
        sizes = dict(suggestion.data_sizes) if suggestion is not None else {}
        task = self.show(suggestion.entry).card.task if suggestion is not None else ""
        if task not in TASKS:
            task = TASKS[0] if "classes" in sizes else TASKS[2] if "features" in sizes else ""
        if loader:
            entry_file = Kind.LOADER.entry_file
            constants = _constants(self._library.text(Kind.LOADER, loader, entry_file))
            for key in _SIZE_KEYS:
                node = constants.get(key.upper())
                if isinstance(node, ast.Constant) and type(node.value) is int:
                    sizes[key] = node.value
        return DataShape(task, sizes)

    def _read(self, kind: Kind, folder: Path) -> GalleryEntry:
        try:
            raw = read_job_file(folder / CARD)
            if shared_card := raw.pop("settings_of", ""):
                shared_settings = read_job_file(self._gallery / PARTS / shared_card)["settings"]
                raw["settings"] = {**raw.get("settings", {}), **shared_settings}
            card = Card.from_dict(raw)
            figures = folder / FIGURES
            card_figures = CardFigures.from_dict(read_json(figures)) if figures.is_file() else None
        except ValueError as error:
            raise BackendError(f"{folder / CARD}: {error}.", "Install Ringmaster again.") from error
        return GalleryEntry(kind, folder.name, card, card_figures)


def with_constants(source: str, values: Mapping[str, Value]) -> str:
    """Return a module's source with new constants; keys are their names in lower case.

    Raises:
        ValueError: The module has no such constant.
    """
    lines = source.splitlines(keepends=True)
    constants = _constants(source)
    for key, value in values.items():
        node = constants.get(key.upper())
        if node is None or node.lineno != node.end_lineno:
            raise ValueError(f"there is no constant {key.upper()} on one line")
        line = lines[node.lineno - 1].encode()
        changed_line = line[: node.col_offset] + repr(value).encode() + line[node.end_col_offset :]
        lines[node.lineno - 1] = changed_line.decode()
    return "".join(lines)


def _constants(source: str) -> dict[str, ast.expr]:
    """Return the values of a module's constants, by name; none for invalid syntax."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError) as error:
        swallowed(error)
        return {}
    return {
        target.id: node.value
        for node in body
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
