"""The rules files: each entry explains its own example, and a node's Python can read them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from backend.node.diagnosis.explainer import Failure, explain
from backend.node.diagnosis.log_text import LogPart
from backend.node.diagnosis.rule import RULES_FOLDER, Rule, SearchedText, load, read_entries
from backend.node.diagnosis.tracebacks import final_exceptions
from tests.conftest import LogWatch

FILES = sorted(RULES_FOLDER.glob("*.toml"))
RULES, HINTS = load("rule"), load("hint")
IDS = {rule.id for rule in RULES}
ENTRY = """\
[[rule]]
id = "oven_hot"
patterns = ['^the oven is at (?P<heat>\\d+)$', 'oven too hot']
sentence = "The oven is at {heat} degrees."
otherwise = "The oven is too hot."
remedy = "Let it cool."
source = "https://example.org"
example = '''
the oven is at 300
'''
"""


def text_of(rule: Rule) -> str:
    """Return the example, and the exceptions in it with the functions they came through."""
    chains = final_exceptions(rule.example.split("\n"))
    return "\n".join(
        [rule.example, *(exception.text_and_functions for chain in chains for exception in chain)]
    )


def match_order(rule: Rule, other_rule: Rule) -> tuple[int, int, int]:
    """Return the precedence of ``other_rule`` in the example of ``rule``; the lowest wins."""
    match = other_rule.pattern.search(text_of(rule))
    assert match is not None
    return (
        other_rule.weight.value,
        rule.example.count("\n", 0, match.start()),
        RULES.index(other_rule),
    )


EXPLAINING = [rule for rule in RULES if rule.pattern.search(text_of(rule))]
"""Of the rules of an entry, that with the weight of its example."""


@pytest.mark.parametrize("rule", EXPLAINING, ids=lambda rule: rule.id)
def test_a_rule_explains_its_example_and_no_rule_of_a_higher_rank_does(rule: Rule) -> None:
    text = text_of(rule)
    matching_rules = [
        r for r in RULES if {*r.searched_texts} & {*rule.searched_texts} and r.pattern.search(text)
    ]
    assert min(matching_rules, key=lambda other_rule: match_order(rule, other_rule)).id == rule.id
    log = (LogPart.from_text("x.log", rule.example),)
    if rule.searched_texts == (SearchedText.MPIRUN,):
        explanation = explain(Failure(None), {}, log)
    else:
        explanation = explain(Failure(0), {0: log})
    assert (explanation.cause, explanation.remedy) == (rule.cause, rule.remedy)
    assert explanation.message.startswith(
        rule.format_message(rule.pattern.search(text)).rstrip(".")
    )  # type: ignore[arg-type]


@pytest.mark.parametrize("hint", HINTS, ids=lambda hint: hint.id)
def test_a_hint_is_the_first_that_fits_its_example(hint: Rule) -> None:
    chains = final_exceptions(hint.example.split("\n"))
    text = chains[-1][-1].text_and_places if chains else hint.example
    assert next(other_rule for other_rule in HINTS if other_rule.pattern.search(text)) is hint
    explanation = explain(Failure(0), {0: (LogPart.from_text("x.log", hint.example),)})
    assert explanation.remedy.startswith(hint.remedy)


def test_rules_have_names_of_their_own_whole_sentences_and_a_source() -> None:
    assert {rule.id for rule in EXPLAINING} == IDS
    assert len({(rule.id, rule.weight) for rule in RULES}) == len(RULES)
    assert len({rule.cause for rule in RULES}) > 140
    for rule in RULES:
        assert rule.source.startswith("https://"), rule.id
        for text in (rule.message, rule.otherwise or rule.message, rule.remedy):
            assert text.endswith((".", "}")), text
            assert not set(text) & set("!"), text


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_node_without_tomllib_reads_the_same_from_a_file(file: Path) -> None:
    text = file.read_text("utf-8")
    assert read_entries(text, file.name) == tomllib.loads(text)


def test_every_pattern_compiles_on_python_3_9() -> None:
    """From 3.11 on a second plus has a meaning of its own; before, it is an error."""
    possessive = re.compile(r"(?<!\\)[*+?}]\+")
    assert [r.id for r in (*RULES, *HINTS) if possessive.search(r.pattern.pattern)] == []


def test_an_entry_is_all_that_a_new_rule_needs(tmp_path: Path) -> None:
    (tmp_path / "kitchen.toml").write_text(ENTRY)
    (rule,) = load("rule", tmp_path)
    logged_messages = [
        rule.format_message(rule.pattern.search(text))
        for text in ("the oven is at 300", "oven too hot")
    ]  # type: ignore[arg-type]
    assert logged_messages == ["The oven is at 300 degrees.", "The oven is too hot."]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[[rule]]", "[[rule"),
        ('remedy = "Let it cool."', "remedy = Let it cool"),
        ("remedy =", "cure ="),
        ("(?P<heat>", "(?P<heat"),
        ("patterns = ", "vague_patterns = "),
        ('id = "oven_hot"', 'id = "oven_hot"\nreads = ["kitchen"]'),
        ('source = "https://example.org"', 'source = "https://example.org'),
    ],
)
def test_a_file_with_a_mistake_is_left_out_and_named_in_the_log(
    tmp_path: Path, log_watch: LogWatch, old: str, new: str
) -> None:
    (tmp_path / "a.toml").write_text(ENTRY.replace(old, new))
    (tmp_path / "b.toml").write_text(ENTRY)
    log_watch.expect("a.toml")
    assert len(load("rule", tmp_path)) == 1
