"""The tables of all commands in `docs/commands.md`, made from the commands themselves."""

from __future__ import annotations

from collections.abc import Iterator

from backend.cli.command import Parameter, groups, load


def reference() -> str:
    """Return a section for each group of commands."""
    return "\n".join(line for group in groups() for line in _section(group))


def _section(group: str) -> Iterator[str]:
    summary, found = load(group)
    yield f"## {group}\n"
    if len(found[0].words) > 1:
        yield f"{summary[0].upper()}{summary[1:]}.\n"
    yield "| command | purpose |\n|---|---|"
    for one in found:
        parameters = tuple(one.parameters())
        usage = " ".join((*one.words, *map(_usage, parameters)))
        notes = (
            f"`{each.flag if each.is_option else _value(each)}`: {each.word.help}."
            for each in parameters
            if each.word.help and not each.word.is_job
        )
        purpose = " ".join((*one.description.split(), *notes)).replace("{group}", group)
        cells = (cell.replace("|", "\\|") for cell in (f"`{usage}`", purpose))
        yield f"| {' | '.join(cells)} |"
    yield ""


def _usage(one: Parameter) -> str:
    value = "" if one.type is bool else _value(one)
    text = f"{one.flag} {value}".rstrip() if one.is_option else value
    text += " …" if one.is_many else ""
    return text if one.is_required else f"[{text}]"


def _value(one: Parameter) -> str:
    choices = "|".join(one.word.choices or ())
    return one.word.metavar or choices or one.name.upper()
