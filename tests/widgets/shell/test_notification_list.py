"""The bell's list: what is new stands out, everything leads to its place, names are only text."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QListView, QWidget
from pytestqt.qtbot import QtBot

from tests.windows import find_only, shows_text
from widgets.common.cards import StyledFrame
from widgets.common.theme_manager import ThemeManager
from widgets.shell.main_window import MainWindow
from widgets.shell.notification_list import NoticeItem, NoticeList

ITEMS = [
    NoticeItem(
        "Failed: vit-s16 · plankton adamw",
        "Out of GPU memory. Try batch size 16 instead of 32.",
        "11:52",
        "bad",
        True,
    ),
    NoticeItem("3 jobs failed on gpu07", "unet-cells, deeplab, speech-ctc", "11:40", "bad", True),
    NoticeItem(
        "Diverges: retinanet-r50 · coco 2x",
        "The loss is 9.31, 4.2 times its best (2.2 at step 12 390).",
        "10:04",
        "warn",
    ),
    NoticeItem("Offline: gpu11", "speech-ctc runs there.", "yesterday", "bad"),
    NoticeItem("Finished: digits, two workers", "5 epochs done.", "Wed", "good"),
]
LONG = NoticeItem(
    "Failed: <b>" + "a very long name of a job " * 6,
    "Rank 3 on gpu03 " + "x" * 300,
    "12:01",
    "bad",
    True,
)


@pytest.fixture
def window(qtbot: QtBot, theme_manager: ThemeManager) -> MainWindow:
    window = MainWindow()
    window.add_page("jobs", QWidget())
    qtbot.addWidget(window)
    window.resize(1440, 900)
    window.show()
    window.open_page("jobs")
    return window


def show_list(window: MainWindow, items: list[NoticeItem]) -> NoticeList:
    notices = NoticeList(window)
    window.side_bar.set_unread(sum(item.is_new for item in items))
    notices.show_items(items)
    notices.open(window.side_bar.bell)
    return notices


def test_a_click_on_a_notification_closes_the_list_and_opens_its_place(
    window: MainWindow, qtbot: QtBot, qtmodeltester
) -> None:
    notices = show_list(window, ITEMS)
    qtmodeltester.check(notices._model)
    row_center = find_only(QListView, notices).visualRect(notices._model.index(1, 0)).center()
    with qtbot.waitSignal(notices.notice_opened) as signal:
        qtbot.mouseClick(
            find_only(QListView, notices).viewport(), Qt.MouseButton.LeftButton, pos=row_center
        )
    assert signal.args == [1]
    assert not notices.isVisible()


def test_the_list_goes_by_keys_and_escape_leaves_all_as_it_was(
    window: MainWindow, qtbot: QtBot
) -> None:
    notices = show_list(window, ITEMS)
    qtbot.keyClick(find_only(QListView, notices), Qt.Key.Key_Return)
    assert notices.isVisible(), "nothing is chosen yet"
    qtbot.keyClick(find_only(QListView, notices), Qt.Key.Key_Down)
    qtbot.keyClick(find_only(QListView, notices), Qt.Key.Key_Down)
    with qtbot.waitSignal(notices.notice_opened) as signal:
        qtbot.keyClick(find_only(QListView, notices), Qt.Key.Key_Return)
    assert signal.args == [1]
    notices.open(window.side_bar.bell)
    qtbot.keyClick(find_only(QListView, notices), Qt.Key.Key_Escape)
    assert not notices.isVisible()
    notices.open(window.side_bar.bell)
    qtbot.mouseClick(notices, Qt.MouseButton.LeftButton, pos=window.rect().topRight())
    assert not notices.isVisible()


def test_a_screen_reader_reads_all_of_a_notification(window: MainWindow) -> None:
    notices = show_list(window, [LONG])
    index = notices._model.index(0, 0)
    heard = index.data(Qt.ItemDataRole.AccessibleTextRole)
    assert heard == f"{LONG.title}, {LONG.text}, 12:01, new"
    assert "<b>" not in index.data(Qt.ItemDataRole.ToolTipRole).replace("&lt;b&gt;", "")


def test_an_empty_list_says_what_belongs_here(window: MainWindow) -> None:
    notices = show_list(window, [])
    assert notices._empty_title.isVisible()
    assert shows_text(notices, "Ended and stalled jobs")
    assert not find_only(QListView, notices).isVisible()


def test_the_bell_counts_and_is_there_in_the_rail_too(window: MainWindow, qtbot: QtBot) -> None:
    window.side_bar.set_unread(3)
    assert window.side_bar.bell.accessibleName() == "3 new notifications"
    window.resize(1000, 640)
    assert window.side_bar.bell.isVisible()
    qtbot.waitUntil(lambda: window.side_bar.bell.geometry().right() < window.side_bar.width())
    window.side_bar.set_unread(0)
    assert window.side_bar.bell.accessibleName() == "Notifications"


@pytest.mark.parametrize("rows", [0, 5, 200])
@pytest.mark.parametrize("size", [(1440, 900), (1000, 640), (900, 600)])
def test_the_list_stays_inside_the_window(
    window: MainWindow, size: tuple[int, int], rows: int
) -> None:
    window.resize(*size)
    notices = show_list(window, [ITEMS[n % 5] for n in range(rows)])
    assert window.rect().contains(find_only(StyledFrame, notices).geometry())
    window.resize(1200, 700)
    assert window.rect().contains(find_only(StyledFrame, notices).geometry())


def test_the_bell_moves_no_button_beside_it(window: MainWindow, qtbot: QtBot) -> None:
    bar = window.side_bar
    other_buttons = (bar.theme, bar.keys, bar.help, bar.gear)
    previous_xs = [b.x() for b in other_buttons]
    for count in (1, 2, 9, 10, 99, 1000):
        bar.set_unread(count)
        QApplication.processEvents()
        assert [b.x() for b in other_buttons] == previous_xs
