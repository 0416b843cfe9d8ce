"""The reference of all commands, `docs/commands.md`, made from the commands themselves.

Run ``python -m backend.cli.reference > docs/commands.md`` after a change of a command.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from backend.cli.command import Parameter, groups, load

_HEAD = """# Commands

`./installers/run COMMAND --help` shows the same in a terminal. `ID` is a job's id, its beginning,
or its name. Each command takes `--json`, which prints one JSON document, `--data-root`,
`--catalogue`, `--accept-key` and `--verbose`, before it or after it. Its exit code is 0, or 1 with
a sentence if it failed, or 2 if it was typed wrong.

In bash, `source <(./installers/run completion)` completes commands and options.
"""


def reference() -> str:
    """Return the document."""
    return "\n".join([_HEAD, *(line for group in groups() for line in _section(group))])


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


if __name__ == "__main__":
    sys.stdout.write(reference())
