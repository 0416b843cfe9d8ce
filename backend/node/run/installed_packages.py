"""The installed packages that the exceptions at the end of a log are about, with their versions."""

from __future__ import annotations

import ast
import importlib.metadata
import re
from collections.abc import Sequence
from pathlib import Path

from backend.base.log import suppress
from backend.node.diagnosis.log_text import LogPart
from backend.node.diagnosis.tracebacks import PACKAGES_PREFIX, TracebackFrame, final_exceptions
from backend.records.library.packages import package_of

_FOLDER = re.compile(r".*[/\\](?:site|dist)-packages(?=[/\\])")
_MODULE = re.compile(r"(?:module|from|named) '(?P<name>\w+)")
_REFUSED = re.compile(r"(?:unexpected keyword argument|type object '\w+' has no attribute) '(\w+)'")


def packages_line(log: Sequence[LogPart], python: str) -> str:
    """Return the line for the log, "" if no exception ended it or no package is known.

    ``python``: the program's interpreter; it has packages that no traceback shows.
    """
    prefix = Path(python).absolute().parents[1]
    folders = [str(path) for path in prefix.glob("lib/python3*/*-packages")]
    suffixes: dict[str, str] = {}
    for chain in final_exceptions(log[-1].lines) if log else ():
        frames, text = chain[-1].frames, chain[-1].text
        folders += [match[0] for frame in frames if (match := _FOLDER.match(frame.file))]
        modules = [*(frame.package for frame in frames), *_MODULE.findall(text)]
        suffixes |= dict.fromkeys(filter(None, modules), "")
        match = _REFUSED.search(text)
        if match is not None and frames and not frames[-1].is_of_library:
            suffixes[_called_module(frames[-1], match[1])] = " (called here)"
    versions = {module: _installed_version(module, folders) for module in suffixes if module}
    entries = [f"{name} {version}{suffixes[name]}" for name, version in versions.items() if version]
    return f"{PACKAGES_PREFIX}{', '.join(entries)}\n" if entries else ""


def _installed_version(module: str, folders: Sequence[str]) -> str:
    distributions = importlib.metadata.distributions(name=package_of(module), path=list(folders))
    return next((distribution.version for distribution in distributions), "")


def _called_module(frame: TracebackFrame, name: str) -> str:
    """Return the package from which the code of a frame imports what it calls, "" if unknown.

    ``name`` is that of an argument, or of an attribute of a class.
    """
    tree = ast.Module([], [])
    with suppress(OSError, SyntaxError, ValueError):
        tree = ast.parse(Path(frame.file).read_bytes())
    modules: dict[str, str] = {}
    roots: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {alias.asname or alias.name: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            modules |= {alias.asname or alias.name: node.module or "" for alias in node.names}
        elif isinstance(node, ast.Call) and node.lineno <= frame.line <= (node.end_lineno or 0):
            # A dictionary of arguments has no name.
            arguments = [keyword.arg or name for keyword in node.keywords]
            function = ast.unparse(node.func)
            if name in (*arguments, *function.split(".")):
                roots.append(function.partition(".")[0])
    return next((modules[root].partition(".")[0] for root in roots if root in modules), "")
