"""The tables of all commands in `docs/commands.md`, made from the commands themselves."""

from __future__ import annotations

from collections.abc import Iterator

from backend.cli.command import Parameter, groups, load_group


def reference() -> str:
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
