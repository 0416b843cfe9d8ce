"""Light and dark: who decides, and that everything follows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QFont, QGuiApplication, QImage
from PySide6.QtWidgets import QApplication, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from tests.windows import show_widget
from widgets.common import theme
from widgets.common.buttons import Button, SegmentedControl
from widgets.common.cards import Card
from widgets.common.fields import ComboBox, LineEdit
from widgets.common.labels import IconLabel, Label
from widgets.common.panes import PageStack
from widgets.common.theme_manager import ThemeChoice, ThemeManager, unstyled


def test_the_choice_of_the_user_wins_and_is_signalled_once(
    qtbot: QtBot, theme_manager: ThemeManager
) -> None:
    with qtbot.waitSignal(theme_manager.changed):
        theme_manager.choose(ThemeChoice.DARK)
    assert theme.current() == theme.DARK
    assert theme_manager.is_dark
    assert theme_manager.choice is ThemeChoice.DARK
    with qtbot.assertNotEmitted(theme_manager.changed):
        theme_manager.choose(ThemeChoice.DARK)
    theme_manager.toggle()
    assert theme_manager.choice is ThemeChoice.LIGHT


def test_without_a_choice_the_window_follows_the_system(
    qtbot: QtBot, theme_manager: ThemeManager
) -> None:
    hints = QGuiApplication.styleHints()
    theme_manager.choose(ThemeChoice.SYSTEM)
    with qtbot.waitSignal(theme_manager.changed):
        hints.colorSchemeChanged.emit(Qt.ColorScheme.Dark)
    assert theme_manager.is_dark
    with qtbot.waitSignal(theme_manager.changed):
        hints.colorSchemeChanged.emit(Qt.ColorScheme.Light)
    assert not theme_manager.is_dark


def test_with_a_choice_the_window_ignores_the_system(
    qtbot: QtBot, theme_manager: ThemeManager
) -> None:
    with qtbot.assertNotEmitted(theme_manager.changed):
        QGuiApplication.styleHints().colorSchemeChanged.emit(Qt.ColorScheme.Dark)
    assert not theme_manager.is_dark


def colours(widget: QWidget) -> set[str]:
    """Every colour that is where `widget` is on its window."""
    picture = widget.window().grab(widget.geometry()).toImage()
    image = picture.convertToFormat(QImage.Format.Format_RGB32)
    values = np.unique(np.frombuffer(image.constBits(), np.uint32) & 0xFFFFFF)
    return {f"#{value:06X}" for value in values}


def test_visible_widgets_change_with_the_theme(qtbot: QtBot, theme_manager: ThemeManager) -> None:
    page = QWidget()
    page.setObjectName("page")
    page.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
    box = QVBoxLayout(page)
    label, icon = Label("██", "title"), IconLabel("stop-fill", "text", 32)
    box.addWidget(label)
    box.addWidget(icon)
    qtbot.addWidget(page)
    page.show()
    assert theme.LIGHT.text in colours(label)
    assert theme.LIGHT.text in colours(icon)
    theme_manager.choose(ThemeChoice.DARK)
    assert theme.DARK.text in colours(label)
    assert theme.DARK.text in colours(icon)


PARTS: dict[str, Callable[[], QWidget]] = {
    "label": lambda: Label("██", "title", "bad"),
    "icon": lambda: IconLabel("stop-fill", "text", 32),
    "primary": lambda: Button("Start", kind="primary", icon="play"),
    "disabled": lambda: _disabled(Button("Stop", icon="stop")),
    "field": lambda: LineEdit("0.1"),
    "choice": lambda: ComboBox([("a", "One")], "a", name="Choice"),
    "segments": lambda: SegmentedControl((("a", "One"), ("b", "Two")), name="Shown"),
    "card": lambda: Card(Label("text")),
}


def _disabled(widget: QWidget) -> QWidget:
    widget.setEnabled(False)
    return widget


class StyleChanges(QObject):
    """Counts the changes of style that a widget receives."""

    count = 0

    def eventFilter(self, _target: QObject, event: QEvent) -> bool:
        self.count += event.type() == QEvent.Type.StyleChange
        return False


@pytest.mark.parametrize("part", PARTS)
def test_a_hidden_page_is_styled_once_and_only_when_it_is_shown(
    qtbot: QtBot, theme_manager: ThemeManager, part: str
) -> None:
    def page() -> QWidget:
        widget = QWidget()
        box = QVBoxLayout(widget)
        box.addWidget(PARTS[part]())
        box.addStretch()
        return widget

    stack = PageStack()
    pages = page(), page()
    for stacked_page in pages:
        stack.addWidget(stacked_page)
    qtbot.addWidget(stack)
    stack.resize(300, 200)
    stack.show()
    for stacked_page in reversed(pages):
        stack.setCurrentWidget(stacked_page)
        stack.grab()
    changes = StyleChanges(), StyleChanges()
    for stacked_page, counter in zip(pages, changes, strict=True):
        stacked_page.installEventFilter(counter)
    theme_manager.choose(ThemeChoice.DARK)
    assert [counter.count for counter in changes] == [1, 0]
    stack.setCurrentWidget(pages[1])
    assert [counter.count for counter in changes] == [1, 1]
    styled = stack.grab().toImage()
    late_page = page()
    stack.addWidget(late_page)
    stack.setCurrentWidget(late_page)
    assert styled == stack.grab().toImage()
    stack.setCurrentWidget(pages[0])
    assert styled == stack.grab().toImage()


def test_reduced_motion_is_a_separate_setting(theme_manager: ThemeManager) -> None:
    theme_manager.reduce_motion(True)
    assert theme.motion_reduced()
    assert theme_manager.reduced_motion


@pytest.mark.parametrize("role", theme.FONT_SIZES)
def test_every_role_has_a_font_that_can_be_read(qapp: QApplication, role: theme.Role) -> None:
    font = theme.font(role)
    assert font.pixelSize() >= 11
    if role != "mono":
        assert font.featureValue(QFont.Tag("tnum")) == 1


def test_a_colour_that_does_not_exist_is_a_bug() -> None:
    with pytest.raises(AttributeError):
        theme.LIGHT.q("pink")
    with pytest.raises(ValueError, match="name is not a colour"):
        theme.LIGHT.q("name")


def test_a_page_that_is_built_without_the_style_sheet_equals_a_styled_page(
    qtbot: QtBot, qapp: QApplication, theme_manager: ThemeManager
) -> None:
    def page() -> QWidget:
        widget = QWidget()
        box = QVBoxLayout(widget)
        for part in PARTS.values():
            box.addWidget(part())
        return widget

    def picture(widget: QWidget) -> QImage:
        return show_widget(qtbot, widget, 300, 500).grab().toImage()

    styled_page = page()
    styled_picture, changes = picture(styled_page), StyleChanges()
    styled_page.installEventFilter(changes)
    sheet = qapp.styleSheet()
    with unstyled(qapp):
        assert not qapp.styleSheet()
        second_page = page()
    assert (qapp.styleSheet(), changes.count) == (sheet, 0)
    assert picture(second_page) == styled_picture
    assert styled_page.grab().toImage() == styled_picture
