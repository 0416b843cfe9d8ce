"""A folder or zip with a model, its loader and their data, to be imported at once.

`backend.datastore.library.project_detection` finds them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from backend.records.base.schema import KEY
from backend.records.library.item import Kind


@dataclass(frozen=True)
class ProjectPart:
    """The files of a folder or zip that make one version.

    ``folder`` is "" for the top. Only its entries in ``included_names`` are taken (all if the set
    is empty), without the paths in ``excluded_paths``.
    """

    folder: str = ""
    included_names: frozenset[str] = field(default=frozenset(), metadata={KEY: "only"})
    excluded_paths: frozenset[str] = field(default=frozenset(), metadata={KEY: "but"})

    def includes(self, path: str) -> bool:
        """Return whether a file or folder below ``folder`` belongs to it."""
        if self.included_names and path.partition("/")[0] not in self.included_names:
            return False
        return not any(
            path == excluded_path or path.startswith(f"{excluded_path}/")
            for excluded_path in self.excluded_paths
        )

    def path_of(self, name: str) -> str:
        """Return the path from the top of an entry of ``folder``."""
        return f"{self.folder}/{name}" if self.folder else name

    @property
    def display_paths(self) -> list[str]:
        """Return the paths of its files as users see them."""
        return [self.path_of(name) for name in sorted(self.included_names)] or [self.folder]


WHOLE_FOLDER = ProjectPart()


@dataclass(frozen=True)
class Project:
    """The parts of a folder, in the order in which they are imported.

    ``other_entries`` are the entries at its top that belong to no part.
    """

    parts: Mapping[Kind, ProjectPart]
    other_entries: tuple[str, ...] = field(default=(), metadata={KEY: "rest"})


@dataclass(frozen=True)
class ImportGuess:
    """A guess at the contents of a folder, zip or file: its kind, and whether it is a project."""

    kind: Kind = Kind.DATASET
    project: Project | None = None
