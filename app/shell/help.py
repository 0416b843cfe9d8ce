"""The pages of the help: the same files that stand in `docs/`, read when they are wished for."""

from __future__ import annotations

import re
from pathlib import Path

from widgets.shell.help_page import Topic

DOCS = Path(__file__).parents[2] / "docs"
TOPICS = (
    ("guide.md", "Your first model"),
    ("first-node.md", "Add your first node"),
    ("node-problems.md", "Node problems"),
    ("terms.md", "What the words mean"),
)
# They show the window, which the reader has before him.
_PICTURE = re.compile(r"^!\[[^\]]*\]\([^)]*\)\n+", re.MULTILINE)


def read_topics() -> tuple[Topic, ...]:
    """All of them; one that cannot be read says so in its place."""
    return tuple(Topic(name, title, _text(DOCS / name)) for name, title in TOPICS)


def _text(path: Path) -> str:
    try:
        return _PICTURE.sub("", path.read_text(encoding="utf-8"))
    except OSError as error:
        return f"This page cannot be read: {error.strerror} ({path})."
