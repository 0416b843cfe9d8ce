"""The files of a dataset by their names and first bytes, and the names that loaders read."""

from __future__ import annotations

import importlib.util
import sys
import zlib
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import PurePosixPath
from types import ModuleType
from typing import Any

from backend.records.library.item import FileEntry
from backend.services.context.example import EXAMPLE

PARTS = EXAMPLE.parent / "parts"


def _gallery_module(name: str, **siblings: ModuleType) -> Any:
    """Return a module of the gallery's loaders, so that both read names in the same way.

    Args:
        siblings: The modules of the gallery that it imports, by their names.
    """
    spec = importlib.util.spec_from_file_location(f"gallery_{name}", PARTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.update(siblings)
    spec.loader.exec_module(module)
    for sibling in siblings:
        del sys.modules[sibling]
    return module


SPLITS = _gallery_module("splits")
LABELS = _gallery_module("labels", splits=SPLITS)
ReadBytes = Callable[[str, int], bytes]
HEAD, LONG_HEAD = 64 << 10, 1 << 20
MAX_READS = 16
"""Most files read for one shape: over SFTP every read takes a while."""
ALL_TABLES = tuple(f"{suffix}{end}" for suffix in SPLITS.TABLES for end in ("", ".gz"))


class Listing:
    """The files of a dataset; names are compared in lower case."""

    def __init__(self, files: Sequence[FileEntry], read: ReadBytes) -> None:
        self.read = read
        self.reads_left = 0
        paths = [PurePosixPath(file.path) for file in files if file.bytes]
        paths = [path for path in paths if not path.name.startswith(".")]
        others = [path for path in paths if not LABELS.is_submission(str(path))]
        data_suffixes = SPLITS.PICTURES + SPLITS.TABLE_SUFFIXES
        has_data = any(path.name.lower().endswith(data_suffixes) for path in others)
        self.paths = others if has_data else paths
        self.submissions = [path for path in paths if path not in {*self.paths}]
        self._names = [path.name.lower() for path in self.paths]
        self.names = frozenset(self._names)
        self.pictures = self.with_suffix(*SPLITS.PICTURES)

    @cached_property
    def masks(self) -> frozenset[str]:
        return frozenset(SPLITS.masks_of([*map(str, self.pictures)]))

    @cached_property
    def picture_stems(self) -> frozenset[str]:
        return frozenset(LABELS.comparable(path.stem) for path in self.pictures)

    def with_suffix(self, *suffixes: str) -> list[PurePosixPath]:
        named_paths = zip(self.paths, self._names, strict=True)
        return [path for path, name in named_paths if name.endswith(suffixes)]

    def head(self, path: PurePosixPath, limit_bytes: int = HEAD) -> bytes:
        """Return the first bytes of a file, unpacked; ValueError after too many reads."""
        self.reads_left -= 1
        if self.reads_left < 0:
            raise ValueError(f"more than {MAX_READS} files would have to be read")
        content = self.read(str(path), max(limit_bytes, 4096))
        if content[:2] != b"\x1f\x8b":
            return content[:limit_bytes]
        return zlib.decompressobj(wbits=31).decompress(content, limit_bytes)


def short_list(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
