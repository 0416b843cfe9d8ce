"""Webhook and mail notifications of this user, sent from the desktop.

The supervisor of a run sends the notification of its end (`backend.node.notifications.send`), on
this computer and on nodes that have these settings. A desktop sends the remaining notifications:
those that need the password of its keyring, and those of runs that ended on nodes without settings.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

from backend.base.errors import BackendError, as_backend_error
from backend.base.log import swallowed
from backend.datastore.access.root_access import OpenRoot, now_s
from backend.datastore.jobs.owners import take_notices
from backend.node.notifications import send as send_notice
from backend.node.notifications.delivery import NotificationDelivery
from backend.node.notifications.message import TAIL_BYTES, message_of
from backend.node.notifications.transport import NotSent, post_webhook, send_mail
from backend.records.base import timestamps
from backend.records.base.atomic_files import replace_json, stored_record
from backend.records.base.layout import NodeHome
from backend.records.jobs.audit_entry import OwnerNotice
from backend.records.nodes.entry import NodeEntry
from backend.records.notifications.notification import (
    MAIL,
    WEBHOOK,
    Channels,
    Mail,
    RunEndMessage,
    mail_error,
    settings_name,
    webhook_error,
)
from backend.ssh.interface import Shell
from backend.ssh.system_keyring import MAIL_SERVICE, SystemKeyring

_FILE_MODE, _FOLDER_MODE = 0o600, 0o700
_RETRY_S = 60.0
_TEST = RunEndMessage(
    "test",
    0,
    "TEST",
    "Test",
    "a notification from Ringmaster",
    "It works: the end of a job will be reported here.",
)


@dataclass(frozen=True)
class DeliveryAttempt:
    """The result of an attempt to send a notification.

    Attributes:
        wait_s: The time until the next attempt; None if there is none.
        failure: The reason of a failure, or "".
        failed_kind: The kind of target that failed, or "".
    """

    wait_s: float | None
    failure: str = ""
    failed_kind: str = ""


class NotificationService:
    """Settings and delivery. Every call blocks. Call ``notify`` only on a single thread."""

    def __init__(
        self,
        root: OpenRoot,
        entries: Callable[[], tuple[NodeEntry, ...]],
        open_shell: Callable[[str], Shell],
        keyring: SystemKeyring | None = None,
    ) -> None:
        self._root = root
        self._entries = entries
        self._open_shell = open_shell
        self._keyring = keyring or SystemKeyring(MAIL_SERVICE, "password")
        self._passwords: dict[str, str] = {}
        self._deliveries: dict[tuple[str, int], NotificationDelivery] = {}

    def take_notices(self) -> tuple[OwnerNotice, ...]:
        """Return what other users did with this user's jobs, each time once, and send it, too."""
        with as_backend_error("The notices of other users could not be read"):
            notices = take_notices(self._root)
        channels = self.channels()
        for notice in notices:
            message = RunEndMessage(
                notice.job_id, 0, "ACT", "By another user", notice.name, notice.message
            )
            for target in channels.targets:
                try:
                    self._send(channels, target.kind, message, None)
                except NotSent as error:
                    swallowed(error)  # The window shows the notice.
        return notices

    # Settings.

    @property
    def path(self) -> Path:
        """Path of the settings; only this user may read it."""
        if self._root.files.is_mounted:
            return send_notice.settings_path(self._root.path)
        return send_notice.settings_folder() / settings_name(self._root.name)

    def channels(self) -> Channels:
        """Return the stored settings; empty settings if they cannot be read."""
        return stored_record(Channels, self.path) or Channels()

    def store(self, channels: Channels, password: str | None = None) -> Channels:
        """Store settings, and optionally a password.

        Without a keyring the password is used until the program ends. A new recipient is notified
        only of runs that end from now on.

        Returns:
            The stored settings.

        Raises:
            BackendError: A setting is invalid or cannot be written; nothing was changed.
        """
        if channels.webhook and (error := webhook_error(channels.webhook)):
            raise BackendError(error)
        if channels.mail is not None and (error := mail_error(channels.mail)):
            raise BackendError(error)
        old_channels = self.channels()
        if set(channels.targets) - set(old_channels.targets) or not old_channels.enabled_at:
            with as_backend_error("The time of the data root cannot be read"):
                now = datetime.fromtimestamp(now_s(self._root.files, self._root.path), UTC)
                channels = replace(channels, enabled_at=timestamps.stamp(now, "microseconds"))
        else:
            channels = replace(channels, enabled_at=old_channels.enabled_at)
        if channels.mail is not None and password is not None:
            if not self._keyring.unavailable_reason():
                self._keyring.store(channels.mail.account, password)
            self._passwords[channels.mail.account] = password
        with as_backend_error("The notification settings cannot be written"):
            folder = self.path.parent
            folder.mkdir(parents=True, exist_ok=True, mode=_FOLDER_MODE)
            folder.chmod(_FOLDER_MODE)
            replace_json(self.path, channels.to_dict(), mode=_FILE_MODE)
        self._forget_password(old_channels.mail, channels.mail)
        self._deliveries.clear()
        return channels

    def _forget_password(self, old_mail: Mail | None, new_mail: Mail | None) -> None:
        """Remove a password that is no longer needed."""
        if old_mail is not None and (new_mail is None or new_mail.account != old_mail.account):
            self._passwords.pop(old_mail.account, None)
            self._keyring.delete(old_mail.account)

    def keyring_error(self) -> str:
        """Return the reason why a password is kept only until the program ends, or ""."""
        return self._keyring.unavailable_reason()

    def has_password(self) -> bool:
        """Return whether the password for mail is available or unnecessary."""
        mail = self.channels().mail
        return mail is None or not mail.user or bool(self._password(mail))

    def copy_to_nodes(self) -> tuple[str, ...]:
        """Copy the settings to the nodes, or remove them; return a message for each failure.

        Recipients that need a password stay on this desktop.
        """
        channels = self.channels()
        if channels.mail is not None and channels.mail.user:
            channels = replace(channels, mail=None)
        failures = []
        for entry in self._entries():
            if entry.info is None or not entry.data_root:
                continue
            try:
                self._copy_to(entry, channels)
            except BackendError as error:
                failures.append(f"{entry.name} does not have the settings: {error.message}")
        return tuple(failures)

    def _copy_to(self, entry: NodeEntry, channels: Channels) -> None:
        assert entry.info is not None
        folder = NodeHome(PurePosixPath(entry.info.home)).notification_settings
        with closing(self._open_shell(entry.name)) as shell:
            # The node knows its data root by the path behind all links.
            real_root = shell.run(["readlink", "-f", entry.data_root])
            path = folder / settings_name(real_root.out.strip() or entry.data_root)
            if not channels.from_nodes or not channels.targets:
                shell.run(["rm", "-f", str(path)])
                return
            result = shell.run(["mkdir", "-p", "-m", "700", str(folder)])
            if not result.ok:
                raise BackendError(f"{result.complaint}.")
            content = json.dumps(channels.to_dict()).encode()
            shell.write(str(path), content, mode=_FILE_MODE)

    # Sending.

    def send_test(self, kind: str, channels: Channels, password: str | None = None) -> None:
        """Send one message to the webhook or by mail with ``channels``, stored or not.

        Raises:
            BackendError: The message did not arrive, or a setting is invalid.
        """
        setting_error = webhook_error(channels.webhook) if kind == WEBHOOK else ""
        if kind == MAIL:
            setting_error = (
                mail_error(channels.mail) if channels.mail is not None else "No mail is set up."
            )
        if setting_error:
            raise BackendError(setting_error)
        try:
            self._send(channels, kind, _TEST, password)
        except NotSent as error:
            raise BackendError(str(error)) from error

    def notify(self, job_id: str, run: int) -> DeliveryAttempt:
        """Notify the remaining recipients of the end of a run; call again after ``wait_s``.

        Raises:
            BackendError: The data root cannot be reached at the moment.
        """
        folder = self._root.job(job_id)
        try:
            self._root.files.refresh_job(folder)
            delivery = self._deliveries.get((job_id, run))
            if delivery is None:
                channels = self.channels()
                record = folder.attempt(run).exit
                if not record.exists():
                    return DeliveryAttempt(_RETRY_S)
                message = message_of(folder, run, channels, self._tail)
                if message is None or not channels.is_new(self._root.files.changed_s(record)):
                    return DeliveryAttempt(None)
                delivery = NotificationDelivery(
                    folder.attempt(run),
                    message,
                    channels.targets,
                    lambda target, message: self._send(channels, target.kind, message, None),
                    self._root.files,
                )
                self._deliveries[job_id, run] = delivery
            wait_s = delivery.poll()
        except OSError as error:
            swallowed(error)
            return DeliveryAttempt(_RETRY_S)
        if wait_s is None:
            del self._deliveries[job_id, run]
        return DeliveryAttempt(wait_s, delivery.failure, delivery.failed_target)

    def _tail(self, path: Path) -> bytes:
        try:
            size = self._root.files.size(path)
            return self._root.files.read(path, max(0, size - TAIL_BYTES), TAIL_BYTES)
        except OSError as error:
            swallowed(error)
            return b""

    def _send(
        self, channels: Channels, kind: str, message: RunEndMessage, password: str | None
    ) -> None:
        if kind == WEBHOOK:
            post_webhook(channels.webhook, message)
        elif channels.mail is not None:
            known_password = self._password(channels.mail) if password is None else password
            if channels.mail.user and not known_password:
                raise NotSent(f"The password of {channels.mail.account} is not known here.")
            send_mail(channels.mail, known_password, message)

    def _password(self, mail: Mail) -> str:
        return self._passwords.get(mail.account) or self._keyring.read(mail.account)
