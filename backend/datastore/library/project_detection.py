"""Recognise a folder or zip with a model, its loader and their data.

Only names are read, a few levels deep: no file is opened, and a folder of a million pictures costs
no more than one of a thousand.
"""

from __future__ import annotations

import logging
import os
import re
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path, PurePath

from backend.base.errors import BackendError
from backend.datastore.library.ignore_rules import ENVIRONMENT_MARKS, is_litter
from backend.datastore.library.zip_source import entry_names
from backend.records.library.item import Kind
from backend.records.library.project import ImportGuess, Project, ProjectPart

_MAX_NAMES = 1000
_MAX_FOLDERS = 300
# The folder, perhaps one that wraps it, its folders, and theirs.
_DEPTH = 4
_CODE_KINDS = (Kind.MODEL, Kind.LOADER)
_ENTRY_FILES = tuple(kind.entry_file for kind in _CODE_KINDS)
_DATA = re.compile(r"data(sets?)?", re.IGNORECASE)
_NO_DATA = re.compile(
    r"(docs?|notebooks?|scripts?|tests?|configs?|conf|results?|runs?|logs?|checkpoints?|weights"
    r"|outputs?|figures?|plots?|examples?|assets|src|lib|bin|tools|models?)",
    re.IGNORECASE,
)
_DATA_FILE = re.compile(
    r".+\.(csv|tsv|jsonl|npy|npz|h5|hdf5?|mat|parquet|feather|arrow|pkl|pickle|bin|dat|db|sqlite3?"
    r"|lmdb|mdb|tfrecords?|nc|xlsx?|zip|tar|t?gz|bz2|xz|zst)",
    re.IGNORECASE,
)
_log = logging.getLogger(__name__)


def inspect(path: Path) -> ImportGuess:
    """Guess the kind of a folder, zip or file. Importing it reports why it cannot be read."""
    try:
        if path.is_dir():
            return recognise(_names(path))
        return recognise(entry_names(path) if path.suffix.lower() == ".zip" else [path.name])
    except (OSError, BackendError):
        _log.info("%s was not recognised", path, exc_info=True)
        return ImportGuess()


def recognise(paths: Iterable[str]) -> ImportGuess:
    """Recognise by relative paths; those of folders end with ``/``.

    The entry file of a model or loader is at the top or in one folder there. The data are the
    folder ``data`` or ``dataset``; without one, the folders without code; without those, the tables
    and archives at the top.
    """
    tree = _Tree(paths)
    top = tree.top
    names = tree.names_in(top)
    has_code = any(name.endswith((".py", ".sh")) for name in names)
    default_kind = Kind.SCRIPT if has_code else Kind.DATASET
    kind = next((k for k in _CODE_KINDS if k.entry_file in names), default_kind)
    homes = {kind: home for kind in reversed(_CODE_KINDS) if (home := tree.home(kind)) is not None}
    if len(homes) < len(_CODE_KINDS):
        return ImportGuess(kind)
    code_folders = frozenset(homes.values())
    loader = homes[Kind.LOADER]
    data = tree.data(top, code_folders) or tree.data(
        loader, code_folders, folders_only=len(code_folders) > 1
    )
    data_paths = data.display_paths if data else []
    parts = {Kind.DATASET: data} if data else {}
    for code, home in homes.items():
        inner_paths = (path.removeprefix(f"{home}/") for path in data_paths if _is_in(path, home))
        parts[code] = ProjectPart(home, excluded_paths=frozenset(inner_paths))
    top_names = () if top in code_folders else sorted(tree.names_in(top))
    other_names = (
        n
        for n in top_names
        if not any(_is_in(path, _join(top, n)) for path in (*data_paths, *code_folders))
    )
    return ImportGuess(kind, Project(parts, tuple(other_names)))


class _Tree:
    """The names in each folder, those of folders with ``/`` at the end; without litter."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._names: dict[str, set[str]] = {}
        for path in paths:
            parts = path.rstrip("/").split("/")
            if "" in parts:
                continue
            folder = ""
            for depth, part in enumerate(parts[:_DEPTH], 1):
                if is_litter(Kind.MODEL, part):
                    break
                names = self._names.setdefault(folder, set())
                is_file = depth == len(parts) and not path.endswith("/")
                if len(names) < _MAX_NAMES or part in _ENTRY_FILES:
                    names.add(part if is_file else f"{part}/")
                folder = _join(folder, part)
        self.top = ""
        while len(self.names_in(self.top)) == 1:
            # One folder wraps all the others, as in many zip files.
            only_name = next(iter(self.names_in(self.top)))
            if not only_name.endswith("/"):
                break
            self.top = _join(self.top, only_name)

    def names_in(self, folder: str) -> set[str]:
        return self._names.get(folder, set())

    def home(self, kind: Kind) -> str | None:
        """Return the folder with the entry file of a kind; None for none, and for several."""
        if kind.entry_file in self.names_in(self.top):
            return self.top
        subfolders = (_join(self.top, name) for name in self._folders(self.top))
        homes = [folder for folder in subfolders if kind.entry_file in self.names_in(folder)]
        if len(homes) > 1:
            homes = [folder for folder in homes if folder == _join(self.top, kind.value)]
        return homes[0] if homes else None

    def data(
        self, folder: str, homes: frozenset[str], *, folders_only: bool = False
    ) -> ProjectPart | None:
        """Return the data in a folder whose ``homes`` are code."""
        folders = [n for n in self._folders(folder) if _join(folder, n) not in homes]
        codeless_folders = [n for n in folders if not self._has_code(_join(folder, n))]
        data_folders = [n for n in folders if self._is_called_data(_join(folder, n))]
        data_folders = data_folders or [n for n in codeless_folders if not _NO_DATA.fullmatch(n)]
        if not data_folders and not folders_only:
            names = self.names_in(folder)
            files = [n for n in names if _DATA_FILE.fullmatch(n)]
            if files and len(names) < _MAX_NAMES:
                return ProjectPart(folder, included_names=frozenset(files))
            data_folders = codeless_folders if len(codeless_folders) == 1 else []
        if len(data_folders) == 1:
            return ProjectPart(_join(folder, data_folders[0]))
        return ProjectPart(folder, included_names=frozenset(data_folders)) if data_folders else None

    def _folders(self, folder: str) -> list[str]:
        """Return the names of folders that are not Python environments and not hidden."""
        names = (n[:-1] for n in self.names_in(folder) if n.endswith("/") and n[0] != ".")
        inner_names = {n: {m.rstrip("/") for m in self.names_in(_join(folder, n))} for n in names}
        return sorted(n for n in inner_names if ENVIRONMENT_MARKS.isdisjoint(inner_names[n]))

    def _has_code(self, folder: str) -> bool:
        subfolders = (_join(folder, name) for name in self._folders(folder))
        return any(
            n.endswith(".py")
            for subfolder in (folder, *subfolders)
            for n in self.names_in(subfolder)
        )

    def _is_called_data(self, folder: str) -> bool:
        """Return True even with a script next to the data; False for a package or only code."""
        names = self.names_in(folder)
        is_package = "__init__.py" in names
        is_code = bool(names) and all(name.endswith(".py") for name in names)
        return bool(_DATA.fullmatch(PurePath(folder).name)) and not is_package and not is_code


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}".strip("/")


def _is_in(path: str, folder: str) -> bool:
    return not folder or path == folder or path.startswith(f"{folder}/")


def _names(folder: Path) -> Iterator[str]:
    """Yield the first names in each of the first folders, level by level."""
    pending_folders = deque([("", folder)])
    examined_count = 0
    while pending_folders and examined_count < _MAX_FOLDERS:
        prefix, folder_path = pending_folders.popleft()
        examined_count += 1
        try:
            with os.scandir(folder_path) as entries:
                listing = [(entry.name, _is_folder(entry)) for entry in islice(entries, _MAX_NAMES)]
        except OSError:
            _log.info("%s could not be listed", folder_path, exc_info=True)
            continue
        for name, is_folder in listing:
            yield f"{prefix}{name}/" if is_folder else f"{prefix}{name}"
            if is_folder and prefix.count("/") < _DEPTH - 1 and not is_litter(Kind.MODEL, name):
                pending_folders.append((f"{prefix}{name}/", folder_path / name))
        if len(listing) >= _MAX_NAMES:
            yield from (prefix + name for name in _ENTRY_FILES if (folder_path / name).is_file())


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Return False for a link to a folder that contains it, which an import leaves out."""
    try:
        if not entry.is_dir():
            return False
        path = Path(entry.path)
        return not entry.is_symlink() or not path.parent.resolve().is_relative_to(path.resolve())
    except OSError:
        _log.info("%s could not be examined", entry.path, exc_info=True)
        return False
