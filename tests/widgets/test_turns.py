"""Pieces of work are done one a turn, and newer ones take the place of what is not done yet."""

from __future__ import annotations

from functools import partial

import pytest
from PySide6.QtCore import QObject
from pytestqt.qtbot import QtBot

from widgets.common.turns import Turns


@pytest.fixture
def turns(qapp: QObject) -> Turns:
    return Turns(qapp)


def test_one_piece_a_turn_in_their_order(qtbot: QtBot, turns: Turns) -> None:
    done: list[str] = []
    turns.put([partial(done.append, "side bar"), partial(done.append, "form")])
    assert done == []
    turns._do()
    assert done == ["side bar"]
    qtbot.waitUntil(lambda: done == ["side bar", "form"])


def test_newer_news_take_the_place_of_what_is_not_done(qtbot: QtBot, turns: Turns) -> None:
    done: list[str] = []
    turns.put([partial(done.append, "old")])
    turns.put([partial(done.append, "new")])
    qtbot.waitUntil(lambda: bool(done))
    assert done == ["new"]


def test_a_piece_that_fails_is_told_and_keeps_no_other_back(qtbot: QtBot, turns: Turns) -> None:
    done: list[str] = []
    with qtbot.captureExceptions() as caught:
        turns.put([lambda: 1 / 0, partial(done.append, "next")])
        qtbot.waitUntil(lambda: done == ["next"])
    assert caught[0][0] is ZeroDivisionError


def test_nothing_is_done_after_stop(qtbot: QtBot, turns: Turns) -> None:
    done: list[str] = []
    turns.put([partial(done.append, "late")])
    turns.stop()
    other: list[str] = []
    later = Turns(turns)
    later.put([partial(other.append, "turned")])
    qtbot.waitUntil(lambda: bool(other))
    assert done == []
