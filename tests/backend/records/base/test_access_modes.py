"""Files and folders that the desktop, the ranks and other users of the group make and fill."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
import tensorboardX.record_writer  # noqa: F401 - before the forks, which need it
from tensorboardX.proto import event_pb2, summary_pb2  # noqa: F401

from backend.records.base import access_modes
from backend.records.base.access_modes import make_folder, make_folders, open_for_writing
from backend.records.base.atomic_files import PreallocatedFile, replace_json
from backend.records.base.local_files import Files
from backend.training.curve_files import EventFile, open_history
from tests.users import GROUP, IS_ROOT, MEMBER, OUTSIDER, OWNER, ROOT, User, act_as, give_root

FILE_MODES = {
    0o700: 0o600,
    0o755: 0o644,
    0o770: 0o660,
    0o2770: 0o660,
    0o2775: 0o664,
    0o777: 0o666,
    0o1777: 0o644,
}


def _write_plainly(folder: Path) -> None:
    """Write as the code of a user in a rank."""
    access_modes.set_umask(folder)
    (folder / "plain").mkdir()
    (folder / "plain" / "result.csv").write_text("1,2")


def _write_points(folder: Path) -> None:
    access_modes.set_umask(folder)
    points = EventFile(folder / "tensorboard")
    points.write([(1, {"loss": 1.0})])
    points.close()


def _write_everything() -> None:
    """Write each kind of file of a job in the working folder."""
    folder = Path()
    Files().create(folder / "job.lock", b"{}")
    replace_json(folder / "status.json", {})
    PreallocatedFile(folder / "exit.json").replace_json({})
    PreallocatedFile(folder / "exit.json").reserve()
    os.close(open_for_writing(folder / "rank-0.log"))
    open_history(folder / "output" / "history.toml")[0].close()
    make_folders(folder / "attempts" / "1")
    _write_points(folder)
    _write_plainly(folder)


@pytest.mark.parametrize("root_mode", FILE_MODES)
@pytest.mark.parametrize(
    ("user", "umask"),
    [
        *((MEMBER, umask) for umask in (0o000, 0o002, 0o022, 0o027, 0o077)),
        *((user, umask) for user in (OWNER, ROOT) for umask in (0o000, 0o077)),
    ],
)
def test_the_data_root_decides_the_mode_and_group_of_each_file_and_no_umask(
    tmp_path: Path, root_mode: int, umask: int, user: User
) -> None:
    root = tmp_path / "root"
    root.mkdir()
    give_root(root, OWNER, root_mode)
    if not root_mode & 0o020:
        user = OWNER
    act_as(OWNER, umask, root, lambda: make_folder(Path("job")))
    act_as(user, umask, root / "job", _write_everything)
    for path in (root / "job").rglob("*"):
        status = path.stat()
        is_plain = "plain" in path.parts or "tensorboard" in path.parts
        expected_mode = root_mode if path.is_dir() else FILE_MODES[root_mode]
        if root_mode & stat.S_ISVTX and path.name == "plain":
            expected_mode = 0o755
        assert oct(stat.S_IMODE(status.st_mode)) == oct(expected_mode), path
        if root_mode & stat.S_ISGID or not is_plain:
            assert status.st_gid == GROUP, path
        if user is ROOT and not is_plain:
            assert status.st_uid == OWNER.uid, path


@pytest.mark.parametrize("old_mode", [0o600, 0o640, 0o644, 0o400, 0o660])
def test_another_user_of_the_group_appends_to_a_file_whatever_its_mode(
    tmp_path: Path, old_mode: int
) -> None:
    """Also to one that nobody else may change, if it can be read at all."""
    give_root(tmp_path, OWNER, 0o2770)
    act_as(OWNER, 0o077, tmp_path, lambda: Path("mpirun.log").write_text("run 1\n"))
    (tmp_path / "mpirun.log").chmod(old_mode)

    def append() -> None:
        with open(open_for_writing(Path("mpirun.log")), "ab") as file:
            file.write(b"run 2\n")

    if IS_ROOT and not old_mode & stat.S_IRGRP:
        with pytest.raises(AssertionError, match=r"PermissionError.*mpirun"):
            act_as(MEMBER, 0o077, tmp_path, append)
        return
    if IS_ROOT or old_mode & stat.S_IWUSR:
        act_as(MEMBER, 0o077, tmp_path, append)
        assert (tmp_path / "mpirun.log").read_text() == "run 1\nrun 2\n"
    assert len(list(tmp_path.iterdir())) == 1


def test_an_outsider_reads_nothing_in_a_data_root_that_is_closed_to_other_users(
    tmp_path: Path,
) -> None:
    root = tmp_path / "root"
    root.mkdir()
    give_root(root, OWNER, 0o2770)
    act_as(OWNER, 0, root, lambda: replace_json(Path("status.json"), {}))
    act_as(MEMBER, 0, root, lambda: Path("status.json").read_bytes())
    (root / "status.json").rename(tmp_path / "status.json")
    if IS_ROOT:
        with pytest.raises(AssertionError, match="PermissionError"):
            act_as(OUTSIDER, 0, tmp_path, lambda: Path("status.json").read_bytes())


@pytest.mark.parametrize("mode", [0o700, 0o755, 0o2775, 0o777])
def test_a_new_folder_has_the_mode_of_the_data_root(tmp_path: Path, mode: int) -> None:
    root = tmp_path / "root"
    root.mkdir()
    root.chmod(mode)
    make_folder(root / "jobs")
    make_folder(root / "jobs" / "one")
    assert stat.S_IMODE((root / "jobs" / "one").stat().st_mode) == mode


def test_a_folder_made_by_root_belongs_to_the_owner_of_the_data_root(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        # Without root a folder is its maker's, and then so is what is made in it.
        make_folder(tmp_path / "jobs")
        assert (tmp_path / "jobs").stat().st_uid == os.geteuid()
        return
    root = tmp_path / "root"
    root.mkdir()
    os.chown(root, 1234, 1235)
    make_folder(root / "jobs")
    status = (root / "jobs").stat()
    assert (status.st_uid, status.st_gid) == (1234, 1235)


def test_a_folder_that_is_there_is_left_as_it_is(tmp_path: Path) -> None:
    existing_folder = tmp_path / "kept"
    existing_folder.mkdir(mode=0o700)
    make_folder(existing_folder, exist_ok=True)
    assert stat.S_IMODE(existing_folder.stat().st_mode) == 0o700
    with pytest.raises(FileExistsError):
        make_folder(existing_folder)
