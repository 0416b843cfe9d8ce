"""Files are counted like bytes, and what loader workers share is known before the start."""

from __future__ import annotations

import errno
import os
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from backend.base.errors import BackendError
from backend.base.room import LEAST_FILES, DiskSpace, disk_space
from backend.node.checks import doctor, preflight_probe
from backend.records.base.local_files import Files
from backend.records.jobs.placement import Placement
from backend.records.jobs.state import JobState
from backend.records.library.item import Kind
from backend.records.nodes.health import Health
from backend.records.nodes.reading import BAD
from backend.records.queue.entry import Cause, QueueEntry
from backend.records.queue.scheduling import ClusterState, NodeView, wait_reason
from backend.services.context.container import Services
from backend.services.preflight import names
from backend.services.preflight.context import PreflightTarget
from backend.services.preflight.service import PreflightFailed
from tests.backend.records.nodes.test_unlisted_holder import GPU, reading
from tests.backend.services.preflight.judging import answered
from tests.backend.services.preflight.test_unanswered import GOOD
from tests.integration.tiny import ALONE, raw_job

MIB = 2**20
_statvfs = os.statvfs


def target(slots: int = 1, workers: int = 0) -> PreflightTarget:
    return PreflightTarget(
        *("gpu03", Placement("gpu03", slots), "python", "", "", "", "/lab/ring", "/home/mai"),
        is_head=True,
        loader_workers=workers,
    )


def with_files(monkeypatch: pytest.MonkeyPatch, files: int, total: int = 10**6) -> None:
    """Let every file system have plenty of bytes and this many inodes."""

    def statvfs(path: Any) -> os.statvfs_result:
        fields = list(_statvfs(path))
        fields[2:8] = [10**9, 10**9, 10**9, total, files, files]
        return os.statvfs_result(fields)

    monkeypatch.setattr(os, "statvfs", statvfs)


@pytest.mark.parametrize(
    ("total", "files", "free_files", "lacks_files"),
    [
        (10**6, 0, 0, True),
        (10**6, LEAST_FILES - 1, LEAST_FILES - 1, True),
        (10**6, LEAST_FILES, LEAST_FILES, False),
        (10**6, 10**6, 10**6, False),
        # btrfs and some shares have no fixed number, and say 0 of 0.
        (0, 0, None, False),
    ],
)
def test_the_files_of_a_file_system_are_counted(
    monkeypatch: pytest.MonkeyPatch,
    total: int,
    files: int,
    free_files: int | None,
    lacks_files: bool,
) -> None:
    with_files(monkeypatch, files, total)
    space = disk_space("/")
    assert (space.free_files, space.lacks_files()) == (free_files, lacks_files)
    assert preflight_probe._free_space("/")["files"] == free_files


def test_without_inodes_nothing_starts_is_imported_or_said_to_be_in_order(
    services: Services, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    job = services.jobs.create(raw_job(1, epochs=1, **ALONE))
    source = tmp_path / "set"
    source.mkdir()
    (source / "a.csv").write_text("1")
    with_files(monkeypatch, 12)
    with pytest.raises(PreflightFailed, match="can take only 12 more files") as refusal:
        services.jobs.lifecycle.start(job.id)
    assert [finding.check for finding in refusal.value.preflight.blocking_findings] == [names.DISK]
    with pytest.raises(BackendError, match=r"1 file, and the data root .* only 12 more files"):
        services.library.import_item(Kind.DATASET, source, "set")
    with pytest.raises(BackendError, match="12 more files"):
        doctor._data_root(services.data_root.path)
    assert services.jobs.queries.show(job.id).run == 0


def test_a_full_disk_is_reported_by_its_missing_resource(monkeypatch: pytest.MonkeyPatch) -> None:
    root = {**GOOD["data_root"], "files": 3}
    cases = (
        (root, "can take only 3 more files"),
        ({**root, "why": "No space left on device", "code": 28}, "can take only 3 more files"),
        (
            {**root, "files": 9**9, "why": "No space left on device", "code": 28},
            "The data root is full",
        ),
        (
            {**root, "files": None, "why": "Disk quota exceeded", "code": 122},
            "The disk quota of the user",
        ),
        (
            {**root, "files": 0, "why": "Read-only file system", "code": 30},
            "cannot write to the data root",
        ),
        ({**root, "files": None, "free": 10}, "The data root has"),
    )
    for readings, message in cases:
        (finding,) = answered(target(), data_root=readings)
        assert message in finding.message
    (home,) = answered(target(), home={**GOOD["home"], "files": 1})
    assert "The disk of /home/mai on gpu03 can take only 1 more files" in home.message


def test_the_queue_and_the_badge_of_a_node_count_files() -> None:
    entry = QueueEntry("job", "job", 1, (Placement("gpu03", 1),), "gpu03")
    view = NodeView(disk_free_bytes=10**12, disk_free_files=12)
    now: Any = None
    waits = wait_reason(entry, (), ClusterState(now, {"gpu03": view}))
    assert waits is not None
    assert (waits.cause, "12 more files" in waits.message) == (Cause.DISK, True)
    assert (
        wait_reason(entry, (), ClusterState(now, {"gpu03": replace(view, disk_free_files=None)}))
        is None
    )
    health = Health().after_reading(replace(reading(GPU), disk_free_files=12), 0.0)
    assert ("files", BAD) in [(finding.key, finding.severity) for finding in health.findings]


@pytest.mark.parametrize(
    ("slots", "workers", "free_mib", "blocks", "warns"),
    [
        (1, 0, 1, False, False),
        (1, 2, 8, True, False),
        (1, 4, 64, False, False),
        (1, 8, 64, False, True),
        (2, 0, 16, True, False),
        (2, 0, 32, False, False),
        (2, 2, 64, False, True),
        (2, 2, 4096, False, False),
    ],
)
def test_shared_memory_is_enough_for_ranks_and_loader_workers(
    slots: int, workers: int, free_mib: int, blocks: bool, warns: bool
) -> None:
    readings = {"free": free_mib * MIB, "why": ""}
    findings = answered(target(slots, workers), shared_memory=readings)
    assert [(finding.blocks, finding.is_warning) for finding in findings] == [(blocks, warns)] * (
        blocks or warns
    )
    for finding in findings:
        assert f"{free_mib * MIB / 1e6:.0f} MB are free" in finding.message
        assert ("Use fewer loader workers" in finding.remedy) is bool(workers)
        assert "/dev/shm" in finding.remedy


@pytest.mark.parametrize(
    ("open_files", "workers", "needed_files"),
    [
        (200, 0, 256),
        (256, 0, None),
        (256, 1, 288),
        (256, 64, 768),
        (1024, 64, None),
        (None, 64, None),
    ],
)
def test_the_limit_of_open_files_is_enough_for_loader_workers(
    open_files: int | None, workers: int, needed_files: int | None
) -> None:
    limits = {"open_files": open_files, "hard": 4096}
    findings = answered(target(1, workers), limits=limits)
    assert [f"needs {needed_files}." in finding.message for finding in findings] == [True] * (
        needed_files is not None
    )


@pytest.mark.parametrize(
    ("readings", "check"),
    [
        ({"shared_memory": {"free": 8 * MIB, "why": ""}}, names.SHARED_MEMORY),
        ({"limits": {"open_files": 256, "hard": 256}}, names.OPEN_FILES),
    ],
)
def test_a_start_on_this_computer_alone_knows_both(
    services: Services, monkeypatch: pytest.MonkeyPatch, readings: dict[str, Any], check: str
) -> None:
    for question, answer in readings.items():
        monkeypatch.setattr(preflight_probe, question, lambda _, answer=answer: answer)
    job = services.jobs.create(raw_job(1, epochs=1, loader_workers=2, **ALONE))
    with pytest.raises(PreflightFailed) as refusal:
        services.jobs.lifecycle.start(job.id)
    assert [finding.check for finding in refusal.value.preflight.blocking_findings] == [check]


def test_a_desktop_without_inodes_is_asked_for_bytes_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    monkeypatch.delattr(os, "statvfs")
    assert disk_space("/") == DiskSpace(usage.total, usage.free, None)


@pytest.mark.parametrize("name", ["launch.json", "status.json"])
@pytest.mark.parametrize(
    ("start_method", "expected_state"),
    [
        ("start", (JobState.CREATED, 0)),
        ("resume", (JobState.FINISHED, 1)),
        ("over", (JobState.FINISHED, 1)),
    ],
)
def test_a_start_that_a_full_disk_refuses_is_no_run(
    services: Services,
    finished: str,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    start_method: str,
    expected_state: tuple[JobState, int],
) -> None:
    job = services.jobs.create(raw_job(1, **ALONE)).id if start_method == "start" else finished
    view = services.jobs.queries.show(job)
    assert (view.state, view.run) == expected_state
    replace_json = Files.replace_json

    def fail_write(files: Files, path: Path, *args: Any) -> None:
        if path.name == name:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replace_json(files, path, *args)

    lifecycle = services.jobs.lifecycle
    start_run = partial(lifecycle.start, job, start_over=start_method == "over")
    if start_method == "resume":
        start_run = partial(lifecycle.resume, job, "latest")
    with monkeypatch.context() as patch:
        patch.setattr(Files, "replace_json", fail_write)
        with pytest.raises(BackendError, match="No space left"):
            start_run()
    view = services.jobs.queries.show(job)
    assert (view.state, view.run) == expected_state
    lifecycle.prepare(job, start_over=start_method != "start")
