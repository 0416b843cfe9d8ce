"""Who is at the keyboard, by the sessions that logind has and what it answers about them."""

from __future__ import annotations

from pathlib import Path

import pytest

from backend.node.metrics.keyboard import ACTIVE_S, Keyboard, is_active

LOCAL_SESSION = "# private\nUSER=alice\nACTIVE=1\nREMOTE=0\nSEAT=seat0\nCLASS=user\n"
ACTIVE = {"Name": "alice", "IdleHint": "no", "IdleSinceHint": "17", "LockedHint": "no"}


class KeyboardRig:
    def __init__(self, folder: Path, file: str = LOCAL_SESSION) -> None:
        self.now, self.query_count, self.answer = 1000.0, 0, ACTIVE
        (folder / "c2").write_text(file)
        self.keyboard = Keyboard(folder, self._ask, lambda: self.now)

    def _ask(self, session: str) -> dict[str, str]:
        assert session == "c2"
        self.query_count += 1
        return self.answer

    def user_after(self, seconds: int) -> str:
        for _ in range(seconds):
            self.now += 1
            user = self.keyboard.user()
        return user


def test_a_user_counts_after_a_minute_and_until_the_session_is_idle(tmp_path: Path) -> None:
    rig = KeyboardRig(tmp_path)
    assert rig.user_after(int(ACTIVE_S) - 5) == ""
    assert rig.user_after(20) == "alice"
    rig.answer = {**ACTIVE, "IdleHint": "yes"}
    assert rig.user_after(15) == ""
    rig.answer = ACTIVE
    assert rig.user_after(30) == ""
    assert rig.query_count < 20


@pytest.mark.parametrize(
    "line",
    ["ACTIVE=0", "REMOTE=1", "SEAT=", "CLASS=greeter"],
)
def test_other_sessions_are_not_asked_about(tmp_path: Path, line: str) -> None:
    rig = KeyboardRig(tmp_path, LOCAL_SESSION + line + "\n")
    assert (rig.user_after(200), rig.query_count) == ("", 0)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, True),
        ({"IdleHint": "yes"}, False),
        ({"LockedHint": "yes"}, False),
        # Its environment never says whether it is idle.
        ({"IdleSinceHint": "0"}, False),
        ({"IdleSinceHint": "0", "Type": "tty"}, True),
        ({"Name": ""}, False),
    ],
)
def test_only_sessions_that_logind_calls_active_are_active(
    changes: dict[str, str], expected: bool
) -> None:
    assert is_active({**ACTIVE, **changes}) is expected
    assert not is_active({})


def test_without_logind_there_is_no_user(tmp_path: Path) -> None:
    assert Keyboard(tmp_path / "missing").user() == ""
