"""The arguments of a script as settings: ``arguments.lr`` is the value after ``--lr``.

The list in the job file is the truth: a setting is read from it, and written into it. Its name is
that of an option without its dashes (``--lr 0.1``, ``--lr=0.1``, ``-b 32``) or that before the sign
in ``lr=0.1``, as Hydra has it. ``_`` and ``-`` are the same. An option without a value has "yes".
Several numbers after an option are its value, ``64 64`` (``--layers 64 64``), also as ``64,64``.

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
_NUMBERS = re.compile(rf"{_NUMBER.pattern}(,{_NUMBER.pattern})+")
_SYNONYMS: Mapping[str, str] = {
    "learning_rate": "lr",
    "batch": "batch_size",
    "num_epochs": "epochs",
    "max_epochs": "epochs",
}


@dataclass(frozen=True)
class _NamedArgument:
    """A named value in the list of tokens, from ``index`` on."""

    name: str
    value: str
    index: int
    token_count: int = 1


def argument_name(path: str) -> str:
    """Return the name of the argument that a path means (``arguments.lr``), or ""."""
    return path[len(_PREFIX) :] if path.startswith(_PREFIX) else ""


def is_name(name: str) -> bool:
    """Return whether an argument can have this name."""
    return bool(_NAME.fullmatch(name))


def named_arguments(tokens: object) -> dict[str, str]:
    """Return the named arguments; of a repeated argument the last value."""
    return {argument.name: argument.value for argument in _read_arguments(_token_list(tokens))}


def unnamed_tokens(tokens: object) -> list[str]:
    """Return the tokens that are not in `named_arguments`."""
    all_tokens = _token_list(tokens)
    last_arguments = {argument.name: argument for argument in _read_arguments(all_tokens)}.values()
    named_indexes = {
        n
        for argument in last_arguments
        for n in range(argument.index, argument.index + argument.token_count)
    }
    return [token for n, token in enumerate(all_tokens) if n not in named_indexes]


def value_of(tokens: object, name: str) -> str | None:
    """Return the value of an argument, None if it is not given."""
    argument = _find_argument(_token_list(tokens), name)
    return None if argument is None else argument.value


def value_problem(tokens: object, name: str, values: Sequence[object]) -> str:
    """Return why an argument cannot have these values, by the job's list of tokens, or ""."""
    all_tokens = _token_list(tokens)
    argument = _find_argument(all_tokens, name)
    if argument is None:
        folded_name = _with_underscores(name).casefold()
        names = [other_name for other_name in named_arguments(tokens) if len(other_name) > 1]
        similar_names = [n for n in names if _with_underscores(n).casefold() == folded_name]
        return f"is “{similar_names[0]}” in the arguments of the job." if similar_names else ""
    is_flag = all_tokens[argument.index].startswith("-") and "=" not in all_tokens[argument.index]
    if argument.token_count == 1 and is_flag and {*map(_text, values)} - {YES, NO}:
        return "has no value in the arguments of the job: use yes and no."
    return ""


def with_value(tokens: object, name: str, value: Any, head: str = "") -> list[str]:
    """Return the list with this value of an argument, which is added if it is not given.

    ``yes`` and ``no`` give and remove an option that has no value; None removes each. ``head`` is
    what is before the value of a new one: ``--lr`` or ``lr=``; without it, as the others have it.
    """
    all_tokens = _token_list(tokens)
    argument = _find_argument(all_tokens, name)
    text = _text(value)
    if argument is None:
        new_tokens = [] if text in (None, NO) else _new_argument(all_tokens, name, text or "", head)
        end = all_tokens.index(_END) if _END in all_tokens else len(all_tokens)
        return [*all_tokens[:end], *new_tokens, *all_tokens[end:]]
    earlier_tokens, later_tokens = (
        all_tokens[: argument.index],
        all_tokens[argument.index + argument.token_count :],
    )
    if text is not None and argument.token_count > 2 and _NUMBERS.fullmatch(text):
        text = text.replace(",", " ")
    head, is_joined, _ = all_tokens[argument.index].partition("=")
    is_flag = argument.token_count == 1 and not is_joined
    if text is None or (text == NO and is_flag):
        return [*earlier_tokens, *later_tokens]
    if is_joined:
        return [*earlier_tokens, f"{head}={text}", *later_tokens]
    if (
        later_tokens
        and _NUMBER.fullmatch(later_tokens[0])
        and _NUMBER.fullmatch(text.split(" ")[-1])
    ):
        # Or the number after it would become a part of the value.
        return [*earlier_tokens, f"{head}={text}", *later_tokens]
    return [*earlier_tokens, *_option_tokens(head, text, is_flag), *later_tokens]


def argument_rows(tokens: object) -> dict[str, Any]:
    """Return the arguments as a table shows them: by path, the other words in one row."""
    other_tokens = unnamed_tokens(tokens)
    rows = {f"{_PREFIX}{name}": value for name, value in named_arguments(tokens).items()}
    return {**rows, **({TABLE: " ".join(other_tokens)} if other_tokens else {})}


def canonical_name(name: str) -> str:
    """Return a name as a search and a column have it: ``learning-rate`` is ``lr``."""
    folded_name = name.casefold().replace("-", "_")
    return _SYNONYMS.get(folded_name, folded_name)


def _token_list(tokens: object) -> list[str]:
    """Return the words; what is no list has none, and the check of the job file says so."""
    return [str(token) for token in tokens] if isinstance(tokens, (list, tuple)) else []


def _text(value: Any) -> str | None:
    if isinstance(value, bool):
        return YES if value else NO
    if isinstance(value, float):
        short_text = f"{value:g}"
        return short_text if float(short_text) == value else repr(value)
    return None if value is None else str(value)


def _new_argument(all_tokens: Sequence[str], name: str, text: str, head: str) -> list[str]:
    options = [match for token in all_tokens if (match := _OPTION.fullmatch(token))]
    has_options = bool(options)
    has_pairs = any(map(_PAIR.fullmatch, all_tokens))
    if not head and not has_options and (has_pairs or "." in name or "/" in name):
        head = f"{name}="
    if head.endswith("="):
        return [f"{head}{text}"]
    head = head or (f"-{name}" if len(name) == 1 else f"--{name}")
    if has_options and len(name) > 1 and text != YES and all(match[2] for match in options):
        return [f"{head}={text}"]
    return _option_tokens(head, text, is_flag=True)


def _option_tokens(head: str, text: str, is_flag: bool) -> list[str]:
    """Return an option with its value; a value like an argument needs the sign ``=``."""
    if is_flag and text == YES:
        return [head]
    numbers = text.split(" ")
    if len(numbers) > 1 and all(map(_NUMBER.fullmatch, numbers)):
        return [head, *numbers]
    # argparse takes -1e-5 for an option, and only -0.5 for a number.
    is_separate = _is_value(text) and not (text.startswith("-") and "e" in text.lower())
    return [head, text] if is_separate else [f"{head}={text}"]


def _is_value(token: str) -> bool:
    """Return whether a word after an option is its value, and no argument of its own."""
    return token != _END and not _OPTION.fullmatch(token) and not _PAIR.fullmatch(token)


def _find_argument(all_tokens: Sequence[str], name: str) -> _NamedArgument | None:
    arguments = [
        argument
        for argument in _read_arguments(all_tokens)
        if _with_underscores(argument.name) == _with_underscores(name)
    ]
    # A program may have --weight-decay beside --weight_decay.
    exact_matches = [argument for argument in arguments if argument.name == name]
    return next(reversed(exact_matches or arguments), None)


def _with_underscores(name: str) -> str:
    return name.replace("-", "_")


def _read_arguments(all_tokens: Sequence[str]) -> Iterator[_NamedArgument]:
    index = 0
    while index < len(all_tokens) and all_tokens[index] != _END:
        option, pair = _OPTION.fullmatch(all_tokens[index]), _PAIR.fullmatch(all_tokens[index])
        token_count = 1
        if option is not None and option[2] is None:
            has_value = index + 1 < len(all_tokens) and _is_value(all_tokens[index + 1])
            numbers = list(takewhile(_NUMBER.fullmatch, all_tokens[index + 1 :]))
            token_count = 1 + max(len(numbers), has_value)
            value = (
                " ".join(all_tokens[index + 1 : index + token_count]) if token_count > 1 else YES
            )
            yield _NamedArgument(option[1], value, index, token_count)
        elif match := option or pair:
            yield _NamedArgument(match[1], match[2], index)
        index += token_count
