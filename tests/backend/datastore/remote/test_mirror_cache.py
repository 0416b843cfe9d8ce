"""A mirror drops what was not used for long or is too much, never what exists only in it."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pytest

from backend.base.progress import Progress
from backend.cli.main import run as cli
from backend.datastore.remote import mirror_cache
from backend.records.base.layout import JobFolder
from backend.records.library.item import Kind
from backend.services.context.container import Services
from tests.backend.services.access_cases import PAYLOAD, Beat, DataSite, add_checkpoint, start_job

pytest_plugins = [
    "tests.backend.ssh.sshd_fixtures",
    "tests.backend.services.access_fixtures",
]
pytestmark = pytest.mark.usefixtures("uncounted")

DAY_S = 86_400.0


@pytest.fixture
def fetched(remote_site: DataSite, beat: Beat) -> tuple[Services, JobFolder, Path]:
    """A desktop that fetched two checkpoints and the files of a model; its mirror is read."""
    first_services, services = remote_site.desktop(), remote_site.desktop()
    remote_site.stock(first_services)
    beat(remote_site)
    view, run = start_job(remote_site, first_services)
    for step in (2, 5):
        add_checkpoint(run, step)
    services.jobs.queries.show(view.id)
    folder = services.data_root.job(view.id)
    for record in services.jobs.queries.checkpoints(view.id):
        services.data_root.files.bring_file(folder.checkpoints / f"{record.name}.pt", Progress())
    services.library.list(Kind.MODEL)
    return services, folder, services.library.open_content(Kind.MODEL, "tiny")


def unwanted_for(path: Path, age_s: float) -> None:
    """As if it had not been requested for so long."""
    used_s, now = time.time() - age_s, path.stat().st_mtime
    os.utime(path, (used_s, used_s if path.is_dir() else now))


def weights(folder: JobFolder) -> list[str]:
    return sorted(path.name for path in folder.checkpoints.glob("*.pt"))


def test_the_next_fetch_drops_files_unused_for_long_and_they_come_back(
    fetched: tuple[Services, JobFolder, Path],
) -> None:
    services, folder, source = fetched
    first, second = (folder.checkpoints / name for name in weights(folder))
    unwanted_for(first, 31 * DAY_S)
    unwanted_for(source, 31 * DAY_S)
    services.library.open_content(Kind.LOADER, "tiny")
    assert weights(folder) == [second.name]
    assert not source.exists()
    assert len(services.jobs.queries.checkpoints(folder.job_id)) == 2

    services.data_root.files.bring_file(first, Progress())
    assert first.read_bytes() == PAYLOAD
    assert services.library.open_content(Kind.MODEL, "tiny") == source
    assert (source / "bks_model.py").exists()


def test_a_file_requested_again_is_kept(fetched: tuple[Services, JobFolder, Path]) -> None:
    services, folder, source = fetched
    kept_paths = [source, *(folder.checkpoints / name for name in weights(folder))]
    for path in kept_paths:
        unwanted_for(path, 31 * DAY_S)
    services.library.open_content(Kind.MODEL, "tiny")
    for path in kept_paths[1:]:
        services.data_root.files.bring_file(path, Progress())
    services.library.open_content(Kind.LOADER, "tiny")
    assert [path.exists() for path in kept_paths] == [True, True, True]


def test_a_full_cache_drops_the_longest_unused_files_and_none_of_the_last_hour(
    fetched: tuple[Services, JobFolder, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    services, folder, source = fetched
    monkeypatch.setattr(mirror_cache, "KEEP_BYTES", len(PAYLOAD) // 2)
    first, second = (folder.checkpoints / name for name in weights(folder))
    unwanted_for(second, 3 * 3600)
    unwanted_for(source, 2 * 3600)
    services.library.open_content(Kind.LOADER, "tiny")
    assert weights(folder) == [first.name]
    assert not source.exists()


@pytest.mark.slow
def test_clearing_keeps_files_that_the_data_root_lost_or_changed(
    fetched: tuple[Services, JobFolder, Path], remote_site: DataSite
) -> None:
    services, folder, source = fetched
    first, _ = weights(folder)
    remote_checkpoints = remote_site.data.job(folder.job_id).checkpoints
    (remote_checkpoints / first).unlink()
    shutil.rmtree(remote_site.root / "models" / "tiny" / "v1" / "src")
    (remote_site.root / "models" / "tiny" / "v1" / "src").mkdir()
    freed = services.data_root.files.clear()
    assert freed == len(PAYLOAD)
    assert weights(folder) == [first]
    assert (source / "bks_model.py").exists()


@pytest.mark.slow
def test_half_fetched_files_are_removed_after_a_day(
    fetched: tuple[Services, JobFolder, Path],
) -> None:
    services, folder, source = fetched
    old, young = (folder.checkpoints / f".epoch.pt.{name}.tmp" for name in ("old", "young"))
    staging = source.parent / ".src.abcd"
    staging.mkdir()
    for path in (old, young, staging / "bks_model.py"):
        path.write_bytes(b"half")
    for path in (old, staging):
        unwanted_for(path, 2 * DAY_S)
        os.utime(path, (time.time() - 2 * DAY_S,) * 2)
    services.library.open_content(Kind.LOADER, "tiny")
    assert (old.exists(), staging.exists(), young.exists()) == (False, False, True)


def test_a_mirror_that_cannot_free_space_still_fetches(
    fetched: tuple[Services, JobFolder, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    services, _, source = fetched
    unwanted_for(source, 31 * DAY_S)

    def refuse(*_: object) -> int:
        raise OSError("the disk is gone")

    monkeypatch.setattr(mirror_cache, "drop", refuse)
    loader = services.library.open_content(Kind.LOADER, "tiny")
    assert loader.exists()
    assert source.exists()


def test_the_doctor_shows_the_bytes_and_one_command_frees_them(
    fetched: tuple[Services, JobFolder, Path],
    remote_site: DataSite,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # What is installed here is another matter, and takes seconds to ask.
    monkeypatch.setattr("backend.services.nodes.service.findings", lambda *_: ())
    services, folder, source = fetched
    mirror_finding = next(
        doctor_finding
        for doctor_finding in services.nodes.doctor()
        if doctor_finding.check == "mirror"
    )
    usage = services.data_root.files.mirror_usage()
    assert usage is not None
    assert usage.refetchable_bytes == 2 * len(PAYLOAD) + (source / "bks_model.py").stat().st_size
    assert mirror_finding.ok
    assert str(services.data_root.path) in mirror_finding.message
    assert f"--data-root {remote_site.address} mirror clear" in mirror_finding.message

    options = ["--data-root", str(remote_site.address), "--catalogue", str(services.catalogue.path)]
    assert cli([*options, "mirror", "clear", "--json"], lambda *_: 1) == 0
    assert json.loads(capsys.readouterr().out) == {"bytes": usage.refetchable_bytes}
    assert weights(folder) == []
    later_usage = services.data_root.files.mirror_usage()
    assert later_usage is not None
    assert later_usage.refetchable_bytes == 0
    finding = next(
        doctor_finding
        for doctor_finding in services.nodes.doctor()
        if doctor_finding.check == "mirror"
    )
    assert "mirror clear" not in finding.message


def test_a_mounted_data_root_has_no_mirror(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--data-root", str(tmp_path / "d"), "--catalogue", str(tmp_path / "c.sqlite")]
    assert cli([*options, "mirror", "clear"], lambda *_: 1) == 1
    assert "is mounted here" in capsys.readouterr().err
