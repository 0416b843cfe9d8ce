"""The arguments of a script as settings: ``arguments.lr`` is the value after ``--lr``.

The list in the job file is the truth: a setting is read from it, and written into it. Its name is
that of an option without its dashes (``--lr 0.1``, ``--lr=0.1``, ``-b 32``) or that before the sign
in ``lr=0.1``, as Hydra has it. ``_`` and ``-`` are the same. An option without a value has "yes".
Several numbers after an option are its value, ``64 64`` (``--layers 64 64``).

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

TABLE = "arguments"
_PREFIX = f"{TABLE}."
YES, NO = "yes", "no"
"""The values of an option that takes none: it is given, or is not."""
_OPTION = re.compile(r"(?!-inf$)--?([A-Za-z][^\s=]*)(?:=(.*))?", re.DOTALL)
_PAIR = re.compile(r"[+]{0,2}([A-Za-z_][\w./@-]*)=(.*)", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_][\w./@:-]*")
_END = "--"
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
_SAME: Mapping[str, str] = {
    "learning_rate": "lr",
    "batch": "batch_size",
    "num_epochs": "epochs",
    "max_epochs": "epochs",
}


@dataclass(frozen=True)
class _Named:
    """A named value in the list: ``words`` of them from the place ``at``."""

    name: str
    value: str
    at: int
    words: int = 1


def argument_name(path: str) -> str:
    """Return the name of the argument that a path means (``arguments.lr``), or ""."""
    return path[len(_PREFIX) :] if path.startswith(_PREFIX) else ""


def is_name(name: str) -> bool:
    """Return whether an argument can have this name."""
    return bool(_NAME.fullmatch(name))


def named_arguments(words: object) -> dict[str, str]:
    """Return the arguments that have a name; of one that is given twice the last value."""
    return {one.name: one.value for one in _named(_list(words))}


def unnamed_tokens(words: object) -> list[str]:
    """Return the words that `named` leaves out."""
    given = _list(words)
    last = {one.name: one for one in _named(given)}.values()
    kept = {n for one in last for n in range(one.at, one.at + one.words)}
    return [word for n, word in enumerate(given) if n not in kept]


def value_of(words: object, name: str) -> str | None:
    """Return the value of an argument, None if it is not given."""
    found = _find(_list(words), name)
    return None if found is None else found.value


def with_value(words: object, name: str, value: Any, head: str = "") -> list[str]:
    """Return the list with this value of an argument, which is added if it is not given.

    ``yes`` and ``no`` give and remove an option that has no value; None removes each. ``head`` is
    what is before the value of a new one: ``--lr`` or ``lr=``; without it, as the others have it.
    """
    given = _list(words)
    found = _find(given, name)
    text = _text(value)
    if found is None:
        added = [] if text in (None, NO) else _new(given, name, text or "", head)
        end = given.index(_END) if _END in given else len(given)
        return [*given[:end], *added, *given[end:]]
    before, after = given[: found.at], given[found.at + found.words :]
    head, is_joined, _ = given[found.at].partition("=")
    is_flag = found.words == 1 and not is_joined
    if text is None or (text == NO and is_flag):
        return [*before, *after]
    if is_joined:
        return [*before, f"{head}={text}", *after]
    if after and _NUMBER.fullmatch(after[0]) and _NUMBER.fullmatch(text.split(" ")[-1]):
        # Or the number after it would become a part of the value.
        return [*before, f"{head}={text}", *after]
    return [*before, *_option(head, text, is_flag), *after]


def argument_rows(words: object) -> dict[str, Any]:
    """Return the arguments as a table shows them: by path, the other words in one row."""
    rest = unnamed_tokens(words)
    rows = {f"{_PREFIX}{name}": value for name, value in named_arguments(words).items()}
    return {**rows, **({TABLE: " ".join(rest)} if rest else {})}


def canonical_name(name: str) -> str:
    """Return a name as a search and a column have it: ``learning-rate`` is ``lr``."""
    plain = name.casefold().replace("-", "_")
    return _SAME.get(plain, plain)


def _list(words: object) -> list[str]:
    """Return the words; what is no list has none, and the check of the job file says so."""
    return [str(word) for word in words] if isinstance(words, (list, tuple)) else []


def _text(value: Any) -> str | None:
    if isinstance(value, bool):
        return YES if value else NO
    if isinstance(value, float):
        short = f"{value:g}"
        return short if float(short) == value else repr(value)
    return None if value is None else str(value)


def _new(given: Sequence[str], name: str, text: str, head: str) -> list[str]:
    options = [match for word in given if (match := _OPTION.fullmatch(word))]
    has_options = bool(options)
    has_pairs = any(map(_PAIR.fullmatch, given))
    if not head and not has_options and (has_pairs or "." in name or "/" in name):
        head = f"{name}="
    if head.endswith("="):
        return [f"{head}{text}"]
    head = head or (f"-{name}" if len(name) == 1 else f"--{name}")
    if has_options and len(name) > 1 and text != YES and all(match[2] for match in options):
        return [f"{head}={text}"]
    return _option(head, text, is_flag=True)


def _option(head: str, text: str, is_flag: bool) -> list[str]:
    """Return an option with its value; one that looks like an argument needs the sign."""
    if is_flag and text == YES:
        return [head]
    numbers = text.split(" ")
    if len(numbers) > 1 and all(map(_NUMBER.fullmatch, numbers)):
        return [head, *numbers]
    # argparse takes -1e-5 for an option, and only -0.5 for a number.
    is_plain = _is_value(text) and not (text.startswith("-") and "e" in text.lower())
    return [head, text] if is_plain else [f"{head}={text}"]


def _is_value(word: str) -> bool:
    """Return whether a word after an option is its value, and no argument of its own."""
    return word != _END and not _OPTION.fullmatch(word) and not _PAIR.fullmatch(word)


def _find(given: Sequence[str], name: str) -> _Named | None:
    arguments = [argument for argument in _named(given) if _same(argument.name) == _same(name)]
    # A program may have --weight-decay beside --weight_decay.
    exact = [argument for argument in arguments if argument.name == name]
    return next(reversed(exact or arguments), None)


def _same(name: str) -> str:
    return name.replace("-", "_")


def _named(given: Sequence[str]) -> Iterator[_Named]:
    at = 0
    while at < len(given) and given[at] != _END:
        option, pair = _OPTION.fullmatch(given[at]), _PAIR.fullmatch(given[at])
        words = 1
        if option is not None and option[2] is None:
            is_given = at + 1 < len(given) and _is_value(given[at + 1])
            numbers = list(takewhile(_NUMBER.fullmatch, given[at + 1 :]))
            words = 1 + max(len(numbers), is_given)
            value = " ".join(given[at + 1 : at + words]) if words > 1 else YES
            yield _Named(option[1], value, at, words)
        elif found := option or pair:
            yield _Named(found[1], found[2], at)
        at += words
