"""Tar archives and single files as datasets: the files of the folder, or a refusal by name."""

from __future__ import annotations

import io
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backend.base.errors import BackendError
from backend.records.library.item import Kind
from tests.backend.datastore.library.import_rig import contents, import_now, import_refused

COMPRESSIONS = {"tar": "", "tar.gz": "gz", "tgz": "gz", "tar.bz2": "bz2", "TAR.XZ": "xz"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


def pack(path: Path, *members: tuple[tarfile.TarInfo, bytes], mode: str = "") -> Path:
    with tarfile.open(path, f"w:{mode}") as archive:
        for member, content in members:
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, **fields: object) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type = kind
    for key, value in fields.items():
        setattr(info, key, value)
    return info


@pytest.mark.parametrize("suffix", COMPRESSIONS)
def test_a_tar_archive_is_the_folder_that_was_packed(
    tmp_path: Path, root: Path, suffix: str
) -> None:
    files = {f"b/{n}.txt": b"%d" % n * n for n in range(30)} | {"a.csv": b"1,2\n"}
    members = [(member(f"./top/{name}"), content) for name, content in files.items()]
    top = (member("./top", tarfile.DIRTYPE), b"")
    path = pack(tmp_path / f"data.{suffix}", top, *members, mode=COMPRESSIONS[suffix])
    item = import_now(root, path)
    assert contents(root / "datasets/digits/v1/files") == files
    folder = tmp_path / "top"
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    assert import_now(root, folder, "same").sha256 == item.sha256


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (member("/etc/x"), "absolute path"),
        (member("../x"), "“..”"),
        (member("a/../../x"), "“..”"),
        (member("x", tarfile.SYMTYPE, linkname="/etc/passwd"), "is a link"),
        (member("x", tarfile.LNKTYPE, linkname="../../etc/passwd"), "is a link"),
        (member("x", tarfile.CHRTYPE), "a device, a pipe or a socket"),
        (member("x", tarfile.FIFOTYPE), "a device, a pipe or a socket"),
        (member("a\nb"), "line break"),
        (member("a/CON"), "Windows reserves"),
        (member("a.csv"), "is in it twice"),
        (member("x\udcff.csv"), "not UTF-8"),
    ],
)
def test_a_member_that_cannot_be_stored_is_named(
    tmp_path: Path, root: Path, entry: tarfile.TarInfo, reason: str
) -> None:
    path = pack(tmp_path / "data.tar.gz", (member("a.csv"), b"1"), (entry, b""), mode="gz")
    with import_refused(root, "data.tar.gz cannot be imported", reason):
        import_now(root, path)


@given(st.data())
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_a_damaged_archive_is_refused_or_read_whole(
    tmp_path: Path, root: Path, data: st.DataObject
) -> None:
    mode = data.draw(st.sampled_from(["", "gz", "bz2", "xz"]))
    files = {f"{n}.bin": bytes(range(256)) * 9 for n in range(4)}
    path = tmp_path / "data.tar"
    pack(path, *((member(name), content) for name, content in files.items()), mode=mode)
    full_content = path.read_bytes()
    path.write_bytes(full_content[: data.draw(st.integers(0, len(full_content) - 1))])
    try:
        item = import_now(root, path)
    except BackendError:
        return
    assert contents(root / f"datasets/digits/v{item.version}/files") == files


def test_an_archive_that_fills_a_disk_is_refused(tmp_path: Path, root: Path) -> None:
    path = tmp_path / "data.tar"
    huge = member("huge.bin", tarfile.GNUTYPE_SPARSE)
    huge.type, huge.size = tarfile.REGTYPE, 10**13
    path.write_bytes(huge.tobuf() + bytes(1024))
    with import_refused(root, "data.tar"):
        import_now(root, path)


@pytest.mark.parametrize("name", ["a.7z", "b.rar", "c.tar.zst", "D.RAR"])
def test_what_python_cannot_unpack_is_refused_with_the_way_out(
    tmp_path: Path, root: Path, name: str
) -> None:
    (tmp_path / name).write_bytes(b"7z\xbc\xaf\x27\x1c")
    with import_refused(root, f"{name} is an archive that cannot be unpacked here"):
        import_now(root, tmp_path / name)


@pytest.mark.parametrize(
    "name", ["wein.csv", "x.npz", "x.parquet", "table.csv.gz", "x.h5", "README", "ä ö.txt"]
)
def test_a_single_file_is_a_dataset(tmp_path: Path, root: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"a,b\n1,2\n")
    item = import_now(root, tmp_path / name)
    assert contents(root / "datasets/digits/v1/files") == {name: b"a,b\n1,2\n"}
    assert (item.files, item.import_message) == (1, "")


def test_a_single_file_of_data_is_no_code(tmp_path: Path, root: Path) -> None:
    (tmp_path / "a.csv").write_text("1")
    with import_refused(root, "neither a folder nor an archive nor Python code"):
        import_now(root, tmp_path / "a.csv", kind=Kind.LOADER)


def test_archives_inside_an_archive_are_counted(tmp_path: Path, root: Path) -> None:
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as outer:
        for name in ("train.zip", "val.ZIP", "b/x.rar", "c.tar.gz", "x.npz", "notes.txt"):
            outer.writestr(name, b"PK")
    item = import_now(root, tmp_path / "all.zip")
    assert item.import_message == (
        "Not unpacked, and so read by few loaders: "
        "4 files (train.zip, val.ZIP, b/x.rar and 1 more)."
    )


def test_permission_to_execute_stays(tmp_path: Path, root: Path) -> None:
    path = pack(tmp_path / "d.tar", (member("run.sh", mode=0o755), b""), (member("a"), b""))
    import_now(root, path)
    folder = root / "datasets/digits/v1/files"
    assert stat.S_IMODE((folder / "run.sh").stat().st_mode) == 0o555
    assert stat.S_IMODE((folder / "a").stat().st_mode) == 0o444
