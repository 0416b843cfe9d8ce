"""Send the notification of a run's end: ``python -m backend.node.notifications.send --job FOLDER
--run N``.

The supervisor starts it as its last action, so that a webhook and a mail are sent even without an
open window. It needs no password: a target that needs one is served by a desktop, which has a
keyring.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from backend.base.log import suppress, swallowed
from backend.node.system import background_service
from backend.node.system.start_supervisor import start_detached
from backend.records.base.atomic_files import read_json
from backend.records.base.layout import JobFolder
from backend.records.base.local_files import Files
from backend.records.notifications.notification import (
    WEBHOOK,
    Channels,
    NotificationTarget,
    RunEndMessage,
    settings_name,
)

_log = logging.getLogger(__name__)
_AFTER_FAILURE_S = 60.0
_TIME_LIMIT_S = 8 * 3600.0


def settings_path(data_root: Path) -> Path:
    """Return where a user's notification settings for a data root are on this computer."""
    return settings_folder() / settings_name(os.path.realpath(data_root))


def settings_folder() -> Path:
    return Path.home() / ".ringmaster" / "notices"


def channels_for(folder: JobFolder) -> Channels | None:
    """Return this user's channels for the data root that holds ``folder``; None for none."""
    with suppress(OSError, ValueError, RuntimeError):
        return Channels.from_dict(read_json(settings_path(folder.path.parents[1])))
    return None


def start_delivery(folder: JobFolder, run: int) -> bool:
    """Send the notification in a detached process; return False if no user has enabled one."""
    channels = channels_for(folder)
    if channels is None or not any(not target.needs_password for target in channels.targets):
        return False
    command = [sys.executable, "-m", "backend.node.notifications.send", "--job", str(folder.path)]
    failure = start_detached([*command, "--run", str(run), "--detach"])
    if failure:
        _log.warning("The notification of run %d was not sent: %s", run, failure)
    return not failure


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="backend.node.notifications.send", description=__doc__)
    parser.add_argument("--job", type=Path, required=True, help="folder of the job")
    parser.add_argument("--run", type=int, required=True)
    parser.add_argument(
        "--detach", action="store_true", help="return at once and continue in the background"
    )
    options = parser.parse_args(arguments)
    folder = JobFolder(options.job.absolute())
    # The agent lives for months: no zombie may stay with it.
    if options.detach and background_service.detach(Path(os.devnull)):
        return 0
    # A supervisor has all signals blocked, and its children inherit that.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    channels = channels_for(folder)
    if channels is not None:
        _deliver(folder, options.run, channels)
    return 0


def _deliver(folder: JobFolder, run: int, channels: Channels) -> None:
    # Imported only here: an agent that uses `start_delivery` stays small without these.
    from backend.node.notifications.delivery import NotificationDelivery
    from backend.node.notifications.message import message_of
    from backend.node.notifications.transport import post_webhook, send_mail

    message = message_of(folder, run, channels)
    if message is None:
        return

    def send(target: NotificationTarget, end_message: RunEndMessage) -> None:
        if target.kind == WEBHOOK:
            post_webhook(channels.webhook, end_message)
        elif channels.mail is not None:
            send_mail(channels.mail, "", end_message)

    targets = tuple(target for target in channels.targets if not target.needs_password)
    files = Files()
    delivery = NotificationDelivery(folder.attempt(run), message, targets, send, files)
    deadline = time.monotonic() + _TIME_LIMIT_S
    while time.monotonic() < deadline:
        try:
            wait_s = delivery.poll()
        except OSError as error:
            swallowed(error)
            wait_s = _AFTER_FAILURE_S
        if wait_s is None:
            return
        time.sleep(wait_s)


if __name__ == "__main__":
    sys.exit(main())
