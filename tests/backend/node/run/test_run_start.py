"""The files of a run before its supervisor starts: written whole, or as they were."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backend.node.run import run_start
from backend.records.base.atomic_files import replace_json
from backend.records.base.layout import JobFolder
from backend.records.base.local_files import Files
from backend.records.jobs.job_file import parse_job
from backend.records.jobs.launch import Launch
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RunStatus, last_status
from tests.integration.tiny import raw_job

LAUNCH = Launch("job", 3, parse_job(raw_job()).draft, (), "", "", "")
PREVIOUS_STATUS = RunStatus(JobState.ERROR, run=2, epoch=4, step=57, total_steps=90)


class NoRoom(Files):
    """Files of a disk that gets full: ``calls`` that need room still succeed."""

    def __init__(self, calls: int) -> None:
        self._calls = calls

    def make_folder(self, path: Path, *, exist_ok: bool = False) -> None:
        if not (exist_ok and path.exists()):
            self._take()
        super().make_folder(path, exist_ok=exist_ok)

    def replace_json(self, path: Path, value: Any) -> None:
        self._take()
        super().replace_json(path, value)

    def _take(self) -> None:
        self._calls -= 1
        if self._calls < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def content(folder: JobFolder) -> dict[str, bytes]:
    return {str(p): p.read_bytes() if p.is_file() else b"" for p in folder.path.rglob("*")}


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    """A job that was started, started over and resumed."""
    folder = JobFolder(tmp_path / "job")
    files = (
        *("output/history.toml", "output/tensorboard/events", "logs/rank-0.log", "config.toml"),
        *("checkpoints/epoch-0004-step-000050.pt", "checkpoints/latest.json", "launch.json"),
        *("attempts/2/exit.json", "runs/1/attempts/1/exit.json", "runs/1/logs/rank-0.log"),
    )
    for name in files:
        (folder.path / name).parent.mkdir(parents=True, exist_ok=True)
        (folder.path / name).write_text(name)
    replace_json(folder.status, PREVIOUS_STATUS.to_dict())
    return folder


@pytest.mark.parametrize("resume_from", ["", "checkpoints/epoch-0004-step-000050.pt"])
def test_a_run_that_finds_no_room_leaves_the_job_as_it_was(
    folder: JobFolder, resume_from: str
) -> None:
    previous_content, launch = content(folder), replace(LAUNCH, resume_from=resume_from)
    for calls in range(20):
        assert run_start.claim(folder, 3, Files())
        try:
            run_start.write(folder, launch, NoRoom(calls))
        except OSError:
            run_start.give_back(folder, launch, NoRoom(0))
            later_content = content(folder)
            if not resume_from:
                assert later_content.keys() - previous_content.keys() <= {
                    str(folder.started_over_runs)
                }
            assert {
                name: later_content.get(name) for name in previous_content if "launch" not in name
            } == {name: text for name, text in previous_content.items() if "launch" not in name}
            assert folder.newest_run() == 2
            continue
        break
    assert calls > 1
    assert (last_status(folder) or PREVIOUS_STATUS).run == 3


@pytest.mark.parametrize(
    ("resume_from", "shown_progress"),
    [
        ("checkpoints/epoch-0004-step-000050.pt", (4, 50)),
        ("checkpoints/epoch-0001-step-000010.pt", (1, 10)),
        ("/data/jobs/job/checkpoints/epoch-0012-step-1234567.pt", (12, 1234567)),
        ("output/step-000020.pt", (4, 20)),
        ("output/epoch-0002-step-000030.ckpt", (2, 30)),
        ("output/last.ckpt", (4, 57)),
        ("", (0, 0)),
    ],
)
def test_a_resumed_run_shows_the_step_of_its_checkpoint_from_the_first_moment(
    folder: JobFolder, resume_from: str, shown_progress: tuple[int, int]
) -> None:
    run_start.claim(folder, LAUNCH.run, Files())
    for _ in range(2):
        run_start.write(folder, replace(LAUNCH, resume_from=resume_from), Files())
        status = last_status(folder)
        assert status is not None
        assert (status.run, status.epoch, status.step) == (3, *shown_progress)
