"""Pieces of work are done one a turn, and newer ones take the place of what is not done yet."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import pytest
import shiboken6
from PySide6.QtCore import QObject, QTimer
from pytestqt.qtbot import QtBot

from widgets.common.chunked_work import ChunkedWork


@pytest.fixture
def turns(qapp: QObject) -> ChunkedWork:
    return ChunkedWork(qapp)


def test_one_piece_a_turn_in_their_order(qtbot: QtBot, turns: ChunkedWork) -> None:
    done: list[str] = []
    turns.put([partial(done.append, "side bar"), partial(done.append, "form")])
    assert done == []
    turns.do_one()
    assert done == ["side bar"]
    qtbot.waitUntil(lambda: done == ["side bar", "form"])


def test_newer_news_take_the_place_of_what_is_not_done(qtbot: QtBot, turns: ChunkedWork) -> None:
    done: list[str] = []
    turns.put([partial(done.append, "old")])
    turns.put([partial(done.append, "new")])
    qtbot.waitUntil(lambda: bool(done))
    assert done == ["new"]


def test_a_piece_that_fails_is_told_and_keeps_no_other_back(
    qtbot: QtBot, turns: ChunkedWork
) -> None:
    done: list[str] = []
    with qtbot.captureExceptions() as caught:
        turns.put([lambda: 1 / 0, partial(done.append, "next")])
        qtbot.waitUntil(lambda: done == ["next"])
    assert caught[0][0] is ZeroDivisionError


def test_nothing_is_done_after_stop(qtbot: QtBot, turns: ChunkedWork) -> None:
    done: list[str] = []
    turns.put([partial(done.append, "late")])
    turns.stop()
    other: list[str] = []
    later = ChunkedWork(turns)
    later.put([partial(other.append, "turned")])
    qtbot.waitUntil(lambda: bool(other))
    assert done == []


def test_of_all_who_have_work_one_is_served_a_turn(qtbot: QtBot, qapp: QObject) -> None:
    """A timer for each of them would be a turn as long as all of their pieces."""
    order: list[str] = []
    for name in ("side bar", "form", "table"):
        ChunkedWork(qapp).put([partial(order.append, name)] * 2)
    key = QTimer()
    key.timeout.connect(partial(order.append, "key"))
    key.start(0)
    qtbot.waitUntil(lambda: len(order) - order.count("key") == 6)
    key.stop()
    at = [number for number, name in enumerate(order) if name != "key"]
    assert [order[number] for number in at] == ["side bar", "form", "table"] * 2
    assert all("key" in order[a:b] for a, b in pairwise(at))


def test_a_piece_may_turn_the_loop_and_the_others_go_on(qtbot: QtBot, qapp: QObject) -> None:
    done: list[str] = []
    dialog = ChunkedWork(qapp)
    dialog.put([lambda: qtbot.waitUntil(lambda: bool(done))])
    ChunkedWork(qapp).put([partial(done.append, "another")])
    qtbot.waitUntil(lambda: dialog.is_done)
    assert done == ["another"]


def test_who_is_gone_is_left_out(qtbot: QtBot, qapp: QObject) -> None:
    done: list[str] = []
    owner = QObject()
    ChunkedWork(owner).put([partial(done.append, "late")])
    shiboken6.delete(owner)
    ChunkedWork(qapp).put([partial(done.append, "other")])
    qtbot.waitUntil(lambda: bool(done))
    assert done == ["other"]
