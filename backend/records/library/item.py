"""Datasets, models and loaders: names with numbered versions, verified by a hash."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from backend.records.base import number_format
from backend.records.base.number_format import name_list
from backend.records.base.schema import KEY, Record
from backend.records.library.preview import ReadingNote


class Kind(str, Enum):
    """The value is the word on the command line; ``folder`` is the name under the data root."""

    DATASET = "dataset"
    MODEL = "model"
    LOADER = "loader"
    SCRIPT = "script"

    @property
    def folder(self) -> str:
        return self.value + "s"

    @property
    def content(self) -> str:
        """The folder inside a version that contains the user's files."""
        return "files" if self is Kind.DATASET else "src"

    @property
    def is_code(self) -> bool:
        """Return whether its files are a user's code."""
        return self is not Kind.DATASET

    @property
    def entry_file(self) -> str:
        """The file that a version must have, or ""."""
        return {Kind.MODEL: "bks_model.py", Kind.LOADER: "bks_dataset.py"}.get(self, "")


PARTS = (Kind.MODEL, Kind.DATASET, Kind.LOADER)
"""The items of a job without a script."""
KINDS = {
    "model": Kind.MODEL,
    "dataset": Kind.DATASET,
    "loader": Kind.LOADER,
    "validation_dataset": Kind.DATASET,
    "validation_loader": Kind.LOADER,
    "script": Kind.SCRIPT,
}
"""The kind of version for each key of a job file that names one."""
WEIGHTS_SUFFIXES = (".pt", ".safetensors")


WEIGHTS_DETAIL = "weights"
"""Detail of a model about its given weights: ``name``, ``sha256``, ``bytes``, ``source``, and
``unused``: the names of the other entries of the file."""


def unused_weights_message(details: Mapping[str, Any]) -> str:
    """Return a sentence on other entries in a model's file of weights, or ""."""
    unused_names = details.get(WEIGHTS_DETAIL, {}).get("unused", ())
    return (
        f"Not used of this file: {name_list([str(name) for name in unused_names])}."
        if unused_names
        else ""
    )


def is_weights(path: str) -> bool:
    """Return whether a file contains weights, by its name."""
    return path.lower().endswith(WEIGHTS_SUFFIXES)


TRAINING_DETAIL = "training"
"""Detail of a model: settings of a job, as in its file, with which it was seen to train."""
STUDY_DETAIL = "study"
"""Detail of an item that a study added: the study's title."""
LEAKS_DETAIL = "leaks"
"""Detail of a dataset: how many samples of validation its newest scan found in training, too."""
NEAR_LEAKS_DETAIL = "near_leaks"
"""Detail of a dataset: how many samples of validation are almost equal to some of training."""
_OMITTED_KEY = "left_out"
_OMITTED_NAMES_KEY = "left_out_names"
_PACKED_KEY, _PACKED_NAMES_KEY = "packed", "packed_names"
_MAX_NAMES = 20
_IMPORT_NOTES = (
    ("Left out, as files of systems and tools or link loops", _OMITTED_KEY, _OMITTED_NAMES_KEY),
    ("Not unpacked, and so read by few loaders", _PACKED_KEY, _PACKED_NAMES_KEY),
)


def import_details(omitted_files: Sequence[str], packed_files: Sequence[str]) -> dict[str, Any]:
    """Return the details about files that an import left out, and archives that stayed packed."""
    details: dict[str, Any] = {}
    if omitted_files:
        details |= {
            _OMITTED_KEY: len(omitted_files),
            _OMITTED_NAMES_KEY: list(omitted_files[:_MAX_NAMES]),
        }
    if packed_files:
        details |= {
            _PACKED_KEY: len(packed_files),
            _PACKED_NAMES_KEY: list(packed_files[:_MAX_NAMES]),
        }
    return details


@dataclass(frozen=True)
class LibraryItem(Record, label="library record"):
    """A version of a dataset, model or loader.

    ``sha256`` is the hash of the sorted relative paths and contents of its files. ``details`` is
    the result of checks and previews (parameters, samples, …) and may grow later.
    """

    kind: Kind
    name: str
    version: int
    sha256: str
    bytes: int
    files: int
    created: str
    source: str = ""
    details: Mapping[str, Any] = field(default_factory=dict, metadata={KEY: "facts"})

    @property
    def reference(self) -> str:
        return f"{self.name}@{self.version}"

    @property
    def leaks(self) -> str:
        """A sentence for each kind of leak that the newest scan of a dataset found; "" for none."""
        messages = []
        for key, predicate in (
            (LEAKS_DETAIL, "in training, too"),
            (NEAR_LEAKS_DETAIL, "almost equal to training samples"),
        ):
            if count := self.details.get(key, 0):
                samples_are = "sample is" if count == 1 else "samples are"
                messages.append(
                    f"{number_format.count(count)} validation {samples_are} {predicate}."
                )
        return " ".join(messages)

    @property
    def import_message(self) -> str:
        """Sentences about what the import left out or did not unpack; "" for nothing."""
        notes = (
            ReadingNote(reason, self.details.get(count, 0), tuple(self.details.get(names, ())))
            for reason, count, names in _IMPORT_NOTES
        )
        return " ".join(note.message for note in notes if note.count)


@dataclass(frozen=True)
class Pin:
    """The exact version of a dataset, model or loader that a job uses."""

    name: str
    version: int
    sha256: str

    @property
    def reference(self) -> str:
        return f"{self.name}@{self.version}"


@dataclass(frozen=True)
class Combination:
    """Names of a dataset, of a loader that read it, and of a model that took both, or ""."""

    dataset: str
    loader: str
    model: str = ""


def split_reference(reference: str) -> tuple[str, int | None]:
    """Split a reference: ``"digits@2"`` -> ``("digits", 2)``; without a version, None.

    Raises:
        ValueError: What follows the @ is not a version number.
    """
    name, separator, version = reference.partition("@")
    if not separator:
        return name, None
    if not version.isdecimal() or int(version) < 1:
        raise ValueError(f"“{reference}” should be NAME or NAME@VERSION, such as digits@2")
    return name, int(version)


@dataclass(frozen=True)
class FileEntry:
    """A file of a version. ``path`` is relative, with ``/`` between its parts."""

    path: str
    bytes: int


@dataclass(frozen=True)
class VersionChanges:
    """The differences between two versions, by their references; files by their paths.

    ``text`` has the changed lines of text files, as ``diff -u`` prints them.
    """

    older_version: str = field(metadata={KEY: "older"})
    newer_version: str = field(metadata={KEY: "newer"})
    added_paths: tuple[str, ...] = field(default=(), metadata={KEY: "added"})
    removed_paths: tuple[str, ...] = field(default=(), metadata={KEY: "removed"})
    changed_paths: tuple[str, ...] = field(default=(), metadata={KEY: "changed"})
    text: str = ""


@dataclass(frozen=True)
class RescanReport:
    """Result of a rescan of the data root; for each file that it could not read, a sentence."""

    datasets: int = 0
    models: int = 0
    loaders: int = 0
    scripts: int = 0
    jobs: int = 0
    forgotten_items: tuple[str, ...] = field(default=(), metadata={KEY: "forgotten"})
    """Entries of the catalogue that the data root no longer contains (``dataset digits@2``)."""
    removed_imports: tuple[str, ...] = field(default=(), metadata={KEY: "swept"})
    """Incomplete imports that were removed, by name."""
    problems: tuple[str, ...] = ()
