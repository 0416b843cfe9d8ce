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
BEGIN, END = "<!-- measured -->\n", "<!-- end -->\n"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.study_pages")
    parser.add_argument("names", nargs="+", metavar="NAME")
    parser.add_argument("--data-root", type=Path, help="keep the jobs there")
    parser.add_argument("--started", metavar="SWEEP", help="write this one, and run nothing")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = given.data_root or Path(folder) / "root"
        services = open_services(root, Path(folder) / "catalogue.sqlite")
        try:
            if given.started:
                write_table(services, given.names[0], given.started)
                return 0
            failed = [name for name in given.names if not measure(services, name)]
        finally:
            services.close()
    return 1 if failed else 0


def measure(services: Services, name: str) -> bool:
    """Run a study and write its table; return whether all its jobs finished."""
    made = services.studies.start(name)
    ends = []
    for number, view in enumerate(made.jobs, 1):
        # Between the queue and the start of its run a job is a draft for a moment.
        ended = services.jobs.queries.wait(view.id, is_finished=lambda now: now.state.is_over)
        ends.append(ended)
        services.reaper.reap(view.id)
        sys.stderr.write(f"{number} of {len(made.jobs)}: {view.name}, {ends[-1].state.label}\n")
    write_table(services, name, made.tag)
    return all(view.state is JobState.FINISHED for view in ends)


def write_table(services: Services, name: str, sweep: str) -> None:
    """Write the table of a started study into its page."""
    table = services.studies.table(services.studies.find_started(sweep))
    write(name, table, f"Measured on {os.cpu_count()} cores, {datetime.now(UTC):%Y-%m-%d}.")


def write(name: str, table: StudyTable, how: str) -> None:
    """Write a table and how it was measured into a page, and the values by seed beside it."""
    path = PAGES / f"{name}.md"
    measured = f"{markdown_text(table)}\n{how} Values by seed: [{name}.csv]({name}.csv).\n"
    before, after = "", ""
    if path.exists():
        before, _, rest = path.read_text().partition(BEGIN)
        after = rest.partition(END)[2]
    if before:
        measured = f"#{measured}"
    path.write_text(f"{before}{BEGIN}{measured}{END}{after}")
    path.with_suffix(".csv").write_text(csv_text(table))


if __name__ == "__main__":
    sys.exit(main())
