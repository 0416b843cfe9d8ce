"""The logs of a job by line: one rank's, mpirun's, or all of them together.

Together, lines are in the order in which they were first read: existing lines rank by rank, because
a log has no times, and new lines as they arrive.
"""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_right
from collections import OrderedDict
from dataclasses import dataclass, field

from backend.base.errors import BackendError
from backend.base.progress import Progress
from backend.datastore.access.root_access import OpenJob, OpenRoot
from backend.datastore.jobs.files import read_job
from backend.datastore.jobs.log_index import MOST_MATCHES, LogIndex
from backend.records.jobs.view import ALL_LOGS, MPIRUN_LOG, LogLines, LogMatches, LogSize

_KEPT = 32


class SingleLog:
    """The log of one rank, or of mpirun."""

    def __init__(self, index: LogIndex) -> None:
        self._index = index

    def read_size(self, progress: Progress) -> LogSize:
        self._index.refresh(progress)
        index = self._index
        return LogSize(index.lines, index.size_bytes, index.generation, index.begins_at)

    def lines(self, first: int, count: int) -> LogLines:
        return LogLines(max(0, first), self._index.read(first, count), self._index.generation)

    def find(self, text: str, from_line: int, progress: Progress) -> LogMatches:
        searched = self._index.whole_lines
        found, is_cut = self._index.find(text, progress, from_line)
        return LogMatches(text, found, searched, self._index.generation, is_cut)

    def first_error(self, progress: Progress) -> int | None:
        return self._index.first_error(progress)


class CombinedLogs:
    """All logs of a job in the order in which their lines were read.

    Consecutive lines of one log are a stretch of three numbers; 32 ranks that are followed for a
    day have a million.
    """

    def __init__(self, indexes: dict[str, LogIndex]) -> None:
        self._indexes = indexes
        self._names = list(indexes)
        self._generation = 0
        self._start_again()

    def read_size(self, progress: Progress) -> LogSize:
        before = {name: index.generation for name, index in self._indexes.items()}
        for index in self._indexes.values():
            index.refresh(progress)
        if any(index.generation != before[name] for name, index in self._indexes.items()):
            self._generation += 1
            self._start_again()
        for name, index in self._indexes.items():
            # An incomplete line may still grow: it is added when it is complete.
            new = index.whole_lines - self._taken[name]
            if new <= 0:
                continue
            source = self._names.index(name)
            if not self._sources or self._sources[-1] != source:
                self._starts.append(self._total)
                self._sources.append(source)
                self._firsts.append(self._taken[name])
            self._taken[name] += new
            self._total += new
        size = sum(index.size_bytes for index in self._indexes.values())
        begins_at = max((index.begins_at for index in self._indexes.values()), default=0)
        return LogSize(self._total, size, self._generation, begins_at)

    def lines(self, first: int, count: int) -> LogLines:
        first = max(0, first)
        end = min(first + count, self._total)
        found: list[str] = []
        sources: list[str] = []
        at = first
        while at < end:
            number = bisect_right(self._starts, at) - 1
            source = self._names[self._sources[number]]
            is_last = number + 1 == len(self._starts)
            upto = min(end, self._total if is_last else self._starts[number + 1])
            own = self._firsts[number] + at - self._starts[number]
            texts = self._indexes[source].read(own, upto - at)
            if not texts:
                break
            found += texts
            sources += [source] * len(texts)
            at += len(texts)
        return LogLines(first, tuple(found), self._generation, tuple(sources))

    def find(self, text: str, from_line: int, progress: Progress) -> LogMatches:
        found: list[int] = []
        is_cut = False
        searched = self._total
        for name, index in self._indexes.items():
            own, cut = index.find(text, progress)
            is_cut |= cut
            found += [at for at in self._places(name, own) if at >= from_line]
        found.sort()
        return LogMatches(
            text,
            tuple(found[:MOST_MATCHES]),
            searched,
            self._generation,
            is_cut or len(found) > MOST_MATCHES,
        )

    def first_error(self, progress: Progress) -> int | None:
        places = []
        for name, index in self._indexes.items():
            own = index.first_error(progress)
            if own is not None:
                places += self._places(name, (own,))
        return min(places, default=None)

    def _places(self, source: str, lines: tuple[int, ...]) -> list[int]:
        """Return the positions of one log's lines among all lines; both are in order."""
        wanted = self._names.index(source)
        own = [number for number, one in enumerate(self._sources) if one == wanted]
        firsts = [self._firsts[number] for number in own]
        found = []
        for line in lines:
            if own and line < self._taken[source]:
                number = own[bisect_right(firsts, line) - 1]
                found.append(self._starts[number] + line - self._firsts[number])
        return found

    def _start_again(self) -> None:
        self._total = 0
        self._taken = dict.fromkeys(self._indexes, 0)
        self._starts = array("q")
        self._sources = array("i")
        self._firsts = array("q")


@dataclass
class _Open:
    log: SingleLog | CombinedLogs
    busy: threading.Lock = field(default_factory=threading.Lock)


class LogService:
    """Read logs. Every call blocks and may run on any thread; calls about one log wait.

    ``job_id`` may be a result of `earlier_log`: the logs that starting over put away.
    """

    def __init__(self, root: OpenRoot) -> None:
        self._root = root
        self._open: OrderedDict[tuple[str, str], _Open] = OrderedDict()
        self._lock = threading.Lock()

    def read_size(self, job_id: str, source: str, progress: Progress | None = None) -> LogSize:
        """Return the current size. ``source``: the number of a rank, "mpirun" or "all".

        Raises:
            BackendError: It cannot be read.
        """
        with self._taken(job_id, source) as log:
            return log.read_size(progress or Progress())

    def lines(self, job_id: str, source: str, first: int, count: int) -> LogLines:
        """Return lines from number ``first`` on, up to the size that was last read."""
        with self._taken(job_id, source) as log:
            return log.lines(first, count)

    def find(
        self,
        job_id: str,
        source: str,
        text: str,
        from_line: int = 0,
        progress: Progress | None = None,
    ) -> LogMatches:
        """Find the lines that contain ``text``, ignoring case."""
        # A search takes long, and the visible lines must not wait for it.
        with self._taken(job_id, source, alone=False) as log:
            return log.find(text, from_line, progress or Progress())

    def first_error(self, job_id: str, source: str, progress: Progress | None = None) -> int | None:
        """Return the number of the first line that looks like an error."""
        with self._taken(job_id, source, alone=False) as log:
            return log.first_error(progress or Progress())

    def _taken(self, job_id: str, source: str, alone: bool = True) -> _Turn:
        with self._lock:
            key = (job_id, source)
            if key not in self._open:
                self._open[key] = _Open(self._opened(job_id, source))
                while len(self._open) > _KEPT:
                    self._open.popitem(last=False)
            self._open.move_to_end(key)
            return _Turn(self._open[key], source, alone)

    def _opened(self, job_id: str, source: str) -> SingleLog | CombinedLogs:
        folder = self._root.job(job_id)
        if source == ALL_LOGS:
            # Runs that were put away have no job file of their own.
            file = read_job(self._root.job(job_id.partition("/")[0]))
            ranks = range(file.config.world_size)
            names = [MPIRUN_LOG, *(str(rank) for rank in ranks)]
            return CombinedLogs({name: self._index(folder, name) for name in names})
        return SingleLog(self._index(folder, source))

    def _index(self, folder: OpenJob, source: str) -> LogIndex:
        path = folder.mpirun_log if source == MPIRUN_LOG else folder.rank_log(int(source))
        return LogIndex(path, self._root.files)


class _Turn:
    """One call about one log; turns errors into `BackendError`."""

    def __init__(self, opened: _Open, source: str, alone: bool) -> None:
        self._opened = opened
        self._source = source
        self._alone = alone

    def __enter__(self) -> SingleLog | CombinedLogs:
        if self._alone:
            self._opened.busy.acquire()
        return self._opened.log

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self._alone:
            self._opened.busy.release()
        if isinstance(error, OSError):
            whose = f"rank {self._source}" if self._source.isdecimal() else self._source
            raise BackendError(
                f"The log of {whose} cannot be read: {error.strerror or error}."
            ) from error
