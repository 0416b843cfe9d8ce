"""Text for a terminal whose locale is not UTF-8."""

from __future__ import annotations

import io
import locale
import sys

import pytest

from backend.base.errors import BackendError
from backend.cli import main


@pytest.mark.parametrize("encoding", ["ascii", "iso8859-1", "utf-8"])
@pytest.mark.parametrize(
    "argv", [["--help"], ["job", "--help"], ["job", "show", "--help"], ["study", "list", "--help"]]
)
def test_help_is_printed_in_any_locale(
    encoding: str, argv: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(locale, "getencoding", lambda: encoding)
    with pytest.raises(SystemExit) as end:
        main.run(argv, lambda *_: 0)
    assert end.value.code == 0
    out.flush()
    assert out.buffer.getvalue().decode(encoding).startswith("usage: ")  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("encoding", "visible_text"),
    [("ascii", "Gr??e ?\n"), ("iso8859-1", "Größe ?\n"), ("utf-8", "Größe 日\n")],
)
def test_an_error_is_printed_in_any_locale(
    encoding: str, visible_text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise BackendError("Größe 日")

    printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    monkeypatch.setattr(sys, "stderr", printed)
    monkeypatch.setattr(locale, "getencoding", lambda: encoding)
    assert main.run([], refuse) == 1
    printed.flush()
    assert printed.buffer.getvalue().decode(encoding) == visible_text  # type: ignore[attr-defined]
