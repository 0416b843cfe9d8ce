"""A persistent connection, for many threads and for days.

Laptops sleep and Wi-Fi drops, so the next caller opens a broken connection again. Only one caller
waits for a silent host: for some seconds afterwards all others fail at once, because otherwise all
requests of the window would wait.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from backend.ssh.interface import Shell, Unreachable
from backend.ssh.sftp import SftpFiles

SILENCE_S = 10.0
"""Longest silence of the host; its ``connect`` uses the same limit."""
_PAUSE_S = 5.0
_QUEUE_S = 20.0

T = TypeVar("T")


class PersistentConnection:
    """Every call may run on any thread; calls use the connection one after the other.

    Args:
        connect: Opens a connection, or raises `BackendError`.
        greet: Called with each new connection, before its first use.
        who: Names the host in sentences.
    """

    def __init__(
        self,
        connect: Callable[[], Shell],
        greet: Callable[[SftpFiles], None],
        account: str,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connect = connect
        self._greet = greet
        self._account = account
        self._monotonic = monotonic
        self._lock = threading.RLock()
        self._shell: Shell | None = None
        self._silent_until = float("-inf")
        self._last_error: Unreachable | None = None

    def ask(self, work: Callable[[SftpFiles], T]) -> T:
        """Read something. ``work`` is called again if a connection that was idle had broken.

        Raises:
            Unreachable: The host does not answer.
            BackendError: It cannot be reached.
        """
        with self._take_turn():
            was_open = self._shell is not None
            try:
                return self._run_work(work)
            except Unreachable:
                if not was_open:
                    raise
                self._silent_until = float("-inf")
                return self._run_work(work)

    def act(self, work: Callable[[SftpFiles], T]) -> T:
        """Change something, once: after a broken connection it is not known what arrived.

        Raises:
            Unreachable: The host does not answer; the change may have happened.
            BackendError: It cannot be reached.
        """
        with self._take_turn():
            self.ask(lambda files: files.status("/"))
            return self._run_work(work)

    @contextmanager
    def separate_shell(self) -> Iterator[Shell]:
        """Open a separate connection for long work, which must not delay other calls."""
        shell = self._connect()
        try:
            yield shell
        finally:
            shell.close()

    def close(self) -> None:
        with self._lock:
            self._hang_up()

    def _run_work(self, work: Callable[[SftpFiles], T]) -> T:
        if self._last_error is not None and self._monotonic() < self._silent_until:
            raise Unreachable(
                self._last_error.message, self._last_error.remedy
            ) from self._last_error
        try:
            if self._shell is None:
                self._shell = self._open_shell()
            with self._shell.files() as files:
                result = work(files)
        except Unreachable as error:
            self._hang_up()
            self._last_error, self._silent_until = error, self._monotonic() + _PAUSE_S
            raise
        self._last_error = None
        return result

    def _open_shell(self) -> Shell:
        shell = self._connect()
        try:
            with shell.files() as files:
                self._greet(files)
        except BaseException:
            shell.close()
            raise
        return shell

    def _hang_up(self) -> None:
        if self._shell is not None:
            self._shell.close()
            self._shell = None

    @contextmanager
    def _take_turn(self) -> Iterator[None]:
        if not self._lock.acquire(timeout=_QUEUE_S):
            raise Unreachable(
                f"{self._account} has not answered for a while.", "It is tried again automatically."
            )
        try:
            yield
        finally:
            self._lock.release()
