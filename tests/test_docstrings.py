"""Classes list their attributes and signals in their docstrings by the names that they have."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LISTED = re.compile(r"    (\w+(?:, \w+)*): ")


def _classes() -> dict[str, list[ast.ClassDef]]:
    found: dict[str, list[ast.ClassDef]] = {}
    for tree in ("app", "backend", "widgets"):
        for path in (ROOT / tree).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.ClassDef):
                    found.setdefault(node.name, []).append(node)
    return found


def _listed(node: ast.ClassDef) -> set[str]:
    """Names below “Attributes:” and “Signals:”."""
    part, found = "", set()
    for line in (ast.get_docstring(node) or "").splitlines():
        if line and not line.startswith(" "):
            part = line
        elif part in ("Attributes:", "Signals:") and (match := LISTED.match(line)):
            found |= set(match[1].split(", "))
    return found


def _signals(node: ast.ClassDef) -> Iterator[str]:
    for part in node.body:
        if isinstance(part, ast.Assign) and ast.unparse(part.value).startswith("Signal("):
            yield from (ast.unparse(target) for target in part.targets)


def _members(node: ast.ClassDef, classes: dict[str, list[ast.ClassDef]]) -> set[str]:
    found = set()
    for base in (ast.unparse(one).partition("[")[0].rpartition(".")[2] for one in node.bases):
        for one in classes.get(base, ()):
            found |= _members(one, classes) if base != node.name else set()
    for part in ast.walk(node):
        if isinstance(part, ast.FunctionDef):
            found.add(part.name)
        elif isinstance(part, (ast.Name, ast.Attribute)) and isinstance(part.ctx, ast.Store):
            found.add(part.attr if isinstance(part, ast.Attribute) else part.id)
    return found


def test_docstrings_list_only_existing_members_and_every_signal() -> None:
    classes = _classes()
    wrong = []
    for name, node in ((name, one) for name, some in classes.items() for one in some):
        listed = _listed(node)
        wrong += [f"{name} has no {one}" for one in listed - _members(node, classes)]
        if not name.startswith("_"):
            public = {one for one in _signals(node) if not one.startswith("_")}
            wrong += [f"{name} does not list {one}" for one in public - listed]
    assert wrong == []
