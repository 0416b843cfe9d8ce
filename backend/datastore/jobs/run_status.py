"""What is true about a job's newest run, whatever its files say.

Believed in this order: ``exit.json``; the supervisor's identity being gone (then the run ended,
and what carries its tag here is ended too); a heartbeat that advances by this reader's own clock.
A status that says TRAINING proves nothing: its writer may have died a week ago. No two machines'
clocks are compared, and a file that cannot be read changes no state, it only casts doubt.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from backend.base.errors import BackendError
from backend.datastore.access.root_access import MOUNTED, DataRootAccess
from backend.node.queue import entries as queue_entries
from backend.node.run.finalize import ENDED_UNRECORDED, Supervision, close_run, supervision_of
from backend.records.base.atomic_files import read_json
from backend.records.base.layout import JobFolder
from backend.records.jobs.history_update import HistoryUpdate
from backend.records.jobs.state import JobState
from backend.records.jobs.status import ProcessIdentity, RunExit, RunStatus
from backend.records.jobs.stop_request import who_wished, write_stop_request

DOUBT_AFTER_S = 30.0
START_LIMIT_S = 120.0
"""A supervisor leaves its record within a second of its start, or it never started."""


@dataclass(frozen=True)
class RunFacts:
    """Everything that `judge` goes by. ``run`` is 0 when there was none yet.

    ``status`` is the last good reading, ``problems`` say what could not be read since.
    ``stopped_by`` is whose wish it is that the run stops, or "".
    ``silent_s`` counts since the heartbeat last advanced, ``claimed_s`` since the run was claimed.
    """

    run: int = 0
    exit: RunExit | None = None
    status: RunStatus | None = None
    supervision: Supervision = Supervision.NOT_SEEN
    claimed_s: float = 0.0
    silent_s: float = 0.0
    last_news: str = ""
    stop_is_wished: bool = False
    stopped_by: str = ""
    is_queued: bool = False
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class RunState:
    """What is true: ``status`` carries the true state, message and error beside the figures.

    ``doubt`` is "no news since 14:02" or ""; doubt is not a state. ``ended_unrecorded`` is the
    sentence about a run that ended and wrote nothing; somebody has to write it then.
    """

    status: RunStatus
    doubt: str = ""
    problems: tuple[str, ...] = ()
    ended_unrecorded: str = ""

    @property
    def state(self) -> JobState:
        return self.status.state


def judge(evidence: RunFacts) -> RunState:
    """The state that the evidence proves. Pure."""
    run = evidence.run
    status = evidence.status
    if run == 0:
        state = JobState.QUEUED if evidence.is_queued else JobState.CREATED
        return RunState(RunStatus(state), problems=evidence.problems)
    if status is None or status.run != run:
        status = RunStatus(JobState.STARTING, run=run)
    if evidence.exit is not None:
        over = status.ended_as(evidence.exit)
        if evidence.is_queued:
            over = replace(status, state=JobState.QUEUED, message="", error=None, eta_s=None)
        return RunState(over, problems=evidence.problems)
    unrecorded = _unrecorded(evidence)
    if unrecorded:
        over = replace(status, state=JobState.ERROR, message=unrecorded)
        return RunState(over, problems=evidence.problems, ended_unrecorded=unrecorded)
    if evidence.stop_is_wished and status.state.is_live:
        by = f"{evidence.stopped_by} stops it." if evidence.stopped_by else ""
        said = status.message if status.state is JobState.STOPPING else ""
        status = replace(status, state=JobState.STOPPING, message=said or by)
    doubt = _doubt(evidence, status)
    return RunState(_unforeseen(status) if doubt else status, doubt, evidence.problems)


def _unrecorded(evidence: RunFacts) -> str:
    if evidence.supervision in ENDED_UNRECORDED:
        return ENDED_UNRECORDED[evidence.supervision]
    if evidence.supervision is Supervision.NOT_SEEN and evidence.claimed_s > START_LIMIT_S:
        return f"The run did not start within {START_LIMIT_S:.0f} s."
    return ""


def _unforeseen(status: RunStatus) -> RunStatus:
    """The status without what is true only while news comes."""
    return replace(status, eta_s=None, samples_per_second=None)


def _doubt(evidence: RunFacts, status: RunStatus) -> str:
    if not status.state.is_live or evidence.silent_s <= DOUBT_AFTER_S:
        return ""
    # Nobody writes a heartbeat before rank 0 is up; a living supervisor is news enough until then.
    if evidence.supervision is Supervision.ALIVE and status.heartbeat == 0:
        return ""
    return f"no news since {evidence.last_news}" if evidence.last_news else "no news"


class RunStateReader:
    """Looks at one job again and again; remembers what it saw between two looks.

    `look` may end processes and write: a run here that ended without a record is closed by the
    first who notices, so that nothing of it holds a GPU and every other reader knows.
    """

    def __init__(
        self,
        folder: JobFolder,
        monotonic: Callable[[], float] = time.monotonic,
        share: DataRootAccess = MOUNTED,
    ) -> None:
        self._folder = folder
        self._share = share
        self._monotonic = monotonic
        self._last: RunState | None = None
        self._status: RunStatus | None = None
        self._beat: tuple[int, int] = (0, 0)
        self._run = 0
        self._run_since = monotonic()
        self._news_at = monotonic()
        self._last_news = ""

    def read(self) -> RunState:
        """One look.

        Raises:
            BackendError: The folder cannot be read, and never could.
        """
        try:
            self._share.refresh_job(self._folder)
            evidence = self._collect()
        except OSError as error:
            what = f"The job's folder {self._folder.path} cannot be read: {error.strerror}."
            told = BackendError(what, "Check that the data root is mounted.")
            told.__cause__ = error
            return self.without_news(told)
        except BackendError as error:
            if self._last is None and self._share.is_mounted:
                # A node that carries the run is silent: nothing is concluded from that.
                known = judge(replace(self._collect(), claimed_s=0.0))
                self._last = replace(known, ended_unrecorded="")
            return self.without_news(error)
        found = judge(evidence)
        if found.ended_unrecorded:
            found = self._close(evidence, found)
        self._last = found
        return found

    def without_news(self, told: BackendError) -> RunState:
        """What was seen last, in doubt because of this.

        Raises:
            BackendError: ``told``; nothing was ever seen.
        """
        if self._last is None:
            raise told
        last = self._last
        if last.state.is_live:
            status = _unforeseen(last.status)
            last = replace(last, status=status, doubt=f"no news since {self._last_news}")
        return replace(last, problems=(told.sentence,))

    def _collect(self) -> RunFacts:
        folder, now = self._folder, self._monotonic()
        problems: list[str] = []
        run = folder.newest_run()
        if run != self._run:
            self._run, self._run_since = run, now
        self._read_status(problems)
        if self._status is not None:
            beat = (self._status.run, self._status.heartbeat)
            if beat != self._beat or not self._last_news:
                self._beat, self._news_at = beat, now
                self._last_news = f"{datetime.now(UTC).astimezone():%H:%M}"
        supervision = self._supervision(run, problems)
        # Read last: a supervisor writes it before it goes, so that one that is gone without it
        # has left none.
        ended = self._read_exit(run, problems)
        if ended is not None and not self._has_ended(run):
            # It came between the two reads; the figures before it are not the last ones.
            self._share.refresh_job(folder)
            self._read_status(problems)
        stop = False
        with suppress(OSError):
            stop = run > 0 and write_stop_request(folder.lock, run)
        return RunFacts(
            run=run,
            exit=ended,
            status=self._status,
            supervision=supervision,
            claimed_s=self._claimed_s(run, now) if supervision is Supervision.NOT_SEEN else 0.0,
            silent_s=now - self._news_at,
            last_news=self._last_news,
            stop_is_wished=stop,
            stopped_by=who_wished(folder.lock) if stop else "",
            is_queued=queue_entries.entry_of(folder) is not None,
            problems=tuple(problems),
        )

    def _has_ended(self, run: int) -> bool:
        status = self._status
        return status is not None and status.run == run and status.state.is_over

    def _read_status(self, problems: list[str]) -> None:
        try:
            self._status = RunStatus.from_dict(read_json(self._folder.status))
        except FileNotFoundError:
            if self._status is not None:
                problems.append("status.json is gone; the values are the last ones seen.")
        except (OSError, ValueError, OverflowError) as error:
            shown = "the last good ones" if self._status is not None else "missing"
            problems.append(f"status.json cannot be read, so the values are {shown}: {error}.")

    def _read_exit(self, run: int, problems: list[str]) -> RunExit | None:
        if run == 0:
            return None
        try:
            return RunExit.from_dict(read_json(self._folder.attempt(run).exit))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
            problems.append(f"exit.json of run {run} cannot be read: {error}.")
            return None

    def _supervision(self, run: int, problems: list[str]) -> Supervision:
        if run == 0:
            return Supervision.NOT_SEEN
        try:
            raw = read_json(self._folder.attempt(run).supervisor)
            supervisor = ProcessIdentity.from_dict(raw)
        except FileNotFoundError:
            return Supervision.NOT_SEEN
        except (OSError, ValueError, KeyError, TypeError) as error:
            problems.append(f"supervisor.json of run {run} cannot be read: {error}.")
            return Supervision.ELSEWHERE
        return supervision_of(supervisor)

    def _claimed_s(self, run: int, now: float) -> float:
        """Age of the claim, by this reader's clock or by the share's, never by a mix of two."""
        seen_s = now - self._run_since
        if run == 0 or seen_s > START_LIMIT_S:
            return seen_s
        attempt = self._folder.attempt(run).path
        try:
            claimed = attempt.stat().st_mtime
            if time.time() - claimed <= START_LIMIT_S:
                return seen_s
            # Our clock may be ahead of the share's: ask the share for its own time.
            with tempfile.NamedTemporaryFile(dir=attempt, prefix=".now-") as file:
                return max(seen_s, os.fstat(file.fileno()).st_mtime - claimed)
        except OSError:
            return seen_s

    def _close(self, evidence: RunFacts, found: RunState) -> RunState:
        """Write down the end of a run that nobody else will write down, and clear up here."""
        status, problem = close_run(
            self._folder, evidence.run, found.ended_unrecorded, evidence.status
        )
        if not problem:
            try:
                self._share.notify_end(self._folder, evidence.run)
            except BackendError as error:
                problem = error.sentence
        if problem:
            return RunState(status, problems=(*evidence.problems, problem))
        self._status = status
        return RunState(status, problems=evidence.problems)


def with_ends(history: HistoryUpdate, folder: JobFolder) -> HistoryUpdate:
    """``history`` with how the run before each of its runs ended, where that is on record."""
    if not history.run_starts:
        return history
    starts = (replace(one, after=_ended_as(folder, one.run - 1)) for one in history.run_starts)
    return replace(history, run_starts=tuple(starts))


def _ended_as(folder: JobFolder, run: int) -> JobState | None:
    if run < 1:
        return None
    try:
        return RunExit.from_dict(read_json(folder.attempt(run).exit)).state
    except (OSError, ValueError, KeyError, TypeError):
        return None
