"""Commands from functions: the signature is the parser, the first line of the docstring the help.

A command is a function below `backend.cli.commands`, in the module or package named by its first
word. Parameters before ``*`` are arguments, parameters after ``*`` options; ``Annotated`` adds an
`ArgSpec`, or only a help. Parameters named in `SESSION_PARAMETERS` are not typed:
`backend.cli.session.Session` has them.

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

SESSION_PARAMETERS = ("session", "services", "progress", "group")
"""Parameters that the session gives; ``group`` is the first word of the command."""
Function = Callable[..., "Answer | int"]
_F = TypeVar("_F", bound=Function)
_COMMANDS: dict[tuple[str, ...], Command] = {}


class ArgSpec(NamedTuple):
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
    spec: ArgSpec
    is_option: bool
    is_required: bool
    is_many: bool
    default: object

    @property
    def flag(self) -> str:
        return f"--{self.name.replace('_', '-')}" if self.is_option else self.name

    def add_to(self, parser: argparse._ActionsContainer, group: str) -> None:
        """Add it without a default: what is not typed is left to the function."""
        options: dict[str, Any] = {"help": self.spec.help.replace("{group}", group) or None}
        if self.type is bool:
            options["action"] = argparse.BooleanOptionalAction if self.default else "store_true"
        else:
            options["type"] = self.spec.parse or self.type
            options |= {"metavar": self.spec.metavar, "choices": self.spec.choices}
        if self.is_option:
            options["required"] = self.is_required
            if self.is_many:
                options["action"] = "extend" if self.spec.nargs else "append"
        elif self.is_many or not self.is_required:
            options["nargs"] = ("+" if self.is_required else "*") if self.is_many else "?"
            # Of a missing argument argparse would convert the text that stands for "no default".
            options["default"] = None
        if self.spec.nargs:
            options["nargs"] = self.spec.nargs
        short_flags = ("-o",) if self.flag == "--output" else ()
        parser.add_argument(*short_flags, self.flag, **options)


class Command(NamedTuple):
    """A registered command.

    Attributes:
        path: One or two words: ``("job", "start")``.
        reads_jobs: The runs of the jobs that it names, or of all jobs, are reaped before it.
        one_of: Parameters of which exactly one is typed.
        at_most_one_of: Parameters of which only one may be typed.
    """

    path: tuple[str, ...]
    function: Function
    reads_jobs: bool
    one_of: Sequence[str]
    at_most_one_of: Sequence[str]

    @property
    def description(self) -> str:
        return (self.function.__doc__ or "").replace("{group}", self.path[0])

    @property
    def session_parameters(self) -> tuple[str, ...]:
        return tuple(name for name in SESSION_PARAMETERS if name in self.function.__annotations__)

    def parameters(self) -> Iterator[Parameter]:
        from inspect import signature

        for parameter in signature(self.function).parameters.values():
            if parameter.name in SESSION_PARAMETERS:
                continue
            parameter_type, spec, is_many = (
                eval(parameter.annotation, self.function.__globals__),
                ArgSpec(),
                False,
            )
            while type_args := get_args(parameter_type):
                is_many = is_many or get_origin(parameter_type) is tuple
                for metadata in getattr(parameter_type, "__metadata__", ()):
                    spec = metadata if isinstance(metadata, ArgSpec) else ArgSpec(help=metadata)
                parameter_type = type_args[0]
            is_option, is_required = (
                parameter.kind is parameter.KEYWORD_ONLY,
                parameter.default is parameter.empty,
            )
            yield Parameter(
                parameter.name,
                parameter_type,
                spec,
                is_option,
                is_required,
                is_many,
                parameter.default,
            )

    def add_to(self, leaves: _Leaves, common_parser: argparse.ArgumentParser) -> None:
        """Add its parser, whose result names this command as ``chosen``."""
        leaf = leaves.add_parser(
            self.path[-1],
            help=help_phrase(self.description),
            description=self.description,
            parents=[common_parser],
            allow_abbrev=False,
            argument_default=argparse.SUPPRESS,
        )
        options = (*self.one_of, *self.at_most_one_of)
        group = leaf.add_mutually_exclusive_group(required=bool(self.one_of)) if options else leaf
        for parameter in self.parameters():
            parameter.add_to(group if parameter.name in options else leaf, self.path[0])
        leaf.set_defaults(chosen=self)


def command(
    name: str,
    *,
    reads_jobs: bool = False,
    one_of: Sequence[str] = (),
    at_most_one_of: Sequence[str] = (),
) -> Callable[[_F], _F]:
    """Register a function as the command of these words; for the options see `Command`."""

    def register(function: _F) -> _F:
        new_command = Command(tuple(name.split()), function, reads_jobs, one_of, at_most_one_of)
        _COMMANDS[new_command.path] = new_command
        return function

    return register


def help_phrase(docstring: str | None) -> str:
    """Return the first line of a docstring as the help of a command: "start a job"."""
    line = (docstring or "").partition("\n")[0].rstrip(".")
    # An abbreviation such as GPU stays.
    return line if line[1:2].isupper() else line[:1].lower() + line[1:]


def groups() -> list[str]:
    """Return the first words of all commands; no command is imported."""
    return _modules(commands)


def all_commands() -> list[Command]:
    """Import all commands, and return them."""
    return [command for group in groups() for command in load_group(group)[1]]


def load_group(group: str, second_words: Iterable[str] = ()) -> tuple[str, list[Command]]:
    """Import commands that begin with a word; return the help of the word, and them.

    Of a package only the modules are imported whose text has one of the second words.
    """
    module = importlib.import_module(f"{commands.__name__}.{group}")
    decorators = [f'@command("{group} {second_word}"' for second_word in second_words]
    names = _modules(module)
    for name in [
        module_name for module_name in names if _contains_any(module, module_name, decorators)
    ] or names:
        importlib.import_module(f"{module.__name__}.{name}")
    loaded_commands = [
        module_name for module_name in _COMMANDS.values() if module_name.path[0] == group
    ]
    # Whichever module was imported first.
    return help_phrase(module.__doc__), sorted(
        loaded_commands, key=lambda module_name: module_name.function.__module__
    )


def _modules(package: ModuleType) -> list[str]:
    names = (name for folder in getattr(package, "__path__", ()) for name in os.listdir(folder))
    return sorted({name.partition(".")[0] for name in names if name[0] not in "_."})


def _contains_any(package: ModuleType, name: str, texts: Sequence[str]) -> bool:
    source = Path(package.__path__[0], f"{name}.py").read_text("utf-8")
    return any(text in source for text in texts)
