"""A log is read in pieces, from any byte, and no character is cut in two."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from backend.services.jobs.queries import read_log
from tests.fakes.mounted_root import MOUNTED


def test_a_missing_log_is_empty(tmp_path: Path) -> None:
    assert read_log(MOUNTED, tmp_path / "rank-0.log").text == ""


def test_following_a_log_gives_only_new_lines(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.log"
    path.write_text("one\n")
    first = read_log(MOUNTED, path)
    assert (first.text, first.offset, first.size) == ("one\n", 4, 4)
    with path.open("a") as file:
        file.write("two\n")
    assert read_log(MOUNTED, path, first.offset).text == "two\n"


def test_the_end_of_a_log_begins_with_a_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.log"
    path.write_text("".join(f"line {number}\n" for number in range(1000)))
    chunk = read_log(MOUNTED, path, -15)
    assert chunk.text == "line 999\n"
    assert chunk.offset == chunk.size


def test_p15_the_end_of_a_huge_log_does_not_read_the_whole(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.log"
    with path.open("wb") as file:
        file.truncate(50_000_000_000)
        file.seek(0, 2)
        file.write(b"\nthe end\n")
    assert read_log(MOUNTED, path, -20).text == "the end\n"


@settings(max_examples=60)
@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=60), st.integers(4, 20))
def test_pieces_of_any_size_make_up_the_whole(text: str, limit: int) -> None:

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rank-0.log"
        path.write_bytes(text.encode())
        chunks, offset = [], 0
        while (chunk := read_log(MOUNTED, path, offset, limit)).offset > offset:
            chunks.append(chunk.text)
            offset = chunk.offset
    assert "".join(chunks) == text
