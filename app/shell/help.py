"""The pages of the help: the files in `docs/`, read on demand."""

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
# Pictures of the window; the reader has the window itself.
_PICTURE = re.compile(r"^!\[[^\]]*\]\([^)]*\)\n+", re.MULTILINE)


def read_topics() -> tuple[Topic, ...]:
    """Return all topics; one that cannot be read shows the reason instead."""
    return tuple(Topic(name, title, _text(DOCS / name)) for name, title in TOPICS)


def _text(path: Path) -> str:
    try:
        return _PICTURE.sub("", path.read_text(encoding="utf-8"))
    except OSError as error:
        return f"This page cannot be read: {error.strerror} ({path})."
