"""Webhook and mail: their settings, and the job ends that this desktop sends."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, Slot

from app.runtime.background import Runner
from backend.base.errors import BackendError
from backend.records.base.timestamps import seconds
from backend.records.jobs.view import JobView
from backend.records.notifications.notification import MAIL, WEBHOOK, Channels
from widgets.shell.notification_settings import ChannelTest, NoticeSettings

if TYPE_CHECKING:
    from backend.services.notifications.service import DeliveryAttempt, NotificationService

_LANE, _SENDING = "notice settings", "notice sending"
_AFTER_FAILURE_S = 60.0
_MOST_APART_S = 86400.0


class NoticeController(QObject):
    """One for as long as a data root is open."""

    def __init__(
        self, service: NotificationService, runner: Runner, page: NoticeSettings, parent: QObject
    ) -> None:
        super().__init__(parent)
        self._service = service
        self._runner = runner
        self._page = page
        self._channels = Channels()
        self._settled: set[tuple[str, int]] = set()
        self._has_failure = False
        page.channels_chosen.connect(self._keep)
        page.test_requested.connect(self._test)
        page.opened.connect(self._check_keyring)
        self._runner.run(_LANE, self._read, self._show_read, self._report_failure)

    # The settings.

    def _read(self) -> tuple[Channels, bool]:
        channels = self._service.channels()
        # The keyring's library takes 10 MB and is needed for mail only.
        return channels, channels.mail is not None and self._service.has_password()

    def _show_read(self, found: tuple[Channels, bool]) -> None:
        self._channels, has_password = found
        self._page.show_channels(self._channels, has_password)

    @Slot()
    def _check_keyring(self) -> None:
        self._runner.run(
            _LANE, self._service.keyring_error, self._page.show_keyring, self._report_failure
        )

    @Slot(Channels, object)
    def _keep(self, channels: Channels, password: str | None) -> None:
        is_the_nodes_concern = channels.from_nodes or self._channels.from_nodes

        def keep() -> tuple[Channels, bool, tuple[str, ...]]:
            kept = self._service.store(channels, password)
            failures = self._service.copy_to_nodes() if is_the_nodes_concern else ()
            return kept, self._service.has_password(), failures

        self._runner.run(_LANE, keep, self._kept, self._report_failure)

    def _kept(self, found: tuple[Channels, bool, tuple[str, ...]]) -> None:
        channels, has_password, failures = found
        self._channels = channels
        self._page.show_channels(channels, has_password)
        needs = channels.mail is not None and not has_password
        self._page.show_said(
            MAIL, "Not used yet: the password is missing." if needs else "", "warn"
        )
        self._page.show_said(WEBHOOK, " ".join(failures), "warn")

    def choose_finished(self, tells_finished: bool) -> None:
        """Set the switch that also applies to webhook and mail."""
        if tells_finished != self._channels.tells_finished and self._channels.targets:
            self._keep(replace(self._channels, tells_finished=tells_finished), None)

    def _report_failure(self, error: BackendError) -> None:
        self._page.show_said(MAIL, error.with_remedy, "bad")

    @Slot(ChannelTest)
    def _test(self, test: ChannelTest) -> None:
        self._runner.run(
            _SENDING,
            partial(self._service.send_test, test.kind, test.channels, test.password),
            lambda _: self._arrived(test.kind),
            partial(self._not_arrived, test.kind),
        )

    def _arrived(self, kind: str) -> None:
        self._page.show_said(kind, "The test was sent. Check that it arrived.", "good")

    def _not_arrived(self, kind: str, error: BackendError) -> None:
        self._page.show_said(kind, str(error), "bad")

    # Job ends.

    def see(self, views: Iterable[JobView]) -> None:
        """Send the ends that were not sent yet."""
        for view in views:
            run = (view.id, view.run)
            if run in self._settled or not view.state.is_over:
                continue
            # The node's clock may differ from the data root's: the service knows the exact time.
            is_recent = self._channels.is_new(seconds(view.status.ended) + _MOST_APART_S)
            if is_recent and self._channels.wants(view.state):
                self._settled.add(run)
                self._send(*run)

    def _send(self, job_id: str, run: int) -> None:
        self._runner.run(
            _SENDING,
            partial(self._service.notify, job_id, run),
            partial(self._sent, job_id, run),
            lambda _error: self._again(job_id, run, _AFTER_FAILURE_S),
        )

    def _sent(self, job_id: str, run: int, attempt: DeliveryAttempt) -> None:
        if attempt.wait_s is not None:
            self._again(job_id, run, attempt.wait_s)
        if not attempt.failure and self._has_failure:
            self._has_failure = False
            for kind in (WEBHOOK, MAIL):
                self._page.show_said(kind, "", "text2")
        if attempt.failure:
            self._has_failure = True
            ending = (
                " It will be sent again."
                if attempt.wait_s is not None
                else " It will not be sent again."
            )
            self._page.show_said(attempt.failed_kind, attempt.failure + ending, "bad")

    def _again(self, job_id: str, run: int, wait_s: float) -> None:
        QTimer.singleShot(int(wait_s * 1000), self, partial(self._send, job_id, run))
