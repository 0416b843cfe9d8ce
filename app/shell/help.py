"""The pages of the help: the files in `docs/`, read on demand."""

from __future__ import annotations

import re
from pathlib import Path

from backend.base.log import swallowed
from widgets.shell.help_page import Topic

DOCS = Path(__file__).parents[2] / "docs"
TOPICS = (
    ("guide.md", "Your first model"),
    ("look-inside.md", "Look inside"),
    ("strategies.md", "Strategies"),
    ("settings.md", "Settings of a job"),
    ("first-node.md", "Add your first node"),
    ("node-problems.md", "Node problems"),
    ("network.md", "Who may reach the nodes"),
    ("commands.md", "Commands"),
    ("terms.md", "What the words mean"),
)
# Pictures of the window; the reader has the window itself.
_PICTURE = re.compile(r"^!\[[^\]]*\]\([^)]*\)\n+", re.MULTILINE)
_TERM = re.compile(r"^\|\s*(?P<terms>[^|]+?)\s*\|\s*(?P<explanation>[^|]+?)\s*\|\s*$")
_TERM_HEAD = "word"


def read_topics() -> tuple[Topic, ...]:
    """Return all topics; a topic that cannot be read shows the reason instead."""
    return tuple(Topic(name, title, _text(DOCS / name)) for name, title in TOPICS)


def read_terms(page: Path = DOCS / "terms.md") -> dict[str, str]:
    """Return each term and its explanation; empty if the page cannot be read.

    ``| process, rank | … |`` explains both terms.
    """
    try:
        lines = page.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        swallowed(error)
        return {}
    terms: dict[str, str] = {}
    for line in lines:
        row = _TERM.match(line)
        if row is None or row["terms"] == _TERM_HEAD or set(row["terms"]) <= {"-", ":"}:
            continue
        explanation = row["explanation"].replace("`", "")
        terms.update(dict.fromkeys(map(str.strip, row["terms"].split(",")), explanation))
    return terms


def _text(path: Path) -> str:
    try:
        return _PICTURE.sub("", path.read_text(encoding="utf-8"))
    except OSError as error:
        return f"This page cannot be read: {error.strerror} ({path})."
