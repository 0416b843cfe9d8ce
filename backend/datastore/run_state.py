"""What is true about a job: not what its status file says last, but what can be shown.

Believed in this order: ``exit.json``, the last word of the supervisor; the supervisor's identity
being gone (then the run has failed, and what carries its tag here is ended); a heartbeat that
advances, by this reader's own clock. A status file alone would say TRAINING for ever after the
power failed.

A reader that finds nothing new to believe keeps what it knew and says so: doubt is not a state.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from backend.datastore.job_files import stop_wish
from backend.errors import BackendError
from backend.node import identity, sweep
from backend.records.files import read_json
from backend.records.layout import JobFolder, run_tag
from backend.records.state import JobState
from backend.records.status import ProcessIdentity, RankError, RunExit, RunStatus

QUIET_S = 15.0
"""Rank 0 beats twice a second; a share may hold a file back for some seconds."""
START_LIMIT_S = 60.0
"""From the claim of a run to its supervisor's record; it takes a tenth of a second."""
_GONE_S = 1.0


@dataclass(frozen=True)
class Truth:
    """What one look found; give it back with the next look."""

    status: RunStatus
    ended: str = ""
    doubt: str = ""
    changed_at: float = 0.0
    """When the heartbeat last advanced, by this process' monotonic clock."""
    news_at: str = ""


def look(folder: JobFolder, before: Truth | None = None) -> Truth:
    """The truth about the newest run of the job.

    Raises:
        BackendError: The data root does not answer and nothing is known from before.
    """
    try:
        return _look(folder, before)
    except OSError as error:
        if before is None:
            raise BackendError(
                f"The folder of the job {folder.job_id} cannot be read: {error.strerror or error}."
            ) from error
        return _no_news(before)


def _look(folder: JobFolder, before: Truth | None) -> Truth:
    run = folder.newest_run()
    if run == 0:
        return Truth(RunStatus(JobState.CREATED))
    status = _status(folder, run, before)
    ending = _ending(folder, run)
    if ending is None and not _is_watched(folder, run):
        # It may have written its last word between the two looks.
        ending = _ending(folder, run) or _died(folder, run)
    if ending is not None:
        return Truth(
            replace(
                status,
                run=run,
                state=ending.state,
                message=ending.message,
                error=ending.error,
                eta_s=None,
            ),
            ended=ending.ended,
        )
    if status.state.is_over or status.state is JobState.CREATED:
        status = replace(status, state=JobState.STARTING)
    if stop_wish(folder, run):
        status = replace(status, state=JobState.STOPPING)
    now = time.monotonic()
    if before is None or (before.status.run, before.status.heartbeat) != (run, status.heartbeat):
        return Truth(status, changed_at=now, news_at=_clock())
    fresh = Truth(status, changed_at=before.changed_at, news_at=before.news_at)
    return _no_news(fresh) if now - fresh.changed_at > QUIET_S else fresh


def _status(folder: JobFolder, run: int, before: Truth | None) -> RunStatus:
    """What the run says of itself; the last good value where that cannot be read."""
    try:
        status = RunStatus.from_dict(read_json(folder.status))
    except (FileNotFoundError, ValueError):
        status = before.status if before is not None else RunStatus(JobState.STARTING, run=run)
    return status if status.run == run else replace(status, state=JobState.STARTING, run=run)


def _ending(folder: JobFolder, run: int) -> RunExit | None:
    try:
        return RunExit.from_dict(read_json(folder.attempt(run).exit))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def _is_watched(folder: JobFolder, run: int) -> bool:
    """Whether a supervisor is there, or may be there soon, or is where this reader cannot see."""
    supervisor = _supervisor(folder, run)
    if supervisor is None:
        claimed = folder.attempt(run).path.stat().st_mtime
        return time.time() - claimed < START_LIMIT_S
    return not identity.is_here(supervisor) or identity.is_alive(supervisor)


def _supervisor(folder: JobFolder, run: int) -> ProcessIdentity | None:
    try:
        return ProcessIdentity.from_dict(read_json(folder.attempt(run).supervisor))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def _died(folder: JobFolder, run: int) -> RunExit:
    """A run whose supervisor is gone without a word; nothing of it may hold a GPU any longer."""
    supervisor = _supervisor(folder, run)
    with contextlib.suppress(OSError):
        sweep.end_tagged(run_tag(folder.job_id, run), _GONE_S, lambda: None)
    if supervisor is None:
        sentence = "The start was broken off before the run had a supervisor; start it again."
    elif supervisor.boot_id != identity.boot_id():
        sentence = "The computer was restarted while the job ran."
    else:
        sentence = "The supervisor of the run was killed, and the run with it."
    return RunExit(run, JobState.ERROR, "", RankError(sentence))


def _no_news(known: Truth) -> Truth:
    return replace(known, doubt=f"no news since {known.news_at}" if known.news_at else "no news")


def _clock() -> str:
    return datetime.now(UTC).astimezone().strftime("%H:%M")
