"""Tells the end of a run once, however many there are who would tell it.

Who tells has claimed it: ``told-<target>.1.json`` in the run's folder is created exclusively, so of
two desktops and the run's own head one sends. A claim whose holder is gone is not removed, but
overtaken by the next number, which again only one can create; nobody can take away a claim that he
did not see. A message goes out twice only where its sender was killed between the answer of the
server and the next line here.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from backend.base.log import suppress
from backend.node.notifications.transport import NotSent
from backend.node.system import process_identity
from backend.records.base.atomic_files import read_json, replace_json
from backend.records.base.layout import AttemptFolder
from backend.records.jobs.status import ProcessIdentity
from backend.records.notifications.notification import NotificationTarget, RunEndMessage

TRYING, SENT, GIVEN_UP = "trying", "sent", "given up"
DELAYS_S = (5.0, 15.0, 60.0, 180.0, 600.0)
"""Between two tries; the last one is repeated."""
MOST_TRIES = 48
"""Some seven hours and a half: a mail server that is away for the night costs nothing."""
ABANDONED_S = 2 * DELAYS_S[-1]
"""A claim on another computer that has not moved for so long has no holder any more."""

Send = Callable[[NotificationTarget, RunEndMessage], None]


class Writer(Protocol):
    """How the run's folder is changed; a `DataRootAccess` is one."""

    def create(self, path: Path, value: bytes) -> None:
        """A file that was not there, or FileExistsError."""

    def replace_json(self, path: Path, value: Any) -> None: ...


class LocalFiles:
    """The folder is mounted here."""

    def create(self, path: Path, value: bytes) -> None:
        with path.open("xb") as file:
            file.write(value)

    def replace_json(self, path: Path, value: Any) -> None:
        replace_json(path, value)


@dataclass
class _Claim:
    path: Path
    tries: int = 0
    not_before: float = 0.0
    is_over: bool = False


class NotificationDelivery:
    """One run's message, to all who are to get it. Call `look` until nothing is left.

    Attributes:
        trouble: Why the last try did not succeed, one sentence, or "".
    """

    def __init__(
        self,
        attempt: AttemptFolder,
        message: RunEndMessage,
        targets: tuple[NotificationTarget, ...],
        send: Send,
        writer: Writer | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._attempt = attempt
        self._message = message
        self._targets = targets
        self._send = send
        self._writer = writer or LocalFiles()
        self._monotonic = monotonic
        self._mine: dict[str, _Claim] = {}
        self._seen: dict[str, tuple[str, float]] = {}
        self.trouble = ""

    def poll(self) -> float | None:
        """Do what is due; returns the seconds after which to look again, None when all is over.

        Raises:
            OSError: The run's folder cannot be read or written now.
        """
        waits = [self._advance(target) for target in self._targets]
        left = [wait for wait in waits if wait is not None]
        return min(left) if left else None

    def _advance(self, target: NotificationTarget) -> float | None:
        claim = self._mine.get(target.key) or self._take(target)
        if claim is None:
            return self._wait_for_others(target)
        if claim.is_over:
            return None
        now = self._monotonic()
        if now < claim.not_before:
            return claim.not_before - now
        claim.tries += 1
        try:
            self._send(target, self._message)
        except NotSent as error:
            self.trouble = str(error)
            if error.is_final or claim.tries >= MOST_TRIES:
                self._end(claim, GIVEN_UP, self.trouble)
                return None
            delay = DELAYS_S[min(claim.tries, len(DELAYS_S)) - 1]
            claim.not_before = now + delay
            self._write(claim, TRYING, self.trouble)
            return delay
        self.trouble = ""
        self._end(claim, SENT)
        return None

    def _end(self, claim: _Claim, state: str, why: str = "") -> None:
        # What was sent stays sent, even where that cannot be written any more.
        claim.is_over = True
        self._write(claim, state, why)

    def _write(self, claim: _Claim, state: str, why: str = "") -> None:
        with suppress(OSError):
            self._writer.replace_json(claim.path, _record(state, claim.tries, why))

    def _take(self, target: NotificationTarget) -> _Claim | None:
        """The claim, when it is this process's from now on."""
        number, held = self._newest(target)
        if number and not self._is_abandoned(target, held):
            return None
        path = self._path(target, number + 1)
        try:
            self._writer.create(path, json.dumps(_record(TRYING, 0)).encode())
        except FileExistsError:
            return None
        claim = self._mine[target.key] = _Claim(path)
        return claim

    def _wait_for_others(self, target: NotificationTarget) -> float | None:
        _, held = self._newest(target)
        return None if held.get("state") in (SENT, GIVEN_UP) else DELAYS_S[0]

    def _is_abandoned(self, target: NotificationTarget, held: Mapping[str, Any]) -> bool:
        if held.get("state") in (SENT, GIVEN_UP):
            return False
        with suppress(OSError, KeyError, ValueError, TypeError):
            holder = ProcessIdentity.from_dict(held["by"])
            if process_identity.is_here(holder):
                return not process_identity.is_alive(holder)
        now = self._monotonic()
        content = json.dumps(held, sort_keys=True)
        before, since = self._seen.get(target.key, ("", now))
        if content != before:
            self._seen[target.key] = (content, now)
            return False
        return now - since > ABANDONED_S

    def _newest(self, target: NotificationTarget) -> tuple[int, Mapping[str, Any]]:
        """Number and content of the claim that counts; 0 when there is none."""
        number = 0
        while self._path(target, number + 1).exists():
            number += 1
        if not number:
            return 0, {}
        try:
            return number, read_json(self._path(target, number))
        except ValueError:
            # It was created a moment ago, and what is in it comes.
            return number, {}

    def _path(self, target: NotificationTarget, number: int) -> Path:
        return self._attempt.delivery_file(target.key, number)


def _record(state: str, tries: int, why: str = "") -> dict[str, Any]:
    own = _own()
    by = own.to_dict() if own is not None else {"host": socket.gethostname(), "pid": os.getpid()}
    return {"by": by, "state": state, "tries": tries, "why": why}


def _own() -> ProcessIdentity | None:
    """None where no ``/proc`` tells it."""
    with suppress(OSError):
        return process_identity.process(os.getpid())
    return None
