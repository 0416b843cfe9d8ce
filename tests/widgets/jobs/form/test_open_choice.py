"""A choice that also takes what is typed: the Python of a script."""

from __future__ import annotations

import pytest
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from widgets.jobs.form.job_fields import JobFields


@pytest.fixture
def fields(qtbot: QtBot) -> JobFields:
    new_fields = JobFields()
    new_fields.runs_script = True
    qtbot.addWidget(new_fields.make("python"))
    return new_fields


@pytest.mark.parametrize(
    "value",
    ["", "requirements", "/opt/conda/bin/python", "python3.12", "/a b/python", "~/bin/python"],
)
def test_the_field_shows_and_returns_every_value(fields: JobFields, value: str) -> None:
    fields.show({"python": value} if value else {})
    assert fields.draft() == ({"python": value} if value else {})
    fields.show({})
    assert fields.draft() == {}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("/opt/conda/bin/python", "/opt/conda/bin/python"),
        ("  /usr/bin/python3 ", "/usr/bin/python3"),
        ("From the script's requirements", "requirements"),
        ("The node's own", None),
        ("requirements", "requirements"),
        ("", None),
        (" ", None),
    ],
)
def test_typed_text_is_an_option_or_the_value_itself(
    qtbot: QtBot, fields: JobFields, text: str, value: str | None
) -> None:
    line = fields.field("python").control.lineEdit()  # type: ignore[attr-defined]
    line.selectAll()
    with qtbot.waitSignal(fields.changed):
        QTest.keyClicks(line, f"{text}x")
        QTest.keyClick(line, "\b")
    assert fields.draft().get("python") == value
