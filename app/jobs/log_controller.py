"""Count, read and search log lines for the log tab, off the GUI thread."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from PySide6.QtCore import QObject, Slot

from app.runtime.background import Runner
from app.runtime.controller import Controller, LatestRequest
from backend.base.errors import BackendError, Cancelled
from backend.base.progress import Progress
from backend.records.jobs.view import LogLines, LogMatches
from backend.services.jobs.logs import LogService
from widgets.jobs.log.log_tab import LogRange, LogSearch, LogTab

T = TypeVar("T")


class LogController(Controller):
    """Serve the log tab; reads and searches have queues of their own, so scrolling never waits."""

    def __init__(
        self, logs: LogService, runner: Runner, tab: LogTab, parent: QObject | None = None
    ) -> None:
        super().__init__(runner, parent)
        self._logs = logs
        self._tab = tab
        self._search = LatestRequest(runner)
        tab.length_requested.connect(self._read_length)
        tab.lines_requested.connect(self._read_lines)
        tab.find_requested.connect(self._find)
        tab.error_requested.connect(self._find_first_error)
        tab.copy_requested.connect(self._copy_lines)

    @Slot(str, str)
    def _read_length(self, job_id: str, source: str) -> None:
        self._runner.run(
            "log",
            partial(self._logs.read_size, job_id, source),
            partial(self._tab.show_size, job_id, source),
            partial(self._show_error, job_id, source),
        )

    @Slot(LogRange)
    def _read_lines(self, log_range: LogRange) -> None:
        self._read(log_range, partial(self._tab.show_lines, log_range.job_id, log_range.source))

    def _read(self, log_range: LogRange, on_success: Callable[[LogLines], None]) -> None:
        job_id, source = log_range.job_id, log_range.source
        self._runner.run(
            "log",
            partial(self._logs.lines, job_id, source, log_range.start, log_range.count),
            on_success,
            partial(self._show_error, job_id, source),
        )

    @Slot(LogRange)
    def _copy_lines(self, log_range: LogRange) -> None:
        self._read(log_range, self._tab.show_copied)

    @Slot(LogSearch)
    def _find(self, search: LogSearch) -> None:
        """Start a search; it cancels the one before. An empty text only cancels."""
        job_id, source = search.job_id, search.source
        if not search.text:
            self._search.drop()
            return

        def find(progress: Progress) -> LogMatches:
            return self._logs.find(job_id, source, search.text, search.start, progress)

        self._start_search(job_id, source, find, self._tab.show_matches)

    @Slot(str, str)
    def _find_first_error(self, job_id: str, source: str) -> None:
        find = partial(self._logs.first_error, job_id, source)
        self._start_search(job_id, source, find, self._tab.show_error_line)

    def _start_search(
        self,
        job_id: str,
        source: str,
        work: Callable[[Progress], T],
        show: Callable[[str, str, T], None],
    ) -> None:
        self._search.run(
            "log search",
            work,
            partial(show, job_id, source),
            partial(self._show_error, job_id, source),
            lambda share, _step: self._tab.show_searching(job_id, source, share),
        )

    def _show_error(self, job_id: str, source: str, error: BackendError) -> None:
        if not isinstance(error, Cancelled):
            self._tab.show_error(job_id, source, error.message)
