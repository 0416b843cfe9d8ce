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
_SESSION_PROPERTIES = ("Name", "IdleHint", "IdleSinceHint", "LockedHint", "Type")


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
        self._ask = ask or _read_properties
        self._monotonic = monotonic
        self._next_read_s = 0.0
        self._active_since_s: dict[str, float] = {}

    def user(self) -> str:
        """Return the user who has been active for `ACTIVE_S`, "" if there is none."""
        now_s = self._monotonic()
        if now_s >= self._next_read_s:
            self._next_read_s = now_s + _EVERY_S
            active_users = self._active_users()
            self._active_since_s = {
                user: self._active_since_s.get(user, now_s) for user in active_users
            }
        return next(
            (user for user, since_s in self._active_since_s.items() if now_s >= since_s + ACTIVE_S),
            "",
        )

    def _active_users(self) -> list[str]:
        users = []
        with suppress(FileNotFoundError, NotADirectoryError):
            for path in sorted(self._sessions.iterdir()):
                if not _is_local(path):
                    continue
                session = self._ask(path.name)
                if is_active(session):
                    users.append(sanitize(session["Name"]))
        return users


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
    is_active = session.get("ACTIVE") == "1" and session.get("REMOTE", "0") == "0"
    return is_active and bool(session.get("SEAT")) and session.get("CLASS", "user") == "user"


def _read_properties(session: str) -> Mapping[str, str]:
    # Loaded only now: few nodes have a seat, and an agent stays small.
    import subprocess

    command = [
        "loginctl",
        "show-session",
        session,
        *(f"--property={name}" for name in _SESSION_PROPERTIES),
    ]
    with suppress(OSError, subprocess.SubprocessError):
        result = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_LIMIT_S,
            check=True,
        )
        return _properties(result.stdout.decode("utf-8", "replace"))
    return {}


def _properties(text: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in text.splitlines())
    return {name: value for name, _, value in pairs if name and not name.startswith("#")}
