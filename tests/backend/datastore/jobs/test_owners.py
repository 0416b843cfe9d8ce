"""An action on the job of another user is told to the owner, once; a data root may forbid it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from backend.base.errors import BackendError
from backend.datastore.access.root_access import OpenRoot
from backend.datastore.jobs import files, owners
from backend.datastore.jobs.files import JobFile
from backend.records.base.account import user_name
from backend.records.jobs.job_file import parse_job
from tests.backend.records.jobs.test_job_config import GOOD
from tests.fakes.mounted_root import mounted


@pytest.fixture
def root(tmp_path: Path) -> OpenRoot:
    return mounted(tmp_path)


def log_in(monkeypatch: pytest.MonkeyPatch, user: str) -> None:
    monkeypatch.setenv("LOGNAME", user)
    assert user_name() == user


@pytest.fixture
def job(root: OpenRoot, monkeypatch: pytest.MonkeyPatch) -> JobFile:
    log_in(monkeypatch, "anna")
    config = parse_job(GOOD).config
    assert config is not None
    return files.create_job(root, config, {})


@pytest.mark.parametrize(
    "owner", ["anna", "ÄNNA", "LAB\\anna", "anna@lab.example", "..", "../x", "/"]
)
@pytest.mark.parametrize(
    ("reason", "line"),
    [
        ("", "Stopped"),
        ("  ", "Stopped"),
        ("the GPUs are needed", "Stopped: the GPUs are needed"),
        ("two\nlines\x1b[2J", "Stopped: two lines?[2J"),
        ("x" * 500, "Stopped: " + "x" * 199 + "…"),
    ],
)
def test_the_owner_gets_a_notice_with_name_and_reason_once(
    root: OpenRoot, owner: str, reason: str, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(monkeypatch, owner)
    config = parse_job(GOOD).config
    assert config is not None
    job = files.create_job(root, config, {})
    log_in(monkeypatch, "ben")
    files.add_action(root.job(job.id), "Stopped", reason)
    assert owners.take_notices(root) == (), "it is not ben's"
    entry = files.acts_of(root.job(job.id), job)[0]
    assert (entry.action, entry.user) == (line, "ben")
    log_in(monkeypatch, owner)
    (notice,) = owners.take_notices(root)
    assert (notice.job_id, notice.name) == (job.id, job.name)
    assert notice.message == entry.message
    assert "by ben" in notice.message
    assert owners.take_notices(root) == ()
    names = {path.name for path in root.path.iterdir()}
    assert names <= {"jobs", "notices"}, "no name of a user leads out of the folder"


def test_own_actions_and_those_of_the_program_are_no_notices(root: OpenRoot, job: JobFile) -> None:
    files.add_action(root.job(job.id), "Stopped")
    assert owners.take_notices(root) == ()


def test_a_damaged_notice_hides_no_other(
    root: OpenRoot, job: JobFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(monkeypatch, "ben")
    files.add_action(root.job(job.id), "Stopped")
    (root.notices / "anna" / "0-damaged.json").write_text("{")
    (root.notices / "anna" / ".hidden").touch()
    log_in(monkeypatch, "anna")
    assert len(owners.take_notices(root)) == 1


@pytest.mark.parametrize(
    ("user", "is_allowed"), [("anna", True), ("admin", True), ("ben", False), ("root", False)]
)
def test_with_the_rule_only_the_owner_and_who_set_it_may_stop(
    root: OpenRoot, job: JobFile, user: str, is_allowed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = root.job(job.id)
    log_in(monkeypatch, "admin")
    owners.set_owner_rule(root, is_set=True)
    owners.set_owner_rule(root, is_set=True)
    assert stat.S_IMODE(os.stat(root.owner_rule).st_mode) == 0o644
    log_in(monkeypatch, user)
    if is_allowed:
        owners.require_right(folder, job.user)
    else:
        with pytest.raises(BackendError) as caught:
            owners.require_right(folder, job.user)
        assert "belongs to anna" in caught.value.message
        assert caught.value.remedy == "Ask anna or admin."
    log_in(monkeypatch, "admin")
    owners.set_owner_rule(root, is_set=False)
    log_in(monkeypatch, user)
    owners.require_right(folder, job.user)


@pytest.mark.parametrize(
    ("uid", "is_mounted", "refusal"),
    [
        (os.geteuid(), True, ""),
        (0, True, ""),
        (4711, True, "Only root, who owns the folder of the data root, can change this."),
        (4711, False, "Only anna, who set this, can change it."),
    ],
)
def test_only_the_owner_of_the_folder_sets_and_removes_the_rule(
    root: OpenRoot, uid: int, is_mounted: bool, refusal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(monkeypatch, "anna")
    owners.set_owner_rule(root, is_set=True)
    log_in(monkeypatch, "ben")
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    monkeypatch.setattr(Path, "owner", lambda _path: "root")
    monkeypatch.setattr(type(root.files), "is_mounted", is_mounted)
    assert owners.rule_refusal(root) == refusal
    if refusal:
        with pytest.raises(BackendError, match=refusal):
            owners.set_owner_rule(root, is_set=False)
    else:
        owners.set_owner_rule(root, is_set=False)
    assert (owners.owner_rule(root) is not None) == bool(refusal)


def test_a_damaged_rule_is_a_rule(
    root: OpenRoot, job: JobFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    root.owner_rule.write_text("{")
    owners.require_right(root.job(job.id), "anna")
    log_in(monkeypatch, "ben")
    with pytest.raises(BackendError, match="only the owner"):
        owners.require_right(root.job(job.id), "anna")
