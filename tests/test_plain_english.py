"""Names and English of the program: standard names, plain sentences, titles that name the thing."""

from __future__ import annotations

import ast
import re
import subprocess
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CODE = ("app", "backend", "installers", "widgets", "main.py")
TEXTS = ("README.md", "CHANGELOG.md", "docs")
UNUSED_WORDS = re.compile(
    r"\b(a person|nobody|somebody|whoever|for ever|wish(es|ed)?|tells?|told|unwell|far|things?"
    r"|anew|mend(s|ed|ing)?|goes on|go on|the log does not say why)\b",
    re.IGNORECASE,
)
"""`docs/terms.md` has the words in their place."""
BARE_THERE = re.compile(r"\bthere\b(?! (is|are|was|were|be|must)\b)", re.IGNORECASE)
LIST_OF_WORDS = "\n## Words that are not used\n"
"""The last heading of `docs/terms.md`; the words are named below it."""
TITLE = re.compile(r"(What|How|Which|Who|Whose|Whether|Where)\b")
CODE_OF_A_REQUIREMENT = re.compile(r"\b[MSXPF][0-9]{1,2}\b")
NAMES = re.compile(
    r"(^|_)(ballot|carried|carrying|curtain|doubt|far|flight|forget|ground|heads|holders|insist"
    r"|knock|look|looks|mend|mends|printable|rising|settle|spare|stranger|strangers|take_up|talk"
    r"|tell|telling|told|trouble|turns|unwell|verdict|whence|wish|wishes)(_|$)"
)
"""Words that the names of modules, classes and public functions do not have."""
IDENTIFIERS = re.compile(
    r"(^|_)(anew|ballots?|course|far|insist|mend(s|ed|er)?|nobody|seats?|strangers?|troubles?|unwell"
    r"|verdicts?|whence|wish(es|ed)?)(_|$)"
)
"""Words that no name has, be it of a variable, a parameter or an attribute; except ``so_far``."""
OLD_IDENTIFIERS = re.compile(r"(^|_)(told|tells?|tellings?|news|look(s|ed)?)(_|$)")
"""The same, except `KNOWN_NAMES`."""
KNOWN_NAMES = {
    *("NodeNews", "without_news", "last_news", "_last_news"),
    *("tell", "tell_finished", "tells_finished", "look", "test_clean_looks"),
}
"""Of records that `backend.datastore` makes, a file's position, two stored settings, a stored field
and a module."""


def _files(*folders: str) -> list[str]:
    listing = subprocess.check_output(["git", "ls-files", *folders], cwd=ROOT, text=True)
    return [name for name in listing.split() if name.endswith(".py")]


def _python() -> Iterator[tuple[str, str]]:
    for name in _files(*CODE):
        yield name, (ROOT / name).read_text(encoding="utf-8")


def _texts() -> Iterator[Path]:
    for top in TEXTS:
        path = ROOT / top
        yield from sorted(path.rglob("*.md")) if path.is_dir() else [path]


@cache
def _prose(name: str, source: str) -> list[tuple[int, str]]:
    """Comments, docstrings and other strings with a blank: keys and names have none."""
    comments = _comments_and_names(name)[0]
    constants = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)]
    return comments + [
        (constant.lineno, constant.value)
        for constant in constants
        if isinstance(constant.value, str) and " " in constant.value
    ]


def _text_strings(source: str) -> Iterator[tuple[int, str]]:
    """Strings with a blank that are no docstrings; ``{}`` stands for each value."""
    tree = ast.parse(source)
    skipped_ids = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        text = ""
        if isinstance(node, ast.JoinedStr):
            skipped_ids |= {id(part) for part in node.values}
            parts = (part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
            text = "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        if " " in text and id(node) not in skipped_ids:
            yield node.lineno, text


def _titles(source: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            yield getattr(node, "lineno", 1), ast.get_docstring(node) or ""


def _public_names(name: str, source: str) -> Iterator[tuple[int, str]]:
    yield 1, Path(name).stem
    tree = ast.parse(source)
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    for node in (statement for scope in (tree, *classes) for statement in scope.body):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and not node.name.startswith("_"):
            yield node.lineno, _snake(node.name)


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def test_sentences_are_plain() -> None:
    locations = [
        f"{name}:{line} {match[0]}"
        for name, source in _python()
        for line, text in _prose(name, source)
        for match in UNUSED_WORDS.finditer(text)
    ]
    for path in _texts():
        text = path.read_text("utf-8").partition(LIST_OF_WORDS)[0]
        locations += [f"{path.name} {match[0]}" for match in UNUSED_WORDS.finditer(text)]
    assert locations == []


def test_a_sentence_for_users_names_the_place() -> None:
    locations = [
        f"{name}:{line} {text}"
        for name, source in _python()
        for line, text in _text_strings(source)
        if BARE_THERE.search(text)
    ]
    assert locations == []


@pytest.mark.parametrize(
    ("source", "is_plain"),
    [
        ("x = 'Check that you may write there.'", False),
        ("x = f'Mount it there, on {node}.'", False),
        ("x = f'There {node}.'", False),
        ("x = 'what is not there'", False),
        ("x = 'There is no node.'", True),
        ("x = f'There are {count} nodes.'", True),
        ("x = 'there'", True),
        ("def f():\n    'What stands there.'", True),
    ],
)
def test_a_bare_there_is_seen(source: str, is_plain: bool) -> None:
    texts = [text for _, text in _text_strings(source)]
    assert any(map(BARE_THERE.search, texts)) != is_plain


def test_a_docstring_begins_with_a_noun_or_an_imperative() -> None:
    locations = [
        f"{name}:{line} {text.splitlines()[0]}"
        for name, source in _python()
        for line, text in _titles(source)
        if TITLE.match(text)
    ]
    assert locations == []


def test_no_code_of_a_requirement_stands_in_the_program() -> None:
    locations = [
        f"{name}:{line} {match[0]}"
        for name, source in _python()
        for line, text in _prose(name, source)
        for match in CODE_OF_A_REQUIREMENT.finditer(text)
    ]
    assert locations == []


def test_names_are_standard_words() -> None:
    locations = [
        f"{name}:{line} {word}"
        for name, source in _python()
        for line, word in _public_names(name, source)
        if NAMES.search(word)
    ]
    assert locations == []


def test_no_identifier_has_a_private_word() -> None:
    locations = set()
    for name in _files(*CODE, "tests"):
        locations |= {f"{name} {word}" for word in _names(name) if IDENTIFIERS.search(_snake(word))}
    assert {location for location in locations if not location.endswith(" so_far")} == set()


def test_no_identifier_has_an_old_word() -> None:
    locations = set()
    for name in _files(*CODE, "tests"):
        # A changed text of that module makes everyone build the image of the test cluster again.
        names = set() if name == "tests/cluster/image.py" else _names(name) - KNOWN_NAMES
        locations |= {f"{name} {word}" for word in names if OLD_IDENTIFIERS.search(_snake(word))}
    assert locations == set()


def _names(name: str) -> set[str]:
    return _comments_and_names(name)[1]


@cache
def _comments_and_names(name: str) -> tuple[list[tuple[int, str]], set[str]]:
    comments, names = [], set()
    with (ROOT / name).open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type == tokenize.NAME:
                names.add(token.string)
            elif token.type == tokenize.COMMENT:
                comments.append((token.start[0], token.string))
    return comments, names
