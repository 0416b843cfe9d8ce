"""A link of the help to a heading opens the page at that heading."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QUrl
from PySide6.QtGui import QTextCursor
from pytestqt.qtbot import QtBot

from app.shell.help import DOCS, TOPICS, read_topics
from tests.windows import find_only, show_widget
from widgets.common.rich_text import RichText, _heading_fragment
from widgets.shell.help_page import HelpPage, Topic

LONG = "\n\n".join(f"Line {n}." for n in range(200))
PAGES = (
    Topic("a.md", "A", f"# A\n\n[go](#second-part)\n\n{LONG}\n\n## Second part\n\n{LONG}"),
    Topic("b.md", "B", f"# B\n\n{LONG}\n\n### 7. What has it learned?\n\n{LONG}"),
)


@pytest.fixture
def page(qtbot: QtBot) -> HelpPage:
    page = show_widget(qtbot, HelpPage(), 1000, 640)
    page.show_topics(PAGES)
    return page


def heading_at_top(page: HelpPage) -> str:
    cursor = find_only(RichText, page).cursorForPosition(
        find_only(RichText, page).viewport().rect().topLeft()
    )
    cursor.movePosition(QTextCursor.MoveOperation.StartOfBlock)
    if not cursor.block().blockFormat().headingLevel():
        cursor.movePosition(QTextCursor.MoveOperation.NextBlock)
    return cursor.block().text()


@pytest.mark.parametrize(
    ("link", "topic_key", "heading"),
    [
        ("#second-part", "a.md", "Second part"),
        ("a.md#second-part", "a.md", "Second part"),
        ("b.md#7-what-has-it-learned", "b.md", "7. What has it learned?"),
        ("b.md", "b.md", "B"),
        ("b.md#no-such-heading", "b.md", "B"),
        ("a.md#a", "a.md", "A"),
    ],
)
def test_a_link_leads_to_its_heading(
    page: HelpPage, link: str, topic_key: str, heading: str
) -> None:
    find_only(RichText, page).anchorClicked.emit(QUrl(link))
    assert page._topic_key == topic_key
    assert heading_at_top(page).startswith(heading)


def test_each_link_between_the_pages_of_the_help_has_its_heading() -> None:
    headings = {
        topic.key: {
            _heading_fragment(line.lstrip("# "))
            for line in topic.markdown.splitlines()
            if line.startswith("#")
        }
        for topic in read_topics()
    }
    links = 0
    for name, _ in TOPICS:
        for text_part in (DOCS / name).read_text("utf-8").split("](")[1:]:
            target, _, fragment = text_part.partition(")")[0].partition("#")
            if fragment and not target.startswith("http") and (target or name) in headings:
                links += 1
                assert fragment in headings[target or name]
    assert links >= 2
