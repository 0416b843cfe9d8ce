"""``python -m tests.pages_of_docs``: write the tables of ``docs`` that come from the program."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from backend.cli.command import Parameter, groups, load_group
from backend.records.jobs.settings import in_markdown as settings
from backend.services.verify.checks import checks_table as checks

DOCS = Path(__file__).parents[1] / "docs"
TABLE_START, TABLE_END = "<!-- generated: python -m tests.pages_of_docs -->\n", "<!-- end -->\n"


def commands() -> str:
    """Return a section for each group of commands."""
    return "\n".join(line for group in groups() for line in _section(group))


def _section(group: str) -> Iterator[str]:
    summary, group_commands = load_group(group)
    yield f"## {group}\n"
    if len(group_commands[0].path) > 1:
        yield f"{summary[0].upper()}{summary[1:]}.\n"
    yield "| command | purpose |\n|---|---|"
    for command in group_commands:
        parameters = tuple(command.parameters())
        usage = " ".join((*command.path, *map(_usage, parameters)))
        notes = (
            f"`{parameter.flag if parameter.is_option else _value(parameter)}`: "
            f"{parameter.spec.help}."
            for parameter in parameters
            if parameter.spec.help and not parameter.spec.is_job
        )
        purpose = " ".join((*command.description.split(), *notes)).replace("{group}", group)
        cells = (cell.replace("|", "\\|") for cell in (f"`{usage}`", purpose))
        yield f"| {' | '.join(cells)} |"
    yield ""


def _usage(parameter: Parameter) -> str:
    value = "" if parameter.type is bool else _value(parameter)
    text = f"{parameter.flag} {value}".rstrip() if parameter.is_option else value
    text += " …" if parameter.is_many else ""
    return text if parameter.is_required else f"[{text}]"


def _value(parameter: Parameter) -> str:
    choices = "|".join(parameter.spec.choices or ())
    return parameter.spec.metavar or choices or parameter.name.upper()


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
