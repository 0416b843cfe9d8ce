"""A log of any size, found by its lines: each line is what a plain reading of the file gives."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.base.errors import Cancelled
from backend.base.progress import Progress
from backend.datastore.access.root_access import DataRootAccess
from backend.datastore.jobs import log_index
from backend.datastore.jobs.log_index import BLOCK_BYTES, LINE_CHARACTERS, LogIndex
from tests.fakes.mounted_root import MOUNTED


def indexed(path: Path) -> LogIndex:
    index = LogIndex(path, MOUNTED)
    index.refresh()
    return index


def plainly(content: bytes) -> list[str]:
    lines = content.decode("utf-8", "replace").split("\n")
    return lines if lines[-1] else lines[:-1]


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 16 bytes, so that everything happens at their edges."""
    monkeypatch.setattr(log_index, "BLOCK_BYTES", 16)


TEXTS = st.lists(st.text(st.sampled_from("ab é─"), max_size=40), max_size=30)


@pytest.mark.usefixtures("small_blocks")
@settings(max_examples=400)
@given(lines=TEXTS, ends_line=st.booleans(), first=st.integers(0, 35), count=st.integers(0, 35))
def test_lines_are_those_of_the_file_wherever_blocks_end(
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[str],
    ends_line: bool,
    first: int,
    count: int,
) -> None:
    content = "\n".join(lines).encode() + (b"\n" if ends_line else b"")
    path = tmp_path_factory.getbasetemp() / "any.log"
    path.write_bytes(content)
    expected_lines = plainly(content)
    index = indexed(path)
    assert index.lines == len(expected_lines)
    assert list(index.read(first, count)) == expected_lines[first : first + count]


@pytest.mark.usefixtures("small_blocks")
@settings(max_examples=100)
@given(lines=TEXTS, text=st.text(st.sampled_from("abé"), min_size=1, max_size=3))
def test_a_search_finds_the_lines_that_hold_the_text_in_whatever_case(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], text: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "searched.log"
    path.write_text("\n".join(lines))
    expected_lines = plainly(path.read_bytes())
    holding = tuple(
        n for n, line in enumerate(expected_lines) if text.casefold() in line.casefold()
    )
    assert indexed(path).find(text.upper()) == (holding, False)
    later = tuple(n for n in holding if n >= 5)
    assert indexed(path).find(text, from_line=5) == (later, False)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("size", [15, 16, 17, 32, 33, 48])
def test_a_line_without_an_end_is_whole_wherever_the_file_ends(tmp_path: Path, size: int) -> None:
    path = tmp_path / "rank-0.log"
    path.write_text("x" * size)
    assert indexed(path).read(0, 1) == ("x" * size,)
    path.write_text("y\n" + "x" * (size - 2))
    assert indexed(path).read(1, 1) == ("x" * (size - 2),)


def test_a_refresh_adds_new_lines_without_repeats(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.log"
    path.write_text("one\ntw")
    index = indexed(path)
    assert (index.lines, index.whole_lines) == (2, 1)
    with path.open("a") as file:
        file.write("o\nthree\n")
    index.refresh()
    assert index.read(0, 10) == ("one", "two", "three")
    assert (index.lines, index.whole_lines, index.generation) == (3, 3, 0)


def test_a_shortened_log_is_another_log(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.log"
    path.write_text("of the run before\n" * 5)
    index = indexed(path)
    path.write_text("new\n")
    index.refresh()
    assert (index.generation, index.read(0, 9)) == (1, ("new",))


def test_a_longer_log_in_the_place_of_another_is_another_one(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.log"
    path.write_text("old\n")
    index = indexed(path)
    path.rename(tmp_path / "moved.log")
    path.write_text("started over\nand longer\n")
    index.refresh()
    assert (index.generation, index.read(0, 9)) == (1, ("started over", "and longer"))


def test_a_missing_file_is_an_empty_log(tmp_path: Path) -> None:
    index = indexed(tmp_path / "rank-0.log")
    assert (index.lines, index.read(0, 5), index.find("x")) == (0, (), ((), False))
    assert index.first_error() is None


def test_a_line_of_megabytes_is_cut_and_a_progress_bar_shows_its_last_state(
    tmp_path: Path,
) -> None:
    path = tmp_path / "rank-0.log"
    path.write_text("x" * 3_000_000 + "\n 10%\r 20%\r\nend\n", newline="")
    index = indexed(path)
    assert len(index.read(0, 1)[0]) == LINE_CHARACTERS + 1
    assert index.read(1, 2) == (" 20%", "end")


def test_a_progress_bar_that_still_runs_shows_its_last_state(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.log"
    path.write_bytes(b"".join(b"\r%6d/20000 |##########|" % number for number in range(20_001)))
    assert path.stat().st_size > BLOCK_BYTES
    assert indexed(path).read(0, 1) == (" 20000/20000 |##########|",)


def test_colours_do_not_hide_a_word_from_a_search(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.log"
    path.write_text("\x1b[31mlo\x1b[1mss\x1b[0m 0.5\n")
    assert indexed(path).find("loss")[0] == (0,)
    assert indexed(path).find("31m")[0] == ()


def test_the_first_fault_is_found_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.log"
    path.write_text("epoch 1\n" * 50_000 + "Traceback (most recent call last):\nValueError: x\n")
    assert indexed(path).first_error() == 50_000


def test_a_search_can_be_ended(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.log"
    path.write_text("epoch 1\n" * 1000)
    index = indexed(path)
    cancelled_progress = Progress()
    cancelled_progress.cancel()
    with pytest.raises(Cancelled):
        index.find("epoch", cancelled_progress)


def test_only_the_end_of_a_remote_log_is_fetched(tmp_path: Path) -> None:
    class Remote(DataRootAccess):
        is_mounted = False
        fetched = 0

        def read(self, path: Path, offset: int, limit_bytes: int) -> bytes:
            chunk = super().read(path, offset, limit_bytes)
            self.fetched += len(chunk)
            return chunk

    path = tmp_path / "rank-0.log"
    path.write_text("".join(f"step {n:09d}\n" for n in range(1_000_000)))
    share = Remote()
    index = LogIndex(path, share)
    index.refresh()
    assert index.begins_at > 0
    assert index.read(index.lines - 1, 1) == ("step 000999999",)
    assert index.read(0, 1)[0].startswith("step 000")
    assert share.fetched <= 4 * 1024 * 1024
    with path.open("a") as file:
        file.write("the end\n")
    index.refresh()
    assert index.read(index.lines - 1, 1) == ("the end",)
