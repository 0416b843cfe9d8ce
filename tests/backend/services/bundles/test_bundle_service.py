"""X6: a job as one file that another desktop imports; a changed byte is refused and named."""

from __future__ import annotations

import json
import os
import shutil
import stat
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from backend.base.errors import BackendError, Cancelled
from backend.base.progress import Progress
from backend.datastore.bundles import archive_files
from backend.datastore.bundles.archive_files import ArchiveMember
from backend.datastore.bundles.imported_job import mark_replay
from backend.datastore.jobs import files as job_files
from backend.records.base.atomic_files import replace_json
from backend.records.base.content import hash_file
from backend.records.base.layout import JobFolder
from backend.records.bundles.job_archive import MANIFEST
from backend.records.jobs.checkpoint import Checkpoint
from backend.records.jobs.history import Block, HistoryUpdate, encode
from backend.records.jobs.job_file import parse_job
from backend.records.jobs.run_environment import RunEnvironment, differences
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RunExit, RunStatus
from backend.records.library.item import PARTS, Kind
from backend.services.bundles.replay import first_difference
from backend.services.context.container import Services, open_services
from tests.integration.tiny import raw_job, write_sources

LOSSES = [0.9, 0.7, 0.5, 0.4]
_SAMPLES = b'{"samples": []}\n'
CHECKPOINT = "epoch-0001-step-000004"
ENVIRONMENT = RunEnvironment(1, 7, 2, "3.11.9", "2.5.1", "0.28.1", system="Linux x86_64", threads=1)


def finished_job(services: Services, sources: Path) -> str:
    """A job as its run left it, without the minutes a run takes."""
    model, loader, dataset = write_sources(sources)
    (dataset / "pictures" / "none yet").mkdir(parents=True)
    (dataset / "pictures" / "a.bin").write_bytes(bytes(range(256)) * 4)
    (dataset / ".DS_Store").write_bytes(b"what a Finder left")
    pins = {}
    for kind, source in ((Kind.MODEL, model), (Kind.LOADER, loader), (Kind.DATASET, dataset)):
        services.library.import_item(kind, source, "tiny")
        pins[kind.value] = services.library.pin(kind, "tiny")
    raw = raw_job(epochs=1, seed=7, environment={"TOKEN": "very secret"}, notes="as made")
    config = parse_job(raw).config
    assert config is not None
    file = job_files.create_job(services.data_root, config, pins)
    folder = services.data_root.job(file.id)
    job_files.write_notes(folder, "Täglich/1", "It went well.", ("good", "kept"))
    folder.attempt(1).path.mkdir()
    replace_json(folder.attempt(1).environment, ENVIRONMENT.to_dict())
    block = Block("TRAINING", 1, 1, 4, 1, "2026-11-21T07:30:00Z", {"loss": LOSSES})
    folder.history.write_bytes(encode(block))
    folder.samples.write_bytes(_SAMPLES)
    weights = folder.checkpoints / f"{CHECKPOINT}.pt"
    weights.write_bytes(b"weights" * 100)
    record = Checkpoint(
        CHECKPOINT, 1, 1, 4, 0, 700, hash_file(weights), config.sha256(), "2026-11-21T07:31:00Z"
    )
    replace_json(weights.with_suffix(".json"), record.to_dict())
    replace_json(folder.latest, {"name": CHECKPOINT})
    status = RunStatus(
        JobState.FINISHED, 1, 1, 1, 4, 4, 4, 2, {"loss": 0.4}, updated_at="2026-11-21T07:31:00Z"
    )
    replace_json(folder.status, status.to_dict())
    end = RunExit(1, JobState.FINISHED, "", ended_at=status.updated_at)
    replace_json(folder.attempt(1).exit, end.to_dict())
    return file.id


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Services]]:
    """Opens one more desktop, each with a data root and a catalogue of its own."""
    opened_services: list[Services] = []

    def open_another() -> Services:
        folder = tmp_path_factory.mktemp("desk")
        opened_services.append(open_services(folder / "data", folder / "catalogue" / "one.sqlite"))
        return opened_services[-1]

    yield open_another
    for services in opened_services:
        services.close()


@pytest.fixture(scope="module")
def origin(
    desk: Callable[[], Services], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Services, str]:
    services = desk()
    return services, finished_job(services, tmp_path_factory.mktemp("sources"))


@pytest.fixture(scope="module")
def bundle_path(origin: tuple[Services, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundle of the job, its dataset in it."""
    services, job_id = origin
    target = tmp_path_factory.mktemp("bundle") / "tiny.ringmaster"
    services.bundles.bundle(job_id, target, with_data=True)
    return target


@pytest.fixture(scope="module")
def other_services(desk: Callable[[], Services]) -> Services:
    """A desktop on which every bundle is refused, and so nothing is ever made."""
    return desk()


def all_items(services: Services) -> list[str]:
    """All that lies in a data root."""
    root = services.data_root.path
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


def refusal(services: Services, bundle: Path) -> str:
    items_before = all_items(services)
    with pytest.raises(BackendError) as caught:
        services.bundles.unbundle(bundle)
    assert all_items(services) == items_before, "a refused bundle left something behind"
    assert caught.value.remedy
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_job_arrives_whole_on_another_desktop(
    origin: tuple[Services, str], bundle_path: Path, desk: Callable[[], Services]
) -> None:
    services, job_id = origin
    other_services = desk()
    unbundled = other_services.bundles.unbundle(bundle_path)
    assert unbundled.view.id != job_id
    assert job_id in unbundled.origin
    assert job_id in unbundled.view.status.message
    assert set(unbundled.imported_items) == {"dataset tiny@1", "loader tiny@1", "model tiny@1"}
    view = other_services.jobs.queries.show(unbundled.view.id)
    assert (view.state, view.name, view.notes) == (JobState.FINISHED, "Täglich/1", "It went well.")
    assert (view.tags, view.step, view.config.seed) == (("good", "kept"), 4, 7)
    assert {key: pin.sha256 for key, pin in view.pins.items()} == {
        key: pin.sha256 for key, pin in services.jobs.queries.show(job_id).pins.items()
    }
    assert other_services.data_root.job(view.id).samples.read_bytes() == _SAMPLES
    history = other_services.jobs.queries.history(view.id)
    assert list(history.metrics["loss"]) == pytest.approx(LOSSES)
    (checkpoint,) = other_services.jobs.queries.checkpoints(view.id)
    assert (checkpoint.name, checkpoint.is_latest) == (CHECKPOINT, True)
    assert Path(checkpoint.path).read_bytes() == b"weights" * 100
    for kind in PARTS:
        own_content = services.library.content(kind, "tiny")
        other_content = other_services.library.content(kind, "tiny")
        assert {p.relative_to(own_content) for p in own_content.rglob("*")} == {
            p.relative_to(other_content) for p in other_content.rglob("*")
        }
    other_services.library.rescan()
    assert [view.state for view in other_services.jobs.queries.list()] == [JobState.FINISHED]


def test_an_import_reuses_items_of_the_library(
    origin: tuple[Services, str], bundle_path: Path
) -> None:
    services, job_id = origin
    unbundled = services.bundles.unbundle(bundle_path)
    assert unbundled.imported_items == ()
    assert set(unbundled.reused_items) == {"dataset tiny@1", "loader tiny@1", "model tiny@1"}
    services.jobs.remove(unbundled.view.id)
    assert services.jobs.queries.show(job_id).state is JobState.FINISHED


def test_the_same_job_makes_the_same_bytes(
    origin: tuple[Services, str], bundle_path: Path, tmp_path: Path
) -> None:
    services, job_id = origin
    services.bundles.bundle(job_id, tmp_path / "again.ringmaster", with_data=True)
    assert (tmp_path / "again.ringmaster").read_bytes() == bundle_path.read_bytes()


def test_no_secret_leaves_in_a_bundle(bundle_path: Path, desk: Callable[[], Services]) -> None:
    assert b"very secret" not in bundle_path.read_bytes()
    unbundled = desk().bundles.unbundle(bundle_path)
    assert any("TOKEN" in note for note in unbundled.notes)


def test_a_bundle_records_the_environment_of_each_run(bundle_path: Path) -> None:
    bundle = archive_files.open_bundle(bundle_path, Progress())
    assert bundle.manifest.runs == (ENVIRONMENT,)


def test_a_missing_dataset_is_named_by_its_hash(
    origin: tuple[Services, str], desk: Callable[[], Services], tmp_path: Path
) -> None:
    services, job_id = origin
    bundle = tmp_path / "light.ringmaster"
    bundled = services.bundles.bundle(job_id, bundle, checkpoint="none")
    assert bundled.without_data
    assert bundled.checkpoint == ""
    other_services = desk()
    unbundled = other_services.bundles.unbundle(bundle)
    sha256 = services.library.show(Kind.DATASET, "tiny").sha256
    (note,) = [note for note in unbundled.notes if "dataset" in note]
    assert sha256[:12] in note
    assert other_services.jobs.queries.checkpoints(unbundled.view.id) == ()
    with pytest.raises(BackendError, match=sha256):
        other_services.replays.replay(unbundled.view.id)
    assert len(other_services.jobs.queries.list()) == 1


def test_nothing_is_written_over(
    origin: tuple[Services, str], tmp_path: Path, bundle_path: Path
) -> None:
    services, job_id = origin
    target = tmp_path / "mine.ringmaster"
    target.write_text("a thesis")
    with pytest.raises(BackendError, match="exists already"):
        services.bundles.bundle(job_id, target)
    assert target.read_text() == "a thesis"
    services.bundles.bundle(job_id, target, with_data=True, overwrite=True)
    assert target.read_bytes() == bundle_path.read_bytes()
    assert os.listdir(tmp_path) == ["mine.ringmaster"]


class CancelsAt(Progress):
    def __init__(self, label: str) -> None:
        super().__init__()
        self._label = label

    def report(self, done: float, total: float, label: str) -> None:
        if label == self._label:
            self.cancel()


@pytest.mark.parametrize("step_label", ["Verifying the bundle", "Copying files"])
def test_a_cancelled_import_leaves_no_job(
    bundle_path: Path, desk: Callable[[], Services], step_label: str
) -> None:
    other_services = desk()
    with pytest.raises(Cancelled):
        other_services.bundles.unbundle(bundle_path, CancelsAt(step_label))
    assert other_services.jobs.queries.list() == ()
    assert [item for kind in Kind for item in other_services.library.list(kind)] == []


def test_a_cancelled_bundle_leaves_no_file(origin: tuple[Services, str], tmp_path: Path) -> None:
    services, job_id = origin
    with pytest.raises(Cancelled):
        services.bundles.bundle(
            job_id, tmp_path / "x.ringmaster", progress=CancelsAt("Writing the bundle")
        )
    assert os.listdir(tmp_path) == []


def test_a_late_failure_of_an_import_removes_its_items(
    bundle_path: Path, desk: Callable[[], Services], monkeypatch: pytest.MonkeyPatch
) -> None:
    other_services = desk()

    def full(*_: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("backend.datastore.bundles.imported_job.create_bundled_job", full)
    with pytest.raises(BackendError, match="No space left"):
        other_services.bundles.unbundle(bundle_path)
    assert [item for kind in Kind for item in other_services.library.list(kind)] == []
    assert other_services.jobs.queries.list() == ()


@settings(
    max_examples=100,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(share=st.floats(0, 1, exclude_max=True), change=st.integers(1, 255))
@example(share=0.0, change=1)
@example(share=0.999999, change=1)
def test_a_changed_byte_is_refused_and_named(
    bundle_path: Path, other_services: Services, tmp_path: Path, share: float, change: int
) -> None:
    content = bytearray(bundle_path.read_bytes())
    offset = int(share * len(content))
    content[offset] ^= change
    changed = tmp_path / "changed.ringmaster"
    changed.write_bytes(content)
    message = refusal(other_services, changed)
    assert "changed.ringmaster" in message
    with zipfile.ZipFile(bundle_path) as archive:
        for entry in archive.infolist():
            start = entry.header_offset + 30 + len(entry.filename.encode())
            if start <= offset < start + entry.file_size:
                assert entry.filename in message


def rebuild(
    bundle_path: Path, target: Path, change: Callable[[dict[str, bytes], dict[str, Any]], None]
) -> Path:
    """A bundle with changed files and manifest, and a seal that is right."""
    with zipfile.ZipFile(bundle_path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    raw = json.loads(files.pop(MANIFEST))
    change(files, raw)
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr(MANIFEST, json.dumps(raw))
        for name, content in files.items():
            archive.writestr(name, content)
        archive.comment = archive_files._SEAL + b"0" * archive_files._DIGITS
    archive_files._seal(target)
    return target


def without_model(files: dict[str, bytes], raw: dict[str, Any]) -> None:
    del files["model/bks_model.py"]


def with_added_file(files: dict[str, bytes], raw: dict[str, Any]) -> None:
    files["model/more.py"] = b"import os"


def with_declared_file(files: dict[str, bytes], raw: dict[str, Any]) -> None:
    files["model/more.py"] = b"import os"
    part = ArchiveMember.from_bytes("model/more.py", b"import os")
    raw["files"]["model/more.py"] = {"sha256": part.sha256, "bytes": part.size_bytes}


def newer(files: dict[str, bytes], raw: dict[str, Any]) -> None:
    raw["format"] = 2


def with_outside_path(files: dict[str, bytes], raw: dict[str, Any]) -> None:
    files["../evil"] = b"x"


def with_outside_folder(files: dict[str, bytes], raw: dict[str, Any]) -> None:
    raw["things"]["dataset"]["empty_folders"] = ["../../../evil"]


def other_checkpoint(files: dict[str, bytes], raw: dict[str, Any]) -> None:
    raw["checkpoint"] = "../../evil"


def live(files: dict[str, bytes], raw: dict[str, Any]) -> None:
    raw["status"]["state"] = "TRAINING"


def newer_python(files: dict[str, bytes], raw: dict[str, Any]) -> None:
    code = b"class UserModel:\n    x = a future word\n"
    files["model/bks_model.py"] = code
    part = ArchiveMember.from_bytes("model/bks_model.py", code)
    raw["files"]["model/bks_model.py"] = {"sha256": part.sha256, "bytes": part.size_bytes}
    listing = archive_files.listing_of({"bks_model.py": part.sha256})
    raw["things"]["model"]["sha256"] = ArchiveMember.from_bytes("", listing).sha256
    raw["runs"][0]["python"] = "3.99.1"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without_model, "“model/bks_model.py” is missing from it"),
        (with_added_file, "“model/more.py” was added to it"),
        (with_declared_file, "files of the model tiny@1 do not match"),
        (newer, "made by a newer Ringmaster"),
        (with_outside_path, "“../evil” leads out of the folder"),
        (with_outside_folder, "evil” is outside it"),
        (other_checkpoint, "not a checkpoint name"),
        (live, "had not ended"),
        (newer_python, "written for Python 3.99"),
    ],
)
def test_a_forged_bundle_is_refused(
    bundle_path: Path,
    other_services: Services,
    tmp_path: Path,
    change: Callable[[dict[str, bytes], dict[str, Any]], None],
    message: str,
) -> None:
    assert message in refusal(
        other_services, rebuild(bundle_path, tmp_path / "bad.ringmaster", change)
    )


def test_a_file_that_is_no_bundle_is_refused_in_one_sentence(
    bundle_path: Path, other_services: Services, tmp_path: Path
) -> None:
    text = tmp_path / "text.ringmaster"
    text.write_text("hello")
    assert "is not a Ringmaster bundle" in refusal(other_services, text)
    cut = tmp_path / "cut.ringmaster"
    cut.write_bytes(bundle_path.read_bytes()[:-1000])
    assert "not a complete zip" in refusal(other_services, cut)
    longer = tmp_path / "longer.ringmaster"
    longer.write_bytes(bundle_path.read_bytes() + b"x")
    assert "longer.ringmaster" in refusal(other_services, longer)
    packed = tmp_path / "packed.ringmaster"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(MANIFEST, b"0" * 1_000_000)
    assert "compressed" in refusal(other_services, packed)
    link = tmp_path / "link.ringmaster"
    with zipfile.ZipFile(link, "w") as archive:
        entry = zipfile.ZipInfo("model/bks_model.py")
        entry.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(entry, "/etc/passwd")
    assert "is a link" in refusal(other_services, link)
    with pytest.raises(BackendError, match="cannot be read"):
        other_services.bundles.unbundle(tmp_path / "absent.ringmaster")


def test_a_live_job_is_not_bundled(
    origin: tuple[Services, str], desk: Callable[[], Services], tmp_path: Path
) -> None:
    services, job_id = origin
    other_services = desk()
    shutil.copytree(services.data_root.path, other_services.data_root.path, dirs_exist_ok=True)
    folder: JobFolder = other_services.data_root.job(job_id)
    folder.attempt(1).exit.unlink()
    status = RunStatus.from_dict(json.loads(folder.status.read_text()))
    replace_json(folder.status, replace(status, state=JobState.TRAINING).to_dict())
    replace_json(
        folder.attempt(1).supervisor,
        {"host": "remote", "boot_id": "1", "pid": 1, "start_ticks": 1},
    )
    with pytest.raises(BackendError, match="is training"):
        other_services.bundles.bundle(job_id, tmp_path / "x.ringmaster")
    assert os.listdir(tmp_path) == []


def test_a_sentence_says_whether_a_replay_has_the_same_curve(
    bundle_path: Path, desk: Callable[[], Services]
) -> None:
    other_services = desk()
    original, replay = (other_services.bundles.unbundle(bundle_path).view.id for _ in range(2))
    with pytest.raises(BackendError, match="is not a replay"):
        other_services.replays.compare(replay)
    folder = other_services.data_root.job(replay)
    mark_replay(folder, original)
    comparison = other_services.replays.compare(replay)
    assert (comparison.is_same, comparison.steps, comparison.original_id) == (True, 4, original)
    name = f"{other_services.jobs.queries.show(original).name} ({original})"
    assert comparison.message.startswith(
        f"The same curve: all 4 steps that this job and {name} made agree"
    )
    losses = [*LOSSES[:2], 0.6, 0.7]
    block = Block("TRAINING", 1, 1, 4, 1, "2026-11-22T07:30:00Z", {"loss": losses})
    folder.history.write_bytes(encode(block))
    replace_json(folder.attempt(1).environment, replace(ENVIRONMENT, torch="2.6.0").to_dict())
    comparison = other_services.replays.compare(replay)
    assert (comparison.is_same, comparison.step) == (False, 3)
    assert comparison.message == (
        f"The curves differ from step 3 on: loss was 0.5 in {name} and is 0.6 in this job. "
        "Differences between the two: PyTorch 2.5.1 then, 2.6.0 now; the "
        "variable TOKEN is empty."
    )


def curve(**metrics: list[float]) -> HistoryUpdate:
    count = len(next(iter(metrics.values())))
    arrays = {name: np.array(values) for name, values in metrics.items()}
    return HistoryUpdate(np.arange(1, count + 1), np.ones(count), np.zeros(count), arrays)


def test_two_curves_are_the_same_within_the_tolerance() -> None:
    nan = float("nan")
    earlier = curve(loss=[1.0, 0.5, nan], samples_per_second=[1.0, 2.0, 3.0])
    now = curve(loss=[1.0004, 0.4999, nan], samples_per_second=[9.0, 9.0, 9.0])
    difference = first_difference(earlier, now)
    assert (difference.is_same, difference.steps, difference.step) == (True, 3, 0)


def test_the_first_step_that_differs_is_found() -> None:
    difference = first_difference(curve(loss=[1.0, 0.5, 0.4]), curve(loss=[1.0, 0.6, 0.7]))
    assert not difference.is_same
    assert (
        difference.step,
        difference.metric,
        difference.original_value,
        difference.replay_value,
    ) == (
        2,
        "loss",
        0.5,
        0.6,
    )
    nan_difference = first_difference(curve(loss=[1.0, 0.5]), curve(loss=[1.0, float("nan")]))
    assert (nan_difference.step, nan_difference.replay_value) == (2, None)


def test_the_differences_of_two_environments_are_shown_in_words() -> None:
    assert differences(ENVIRONMENT, ENVIRONMENT) == ()
    now = replace(ENVIRONMENT, torch="2.6.0", processes=1, seed=8, horovod="")
    assert differences(ENVIRONMENT, now) == (
        "PyTorch 2.5.1 then, 2.6.0 now",
        "2 processes then, 1 now",
        "seed 7 then, 8 now",
    )
