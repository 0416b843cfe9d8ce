"""P10: opening and searching a catalogue of 100,000 jobs."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from backend.catalogue.store import open_catalogue
from backend.records.jobs.state import JobState
from tests.backend.catalogue.catalogue_rig import job
from tests.benchmarks.figures import Figure

REPETITIONS = 5
JOBS = 100_000
PAGE = 200


def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "c.sqlite"
        with closing(open_catalogue(path)) as catalogue:
            for start in range(0, JOBS, 10_000):
                catalogue.put_jobs(
                    job(number, state=list(JobState)[number % 12])
                    for number in range(start, start + 10_000)
                )
            jobs = catalogue.jobs
            return [
                _figure("opening the catalogue", lambda: open_catalogue(path).close()),
                _figure("newest page", lambda: jobs(limit=PAGE)),
                _figure("search of a word in the notes", lambda: jobs("optics 77", limit=PAGE)),
                _figure("search that finds nothing", lambda: jobs("nonsense", limit=PAGE)),
            ]


def _figure(name: str, work: Callable[[], object]) -> Figure:
    times = []
    for _ in range(REPETITIONS):
        started_s = time.perf_counter()
        work()
        times.append(1000 * (time.perf_counter() - started_s))
    return Figure("P10", f"{name}, {JOBS:,} jobs", tuple(times), 100, "ms")
