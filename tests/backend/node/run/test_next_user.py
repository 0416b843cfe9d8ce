"""The next run of a job that another user of the group began."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from backend.node.run.rank_guard import Guard
from backend.node.run.supervisor import Supervisor
from backend.records.base.access_modes import make_folder, set_umask
from backend.records.base.atomic_files import read_json, replace_json
from backend.records.base.layout import JobFolder
from backend.records.jobs.launch import Launch
from backend.records.jobs.status import RankExit, RunExit
from tests.fakes.runs import Run
from tests.users import IS_ROOT, MEMBER, OWNER, User, act_as, give_root


@pytest.fixture
def launch() -> Iterator[Launch]:
    """A job in a data root of the owner's group, below folders that all users may enter."""
    root = Path(tempfile.mkdtemp(dir="/tmp"))
    give_root(root, OWNER, 0o2770)
    run = Run(root, ranks=1, strategy="alone")
    shutil.rmtree(run.folder.path)
    give_root(root / "jobs", OWNER, 0o2770)
    yield replace(run.launch, python="/bin/true")
    shutil.rmtree(root)


def _folder(launch: Launch) -> JobFolder:
    return JobFolder(Path(launch.model_source).parent / "jobs" / launch.job_id)


def _supervise(launch: Launch, run: int, user: User) -> RunExit:
    """Start a run as a desktop of ``user`` does, and supervise it with the umask of `umask 077`."""
    folder = _folder(launch)

    def supervise() -> None:
        for path in (folder.path, folder.attempts, folder.attempt(run).path):
            make_folder(path, exist_ok=True)
        replace_json(folder.launch, replace(launch, run=run).to_dict())
        set_umask(folder.path)
        Supervisor(folder, run).supervise()

    act_as(user, 0o077, folder.path.parent, supervise)
    return RunExit.from_dict(read_json(folder.attempt(run).exit))


def test_another_user_of_the_group_supervises_the_next_run(launch: Launch) -> None:
    for run, user in enumerate((OWNER, MEMBER), 1):
        message = _supervise(launch, run, user).message
        assert "may not write" not in message
    log = _folder(launch).mpirun_log.read_text()
    assert [f"── run {run}," in log for run in (1, 2)] == [True] * 2


def test_a_log_that_the_next_user_may_not_write_is_named_and_no_try_follows(
    launch: Launch,
) -> None:
    _supervise(launch, 1, OWNER)
    log = _folder(launch).mpirun_log
    log.chmod(0o600)
    record = _supervise(launch, 2, MEMBER)
    if IS_ROOT:
        assert f"may not write {log}: Permission denied." in record.message
        assert record.error is not None
        assert record.error.retry == ""


def test_a_guard_names_the_log_of_its_rank_that_it_may_not_write(launch: Launch) -> None:
    folder = _folder(launch)
    _supervise(launch, 1, OWNER)
    act_as(OWNER, 0o077, folder.path, lambda: folder.rank_log(0).write_text("of run 1"))
    folder.rank_log(0).chmod(0o600)

    def guard() -> None:
        record = Guard(folder, launch, launch.ranks[0]).watch()
        replace_json(folder.path / "record.json", record.to_dict())

    if IS_ROOT:
        act_as(MEMBER, 0o022, folder.path, guard)
        record = RankExit.from_dict(read_json(folder.path / "record.json"))
        assert record.error is not None
        assert f"may not write {folder.rank_log(0)}: " in record.error.message
    assert folder.rank_log(0).read_text() == "of run 1"
