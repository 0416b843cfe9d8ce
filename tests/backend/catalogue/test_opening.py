"""Opening a catalogue: made whole, brought up to date, or refused with a way out."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Connection

from backend.catalogue.store import FORMAT, CatalogueError, open_catalogue, set_aside
from backend.catalogue.tables import METADATA
from backend.node.system.mounts import network_mount
from backend.records.library.item import Kind
from tests.backend.catalogue.catalogue_rig import item, job

OLD = Path(__file__).parents[2] / "data" / "catalogues"


def refusal(path: Path, **options: Path) -> CatalogueError:
    """Why ``path`` cannot be opened; that it was left as it is, is checked on the way."""
    previous_content = path.read_bytes() if path.is_file() else None
    with pytest.raises(CatalogueError) as caught:
        open_catalogue(path, **options)
    assert (path.read_bytes() if path.is_file() else None) == previous_content
    assert str(path) in caught.value.message
    assert caught.value.message.endswith(".")
    assert caught.value.remedy
    return caught.value


def test_f61_only_its_owner_can_read_a_catalogue(tmp_path: Path) -> None:
    previous_umask = os.umask(0)
    try:
        catalogue = open_catalogue(tmp_path / "a" / "b" / "c.sqlite")
        catalogue.put_job(job())
        folder = tmp_path / "a" / "b"
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}
        assert modes == dict.fromkeys(("c.sqlite", "c.sqlite-wal", "c.sqlite-shm"), 0o600)
        catalogue.close()
    finally:
        os.umask(previous_umask)


def test_f61_an_open_file_mode_is_fixed(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    open_catalogue(path).close()
    path.chmod(0o644)
    open_catalogue(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_f37_an_empty_file_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    path.touch()
    error = refusal(path)
    assert "0 bytes" in error.message
    assert error.is_damaged


@pytest.mark.parametrize("content", [b"garbage", b"SQLite format 3\0" + b"garbage" * 1000])
def test_f38_garbage_is_refused_and_kept(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "c.sqlite"
    path.write_bytes(content)
    assert refusal(path).is_damaged


def test_f38_a_catalogue_with_a_hole_in_it_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    catalogue = open_catalogue(path)
    catalogue.put_jobs(job(number) for number in range(500))
    catalogue.close()
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(path.stat().st_size - 4096))
    with pytest.raises(CatalogueError) as caught:
        open_catalogue(path).jobs()
    assert caught.value.is_damaged


def test_f38_a_database_of_another_program_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "places.sqlite"
    with closing(sqlite3.connect(path)) as other_connection:
        other_connection.execute("CREATE TABLE bookmarks (url TEXT)")
    error = refusal(path)
    assert "another program" in error.message
    assert not error.is_damaged


def test_f38_a_database_of_another_program_with_a_format_of_its_own_is_refused(
    tmp_path: Path,
) -> None:
    path = tmp_path / "places.sqlite"
    with closing(sqlite3.connect(path)) as other_connection:
        other_connection.execute("CREATE TABLE job (url TEXT)")
        other_connection.execute("PRAGMA user_version = 78")
    assert "another program" in refusal(path).message


def test_f39_a_catalogue_of_a_newer_ringmaster_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    open_catalogue(path).close()
    with closing(sqlite3.connect(path)) as newer, newer:
        newer.execute("PRAGMA user_version = 999")
    error = refusal(path)
    assert "newer Ringmaster" in error.message
    assert "rescan --catalogue" in error.remedy


def test_f40_a_catalogue_that_another_program_has_locked_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "c.sqlite"
    open_catalogue(path).close()
    monkeypatch.setattr("backend.catalogue.store.PATIENCE_S", 0.2)
    other_connection = sqlite3.connect(path, isolation_level=None)
    other_connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    other_connection.execute("BEGIN EXCLUSIVE")
    error = refusal(path)
    other_connection.close()
    assert "locked by another program" in error.message
    open_catalogue(path).close()


MOUNTS = """\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 22 0:40 / {share} rw,relatime shared:5 - {kind} server:/export rw,vers=4.2
31 30 254:1 / {share}/local\\040disk rw - ext4 /dev/vdb rw
"""


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "fuse.sshfs", "fuse.rclone"])
def test_f41_m22_a_catalogue_on_a_network_share_is_refused(tmp_path: Path, kind: str) -> None:
    share = tmp_path / "share"
    (share / "local disk").mkdir(parents=True)
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS.format(share=share, kind=kind))
    error = refusal(share / "deeper" / "c.sqlite", mounts=mounts)
    assert f"network share ({kind})" in error.message
    assert not (share / "deeper").exists()
    (tmp_path / "link").symlink_to(share)
    refusal(tmp_path / "link" / "c.sqlite", mounts=mounts)
    open_catalogue(share / "local disk" / "c.sqlite", mounts).close()
    open_catalogue(tmp_path / "c.sqlite", mounts).close()


def test_f41_the_later_of_two_mounts_on_one_path_counts(tmp_path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        f"1 0 0:1 / {tmp_path} rw - nfs4 a:/b rw\n2 1 0:2 / {tmp_path} rw - ext4 /dev/x rw\n"
        "not a line\n"
    )
    assert network_mount(tmp_path / "c", mounts) == ("", "")
    assert network_mount(tmp_path / "c", tmp_path / "no such file") == ("", "")


def test_this_computers_own_disk_is_no_share(tmp_path: Path) -> None:
    assert network_mount(tmp_path / "c.sqlite") == ("", "")


def test_a_place_that_cannot_be_written_to_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "cannot be opened" in refusal(tmp_path / "file" / "c.sqlite").message
    assert "is a folder" in refusal(tmp_path).message


def test_f42_a_deleted_catalogue_is_created_again(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    first = open_catalogue(path)
    assert first.is_new
    first.put_job(job())
    first.close()
    second_catalogue = open_catalogue(path)
    assert not second_catalogue.is_new
    second_catalogue.close()
    path.unlink()
    new_catalogue = open_catalogue(path)
    assert new_catalogue.is_new
    assert new_catalogue.jobs() == ()
    new_catalogue.close()


def test_a_catalogue_set_aside_keeps_every_byte(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    path.write_bytes(b"garbage")
    moved_path = set_aside(path)
    assert moved_path.read_bytes() == b"garbage"
    assert moved_path.parent == tmp_path
    open_catalogue(path).close()
    assert moved_path.read_bytes() == b"garbage"


def test_many_processes_may_open_a_new_catalogue_at_once(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    script = (
        "import sys; from pathlib import Path\n"
        "from backend.catalogue.store import open_catalogue\n"
        "from tests.backend.catalogue.catalogue_rig import job\n"
        "sys.stdin.read(1)\n"
        "open_catalogue(Path(sys.argv[1])).put_job(job(int(sys.argv[2])))\n"
    )
    starters = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", script, str(path), str(number)],
            stdin=subprocess.PIPE,
        )
        for number in range(4)
    ]
    for starter in starters:
        starter.communicate(b"x")
        assert starter.returncode == 0
    catalogue = open_catalogue(path)
    assert len(catalogue.job_ids()) == 4
    catalogue.close()
    assert sorted(os.listdir(tmp_path)) == ["c.sqlite"]


def test_threads_that_make_catalogues_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    barrier = threading.Barrier(8)

    def make(number: int) -> int:
        barrier.wait()
        with closing(open_catalogue(tmp_path / f"{number}.sqlite")) as catalogue:
            catalogue.put_job(job(number))
            return len(catalogue.job_ids())

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(make, range(8))) == [1] * 8


def test_a_catalogue_that_another_window_made_meanwhile_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "c.sqlite"
    create_tables = METADATA.create_all

    def create_slowly(connection: Connection) -> None:
        monkeypatch.setattr(METADATA, "create_all", create_tables)
        with closing(open_catalogue(path)) as other_catalogue:
            other_catalogue.put_job(job())
        create_tables(connection)

    monkeypatch.setattr(METADATA, "create_all", create_slowly)
    with closing(open_catalogue(path)) as catalogue:
        assert catalogue.jobs() == (job(),)
    assert os.listdir(tmp_path) == ["c.sqlite"]


PRESENT = OLD / f"v{FORMAT}.sqlite"
EARLIER = sorted(path for path in OLD.glob("v*.sqlite") if path != PRESENT)


def test_a_catalogue_of_the_present_format_opens_as_it_is(tmp_path: Path) -> None:
    shutil.copy(PRESENT, tmp_path / "c.sqlite")
    with closing(open_catalogue(tmp_path / "c.sqlite")) as catalogue:
        assert not catalogue.is_new
        assert catalogue.items(Kind.DATASET) == (item(version=2), item())
        assert catalogue.jobs() == (job(2), job(1))
    assert os.listdir(tmp_path) == ["c.sqlite"]


@pytest.mark.parametrize("old", EARLIER, ids=lambda path: path.stem)
def test_a_catalogue_of_every_earlier_ringmaster_is_rebuilt_with_the_hashes_it_knows(
    tmp_path: Path, old: Path
) -> None:
    path = tmp_path / "c.sqlite"
    shutil.copy(old, path)
    with closing(open_catalogue(path)) as catalogue:
        assert catalogue.is_new, "a rescan fills in the jobs"
        assert catalogue.items(Kind.DATASET) == (item(version=2), item())
        assert catalogue.jobs() == ()
        catalogue.put_jobs((job(1), job(2)))
        assert catalogue.jobs("GRÖSSE -000002") == (job(2),)
    with closing(open_catalogue(path)) as catalogue:
        assert not catalogue.is_new
        assert len(catalogue.job_ids()) == 2
    with closing(sqlite3.connect(path)) as rebuilt, closing(sqlite3.connect(PRESENT)) as present:
        schema = "SELECT sql FROM sqlite_master ORDER BY name"
        assert rebuilt.execute(schema).fetchall() == present.execute(schema).fetchall()


def test_what_an_earlier_ringmaster_verified_is_not_hashed_again(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    shutil.copy(OLD / "v4.sqlite", path)
    with closing(sqlite3.connect(path)) as old_connection, old_connection:
        old_connection.execute("UPDATE library_item SET trusted = 'fingerprint'")
    with closing(open_catalogue(path)) as catalogue:
        assert catalogue.trusted_fingerprint(Kind.DATASET, item().name, 1) == "fingerprint"


def test_a_rebuild_that_fails_leaves_the_catalogue_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "c.sqlite"
    shutil.copy(OLD / "v1.sqlite", path)
    with closing(sqlite3.connect(path)) as old_connection:
        dump = list(old_connection.iterdump())
    create_tables = METADATA.create_all

    def create_then_fail(connection: Connection) -> None:
        create_tables(connection)
        raise MemoryError

    monkeypatch.setattr(METADATA, "create_all", create_then_fail)
    with pytest.raises(MemoryError):
        open_catalogue(path)
    with closing(sqlite3.connect(path)) as new_connection:
        assert list(new_connection.iterdump()) == dump
