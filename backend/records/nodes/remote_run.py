"""A run on nodes that do not see the data root: the place of its files until they are fetched.

Standard library only and Python 3.9: the records are.
"""

from __future__ import annotations

from dataclasses import dataclass

from backend.base.log import swallowed
from backend.records.base.atomic_files import read_json
from backend.records.base.layout import AttemptFolder
from backend.records.base.schema import Record


@dataclass(frozen=True)
class RemoteRun(Record, label="record of a run elsewhere", required=("is_home",)):
    """``attempts/<n>/carried.json``. ``node`` leads the run; ``is_home``: all files are fetched."""

    node: str
    is_home: bool = False


def remote_run_of(attempt: AttemptFolder) -> RemoteRun | None:
    """Read the record of a run, None if its files are written to the data root itself."""
    try:
        return RemoteRun.from_dict(read_json(attempt.staged_marker))
    except (OSError, ValueError) as error:
        swallowed(error)
        return None
