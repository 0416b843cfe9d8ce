"""A data root with versions, jobs and checkpoints, and ways in which it is damaged."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from backend.catalogue.store import open_catalogue
from backend.node.system import process_identity
from backend.records.base.atomic_files import read_json, replace_json
from backend.records.base.layout import JobFolder
from backend.records.jobs.checkpoint import Checkpoint
from backend.records.jobs.placement import THIS_COMPUTER, Placement
from backend.records.jobs.state import JobState
from backend.records.jobs.status import ProcessIdentity, RunStatus
from backend.records.library.item import Kind
from backend.records.queue.entry import QueueEntry
from backend.services.context.container import open_services
from tests.fakes import trained
from tests.fakes.mounted_root import mounted
from tests.integration.tiny import write_sources

NAMES = ("epoch-0001-step-000010", "epoch-0002-step-000020", "epoch-0003-step-000030")


def checkpoint(folder: JobFolder, name: str, content: bytes) -> None:
    path = folder.checkpoints / f"{name}.pt"
    path.write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    step = int(name[-6:])
    record = Checkpoint(name, 1, step // 10, step, 0, len(content), digest, "", "", {"loss": 0.5})
    replace_json(path.with_suffix(".json"), record.to_dict())
    replace_json(folder.latest, {"name": name})


def stock(folder: Path) -> list[str]:
    """Fill ``folder/root``; return the ids of its jobs: two that are over, and a draft."""
    services = open_services(folder / "root", folder / "here" / "c.sqlite")
    model, loader, dataset = write_sources(folder / "sources")
    (dataset / "more.csv").write_text("1,2\n3,4\n")
    for kind, source in (
        (Kind.MODEL, model),
        (Kind.LOADER, loader),
        (Kind.DATASET, dataset),
    ):
        services.library.import_item(kind, source, "tiny")
    pins = {kind.value: services.library.pin(kind, "tiny") for kind in
            (Kind.MODEL, Kind.LOADER, Kind.DATASET)}  # fmt: skip
    steps = [0.5] * 30
    ids = [trained.job(folder / "root", name, steps, pins=pins) for name in ("one", "two")]
    ids.append(trained.job(folder / "root", "draft", state=JobState.CREATED, pins=pins))
    for number, job_id in enumerate(ids[:2]):
        for name in NAMES:
            job = mounted(folder / "root").job(job_id)
            checkpoint(job, name, f"{number} {name}".encode() * 1000)
    services.library.rescan()
    services.close()
    return ids


@dataclass
class Rig:
    """A stocked data root to damage; ``one``, ``two`` and ``draft`` are folders of its jobs."""

    folder: Path
    ids: list[str]

    @property
    def root(self) -> Path:
        return self.folder / "root"

    @property
    def first_job(self) -> JobFolder:
        return mounted(self.root).job(self.ids[0])

    @property
    def second_job(self) -> JobFolder:
        return mounted(self.root).job(self.ids[1])

    @property
    def draft(self) -> JobFolder:
        return mounted(self.root).job(self.ids[2])

    @property
    def catalogue(self) -> Path:
        return self.folder / "here" / "c.sqlite"

    def version(self, kind: Kind) -> Path:
        return self.root / kind.folder / "tiny" / "v1"


def _write(path: Path, content: bytes = b"x") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.parent.chmod(0o755)
    if path.exists():
        path.chmod(0o644)
    path.write_bytes(content)


def _half_import(rig: Rig) -> None:
    name = ".big.importing-elsewhere-abcdef012345-4711-1-0123abcd"
    _write(rig.root / "datasets" / name / "files" / "a.csv")
    for path in (rig.root / "datasets" / name / "files", rig.root / "datasets" / name):
        os.utime(path, (1_000_000_000, 1_000_000_000))


def _half_job(rig: Rig) -> None:
    _write(rig.root / "jobs" / ".20261124-abcdef.new" / "config.toml")


def _spoiled_version(rig: Rig) -> None:
    _write(rig.version(Kind.LOADER) / "meta.json", b"{")


def _version_without_record(rig: Rig) -> None:
    _write(rig.root / "models" / "torn" / "v3" / "src" / "bks_model.py", b"pass\n")


def _missing_file(rig: Rig) -> None:
    (rig.version(Kind.DATASET) / "files").chmod(0o755)
    (rig.version(Kind.DATASET) / "files" / "more.csv").unlink()


def _altered_size(rig: Rig) -> None:
    _write(rig.version(Kind.DATASET) / "files" / "more.csv", b"1,2\n")


def _altered_byte(rig: Rig) -> None:
    _write(rig.version(Kind.DATASET) / "files" / "more.csv", b"1,2\n3,5\n")


def _added_file(rig: Rig) -> None:
    _write(rig.version(Kind.MODEL) / "src" / "cache" / "x.pyc", b"cache")


def _end_lost(rig: Rig) -> None:
    job = rig.second_job
    job.attempt(1).exit.unlink()
    gone_process = replace(process_identity.own_process(), pid=4_000_001)
    replace_json(job.attempt(1).supervisor, gone_process.to_dict())
    status = RunStatus(JobState.TRAINING, run=1, epoch=3, step=30, total_steps=30)
    replace_json(job.status, status.to_dict())


def _removed_node(rig: Rig) -> None:
    job = rig.second_job
    job.attempt(1).exit.unlink()
    replace_json(job.attempt(1).supervisor, ProcessIdentity("gpu9", "boot", 4711, 1).to_dict())
    replace_json(job.placement, {"placement": [Placement("gpu9", 1).to_dict()]})
    replace_json(job.status, RunStatus(JobState.TRAINING, run=1).to_dict())


def _queue_of_none(rig: Rig) -> None:
    _write(rig.root / "queue" / "20261124-zzzzzz", b"")


def _entry(rig: Rig, run: int) -> None:
    entry = QueueEntry(rig.draft.job_id, "draft", run, (Placement(THIS_COMPUTER, 1),), "machine")
    replace_json(rig.draft.queued, entry.to_dict())


def _not_listed(rig: Rig) -> None:
    _entry(rig, 1)


def _used_up(rig: Rig) -> None:
    _entry(rig, 0)
    _write(rig.root / "queue" / rig.draft.job_id, b"")


def _cut_checkpoint(rig: Rig) -> None:
    path = rig.first_job.checkpoints / f"{NAMES[2]}.pt"
    path.write_bytes(path.read_bytes()[:-7])


def _flipped_bit(rig: Rig) -> None:
    path = rig.first_job.checkpoints / f"{NAMES[1]}.pt"
    path.write_bytes(path.read_bytes()[:-1] + b"!")


def _flipped_bit_in_earlier_run(rig: Rig) -> None:
    earlier = JobFolder(rig.first_job.started_over_runs / "1")
    earlier.checkpoints.mkdir(parents=True)
    checkpoint(earlier, NAMES[0], b"earlier")
    (earlier.checkpoints / f"{NAMES[0]}.pt").write_bytes(b"Earlier")


def _scripts_file_altered(rig: Rig) -> None:
    checkpoint(rig.first_job, "epoch-0004-step-000040", b"of the script")
    own_checkpoint = rig.first_job.checkpoints / "epoch-0004-step-000040.pt"
    own_checkpoint.rename(rig.first_job.output / "model.pt")
    record = {**read_json(own_checkpoint.with_suffix(".json")), "file": "output/model.pt"}
    replace_json(own_checkpoint.with_suffix(".json"), record)
    (rig.first_job.output / "model.pt").write_bytes(b"of a Script..")


def _pinned_and_gone(rig: Rig) -> None:
    version = rig.version(Kind.MODEL)
    version.rename(rig.folder / "away")
    catalogue = open_catalogue(rig.catalogue)
    catalogue.remove_item(Kind.MODEL, "tiny", 1)
    catalogue.close()


def _dangling_job(rig: Rig) -> None:
    rig.draft.path.rename(rig.folder / "away-job")


def _dangling_version(rig: Rig) -> None:
    catalogue = open_catalogue(rig.catalogue)
    item = catalogue.items(Kind.LOADER)[0]
    catalogue.put_item(type(item).from_dict({**item.to_dict(), "name": "gone"}))
    catalogue.close()


def _record_of_job_lost(rig: Rig) -> None:
    rig.draft.config.unlink()


@dataclass(frozen=True)
class Damage:
    """``check`` finds it, with these words; ``is_left``: only the user can act."""

    make: Callable[[Rig], object]
    check: str
    message: str
    is_left: bool = False
    by_hash: bool = False

    @property
    def name(self) -> str:
        return getattr(self.make, "__name__", self.message).strip("_<>").replace("_", " ")


def name_damage(make: Callable[[Rig], object], name: str) -> Callable[[Rig], object]:
    make.__name__ = name
    return make


DAMAGES = (
    Damage(_half_import, "half made", "import of the dataset big was begun"),
    Damage(_half_job, "half made", "new job 20261124-abcdef was begun"),
    Damage(
        name_damage(
            lambda rig: _write(rig.first_job.path / ".status.json.71.0123abcd.tmp"), "temporary"
        ),
        "temporary files",
        ".status.json.71.0123abcd.tmp was left",
    ),
    Damage(
        name_damage(
            lambda rig: _write(rig.first_job.checkpoints / f".{NAMES[2]}.pt.71.tmp"), "half saved"
        ),
        "temporary files",
        f".{NAMES[2]}.pt.71.tmp was left",
    ),
    Damage(
        name_damage(lambda rig: _write(rig.root / ".now-0123456789abcdef"), "mark"),
        "temporary files",
        "(data root)",
    ),
    Damage(_spoiled_version, "version records", "record of the loader tiny@1"),
    Damage(_version_without_record, "version records", "There is no model torn@3"),
    Damage(_missing_file, "version files", "dataset tiny@1 is missing “more.csv”", is_left=True),
    Damage(_altered_size, "version files", "its size differs", is_left=True),
    Damage(_altered_byte, "version files", "“more.csv” differs", is_left=True, by_hash=True),
    Damage(_added_file, "version files", "contains “cache/x.pyc”"),
    Damage(_pinned_and_gone, "pinned versions", "used by 3 jobs, is missing", is_left=True),
    Damage(
        name_damage(lambda rig: _write(rig.root / "jobs" / "copy" / "notes.txt"), "no job"),
        "job files",
        "There is no job copy here",
    ),
    Damage(_record_of_job_lost, "job files", "config.toml of the job", is_left=True),
    Damage(
        name_damage(lambda rig: _write(rig.first_job.status, b"\0" * 80), "spoiled status"),
        "small records",
        "status.json of the job",
    ),
    Damage(
        name_damage(lambda rig: _write(rig.first_job.attempt(1).exit, b""), "spoiled end"),
        "small records",
        "attempts/1/exit.json of the job",
    ),
    Damage(
        name_damage(lambda rig: _write(rig.second_job.latest, b"{"), "spoiled latest"),
        "small records",
        "checkpoints/latest.json of the job",
    ),
    Damage(_end_lost, "runs without an end", "ended without a record"),
    Damage(_removed_node, "runs without an end", "Its node gpu9 was removed", is_left=True),
    Damage(_queue_of_none, "queue", "lists a job that does not exist"),
    Damage(_not_listed, "queue", "the queue does not list it"),
    Damage(_used_up, "queue", "was left in the queue"),
    Damage(_cut_checkpoint, "checkpoints", "bytes long"),
    Damage(_flipped_bit, "checkpoints", "is damaged", by_hash=True),
    Damage(_flipped_bit_in_earlier_run, "checkpoints", "is damaged", by_hash=True),
    Damage(_scripts_file_altered, "checkpoints", "is damaged", by_hash=True),
    Damage(
        name_damage(
            lambda rig: (rig.first_job.checkpoints / f"{NAMES[0]}.pt").unlink(), "file gone"
        ),
        "checkpoints",
        "file of the checkpoint epoch-0001-step-000010 is missing",
    ),
    Damage(
        name_damage(
            lambda rig: _write(rig.first_job.checkpoints / f"{NAMES[0]}.json", b""), "record cut"
        ),
        "checkpoints",
        "record of the checkpoint",
    ),
    Damage(
        name_damage(
            lambda rig: (rig.first_job.checkpoints / f"{NAMES[0]}.json").unlink(), "record gone"
        ),
        "checkpoints",
        "has no record",
    ),
    Damage(
        name_damage(
            lambda rig: _write(rig.second_job.latest, b'{"name": "epoch-9"}'), "latest of none"
        ),
        "checkpoints",
        "names epoch-9, which does not exist",
    ),
    Damage(
        name_damage(lambda rig: rig.first_job.status.chmod(0o600), "closed file"),
        "access",
        "status.json (job",
    ),
    Damage(
        name_damage(lambda rig: rig.second_job.checkpoints.chmod(0o700), "closed folder"),
        "access",
        "checkpoints (job",
    ),
    Damage(
        name_damage(lambda rig: (rig.root / "jobs").chmod(0o700), "closed jobs"),
        "access",
        "jobs (data root)",
    ),
    Damage(
        name_damage(lambda rig: _write(rig.root / "notes.txt"), "foreign file"),
        "foreign files",
        "notes.txt is no file of the program (data root)",
        is_left=True,
    ),
    Damage(
        name_damage(lambda rig: _write(rig.first_job.path / "mine" / "a.csv"), "foreign folder"),
        "foreign files",
        "mine is no file of the program (job",
        is_left=True,
    ),
    Damage(_dangling_job, "catalogue", "which the data root does not have"),
    Damage(_dangling_version, "catalogue", "lists the loader gone@1"),
)


def contents(root: Path) -> dict[str, bytes]:
    """Return every file's content, by path."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }
