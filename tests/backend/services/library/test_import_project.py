"""A folder with model, loader and data becomes the three of one name, each whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backend.base.errors import BackendError, Cancelled
from backend.base.progress import Progress
from backend.datastore.library import sources
from backend.records.library.item import Kind, LibraryItem
from backend.services.context.container import open_services
from backend.services.library.service import LibraryService

ORDER = [Kind.DATASET, Kind.LOADER, Kind.MODEL]


@pytest.fixture
def library(tmp_path: Path) -> Iterator[LibraryService]:
    container = open_services(tmp_path / "root", tmp_path / "here" / "c.sqlite")
    yield container.library
    container.close()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "plankton"
    for path in ("model/bks_model.py", "loader/bks_dataset.py", "data/a.csv", "data/b.csv"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(path)
    return folder


class NotedProgress(Progress):
    """Keeps what was reported; may cancel once a word was said."""

    def __init__(self, cancel_at: str = "") -> None:
        super().__init__()
        self.shares: list[float] = []
        self.labels: list[str] = []
        self._cancel_at = cancel_at

    def report(self, done: float, total: float, label: str) -> None:
        self.shares += [done / total] if total else []
        self.labels.append(label)
        if self._cancel_at and label.startswith(self._cancel_at):
            self.cancel()


def import_parts(
    library: LibraryService, folder: Path, progress: Progress | None = None
) -> tuple[LibraryItem, ...]:
    project = library.inspect(folder).project
    assert project is not None
    return library.import_project(folder, project, "plankton", progress)


def item_names(library: LibraryService) -> list[str]:
    return [f"{item.kind.value} {item.reference}" for kind in ORDER for item in library.list(kind)]


def hidden_folders(tmp_path: Path) -> list[Path]:
    return [path for path in (tmp_path / "root").glob("*s/.*") if path.is_dir()]


def test_all_three_parts_get_one_name_and_one_progress(
    library: LibraryService, project: Path
) -> None:
    noted = NotedProgress()
    items = import_parts(library, project, noted)
    assert [(item.kind, item.reference) for item in items] == [(k, "plankton@1") for k in ORDER]
    assert [Path(item.source).name for item in items] == ["data", "loader", "model"]
    assert item_names(library) == ["dataset plankton@1", "loader plankton@1", "model plankton@1"]
    assert noted.shares == sorted(noted.shares)
    assert noted.shares[-1] == 1.0
    prefixes = list(dict.fromkeys(label.partition(":")[0] for label in noted.labels))
    assert prefixes == ["Dataset", "Loader", "Model"]


def test_a_second_import_adds_versions_of_changed_parts_only(
    library: LibraryService, project: Path
) -> None:
    import_parts(library, project)
    for text, versions in (("new", [1, 1, 2]), ("newer", [1, 1, 3]), ("new", [1, 1, 4])):
        (project / "model/bks_model.py").write_text(text)
        assert [item.version for item in import_parts(library, project)] == versions


def test_a_fault_of_one_is_named_before_any_is_imported(
    library: LibraryService, project: Path
) -> None:
    (project / "loader/words.txt").symlink_to("nowhere")
    with pytest.raises(BackendError) as caught:
        import_parts(library, project)
    assert caught.value.with_remedy == (
        "The loader cannot be imported: “words.txt” is a broken link. Remove "
        "the link; nothing was imported."
    )
    assert item_names(library) == []


def test_a_failure_keeps_earlier_imports_and_the_rest_can_follow(
    library: LibraryService, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = sources.FolderSource.copy

    def fail(source: sources.FolderSource, file: sources.SourceFile, *arguments: Any) -> str:
        if file.path == "bks_model.py":
            raise BackendError("The disk became full.", "Make room there.")
        return copy(source, file, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(sources.FolderSource, "copy", fail)
        with pytest.raises(BackendError) as caught:
            import_parts(library, project)
    assert caught.value.with_remedy == (
        "The model cannot be imported: The disk became full. Make room there. "
        "The dataset plankton@1 and the loader plankton@1 were imported before it and stay."
    )
    assert item_names(library) == ["dataset plankton@1", "loader plankton@1"]
    assert hidden_folders(tmp_path) == []
    import_parts(library, project)
    assert item_names(library) == ["dataset plankton@1", "loader plankton@1", "model plankton@1"]


def test_a_cancelled_import_names_the_parts_that_stay(
    library: LibraryService, project: Path, tmp_path: Path
) -> None:
    with pytest.raises(Cancelled):
        import_parts(library, project, NotedProgress(cancel_at="Dataset: Copying"))
    assert item_names(library) == []
    with pytest.raises(BackendError) as caught:
        import_parts(library, project, NotedProgress(cancel_at="Loader: Copying"))
    assert str(caught.value) == ("Cancelled; the dataset plankton@1 was imported before and stays.")
    assert item_names(library) == ["dataset plankton@1"]
    assert hidden_folders(tmp_path) == []


def test_a_folder_that_changed_since_its_inspection_is_refused(
    library: LibraryService, project: Path
) -> None:
    inspected = library.inspect(project).project
    assert inspected is not None
    (project / "model/bks_model.py").unlink()
    with pytest.raises(BackendError, match=r"model has no bks_model\.py"):
        library.import_project(project, inspected, "plankton")
    assert item_names(library) == []
