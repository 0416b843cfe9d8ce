"""Output of ranks on other nodes, as it reaches the head of the run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from backend.node.run import remote_logs
from backend.records.base.layout import JobFolder

RUN = 2
EARLIER = b"an earlier run\n"


@pytest.fixture
def head(tmp_path: Path) -> JobFolder:
    return _job(tmp_path / "head")


@pytest.fixture
def rank1_folder(tmp_path: Path) -> JobFolder:
    """Return the folder of the job on the node of rank 1."""
    return _job(tmp_path / "other")


def _job(root: Path) -> JobFolder:
    folder = JobFolder(root / "jobs" / "20261121-abcdef")
    folder.attempt(RUN).path.mkdir(parents=True)
    folder.logs.mkdir()
    for rank in (0, 1):
        folder.rank_log(rank).write_bytes(EARLIER)
        os.utime(folder.rank_log(rank), (1, 1))
    folder.launch.write_text("{}")
    return folder


def test_records_and_logs_arrive_as_they_were_written(
    head: JobFolder, rank1_folder: JobFolder
) -> None:
    odd_bytes = b"\xff\x00 caf\xc3\xa9\r\n"
    with rank1_folder.rank_log(1).open("ab") as log:
        log.write(odd_bytes)
    rank1_folder.attempt(RUN).rank_exit(1).write_text('{"rank": 1}')
    rank1_folder.attempt(RUN).rank_error(1).write_text('{"sentence": "no"}')
    printed = remote_logs.pack_output(rank1_folder, RUN) + "ended 1 left processes"
    printed_text = remote_logs.unpack_output(printed.encode(), head, RUN, [1])
    assert printed_text == "ended 1 left processes"
    assert head.rank_log(1).read_bytes() == EARLIER + odd_bytes
    assert head.attempt(RUN).rank_exit(1).read_text() == '{"rank": 1}'
    assert head.attempt(RUN).rank_error(1).read_text() == '{"sentence": "no"}'
    remote_logs.unpack_output(printed.encode(), head, RUN, [1])
    assert head.rank_log(1).read_bytes() == EARLIER + odd_bytes, "said twice, it is kept once"


def test_reports_of_a_node_about_foreign_ranks_are_dropped(
    head: JobFolder, rank1_folder: JobFolder
) -> None:
    for rank in (0, 1):
        rank1_folder.attempt(RUN).rank_exit(rank).write_text("{}")
        with rank1_folder.rank_log(rank).open("ab") as log:
            log.write(b"false\n")
    remote_logs.unpack_output(remote_logs.pack_output(rank1_folder, RUN).encode(), head, RUN, [1])
    assert not head.attempt(RUN).rank_exit(0).exists()
    assert head.rank_log(0).read_bytes() == EARLIER


def test_only_the_end_of_an_endless_log_is_copied(
    head: JobFolder, rank1_folder: JobFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_logs, "_LOG_BYTES", 10)
    with rank1_folder.rank_log(1).open("ab") as log:
        log.write(b"x" * 90 + b"the end\n")
    remote_logs.unpack_output(remote_logs.pack_output(rank1_folder, RUN).encode(), head, RUN, [1])
    text = head.rank_log(1).read_text()
    assert text.startswith(EARLIER.decode())
    assert "88 bytes of this run stayed on the node" in text
    assert text.endswith("xxthe end\n")


@pytest.mark.parametrize("line", ["ringmaster-words {", "ringmaster-words []", "a warning"])
def test_an_unreadable_line_changes_no_log(head: JobFolder, line: str) -> None:
    remote_logs.unpack_output(line.encode(), head, RUN, [1])
    assert head.rank_log(1).read_bytes() == EARLIER
