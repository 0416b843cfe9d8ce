"""A page of help fits into a small window."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from app.shell.help import read_topics
from tests.windows import show_widget
from widgets.common.rich_text import RichText

pytestmark = pytest.mark.usefixtures("theme_manager")


@pytest.mark.parametrize("topic", read_topics(), ids=lambda topic: topic.key)
def test_no_page_of_the_help_scrolls_sideways(qtbot: QtBot, topic) -> None:
    page = show_widget(qtbot, RichText(), 500, 500)
    page.show_markdown(topic.markdown)
    assert page.verticalScrollBar().maximum() > 0
    # Qt lays out a long page in steps: until the next one the range is older than the scroll bar.
    qtbot.waitUntil(lambda: page.horizontalScrollBar().maximum() == 0)


def test_a_long_command_goes_on_below_itself_and_is_copied_as_one_line(qtbot: QtBot) -> None:
    page = show_widget(qtbot, RichText(), 300, 300)
    command = "./installers/run node add gpu01.cluster.example.org --user mai --name gpu01"
    page.show_markdown(f"Type:\n\n    {command}\n")
    block = page.document().lastBlock()
    assert block.layout().lineCount() > 1
    assert block.text() == command
    assert page.horizontalScrollBar().maximum() == 0


@pytest.mark.parametrize("width", [500, 800, 1600])
def test_no_line_of_prose_is_longer_than_one_can_follow(qtbot: QtBot, width: int) -> None:
    page = show_widget(qtbot, RichText(), width, 500)
    page.show_markdown("The rate falls by half when the loss has not fallen for ten epochs. " * 9)
    lines = page.document().firstBlock().layout()
    longest = max(lines.lineAt(n).textLength() for n in range(lines.lineCount()))
    assert longest <= 110
    assert longest > 80 or width == 500
    bar = page.verticalScrollBar()
    page.resize(width, 40)
    assert bar.mapTo(page, bar.rect().topRight()).x() >= width - 3, "the bar stays at the edge"
    page.show_markdown("    " + "x" * 85)
    assert page.document().firstBlock().layout().lineCount() == 1 or width == 500
