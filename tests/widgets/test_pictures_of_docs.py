"""The documents show pictures that one command makes, and every one of them."""

from __future__ import annotations

import re

from tests.pictures import screens  # noqa: F401 - fills the gallery
from tests.pictures.__main__ import DOCS
from tests.pictures.gallery import published
from tests.pictures.program import OF_PROGRAM

ROOT = DOCS.parents[1]
_SHOWN = re.compile(r"!\[[^\]]+\]\([^)]*pictures/([^)]+)\.png\)")


def _shown() -> set[str]:
    pages = (ROOT / "README.md", *DOCS.parent.glob("*.md"))
    return {name for page in pages for name in _SHOWN.findall(page.read_text(encoding="utf-8"))}


def test_whatever_picture_a_document_names_the_command_makes() -> None:
    made = {*OF_PROGRAM, *published()}
    assert _shown() <= made
    assert {path.stem for path in DOCS.glob("*.png")} == made, "installers/pictures --docs"


def test_no_picture_is_made_that_no_document_shows() -> None:
    assert {*OF_PROGRAM, *published()} <= _shown() | {"stopped-1000x640-light"}
