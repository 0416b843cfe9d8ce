"""Commands from functions: the signature is the parser, the first line of the docstring the help.

A command is a function below `backend.cli.commands`, in the module or package named by its first
word. Parameters before ``*`` are arguments, those after it options; ``Annotated`` adds a `Word`, or
only a help. Parameters named in `GIVEN` are not typed: `backend.cli.session.Session` has them.

This is argparse and not a library, because to parse one command takes 0.02 s of processor time with
argparse, 0.08 s with cyclopts 5.5 and 0.20 s with typer 0.29 (``--version`` took 0.04 s in all).
"""

from __future__ import annotations

import argparse
import importlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, get_args, get_origin

from backend.cli import commands

if TYPE_CHECKING:
    from backend.cli.printing import Answer
    from backend.services.context.container import Services

    _Leaves = argparse._SubParsersAction[argparse.ArgumentParser]

GIVEN = ("session", "services", "progress", "group")
"""Parameters that the session gives; ``group`` is the first word of the command."""
Function = Callable[..., "Answer | int"]
_F = TypeVar("_F", bound=Function)
_COMMANDS: dict[tuple[str, ...], Command] = {}


class Word(NamedTuple):
    """Describes a parameter on the command line.

    Attributes:
        metavar: Its name in the usage.
        help: One phrase; ``{group}`` is the first word of the command.
        parse: Converts the text, or raises ``argparse.ArgumentTypeError``.
        choices: The only valid values.
        nargs: The number of values after one option, as in argparse.
        resolve: Converts the parsed value by means of the services.
        is_job: It names a job, or jobs.
    """

    metavar: str | None = None
    help: str = ""
    parse: Callable[[str], object] | None = None
    choices: Sequence[str] | None = None
    nargs: str | None = None
    resolve: Callable[[Services, Any], object] | None = None
    is_job: bool = False


class Parameter(NamedTuple):
    """A parameter that is typed on the command line; ``type`` is that of one value."""

    name: str
    type: type
    word: Word
    is_option: bool
    is_required: bool
    is_many: bool
    default: object

    @property
    def flag(self) -> str:
        return f"--{self.name.replace('_', '-')}" if self.is_option else self.name

    def add_to(self, parser: argparse._ActionsContainer, group: str) -> None:
        """Add it without a default: what is not typed is left to the function."""
        how: dict[str, Any] = {"help": self.word.help.replace("{group}", group) or None}
        if self.type is bool:
            how["action"] = argparse.BooleanOptionalAction if self.default else "store_true"
        else:
            how["type"] = self.word.parse or self.type
            how |= {"metavar": self.word.metavar, "choices": self.word.choices}
        if self.is_option:
            how["required"] = self.is_required
            if self.is_many:
                how["action"] = "extend" if self.word.nargs else "append"
        elif self.is_many or not self.is_required:
            how["nargs"] = ("+" if self.is_required else "*") if self.is_many else "?"
            # Of a missing argument argparse would convert the text that stands for "no default".
            how["default"] = None
        if self.word.nargs:
            how["nargs"] = self.word.nargs
        parser.add_argument(self.flag, **how)


class Command(NamedTuple):
    """A registered command.

    Attributes:
        words: One or two: ``("job", "start")``.
        reads_jobs: The runs of the jobs that it names, or of all jobs, are reaped before it.
        one_of: Parameters of which exactly one is typed.
        at_most_one_of: Parameters of which only one may be typed.
    """

    words: tuple[str, ...]
    function: Function
    reads_jobs: bool
    one_of: Sequence[str]
    at_most_one_of: Sequence[str]

    @property
    def description(self) -> str:
        return (self.function.__doc__ or "").replace("{group}", self.words[0])

    @property
    def given(self) -> tuple[str, ...]:
        return tuple(name for name in GIVEN if name in self.function.__annotations__)

    def parameters(self) -> Iterator[Parameter]:
        from inspect import signature

        for one in signature(self.function).parameters.values():
            if one.name in GIVEN:
                continue
            kind, word, is_many = eval(one.annotation, self.function.__globals__), Word(), False
            while parts := get_args(kind):
                is_many = is_many or get_origin(kind) is tuple
                for noted in getattr(kind, "__metadata__", ()):
                    word = noted if isinstance(noted, Word) else Word(help=noted)
                kind = parts[0]
            is_option, is_required = one.kind is one.KEYWORD_ONLY, one.default is one.empty
            yield Parameter(one.name, kind, word, is_option, is_required, is_many, one.default)

    def add_to(self, leaves: _Leaves, common: argparse.ArgumentParser) -> None:
        """Add its parser, whose result names this command as ``chosen``."""
        leaf = leaves.add_parser(
            self.words[-1],
            help=phrase(self.description),
            description=self.description,
            parents=[common],
            allow_abbrev=False,
            argument_default=argparse.SUPPRESS,
        )
        exclusive = (*self.one_of, *self.at_most_one_of)
        group = leaf.add_mutually_exclusive_group(required=bool(self.one_of)) if exclusive else leaf
        for one in self.parameters():
            one.add_to(group if one.name in exclusive else leaf, self.words[0])
        leaf.set_defaults(chosen=self)


def command(
    words: str,
    *,
    reads_jobs: bool = False,
    one_of: Sequence[str] = (),
    at_most_one_of: Sequence[str] = (),
) -> Callable[[_F], _F]:
    """Register a function as the command of these words; for the options see `Command`."""

    def register(function: _F) -> _F:
        made = Command(tuple(words.split()), function, reads_jobs, one_of, at_most_one_of)
        _COMMANDS[made.words] = made
        return function

    return register


def phrase(docstring: str | None) -> str:
    """Return the first line of a docstring as the help of a command: "start a job"."""
    line = (docstring or "").partition("\n")[0].rstrip(".")
    return line[:1].lower() + line[1:]


def groups() -> list[str]:
    """Return the first words of all commands; no command is imported."""
    return _modules(commands)


def everything() -> list[Command]:
    """Import all commands, and return them."""
    return [one for group in groups() for one in load(group)[1]]


def load(group: str, words: Iterable[str] = ()) -> tuple[str, list[Command]]:
    """Import commands that begin with a word; return the help of the word, and them.

    Of a package only the modules are imported whose text has one of ``words`` as a second word.
    """
    module = importlib.import_module(f"{commands.__name__}.{group}")
    wanted = [f'@command("{group} {word}"' for word in words]
    names = _modules(module)
    for name in [one for one in names if _has_one(module, one, wanted)] or names:
        importlib.import_module(f"{module.__name__}.{name}")
    found = [one for one in _COMMANDS.values() if one.words[0] == group]
    # Whichever module was imported first.
    return phrase(module.__doc__), sorted(found, key=lambda one: one.function.__module__)


def _modules(package: ModuleType) -> list[str]:
    names = (name for folder in getattr(package, "__path__", ()) for name in os.listdir(folder))
    return sorted({name.partition(".")[0] for name in names if name[0] not in "_."})


def _has_one(package: ModuleType, name: str, texts: Sequence[str]) -> bool:
    source = Path(package.__path__[0], f"{name}.py").read_text("utf-8")
    return any(text in source for text in texts)
