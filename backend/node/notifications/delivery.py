"""Send the notification of a run's end once, however many programs could send it.

The sender claims it first: it creates a numbered file in the run's folder exclusively, so of two
desktops and the run's own head node one sends. A claim whose holder is gone is not removed but
superseded by the next number, which again only one can create; a claim cannot be removed by a
program that did not see it. A message is sent twice only if its sender was killed between the
server's answer and the next line here.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backend.base.log import suppress
from backend.node.notifications.transport import NotSent
from backend.node.system import process_identity
from backend.records.base.atomic_files import read_json
from backend.records.base.layout import AttemptFolder
from backend.records.base.local_files import Files
from backend.records.jobs.status import ProcessIdentity
from backend.records.notifications.notification import NotificationTarget, RunEndMessage

TRYING, SENT, GIVEN_UP = "trying", "sent", "given up"
DELAYS_S = (5.0, 15.0, 60.0, 180.0, 600.0)
"""Delays between two tries; the last one is repeated."""
MOST_TRIES = 48
"""About seven and a half hours: a mail server may be away for a night."""
ABANDONED_S = 2 * DELAYS_S[-1]
"""A claim on another computer that has not changed for this long has no holder any more."""

Send = Callable[[NotificationTarget, RunEndMessage], None]


@dataclass
class _Claim:
    path: Path
    try_count: int = 0
    not_before: float = 0.0
    is_over: bool = False


class NotificationDelivery:
    """One run's message to all its targets. Call `poll` until nothing is left.

    Attributes:
        failure: Why the last try failed, one sentence, or "".
        failed_target: The kind of target of that try, or "".
    """

    def __init__(
        self,
        attempt: AttemptFolder,
        message: RunEndMessage,
        targets: tuple[NotificationTarget, ...],
        send: Send,
        files: Files,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._attempt = attempt
        self._message = message
        self._targets = targets
        self._send = send
        self._files = files
        self._monotonic = monotonic
        self._own_claims: dict[str, _Claim] = {}
        self._last_contents: dict[str, tuple[str, float]] = {}
        self.failure = self.failed_target = ""

    def poll(self) -> float | None:
        """Send what is due; return the seconds until the next call, None when all is done.

        Raises:
            OSError: The run's folder cannot be read or written now.
        """
        waits_s = [self._advance(target) for target in self._targets]
        remaining_s = [wait_s for wait_s in waits_s if wait_s is not None]
        return min(remaining_s) if remaining_s else None

    def _advance(self, target: NotificationTarget) -> float | None:
        claim = self._own_claims.get(target.key) or self._take_claim(target)
        if claim is None:
            return self._wait_for_others(target)
        if claim.is_over:
            return None
        now_s = self._monotonic()
        if now_s < claim.not_before:
            return claim.not_before - now_s
        claim.try_count += 1
        try:
            self._send(target, self._message)
        except NotSent as error:
            self.failure, self.failed_target = str(error), target.kind
            if error.is_final or claim.try_count >= MOST_TRIES:
                self._end(claim, GIVEN_UP, self.failure)
                return None
            delay_s = DELAYS_S[min(claim.try_count, len(DELAYS_S)) - 1]
            claim.not_before = now_s + delay_s
            self._write(claim, TRYING, self.failure)
            return delay_s
        self.failure = self.failed_target = ""
        self._end(claim, SENT)
        return None

    def _end(self, claim: _Claim, state: str, reason: str = "") -> None:
        # A sent message stays sent, even if that cannot be recorded.
        claim.is_over = True
        self._write(claim, state, reason)

    def _write(self, claim: _Claim, state: str, reason: str = "") -> None:
        with suppress(OSError):
            self._files.replace_json(claim.path, _record(state, claim.try_count, reason))

    def _take_claim(self, target: NotificationTarget) -> _Claim | None:
        """Return the claim if it belongs to this process from now on."""
        number, record = self._newest(target)
        if number and not self._is_abandoned(target, record):
            return None
        path = self._path(target, number + 1)
        try:
            self._files.create(path, json.dumps(_record(TRYING, 0)).encode())
        except FileExistsError:
            return None
        claim = self._own_claims[target.key] = _Claim(path)
        return claim

    def _wait_for_others(self, target: NotificationTarget) -> float | None:
        _, record = self._newest(target)
        return None if record.get("state") in (SENT, GIVEN_UP) else DELAYS_S[0]

    def _is_abandoned(self, target: NotificationTarget, record: Mapping[str, Any]) -> bool:
        if record.get("state") in (SENT, GIVEN_UP):
            return False
        with suppress(OSError, KeyError, ValueError, TypeError):
            holder = ProcessIdentity.from_dict(record["by"])
            if process_identity.is_here(holder):
                # The holder may have written SENT, and ended, after ``record`` was read.
                is_gone = not process_identity.is_alive(holder)
                return is_gone and self._newest(target)[1] == record
        now_s = self._monotonic()
        content = json.dumps(record, sort_keys=True)
        last_content, since_s = self._last_contents.get(target.key, ("", now_s))
        if content != last_content:
            self._last_contents[target.key] = (content, now_s)
            return False
        return now_s - since_s > ABANDONED_S

    def _newest(self, target: NotificationTarget) -> tuple[int, Mapping[str, Any]]:
        """Return number and content of the valid claim; 0 without one."""
        number = 0
        while self._path(target, number + 1).exists():
            number += 1
        if not number:
            return 0, {}
        try:
            return number, read_json(self._path(target, number))
        except ValueError:
            # It was created a moment ago, and its content follows.
            return number, {}

    def _path(self, target: NotificationTarget, number: int) -> Path:
        return self._attempt.delivery_file(target.key, number)


def _record(state: str, try_count: int, reason: str = "") -> dict[str, Any]:
    identity = _own_identity()
    sender = (
        identity.to_dict()
        if identity is not None
        else {"host": socket.gethostname(), "pid": os.getpid()}
    )
    return {"by": sender, "state": state, "tries": try_count, "why": reason}


def _own_identity() -> ProcessIdentity | None:
    """Return this process, or None without ``/proc``."""
    with suppress(OSError):
        return process_identity.process(os.getpid())
    return None
