"""Frequent updates are delayed, and the last update is never dropped."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QObject
from pytestqt.qtbot import QtBot

from widgets.common.throttle import Throttle

pytestmark = pytest.mark.usefixtures("qapp")
_HOUR_MS = 3_600_000


def end_pause(throttle: Throttle) -> None:
    throttle._pause.stop()
    throttle._end_pause()


def test_the_first_comes_at_once_and_the_last_of_many_once_more() -> None:
    owner, calls = QObject(), []
    throttle = Throttle(_HOUR_MS, lambda: calls.append("call"), owner)
    for _ in range(100):
        throttle.request()
    assert len(calls) == 1
    end_pause(throttle)
    assert len(calls) == 2
    throttle.request()
    assert len(calls) == 2


def test_rare_requests_are_never_delayed() -> None:
    owner, calls = QObject(), []
    throttle = Throttle(_HOUR_MS, lambda: calls.append("call"), owner)
    throttle.request()
    end_pause(throttle)
    throttle.request()
    assert len(calls) == 2


def test_a_pause_ends_by_itself(qtbot: QtBot) -> None:
    owner, calls = QObject(), []
    throttle = Throttle(1, lambda: calls.append("call"), owner)
    throttle.request()
    throttle.request()
    qtbot.waitUntil(lambda: len(calls) == 2)


def test_a_stopped_throttle_drops_its_pending_request() -> None:
    owner, calls = QObject(), []
    throttle = Throttle(_HOUR_MS, lambda: calls.append("call"), owner)
    throttle.request()
    throttle.request()
    throttle.stop()
    assert not throttle._pause.isActive()
    end_pause(throttle)
    assert len(calls) == 1
