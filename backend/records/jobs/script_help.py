"""The arguments that the ``--help`` of a script prints, for the fields of the form.

It reads the texts of argparse, click, typer, tyro and jsonargparse, which list options in columns,
and that of Hydra, which prints its configuration.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from backend.records.base.schema import KEY, Record
from backend.records.library.preview import TOOL_RULES

MAX_ARGUMENTS = 200
_MAX_LINES, _LONGEST = 20_000, 2_000
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_EDGE = re.compile(r"^(\s*)[│┃|](?: \*)?|\s*[│┃|]$")
_BOX = re.compile(r"^\s*[╭┌┏+][─━-]")
_OPTION = re.compile(r"--?[A-Za-z][\w.-]*")
_STARTS = re.compile(r"\s{0,10}--?[A-Za-z]")
_CHOICES = re.compile(r"\{([^{}]*)\}|\[([^\[\]\s]*\|[^\[\]\s]*)\]|<([^<>]*\|[^<>]*)>")
_KIND = r"(?:TEXT|INTEGER|FLOAT|BOOLEAN|PATH|FILE|FILENAME|DIRECTORY|UUID|DATETIME)"
_COLUMN = re.compile(rf"--?[A-Za-z]\S*|(?:{_KIND}|<[^<>]+>)(?: RANGE)?(?: \[.*\])?|\[\S+\|\S+\]")
"""A column of typer that is no help: another name, or the kind of the value."""
_DEFAULT = re.compile(
    r"([\[(]?)\bdefaults?(?:\s+(?:is|to)\b|\s*[:=]|(?<=[\[(]default)(?=\s))\s*", re.IGNORECASE
)
_WHOLE_NUMBER = re.compile(r"[-+]?\d+")
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", re.IGNORECASE)
_TYPE, _WORD = re.compile(r"\btype: (\w+)"), re.compile(r"<?(\w+)")
_KINDS = {
    **dict.fromkeys(("int", "integer"), "whole"),
    **dict.fromkeys(("float", "number"), "number"),
    **dict.fromkeys(("bool", "boolean"), "choice"),
}
_NONE = ("", "None", "null", "???", "required")
_IGNORED_NAMES = {"help", "h", "version", "install-completion", "show-completion"}
_LEAF = re.compile(r"(\s*)(- |[\w.@/-]+:(?:\s|$))(.*)")
_GROUP = re.compile(r"([\w/@.-]+): (.+)")
_HYDRA = "== Config =="


@dataclass(frozen=True)
class ScriptArgument(Record, label="argument of a script", rules=TOOL_RULES):
    """An argument that a script takes.

    Attributes:
        head: What is before its value: ``--lr``, ``-b`` or ``lr=``.
        kind: "text", "whole", "number", "flag" or "choice".
        default: As it is printed, "" for none.
        choices: The values that it may have.
        help_text: Its help.
        aliases: Its other heads.
    """

    head: str
    kind: str = "text"
    default: str = ""
    choices: tuple[str, ...] = ()
    help_text: str = field(default="", metadata={KEY: "words"})
    aliases: tuple[str, ...] = field(default=(), metadata={KEY: "others"})

    @property
    def name(self) -> str:
        return self.head.strip("-=")

    def value_error(self, value: str) -> str:
        """Return why a value that was typed is none, by the help, or ""."""
        kinds = {"whole": (_WHOLE_NUMBER, "a whole number"), "number": (_NUMBER, "a number")}
        pattern, kind_label = kinds.get(self.kind, (None, ""))
        if pattern is None or not value or "{" in value or pattern.fullmatch(value):
            return ""
        return f"The script's help names {kind_label}."


@dataclass(frozen=True)
class ScriptHelp(Record, label="help of a script", rules=TOOL_RULES):
    """The arguments of a script, at most `MAX_ARGUMENTS`."""

    arguments: tuple[ScriptArgument, ...] = ()


def read_help(text: str) -> tuple[ScriptArgument, ...]:
    """Return the arguments in the help of a script; none if it has none that can be read."""
    lines = [
        _remove_frame(line[:_LONGEST]) for line in _ESCAPE.sub("", text).splitlines()[:_MAX_LINES]
    ]
    if _HYDRA in lines:
        arguments = [*_groups(lines), *_config(lines[lines.index(_HYDRA) + 1 :])]
    else:
        arguments = list(_options(lines, has_head=True)) or list(_options(lines, has_head=False))
    by_name = {
        argument.name: argument
        for argument in reversed(arguments)
        if argument.name not in _IGNORED_NAMES
    }
    return tuple(by_name.values())[::-1][:MAX_ARGUMENTS]


def _remove_frame(line: str) -> str:
    """Return a line without the frame of a box; its head ends with a colon."""
    if _BOX.match(line):
        return line.strip("╭╮┌┐┏┓─━+- ") + ":"
    return _EDGE.sub(r"\1", line.expandtabs()).rstrip()


def _options(lines: Sequence[str], *, has_head: bool) -> Iterator[ScriptArgument]:
    """Find the options below a line that ends with a colon, or everywhere."""
    is_below = not has_head
    entry: list[str] = []
    for line in (*lines, ""):
        is_below = is_below or (line.endswith(":") and not line.startswith((" ", "-")))
        is_new = bool(_STARTS.match(line))
        if entry and (is_new or not line.startswith(" ")):
            if argument := _option(entry):
                yield argument
            entry = []
        if is_below and (is_new or entry):
            entry.append(line)


def _option(entry: Sequence[str]) -> ScriptArgument | None:
    """Read an option from its lines: names and value in the first columns, then its help."""
    declaration, *columns = re.split(r"\s{2,}", entry[0].strip())
    while columns and _COLUMN.fullmatch(columns[0]):
        declaration += f" {columns.pop(0)}"
    help_text = " ".join([*columns, *(line.strip() for line in entry[1:])]).strip()[:_LONGEST]
    choice_match = _CHOICES.search(declaration)
    choices = (
        tuple(re.split(r"[|,]\s*", next(filter(None, choice_match.groups()), "")))
        if choice_match
        else ()
    )
    without_choices = _CHOICES.sub("…", declaration)
    names = list(
        dict.fromkeys(
            name for name in _OPTION.findall(without_choices) if _is_head(name, without_choices)
        )
    )
    value = re.sub(r"[\s,/|…]+", " ", _OPTION.sub("", without_choices)).strip("= ")
    if not names:
        return None
    long_names = [name for name in names if name.startswith("--")] or names
    default = _default(help_text)
    argument = ScriptArgument(long_names[0], "text", default, help_text=help_text)
    if choice_match is None and value in ("", "<bool>"):
        negations = [name for name in names if name[2:5] in ("no-", "no_")]
        is_on = default in ("True", "true", argument.name)
        head = negations[0] if negations and is_on else argument.head
        aliases = tuple(name for name in names if name != head and name not in negations)
        return replace(
            argument, head=head, kind="flag", default="", aliases=() if is_on else aliases
        )
    argument = replace(argument, aliases=tuple(name for name in names if name != argument.head))
    if len(choices) > 1:
        return replace(argument, kind="choice", choices=choices)
    return argument if "..." in value else _with_kind(argument, value)


def _is_head(name: str, declaration: str) -> bool:
    """Return whether a name is one of the option, and no part of the name of its value."""
    prefix = declaration[: declaration.index(name)]
    return not prefix or prefix[-1] in " ,/|("


def _with_kind(argument: ScriptArgument, value: str) -> ScriptArgument:
    """Find the kind by the name of the value, the help, or the default."""
    type_match = _TYPE.search(argument.help_text) or _WORD.match(value)
    kind = _KINDS.get(type_match[1].lower(), "") if type_match else ""
    if kind == "choice" or argument.default.lower() in ("true", "false"):
        choices = ("True", "False") if argument.default[:1].isupper() else ("true", "false")
        return replace(argument, kind="choice", choices=choices)
    if not kind and _NUMBER.fullmatch(argument.default):
        kind = "whole" if _WHOLE_NUMBER.fullmatch(argument.default) else "number"
    return replace(argument, kind=kind or "text")


def _default(help_text: str) -> str:
    """Return the default that a help names: ``(default: 0.1)``, ``[default: a; required]``."""
    match = _DEFAULT.search(help_text)
    if match is None:
        return ""
    following_text = help_text[match.end() :]
    if following_text[:1] in ("'", '"'):
        return following_text[1:].partition(following_text[0])[0]
    if following_text[:1] in ("[", "("):
        closing_index = following_text.find("]" if following_text[0] == "[" else ")")
        return following_text[: closing_index + 1]
    end_pattern = r"[;)\]]" if match[1] else r"[;,)\]]|\.(?=\s|$)"
    value = re.split(end_pattern, following_text, maxsplit=1)[0].strip()
    return "" if value in _NONE else value


def _groups(lines: Sequence[str]) -> Iterator[ScriptArgument]:
    """Find the groups of a Hydra program: one configuration of each is chosen."""
    for line in lines[: lines.index(_HYDRA)]:
        if match := _GROUP.fullmatch(line):
            choices = tuple(match[2].split(", "))
            yield ScriptArgument(f"{match[1]}=", "choice", choices=choices)


def _config(lines: Sequence[str]) -> Iterator[ScriptArgument]:
    """Find the values in a Hydra program's configuration, which is YAML."""
    parents: list[tuple[int, str]] = []
    values: dict[str, list[str]] = {}
    for line in lines:
        match = _LEAF.fullmatch(line)
        if match is None:
            if values and line and not line.startswith(" "):
                break
            continue
        indent, key, value = len(match[1]), match[2].strip(), match[3].strip()
        if key == "-":
            # The values of a list are at the indentation of its key, or deeper.
            if parents:
                values.setdefault(".".join(name for _, name in parents), []).append(value)
            continue
        while parents and parents[-1][0] >= indent:
            parents.pop()
        parents.append((indent, key[:-1]))
        if value:
            values[".".join(name for _, name in parents)] = [_unquote(value)]
            parents.pop()
    for path, values_of_path in values.items():
        text = values_of_path[0] if len(values_of_path) == 1 else f"[{','.join(values_of_path)}]"
        yield _with_kind(ScriptArgument(f"{path}=", default="" if text in _NONE else text), "")


def _unquote(value: str) -> str:
    if value[:1] == value[-1:] and value[:1] in ("'", '"') and len(value) > 1:
        return value[1:-1].replace("''", "'") if value[0] == "'" else value[1:-1]
    return value
