"""The window fits on its screen, also where 200 % leaves few pixels."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QRect
from pytestqt.qtbot import QtBot

from app.shell.window_geometry import frame_on_screen
from tests.pictures import lab
from tests.pictures.flaws import flaws
from widgets.shell.main_window import MainWindow

HD, HD_AT_200 = QRect(0, 0, 1920, 1080), QRect(0, 0, 960, 540)
RIGHT_OF_IT = QRect(960, 0, 1920, 1080)


@pytest.mark.parametrize(
    ("remembered_frame", "screens", "expected"),
    [
        (QRect(0, 0, 900, 600), [HD], QRect(0, 0, 900, 600)),
        (QRect(0, 0, 900, 600), [HD_AT_200], QRect(0, 0, 900, 540)),
        (QRect(20, 300, 900, 600), [HD_AT_200], QRect(20, 0, 900, 540)),
        (QRect(20, 300, 900, 500), [HD_AT_200], QRect(20, 300, 900, 500)),
        (QRect(980, 100, 1440, 900), [HD_AT_200, RIGHT_OF_IT], QRect(980, 100, 1440, 900)),
        (QRect(980, 100, 1440, 1200), [HD_AT_200, RIGHT_OF_IT], QRect(980, 0, 1440, 1080)),
        (QRect(5000, 0, 1440, 900), [HD_AT_200], QRect(0, 0, 960, 540)),
        (QRect(0, 0, 900, 600), [], QRect(0, 0, 900, 600)),
    ],
)
def test_a_remembered_window_is_on_its_screen(
    remembered_frame: QRect, screens: list[QRect], expected: QRect
) -> None:
    assert frame_on_screen(remembered_frame, screens) == expected


@given(
    x=st.integers(-3000, 5000),
    y=st.integers(-500, 3000),
    width=st.integers(200, 5000),
    height=st.integers(200, 3000),
    screen=st.sampled_from([HD, HD_AT_200, RIGHT_OF_IT]),
)
def test_no_side_of_a_window_is_longer_than_that_of_its_screen(
    x: int, y: int, width: int, height: int, screen: QRect
) -> None:
    frame = frame_on_screen(QRect(x, y, width, height), [screen])
    assert frame.width() == min(width, screen.width())
    assert frame.height() == min(height, screen.height())
    assert screen.intersects(frame)


@pytest.mark.parametrize(
    ("available_height", "min_height"),
    [(1040, 600), (600, 600), (540, 540), (500, 500), (480, 480), (300, 480)],
)
def test_the_smallest_height_follows_the_screen_from_480_on(
    qtbot: QtBot, available_height: int, min_height: int
) -> None:
    window = MainWindow()
    qtbot.addWidget(window)
    window.set_min_height(available_height)
    assert (window.minimumWidth(), window.minimumHeight()) == (900, min_height)


@pytest.mark.parametrize("size", [(900, 480), (900, 540), (1000, 599), (1200, 480), (1920, 540)])
@pytest.mark.parametrize("live", [0, 1, 2, 5])
def test_in_a_low_window_the_foot_of_the_side_bar_is_seen(
    qtbot: QtBot, size: tuple[int, int], live: int
) -> None:
    window = MainWindow()
    qtbot.addWidget(window)
    window.set_min_height(size[1])
    bar = window.side_bar
    bar.show_nodes(lab.nodes())
    bar.show_live((lab.LIVE,) * live)
    window.resize(*size)
    window.show()
    qtbot.waitExposed(window)
    assert window.height() == size[1]
    assert list(flaws(bar)) == []
    for button in (bar.bell, bar.help, bar.gear):
        assert bar.rect().contains(button.geometry())
