"""Webhook and mail: their settings, and the job ends that this desktop sends."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, Slot

from app.runtime.background import Runner
from app.runtime.controller import Controller
from backend.records.base.timestamps import seconds
from backend.records.jobs.view import JobView
from backend.records.notifications.notification import MAIL, WEBHOOK, Channels
from widgets.shell.notification_settings import ChannelTest, NoticeSettings

if TYPE_CHECKING:
    from backend.services.notifications.service import DeliveryAttempt, NotificationService

_SETTINGS_QUEUE, _SENDING_QUEUE = "notice settings", "notice sending"
_RETRY_DELAY_S = 60.0
_CLOCK_TOLERANCE_S = 86400.0


class ChannelsController(Controller):
    """Send job ends to webhook and mail while a data root is open, and serve the settings."""

    def __init__(
        self, service: NotificationService, runner: Runner, page: NoticeSettings, parent: QObject
    ) -> None:
        super().__init__(runner, parent)
        self._service = service
        self._page = page
        self._channels = Channels()
        self._handled_runs: set[tuple[str, int]] = set()
        self._has_failure = False
        page.channels_chosen.connect(self._save_channels)
        page.test_requested.connect(self._test)
        page.keyring_requested.connect(self._check_keyring)
        self.serve(_SETTINGS_QUEUE, self._read, self._show_read)

    # The settings.

    def _read(self) -> tuple[Channels, bool]:
        channels = self._service.channels()
        # The keyring's library takes 10 MB and is needed for mail only.
        return channels, channels.mail is not None and self._service.has_password()

    def _show_read(self, settings: tuple[Channels, bool]) -> None:
        self._channels, has_password = settings
        self._page.show_channels(self._channels, has_password)

    @Slot()
    def _check_keyring(self) -> None:
        self.serve(_SETTINGS_QUEUE, self._service.keyring_error, self._page.show_keyring)

    @Slot(Channels, object)
    def _save_channels(self, channels: Channels, password: str | None) -> None:
        concerns_nodes = channels.from_nodes or self._channels.from_nodes

        def save() -> tuple[Channels, bool, tuple[str, ...]]:
            saved_channels = self._service.store(channels, password)
            failures = self._service.copy_to_nodes() if concerns_nodes else ()
            return saved_channels, self._service.has_password(), failures

        self.serve(_SETTINGS_QUEUE, save, self._show_saved)

    def _show_saved(self, settings: tuple[Channels, bool, tuple[str, ...]]) -> None:
        channels, has_password, failures = settings
        self._channels = channels
        self._page.show_channels(channels, has_password)
        lacks_password = channels.mail is not None and not has_password
        self._page.show_test_result(
            MAIL, "Not used yet: the password is missing." if lacks_password else "", "warn"
        )
        self._page.show_test_result(WEBHOOK, " ".join(failures), "warn")

    def choose_finished(self, notifies_finished: bool) -> None:
        """Set the switch that also applies to webhook and mail."""
        if notifies_finished != self._channels.notifies_finished and self._channels.targets:
            self._save_channels(replace(self._channels, notifies_finished=notifies_finished), None)

    def show_error(self, message: str) -> None:
        """Show an error in the section of mail."""
        self._page.show_test_result(MAIL, message, "bad")

    @Slot(ChannelTest)
    def _test(self, test: ChannelTest) -> None:
        show, message = self._page.show_test_result, "The test was sent. Check that it arrived."
        self._runner.run(
            _SENDING_QUEUE,
            partial(self._service.send_test, test.kind, test.channels, test.password),
            lambda _: show(test.kind, message, "good"),
            lambda error: show(test.kind, str(error), "bad"),
        )

    # Job ends.

    def send_ends(self, views: Iterable[JobView]) -> None:
        """Send the ends that were not sent yet."""
        for view in views:
            run = (view.id, view.run)
            if run in self._handled_runs or not view.state.is_over:
                continue
            # The node's clock may differ from the data root's: the service knows the exact time.
            is_recent = self._channels.is_new(seconds(view.status.ended_at) + _CLOCK_TOLERANCE_S)
            if is_recent and self._channels.notifies_of(view.state):
                self._handled_runs.add(run)
                self._send(*run)

    def _send(self, job_id: str, run: int) -> None:
        self._runner.run(
            _SENDING_QUEUE,
            partial(self._service.notify, job_id, run),
            partial(self._handle_attempt, job_id, run),
            lambda _error: self._send_later(job_id, run, _RETRY_DELAY_S),
        )

    def _handle_attempt(self, job_id: str, run: int, attempt: DeliveryAttempt) -> None:
        if attempt.wait_s is not None:
            self._send_later(job_id, run, attempt.wait_s)
        if not attempt.failure and self._has_failure:
            self._has_failure = False
            for kind in (WEBHOOK, MAIL):
                self._page.show_test_result(kind, "", "text2")
        if attempt.failure:
            self._has_failure = True
            retry_hint = (
                " It will be sent again."
                if attempt.wait_s is not None
                else " It will not be sent again."
            )
            self._page.show_test_result(attempt.failed_kind, attempt.failure + retry_hint, "bad")

    def _send_later(self, job_id: str, run: int, wait_s: float) -> None:
        QTimer.singleShot(int(wait_s * 1000), self, partial(self._send, job_id, run))
