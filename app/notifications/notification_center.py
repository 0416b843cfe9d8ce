"""The bell of the side bar: new notifications, and the list of earlier ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from functools import partial

from PySide6.QtCore import QObject, Signal, Slot

from app.notifications.notification_rules import Notice, NotificationRules, Run, merge_missed
from app.notifications.notification_store import JobEnds, NotificationStore
from app.notifications.tray import Tray
from app.runtime.background import Runner
from app.runtime.settings import notices_file
from backend.base.errors import BackendError
from backend.base.log import swallowed
from backend.records.jobs.audit_entry import OwnerNotice
from backend.records.jobs.summary import JobListing
from backend.records.jobs.view import JobView
from widgets.common import formats
from widgets.common.theme import Family
from widgets.shell.main_window import MainWindow
from widgets.shell.notification_list import NoticeItem, NoticeList

_QUEUE = "notice book"


class NotificationCenter(QObject):
    """Notify through the tray, count at the bell, and keep a history.

    Signals:
        notice_opened: A `Notice` whose target to show.
        settings_requested: Show the settings of notifications.

    Attributes:
        rules: Decides which events become a notice.
    """

    notice_opened = Signal(Notice)
    settings_requested = Signal()

    def __init__(
        self,
        window: MainWindow,
        runner: Runner,
        tray: Tray,
        notifies_finished: Callable[[], bool],
        parent: QObject,
    ) -> None:
        super().__init__(parent)
        self._window = window
        self._runner = runner
        self._tray = tray
        self._store = NotificationStore(notices_file())
        self._list: NoticeList | None = None
        self._listed_notices: tuple[Notice, ...] = ()
        self._root = ""
        self._is_first_listing = True
        self.rules = NotificationRules(notifies_finished, parent=self)
        self.rules.notified.connect(self._notify)
        window.side_bar.bell.clicked.connect(self.show)

    def take_data_root(self, name: str) -> None:
        """Take another data root; known job ends are stored for each data root."""
        self._root = name
        self._window.side_bar.set_unread(self._store.unread_count_of(name))

    @Slot(JobListing)
    def see_listing(self, listing: JobListing) -> None:
        """Take a listing of all jobs.

        With the first listing, notify about the runs that ended since the previous window.
        """
        self.rules.see_queue(listing.views)
        if self._is_first_listing:
            self._is_first_listing = False
            known_ends = self._store.job_ends(self._root)
            # Off the GUI thread: the first listing has all jobs.
            self._runner.run(
                _QUEUE, partial(_first_job_ends, listing, known_ends), self._report_missed, _raise
            )
        elif self._store.update_ends(self._root, _job_ends(map(Run.from_view, listing.views))):
            self._save()

    def see_jobs(self, views: Iterable[JobView]) -> None:
        """Take some changed jobs."""
        for view in views:
            if view.state.is_over:
                self._store.add_end(self._root, Run.from_view(view))
            self.rules.see_view(view)

    def show_owner_notices(self, notices: Iterable[OwnerNotice]) -> None:
        """Notify the user of what others did with the user's jobs, or with reserved GPUs."""
        for notice in notices:
            now = datetime.now().astimezone()
            title = (
                f"Job {notice.name} of {notice.owner}"
                if notice.owner
                else f"Your job {notice.name}"
            )
            self._notify(Notice(title, notice.message, now, notice.job_id, family="warn"))

    def _report_missed(self, result: tuple[JobEnds, tuple[Run, ...]]) -> None:
        job_ends, runs = result
        notices = self.rules.missed_notices(runs)
        for notice in notices:
            self._store.add(replace(notice, root=self._root))
        if self._store.update_ends(self._root, job_ends) or notices:
            self._save()
        if notices:
            self._window.side_bar.set_unread(self._store.unread_count_of(self._root))
            self._tray.notify(merge_missed(notices))
            self._show_items()

    @Slot(Notice)
    def _notify(self, notice: Notice) -> None:
        self._store.add(replace(notice, root=self._root))
        self._window.side_bar.set_unread(self._store.unread_count_of(self._root))
        self._tray.notify(notice)
        self._show_items()
        self._save()

    def _save(self) -> None:
        self._runner.run(_QUEUE, self._store.save, lambda _: None, swallowed)

    @property
    def list(self) -> NoticeList:
        """The list, built on first use."""
        if self._list is None:
            self._list = NoticeList(self._window)
            self._list.notice_opened.connect(
                lambda index: self.notice_opened.emit(self._listed_notices[index])
            )
            self._list.settings_requested.connect(self.settings_requested)
        return self._list

    @Slot()
    def show(self) -> None:
        """Show the list; its items count as seen from then on."""
        notice_list = self.list
        self._show_items()
        notice_list.open(self._window.side_bar.bell)
        if self._store.mark_read(self._root):
            self._window.side_bar.set_unread(0)
            self._save()

    def _show_items(self) -> None:
        if self._list is None:
            return
        now = datetime.now().astimezone()
        notices = self._store.notices_of(self._root)
        self._listed_notices = tuple(notice for notice, _ in notices)
        self._list.show_items(
            [
                NoticeItem(
                    notice.title,
                    notice.text,
                    formats.time_or_day(notice.timestamp, now),
                    _family(notice.family),
                    is_unread,
                )
                for notice, is_unread in notices
            ]
        )


def _first_job_ends(
    listing: JobListing, known_ends: JobEnds | None
) -> tuple[JobEnds, tuple[Run, ...]]:
    """Return the job ends that are known after the first listing, and the runs with new ends."""
    all_runs = [
        *(
            Run(
                summary.id,
                summary.run,
                summary.state,
                summary.name,
                summary.ended_s,
                summary.reason,
                "".join(summary.nodes[:1]),
            )
            for summary in listing.summaries
        ),
        *map(Run.from_view, listing.views),
    ]
    newly_ended_runs = (
        run
        for run in all_runs
        if known_ends is not None and run.state.is_over and known_ends.is_unseen(run)
    )
    return _job_ends(all_runs), tuple(newly_ended_runs)


def _job_ends(runs: Iterable[Run]) -> JobEnds:
    last_end_s_by_node: dict[str, float] = {}
    live_runs = set()
    for run in runs:
        last_end_s_by_node[run.node] = max(last_end_s_by_node.get(run.node, 0.0), run.ended_s)
        if run.state.is_live:
            live_runs.add((run.job_id, run.run))
    return JobEnds(last_end_s_by_node, frozenset(live_runs))


def _raise(error: BackendError) -> None:
    """Raise the error: everything is in memory, so it cannot fail."""
    raise error


def _family(name: str) -> Family:
    return "good" if name == "good" else "warn" if name == "warn" else "bad"
