"""What comes too often is held back, and the last is never left out."""

from __future__ import annotations

from PySide6.QtCore import QObject, QTimer
from pytestqt.qtbot import QtBot

from widgets.common.throttle import Throttle


def test_the_first_comes_at_once_and_the_last_of_many_once_more(qtbot: QtBot) -> None:
    owner, calls = QObject(), []
    throttle = Throttle(50, lambda: calls.append("call"), owner)
    for _ in range(100):
        throttle.ask()
    assert len(calls) == 1
    qtbot.waitUntil(lambda: len(calls) == 2)
    throttle.ask()
    assert len(calls) == 2


def test_one_who_asks_seldom_is_never_held_back(qtbot: QtBot) -> None:
    owner, calls = QObject(), []
    throttle = Throttle(0, lambda: calls.append("call"), owner)
    throttle.ask()
    qtbot.waitUntil(lambda: not throttle.findChildren(QObject)[0].isActive())
    throttle.ask()
    assert len(calls) == 2


def test_stopped_it_leaves_out_what_was_asked_for(qtbot: QtBot) -> None:
    owner, calls = QObject(), []
    throttle = Throttle(10, lambda: calls.append("call"), owner)
    throttle.ask()
    throttle.ask()
    throttle.stop()
    over = QTimer(owner)
    over.setSingleShot(True)
    with qtbot.waitSignal(over.timeout):
        over.start(50)
    assert len(calls) == 1
