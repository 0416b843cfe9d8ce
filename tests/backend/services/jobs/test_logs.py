"""The logs of a job, one by one and all together, from any byte, with no character cut in two."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path

import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.base.errors import BackendError
from backend.records.base.atomic_files import replace_json
from backend.records.base.layout import JobFolder
from backend.services.jobs.logs import CombinedLogs, LogService
from backend.services.jobs.queries import read_log
from tests.fakes.mounted_root import MOUNTED, mounted
from tests.waiting import LIMIT_S

CONFIG = {
    "name": "digits",
    "model": "digits",
    "dataset": "digits",
    "loader": "digits",
    "epochs": 1,
    "batch_size": 8,
    "optimizer": {"name": "sgd", "lr": 0.1},
    "placement": [{"node": "this-computer", "processes": 2}],
}


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    folder = mounted(tmp_path).job("a")
    folder.logs.mkdir(parents=True)
    folder.config.write_bytes(tomli_w.dumps(CONFIG).encode())
    replace_json(folder.meta, {"schema": 1, "pins": {}, "created": "2026-11-21T07:00:00Z"})
    return folder


@pytest.fixture
def logs(folder: JobFolder, tmp_path: Path) -> LogService:
    return LogService(mounted(tmp_path))


def write(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_all_logs_together_keep_the_order_of_their_lines(
    folder: JobFolder, logs: LogService
) -> None:
    write(folder.rank_log(1), "b1\nb2\n")
    write(folder.rank_log(0), "a1\n")
    assert logs.read_size("a", "all").lines == 3
    write(folder.rank_log(1), "b3\n")
    logs.read_size("a", "all")
    write(folder.rank_log(0), "a2\nhalf a li")
    write(folder.mpirun_log, "m1\n")
    assert logs.read_size("a", "all").lines == 6
    log_lines = logs.lines("a", "all", 0, 100)
    assert log_lines.lines == ("a1", "b1", "b2", "b3", "m1", "a2")
    assert log_lines.sources == ("0", "1", "1", "1", "mpirun", "0")
    assert logs.lines("a", "all", 2, 3).lines == ("b2", "b3", "m1")
    write(folder.rank_log(0), "ne\n")
    assert logs.read_size("a", "all").lines == 7
    assert logs.lines("a", "all", 6, 1).lines == ("half a line",)
    assert logs.find("a", "all", "B").lines == (1, 2, 3)
    assert logs.find("a", "all", "a", from_line=1).lines == (5, 6)


def test_many_followed_logs_cost_a_few_numbers_for_each_change(
    folder: JobFolder, logs: LogService
) -> None:
    reads = 20
    for number in range(reads):
        for rank in (0, 1):
            write(folder.rank_log(rank), f"rank {rank} line {number}\n" * 100)
        logs.read_size("a", "all")
    middle_line = 200 * reads - 100
    last = logs.lines("a", "all", middle_line - 1, 2)
    assert last.sources == ("0", "1")
    assert last.lines == (f"rank 0 line {reads - 1}", f"rank 1 line {reads - 1}")
    matches = logs.find("a", "all", f"line {reads - 1}").lines
    assert matches == tuple(range(middle_line - 100, middle_line + 100))
    merged_log = logs._open_logs["a", "all"].log
    assert isinstance(merged_log, CombinedLogs)
    stored_arrays = (merged_log._starts, merged_log._sources, merged_log._first_lines)
    assert [len(numbers) for numbers in stored_arrays] == [2 * reads] * 3


def test_the_first_fault_of_all_is_the_one_that_stands_first(
    folder: JobFolder, logs: LogService
) -> None:
    write(folder.rank_log(0), "fine\n")
    write(folder.rank_log(1), "fine\nKeyError: 'colour'\n")
    logs.read_size("a", "all")
    assert logs.first_error("a", "all") == 2
    logs.read_size("a", "1")
    assert logs.first_error("a", "1") == 1
    assert logs.first_error("a", "0") is None


def test_a_log_that_begins_again_is_another_one_for_all(
    folder: JobFolder, logs: LogService
) -> None:
    write(folder.rank_log(0), "one\ntwo\n")
    old_size = logs.read_size("a", "all")
    folder.rank_log(0).write_text("1\n")
    new_size = logs.read_size("a", "all")
    assert new_size.generation != old_size.generation
    assert logs.lines("a", "all", 0, 9).lines == ("1",)


def test_a_sentence_says_that_a_log_cannot_be_read(folder: JobFolder, logs: LogService) -> None:
    folder.rank_log(0).mkdir()
    (folder.rank_log(0) / "file").write_text("one\n")
    with pytest.raises(BackendError, match=r"The log of rank 0 cannot be read: .*\.$"):
        logs.read_size("a", "0")


def test_visible_lines_do_not_wait_for_a_search(
    folder: JobFolder, logs: LogService, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder.rank_log(0), "one\n")
    logs.read_size("a", "0")
    searching, done = threading.Event(), threading.Event()

    class Slow:
        is_cancelled = False

        def step(self, *_: object) -> None:
            searching.set()
            assert done.wait(LIMIT_S)

    search = threading.Thread(target=logs.find, args=("a", "0", "x", 0, Slow()))
    search.start()
    assert searching.wait(LIMIT_S)
    assert logs.lines("a", "0", 0, 1).lines == ("one",)
    done.set()
    search.join(LIMIT_S)
    assert not search.is_alive()


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
