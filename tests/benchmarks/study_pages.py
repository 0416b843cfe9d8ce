"""``python -m tests.benchmarks.study_pages NAME…``: run studies, and write their tables into docs.

The small form of each runs in a data root of its own, one study after the other. The table replaces
what is between two marks of ``docs/studies/NAME.md``; the sentences around it are written by hand.
The values by seed are in ``NAME.csv`` beside it. ``--started SWEEP`` writes those of a study that
was run before in ``--data-root``.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from backend.records.jobs.state import JobState
from backend.records.studies.table import StudyTable, csv_text, markdown_text
from backend.services.context.container import Services, open_services

PAGES = Path(__file__).parents[2] / "docs" / "studies"
START, END = "<!-- measured -->\n", "<!-- end -->\n"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.study_pages")
    parser.add_argument("names", nargs="+", metavar="NAME")
    parser.add_argument("--data-root", type=Path, help="keep the jobs there")
    parser.add_argument("--started", metavar="SWEEP", help="write this one, and run nothing")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = args.data_root or Path(folder) / "root"
        services = open_services(root, Path(folder) / "catalogue.sqlite")
        try:
            if args.started:
                write_table(services, args.names[0], args.started)
                return 0
            failed_names = [name for name in args.names if not measure(services, name)]
        finally:
            services.close()
    return 1 if failed_names else 0


def measure(services: Services, name: str) -> bool:
    """Run a study and write its table; return whether all its jobs finished."""
    started_study = services.studies.start(name)
    ended_views = []
    for number, view in enumerate(started_study.jobs, 1):
        # Between the queue and the start of its run a job is a draft for a moment.
        ended_view = services.jobs.queries.wait(view.id, is_finished=lambda now: now.state.is_over)
        ended_views.append(ended_view)
        services.reaper.reap(view.id)
        sys.stderr.write(
            f"{number} of {len(started_study.jobs)}: {view.name}, {ended_views[-1].state.label}\n"
        )
    write_table(services, name, started_study.tag)
    return all(view.state is JobState.FINISHED for view in ended_views)


def write_table(services: Services, name: str, sweep: str) -> None:
    """Write the table of a started study into its page."""
    table = services.studies.table(services.studies.find_started(sweep))
    write(name, table, f"Measured on {os.cpu_count()} cores, {datetime.now(UTC):%Y-%m-%d}.")


def write(name: str, table: StudyTable, origin: str) -> None:
    """Write a table and how it was measured into a page, and the values by seed beside it."""
    path = PAGES / f"{name}.md"
    section = f"{markdown_text(table)}\n{origin} Values by seed: [{name}.csv]({name}.csv).\n"
    head, tail = "", ""
    if path.exists():
        head, _, remaining_text = path.read_text().partition(START)
        tail = remaining_text.partition(END)[2]
    if head:
        section = f"#{section}"
    path.write_text(f"{head}{START}{section}{END}{tail}")
    path.with_suffix(".csv").write_text(csv_text(table))


if __name__ == "__main__":
    sys.exit(main())
