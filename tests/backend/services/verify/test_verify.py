"""Each damage of a data root is named, repaired if that is possible, and nothing is lost."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backend.base.errors import BackendError, Cancelled
from backend.base.progress import Progress
from backend.cli.main import run as cli
from backend.datastore.access.root_access import OpenJob
from backend.datastore.jobs.run_status import RunObservation, RunState
from backend.records.base.layout import RUN_VARIABLE
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RunStatus
from backend.records.library.item import Kind
from backend.records.verify.finding import Verification
from backend.services.context.container import Services, open_services
from backend.services.verify import scan
from backend.services.verify.checks import CHECKS
from tests.backend.services.verify.damages import DAMAGES, NAMES, Damage, Rig, contents, stock
from tests.fakes.mounted_root import MOUNTED

OLDER = Path(__file__).parents[3] / "data" / "data-roots" / "2026-11.tar.gz"


@pytest.fixture(scope="module")
def stocked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    folder = tmp_path_factory.mktemp("stocked")
    return folder, stock(folder)


@pytest.fixture
def rig(stocked: tuple[Path, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rig:
    monkeypatch.setattr(scan, "STALE_AFTER_S", 0.0)
    return copy_rig(stocked, tmp_path / "rig")


def copy_rig(stocked: tuple[Path, list[str]], to: Path) -> Rig:
    shutil.copytree(stocked[0], to)
    return Rig(to, stocked[1])


def open_rig(rig: Rig) -> Services:
    return open_services(rig.root, rig.catalogue)


@pytest.fixture
def services(rig: Rig) -> Iterator[Services]:
    container = open_rig(rig)
    yield container
    container.close()


def keys(verification: Verification) -> list[tuple[str, str]]:
    return [(f.check, f.subject) for f in verification.findings]


@pytest.mark.parametrize("state", JobState)
def test_a_job_makes_checkpoints_next_while_it_runs_or_waits(state: JobState, rig: Rig) -> None:
    observation = RunObservation(), RunState(RunStatus(state))
    job = scan.ScannedJob(
        OpenJob(rig.root / "jobs" / "j", MOUNTED), frozenset(), None, None, observation
    )
    rests = state.is_over or state is JobState.CREATED
    assert job.will_continue is not rests


def test_a_sound_data_root_has_no_findings(services: Services, rig: Rig) -> None:
    old_contents = contents(rig.root)
    verification = services.verification.verify(hashes=True)
    assert (verification.findings, verification.not_checked) == ((), ())
    assert verification.message.startswith(
        "Checked 3 jobs, 3 versions and 6 checkpoints; compared "
    )
    sizes = [
        len(content)
        for path, content in old_contents.items()
        if path.endswith((".pt", ".csv", ".py"))
    ]
    readme = len(old_contents["datasets/tiny/v1/files/README"])
    assert verification.hashed_bytes == sum(sizes) + readme
    assert contents(rig.root) == old_contents


def test_a_data_root_of_an_older_version_has_no_findings(tmp_path: Path) -> None:
    shutil.unpack_archive(OLDER, tmp_path)
    services = open_services(tmp_path / "ring", tmp_path / "here" / "c.sqlite")
    verification = services.verification.verify(hashes=True)
    services.close()
    assert (verification.jobs, verification.versions, verification.findings) == (2, 4, ())


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.name)
def test_a_damage_is_named_and_repaired_and_nothing_more_is_moved(
    damage: Damage, rig: Rig, services: Services
) -> None:
    damage.make(rig)
    old_contents = contents(rig.root)
    if damage.by_hash:
        assert services.verification.verify().findings == ()
    verification = services.verification.verify(hashes=damage.by_hash)
    findings = [f for f in verification.findings if f.check == damage.check]
    assert any(damage.message in f.message for f in findings), verification.findings
    assert contents(rig.root) == old_contents
    done = services.verification.repair(verification.findings, hashes=damage.by_hash)
    assert done.remaining_findings == ()
    new_contents = contents(rig.root)
    assert not Counter(old_contents.values()) - Counter(new_contents.values())
    if damage.is_left:
        assert any(not f.repair and f.remedy for f in findings)
        assert {path: new_contents.get(path) for path in old_contents} == old_contents
        return
    moved_paths = [path for f in done.repaired_findings for path in f.moves]
    rewritten = {"jobs/" + rig.second_job.job_id + "/status.json"} if not moved_paths else set()
    gone_paths = {
        path for path in old_contents if new_contents.get(path) != old_contents[path]
    } - rewritten
    assert all(
        any(path == f or path.startswith(f"{f}/") for f in moved_paths) for path in gone_paths
    )
    second_verification = services.verification.verify(hashes=damage.by_hash)
    assert second_verification.findings == ()


def test_every_check_with_files_is_in_the_table() -> None:
    """Processes and the disk have tests of their own."""
    assert {check.name for check in CHECKS} - {damage.check for damage in DAMAGES} == {
        "processes",
        "disk space",
    }


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(numbers=st.sets(st.sampled_from(range(len(DAMAGES))), min_size=2, max_size=6))
def test_a_repair_of_any_damages_loses_no_byte(
    numbers: set[int],
    stocked: tuple[Path, list[str]],
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scan, "STALE_AFTER_S", 0.0)
    rig = copy_rig(stocked, tmp_path_factory.mktemp("damaged") / "rig")
    for number in sorted(numbers):
        try:
            DAMAGES[number].make(rig)
        except OSError:
            # An earlier damage took its file.
            continue
    old_contents = contents(rig.root)
    services = open_rig(rig)
    try:
        verification = services.verification.verify(hashes=True)
        done = services.verification.repair(verification.findings, hashes=True)
        assert done.remaining_findings == ()
        new_contents = contents(rig.root)
        assert not Counter(old_contents.values()) - Counter(new_contents.values())
        # One repair may show what the damage hid; it converges, and moves nothing sound.
        for _ in range(3):
            verification = services.verification.verify(hashes=True)
            services.verification.repair(verification.findings, hashes=True)
        assert not [f for f in services.verification.verify(hashes=True).findings if f.repair]
        assert not Counter(old_contents.values()) - Counter(contents(rig.root).values())
    finally:
        services.close()
        shutil.rmtree(rig.folder, ignore_errors=True)


def test_a_resume_takes_the_checkpoint_before_the_damaged_one(rig: Rig, services: Services) -> None:
    (rig.first_job.checkpoints / f"{NAMES[2]}.pt").write_bytes(b"cut")
    verification = services.verification.verify()
    assert verification.findings[0].moves[-1].endswith("latest.json")
    services.verification.repair(verification.findings)
    views = services.queries.checkpoints(rig.first_job.job_id)
    assert [v.name for v in views if v.is_latest] == [NAMES[1]]


def test_a_number_of_a_version_without_a_record_is_not_used_again(
    rig: Rig, services: Services
) -> None:
    (rig.version(Kind.LOADER) / "meta.json").unlink()
    services.verification.repair(services.verification.verify().findings)
    item = services.library.import_item(Kind.LOADER, rig.folder / "sources" / "loader", "tiny")
    assert item.version == 2


def test_a_file_changed_since_the_check_is_not_repaired(rig: Rig, services: Services) -> None:
    path = rig.second_job.latest
    sound = path.read_bytes()
    path.write_bytes(b"{")
    verification = services.verification.verify()
    path.write_bytes(sound)
    done = services.verification.repair(verification.findings)
    assert (done.repaired_findings, done.remaining_findings, path.read_bytes()) == ((), (), sound)


def test_a_folder_that_cannot_be_listed_is_not_checked_and_not_moved(
    rig: Rig, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = rig.version(Kind.MODEL)
    for path in (version / "meta.json", rig.first_job.meta, rig.first_job.config):
        path.unlink()
    names = services.data_root.files.names

    def refuse(folder: Path) -> list[str]:
        if folder in (version, rig.first_job.path):
            raise PermissionError(13, "Permission denied")
        return names(folder)

    monkeypatch.setattr(services.data_root.files, "names", refuse)
    verification = services.verification.verify()
    assert [f for f in verification.findings if f.repair] == []
    assert len([f for f in verification.not_checked if "cannot be listed" in f]) == 2
    assert verification.jobs == 2


def test_a_fresh_temporary_file_has_a_writer(rig: Rig, services: Services) -> None:
    scan.STALE_AFTER_S = 3600.0  # type: ignore[misc]  # the fixture puts it back
    (rig.first_job.path / ".status.json.71.0123abcd.tmp").touch()
    (rig.root / "jobs" / ".20261124-abcdef.new").mkdir()
    assert services.verification.verify().findings == ()


def test_a_record_of_a_newer_program_is_no_damage(rig: Rig, services: Services) -> None:
    meta = rig.version(Kind.MODEL) / "meta.json"
    meta.chmod(0o644)
    meta.write_text('{"schema": 99}')
    findings = services.verification.verify().findings
    assert [f.repair for f in findings] == [""]
    assert "newer Ringmaster" in findings[0].message


def test_the_checkpoints_to_come_need_more_than_the_disk_has(
    rig: Rig, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_queue = rig.root / "queue" / rig.draft.job_id
    replace_queue.parent.mkdir()
    replace_queue.touch()
    DAMAGES[[d.check for d in DAMAGES].index("queue") + 1].make(rig)
    monkeypatch.setattr(services.preflight, "needed_bytes", lambda config, job_id: 10**18)
    verification = services.verification.verify()
    assert verification.needed_bytes == 10**18
    assert verification.message.endswith(" The next checkpoints need 1\u202f000 PB.")
    assert [d.check for d in verification.findings] == ["disk space"]
    assert verification.findings[0].message.startswith("The next checkpoints need 1\u202f000 PB; ")


def test_a_process_of_an_ended_run_is_ended(rig: Rig, services: Services) -> None:
    tag = f"{rig.first_job.job_id}/1"
    child = subprocess.Popen(
        [sys.executable, "-c", "import time; print(flush=True); time.sleep(600)"],
        env={**os.environ, RUN_VARIABLE: tag},
        stdout=subprocess.PIPE,
    )
    assert child.stdout is not None
    with child, child.stdout:
        try:
            child.stdout.readline()
            verification = services.verification.verify()
            assert keys(verification) == [("processes", f"process {child.pid} on this-computer")]
            assert "Run 1 of its job is over." in verification.findings[0].message
            done = services.verification.repair(verification.findings)
            assert (len(done.repaired_findings), done.remaining_findings) == (1, ())
            assert child.wait(60) != 0
        finally:
            child.kill()


def test_a_check_is_cancelled(services: Services) -> None:
    class Impatient(Progress):
        def report(self, done: float, total: float, label: str) -> None:
            if label == "Comparing contents":
                self.cancel()

    with pytest.raises(Cancelled):
        services.verification.verify(hashes=True, progress=Impatient())


def test_an_unmounted_data_root_is_no_damage(rig: Rig, services: Services) -> None:
    (rig.root / "jobs").rename(rig.folder / "jobs")
    with pytest.raises(BackendError, match="missing"):
        services.verification.verify()


def _no_window(*_: object) -> int:
    raise AssertionError("a command opens no window")


def test_the_command_line_lists_repairs_and_makes_them_with_yes(
    rig: Rig, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--data-root", str(rig.root), "--catalogue", str(rig.catalogue)]
    assert cli(["verify", *options], _no_window) == 0
    assert "No findings." in capsys.readouterr().out
    rig.second_job.latest.write_text("{")
    old_contents = contents(rig.root)
    assert cli(["verify", *options], _no_window) == 1
    printed = capsys.readouterr().out
    assert "latest.json of the job" in printed
    assert "Repair: Moves it" in printed
    assert cli(["repair", *options], _no_window) == 0
    printed = capsys.readouterr().out
    assert f"Would move jobs/{rig.second_job.job_id}/checkpoints/latest.json" in printed
    assert "repair --yes" in printed
    assert contents(rig.root) == old_contents
    assert cli(["repair", "--yes", *options], _no_window) == 0
    assert "Repaired 1 finding. What was moved is in " in capsys.readouterr().out
    assert cli(["verify", "--hashes", *options], _no_window) == 0
    moved_files = list((rig.root / "trash").glob("repaired-*/jobs/*/checkpoints/latest.json"))
    assert [path.read_text() for path in moved_files] == ["{"]


def test_a_repair_that_fails_says_why_and_the_others_are_done(
    rig: Rig, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.first_job.latest.write_text("{")
    rig.second_job.latest.write_text("{")
    verification = services.verification.verify()
    rename = services.data_root.files.rename

    def refuse(old: Path, new: Path) -> None:
        if rig.first_job.job_id in str(old):
            raise PermissionError(13, "Permission denied")
        rename(old, new)

    monkeypatch.setattr(services.data_root.files, "rename", refuse)
    done = services.verification.repair(verification.findings)
    assert [f.subject for f in done.repaired_findings] == [f"job {rig.second_job.job_id}"]
    assert "could not be repaired: Permission denied." in done.remaining_findings[0].message
    assert [f.subject for f in done.remaining_findings] == [f"job {rig.first_job.job_id}"]
