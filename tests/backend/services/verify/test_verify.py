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
    return copied(stocked, tmp_path / "rig")


def copied(stocked: tuple[Path, list[str]], to: Path) -> Rig:
    shutil.copytree(stocked[0], to)
    return Rig(to, stocked[1])


def opened(rig: Rig) -> Services:
    return open_services(rig.root, rig.catalogue)


@pytest.fixture
def services(rig: Rig) -> Iterator[Services]:
    found = opened(rig)
    yield found
    found.close()


def keys(found: Verification) -> list[tuple[str, str]]:
    return [(one.check, one.subject) for one in found.findings]


@pytest.mark.parametrize("state", JobState)
def test_a_job_makes_checkpoints_next_while_it_runs_or_waits(state: JobState, rig: Rig) -> None:
    seen = RunObservation(), RunState(RunStatus(state))
    job = scan.ScannedJob(OpenJob(rig.root / "jobs" / "j", MOUNTED), frozenset(), None, None, seen)
    rests = state.is_over or state is JobState.CREATED
    assert job.will_continue is not rests


def test_a_sound_data_root_has_no_findings(services: Services, rig: Rig) -> None:
    before = contents(rig.root)
    found = services.verification.verify(hashes=True)
    assert (found.findings, found.not_checked) == ((), ())
    assert found.message.startswith("Checked 3 jobs, 3 versions and 6 checkpoints; compared ")
    sizes = [len(one) for path, one in before.items() if path.endswith((".pt", ".csv", ".py"))]
    readme = len(before["datasets/tiny/v1/files/README"])
    assert found.hashed_bytes == sum(sizes) + readme
    assert contents(rig.root) == before


def test_a_data_root_of_an_older_version_has_no_findings(tmp_path: Path) -> None:
    shutil.unpack_archive(OLDER, tmp_path)
    services = open_services(tmp_path / "ring", tmp_path / "here" / "c.sqlite")
    found = services.verification.verify(hashes=True)
    services.close()
    assert (found.jobs, found.versions, found.findings) == (2, 4, ())


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.name)
def test_a_damage_is_named_and_repaired_and_nothing_more_is_moved(
    damage: Damage, rig: Rig, services: Services
) -> None:
    damage.make(rig)
    before = contents(rig.root)
    if damage.by_hash:
        assert services.verification.verify().findings == ()
    found = services.verification.verify(hashes=damage.by_hash)
    own = [one for one in found.findings if one.check == damage.check]
    assert any(damage.words in one.message for one in own), found.findings
    assert contents(rig.root) == before
    done = services.verification.repair(found.findings, hashes=damage.by_hash)
    assert done.remaining_findings == ()
    after = contents(rig.root)
    assert not Counter(before.values()) - Counter(after.values())
    if damage.is_left:
        assert any(not one.repair and one.remedy for one in own)
        assert {path: after.get(path) for path in before} == before
        return
    moved = [path for one in done.repaired_findings for path in one.moves]
    kept = {"jobs/" + rig.two.job_id + "/status.json"} if not moved else set()
    gone = {path for path in before if after.get(path) != before[path]} - kept
    assert all(any(path == one or path.startswith(f"{one}/") for one in moved) for path in gone)
    again = services.verification.verify(hashes=damage.by_hash)
    assert again.findings == ()


def test_every_check_with_files_is_in_the_table() -> None:
    """Processes and the disk have tests of their own."""
    assert {check.name for check in CHECKS} - {damage.check for damage in DAMAGES} == {
        "processes",
        "disk space",
    }


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(which=st.sets(st.sampled_from(range(len(DAMAGES))), min_size=2, max_size=6))
def test_a_repair_of_any_damages_loses_no_byte(
    which: set[int],
    stocked: tuple[Path, list[str]],
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scan, "STALE_AFTER_S", 0.0)
    rig = copied(stocked, tmp_path_factory.mktemp("damaged") / "rig")
    for number in sorted(which):
        try:
            DAMAGES[number].make(rig)
        except OSError:
            # An earlier damage took its file.
            continue
    before = contents(rig.root)
    services = opened(rig)
    try:
        found = services.verification.verify(hashes=True)
        done = services.verification.repair(found.findings, hashes=True)
        assert done.remaining_findings == ()
        after = contents(rig.root)
        assert not Counter(before.values()) - Counter(after.values())
        # One repair may show what the damage hid; it converges, and moves nothing sound.
        for _ in range(3):
            found = services.verification.verify(hashes=True)
            services.verification.repair(found.findings, hashes=True)
        assert not [one for one in services.verification.verify(hashes=True).findings if one.repair]
        assert not Counter(before.values()) - Counter(contents(rig.root).values())
    finally:
        services.close()
        shutil.rmtree(rig.folder, ignore_errors=True)


def test_a_resume_takes_the_checkpoint_before_the_damaged_one(rig: Rig, services: Services) -> None:
    (rig.one.checkpoints / f"{NAMES[2]}.pt").write_bytes(b"cut")
    found = services.verification.verify()
    assert found.findings[0].moves[-1].endswith("latest.json")
    services.verification.repair(found.findings)
    views = services.queries.checkpoints(rig.one.job_id)
    assert [one.name for one in views if one.is_latest] == [NAMES[1]]


def test_a_number_of_a_version_without_a_record_is_not_used_again(
    rig: Rig, services: Services
) -> None:
    (rig.version(Kind.LOADER) / "meta.json").unlink()
    services.verification.repair(services.verification.verify().findings)
    item = services.library.import_item(Kind.LOADER, rig.folder / "sources" / "loader", "tiny")
    assert item.version == 2


def test_a_file_changed_since_the_check_is_not_repaired(rig: Rig, services: Services) -> None:
    path = rig.two.latest
    sound = path.read_bytes()
    path.write_bytes(b"{")
    found = services.verification.verify()
    path.write_bytes(sound)
    done = services.verification.repair(found.findings)
    assert (done.repaired_findings, done.remaining_findings, path.read_bytes()) == ((), (), sound)


def test_a_folder_that_cannot_be_listed_is_not_checked_and_not_moved(
    rig: Rig, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = rig.version(Kind.MODEL)
    for path in (version / "meta.json", rig.one.meta, rig.one.config):
        path.unlink()
    names = services.data_root.files.names

    def refuse(folder: Path) -> list[str]:
        if folder in (version, rig.one.path):
            raise PermissionError(13, "Permission denied")
        return names(folder)

    monkeypatch.setattr(services.data_root.files, "names", refuse)
    found = services.verification.verify()
    assert [one for one in found.findings if one.repair] == []
    assert len([one for one in found.not_checked if "cannot be listed" in one]) == 2
    assert found.jobs == 2


def test_a_fresh_temporary_file_has_a_writer(rig: Rig, services: Services) -> None:
    scan.STALE_AFTER_S = 3600.0  # type: ignore[misc]  # the fixture puts it back
    (rig.one.path / ".status.json.71.0123abcd.tmp").touch()
    (rig.root / "jobs" / ".20261124-abcdef.new").mkdir()
    assert services.verification.verify().findings == ()


def test_a_record_of_a_newer_program_is_no_damage(rig: Rig, services: Services) -> None:
    meta = rig.version(Kind.MODEL) / "meta.json"
    meta.chmod(0o644)
    meta.write_text('{"schema": 99}')
    found = services.verification.verify().findings
    assert [one.repair for one in found] == [""]
    assert "newer Ringmaster" in found[0].message


def test_the_checkpoints_to_come_need_more_than_the_disk_has(
    rig: Rig, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_queue = rig.root / "queue" / rig.draft.job_id
    replace_queue.parent.mkdir()
    replace_queue.touch()
    DAMAGES[[one.check for one in DAMAGES].index("queue") + 1].make(rig)
    monkeypatch.setattr(services.preflight, "needed_bytes", lambda config, job_id: 10**18)
    found = services.verification.verify()
    assert found.needed_bytes == 10**18
    assert found.message.endswith(" The next checkpoints need 1\u202f000 PB.")
    assert [one.check for one in found.findings] == ["disk space"]
    assert found.findings[0].message.startswith("The next checkpoints need 1\u202f000 PB; ")


def test_a_process_of_an_ended_run_is_ended(rig: Rig, services: Services) -> None:
    tag = f"{rig.one.job_id}/1"
    child = subprocess.Popen(
        [sys.executable, "-c", "import time; print(flush=True); time.sleep(600)"],
        env={**os.environ, RUN_VARIABLE: tag},
        stdout=subprocess.PIPE,
    )
    assert child.stdout is not None
    with child, child.stdout:
        try:
            child.stdout.readline()
            found = services.verification.verify()
            assert keys(found) == [("processes", f"process {child.pid} on this-computer")]
            assert "Run 1 of its job is over." in found.findings[0].message
            done = services.verification.repair(found.findings)
            assert (len(done.repaired_findings), done.remaining_findings) == (1, ())
            assert child.wait(60) != 0
        finally:
            child.kill()


def test_a_check_is_cancelled(services: Services) -> None:
    class Impatient(Progress):
        def report(self, done: float, total: float, what: str) -> None:
            if what == "Comparing contents":
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
    place = ["--data-root", str(rig.root), "--catalogue", str(rig.catalogue)]
    assert cli(["verify", *place], _no_window) == 0
    assert "No findings." in capsys.readouterr().out
    rig.two.latest.write_text("{")
    before = contents(rig.root)
    assert cli(["verify", *place], _no_window) == 1
    printed = capsys.readouterr().out
    assert "latest.json of the job" in printed
    assert "Repair: Moves it" in printed
    assert cli(["repair", *place], _no_window) == 0
    printed = capsys.readouterr().out
    assert f"Would move jobs/{rig.two.job_id}/checkpoints/latest.json" in printed
    assert "repair --yes" in printed
    assert contents(rig.root) == before
    assert cli(["repair", "--yes", *place], _no_window) == 0
    assert "Repaired 1 finding. What was moved is in " in capsys.readouterr().out
    assert cli(["verify", "--hashes", *place], _no_window) == 0
    moved = list((rig.root / "trash").glob("repaired-*/jobs/*/checkpoints/latest.json"))
    assert [path.read_text() for path in moved] == ["{"]


def test_a_repair_that_fails_says_why_and_the_others_are_done(
    rig: Rig, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.one.latest.write_text("{")
    rig.two.latest.write_text("{")
    found = services.verification.verify()
    rename = services.data_root.files.rename

    def refuse(old: Path, new: Path) -> None:
        if rig.one.job_id in str(old):
            raise PermissionError(13, "Permission denied")
        rename(old, new)

    monkeypatch.setattr(services.data_root.files, "rename", refuse)
    done = services.verification.repair(found.findings)
    assert [one.subject for one in done.repaired_findings] == [f"job {rig.two.job_id}"]
    assert "could not be repaired: Permission denied." in done.remaining_findings[0].message
    assert [one.subject for one in done.remaining_findings] == [f"job {rig.one.job_id}"]
