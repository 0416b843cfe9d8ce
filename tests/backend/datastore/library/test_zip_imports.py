"""F47: zip files at their worst. Each is refused by name before anything is written."""

from __future__ import annotations

import os
import stat
import struct
import warnings
import zipfile
import zlib
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backend.base.errors import BackendError
from backend.base.progress import Progress
from backend.base.room import DiskSpace
from backend.datastore.library import imports, zip_source
from backend.records.library.item import Kind
from tests.backend.datastore.library.import_rig import (
    contents,
    entry,
    import_now,
    import_refused,
    make_zip,
    read_tree,
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "upload.zip"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("/etc/cron.d/x", "absolute path"),
        ("../x", "“..”"),
        ("a/../../x", "“..”"),
        ("./../x", "“..”"),
        (".//C:/x", "drive letter"),
        ("C:/x", "drive letter"),
        ("c:x", "drive letter"),
        ("..\\..\\x", "“..”"),
        ("a/b\\c.csv", "backslashes"),
        ("CON", "Windows reserves"),
        ("a/nul.txt", "Windows reserves"),
        ("a\nb", "line break"),
        ("a\x1b[31mb", "control character"),
        ("x" * 256, "255 bytes"),
    ],
)
def test_f47_a_name_that_leads_astray_is_refused(
    root: Path, path: Path, name: str, message: str
) -> None:
    make_zip(path, ("good.csv", b"1"), (name, b"2"))
    with import_refused(root, "upload.zip", message):
        import_now(root, path)


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        (stat.S_IFLNK | 0o777, "is a link"),
        (stat.S_IFCHR | 0o600, "is a device"),
        (stat.S_IFBLK | 0o600, "is a device"),
        (stat.S_IFIFO | 0o600, "is a device"),
        (stat.S_IFSOCK | 0o600, "is a device"),
    ],
)
def test_f47_an_irregular_file_is_refused(root: Path, path: Path, mode: int, message: str) -> None:
    make_zip(path, ("good.csv", b"1"), (entry("odd", mode), b"/etc/passwd"))
    with import_refused(root, "“odd”", message):
        import_now(root, path)


def test_f47_a_bomb_is_refused_without_unpacking_it(root: Path, path: Path) -> None:
    bomb = entry("bomb", method=zipfile.ZIP_DEFLATED)
    make_zip(path, ("good.csv", b"1"), (bomb, bytes(1 << 22)))
    raw = bytearray(path.read_bytes())
    listing = raw.index(b"PK\1\2", raw.index(b"PK\1\2") + 1)
    # A listing can say anything; whether it is true must not be tried out.
    raw[listing + 24 : listing + 28] = struct.pack("<I", 0xFFFFFFFE)
    path.write_bytes(raw)
    with import_refused(root, "to 4.3 GB", "“bomb”"):
        import_now(root, path)


def test_f47_entries_that_share_their_bytes_are_refused(root: Path, path: Path) -> None:
    content = b"x" * 1000
    make_zip(path, ("a", content), ("b", content))
    raw = bytearray(path.read_bytes())
    second = raw.index(b"PK\1\2", raw.index(b"PK\1\2") + 1)
    raw[second + 42 : second + 46] = struct.pack("<I", 10)
    path.write_bytes(raw)
    with import_refused(root, "overlaps"):
        import_now(root, path)


def test_f47_an_entry_cannot_give_more_than_it_said(root: Path, path: Path) -> None:
    make_zip(path, (entry("a", method=zipfile.ZIP_DEFLATED), bytes(100_000)))
    raw = bytearray(path.read_bytes())
    listing = raw.index(b"PK\1\2")
    raw[listing + 24 : listing + 28] = struct.pack("<I", 10)
    path.write_bytes(raw)
    with import_refused(root, "“a”"):
        import_now(root, path)


def test_f47_a_million_entries_are_refused_at_once(root: Path, path: Path) -> None:
    count = zip_source.MAX_ENTRIES + 1
    listing = b"".join(
        struct.pack(
            "<4s4B4HL2L5H2L", b"PK\1\2", 20, 3, 20, 0, 0, 0, 0, 33, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0
        )
        + b"%07d" % number
        for number in range(count)
    )
    end64 = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, count, count, len(listing), 0)
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, len(listing), 1)
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    path.write_bytes(listing + end64 + locator + end)
    with import_refused(root, f"{count} entries"):
        import_now(root, path)


def test_f47_an_encrypted_entry_is_refused(root: Path, path: Path) -> None:
    make_zip(path, ("good.csv", b"1"), ("secret.csv", b"2"))
    raw = bytearray(path.read_bytes())
    listing = raw.index(b"PK\1\2", raw.index(b"PK\1\2") + 1)
    raw[listing + 8] |= 1
    path.write_bytes(raw)
    with import_refused(root, "“secret.csv” is encrypted"):
        import_now(root, path)


def test_f47_a_duplicate_name_is_refused(root: Path, path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        make_zip(path, ("a.csv", b"1"), ("b.csv", b"2"), ("a.csv", b"3"))
    with import_refused(root, "“a.csv” is in it twice"):
        import_now(root, path)


def test_f47_a_name_of_both_a_file_and_a_folder_is_refused(root: Path, path: Path) -> None:
    make_zip(path, ("a", b"1"), ("a/b", b"2"))
    with import_refused(root, "“a” is a file and a folder"):
        import_now(root, path)


@pytest.mark.parametrize("has_flag", [True, False])
def test_f47_a_name_that_is_not_utf8_is_refused(root: Path, path: Path, has_flag: bool) -> None:
    make_zip(path, ("caf_.csv", b"1"))
    raw = path.read_bytes().replace(b"caf_", b"caf\xe9")
    listing = raw.index(b"PK\1\2")
    changed = bytearray(raw)
    if has_flag:
        for offset in (6, listing + 8):
            changed[offset : offset + 2] = struct.pack("<H", 0x800)
    path.write_bytes(changed)
    with import_refused(root, "not UTF-8"):
        import_now(root, path)


def test_a_utf8_name_without_its_flag_is_read_as_it_was_meant(root: Path, path: Path) -> None:
    make_zip(path, ("caf__.csv", b"1"), ("b", b"2"))
    path.write_bytes(path.read_bytes().replace(b"caf__", "café".encode()))
    import_now(root, path)
    assert "café.csv" in contents(root / "datasets/digits/v1/files")


def test_f47_a_zip_cut_off_anywhere_is_refused(root: Path, path: Path) -> None:
    make_zip(path, ("a.csv", os.urandom(3000)), ("b.csv", os.urandom(3000)))
    content = path.read_bytes()
    for length in (0, 10, 1000, 4000, len(content) - 200, len(content) - 1):
        path.write_bytes(content[:length])
        with import_refused(root, "not a complete zip file"):
            import_now(root, path)


def test_f47_a_damaged_entry_is_found_while_it_is_unpacked(root: Path, path: Path) -> None:
    make_zip(path, ("a.csv", b"x" * 3000), ("b.csv", b"y" * 3000))
    path.write_bytes(path.read_bytes().replace(b"y" * 3000, b"y" * 2999 + b"z"))
    with import_refused(root, "“b.csv” is cut off or damaged"):
        import_now(root, path)


def test_f47_a_packing_that_python_does_not_know_is_named(root: Path, path: Path) -> None:
    make_zip(path, ("a.csv", b"1"))
    raw = bytearray(path.read_bytes())
    raw[raw.index(b"PK\1\2") + 10] = 93
    path.write_bytes(raw)
    with import_refused(root, "“a.csv”", "method 93"):
        import_now(root, path)


def test_f47_a_zip_larger_than_the_disk_is_refused_first(
    root: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_zip(path, ("a.csv", b"1" * 1000))
    monkeypatch.setattr(imports, "disk_space", lambda path: DiskSpace(10**9, 1000, None))
    with import_refused(root, "GB left"):
        import_now(root, path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(st.data())
def test_f47_a_zip_with_any_bytes_changed_is_refused_or_imported_whole(
    tmp_path: Path, data: st.DataObject
) -> None:
    root = tmp_path / "root"
    root.mkdir(exist_ok=True)
    path = tmp_path / "fuzz.zip"
    deflated = entry("sub/b", method=zipfile.ZIP_DEFLATED)
    make_zip(path, ("sub/a", b"a" * 40), (deflated, b"b" * 400), ("c", b""))
    raw = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        offset = data.draw(st.integers(0, len(raw) - 1))
        raw[offset] = data.draw(st.integers(0, 255))
    path.write_bytes(raw)
    previous_tree = read_tree(root)
    try:
        item = import_now(root, path)
    except BackendError:
        assert read_tree(root) == previous_tree
    else:
        file_contents = contents(root / f"datasets/digits/v{item.version}/files")
        assert (len(file_contents), sum(map(len, file_contents.values()))) == (
            item.files,
            item.bytes,
        )
        assert set(file_contents.values()) <= {b"a" * 40, b"b" * 400, b""}
    # Nothing is ever written outside of the data root.
    assert set(os.listdir(tmp_path)) == {"root", "fuzz.zip"}


def test_f47_a_windows_path_that_leads_out_is_refused(root: Path, path: Path) -> None:
    info = entry("..\\..\\x")
    info.create_system = 0
    make_zip(path, (info, b"1"))
    with import_refused(root, "“../../x” leads out"):
        import_now(root, path)


@pytest.mark.parametrize(
    ("field", "crc_of", "message"),
    [
        ("../../evil.csv", b"caf\xe9.csv", "“../../evil.csv” leads out"),
        ("CON.csv", b"caf\xe9.csv", "Windows reserves"),
        ("right.csv", b"another name", "not UTF-8"),
    ],
)
def test_f47_a_unicode_path_field_is_judged_like_any_name_and_belongs_to_its_entry(
    root: Path, path: Path, field: str, crc_of: bytes, message: str
) -> None:
    zip_with_unicode_path(path, b"caf\xe9.csv", field.encode(), zlib.crc32(crc_of))
    with import_refused(root, message):
        import_now(root, path)


# What a zip may be.


def zip_with_unicode_path(path: Path, header: bytes, name: bytes, crc: int) -> None:
    """Write a zip whose one entry has Info-ZIP's field 0x7075 beside its name in a code page."""
    info = entry("_" * len(header))
    info.extra = struct.pack("<HHBI", 0x7075, 5 + len(name), 1, crc) + name
    make_zip(path, (info, b"1"))
    path.write_bytes(path.read_bytes().replace(info.filename.encode(), header))


@pytest.mark.parametrize("page", ["cp437", "cp932"])
def test_the_unicode_path_field_gives_the_name(root: Path, path: Path, page: str) -> None:
    name = {"cp437": "Größe/Übersicht.csv", "cp932": "画像/一覧.csv"}[page]
    header = name.encode(page)
    zip_with_unicode_path(path, header, name.encode(), zlib.crc32(header))
    import_now(root, path)
    # It stands in one folder, whose name is dropped.
    assert contents(root / "datasets/digits/v1/files") == {name.partition("/")[2]: b"1"}


def test_parts_of_a_path_that_name_nothing_are_dropped(root: Path, path: Path) -> None:
    names = ("./", "./a.csv", "sub//b.csv", "sub/./c.csv", "sub/.", "./d/")
    make_zip(path, *((name, b"") for name in names))
    import_now(root, path)
    files = root / "datasets/digits/v1/files"
    assert contents(files).keys() == {"a.csv", "sub/b.csv", "sub/c.csv"}
    assert (files / "d").is_dir()


def test_names_that_become_equal_are_duplicates(root: Path, path: Path) -> None:
    make_zip(path, ("a.csv", b"1"), ("./a.csv", b"2"))
    with import_refused(root, "“a.csv” is in it twice"):
        import_now(root, path)


def test_a_zip_made_on_windows_may_have_backslashes_between_its_parts(
    root: Path, path: Path
) -> None:
    entries = [entry(name) for name in ("digits\\", "digits\\a.csv", "digits\\sub\\b.csv")]
    for info in entries:
        info.create_system = 0
    make_zip(path, *((info, b"") for info in entries))
    import_now(root, path)
    assert contents(root / "datasets/digits/v1/files").keys() == {"a.csv", "sub/b.csv"}


def test_a_folder_may_be_known_by_its_mode_alone(root: Path, path: Path) -> None:
    make_zip(path, (entry("sub", stat.S_IFDIR | 0o755), b""), ("sub/a", b"1"), ("b", b"2"))
    import_now(root, path)
    assert contents(root / "datasets/digits/v1/files") == {"sub/a": b"1", "b": b"2"}


def test_the_ending_of_a_zip_may_be_in_capitals(root: Path, path: Path) -> None:
    make_zip(path.with_suffix(".ZIP"), ("a", b"1"))
    assert import_now(root, path.with_suffix(".ZIP")).files == 1


@pytest.mark.parametrize("top", ["", "digits/", "digits 2/"])
def test_the_files_may_stand_at_the_top_or_inside_one_folder(
    root: Path, path: Path, top: str
) -> None:
    make_zip(path, (f"{top}a.csv", b"1"), (f"{top}sub/b.csv", b"2"))
    item = import_now(root, path)
    assert contents(root / "datasets/digits/v1/files") == {"a.csv": b"1", "sub/b.csv": b"2"}
    assert (item.files, item.bytes) == (2, 2)


def test_a_model_may_stand_in_folders_in_folders(root: Path, path: Path) -> None:
    make_zip(path, ("home/me/mlp/bks_model.py", b"class UserModel"), ("home/me/mlp/a/b.py", b""))
    import_now(root, path, kind=Kind.MODEL)
    assert contents(root / "models/digits/v1/src").keys() == {"bks_model.py", "a/b.py"}


def test_a_model_without_its_file_is_refused(root: Path, path: Path) -> None:
    make_zip(path, ("model.py", b"class UserModel"))
    with import_refused(root, "upload.zip has no bks_model.py"):
        import_now(root, path, kind=Kind.MODEL)


def test_files_of_finder_are_left_out(root: Path, path: Path) -> None:
    make_zip(path, ("digits/a", b"1"), ("__MACOSX/digits/._a", b"x"), ("digits/.DS_Store", b"x"))
    import_now(root, path)
    assert contents(root / "datasets/digits/v1/files") == {"a": b"1"}


LITTER = (
    "._a.csv",
    ".DS_Store",
    "Thumbs.db",
    "sub/desktop.ini",
    "sub/Desktop.ini",
    "sub/@eaDir/SYNO.jpg",
    ".Spotlight-V100/store",
    ".Trashes/x",
    "sub/~$table.xlsx",
    "sub/.nfs000000000001",
    "Icon\r",
)
OF_TOOLS = (
    ".venv/bin/python",
    "venv/pyvenv.cfg",
    "my env/pyvenv.cfg",
    "my env/lib/x.py",
    "wandb/run-1/logs/debug.log",
    "mlruns/0/meta.yaml",
    ".mypy_cache/x.json",
    "sub/__pycache__/x.pyc",
    ".idea/workspace.xml",
    ".vscode/settings.json",
    ".git/HEAD",
)


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("top", ["", "wandb/"])
def test_a_folder_its_zip_and_the_one_of_finder_are_the_same_and_litter_is_left_out_and_said(
    root: Path, path: Path, tmp_path: Path, kind: Kind, top: str
) -> None:
    kept_names = ("bks_model.py", "bks_dataset.py", "a.csv", "sub/env/b.csv", ".gitignore", "x.npz")
    litter = LITTER + (() if kind is Kind.DATASET else OF_TOOLS)
    names = (*kept_names, *litter)
    folder = tmp_path / "folder"
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    make_zip(path, *((top + name, name.encode()) for name in names))
    finder = make_zip(
        tmp_path / "finder.zip",
        *((top + name, name.encode()) for name in kept_names),
        *((f"__MACOSX/{top}._{Path(name).name}", b"x") for name in kept_names),
    )
    imports = [import_now(root, source, kind=kind) for source in (folder, path, finder)]
    files = root / kind.folder / "digits/v1" / kind.content
    assert contents(files).keys() == set(kept_names)
    assert len({item.sha256 for item in imports}) == 1
    first, second, third = (item.details for item in imports)
    assert first == second
    # Both files of one environment are left out with its folder.
    assert first["left_out"] == (11 if kind is Kind.DATASET else 21)
    assert ".DS_Store" in first["left_out_names"]
    assert third["left_out_names"] == ["__MACOSX"]
    assert ".DS_Store" in imports[0].import_message


@pytest.mark.parametrize("name", ["wsj/train/aux.scp", "lang/con/x", "wsj/nul", "a\nb", "COM1.csv"])
def test_a_folder_and_its_zip_are_refused_alike(
    root: Path, path: Path, tmp_path: Path, name: str
) -> None:
    (tmp_path / "folder" / name).parent.mkdir(parents=True)
    (tmp_path / "folder" / name).write_text("x")
    make_zip(path, (name, b"x"), ("b", b"x"))
    message = []
    for source in (tmp_path / "folder", path):
        with pytest.raises(BackendError) as caught:
            import_now(root, source)
        message.append(str(caught.value).removeprefix("upload.zip cannot be imported: "))
        assert "mend" not in caught.value.remedy
    # The folder is named itself where its own name is the fault.
    assert message[0].partition("” has")[2] == message[1].partition("” has")[2]


def test_an_import_of_data_keeps_files_of_other_tools(root: Path, path: Path) -> None:
    names = {".git/HEAD", "venv/a", "x~", "__pycache__/a.pyc", "nfs.csv", "~a", "Thumbs.db.csv"}
    make_zip(path, *((name, b"") for name in names))
    import_now(root, path)
    assert contents(root / "datasets/digits/v1/files").keys() == names


def test_a_zip_and_its_unpacked_folder_have_one_hash(
    root: Path, path: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "ü 🦔.bin").write_bytes(os.urandom(3_000_000))
    (folder / "empty").touch()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("sub/ü 🦔.bin", "empty"):
            archive.write(folder / name, name)
    assert import_now(root, path).sha256 == import_now(root, folder).sha256


def test_an_empty_zip_is_an_empty_dataset(root: Path, path: Path) -> None:
    make_zip(path)
    assert import_now(root, path).files == 0


PART = st.sampled_from(["images", "a", "b", "ü 🦔", "x.y"])
TREE = st.dictionaries(
    st.lists(PART, min_size=1, max_size=4).map(tuple), st.booleans(), max_size=6
).map(lambda tree: {("README",): True, **tree})
STYLES = {
    "Info-ZIP": (3, "/", "mode"),
    "Windows": (0, "\\", "attribute"),
    ".NET": (0, "\\", "separator"),
    "7-Zip": (0, "/", "attribute"),
    "NTFS": (10, "\\", "nothing"),
    "macOS": (19, "/", "separator"),
    "Java": (0, "/", "separator"),
    "Google Drive": (0, "/", "none"),
    "bare names": (3, "/", "nothing"),
    "attribute on Unix": (3, "/", "attribute"),
    "backslashes on Unix": (3, "\\", "separator"),
}


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(tree=TREE, style=st.sampled_from(sorted(STYLES)), random=st.randoms())
def test_a_zip_of_any_program_has_the_same_files_and_folders(
    path: Path, tree: dict[tuple[str, ...], bool], style: str, random: Random
) -> None:
    """``tree`` says of each path whether it is a file; what has others below it is a folder."""
    system, separator, mark = STYLES[style]
    parent_names = {name[:n] for name in tree for n in range(1, len(name))}
    files = {name for name, is_file in tree.items() if is_file and name not in parent_names}
    folders = parent_names | (tree.keys() - files)
    if mark in ("nothing", "none"):
        # Without a mark only what has files below it is known as a folder.
        folders = {name[:n] for name in files for n in range(1, len(name))}
    entries = [(separator.join(name), b"1", 0o100644 << 16 if system == 3 else 0) for name in files]
    for name in folders if mark != "none" else ():
        end = separator if mark in ("separator", "mode") else ""
        attributes = {"mode": 0o40755 << 16 | 0x10, "attribute": 0x10}.get(mark, 0)
        entries.append((separator.join(name) + end, b"", attributes))
    random.shuffle(entries)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content, attributes in entries:
            info = zipfile.ZipInfo("x")
            info.filename, info.create_system, info.external_attr = name, system, attributes
            archive.writestr(info, content)
    zip_scan = zip_source.scan_zip(Kind.DATASET, path, Progress())
    assert {file.path for file in zip_scan.files} == {"/".join(name) for name in files}
    assert set(zip_scan.folders) == {"/".join(name) for name in folders}
    zip_scan.close()


@pytest.mark.parametrize("content", [b"", b"full"])
def test_an_entry_with_others_below_it_is_a_folder_unless_it_has_content(
    root: Path, path: Path, content: bytes
) -> None:
    make_zip(path, (entry("digits"), content), ("digits/a.csv", b"1"), ("b", b"2"))
    if content:
        with import_refused(root, "“digits” is a file and a folder at once"):
            import_now(root, path)
        return
    import_now(root, path)
    assert contents(root / "datasets/digits/v1/files") == {"digits/a.csv": b"1", "b": b"2"}
