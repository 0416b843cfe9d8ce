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
_MOST_LINES, _LONGEST = 20_000, 2_000
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
_WHOLE = re.compile(r"[-+]?\d+")
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", re.IGNORECASE)
_TYPE, _WORD = re.compile(r"\btype: (\w+)"), re.compile(r"<?(\w+)")
_KINDS = {
    **dict.fromkeys(("int", "integer"), "whole"),
    **dict.fromkeys(("float", "number"), "number"),
    **dict.fromkeys(("bool", "boolean"), "choice"),
}
_NONE = ("", "None", "null", "???", "required")
_NOT_OFFERED = {"help", "h", "version", "install-completion", "show-completion"}
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
        words: Its help.
        others: The heads with which it can be given, too.
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
        kinds = {"whole": (_WHOLE, "a whole number"), "number": (_NUMBER, "a number")}
        pattern, wanted = kinds.get(self.kind, (None, ""))
        if pattern is None or not value or "{" in value or pattern.fullmatch(value):
            return ""
        return f"The script's help names {wanted}."


@dataclass(frozen=True)
class ScriptHelp(Record, label="help of a script", rules=TOOL_RULES):
    """The arguments of a script, at most `MOST`."""

    arguments: tuple[ScriptArgument, ...] = ()


def read_help(text: str) -> tuple[ScriptArgument, ...]:
    """Return the arguments in the help of a script; none if it has none that can be read."""
    lines = [_plain(line[:_LONGEST]) for line in _ESCAPE.sub("", text).splitlines()[:_MOST_LINES]]
    if _HYDRA in lines:
        found = [*_groups(lines), *_config(lines[lines.index(_HYDRA) + 1 :])]
    else:
        found = list(_options(lines, has_head=True)) or list(_options(lines, has_head=False))
    kept = {one.name: one for one in reversed(found) if one.name not in _NOT_OFFERED}
    return tuple(kept.values())[::-1][:MAX_ARGUMENTS]


def _plain(line: str) -> str:
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
            if found := _option(entry):
                yield found
            entry = []
        if is_below and (is_new or entry):
            entry.append(line)


def _option(entry: Sequence[str]) -> ScriptArgument | None:
    """Read an option from its lines: names and value in the first columns, then its help."""
    declared, *columns = re.split(r"\s{2,}", entry[0].strip())
    while columns and _COLUMN.fullmatch(columns[0]):
        declared += f" {columns.pop(0)}"
    words = " ".join([*columns, *(line.strip() for line in entry[1:])]).strip()[:_LONGEST]
    listed = _CHOICES.search(declared)
    choices = tuple(re.split(r"[|,]\s*", next(filter(None, listed.groups()), ""))) if listed else ()
    bare = _CHOICES.sub("…", declared)
    names = list(dict.fromkeys(one for one in _OPTION.findall(bare) if _is_head(one, bare)))
    value = re.sub(r"[\s,/|…]+", " ", _OPTION.sub("", bare)).strip("= ")
    if not names:
        return None
    long = [one for one in names if one.startswith("--")] or names
    default = _default(words)
    made = ScriptArgument(long[0], "text", default, help_text=words)
    if listed is None and value in ("", "<bool>"):
        off = [one for one in names if one[2:5] in ("no-", "no_")]
        is_on = default in ("True", "true", made.name)
        head = off[0] if off and is_on else made.head
        given = tuple(one for one in names if one != head and one not in off)
        return replace(made, head=head, kind="flag", default="", aliases=() if is_on else given)
    made = replace(made, aliases=tuple(one for one in names if one != made.head))
    if len(choices) > 1:
        return replace(made, kind="choice", choices=choices)
    return made if "..." in value else _with_kind(made, value)


def _is_head(name: str, declared: str) -> bool:
    """Return whether a name is one of the option, and no part of the name of its value."""
    before = declared[: declared.index(name)]
    return not before or before[-1] in " ,/|("


def _with_kind(one: ScriptArgument, value: str) -> ScriptArgument:
    """Find the kind by the name of the value, the help, or the default."""
    named = _TYPE.search(one.help_text) or _WORD.match(value)
    kind = _KINDS.get(named[1].lower(), "") if named else ""
    if kind == "choice" or one.default.lower() in ("true", "false"):
        words = ("True", "False") if one.default[:1].isupper() else ("true", "false")
        return replace(one, kind="choice", choices=words)
    if not kind and _NUMBER.fullmatch(one.default):
        kind = "whole" if _WHOLE.fullmatch(one.default) else "number"
    return replace(one, kind=kind or "text")


def _default(words: str) -> str:
    """Return the default that a help names: ``(default: 0.1)``, ``[default: a; required]``."""
    found = _DEFAULT.search(words)
    if found is None:
        return ""
    rest = words[found.end() :]
    if rest[:1] in ("'", '"'):
        return rest[1:].partition(rest[0])[0]
    if rest[:1] in ("[", "("):
        closing = rest.find("]" if rest[0] == "[" else ")")
        return rest[: closing + 1]
    ends = r"[;)\]]" if found[1] else r"[;,)\]]|\.(?=\s|$)"
    value = re.split(ends, rest, maxsplit=1)[0].strip()
    return "" if value in _NONE else value


def _groups(lines: Sequence[str]) -> Iterator[ScriptArgument]:
    """Find the groups of a Hydra program: one configuration of each is chosen."""
    for line in lines[: lines.index(_HYDRA)]:
        if found := _GROUP.fullmatch(line):
            choices = tuple(found[2].split(", "))
            yield ScriptArgument(f"{found[1]}=", "choice", choices=choices)


def _config(lines: Sequence[str]) -> Iterator[ScriptArgument]:
    """Find the values in a Hydra program's configuration, which is YAML."""
    above: list[tuple[int, str]] = []
    values: dict[str, list[str]] = {}
    for line in lines:
        found = _LEAF.fullmatch(line)
        if found is None:
            if values and line and not line.startswith(" "):
                break
            continue
        indent, key, value = len(found[1]), found[2].strip(), found[3].strip()
        if key == "-":
            # The values of a list are at the indentation of its key, or deeper.
            if above:
                values.setdefault(".".join(name for _, name in above), []).append(value)
            continue
        while above and above[-1][0] >= indent:
            above.pop()
        above.append((indent, key[:-1]))
        if value:
            values[".".join(name for _, name in above)] = [_unquoted(value)]
            above.pop()
    for path, found_values in values.items():
        text = found_values[0] if len(found_values) == 1 else f"[{','.join(found_values)}]"
        yield _with_kind(ScriptArgument(f"{path}=", default="" if text in _NONE else text), "")


def _unquoted(value: str) -> str:
    if value[:1] == value[-1:] and value[:1] in ("'", '"') and len(value) > 1:
        return value[1:-1].replace("''", "'") if value[0] == "'" else value[1:-1]
    return value
