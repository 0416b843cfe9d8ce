"""Classes list their attributes and signals in their docstrings by the names that they have."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NAME_LINE = re.compile(r"    (\w+(?:, \w+)*): ")


def _classes() -> dict[str, list[ast.ClassDef]]:
    classes: dict[str, list[ast.ClassDef]] = {}
    for tree in ("app", "backend", "widgets"):
        for path in (ROOT / tree).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.ClassDef):
                    classes.setdefault(node.name, []).append(node)
    return classes


def _documented_names(node: ast.ClassDef) -> set[str]:
    """Names below “Attributes:” and “Signals:”."""
    section, names = "", set()
    for line in (ast.get_docstring(node) or "").splitlines():
        if line and not line.startswith(" "):
            section = line
        elif section in ("Attributes:", "Signals:") and (match := NAME_LINE.match(line)):
            names |= set(match[1].split(", "))
    return names


def _signals(node: ast.ClassDef) -> Iterator[str]:
    for part in node.body:
        if isinstance(part, ast.Assign) and ast.unparse(part.value).startswith("Signal("):
            yield from (ast.unparse(target) for target in part.targets)


def _members(node: ast.ClassDef, classes: dict[str, list[ast.ClassDef]]) -> set[str]:
    members = set()
    for base in (
        ast.unparse(base_node).partition("[")[0].rpartition(".")[2] for base_node in node.bases
    ):
        for base_node in classes.get(base, ()):
            members |= _members(base_node, classes) if base != node.name else set()
    for part in ast.walk(node):
        if isinstance(part, ast.FunctionDef):
            members.add(part.name)
        elif isinstance(part, (ast.Name, ast.Attribute)) and isinstance(part.ctx, ast.Store):
            members.add(part.attr if isinstance(part, ast.Attribute) else part.id)
    return members


def test_docstrings_list_only_existing_members_and_every_signal() -> None:
    classes = _classes()
    errors = []
    for name, node in ((name, member) for name, nodes in classes.items() for member in nodes):
        documented = _documented_names(node)
        errors += [f"{name} has no {member}" for member in documented - _members(node, classes)]
        if not name.startswith("_"):
            public_signals = {member for member in _signals(node) if not member.startswith("_")}
            errors += [f"{name} does not list {member}" for member in public_signals - documented]
    assert errors == []
