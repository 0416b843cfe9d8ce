"""A page of help fits into a small window."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from app.help import read_topics
from widgets.common.rich_text import RichText

pytestmark = pytest.mark.usefixtures("look")


@pytest.mark.parametrize("topic", read_topics(), ids=lambda topic: topic.key)
def test_no_page_of_the_help_scrolls_sideways(qtbot: QtBot, topic) -> None:
    page = RichText()
    qtbot.addWidget(page)
    page.resize(500, 500)
    page.show()
    page.show_markdown(topic.markdown)
    assert page.verticalScrollBar().maximum() > 0
    assert page.horizontalScrollBar().maximum() == 0


def test_a_long_command_goes_on_below_itself_and_is_copied_as_one_line(qtbot: QtBot) -> None:
    page = RichText()
    qtbot.addWidget(page)
    page.resize(300, 300)
    page.show()
    command = "./installers/run node add gpu01.cluster.example.org --user mai --name gpu01"
    page.show_markdown(f"Type:\n\n    {command}\n")
    block = page.document().lastBlock()
    assert block.layout().lineCount() > 1
    assert block.text() == command
    assert page.horizontalScrollBar().maximum() == 0
