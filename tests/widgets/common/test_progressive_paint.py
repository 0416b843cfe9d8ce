"""A page that is shown is painted in several turns, and what stood there stays until then."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QPoint
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QApplication, QVBoxLayout, QWidget

from widgets.common.chunked_work import ChunkedWork
from widgets.common.page_stack import Stack

OLD, NEW = QColor("#aa0000"), QColor("#0000aa")


class Sheet(QWidget):
    def __init__(self, colour: QColor) -> None:
        super().__init__()
        self.colour = colour
        self.painted = 0

    def paintEvent(self, event: QPaintEvent) -> None:
        self.painted += 1
        QPainter(self).fillRect(event.rect(), self.colour)


class Page(QWidget):
    """Eight sheets below each other."""

    def __init__(self, colour: QColor) -> None:
        super().__init__()
        self.sheets = [Sheet(colour) for _ in range(8)]
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        for sheet in self.sheets:
            layout.addWidget(sheet)

    def painted(self) -> int:
        return sum(sheet.painted > 0 for sheet in self.sheets)


@pytest.fixture
def stack(qtbot) -> Iterator[Stack]:
    stack = Stack()
    qtbot.addWidget(stack)
    for colour in (OLD, NEW):
        stack.addWidget(Page(colour))
    stack.resize(400, 800)
    stack.show()
    qtbot.waitUntil(lambda: page(stack, 0).painted() == 8)
    return stack


def page(stack: Stack, number: int) -> Page:
    found = stack.widget(number)
    assert isinstance(found, Page)
    return found


def turn_to_new(stack: Stack) -> Page:
    stack.setCurrentWidget(page(stack, 1))
    return page(stack, 1)


def one_turn(stack: Stack) -> None:
    """The next piece, and the painting that follows it."""
    turns = stack.findChild(ChunkedWork)
    assert isinstance(turns, ChunkedWork)
    turns.do_one()
    QApplication.sendPostedEvents()


def on_screen(stack: Stack, sheet: Sheet) -> QColor:
    """What a person sees in the middle of a sheet."""
    at = sheet.mapTo(stack, sheet.rect().center())
    seen = stack.screen().grabWindow(stack.winId()).toImage()
    return seen.pixelColor(at)


def test_no_turn_paints_the_whole_page(stack: Stack) -> None:
    new = turn_to_new(stack)
    QApplication.sendPostedEvents()
    counts = [new.painted()]
    for _ in range(6):
        one_turn(stack)
        counts.append(new.painted())
    assert counts == [0, 2, 4, 6, 8, 8, 8]
    assert [sheet.painted for sheet in new.sheets] == [1] * 8


def test_the_old_page_is_seen_until_the_new_one_is_painted(stack: Stack) -> None:
    new = turn_to_new(stack)
    QApplication.sendPostedEvents()
    assert [on_screen(stack, sheet) for sheet in new.sheets] == [OLD] * 8
    one_turn(stack)
    assert [on_screen(stack, sheet) for sheet in new.sheets] == [NEW] * 2 + [OLD] * 6
    for _ in range(3):
        one_turn(stack)
    assert [on_screen(stack, sheet) for sheet in new.sheets] == [NEW] * 8


def test_one_large_thing_is_painted_in_bands(stack: Stack) -> None:
    large = Sheet(NEW)
    stack.addWidget(large)
    stack.setCurrentWidget(large)
    QApplication.sendPostedEvents()
    assert large.painted == 0
    for _ in range(5):
        one_turn(stack)
    assert large.painted == 5
    assert on_screen(stack, large) == NEW


def test_what_lies_beneath_can_be_clicked_at_once(stack: Stack) -> None:
    new = turn_to_new(stack)
    assert stack.childAt(QPoint(200, 790)) is new.sheets[-1]


def test_another_size_shows_the_page_at_once(stack: Stack) -> None:
    new = turn_to_new(stack)
    stack.resize(500, 900)
    QApplication.sendPostedEvents()
    assert new.painted() == 8


def test_a_page_turned_to_meanwhile_is_painted_instead(stack: Stack) -> None:
    new = turn_to_new(stack)
    one_turn(stack)
    stack.setCurrentWidget(page(stack, 0))
    for _ in range(5):
        one_turn(stack)
    assert [on_screen(stack, sheet) for sheet in page(stack, 0).sheets] == [OLD] * 8
    assert not any(sheet.isVisible() for sheet in new.sheets)


def test_a_style_sheet_leaves_the_cover_opaque(stack: Stack, qtbot) -> None:
    """Qt takes that away from a widget when it dresses it; without it all is painted at once."""
    stack.setStyleSheet("QWidget { background: transparent }")
    new = turn_to_new(stack)
    QApplication.sendPostedEvents()
    assert new.painted() == 0
