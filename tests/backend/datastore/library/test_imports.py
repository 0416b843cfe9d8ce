"""Importing folders: whole or not at all, whatever is in them and whenever it is interrupted."""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backend.base.errors import BackendError
from backend.base.progress import Progress
from backend.datastore.access.hashes import MANIFEST, manifest, read_manifest
from backend.datastore.library import imports, library_files
from backend.datastore.library.imports import import_version
from backend.datastore.library.staging import make_staging, stagings
from backend.records.base.validation import name_error
from backend.records.library.item import Kind
from tests.backend.datastore.library.import_rig import (
    contents,
    import_now,
    import_refused,
    make_zip,
    read_tree,
)
from tests.fakes.mounted_root import mounted


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    (folder / "sub" / "empty").mkdir(parents=True)
    (folder / "a.csv").write_bytes(b"1,2,3\n")
    # No two chunks of a copy are equal: their sizes are no multiple of this.
    (folder / "sub" / "large.bin").write_bytes(os.urandom(1_000_003) * 20)
    (folder / "sub" / "run.sh").write_bytes(b"#!/bin/sh\n")
    (folder / "sub" / "run.sh").chmod(0o755)
    (folder / "nothing").touch()
    return folder


def test_a_folder_is_imported_with_every_byte(root: Path, source: Path) -> None:
    item = import_now(root, source)
    version = root / "datasets/digits/v1"
    assert contents(version / "files") == contents(source)
    assert (version / "files/sub/empty").is_dir()
    assert (item.name, item.version, item.files) == ("digits", 1, 4)
    assert item.bytes == sum(map(len, contents(source).values()))
    assert item.source == str(source)
    assert sorted(os.listdir(root / "datasets")) == ["digits"]
    assert sorted(os.listdir(version)) == ["files", "files.sha256", "meta.json"]


def test_other_users_of_a_node_can_read_an_import(root: Path, source: Path) -> None:
    (source / "a.csv").chmod(0o600)
    previous_umask = os.umask(0o077)
    try:
        import_now(root, source)
    finally:
        os.umask(previous_umask)
    for path in (root / "datasets").rglob("*"):
        expected_mode = 0o755 if path.is_dir() else 0o555 if path.name == "run.sh" else 0o444
        if path.parent.name == "v1" and path.is_file():
            expected_mode = 0o644
        assert stat.S_IMODE(path.stat().st_mode) == expected_mode, path


def test_a_version_can_be_verified_with_sha256sum(root: Path, source: Path) -> None:
    (source / "with \\ and \" and 'ü 🦔'").write_text("odd")
    item = import_now(root, source)
    version = root / "datasets/digits/v1"
    for command in (
        "cd files && sha256sum --quiet --strict -c ../files.sha256",
        "cd files && find . -type f -printf '%P\\0' | LC_ALL=C sort -z | xargs -0 sha256sum"
        " | cmp - ../files.sha256",
        f"test $(sha256sum < files.sha256 | cut -c1-64) = {item.sha256}",
    ):
        subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], cwd=version, check=True)


def test_importing_again_makes_the_next_version_and_leaves_the_first(
    root: Path, source: Path
) -> None:
    first = import_now(root, source)
    previous_tree = read_tree(root)
    (source / "a.csv").write_bytes(b"4\n")
    second = import_now(root, source)
    assert (second.version, second.sha256 == first.sha256) == (2, False)
    assert previous_tree.items() <= read_tree(root).items()


def test_the_number_of_a_removed_version_is_not_used_again(root: Path, source: Path) -> None:
    data_root = mounted(root)
    import_now(root, source)
    import_now(root, source)
    folder = library_files.VersionFolder(data_root, Kind.DATASET, "digits", 2)
    library_files.move_to_trash(folder, {"removed": "2026-11-21"}, "20261121-x")
    assert import_now(root, source).version == 3


def test_f45_two_desktops_that_import_one_name_at_once_get_two_versions(
    root: Path, source: Path
) -> None:
    (source / "sub" / "large.bin").unlink()
    versions: list[int] = []
    barrier = threading.Barrier(8)

    def work() -> None:
        barrier.wait()
        for _ in range(5):
            versions.append(import_now(root, source).version)  # noqa: PERF401

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(versions) == list(range(1, 41))
    for version in versions:
        folder = library_files.VersionFolder(mounted(root), Kind.DATASET, "digits", version)
        assert library_files.read_item(folder).version == version


# F48: what a folder may hold.


def test_f48_a_file_that_cannot_be_read_is_named(root: Path, source: Path, tmp_path: Path) -> None:
    # Root may read everything, so this is tried as another user.
    (source / "sub" / "run.sh").chmod(0)
    for parent in (tmp_path, *tmp_path.parents):
        if parent.stat().st_mode & 0o5 != 0o5:
            parent.chmod(0o755)
    root.chmod(0o777)
    script = (
        "import os, sys; from pathlib import Path\n"
        "import backend.datastore.library.imports\n"
        "from tests.backend.datastore.library.import_rig import import_now\n"
        "from backend.base.errors import BackendError\n"
        "if os.getuid() == 0: os.setgid(65534), os.setuid(65534)\n"
        "try: import_now(Path(sys.argv[1]), Path(sys.argv[2]))\n"
        "except BackendError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(root), str(source)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "“sub/run.sh” cannot be read." in done.stdout, done.stderr
    assert os.listdir(root) == []


def test_f48_a_link_out_of_the_folder_is_named(root: Path, source: Path) -> None:
    (source / "link").symlink_to("/etc/passwd")
    with import_refused(root, "“link” is a link out of the folder, to /etc/passwd"):
        import_now(root, source)


@pytest.mark.parametrize("target", ["nowhere", "link"])
def test_f48_a_link_that_cannot_be_followed_is_named(root: Path, source: Path, target: str) -> None:
    (source / "link").symlink_to(target)
    with import_refused(root, "“link” is a broken link"):
        import_now(root, source)


def test_a_link_within_the_folder_is_imported_as_the_file(root: Path, source: Path) -> None:
    (source / "link.csv").symlink_to("a.csv")
    import_now(root, source)
    copy = root / "datasets/digits/v1/files/link.csv"
    assert copy.read_bytes() == b"1,2,3\n"
    assert not copy.is_symlink()


def test_a_link_to_a_folder_within_the_folder_is_imported_as_a_copy(
    root: Path, source: Path
) -> None:
    (source / "latest").symlink_to("sub")
    (source / "sub" / "again.csv").symlink_to("../a.csv")
    item = import_now(root, source)
    files = root / "datasets/digits/v1/files"
    assert contents(files / "latest") == contents(files / "sub") == contents(source / "sub")
    assert not (files / "latest").is_symlink()
    assert item.import_message == ""


def test_a_link_to_a_folder_that_holds_it_is_left_out_and_said(root: Path, source: Path) -> None:
    (source / "self").symlink_to(".")
    (source / "sub" / "up").symlink_to("..")
    (source / "a").mkdir()
    (source / "a" / "b").symlink_to("../c")
    (source / "c").mkdir()
    (source / "c" / "a").symlink_to("../a")
    item = import_now(root, source)
    files = root / "datasets/digits/v1/files"
    assert contents(files).keys() == {"a.csv", "nothing", "sub/large.bin", "sub/run.sh"}
    assert item.details["left_out_names"] == ["a/b/a", "c/a/b", "self", "sub/up"]


def test_links_of_tools_are_left_out_wherever_they_lead(root: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    (folder / "wandb/run-1").mkdir(parents=True)
    (folder / "bks_model.py").write_text("class UserModel: ...")
    (folder / "wandb/latest-run").symlink_to("run-1")
    (folder / "wandb/debug-core.log").symlink_to("/nowhere/debug-core.log")
    (folder / ".venv").symlink_to("/usr")
    (folder / ".#bks_model.py").symlink_to("me@here.77:1")
    item = import_now(root, folder, kind=Kind.MODEL)
    assert contents(root / "models/digits/v1/src").keys() == {"bks_model.py"}
    assert item.details["left_out_names"] == [".#bks_model.py", ".venv", "wandb"]


def test_f48_a_socket_a_pipe_and_a_device_are_named(root: Path, source: Path) -> None:
    os.mkfifo(source / "pipe")
    with import_refused(root, "“pipe” is a pipe, not a file"):
        import_now(root, source)
    (source / "pipe").unlink()
    with socket.socket(socket.AF_UNIX) as server:
        working_folder = os.getcwd()
        os.chdir(source)
        server.bind("socket")
        os.chdir(working_folder)
        with import_refused(root, "“socket” is a socket, not a file"):
            import_now(root, source)
    (source / "socket").unlink()
    (source / "null").symlink_to("/dev/null")
    with import_refused(root, "“null” is a link out"):
        import_now(root, source)


@pytest.mark.parametrize(
    ("name", "message"),
    [(b"new\nline", "line break"), (b"esc\x1b[2J", "control"), (b"caf\xe9", "not UTF-8")],
)
def test_f48_a_name_that_not_every_computer_can_show_is_named(
    root: Path, source: Path, name: bytes, message: str
) -> None:
    Path(os.fsdecode(os.fsencode(source / "sub") + b"/" + name)).touch()
    with import_refused(root, message):
        import_now(root, source)


def test_f48_a_file_that_is_written_to_meanwhile_is_not_imported_half(
    root: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.read

    def read(descriptor: int, count: int) -> bytes:
        with (source / "a.csv").open("ab") as file:
            file.write(b"more\n")
        return real(descriptor, count)

    (source / "sub" / "large.bin").unlink()
    monkeypatch.setattr("backend.datastore.library.sources.os.read", read)
    with import_refused(root, "was written to while it was imported"):
        import_now(root, source)


@pytest.mark.parametrize(
    "name",
    [
        "nothing here",
        "a.csv",
        "tar.tar.gz",
        "x.npz",
        "x.pt",
        "x.xlsx",
        "x.keras",
        "x.whl",
        "y" * 300,
    ],
)
def test_a_source_that_is_neither_folder_nor_archive_nor_code_is_refused_as_code(
    root: Path, source: Path, name: str
) -> None:
    (source / "tar.tar.gz").write_bytes(b"\x1f\x8b")
    if name.startswith("x."):
        # Files of data, each of them a zip file inside.
        make_zip(source / name, ("x.npy", b"1"))
    with import_refused(root, name):
        import_now(root, source / name, kind=Kind.LOADER)


def test_one_file_of_code_is_a_model_or_a_loader(root: Path, tmp_path: Path) -> None:
    code = tmp_path / "my net.py"
    code.write_text("class UserModel: ...")
    import_now(root, code, kind=Kind.MODEL)
    assert contents(root / "models/digits/v1/src") == {"bks_model.py": b"class UserModel: ..."}
    import_now(root, code, kind=Kind.LOADER)
    assert contents(root / "loaders/digits/v1/src").keys() == {"bks_dataset.py"}
    import_now(root, code)
    assert contents(root / "datasets/digits/v1/files").keys() == {"my net.py"}


def test_an_import_of_code_leaves_out_caches_and_git(root: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    for name in ("bks_model.py", "__pycache__/a.pyc", "sub/__pycache__/b.pyc", ".git/HEAD"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")
    import_now(root, folder, kind=Kind.MODEL)
    assert contents(root / "models/digits/v1/src").keys() == {"bks_model.py"}
    import_now(root, folder)
    assert len(contents(root / "datasets/digits/v1/files")) == 4


@pytest.mark.parametrize("kind", [Kind.MODEL, Kind.LOADER])
def test_f49_code_without_its_file_is_refused(root: Path, source: Path, kind: Kind) -> None:
    with import_refused(root, f"has no {kind.entry_file}"):
        import_now(root, source, kind=kind)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=80)
@given(
    st.text(st.characters(codec="utf-8"), max_size=40)
    | st.sampled_from(["..", "-x", "CON", "$(touch x)", "a;b", "it's", '"', "a b", "x" * 255, "🦔"])
)
def test_f54_every_name_is_refused_in_words_or_works(tmp_path: Path, name: str) -> None:
    root, source = tmp_path / "root", tmp_path / "empty"
    root.mkdir(exist_ok=True)
    source.mkdir(exist_ok=True)
    if name_error(name):
        with import_refused(root):
            import_now(root, source, name)
    else:
        item = import_now(root, source, name)
        folder = library_files.VersionFolder(mounted(root), Kind.DATASET, name, item.version)
        assert library_files.read_item(folder) == item
        assert name in library_files.names(mounted(root), Kind.DATASET)
    assert set(os.listdir(tmp_path)) == {"root", "empty"}


# Interrupted.


def test_progress_counts_the_copied_bytes(root: Path, source: Path) -> None:
    reports: list[tuple[float, float, str]] = []

    class Notes(Progress):
        def report(self, done: float, total: float, label: str) -> None:
            reports.append((done, total, label))

    item, _ = import_version(mounted(root), Kind.DATASET, source, "digits", Notes())
    copying = [done for done, total, label in reports if label == "Copying files"]
    assert copying == sorted(copying)
    assert copying[-1] == item.bytes


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EROFS])
def test_f28_a_disk_that_fails_meanwhile_leaves_nothing(
    root: Path, source: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def write(descriptor: int, chunk: bytes) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("backend.datastore.library.sources.os.write", write)
    with import_refused(root, "full" if number == errno.ENOSPC else "cannot be written to"):
        import_now(root, source)


@pytest.mark.parametrize(
    ("number", "message", "remedy"),
    [
        (errno.ENAMETOOLONG, "“sub/run.sh” cannot be written to the data root", "shorten"),
        (errno.EINVAL, "“sub/run.sh” cannot be written to the data root", "Rename"),
        (errno.EEXIST, "“sub/run.sh” cannot be written to the data root", "Rename"),
        (errno.EACCES, "“sub/run.sh” cannot be written to the data root", "writable"),
        (errno.ENOSPC, "full at “sub/run.sh”", "Free some space"),
    ],
)
def test_a_file_that_the_data_root_cannot_hold_is_named(
    root: Path,
    source: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    message: str,
    remedy: str,
) -> None:
    real = os.open

    def open_(path: str, *arguments: int) -> int:
        if str(path).startswith(str(root)) and str(path).endswith("run.sh"):
            raise OSError(number, os.strerror(number))
        return real(path, *arguments)

    monkeypatch.setattr("backend.datastore.library.imports.os.open", open_)
    with pytest.raises(BackendError) as caught:
        import_now(root, source)
    assert message in str(caught.value)
    assert remedy in caught.value.remedy


def test_a_file_that_cannot_be_read_meanwhile_is_no_fault_of_the_data_root(
    root: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(descriptor: int, count: int) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr("backend.datastore.library.sources.os.read", read)
    with import_refused(root, "cannot be read: Input/output error"):
        import_now(root, source)


def test_a_too_long_path_is_named(root: Path, tmp_path: Path) -> None:
    deep = make_zip(
        tmp_path / "deep.zip", ("d" * 60 + f"/{'d' * 60}" * 79 + "/x", b"1"), ("a", b"")
    )
    with import_refused(
        root, "“dddddd", "cannot be written to the data root", "File name too long"
    ):
        import_now(root, deep)


IMPORTER = """
import itertools, os, signal, sys
from pathlib import Path
from tests.backend.datastore.library.import_rig import import_now
operations = itertools.count(1)
def die_at_the_last(event, arguments):
    if event.startswith(("open", "os.")) and next(operations) == int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(die_at_the_last)
while True:
    import_now(Path(sys.argv[1]), Path(sys.argv[2]))
"""


def test_f43_a_killed_import_is_never_listed_and_swept_by_the_next(
    root: Path, tmp_path: Path
) -> None:
    source = tmp_path / "many"
    source.mkdir()
    files = 80
    for number in range(files):
        (source / f"{number}.bin").write_bytes(os.urandom(1000))
    dice = random.Random(43)
    partial_count = 0
    for _ in range(12):
        # Each file is opened twice, and removed once by the sweep: anywhere in two imports.
        last = dice.randint(1, 5 * files)
        command = [sys.executable, "-c", IMPORTER, str(root), str(source), str(last)]
        importer = subprocess.run(command, capture_output=True, text=True, check=False)
        assert importer.returncode == -signal.SIGKILL, importer.stderr
        partial_count += any(name.startswith(".") for name in _names(root / "datasets"))
        for folder in library_files.all_versions(mounted(root), Kind.DATASET):
            item = library_files.read_item(folder)
            assert len(contents(folder.content)) == item.files == files
            assert (
                manifest(read_manifest((folder.path / MANIFEST).read_bytes()))
                == folder.manifest.read_bytes()
            )
    assert partial_count > 0, "no import was killed half way"
    import_now(root, source)
    assert [name for name in os.listdir(root / "datasets") if name.startswith(".")] == []


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []


def test_f43_a_running_import_is_not_swept(root: Path, source: Path) -> None:
    staging = make_staging(root / "datasets", "digits")
    import_now(root, source)
    assert staging.is_dir()
    (staging_entry,) = stagings(root / "datasets")
    assert (staging_entry.name, staging_entry.is_left_over) == ("digits", False)


def test_f43_an_import_of_another_computer_is_left_over_only_after_a_week(root: Path) -> None:
    folder = root / "datasets"
    other_staging = folder / ".digits.importing-gpu3-00ff00ff00ff-77-123-0a0b0c0d"
    (other_staging / "files").mkdir(parents=True)
    assert [entry.is_left_over for entry in stagings(folder)] == [False]
    week_ago = (folder.stat().st_mtime - 8 * 86_400,) * 2
    os.utime(other_staging / "files", week_ago)
    os.utime(other_staging, week_ago)
    assert [entry.is_left_over for entry in stagings(folder)] == [True]


def test_f43_an_import_from_before_a_reboot_is_left_over(root: Path) -> None:
    staging = make_staging(root / "datasets", "digits")
    host, _, suffix = staging.name.partition(".importing-")[2].partition("-")
    earlier_staging = staging.with_name(
        f".digits.importing-{host}-00ff00ff00ff-{suffix.partition('-')[2]}"
    )
    shutil.move(staging, earlier_staging)
    assert [entry.is_left_over for entry in stagings(root / "datasets")] == [True]


def test_a_name_with_the_words_of_a_staging_folder_is_its_own(root: Path) -> None:
    make_staging(root / "datasets", "a.importing-b-0-1-2-0a0b0c0d")
    assert [entry.name for entry in stagings(root / "datasets")] == ["a.importing-b-0-1-2-0a0b0c0d"]


def test_a_read_only_data_root_is_a_sentence(
    root: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mkdir(*arguments: object, **options: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(imports, "make_staging", mkdir)
    with pytest.raises(BackendError, match=r"cannot be written to: Read-only"):
        import_now(root, source)
