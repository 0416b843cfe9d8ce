"""The bell of the side bar: new notifications, and the list of earlier ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from functools import partial

from PySide6.QtCore import QObject, Signal, Slot

from app.notifications.notification_rules import Notice, NotificationRules, Run, of_absence
from app.notifications.notification_store import Ends, NotificationStore
from app.notifications.tray import Tray
from app.runtime.background import Runner
from app.runtime.paths import notices_file
from backend.base.errors import BackendError
from backend.base.log import swallowed
from backend.records.jobs.summary import JobListing
from backend.records.jobs.view import JobView
from widgets.common import formats
from widgets.common.theme import Family
from widgets.shell.main_window import MainWindow
from widgets.shell.notification_list import NoticeItem, NoticeList

_LANE = "notice book"


class NotificationCenter(QObject):
    """Notify through the tray, count at the bell, and keep a history.

    Signals:
        opened: A `Notice` whose target to show.
        settings_requested: Show the settings of notifications.

    Attributes:
        notices: Decides what becomes a notice.
    """

    opened = Signal(Notice)
    settings_requested = Signal()

    def __init__(
        self,
        window: MainWindow,
        runner: Runner,
        tray: Tray,
        tells_finished: Callable[[], bool],
        parent: QObject,
    ) -> None:
        super().__init__(parent)
        self._window = window
        self._runner = runner
        self._tray = tray
        self._recorder = NotificationStore(notices_file())
        self._list: NoticeList | None = None
        self._root = ""
        self._is_first = True
        self.notices = NotificationRules(tells_finished, parent=self)
        self.notices.notified.connect(self._notify)
        window.side_bar.bell.clicked.connect(self.show)

    def take_data_root(self, name: str) -> None:
        """Take another data root; known job ends are stored for each data root."""
        self._root = name
        self._window.side_bar.set_unread(self._recorder.unread_of(name))

    @Slot(JobListing)
    def see(self, listing: JobListing) -> None:
        """Take a listing of all jobs. The first one reports the ends since the last window."""
        self.notices.see_queue(listing.views)
        if self._is_first:
            self._is_first = False
            known = self._recorder.ends(self._root)
            # Off the GUI thread: the first listing has all jobs.
            self._runner.run(_LANE, partial(_first, listing, known), self._report_missed, _never)
        elif self._recorder.know(self._root, _ends(map(Run.of, listing.views))):
            self._keep()

    def see_jobs(self, views: Iterable[JobView]) -> None:
        """Take some changed jobs."""
        for view in views:
            if view.state.is_over:
                self._recorder.end(self._root, Run.of(view))
            self.notices.see(view)

    def _report_missed(self, found: tuple[Ends, tuple[Run, ...]]) -> None:
        ends, runs = found
        missed = self.notices.missed(runs)
        for notice in missed:
            self._recorder.add(replace(notice, root=self._root))
        if self._recorder.know(self._root, ends) or missed:
            self._keep()
        if missed:
            self._window.side_bar.set_unread(self._recorder.unread_of(self._root))
            self._tray.notify(of_absence(missed))
            self._show_items()

    @Slot(Notice)
    def _notify(self, notice: Notice) -> None:
        self._recorder.add(replace(notice, root=self._root))
        self._window.side_bar.set_unread(self._recorder.unread_of(self._root))
        self._tray.notify(notice)
        self._show_items()
        self._keep()

    def _keep(self) -> None:
        self._runner.run(_LANE, self._recorder.save, lambda _: None, swallowed)

    @property
    def list(self) -> NoticeList:
        """Made on first use."""
        if self._list is None:
            self._list = NoticeList(self._window)
            self._list.opened.connect(lambda at: self.opened.emit(self._recorder.past[at]))
            self._list.settings_requested.connect(self.settings_requested)
        return self._list

    @Slot()
    def show(self) -> None:
        """Show the list; its items count as seen from then on."""
        notices = self.list
        self._show_items()
        notices.open(self._window.side_bar.bell)
        if self._recorder.read_all():
            self._window.side_bar.set_unread(0)
            self._keep()

    def _show_items(self) -> None:
        if self._list is None:
            return
        now = datetime.now().astimezone()
        unread = self._recorder.unread
        self._list.show_items(
            [
                NoticeItem(
                    notice.title,
                    notice.text,
                    formats.moment(notice.when, now),
                    _family(notice.family),
                    at < unread,
                )
                for at, notice in enumerate(self._recorder.past)
            ]
        )


def _first(listing: JobListing, known: Ends | None) -> tuple[Ends, tuple[Run, ...]]:
    """Return what is known after the first listing, and the ends that are new."""
    runs = [
        *(
            Run(one.id, one.run, one.state, one.name, one.ended, one.reason, "".join(one.nodes[:1]))
            for one in listing.lines
        ),
        *map(Run.of, listing.views),
    ]
    fresh = (
        one for one in runs if known is not None and one.state.is_over and known.is_unseen(one)
    )
    return _ends(runs), tuple(fresh)


def _ends(runs: Iterable[Run]) -> Ends:
    until_s: dict[str, float] = {}
    live = set()
    for one in runs:
        until_s[one.node] = max(until_s.get(one.node, 0.0), one.ended_s)
        if one.state.is_live:
            live.add((one.job_id, one.run))
    return Ends(until_s, frozenset(live))


def _never(error: BackendError) -> None:
    """Ignore the error: everything is in memory, so it cannot fail."""
    raise error


def _family(name: str) -> Family:
    return "good" if name == "good" else "warn" if name == "warn" else "bad"
