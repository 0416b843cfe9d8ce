"""Count, read and search log lines for the log tab, off the GUI thread."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QObject, Slot

from app.runtime.background import Runner
from backend.base.errors import BackendError, Cancelled
from backend.base.progress import Progress
from backend.records.jobs.view import LogLines, LogMatches
from backend.services.jobs.logs import LogService
from widgets.jobs.log.log_tab import LogRange, LogSearch, LogTab


class LogController(QObject):
    """Serve the log tab; reads and searches have queues of their own, so scrolling never waits."""

    def __init__(
        self, logs: LogService, runner: Runner, tab: LogTab, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._logs = logs
        self._runner = runner
        self._tab = tab
        self._search_progress: Progress | None = None
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

    @Slot(LogSearch)
    def _find(self, search: LogSearch) -> None:
        """Start a search; it cancels the one before. An empty text only cancels."""
        job_id, source = search.job_id, search.source
        progress = self._new_search(job_id, source)
        if not search.text:
            return

        def show_matches(matches: LogMatches) -> None:
            if self._search_progress is progress:
                self._tab.show_matches(job_id, source, matches)

        self._runner.run(
            "log search",
            partial(self._logs.find, job_id, source, search.text, search.start, progress),
            show_matches,
            partial(self._show_error, job_id, source),
        )

    @Slot(str, str)
    def _find_first_error(self, job_id: str, source: str) -> None:
        progress = self._new_search(job_id, source)
        self._runner.run(
            "log search",
            partial(self._logs.first_error, job_id, source, progress),
            partial(self._tab.show_error_line, job_id, source),
            partial(self._show_error, job_id, source),
        )

    @Slot(LogRange)
    def _copy_lines(self, log_range: LogRange) -> None:
        self._read(log_range, self._tab.show_copied)

    def _new_search(self, job_id: str, source: str) -> Progress:
        if self._search_progress is not None:
            self._search_progress.cancel()
        self._search_progress = self._runner.progress(
            lambda share, _step: self._tab.show_searching(job_id, source, share)
        )
        return self._search_progress

    def _show_error(self, job_id: str, source: str, error: BackendError) -> None:
        if not isinstance(error, Cancelled):
            self._tab.show_error(job_id, source, error.message)
