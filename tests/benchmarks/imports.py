"""P12: importing a folder beside ``cp -r`` and a zip file beside ``unzip`` with ``sha256sum``.

An import is on the disk when it is done, so the others are followed by ``sync`` of their file
system; the ratio without it, where the others only fill the cache, is given as context.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import tempfile
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path

from backend.base.progress import Progress
from backend.datastore.library.imports import import_version
from backend.records.library.item import Kind
from tests.benchmarks.figures import Figure
from tests.fakes.mounted_root import mounted

PAIRS = 5
LARGE_BYTES = 100_000_000
HASH_ALL = "find . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum"


def measure() -> list[Figure]:
    # Where the data is, not where it is only memory: /tmp is that on some machines.
    with tempfile.TemporaryDirectory(dir=os.environ.get("RINGMASTER_BENCH_DIR")) as name:
        folder = Path(name)
        large_folder, small_folder = folder / "large", folder / "small"
        large_folder.mkdir()
        for number in range(4):
            (large_folder / f"{number}.bin").write_bytes(os.urandom(LARGE_BYTES))
        for number in range(10_000):
            path = small_folder / f"{number // 100:03d}" / f"{number}.bin"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(os.urandom(4_000))
        zip_file = folder / "mixed.zip"
        with zipfile.ZipFile(zip_file, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
            for number in range(40):
                rows = os.urandom(2_000_000).hex()
                archive.writestr(f"{number}.csv", rows)
        return [
            _pair(
                folder,
                large_folder,
                "folder of 4 × 100 MB",
                [["cp", "-r", str(large_folder), "COPY"]],
            ),
            _pair(
                folder,
                small_folder,
                "folder of 10,000 × 4 kB",
                [["cp", "-r", str(small_folder), "COPY"]],
            ),
            _pair(
                folder,
                zip_file,
                "zip of 40 × 4 MB",
                [
                    ["unzip", "-q", str(zip_file), "-d", "COPY"],
                    ["sh", "-c", f"cd COPY && {HASH_ALL}"],
                ],
            ),
        ]


def _pair(folder: Path, source: Path, name: str, commands: Sequence[Sequence[str]]) -> Figure:
    ratios, without_sync = [], []
    for _ in range(PAIRS):
        copy = folder / "copy"
        os.sync()
        started_s = time.perf_counter()
        for command in commands:
            argv = [word.replace("COPY", str(copy)) for word in command]
            subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
        cached_s = time.perf_counter() - started_s
        subprocess.run(["sync", "-f", str(copy)], check=True)
        commands_s = time.perf_counter() - started_s
        shutil.rmtree(copy)
        root = folder / "root"
        root.mkdir()
        os.sync()
        started_s = time.perf_counter()
        import_version(mounted(root), Kind.DATASET, source, "x", Progress())
        import_s = time.perf_counter() - started_s
        shutil.rmtree(root)
        ratios.append(commands_s / import_s)
        without_sync.append(cached_s / import_s)
    return Figure(
        "P12",
        f"importing a {name}, speed of ours by theirs",
        tuple(ratios),
        0.9,
        at_least=True,
        context=f"{statistics.median(without_sync):.2f} of theirs without sync",
    )
