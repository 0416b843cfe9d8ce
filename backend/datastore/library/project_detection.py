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

_MOST_NAMES = 1000
_MOST_FOLDERS = 300
# The folder, perhaps one that wraps it, its folders, and theirs.
_DEPTH = 4
_CODE = (Kind.MODEL, Kind.LOADER)
_ENTRY_FILES = tuple(kind.entry_file for kind in _CODE)
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
    here = tree.inside(top)
    has_code = any(name.endswith((".py", ".sh")) for name in here)
    usual = Kind.SCRIPT if has_code else Kind.DATASET
    kind = next((k for k in _CODE if k.entry_file in here), usual)
    homes = {kind: home for kind in reversed(_CODE) if (home := tree.home(kind)) is not None}
    if len(homes) < len(_CODE):
        return ImportGuess(kind)
    used = frozenset(homes.values())
    loader = homes[Kind.LOADER]
    data = tree.data(top, used) or tree.data(loader, used, folders_only=len(used) > 1)
    taken = data.shown if data else []
    parts = {Kind.DATASET: data} if data else {}
    for code, home in homes.items():
        inside = (path.removeprefix(f"{home}/") for path in taken if _is_in(path, home))
        parts[code] = ProjectPart(home, but=frozenset(inside))
    rest = () if top in used else sorted(tree.inside(top))
    others = (n for n in rest if not any(_is_in(path, _join(top, n)) for path in (*taken, *used)))
    return ImportGuess(kind, Project(parts, tuple(others)))


class _Tree:
    """The names in each folder, those of folders with ``/`` at the end; without litter."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._names: dict[str, set[str]] = {}
        for path in paths:
            parts = path.rstrip("/").split("/")
            if "" in parts:
                continue
            folder = ""
            for number, part in enumerate(parts[:_DEPTH], 1):
                if is_litter(Kind.MODEL, part):
                    break
                here = self._names.setdefault(folder, set())
                is_file = number == len(parts) and not path.endswith("/")
                if len(here) < _MOST_NAMES or part in _ENTRY_FILES:
                    here.add(part if is_file else f"{part}/")
                folder = _join(folder, part)
        self.top = ""
        while len(self.inside(self.top)) == 1:
            # One folder wraps all the others, as in many zip files.
            only = next(iter(self.inside(self.top)))
            if not only.endswith("/"):
                break
            self.top = _join(self.top, only)

    def inside(self, folder: str) -> set[str]:
        return self._names.get(folder, set())

    def home(self, kind: Kind) -> str | None:
        """Return the folder with the entry file of a kind; None for none, and for several."""
        if kind.entry_file in self.inside(self.top):
            return self.top
        below = (_join(self.top, name) for name in self._folders(self.top))
        homes = [folder for folder in below if kind.entry_file in self.inside(folder)]
        if len(homes) > 1:
            homes = [one for one in homes if one == _join(self.top, kind.value)]
        return homes[0] if homes else None

    def data(
        self, place: str, homes: frozenset[str], *, folders_only: bool = False
    ) -> ProjectPart | None:
        """Return the data in a folder whose ``homes`` are code."""
        folders = [n for n in self._folders(place) if _join(place, n) not in homes]
        plain = [n for n in folders if not self._has_code(_join(place, n))]
        found = [n for n in folders if self._is_called_data(_join(place, n))]
        found = found or [n for n in plain if not _NO_DATA.fullmatch(n)]
        if not found and not folders_only:
            names = self.inside(place)
            files = [n for n in names if _DATA_FILE.fullmatch(n)]
            if files and len(names) < _MOST_NAMES:
                return ProjectPart(place, only=frozenset(files))
            found = plain if len(plain) == 1 else []
        if len(found) == 1:
            return ProjectPart(_join(place, found[0]))
        return ProjectPart(place, only=frozenset(found)) if found else None

    def _folders(self, place: str) -> list[str]:
        """Return the names of folders that are not Python environments and not hidden."""
        found = (n[:-1] for n in self.inside(place) if n.endswith("/") and n[0] != ".")
        return [n for n in sorted(found) if not self._is_environment(_join(place, n))]

    def _is_environment(self, folder: str) -> bool:
        return not ENVIRONMENT_MARKS.isdisjoint(n.rstrip("/") for n in self.inside(folder))

    def _has_code(self, folder: str) -> bool:
        below = (_join(folder, name) for name in self._folders(folder))
        return any(n.endswith(".py") for place in (folder, *below) for n in self.inside(place))

    def _is_called_data(self, folder: str) -> bool:
        """Return True even with a script next to the data; False for a package or only code."""
        inside = self.inside(folder)
        is_package = "__init__.py" in inside
        is_code = bool(inside) and all(name.endswith(".py") for name in inside)
        return bool(_DATA.fullmatch(PurePath(folder).name)) and not is_package and not is_code


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}".strip("/")


def _is_in(path: str, folder: str) -> bool:
    return not folder or path == folder or path.startswith(f"{folder}/")


def _names(folder: Path) -> Iterator[str]:
    """Yield the first names in each of the first folders, level by level."""
    waiting = deque([("", folder)])
    examined = 0
    while waiting and examined < _MOST_FOLDERS:
        path, place = waiting.popleft()
        examined += 1
        try:
            with os.scandir(place) as entries:
                found = [(one.name, _is_folder(one)) for one in islice(entries, _MOST_NAMES)]
        except OSError:
            _log.info("%s could not be listed", place, exc_info=True)
            continue
        for name, is_folder in found:
            yield f"{path}{name}/" if is_folder else f"{path}{name}"
            if is_folder and path.count("/") < _DEPTH - 1 and not is_litter(Kind.MODEL, name):
                waiting.append((f"{path}{name}/", place / name))
        if len(found) >= _MOST_NAMES:
            yield from (path + name for name in _ENTRY_FILES if (place / name).is_file())


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Return False for a link to a folder that contains it, which an import leaves out."""
    try:
        if not entry.is_dir():
            return False
        place = Path(entry.path)
        return not entry.is_symlink() or not place.parent.resolve().is_relative_to(place.resolve())
    except OSError:
        _log.info("%s could not be examined", entry.path, exc_info=True)
        return False
