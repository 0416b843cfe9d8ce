"""Memory that was freed goes back to the system."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QObject

from app.memory import FreedMemory, give_back

_PIECES, _PIECE_BYTES = 2_000, 50_000


def resident_bytes() -> int:
    text = Path("/proc/self/status").read_text(encoding="utf-8")
    return 1024 * int(next(line.split()[1] for line in text.splitlines() if "RssAnon" in line))


def test_what_lies_between_pieces_that_are_still_used_is_given_back() -> None:
    pieces = [bytes(_PIECE_BYTES).replace(b"\0", b"x") for _ in range(_PIECES)]
    kept = pieces[::2]
    del pieces
    before = resident_bytes()
    assert give_back()
    assert before - resident_bytes() > _PIECES * _PIECE_BYTES / 4
    assert len(kept) == _PIECES / 2


def test_it_is_done_beside_the_window(qtbot, immediately) -> None:
    lanes = []

    class Noted:
        def run(self, lane, work, then, otherwise):
            lanes.append(lane)
            immediately.run(lane, work, then, otherwise)

    parent = QObject()
    memory = FreedMemory(Noted(), parent)
    memory._timer.start(1)
    qtbot.waitUntil(lambda: lanes != [])
    memory._timer.stop()
    assert set(lanes) == {"memory"}
