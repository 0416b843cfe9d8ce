"""In a printed report a heading never stands alone at the end of a page."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QMarginsF
from PySide6.QtGui import QPdfWriter, QTextDocument
from pytestqt.qtbot import QtBot

from widgets.report_printer import keep_headings, stranded_heading

_CONTENTS = {
    "text": "<p>one line</p>",
    "a table after its caption": "<p>caption</p><table><tr><td>a</td></tr></table>",
    "a second heading": "<h3>Loss</h3><p>one line</p>",
}


@pytest.mark.parametrize("content", _CONTENTS.values(), ids=_CONTENTS)
def test_a_heading_goes_to_the_next_page_with_what_follows_it(
    qtbot: QtBot, tmp_path: Path, content: str
) -> None:
    writer = QPdfWriter(str(tmp_path / "a.pdf"))
    writer.setPageMargins(QMarginsF(2, 2, 2, 2))
    stranded_counts = []
    for line_count in range(15, 60):
        document = QTextDocument()
        # A size of its own: tests of the window set that of the application.
        body = f"{'<p>filler</p>' * line_count}<h2>Curves</h2>{content}"
        document.setHtml(f'<body style="font-size:10pt">{body}</body>')
        stranded = stranded_heading(document, writer)
        if stranded is not None:
            assert stranded.text() == "Curves", "the first of two headings"
            stranded_counts.append(line_count)
        keep_headings(document, writer)
        assert stranded_heading(document, writer) is None
    assert stranded_counts, "without this it would stand alone"
