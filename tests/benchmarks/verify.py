"""S36: a check of 1,000 jobs; hashing beside ``sha256sum`` of the same files in the same run."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import tempfile
import time
from contextlib import closing
from pathlib import Path

from backend.records.library.item import Kind
from backend.services.context.container import Services, open_services
from tests.backend.services.verify.damages import NAMES, checkpoint
from tests.benchmarks.figures import Figure
from tests.fakes import trained
from tests.fakes.mounted_root import mounted

JOBS, PAIRS = 1000, 5
LARGE_BYTES, LARGE_COUNT, SMALL_BYTES, SMALL_COUNT = 100_000_000, 4, 100_000, 2000


def measure() -> list[Figure]:
    # Where the data is, not where it is only memory: /tmp is that on some machines.
    with tempfile.TemporaryDirectory(dir=os.environ.get("RINGMASTER_BENCH_DIR")) as name:
        folder = Path(name)
        return [
            _jobs(folder),
            _hashes(folder, LARGE_COUNT, LARGE_BYTES, f"{LARGE_COUNT} × 100 MB"),
            _hashes(folder, SMALL_COUNT, SMALL_BYTES, f"{SMALL_COUNT:,} × 100 kB"),
        ]


def _jobs(folder: Path) -> Figure:
    root = folder / "jobs"
    with closing(open_services(root, folder / "jobs.sqlite")) as services:
        first_job = mounted(root).job(trained.job(root, "job", [0.5] * 30))
        for name in NAMES:
            checkpoint(first_job, name, name.encode())
        for number in range(JOBS - 1):
            shutil.copytree(first_job.path, root / "jobs" / f"20261124-{number:06}")
        services.library.rescan()
        times, own_times = [], []
        for _ in range(PAIRS):
            started_s, used_s = time.perf_counter(), time.process_time()
            verification = services.verification.verify()
            times.append(time.perf_counter() - started_s)
            own_times.append(time.process_time() - used_s)
            assert (verification.jobs, verification.checkpoints) == (JOBS, JOBS * len(NAMES))
    context = f"{statistics.median(own_times):.2f} s of processor time"
    title = f"check of {JOBS:,} jobs without contents"
    return Figure("S36", title, tuple(times), 5, "s", context=context)


def _hashes(folder: Path, count: int, size: int, name: str) -> Figure:
    source, root = folder / "source", folder / "root"
    source.mkdir()
    for number in range(count):
        (source / f"{number}.bin").write_bytes(os.urandom(size))
    with closing(open_services(root, folder / "root.sqlite")) as services:
        services.library.import_item(Kind.DATASET, source, "x")
        content = services.library.content(Kind.DATASET, "x")
        ratios = [_sha256sum(content) / _verify(services) for _ in range(PAIRS)]
    for path in (source, root):
        shutil.rmtree(path)
    (folder / "root.sqlite").unlink()
    return Figure(
        "S36", f"hashing {name}, speed of ours by sha256sum", tuple(ratios), 0.9, at_least=True
    )


def _sha256sum(content: Path) -> float:
    started_s = time.perf_counter()
    subprocess.run(["sha256sum", "--quiet", "-c", "../files.sha256"], cwd=content, check=True)
    return time.perf_counter() - started_s


def _verify(services: Services) -> float:
    started_s = time.perf_counter()
    assert services.verification.verify(hashes=True).findings == ()
    return time.perf_counter() - started_s
