"""A name says what the value is: a noun of the domain, in the program and in its tests."""

from __future__ import annotations

import ast
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ODD = frozenset(
    re.findall(
        r"\w+",
        """
        above across after again alike alone also another apart around as_is aside asked at at_once
        away before began begin begins begun below beside between both brought by by_hand carried
        checked chosen comes continued counted damaged does doubt drawn each early elsewhere ended
        ending endings ends even ever everyones everything fact facts fault faults fits fitting
        followed found fresh given goes gone half has held here how in_words judged kept known lacks
        lane late least left left_out like listed lost made marked measured meeting middle mine
        missed moment more most moved named near needed needs no_number nothing odd of offered on
        one ones only opened other others ours over own passed past piece pieces place placed places
        pointed puts raised reads refused rest room rooms said same says scene seen sees sentence
        sentences shown shows since so some stands such taken takes than theirs then there thing
        things together told tone tried trusted twin typed under_way used usual waiting wanted wants
        was watched way way_out what when where which who whole whose why within words written wrong
        """,
    )
)
"""Pronouns, participles, adverbs and prepositions: as a whole name they do not say what it is."""
PARTICIPLE = re.compile(r"_?[A-Z][a-z]+ed$")
"""The name of a class without the noun that it describes: Checked, Opened."""
MOST_IN_1000 = {"product": 2.0, "tests": 4.0}
"""Odd names in 1,000 lines. Programs that are read with pleasure have 0.2 to 1.7."""


def odd_names(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and name of each binding that names no thing."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            name = node.id
        elif isinstance(node, ast.arg):
            name = node.arg
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            name = node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            name = node.attr
        else:
            continue
        is_class = isinstance(node, ast.ClassDef)
        if name.strip("_").lower() in ODD or (is_class and PARTICIPLE.match(name)):
            yield node.lineno, name


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("for one in nodes: pass", ["one"]),
        ("def _found(what, *, _before=0): self.kept = 1", ["_found", "what", "_before", "kept"]),
        ("class Checked: pass\nclass _Tied: pass", ["Checked", "_Tied"]),
        ("[x for known in rows]", ["known"]),
        ("class CheckedJob: pass\nfor node in nodes: pass\nknown_hosts = []", []),
        ("found.append(one)", []),
    ],
)
def test_a_binding_that_names_no_thing_is_counted(source: str, names: list[str]) -> None:
    assert sorted(name for _, name in odd_names(source)) == sorted(names)


@pytest.mark.parametrize("part", MOST_IN_1000)
def test_few_names_name_no_thing(part: str) -> None:
    files = subprocess.check_output(["git", "ls-files", "*.py"], cwd=ROOT, text=True).split()
    line_count, places = 0, Counter[str]()
    for file in files:
        if file.startswith("tests/") == (part == "tests"):
            source = (ROOT / file).read_text(encoding="utf-8")
            line_count += source.count("\n")
            places.update(f"{file}: {name}" for _, name in odd_names(source))
    rate = 1000 * places.total() / line_count
    assert rate <= MOST_IN_1000[part], f"{rate:.1f} in 1,000 lines: {places.most_common(40)}"
