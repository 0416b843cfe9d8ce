"""The cores that this process may use, by affinity and by the quotas of its cgroups."""

from __future__ import annotations

from pathlib import Path

import pytest

from backend.base import cores

JOB = "user.slice/job.scope"


@pytest.mark.parametrize(
    ("own_cgroups", "files", "core_count"),
    [
        ("0::/\n", {"cpu.max": "200000 100000"}, 2),
        (f"0::/{JOB}\n", {f"{JOB}/cpu.max": "300000 100000"}, 3),
        (f"0::/{JOB}\n", {f"{JOB}/cpu.max": "300000 100000", "user.slice/cpu.max": "9 9"}, 1),
        (f"0::/{JOB}\n", {f"{JOB}/cpu.max": "max 100000", "cpu.max": "max 100000"}, 64),
        ("0::/\n", {"cpu.max": "150000 100000"}, 1),
        ("0::/\n", {"cpu.max": "50000 100000"}, 1),
        ("0::/\n", {"cpu.max": "9900000 100000"}, 64),
        ("0::/docker/4711\n", {"cpu.max": "400000 100000"}, 4),
        (
            "4:memory:/a\n3:cpu,cpuacct:/a\n0::/a\n",
            {"cpu/a/cpu.cfs_quota_us": "250000\n", "cpu/a/cpu.cfs_period_us": "50000\n"},
            5,
        ),
        (
            "3:cpuacct,cpu:/docker/4711\n",
            {"cpu/cpu.cfs_quota_us": "200000\n", "cpu/cpu.cfs_period_us": "100000\n"},
            2,
        ),
        ("3:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 64),
        ("5:cpuset:/a\n", {"cpuset/a/cpu.cfs_quota_us": "100000"}, 64),
        ("", {}, 64),
    ],
)
def test_the_least_of_affinity_and_quotas_counts(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    own_cgroups: str,
    files: dict[str, str],
    core_count: int,
) -> None:
    for name, text in {
        "own": own_cgroups,
        **{f"cgroups/{name}": content for name, content in files.items()},
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(cores, "_OWN_CGROUPS", str(tmp_path / "own"))
    monkeypatch.setattr(cores, "_CGROUPS", str(tmp_path / "cgroups"))
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(64)))
    assert cores.usable_cores() == core_count


def test_a_system_without_cgroups_has_the_cores_of_its_affinity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cores, "_OWN_CGROUPS", str(tmp_path / "none"))
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {3, 5})
    assert cores.usable_cores() == 2
