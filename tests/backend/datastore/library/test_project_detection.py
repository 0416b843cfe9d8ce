"""A folder or zip with a model, its loader and their data is recognised and taken apart."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from backend.base.errors import BackendError
from backend.base.progress import Progress
from backend.datastore.library.imports import import_source, inspect
from backend.datastore.library.project_detection import inspect as recognised
from backend.datastore.library.project_detection import recognise
from backend.records.library.item import PARTS, Kind
from backend.records.library.project import ImportGuess
from backend.services.context.example import EXAMPLE
from tests.backend.datastore.library.import_rig import contents, make_zip
from tests.fakes.mounted_root import mounted

MODEL, LOADER, DATASET = Kind.MODEL, Kind.LOADER, Kind.DATASET
SEPARATE_FILES = ("model/bks_model.py", "loader/bks_dataset.py")
SHARED_FILES = ("bks_model.py", "bks_dataset.py", "utils.py", "README.md")


def parts(*paths: str) -> dict[str, str]:
    """The folder of each part, and the names that are taken of it, by the part's kind."""
    project = recognise(paths).project
    if project is None:
        return {}
    return {
        kind.value: " ".join((part.folder or ".", *sorted(part.included_names)))
        for kind, part in project.parts.items()
    }


@pytest.mark.parametrize(
    ("paths", "data"),
    [
        (["data/train.csv"], "data"),
        (["Data/train.csv"], "Data"),
        (["dataset/"], "dataset"),
        (["files/a/b/c/d/e.bin"], "files"),
        (["images/cat/1.png", "images/dog/1.png"], "images"),
        (["plankton 2024/1.tif"], "plankton 2024"),
        (["results/1.csv"], "results"),
        (["data/a.csv", "results/1.csv", "pictures/1.png"], "data"),
        (["mnist_data/a.csv", "results/1.csv", "weights/a.pt"], "mnist_data"),
        (["data/a.csv", "data/download.py"], "data"),
        (["data/__init__.py", "data/a.csv", "raw/a.csv"], "raw"),
        (["data/transforms.py", "raw/a.csv"], "raw"),
        (["data_utils/a.py", "raw/a.csv"], "raw"),
        (["src/deep/code.py", "raw/a.csv"], "raw"),
        (["raw/a.csv", "docs/a.md", "configs/net.yaml", "checkpoints/a.pt"], "raw"),
        (["raw/a.csv", "env/pyvenv.cfg", "env/bin/x", "wandb/run", ".git/HEAD"], "raw"),
        (["images/1.png", "labels/1.txt"], ". images labels"),
        (["train/1.png", "validation/1.png", "results/1"], ". train validation"),
        (["train.csv", "validation.csv.gz"], ". train.csv validation.csv.gz"),
        (["train.csv", "docs/a.md"], ". train.csv"),
        (["data/a.csv", "labels.csv"], "data"),
    ],
)
def test_the_data_are_in_a_folder_called_so_or_without_code(paths: list[str], data: str) -> None:
    assert parts(*SEPARATE_FILES, *paths) == {"dataset": data, "loader": "loader", "model": "model"}
    assert parts(*SHARED_FILES, *paths) == {"dataset": data, "loader": ".", "model": "."}


@pytest.mark.parametrize(
    ("paths", "expected_parts"),
    [
        (["bks_model.py", "reader/bks_dataset.py", "data/a"], {"loader": "reader", "model": "."}),
        (
            ["code/bks_model.py", "code/bks_dataset.py", "data/a"],
            {"loader": "code", "model": "code"},
        ),
        ([*SEPARATE_FILES, "old/bks_model.py", "data/a"], {"loader": "loader", "model": "model"}),
        (
            ["bks_model.py", "bks_dataset.py", "old/bks_model.py", "data/a"],
            {"loader": ".", "model": "."},
        ),
        (
            [*SEPARATE_FILES, ".backup/bks_model.py", "data/a"],
            {"loader": "loader", "model": "model"},
        ),
    ],
)
def test_code_lies_at_the_top_or_in_one_folder_there(
    paths: list[str], expected_parts: dict[str, str]
) -> None:
    assert parts(*paths) == {"dataset": "data", **expected_parts}
    nested_parts = {
        kind: f"p/{location}".removesuffix("/.") for kind, location in expected_parts.items()
    }
    assert parts(*(f"p/{path}" for path in paths)) == {"dataset": "p/data", **nested_parts}


def test_data_beside_the_code_in_its_folder_are_found_and_code_alone_is_both() -> None:
    src = ("src/bks_model.py", "src/bks_dataset.py", "README.md")
    assert parts(*src, "src/data/a.csv")["dataset"] == "src/data"
    assert parts(*src) == {"loader": "src", "model": "src"}
    assert parts(*SEPARATE_FILES, "loader/pictures/1.png")["dataset"] == "loader/pictures"
    assert parts(*SEPARATE_FILES, "model/vocabulary/1.txt") == {
        "loader": "loader",
        "model": "model",
    }


@pytest.mark.parametrize(
    ("paths", "kind"),
    [
        ([], DATASET),
        (["a.png"], DATASET),
        (["data/a.csv", "readme.md"], DATASET),
        (["bks_model.py", "blocks.py"], MODEL),
        (["bks_model.py", "data/a.csv"], MODEL),
        (["net/bks_model.py", "net/blocks.py"], MODEL),
        (["bks_dataset.py"], LOADER),
        (["a/bks_model.py", "b/bks_model.py", "loader/bks_dataset.py", "data/a"], DATASET),
        (["deep/er/bks_model.py", "loader/bks_dataset.py", "data/a"], DATASET),
        (["/", "//", "/bks_dataset.py"], DATASET),
    ],
)
def test_any_other_folder_is_one_item(paths: list[str], kind: Kind) -> None:
    assert recognise(paths) == ImportGuess(kind)


def test_files_outside_the_three_parts_are_named() -> None:
    project = recognise(
        [*SEPARATE_FILES, "data/a", "README.md", "notebooks/1.ipynb", ".git/HEAD"]
    ).project
    assert project is not None
    assert project.other_entries == ("README.md", "notebooks/")
    project = recognise([*SHARED_FILES, "data/a"]).project
    assert project is not None
    assert project.other_entries == (), "all is taken that lies beside the code"


def test_only_a_part_of_a_folder_of_many_files_is_read(tmp_path: Path) -> None:
    many = [f"data/{number}.png" for number in range(1200)]
    make_project(tmp_path, *many, "bks_model.py", "bks_dataset.py")
    by_folder = recognised(tmp_path).project
    assert by_folder == recognise([*many, "bks_model.py", "bks_dataset.py"]).project
    assert by_folder is not None
    assert by_folder.parts[DATASET].folder == "data"
    tables = [f"{number}.csv" for number in range(1200)]
    assert parts(*tables, "bks_model.py", "bks_dataset.py") == {"loader": ".", "model": "."}, (
        "half of them would be no dataset"
    )


def make_project(folder: Path, *paths: str) -> Path:
    for path in paths:
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.endswith("/"):
            target.mkdir(exist_ok=True)
        else:
            target.write_text(path)
    return folder


PATHS = (
    *("bks_model.py", "bks_dataset.py", "utils/__init__.py", "requirements.txt", "empty/"),
    *("data/train/1.png", "data/labels.csv", "data/.DS_Store", "data/sub/empty/"),
    *(".git/HEAD", "__pycache__/a.pyc", "utils/._a"),
)


def import_parts(root: Path, source: Path) -> dict[Kind, Path]:
    """Each part as it lies in the data root."""
    project = recognised(source).project
    assert project is not None
    imported_parts = {}
    root.mkdir(exist_ok=True)
    for kind, part in project.parts.items():
        content = inspect(kind, source, Progress(), part)
        item, _ = import_source(mounted(root), kind, content, "p", "there", Progress())
        imported_parts[kind] = root / kind.folder / "p" / f"v{item.version}" / kind.content
    return imported_parts


def test_each_part_is_imported_without_the_others_and_without_litter(tmp_path: Path) -> None:
    source = make_project(tmp_path / "source", *PATHS)
    imported_parts = import_parts(tmp_path / "root", source)
    code = {"bks_model.py", "bks_dataset.py", "utils/__init__.py", "requirements.txt"}
    assert contents(imported_parts[MODEL]).keys() == contents(imported_parts[LOADER]).keys() == code
    assert contents(imported_parts[DATASET]).keys() == {"train/1.png", "labels.csv"}
    assert (imported_parts[DATASET] / "sub/empty").is_dir()
    assert (imported_parts[MODEL] / "empty").is_dir()


@pytest.mark.parametrize("wrapped", ["", "project/"])
def test_a_zip_brings_the_same_files(tmp_path: Path, wrapped: str) -> None:
    by_folder = import_parts(tmp_path / "root", make_project(tmp_path / "source", *PATHS))
    entries = [(wrapped + path, path.encode()) for path in PATHS]
    zipped = make_zip(tmp_path / "p.zip", *entries, (f"__MACOSX/{wrapped}._data", b"of a Mac"))
    by_zip = import_parts(tmp_path / "other", zipped)
    for kind, folder in by_folder.items():
        assert (folder.parent / "files.sha256").read_text() == (
            by_zip[kind].parent / "files.sha256"
        ).read_text(), kind


def test_several_folders_of_data_keep_their_names(tmp_path: Path) -> None:
    source = make_project(
        tmp_path / "p", *SEPARATE_FILES, "train/1.png", "test_data/1.png", "README.md"
    )
    imported_parts = import_parts(tmp_path / "root", source)
    assert contents(imported_parts[DATASET]).keys() == {"train/1.png", "test_data/1.png"}


def test_links_follow_the_rules_of_a_chosen_folder(tmp_path: Path) -> None:
    disk = make_project(tmp_path / "disk", "1.png")
    source = make_project(tmp_path / "source", *SEPARATE_FILES, "shared/utils.py")
    (source / "data").symlink_to(disk)
    (source / "model/utils.py").symlink_to("../shared/utils.py")
    imported_parts = import_parts(tmp_path / "root", source)
    assert contents(imported_parts[DATASET]) == contents(disk), "as where the link itself is chosen"
    assert contents(imported_parts[MODEL]).keys() == {"bks_model.py", "utils.py"}, (
        "it is in the project"
    )
    (source / "model/more.py").symlink_to(disk / "1.png")
    with pytest.raises(BackendError, match=r"more\.py” is a link out of the folder"):
        import_parts(tmp_path / "root", source)


def test_a_link_to_a_folder_that_holds_it_is_no_data(tmp_path: Path) -> None:
    source = make_project(tmp_path / "source", *SEPARATE_FILES)
    (source / "data").symlink_to("..")
    (source / "files").symlink_to(".")
    (source / "loop").symlink_to("loop")
    project = recognised(source).project
    assert project is not None
    assert list(project.parts) == [LOADER, MODEL]


def test_the_example_is_recognised() -> None:
    project = recognised(EXAMPLE).project
    assert project is not None
    assert {kind.value: part.folder for kind, part in project.parts.items()} == {
        kind.value: kind.value for kind in PARTS
    }
    assert project.other_entries == ("README.md", "job.toml")


def test_a_folder_that_cannot_be_read_is_recognised_as_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(location: Path) -> None:
        raise PermissionError(location)

    monkeypatch.setattr(os, "scandir", refuse)
    assert recognised(tmp_path) == ImportGuess()


def test_a_single_file_is_recognised_by_its_name(tmp_path: Path) -> None:
    make_project(tmp_path, "bks_dataset.py", "broken.zip")
    assert recognised(tmp_path / "bks_dataset.py") == ImportGuess(LOADER)
    assert recognised(tmp_path / "broken.zip") == ImportGuess()
    assert recognised(tmp_path / "not there") == ImportGuess()
