"""``python -m tests.pages_of_docs``: write the tables of ``docs`` that come from the program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from backend.cli.reference import reference as commands
from backend.records.jobs.settings import in_markdown as settings
from backend.services.verify.checks import checks_table as checks

DOCS = Path(__file__).parents[1] / "docs"
TABLE_START, TABLE_END = "<!-- generated: python -m tests.pages_of_docs -->\n", "<!-- end -->\n"
TABLES: Mapping[str, Callable[[], str]] = {
    "commands.md": commands,
    "settings.md": settings,
    "guide.md": checks,
}
"""The table between the marks of a page."""


def page_text(name: str) -> str:
    """Return the text of a page with the table as it is now."""
    text = (DOCS / name).read_text(encoding="utf-8")
    text_before, _, text_after = text.partition(TABLE_START)
    text_after = text_after.partition(TABLE_END)[2]
    return f"{text_before}{TABLE_START}\n{TABLES[name]()}\n{TABLE_END}{text_after}"


if __name__ == "__main__":
    for name in TABLES:
        (DOCS / name).write_text(page_text(name), encoding="utf-8")
