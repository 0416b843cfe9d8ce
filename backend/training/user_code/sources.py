"""Import a user's source folder as Python imports the folder of a script.

User files import each other in two ways, ``from .layers import Block`` and ``from layers import
Block``, and a model's ``utils.py`` must never be taken for a loader's. So each source folder is a
private package (``_ringmaster_user_1``), whose modules have their own ``__import__`` that searches
that package first.

A module also has the name that its user gave it, ``layers``: as ``__name__``, so that pickles carry
it, and in ``sys.modules``, so that pickle, importlib and other libraries find it. The first folder
with that name has it; the module of another folder, or one that is named like an installed module
(``tokenize.py``), has only its private name.

Processes that multiprocessing starts know the same folders: they first import the main module of
their parent by the name ``__mp_main__``, and with it this module. Those of joblib do not, and find
the folders at the end of ``sys.path``.

This file uses only the standard library: it is also part of an exported model, see `export_load`.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.abc
import json
import os
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

PREFIX = "_ringmaster_user_"
VARIABLE = "RINGMASTER_USER_SOURCES"
"""Of processes that are started here: the folders and their names, as JSON."""


class UserSource:
    """A source folder and the name of its private package."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.name = name
        self._owned_names: dict[str, bool] = {}
        self._sys_path: list[str] = []

    def __reduce__(self) -> tuple[Any, ...]:
        return register, (self.folder, self.name)

    def holds(self, path: str) -> bool:
        return f"{path}{os.sep}".startswith(f"{self.folder}{os.sep}")

    def search_paths(self) -> list[str]:
        """Return the folders of its modules: its own, and its additions to ``sys.path``."""
        added_paths = [path for path in sys.path if self.holds(path)]
        return list(dict.fromkeys([str(self.folder), *added_paths]))

    def owns(self, top_name: str) -> bool:
        """Return whether ``import top`` in this folder means a module of this folder."""
        # Cached, because an import may be in __getitem__ and run for every item.
        if sys.path != self._sys_path:
            self._sys_path = list(sys.path)
            self._owned_names.clear()
        is_owned = self._owned_names.get(top_name)
        if is_owned is None:
            is_owned = self._owned_names[top_name] = self._has_module(top_name)
        return is_owned

    def _has_module(self, top_name: str) -> bool:
        spec = PathFinder.find_spec(top_name, self.search_paths())
        # A directory without __init__.py is a package to Python, but an installed one precedes it.
        return spec is not None and (spec.loader is not None or not _is_installed(top_name))

    def import_for_user(
        self,
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """Import as ``__import__`` does for the modules of this folder."""
        top_name = name.partition(".")[0]
        if level or not self.owns(top_name):
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        private_name = f"{self.name}.{name}"
        leaf = builtins.__import__(private_name, globals, locals, fromlist or (), 0)
        return leaf if fromlist else sys.modules[f"{self.name}.{top_name}"]

    def unload(self) -> None:
        """Remove its modules from the process, after an import that failed."""
        known_sources.pop(self.name, None)
        if str(self.folder) in sys.path:
            sys.path.remove(str(self.folder))
        for name, module in list(sys.modules.items()):
            if _private_name(module).partition(".")[0] == self.name:
                del sys.modules[name]


def _private_name(module: ModuleType) -> str:
    # Not getattr: modules such as torch.classes have every name.
    return getattr(vars(module).get("__spec__"), "name", "") or ""


def _is_installed(top_name: str) -> bool:
    """Return whether ``import top`` finds a module that is not user code."""
    for finder in sys.meta_path:
        if isinstance(finder, _Finder) or not hasattr(finder, "find_spec"):
            continue
        spec = finder.find_spec(top_name, None)
        if spec is not None and spec.loader is not None:
            origin = spec.origin or ""
            return not any(source.holds(origin) for source in known_sources.values())
    return False


def _owner(top_name: str) -> UserSource | None:
    """Return the source whose module has the public name ``top_name``."""
    module = sys.modules.get(top_name)
    if module is not None:
        return known_sources.get(_private_name(module).partition(".")[0])
    owners = (source for source in known_sources.values() if source.owns(top_name))
    return None if _is_installed(top_name) else next(owners, None)


class _UserFile(SourceFileLoader):
    """Loader that reads and writes no ``.pyc``, as the folder is the user's."""

    def __init__(self, fullname: str, path: str, source: UserSource) -> None:
        super().__init__(fullname, path)
        self._source = source

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)

    def exec_module(self, module: ModuleType) -> None:
        public_name = self.name.partition(".")[2]
        is_public = _owner(public_name.partition(".")[0]) is self._source
        if is_public:
            module.__name__ = public_name
            sys.modules[public_name] = module
        module.__dict__["__builtins__"] = {
            **vars(builtins),
            "__import__": self._source.import_for_user,
        }
        try:
            exec(self.get_code(self.name), module.__dict__)
        except BaseException:
            if is_public:
                sys.modules.pop(public_name, None)
            raise


class _PublicName(importlib.abc.Loader):
    """Loader that provides a private module under the user's name for it."""

    def __init__(self, private_name: str) -> None:
        self._private_name = private_name

    def exec_module(self, module: ModuleType) -> None:
        public_name = self._private_name.partition(".")[2]
        # Free for the module itself, which registers itself when it is loaded now.
        del sys.modules[public_name]
        sys.modules[public_name] = importlib.import_module(self._private_name)


class _Finder(importlib.abc.MetaPathFinder):
    """Finder of modules of the users' folders only, so it stays for the process' life."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        top_name = fullname.partition(".")[0]
        if not top_name.startswith(PREFIX):
            owner = _owner(top_name)
            if owner is None or (path is not None and PathFinder.find_spec(fullname, path) is None):
                return None
            return ModuleSpec(fullname, _PublicName(f"{owner.name}.{fullname}"))
        source = known_sources.get(top_name)
        if source is None:
            return None
        if fullname == source.name:
            spec = ModuleSpec(fullname, None, is_package=True)
            spec.submodule_search_locations = source.search_paths()
            return spec
        is_direct = fullname.count(".") == 1
        spec_found = PathFinder.find_spec(fullname, source.search_paths() if is_direct else path)
        if spec_found is not None and isinstance(spec_found.loader, SourceFileLoader):
            spec_found.loader = _UserFile(fullname, spec_found.loader.path, source)
            spec_found.cached = None
        return spec_found


known_sources: dict[str, UserSource] = {}


def register(folder: Path, name: str) -> UserSource:
    """Make the folder importable as the package ``name``, here and in processes started here."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    importlib.invalidate_caches()
    source = known_sources.setdefault(name, UserSource(folder, name))
    sources = [(str(source.folder), source.name) for source in known_sources.values()]
    os.environ[VARIABLE] = json.dumps(sources)
    if str(folder) not in sys.path:
        # Last: a user's queue.py must not replace the standard library's for other code.
        sys.path.append(str(folder))
    # A process that finds a file there must not write into that folder.
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    return source


# Every main module is listed by this name; only that of a worker process has it itself.
if getattr(sys.modules.get("__mp_main__"), "__name__", "") == "__mp_main__":
    for _folder, _name in json.loads(os.environ.get(VARIABLE, "[]")):
        register(Path(_folder), _name)
