"""A history holds only complete blocks, and all of them, on any disk."""

from __future__ import annotations

import errno
import os
import tomllib
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.records.jobs.history import Block, encode
from backend.training import curve_files
from backend.training.curve_files import HistoryFile, open_history


def block(first: int) -> Block:
    return Block("TRAINING", 1, 1, first, first, "2026-11-21T00:00:00Z", {"loss": [0.5]})


def steps_in(path: Path) -> list[int]:
    return [entry["first"] for entry in tomllib.loads(path.read_text()).get("entry", ())]


class LostFile:
    """A file whose server is away."""

    def __init__(self, file: Any) -> None:
        self.close = file.close

    def __getattr__(self, name: str) -> Any:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))


@given(st.binary(max_size=400))
def test_a_torn_tail_is_cut_and_whole_blocks_stay(tmp_path_factory: Any, tail: bytes) -> None:
    path = tmp_path_factory.mktemp("history") / "history.toml"
    complete_blocks = b"".join(
        encode(Block("TRAINING", 1, 1, n, n, "2026-11-21T00:00:00Z", {"loss": [0.5]}))
        for n in range(1, 4)
    )
    torn_block = tail.replace(b"# end", b"")
    path.write_bytes(complete_blocks + torn_block)
    file, end = open_history(path)
    file.close()
    assert path.read_bytes() == complete_blocks
    assert end == len(complete_blocks)


def test_a_torn_first_block_and_a_long_torn_block_are_cut(tmp_path: Path) -> None:
    path = tmp_path / "history.toml"
    block = encode(Block("TRAINING", 1, 1, 1, 1, "2026-11-21T00:00:00Z", {"loss": [0.5]}))
    for complete_blocks, torn_block in (
        (b"", block[:-3]),
        (block, b"[[entry]]\n" + b"x" * 3_000_000),
    ):
        path.write_bytes(complete_blocks + torn_block)
        open_history(path)[0].close()
        assert path.read_bytes() == complete_blocks


def test_a_file_that_goes_away_between_two_flushes_has_each_block_once(tmp_path: Path) -> None:
    path = tmp_path / "history.toml"
    history = HistoryFile(path)
    history.append([block(1)])
    history.append([block(2)])
    assert not history.is_flushed
    assert steps_in(path) == [1, 2]
    history._file = cast("Any", LostFile(history._file))
    with pytest.raises(OSError, match="Stale"):
        history.append([block(3)])
    history.append([block(4)], flush=True)
    assert history.is_flushed
    assert steps_in(path) == [1, 2, 3, 4]
    history.close()


def test_a_file_that_comes_back_shorter_gets_all_that_was_not_flushed(tmp_path: Path) -> None:
    path = tmp_path / "history.toml"
    history = HistoryFile(path)
    history.append([block(1)])
    flushed = path.read_bytes()
    history.append([block(2)])
    # A server that fell over has what was flushed, and of the rest nothing.
    path.write_bytes(flushed)
    history._file = cast("Any", LostFile(history._file))
    with pytest.raises(OSError, match="Stale"):
        history.append([], flush=True)
    history.append([])
    assert steps_in(path) == [1, 2]
    history.close()


def test_each_write_is_seen_at_once_and_few_are_flushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "history.toml"
    flushes: list[int] = []
    monkeypatch.setattr(os, "fsync", flushes.append)
    now = [0.0]
    monkeypatch.setattr(curve_files.time, "monotonic", lambda: now[0])
    history = HistoryFile(path)
    for number in range(1, 9):
        history.append([block(number)])
        assert steps_in(path) == list(range(1, number + 1))
        now[0] += 0.5
    assert len(flushes) == 2
    history.append([])
    assert len(flushes) == 3
    assert history.is_flushed
    history.append([], flush=True)
    assert len(flushes) == 3
    history.close()
