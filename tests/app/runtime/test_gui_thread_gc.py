"""No widget is ever destroyed outside the GUI thread."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from app.runtime.gui_thread_gc import Garbage


@pytest.fixture
def collects_anywhere() -> Iterator[None]:
    """Python as it is when nobody takes the collector over."""
    was_enabled, thresholds = gc.isenabled(), gc.get_threshold()
    gc.enable()
    gc.set_threshold(100, 1, 1)
    yield
    gc.set_threshold(*thresholds)
    if not was_enabled:
        gc.disable()


class Panel(QWidget):
    """A widget that knows itself, as one with a bound slot or a child's back reference does."""

    def __init__(self) -> None:
        super().__init__()
        self.myself = self


def litter() -> None:
    kept = []
    for _ in range(10_000):
        kept.append([kept])


def work_elsewhere() -> None:
    thread = threading.Thread(target=litter)
    thread.start()
    thread.join()


def dropped_panel(destroyed_in: list[threading.Thread]) -> None:
    panel = Panel()
    panel.destroyed.connect(
        lambda: destroyed_in.append(threading.current_thread()),
        Qt.ConnectionType.DirectConnection,
    )


@pytest.mark.usefixtures("collects_anywhere")
def test_work_in_a_thread_never_destroys_a_widget(qtbot: QtBot) -> None:
    destroyed_in: list[threading.Thread] = []
    garbage = Garbage()
    dropped_panel(destroyed_in)
    work_elsewhere()
    qtbot.waitUntil(lambda: bool(destroyed_in))
    assert destroyed_in == [threading.main_thread()]
    garbage.close()


@pytest.mark.usefixtures("collects_anywhere", "qapp")
def test_the_collector_is_python_s_own_again_afterwards() -> None:
    garbage = Garbage()
    assert not gc.isenabled()
    garbage.close()
    assert gc.isenabled()


@pytest.mark.usefixtures("qapp")
def test_what_stays_is_not_looked_through_again_and_what_comes_is(qtbot: QtBot) -> None:
    garbage = Garbage()
    garbage.freeze()
    assert gc.get_freeze_count() > 10_000
    destroyed_in: list[threading.Thread] = []
    dropped_panel(destroyed_in)
    gc.collect()
    assert destroyed_in == [threading.main_thread()]
    garbage.close()
