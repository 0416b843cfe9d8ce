"""Whatever the texts of a report are, its file has the same tags, and none of the data root."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from backend.records.reports.report import (
    Curve,
    Plot,
    Reading,
    Report,
    Sample,
    Section,
    Table,
)
from backend.services.reports.html import masked, render
from backend.services.reports.masking import Mask

ROOT, HOST = "/lab/my ring", "gpu-17.lab.de"
MASK = Mask([ROOT], {HOST: "node 1"})
_SIGNS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_PARTS = st.sampled_from(
    [
        ROOT,
        f"{ROOT}/jobs/x.py",
        HOST,
        f"jane@{HOST}:",
        "<script>",
        '"',
        "'",
        "<!--",
        "]]>",
        "{{",
        "&",
    ]
)
HOSTILE_TEXTS = st.lists(st.one_of(_SIGNS, _PARTS), max_size=6).map("".join)


def report_of(text: str) -> Report:
    """A report with a text in each field that has one."""
    curve = Curve(text, 0, ((0.0, 1.0), (500.0, 2.0)))
    reading = Reading(1.0, text, ((text, 2.0),))
    plot = Plot(text, text, (curve,), ((0.0, text),), ((0.0, text),), (reading,))
    table = Table(text, (text, text), ((text, text),), frozenset({(0, 1)}))
    section = Section(text, (text,), (table,), (plot,), (Sample(text, "iVBO"),), (text,))
    return Report(text, text, text, "good", ((text, text),), (section, section), text)


class Tags(HTMLParser):
    def __init__(self, source: str) -> None:
        super().__init__()
        self.names: list[tuple[str, frozenset[str]]] = []
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append((tag, frozenset(name for name, _ in attrs)))


_PLAIN = Tags(render(report_of("x"))).names


@given(HOSTILE_TEXTS)
def test_no_text_adds_a_tag_or_an_attribute_or_names_the_data_root(text: str) -> None:
    source = render(masked(report_of(text + "x"), MASK))
    assert ROOT not in source
    assert HOST not in source
    assert Tags(source).names == _PLAIN


def test_fields_that_are_no_text_are_not_masked() -> None:
    mask = Mask([ROOT], {"line": "node 1", "good": "node 2", "iVBO": "node 3"})
    report = masked(report_of("line"), mask)
    assert report.color_role == "good"
    assert report.sections[0].plots[0].curves[0].style == "line"
    assert report.sections[0].samples[0].png == "iVBO"
    assert report.title == "node 1"
    assert masked(replace(report, title="a\u202eb\x1b[2J"), mask).title == "a?b?[2J"
