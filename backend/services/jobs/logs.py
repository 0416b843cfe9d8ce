"""The logs of a job by line: the log of a rank, that of mpirun, or all logs combined.

Combined lines are in the order in which they were first read: existing lines rank by rank, because
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

_MAX_OPEN_LOGS = 32


class SingleLog:
    """The log of one rank, or of mpirun."""

    def __init__(self, index: LogIndex) -> None:
        self._index = index

    def read_size(self, progress: Progress) -> LogSize:
        self._index.refresh(progress)
        index = self._index
        return LogSize(index.lines, index.size_bytes, index.generation, index.begins_at)

    def lines(self, start: int, count: int) -> LogLines:
        return LogLines(max(0, start), self._index.read(start, count), self._index.generation)

    def find(self, text: str, from_line: int, progress: Progress) -> LogMatches:
        searched_lines = self._index.whole_lines
        line_numbers, is_cut = self._index.find(text, progress, from_line)
        return LogMatches(text, line_numbers, searched_lines, self._index.generation, is_cut)

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
        self._reset()

    def read_size(self, progress: Progress) -> LogSize:
        previous_generations = {name: index.generation for name, index in self._indexes.items()}
        for index in self._indexes.values():
            index.refresh(progress)
        if any(
            index.generation != previous_generations[name] for name, index in self._indexes.items()
        ):
            self._generation += 1
            self._reset()
        for name, index in self._indexes.items():
            # An incomplete line may still grow, and is added later.
            new_lines = index.whole_lines - self._merged_lines[name]
            if new_lines <= 0:
                continue
            source = self._names.index(name)
            if not self._sources or self._sources[-1] != source:
                self._starts.append(self._total)
                self._sources.append(source)
                self._first_lines.append(self._merged_lines[name])
            self._merged_lines[name] += new_lines
            self._total += new_lines
        size = sum(index.size_bytes for index in self._indexes.values())
        begins_at = max((index.begins_at for index in self._indexes.values()), default=0)
        return LogSize(self._total, size, self._generation, begins_at)

    def lines(self, start: int, count: int) -> LogLines:
        start = max(0, start)
        total_stop = min(start + count, self._total)
        lines: list[str] = []
        sources: list[str] = []
        position = start
        while position < total_stop:
            stretch = bisect_right(self._starts, position) - 1
            source = self._names[self._sources[stretch]]
            is_last = stretch + 1 == len(self._starts)
            stop = min(total_stop, self._total if is_last else self._starts[stretch + 1])
            source_line = self._first_lines[stretch] + position - self._starts[stretch]
            texts = self._indexes[source].read(source_line, stop - position)
            if not texts:
                break
            lines += texts
            sources += [source] * len(texts)
            position += len(texts)
        return LogLines(start, tuple(lines), self._generation, tuple(sources))

    def find(self, text: str, from_line: int, progress: Progress) -> LogMatches:
        line_numbers: list[int] = []
        is_cut = False
        searched_lines = self._total
        for name, index in self._indexes.items():
            source_lines, is_source_cut = index.find(text, progress)
            is_cut |= is_source_cut
            line_numbers += [n for n in self._positions(name, source_lines) if n >= from_line]
        line_numbers.sort()
        return LogMatches(
            text,
            tuple(line_numbers[:MOST_MATCHES]),
            searched_lines,
            self._generation,
            is_cut or len(line_numbers) > MOST_MATCHES,
        )

    def first_error(self, progress: Progress) -> int | None:
        positions = []
        for name, index in self._indexes.items():
            line = index.first_error(progress)
            if line is not None:
                positions += self._positions(name, (line,))
        return min(positions, default=None)

    def _positions(self, source: str, lines: tuple[int, ...]) -> list[int]:
        """Return the positions of one log's lines among all lines; both are in order."""
        source_number = self._names.index(source)
        stretches = [stretch for stretch, s in enumerate(self._sources) if s == source_number]
        first_lines = [self._first_lines[stretch] for stretch in stretches]
        positions = []
        for line in lines:
            if stretches and line < self._merged_lines[source]:
                stretch = stretches[bisect_right(first_lines, line) - 1]
                positions.append(self._starts[stretch] + line - self._first_lines[stretch])
        return positions

    def _reset(self) -> None:
        self._total = 0
        self._merged_lines = dict.fromkeys(self._indexes, 0)
        self._starts = array("q")
        self._sources = array("i")
        self._first_lines = array("q")


@dataclass
class _OpenLog:
    log: SingleLog | CombinedLogs
    use_lock: threading.Lock = field(default_factory=threading.Lock)


class LogService:
    """Read logs. Every call blocks and may run on any thread; calls about one log wait.

    ``job_id`` may be a result of `earlier_log`: the logs of runs before a start over.
    """

    def __init__(self, root: OpenRoot) -> None:
        self._root = root
        self._open_logs: OrderedDict[tuple[str, str], _OpenLog] = OrderedDict()
        self._lock = threading.Lock()

    def read_size(self, job_id: str, source: str, progress: Progress | None = None) -> LogSize:
        """Return the current size. ``source``: the number of a rank, "mpirun" or "all".

        Raises:
            BackendError: The log cannot be read.
        """
        with self._acquire(job_id, source) as log:
            return log.read_size(progress or Progress())

    def lines(self, job_id: str, source: str, start: int, count: int) -> LogLines:
        """Return lines from ``start`` on, up to the size that was last read."""
        with self._acquire(job_id, source) as log:
            return log.lines(start, count)

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
        with self._acquire(job_id, source, is_exclusive=False) as log:
            return log.find(text, from_line, progress or Progress())

    def first_error(self, job_id: str, source: str, progress: Progress | None = None) -> int | None:
        """Return the number of the first line that looks like an error."""
        with self._acquire(job_id, source, is_exclusive=False) as log:
            return log.first_error(progress or Progress())

    def _acquire(self, job_id: str, source: str, is_exclusive: bool = True) -> _LogAccess:
        with self._lock:
            key = (job_id, source)
            if key not in self._open_logs:
                self._open_logs[key] = _OpenLog(self._make_log(job_id, source))
                while len(self._open_logs) > _MAX_OPEN_LOGS:
                    self._open_logs.popitem(last=False)
            self._open_logs.move_to_end(key)
            return _LogAccess(self._open_logs[key], source, is_exclusive)

    def _make_log(self, job_id: str, source: str) -> SingleLog | CombinedLogs:
        folder = self._root.job(job_id)
        if source == ALL_LOGS:
            # Earlier runs have no job file of their own.
            file = read_job(self._root.job(job_id.partition("/")[0]))
            ranks = range(file.config.world_size)
            names = [MPIRUN_LOG, *(str(rank) for rank in ranks)]
            return CombinedLogs({name: self._index(folder, name) for name in names})
        return SingleLog(self._index(folder, source))

    def _index(self, folder: OpenJob, source: str) -> LogIndex:
        path = folder.mpirun_log if source == MPIRUN_LOG else folder.rank_log(int(source))
        return LogIndex(path, self._root.files)


class _LogAccess:
    """The access of one call to a log; turns errors into `BackendError`."""

    def __init__(self, open_log: _OpenLog, source: str, is_exclusive: bool) -> None:
        self._open_log = open_log
        self._source = source
        self._is_exclusive = is_exclusive

    def __enter__(self) -> SingleLog | CombinedLogs:
        if self._is_exclusive:
            self._open_log.use_lock.acquire()
        return self._open_log.log

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self._is_exclusive:
            self._open_log.use_lock.release()
        if isinstance(error, OSError):
            log_label = f"rank {self._source}" if self._source.isdecimal() else self._source
            raise BackendError(
                f"The log of {log_label} cannot be read: {error.strerror or error}."
            ) from error
