"""The user at this computer's keyboard, as systemd-logind knows it.

A desktop environment reports to logind when its user is idle or locks the screen; for a text
console, logind knows it itself. A graphical session that never reported anything does not count:
some environments never do, and their user may have left long ago.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from backend.base.log import suppress, swallowed
from backend.records.base.validation import sanitize

ACTIVE_S = 60.0
"""A user who is active for so long needs the computer."""
_EVERY_S = 10.0
_LIMIT_S = 2.0
_SESSIONS = Path("/run/systemd/sessions")
_ASKED = ("Name", "IdleHint", "IdleSinceHint", "LockedHint", "Type")


class Keyboard:
    """Reads the sessions repeatedly, at most every 10 s; without one at a seat it is cheap.

    Args:
        ask: Returns the properties of a session as logind knows them now.
    """

    def __init__(
        self,
        sessions: Path = _SESSIONS,
        ask: Callable[[str], Mapping[str, str]] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sessions = sessions
        self._ask = ask or _show
        self._monotonic = monotonic
        self._next = 0.0
        self._since: dict[str, float] = {}

    def user(self) -> str:
        """Return the user who has been active for `ACTIVE_S`, "" if there is none."""
        now = self._monotonic()
        if now >= self._next:
            self._next = now + _EVERY_S
            active = self._active()
            self._since = {user: self._since.get(user, now) for user in active}
        return next((user for user, at in self._since.items() if now >= at + ACTIVE_S), "")

    def _active(self) -> list[str]:
        found = []
        with suppress(FileNotFoundError, NotADirectoryError):
            for path in sorted(self._sessions.iterdir()):
                if not _is_local(path):
                    continue
                session = self._ask(path.name)
                if is_active(session):
                    found.append(sanitize(session["Name"]))
        return found


def is_active(session: Mapping[str, str]) -> bool:
    """Return whether the user of a session with these properties uses it now."""
    says_when_idle = session.get("IdleSinceHint", "0") != "0" or session.get("Type") == "tty"
    hints = (session.get("IdleHint"), session.get("LockedHint", "no"))
    return bool(session.get("Name")) and hints == ("no", "no") and says_when_idle


def _is_local(path: Path) -> bool:
    """Return whether a user's session, not that of a login screen, is the one that is shown."""
    try:
        session = _properties(path.read_text(encoding="utf-8", errors="replace"))
    except OSError as error:
        swallowed(error)
        return False
    is_shown = session.get("ACTIVE") == "1" and session.get("REMOTE", "0") == "0"
    return is_shown and bool(session.get("SEAT")) and session.get("CLASS", "user") == "user"


def _show(session: str) -> Mapping[str, str]:
    # Loaded only now: few nodes have a seat, and an agent stays small.
    import subprocess

    command = ["loginctl", "show-session", session, *(f"--property={one}" for one in _ASKED)]
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_LIMIT_S,
            check=True,
        )
        return _properties(done.stdout.decode("utf-8", "replace"))
    return {}


def _properties(text: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in text.splitlines())
    return {name: value for name, _, value in pairs if name and not name.startswith("#")}
