"""The arguments of a script: placeholders, its entry, and the variables of its processes.

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path, PurePosixPath

PLACEHOLDERS: Mapping[str, str] = {
    "dataset": "the folder of the dataset",
    "output": "the folder for what the script writes, which the job keeps",
    "seed": "the job's seed",
    "checkpoint": "the newest checkpoint, or empty text without one",
    "nodes": "the number of nodes",
    "processes": "the number of processes",
    "gpus": "the number of GPUs of a process",
}
_PLACEHOLDER = re.compile(r"\{\{([a-z_]+)\}\}|\{([a-z_]+)\}")
_UNQUOTED = re.compile(r"[\w@%+=:,./{}-]+")
_COMMAND = re.compile(r"[A-Za-z][\w-]*")
_MODULE = re.compile(r"-m\s+([A-Za-z_]\w*(\.[A-Za-z_]\w*)*)")
REQUIREMENTS = "requirements"
"""Value of ``python`` for an environment with the packages that the script lists."""
PYTHONS = {"": "The node's own", REQUIREMENTS: "From the script's requirements"}
_NO_PROGRAMS = ("setup.py", "conftest.py", "__init__.py", "noxfile.py", "hubconf.py")
REQUIREMENT_FILES = ("uv.lock", "requirements.txt", "pyproject.toml")
"""The files that list packages, at the top of a script's folder; the first one counts."""
USUAL_CHECKPOINTS = ("*.pt", "*.pth", "*.pth.tar", "*.ckpt", "*.safetensors", "checkpoint-*/")
SESSION = "jupyter-session"
"""The library's name of the script `resources/session`, whose jobs are sessions."""


@dataclass(frozen=True)
class SessionKind:
    """A kind of session: its label, and the page of its server that the browser shows."""

    label: str
    page: str


SESSION_KINDS = {
    "jupyter": SessionKind("JupyterLab", "lab"),
    "terminal": SessionKind("Terminal", "terminals/1"),
}
UNUSED_FILE = ".unused_s"
"""The file in the output of a session with the seconds since its last use."""
SIGNALS = {"SIGTERM": "SIGTERM", "SIGINT": "SIGINT (as Ctrl+C)", "SIGUSR1": "SIGUSR1"}


def is_session(reference: str) -> bool:
    """Return whether the script of this reference, "" for none, runs JupyterLab for a user."""
    return reference.partition("@")[0] == SESSION


def session_kind(arguments: Sequence[str]) -> SessionKind:
    """Return the kind among the arguments of a session."""
    match = re.search(r"(?:^| )--kind[ =](\w+)", " ".join(arguments))
    return SESSION_KINDS.get(match[1] if match else "", SESSION_KINDS["jupyter"])


def session_length_s(arguments: Sequence[str]) -> float:
    """Return the time limit among the arguments of a session; 0.0 without one that is possible."""
    match = re.search(r"(?:^| )--hours[ =]([\d.]+)(?: |$)", " ".join(arguments))
    hours = float(match[1]) if match and match[1].count(".") < 2 and match[1] != "." else 0.0
    return hours * 3600


def fill_placeholders(arguments: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """Return the arguments with their placeholders replaced; ``{{seed}}`` stands for ``{seed}``."""

    def value(match: re.Match[str]) -> str:
        return f"{{{match[1]}}}" if match[1] else values[match[2]]

    return [_PLACEHOLDER.sub(value, argument) for argument in arguments]


def command_line(tokens: Sequence[str]) -> str:
    """Return words as a line that `shlex.split` reads; braces need no quotation."""
    return " ".join(token if _UNQUOTED.fullmatch(token) else shlex.quote(token) for token in tokens)


def unknown_placeholders(arguments: Sequence[str]) -> Iterator[str]:
    """Find the names in braces that are no placeholders."""
    for argument in arguments:
        for match in _PLACEHOLDER.finditer(argument):
            if match[2] and match[2] not in PLACEHOLDERS:
                yield match[2]


def is_entry(entry: str) -> bool:
    """Return whether this is a file below the script's folder, or ``-m`` and a module, or ""."""
    path = PurePosixPath(entry)
    if entry.startswith("-"):
        return bool(_MODULE.fullmatch(entry))
    return not path.is_absolute() and ".." not in path.parts


def entry_args(entry: str) -> list[str]:
    """Return the words after ``python`` that run an entry."""
    module = _MODULE.fullmatch(entry)
    return ["-m", module[1]] if module else [entry]


def commands(arguments: Sequence[str]) -> list[str]:
    """Return the words before the first option, such as ``fit``: a program may have commands."""
    return list(takewhile(lambda token: _COMMAND.fullmatch(token), arguments))


def interpreter(entry: Path) -> list[str]:
    """Return the words of the line ``#!`` of a program that is not Python's, [] for Python's."""
    if entry.suffix == ".py" or not entry.is_file():
        return []
    with entry.open("rb") as file:
        first_line = file.readline(256).decode("utf-8", "replace")
    if first_line.startswith("#!"):
        return first_line[2:].strip().split(maxsplit=1)
    return ["/bin/sh"] if entry.suffix == ".sh" else []


def usual_entry(files: Sequence[str]) -> str:
    """Return the file that most likely starts the script, or "" if several could.

    A program in a package is a module (``-m package.train``), because it imports from there.

    Args:
        files: The paths of its files.
    """
    programs = [path for path in map(PurePosixPath, files) if path.suffix in (".py", ".sh")]
    programs = [path for path in programs if path.name not in _NO_PROGRAMS]
    depths = sorted({len(path.parts) for path in programs})
    for depth in depths:
        for name in ("train.py", "main.py", "run.py", "__main__.py"):
            paths = [path for path in programs if len(path.parts) == depth and path.name == name]
            if len(paths) == 1:
                return _as_entry(paths[0], files)
            if paths:
                return ""
        if depth == 1:
            top = [path for path in programs if len(path.parts) == 1]
            code = [path for path in top if path.suffix == ".py"] or top
            if len(code) == 1:
                return code[0].name
    return ""


def _as_entry(path: PurePosixPath, files: Sequence[str]) -> str:
    if path.suffix != ".py" or str(path.with_name("__init__.py")) not in files:
        return str(path)
    parts = path.parent.parts if path.name == "__main__.py" else path.with_suffix("").parts
    return f"-m {'.'.join(parts)}"


def usual_requirement_file(files: Sequence[str]) -> str:
    """Return the file that lists the packages of a script, "" without one."""
    return next((name for name in REQUIREMENT_FILES if name in files), "")
