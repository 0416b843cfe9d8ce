"""Records of a ``.ringmaster`` file, which is one job: the content of its ``manifest.json``.

The file is a zip whose entries are uncompressed, sorted, and equally dated, so that the same job
makes the same bytes. Its comment, at the very end, is a seal: the SHA-256 of everything before the
seal's digits, so that no byte can change unnoticed, not even between two entries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from backend.records.base.schema import KEY, Record
from backend.records.jobs.run_environment import RunEnvironment
from backend.records.jobs.status import RunStatus
from backend.records.jobs.view import JobView
from backend.records.library.item import Kind, Pin

FORMAT = 1
SUFFIX = ".ringmaster"
MANIFEST = "manifest.json"
JOB_FILE = "job.toml"
HISTORY = "history.toml"
SAMPLES = "samples.jsonl"
CHECKPOINTS = "checkpoint"
NO_CHECKPOINT = "none"


@dataclass(frozen=True)
class BundledFile:
    sha256: str
    bytes: int


@dataclass(frozen=True)
class BundledVersion:
    """A version of the library. ``folder`` is where its files are in the bundle, "" if they are
    not included; ``empty_folders`` are the folders inside it that no file would create."""

    kind: Kind
    name: str
    version: int
    sha256: str
    bytes: int
    files: int
    folder: str = ""
    empty_folders: tuple[str, ...] = ()

    @property
    def pin(self) -> Pin:
        return Pin(self.name, self.version, self.sha256)

    @property
    def text(self) -> str:
        return f"{self.kind.value} {self.name}@{self.version}"


@dataclass(frozen=True)
class Manifest(Record, label="manifest", required=("runs", "checkpoint", "left_out", "files")):
    """The content of a bundle.

    ``omitted_variables`` names environment variables without their values; ``files`` are all
    entries except the manifest.
    """

    job_id: str
    user: str
    created: str
    name: str
    notes: str
    tags: tuple[str, ...]
    status: RunStatus
    versions: Mapping[str, BundledVersion] = field(metadata={KEY: "things"})
    runs: tuple[RunEnvironment, ...] = ()
    checkpoint: str = ""
    omitted_variables: tuple[str, ...] = field(default=(), metadata={KEY: "left_out"})
    files: Mapping[str, BundledFile] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "format": FORMAT}

    def files_below(self, folder: str) -> dict[str, BundledFile]:
        """Return the files below a folder of the bundle, sorted by their relative paths."""
        files = {name.removeprefix(f"{folder}/"): file for name, file in self.files.items()}
        return {name: files[name] for name in sorted(files) if f"{folder}/{name}" in self.files}


@dataclass(frozen=True)
class WrittenBundle:
    """A written bundle.

    ``omitted_variables`` as in `Manifest`; ``without_data``: the dataset's files are not included.
    """

    path: str
    bytes: int
    files: int
    checkpoint: str = ""
    omitted_variables: tuple[str, ...] = field(default=(), metadata={KEY: "left_out"})
    without_data: bool = False


@dataclass(frozen=True)
class ImportedJob:
    """A job that came from a bundle. ``imported_items`` and ``reused_items`` name versions,
    ``notes`` are sentences about what a replay needs."""

    view: JobView
    origin: str
    imported_items: tuple[str, ...] = field(default=(), metadata={KEY: "imported"})
    reused_items: tuple[str, ...] = field(default=(), metadata={KEY: "reused"})
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReplayResult:
    """A replay compared with its original. ``step`` is the first at which they differ, 0 if none
    does; ``steps`` is how many both made; ``differences`` are those of the environments."""

    original_id: str = field(metadata={KEY: "original"})
    replay: str
    is_same: bool
    message: str = field(metadata={KEY: "sentence"})
    steps: int = 0
    step: int = 0
    metric: str = ""
    original_value: float | None = field(default=None, metadata={KEY: "then"})
    replay_value: float | None = field(default=None, metadata={KEY: "now"})
    differences: tuple[str, ...] = ()
