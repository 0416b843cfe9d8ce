"""Actions are listed in the order in which they were done, whatever the clocks said."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from backend.datastore.access.root_access import OpenJob
from backend.datastore.jobs import files
from backend.datastore.jobs.files import JobFile
from backend.records.base import timestamps
from backend.records.jobs.audit_entry import AuditEntry
from backend.records.jobs.job_file import parse_job
from tests.backend.records.jobs.test_job_config import GOOD
from tests.fakes.mounted_root import mounted

_HOUR_NS = 3600 * 10**9


@pytest.fixture
def job(tmp_path: Path) -> tuple[OpenJob, JobFile]:
    root = mounted(tmp_path)
    config = parse_job(GOOD).config
    assert config is not None
    file = files.create_job(root, config, {})
    return root.job(file.id), file


@pytest.mark.parametrize(
    "clocks",
    [
        (1, 2, 3, 4),
        (4, 3, 2, 1),
        (5, 1, 2, 3),
        (2, 9, 1, 2),
        (3, 3, 3, 3),
        (1, -2, 8, -7),
    ],
)
def test_actions_are_in_the_order_of_their_doing(
    job: tuple[OpenJob, JobFile], clocks: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, file = job
    started_ns = time.time_ns()
    for number, hour in enumerate(clocks):
        monkeypatch.setattr(time, "time_ns", lambda hour=hour: started_ns + hour * _HOUR_NS)
        stamp = f"2026-01-01T{10 + hour:02d}:00:00Z"
        monkeypatch.setattr(timestamps, "utc_now", lambda stamp=stamp: stamp)
        files.add_action(folder, f"action {number}")
    done = [act.action for act in files.acts_of(folder, file)]
    assert done == ["action 3", "action 2", "action 1", "action 0", "Created"]


@pytest.mark.parametrize(
    ("action", "user", "message"),
    [
        ("Stopped", "ben", "Stopped by ben on desk"),
        ("Started over", "ben", "Started over by ben on desk"),
        ("Created", "", "Created on desk"),
        ("Started on gpu1, gpu2", "ben", "Started on gpu1, gpu2 (by ben on desk)"),
        (
            "Continued without a user: gpu2 no longer answers",
            "",
            "Continued without a user: gpu2 no longer answers (on desk)",
        ),
        (
            "Started. Horovod is built first.",
            "ben",
            "Started. Horovod is built first. (by ben on desk)",
        ),
        ("Number in the log: loss=#", "ben", "Number in the log: loss=# (by ben on desk)"),
        ("Name changed from “a” to “b”", "", "Name changed from “a” to “b” (on desk)"),
        (
            "Resumed from epoch-0001-step-000004",
            "",
            "Resumed from epoch-0001-step-000004 (on desk)",
        ),
    ],
)
def test_the_computer_of_an_action_does_not_read_as_a_part_of_it(
    action: str, user: str, message: str
) -> None:
    assert AuditEntry("", action, user, "desk").message == message
    assert AuditEntry("", action).message == action
