"""A user's source folder as a private package.

User files import each other in two ways, ``from .layers import Block`` and ``from layers import
Block``, and a model's ``utils.py`` must never be taken for a loader's. So each source folder
becomes a private package (``_ringmaster_user_1``), and the modules in it get an ``__import__`` of
their own that looks in that package first. ``utils`` itself never stands in ``sys.modules``: two
folders cannot collide, an installed package never sees a user's file, and an ``import`` inside a
function still works long after loading. The private modules stay, so that classes can be pickled
for the workers of a data loader.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib
import importlib.abc
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

PREFIX = "_ringmaster_user_"


class Source:
    """One source folder. Pickling it and unpickling it elsewhere makes its classes known there."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.name = name
        self._owned: dict[str, bool] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return register, (self.folder, self.name)

    def owns(self, top: str) -> bool:
        """Whether ``import top`` in a file of this folder means a file or package of it."""
        # Remembered, because an import may stand in __getitem__ and run for every item.
        known = self._owned.get(top)
        if known is None:
            known = self._owned[top] = self._look_for(top)
        return known

    def _look_for(self, top: str) -> bool:
        spec = PathFinder.find_spec(top, [str(self.folder)])
        if spec is None:
            return False
        if spec.loader is not None:
            return True
        # A bare directory is a package to Python, but an installed one goes before it.
        elsewhere = [place for place in sys.path if place != str(self.folder)]
        installed = PathFinder.find_spec(top, elsewhere)
        return installed is None or installed.loader is None

    def import_for_user(
        self,
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """``__import__`` as the modules of this folder see it."""
        top = name.partition(".")[0]
        if level or not self.owns(top):
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        private = f"{self.name}.{name}"
        leaf = builtins.__import__(private, globals, locals, fromlist or (), 0)
        return leaf if fromlist else sys.modules[f"{self.name}.{top}"]

    @contextlib.contextmanager
    def loading(self) -> Iterator[None]:
        """On ``sys.path``, for what is imported by name (``importlib.import_module``)."""
        known = set(sys.modules)
        path = str(self.folder)
        no_bytecode = sys.dont_write_bytecode
        sys.dont_write_bytecode = True
        # At the end: our own files are found by `import_for_user`, and a user's queue.py must not
        # be taken for the standard library's by a package that loads meanwhile.
        sys.path.append(path)
        try:
            yield
        finally:
            sys.dont_write_bytecode = no_bytecode
            if path in sys.path:
                sys.path.remove(path)
            for name in set(sys.modules) - known:
                if not name.startswith(PREFIX) and self._holds(sys.modules[name]):
                    del sys.modules[name]

    def _holds(self, module: ModuleType) -> bool:
        # Not getattr: modules such as torch.classes answer to every name.
        known = vars(module)
        places = [known.get("__file__"), *known.get("__path__", ())]
        inside = f"{self.folder}{os.sep}"
        return any(isinstance(place, str) and place.startswith(inside) for place in places)

    def forget(self) -> None:
        """Drop what was loaded, after a loading that broke off."""
        for name in [n for n in sys.modules if n == self.name or n.startswith(f"{self.name}.")]:
            del sys.modules[name]
        known_sources.pop(self.name, None)


class _UserFile(SourceFileLoader):
    """Reads no ``.pyc`` and writes none: the folder is the user's."""

    def __init__(self, fullname: str, path: str, source: Source) -> None:
        super().__init__(fullname, path)
        self._source = source

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["__builtins__"] = {
            **vars(builtins),
            "__import__": self._source.import_for_user,
        }
        super().exec_module(module)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the private packages and nothing else, so it may stay for the life of the process."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(PREFIX):
            return None
        source = known_sources.get(fullname.partition(".")[0])
        if source is None:
            return None
        if fullname == source.name:
            spec = ModuleSpec(fullname, None, is_package=True)
            spec.submodule_search_locations = [str(source.folder)]
            return spec
        spec_found = PathFinder.find_spec(fullname, path)
        if spec_found is not None and isinstance(spec_found.loader, SourceFileLoader):
            spec_found.loader = _UserFile(fullname, spec_found.loader.path, source)
            spec_found.cached = None
        return spec_found


known_sources: dict[str, Source] = {}


def register(folder: Path, name: str) -> Source:
    """Make the folder importable as the package ``name``; also what a spawned worker runs."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    importlib.invalidate_caches()
    return known_sources.setdefault(name, Source(folder, name))
