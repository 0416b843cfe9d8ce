"""The library as its users call it: one data root, two desktops, a catalogue that may vanish."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from backend.base.errors import BackendError
from backend.base.progress import Progress
from backend.catalogue.store import open_catalogue
from backend.datastore.access import hashes
from backend.datastore.jobs.files import JobFile, create_job
from backend.records.base.atomic_files import read_json, replace_json
from backend.records.jobs.config import JobConfig, Optimizer
from backend.records.jobs.placement import Placement
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RunStatus
from backend.records.jobs.view import JobView
from backend.records.library.item import Combination, Kind, LibraryItem, Pin
from backend.records.library.preview import ModelCheck, Preview, SampleError
from backend.services.context.container import Services, default_catalogue, open_services
from backend.services.library.service import LibraryService
from backend.services.tools import tool_process
from tests.fakes.mounted_root import mounted
from tests.job_views import replace_fields

CONFIG = JobConfig(
    name="digits",
    model="mlp",
    dataset="digits",
    loader="digits",
    epochs=3,
    batch_size=32,
    optimizer=Optimizer("sgd", 0.01),
    placement=(Placement("this-computer", 2),),
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def services(root: Path, tmp_path: Path) -> Iterator[Services]:
    container = open_services(root, tmp_path / "here" / "c.sqlite")
    yield container
    container.close()


@pytest.fixture
def library(services: Services) -> LibraryService:
    return services.library


@pytest.fixture
def other_library(root: Path, services: Services, tmp_path: Path) -> Iterator[LibraryService]:
    """The same data root from another desktop."""
    container = open_services(root, tmp_path / "there" / "c.sqlite")
    yield container.library
    container.close()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "a.csv").write_text("1,2\n")
    (folder / "bks_model.py").write_text("class UserModel: ...\n")
    (folder / "bks_dataset.py").write_text("class UserDataset: ...\n")
    return folder


def a_job(root: Path, item: LibraryItem, state: JobState = JobState.CREATED) -> JobFile:
    pins = {item.kind.value: Pin(item.name, item.version, item.sha256)}
    file = create_job(mounted(root), CONFIG, pins)
    if state is not JobState.CREATED:
        folder = mounted(root).job(file.id)
        replace_json(folder.status, RunStatus(state, run=1).to_dict())
    return file


def references(items: tuple[LibraryItem, ...]) -> list[str]:
    return [item.reference for item in items]


def test_m1_a_job_keeps_its_version_when_a_new_one_is_imported(
    library: LibraryService, root: Path, source: Path
) -> None:
    first = library.import_item(Kind.DATASET, source, "digits")
    pin = library.pin(Kind.DATASET, "digits")
    a_job(root, first, JobState.FINISHED)
    (source / "a.csv").write_text("3,4\n")
    second = library.import_item(Kind.DATASET, source, "digits")
    assert (second.version, second.sha256 != first.sha256) == (2, True)
    assert library.pin(Kind.DATASET, "digits").version == 2
    assert pin == Pin("digits", 1, first.sha256)
    library.verify(Kind.DATASET, pin)
    assert (library.content(Kind.DATASET, pin.reference) / "a.csv").read_text() == "1,2\n"
    assert references(library.list(Kind.DATASET)) == ["digits@2", "digits@1"]


def test_the_same_files_again_are_a_version_unless_they_may_be_reused(
    library: LibraryService, source: Path
) -> None:
    first = library.import_item(Kind.DATASET, source, "digits")
    assert library.import_item(Kind.DATASET, source, "digits", reuse_same=True) == first
    assert library.import_item(Kind.DATASET, source, "digits").version == 2
    newest = library.import_item(Kind.DATASET, source, "digits", reuse_same=True)
    assert newest.version == 2
    (source / "a.csv").write_text("3,4\n")
    assert library.import_item(Kind.DATASET, source, "digits", reuse_same=True).version == 3


def test_m1_a_changed_byte_is_refused_and_the_file_named(
    library: LibraryService, source: Path
) -> None:
    library.import_item(Kind.DATASET, source, "digits")
    pin = library.pin(Kind.DATASET, "digits")
    file = library.content(Kind.DATASET, "digits") / "a.csv"
    status = file.stat()
    file.write_text("1,9\n")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(BackendError, match=r"dataset digits@1 was changed .* “a.csv” differs"):
        library.verify(Kind.DATASET, pin)
    file.write_text("1,2\n")
    library.verify(Kind.DATASET, pin)
    file.unlink()
    with pytest.raises(BackendError, match=r"is missing “a.csv”"):
        library.verify(Kind.DATASET, pin)
    file.write_text("1,2\n")
    (file.parent / "more").touch()
    with pytest.raises(BackendError, match=r"contains “more”"):
        library.verify(Kind.DATASET, pin)


def test_m1_another_version_under_the_same_number_is_refused(
    library: LibraryService, source: Path
) -> None:
    library.import_item(Kind.DATASET, source, "digits")
    pin = replace(library.pin(Kind.DATASET, "digits"), sha256="0" * 64)
    with pytest.raises(BackendError, match="differs from the pinned version"):
        library.verify(Kind.DATASET, pin)


def test_a_verified_version_is_not_hashed_again(
    library: LibraryService,
    other_library: LibraryService,
    source: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    library.import_item(Kind.DATASET, source, "digits")
    pin = library.pin(Kind.DATASET, "digits")
    other_library.verify(Kind.DATASET, pin)
    hashed: list[str] = []

    def compare(title: str, *_: object) -> None:
        hashed.append(title)

    monkeypatch.setattr(hashes, "compare", compare)
    library.verify(Kind.DATASET, pin)
    other_library.verify(Kind.DATASET, pin)
    assert hashed == []
    library.verify(Kind.DATASET, pin, thorough=True)
    assert hashed == ["The dataset digits@1"]


def test_a_thorough_check_finds_the_damage_of_a_failing_disk(
    library: LibraryService, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.import_item(Kind.DATASET, source, "digits")
    pin = library.pin(Kind.DATASET, "digits")
    fingerprint = hashes.fingerprint(library.content(Kind.DATASET, "digits"))
    (library.content(Kind.DATASET, "digits") / "a.csv").write_text("1,3\n")
    monkeypatch.setattr(hashes, "fingerprint", lambda folder: fingerprint)
    library.verify(Kind.DATASET, pin)
    with pytest.raises(BackendError, match=r"“a\.csv” differs"):
        library.verify(Kind.DATASET, pin, thorough=True)


def test_f32_the_list_stays_while_the_data_root_is_away(
    library: LibraryService, root: Path, source: Path
) -> None:
    item = library.import_item(Kind.DATASET, source, "digits")
    unmounted_root = root.with_name("away")
    root.rename(unmounted_root)
    assert library.list(Kind.DATASET) == (item,)
    root.mkdir()
    assert library.list(Kind.DATASET) == (item,)
    root.rmdir()
    unmounted_root.rename(root)
    assert library.list(Kind.DATASET) == (item,)


@pytest.mark.parametrize("is_deleted", [True, False])
def test_f42_a_rescan_gives_back_everything(
    root: Path, source: Path, tmp_path: Path, is_deleted: bool
) -> None:
    catalogue_path = tmp_path / "c.sqlite"
    services = open_services(root, catalogue_path)
    items = {kind: services.library.import_item(kind, source, f"a {kind.value}") for kind in Kind}
    jobs = [a_job(root, items[Kind.MODEL], state) for state in (JobState.CREATED, JobState.ERROR)]
    old_views = {job.id: services.jobs.queries.show(job.id) for job in jobs}
    services.close()
    if is_deleted:
        for file in tmp_path.glob("c.sqlite*"):
            file.unlink() if file.is_file() else shutil.rmtree(file)
    services = open_services(root, catalogue_path)
    report = services.library.rescan()
    assert (report.datasets, report.models, report.loaders, report.jobs) == (1, 1, 1, 2)
    assert report.problems == report.forgotten_items == report.removed_imports == ()
    for kind, item in items.items():
        assert services.catalogue.items(kind) == (item,)
    found_views = {view.id: view for view in services.catalogue.jobs()}
    assert found_views.keys() == old_views.keys()
    for job_id, view in old_views.items():
        assert (found_views[job_id].name, found_views[job_id].pins) == (view.name, view.pins)
        assert found_views[job_id].created == view.created
    services.close()


def test_f42_a_new_catalogue_is_filled_when_it_is_made(
    services: Services, root: Path, source: Path, tmp_path: Path
) -> None:
    item = services.library.import_item(Kind.DATASET, source, "digits")
    job = a_job(root, item)
    new_services = open_services(root, tmp_path / "new" / "c.sqlite")
    assert new_services.catalogue.items(Kind.DATASET) == (item,)
    assert new_services.catalogue.job_ids() == {job.id}
    new_services.close()


def test_a_rescan_names_unreadable_items_and_continues(
    services: Services, root: Path, source: Path
) -> None:
    library = services.library
    for name in ("good", "torn", "renamed"):
        library.import_item(Kind.DATASET, source, name)
    (root / "datasets/torn/v1/meta.json").write_text('{"kind": ')
    (root / "datasets/renamed").rename(root / "datasets/other")
    (root / "datasets/no version").mkdir()
    (root / "datasets/file").touch()
    jobs = [a_job(root, library.show(Kind.DATASET, "good")) for _ in range(3)]
    (root / "jobs" / jobs[0].id / "config.toml").write_text("epochs = ")
    (root / "jobs" / jobs[1].id / "meta.json").unlink()
    (root / "jobs" / "a stray file").touch()
    partial_import = root / "datasets" / ".digits.importing-x--99999999-0-0a0b0c0d"
    partial_import.mkdir()
    report = library.rescan()
    assert (report.datasets, report.jobs) == (1, 1)
    assert report.forgotten_items == ("dataset renamed@1", "dataset torn@1")
    assert len(report.problems) == 5
    for word in ("torn@1", "is of dataset renamed@1", jobs[0].id, jobs[1].id, "stray"):
        assert any(word in problem for problem in report.problems), word
    assert partial_import.exists(), "whether it is at work cannot be known for a week"


def test_f43_a_rescan_sweeps_the_rest_of_an_import_by_name(
    library: LibraryService, root: Path, source: Path
) -> None:
    from backend.node.system import process_identity

    boot = process_identity.boot_id().replace("-", "")[:12]
    partial_import = root / "datasets" / f".digits.importing-x-{boot}-{os.getpid()}-1-0a0b0c0d"
    partial_import.mkdir(parents=True)
    assert library.list(Kind.DATASET) == ()
    assert library.rescan().removed_imports == ("dataset digits",)
    assert os.listdir(root / "datasets") == []


def test_removing_moves_to_the_trash_and_says_where(
    library: LibraryService, root: Path, source: Path
) -> None:
    item = library.import_item(Kind.MODEL, source, "mlp")
    old_content = (root / "models/mlp/v1/src/bks_model.py").read_bytes()
    assert library.remove(Kind.MODEL, "mlp") == item
    assert library.list(Kind.MODEL) == ()
    (trash_folder,) = (root / "trash").iterdir()
    assert trash_folder.name.endswith("-model-mlp-v1")
    assert (trash_folder / "src/bks_model.py").read_bytes() == old_content
    assert LibraryItem.from_dict(read_json(trash_folder / "removed.json")["item"]) == item
    with pytest.raises(BackendError, match=r"model mlp@1 was removed on 20") as caught:
        library.content(Kind.MODEL, "mlp@1")
    assert str(trash_folder) in caught.value.remedy
    trash_folder.rename(root / "models/mlp/v1")
    assert library.list(Kind.MODEL) == (item,)
    library.verify(Kind.MODEL, Pin("mlp", 1, item.sha256))


@pytest.mark.parametrize("state", [JobState.STARTING, JobState.TRAINING, JobState.STOPPING])
def test_a_version_that_a_live_job_uses_cannot_be_removed(
    services: Services, root: Path, source: Path, tmp_path: Path, state: JobState
) -> None:
    states = [state]

    def show_job(job_id: str) -> JobView:
        return JobView(job_id, "my job", CONFIG, "", RunStatus(states[-1]))

    library = LibraryService(
        services.data_root, services.catalogue, tmp_path / "previews", show_job
    )
    item = library.import_item(Kind.MODEL, source, "mlp")
    second_version = library.import_item(Kind.MODEL, source, "mlp")
    job = a_job(root, item, JobState.TRAINING)
    with pytest.raises(BackendError, match=f"in use by the job “my job” .{job.id}.") as caught:
        library.remove(Kind.MODEL, item.reference)
    assert caught.value.remedy == "Stop the job first."
    assert (root / "models/mlp/v1/meta.json").exists()
    library.remove(Kind.MODEL, second_version.reference)
    states.append(JobState.ERROR)
    library.remove(Kind.MODEL, item.reference)


@pytest.mark.parametrize(
    ("reference", "message", "remedy"),
    [
        ("digit", "no dataset “digit”", "Did you mean “digits”?"),
        ("digits@7", "no dataset digits@7", ""),
        ("digits@x", "NAME@VERSION", ""),
        ("../models", "no dataset", ""),
        ("", "no dataset “”", "Import it"),
        ("a\nb", "no dataset “a?b”", "Import it"),
    ],
)
def test_a_reference_that_means_nothing_is_a_sentence(
    library: LibraryService, source: Path, reference: str, message: str, remedy: str
) -> None:
    library.import_item(Kind.DATASET, source, "digits")
    for call in (library.show, library.content, library.pin, library.files, library.remove):
        if call == library.files and reference == "digits@7":
            continue
        with pytest.raises(BackendError) as caught:
            call(Kind.DATASET, reference)
        assert message in caught.value.message
        assert remedy in caught.value.remedy


def test_source_files_can_be_read_and_nothing_else(
    library: LibraryService, source: Path, root: Path
) -> None:
    (source / "large.py").write_text("x" * 3_000_000)
    (source / "data.bin").write_bytes(b"\0\1")
    library.import_item(Kind.MODEL, source, "mlp")
    assert [file.path for file in library.files(Kind.MODEL, "mlp")] == sorted(os.listdir(source))
    assert library.text(Kind.MODEL, "mlp", "bks_model.py") == "class UserModel: ...\n"
    assert library.text(Kind.MODEL, "mlp", "large.py").endswith("(cut off after 1 MB)")
    for path in ("../meta.json", "/etc/passwd", "", ".", "none.py", "data.bin"):
        with pytest.raises(BackendError):
            library.text(Kind.MODEL, "mlp", path)


def test_a_preview_is_made_once_and_its_facts_are_kept(
    library: LibraryService,
    other_library: LibraryService,
    source: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    library.import_item(Kind.DATASET, source, "digits")
    library.import_item(Kind.LOADER, source, "digits")
    calls: list[tuple[Path, Path, str]] = []
    expected = Preview("training", "UserDataset", 7, 7, warnings=("All targets are 3.",))

    def preview(loader: Path, dataset: Path, split: str, progress: Progress | None) -> Preview:
        calls.append((loader, dataset, split))
        return expected

    monkeypatch.setattr(tool_process, "preview", preview)
    for _ in range(2):
        assert library.preview("digits", "digits") == expected
    assert calls == [
        (
            library.content(Kind.LOADER, "digits"),
            library.content(Kind.DATASET, "digits"),
            "training",
        )
    ]
    library.preview("digits", "digits", "validation")
    assert len(calls) == 2
    assert other_library.show(Kind.DATASET, "digits").details == {
        "items": 7,
        "seen_through": "digits@1",
        "warning": "All targets are 3.",
    }
    library.verify(Kind.DATASET, library.pin(Kind.DATASET, "digits"))


def test_a_check_is_made_once_for_each_set_of_files(
    library: LibraryService, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in Kind:
        library.import_item(kind, source, "x")
    calls: list[object] = []

    def check(*arguments: object, progress: Progress | None) -> ModelCheck:
        calls.append(arguments)
        return ModelCheck(10, 9, 40, metrics={})

    monkeypatch.setattr(tool_process, "check_model", check)
    for _ in range(2):
        library.check_model("x")
        library.check_model("x", "x", "x")
    assert len(calls) == 2
    assert library.show(Kind.MODEL, "x").details["parameters"] == 10
    (source / "bks_model.py").write_text("class UserModel(object): ...\n")
    library.import_item(Kind.MODEL, source, "x")
    library.check_model("x")
    assert len(calls) == 3


def test_previews_checks_and_jobs_record_parts_that_work_together(
    services: Services, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loader that reads no item of a dataset has not read it; a job without a step neither."""
    library, catalogue = services.library, services.catalogue
    for kind in Kind:
        for name in ("digits", "plankton"):
            (source / "bks_model.py").write_text(f"# {name}")
            library.import_item(kind, source, name)
    broken = Preview("training", "UserDataset", 7, 7, errors=(SampleError("No."),))
    monkeypatch.setattr(tool_process, "preview", lambda *_, **__: broken)
    library.preview("plankton", "digits")
    assert library.known_combinations() == ()
    monkeypatch.setattr(tool_process, "preview", lambda *_, **__: Preview("training", "U", 7, 7))
    library.preview("digits", "digits")
    assert library.known_combinations() == (Combination("digits", "digits"),)
    model_check = ModelCheck(10, 9, 40, batch="[4] float32")
    monkeypatch.setattr(tool_process, "check_model", lambda *_, **__: model_check)
    library.check_model("plankton", "plankton", "plankton")
    pins = {key: Pin("digits", 1, "ab" * 32) for key in ("model", "dataset", "loader")}
    view = JobView("a", "a", CONFIG, "", RunStatus(JobState.TRAINING, step=1), pins=pins)
    catalogue.put_job(view)
    catalogue.put_job(
        replace_fields(view, step=0, id="b", pins={**pins, "loader": Pin("x", 1, "")})
    )
    assert library.known_combinations() == (
        Combination("digits", "digits"),
        Combination("plankton", "plankton", "plankton"),
        Combination("digits", "digits", "digits"),
    )


def test_f58_nothing_of_a_users_code_is_imported_here(
    library: LibraryService, source: Path, tmp_path: Path
) -> None:
    mark, old_modules = tmp_path / "ran", set(sys.modules)
    for name in ("bks_model.py", "bks_dataset.py", "sitecustomize.py"):
        (source / name).write_text(f"open({str(mark)!r}, 'w')\n")
    for kind in Kind:
        library.import_item(kind, source, "evil")
        library.show(kind, "evil")
        library.verify(kind, library.pin(kind, "evil"))
        library.text(kind, "evil", "bks_model.py")
    library.rescan()
    assert not mark.exists()
    assert "bks_model" not in sys.modules.keys() - old_modules


# The workplace.


def test_a_catalogue_has_its_place_by_the_data_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "link").symlink_to(tmp_path / "a")
    (tmp_path / "a").mkdir()
    catalogue_paths = {default_catalogue(tmp_path / name) for name in ("a", "link", "b")}
    assert len(catalogue_paths) == 2
    container = open_services(tmp_path / "a")
    catalogue_path = default_catalogue(tmp_path / "a")
    assert container.catalogue.path == catalogue_path
    assert catalogue_path.is_relative_to(tmp_path / "home" / "ringmaster" / "catalogues")
    assert stat.S_IMODE(catalogue_path.parent.stat().st_mode) == 0o700
    container.close()


def test_an_impossible_data_root_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path, message in (
        (tmp_path / "file", "is a file"),
        (tmp_path / "no" / "x", "does not exist"),
    ):
        with pytest.raises(BackendError, match=message):
            open_services(path, tmp_path / "c.sqlite")
    assert sorted(os.listdir(tmp_path)) == ["file"]


def test_f37_a_damaged_catalogue_does_not_keep_a_new_one_from_being_built(
    services: Services, root: Path, source: Path, tmp_path: Path
) -> None:
    item = services.library.import_item(Kind.DATASET, source, "digits")
    damaged_catalogue = tmp_path / "damaged.sqlite"
    damaged_catalogue.touch()
    with pytest.raises(BackendError, match="0 bytes") as caught:
        open_services(root, damaged_catalogue).make_all()
    assert "--catalogue FILE" in caught.value.remedy
    new_services = open_services(root, tmp_path / "new.sqlite")
    assert new_services.library.rescan().datasets == 1
    assert new_services.library.list(Kind.DATASET) == (item,)
    new_services.close()
    assert damaged_catalogue.read_bytes() == b""
    with pytest.raises(BackendError):
        open_catalogue(damaged_catalogue)


@pytest.mark.parametrize(
    "added",
    [("processed.pt",), ("images/a.cache",), ("a/b/c/d", "z"), ("odd \n name",), (".hidden",), ()],
)
def test_added_files_are_moved_to_the_trash_and_the_version_is_good_again(
    library: LibraryService, root: Path, source: Path, added: tuple[str, ...]
) -> None:
    library.import_item(Kind.DATASET, source, "digits")
    content = library.content(Kind.DATASET, "digits")
    pin = library.pin(Kind.DATASET, "digits")
    for name in added:
        (content / name).parent.mkdir(parents=True, exist_ok=True)
        (content / name).write_text(name)
    if added:
        with pytest.raises(BackendError) as caught:
            library.verify(Kind.DATASET, pin)
        assert "remove-added NAME@VERSION" in caught.value.remedy
    assert sorted(library.added_files(Kind.DATASET, "digits")) == sorted(added)
    assert sorted(library.remove_added(Kind.DATASET, "digits@1")) == sorted(added)
    library.verify(Kind.DATASET, pin)
    trashed_files = [path for path in (root / "trash").rglob("*") if path.is_file()]
    assert sorted(path.read_text() for path in trashed_files) == sorted(added)
