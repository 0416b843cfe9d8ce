"""What stands in history.toml comes back, whole blocks only, and damage costs only itself."""

from __future__ import annotations

import math
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.datastore.jobs.history_cache import WORTH_KEEPING_BYTES, HistoryReader, join_updates
from backend.datastore.jobs.history_reader import read_history
from backend.records.jobs.history import (
    REPLACES,
    REPLACES_RUN,
    Block,
    HistoryUpdate,
    RunStart,
    encode,
)

STAMP = "2026-11-21T07:00:01.000000Z"


def block(
    first: int,
    losses: list[float],
    *,
    run: int = 1,
    epoch: int = 1,
    second: int = 0,
    **metric_values: list[float],
) -> bytes:
    metrics: dict[str, list[float]] = {"loss": losses, **metric_values}
    stamp = f"2026-11-21T07:{second // 60:02d}:{second % 60:02d}.000000Z"
    return encode(Block("TRAINING", run, epoch, len(losses), first, stamp, metrics))


def test_every_value_comes_back_with_its_step_and_epoch(tmp_path: Path) -> None:
    path = tmp_path / "history.toml"
    path.write_bytes(block(1, [3.0, 2.5]) + block(3, [2.0, 1.5], epoch=2))
    update, _ = read_history(path)
    assert list(update.steps) == [1, 2, 3, 4]
    assert list(update.epochs) == [1, 1, 2, 2]
    assert list(update.metrics["loss"]) == [3.0, 2.5, 2.0, 1.5]
    assert update.drop_from == 0
    assert update.run_starts == (RunStart(1, 1),)


def test_a_metric_that_a_block_does_not_have_is_nan_there(tmp_path: Path) -> None:
    path = tmp_path / "history.toml"
    path.write_bytes(block(1, [3.0, 2.5]) + block(3, [2.0], accuracy=[0.75]) + block(4, [1.0]))
    accuracy = read_history(path)[0].metrics["accuracy"]
    assert [math.isnan(value) for value in accuracy] == [True, True, False, True]
    assert accuracy[2] == 0.75


@pytest.mark.parametrize("in_one_write", [True, False])
@pytest.mark.parametrize(
    ("first", "message", "steps", "starts"),
    [
        (3, REPLACES, [1, 2, 3], (RunStart(1, 1), RunStart(2, 2))),
        (1, REPLACES_RUN, [1, 2, 3], (RunStart(2, 1),)),
        (2, REPLACES_RUN, [1, 2, 3], (RunStart(1, 1), RunStart(2, 2))),
    ],
)
def test_a_block_that_says_so_replaces_the_steps_from_its_first_on(
    tmp_path: Path,
    in_one_write: bool,
    first: int,
    message: str,
    steps: list[int],
    starts: tuple[RunStart, ...],
) -> None:
    path = tmp_path / "history.toml"
    values = [float(step) for step in range(first, 4)]
    old = block(1, [9.0]) + block(2, [9.0, 9.0], run=2)
    repeated_block = encode(Block("TRAINING", 2, 1, 1, first, STAMP, {"loss": values}, message))
    path.write_bytes(old + repeated_block if in_one_write else old)
    update, cursor = read_history(path)
    if not in_one_write:
        path.write_bytes(old + repeated_block)
        update = join_updates(update, read_history(path, cursor)[0])
    assert not update.problems
    assert list(update.steps) == steps
    assert list(update.metrics["loss"])[first - 1 :] == values
    assert update.run_starts == starts


@pytest.mark.parametrize("in_one_write", [True, False])
def test_a_metric_of_which_every_step_was_replaced_is_gone(
    tmp_path: Path, in_one_write: bool
) -> None:
    path = tmp_path / "history.toml"
    old = encode(Block("TRAINING", 1, 1, 2, 1, STAMP, {"loss": [2.0, 1.0], "bad": [math.nan] * 2}))
    names = {"fold 1/loss": [2.0, 1.0], "bad": [math.nan] * 2}
    renamed = encode(Block("TRAINING", 1, 1, 2, 1, STAMP, names, REPLACES))
    path.write_bytes(old + renamed if in_one_write else old)
    update, cursor = read_history(path)
    if not in_one_write:
        path.write_bytes(old + renamed)
        update = join_updates(update, read_history(path, cursor)[0])
    assert {*update.metrics} == {*names}


def test_a_missing_file_is_an_empty_history(tmp_path: Path) -> None:
    update, cursor = read_history(tmp_path / "history.toml")
    assert len(update.steps) == 0
    assert not update.problems
    (tmp_path / "history.toml").write_bytes(block(1, [1.0]))
    assert list(read_history(tmp_path / "history.toml", cursor)[0].steps) == [1]


def test_f36_half_a_last_block_waits_for_its_other_half(tmp_path: Path) -> None:
    path = tmp_path / "history.toml"
    second = block(3, [2.0, 1.5])
    for cut in range(len(second)):
        path.write_bytes(block(1, [3.0, 2.5]) + second[:cut])
        update, cursor = read_history(path)
        assert list(update.steps) == [1, 2]
        assert not update.problems
        path.write_bytes(block(1, [3.0, 2.5]) + second)
        assert list(read_history(path, cursor)[0].steps) == [3, 4]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda b: b.replace(b"[[entry]]", b"[[entr\x00]]"),
        lambda b: b.replace(b"# end", b"# enD"),
        lambda b: b.replace(b'"loss" = [', b'"loss" = '),
        lambda b: b.replace(b"2.0,1.5", b"2.0;1.5"),
        lambda b: b.replace(b"2.0,1.5", b"2.0,1.x"),
        lambda b: b.replace(b"2.0,1.5", b"2.0,,,1"),
        lambda b: b.replace(b"first = 3", b"first = 1"),
        lambda b: b.replace(b"totalIter = 4", b"totalIter = 9"),
        lambda b: b.replace(b"run = 1", b"run = x"),
        lambda b: b.replace(b"2026-11", b"2026-33"),
        lambda b: b.replace(b'"loss"', b'"lo\\s"'),
        lambda b: block(2, [2.0, 1.5]),
        lambda b: b"\x00" * len(b),
        lambda b: b[:40],
    ],
)
def test_f36_a_damaged_block_in_the_middle_costs_only_itself_and_is_reported(
    tmp_path: Path, spoil: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "history.toml"
    damaged_block = block(3, [2.0, 1.5])
    spoiled = spoil(damaged_block)
    assert spoiled != damaged_block
    path.write_bytes(block(1, [3.0, 2.5]) + spoiled + block(5, [1.0, 0.5]))
    update, _ = read_history(path)
    assert list(update.steps) == [1, 2, 5, 6]
    assert list(update.metrics["loss"]) == [3.0, 2.5, 1.0, 0.5]
    assert len(update.problems) == 1
    assert f"byte {len(block(1, [3.0, 2.5]))};" in update.problems[0]


def test_a_run_resumed_from_an_older_checkpoint_replaces_later_steps(
    tmp_path: Path,
) -> None:
    path = tmp_path / "history.toml"
    path.write_bytes(block(1, [9.0, 8.0, 7.0]) + block(4, [6.0, 5.0]))
    first_update, cursor = read_history(path)
    with path.open("ab") as file:
        file.write(block(3, [6.5, 5.5], run=2))
    second_update, _ = read_history(path, cursor)
    assert second_update.drop_from == 3
    assert second_update.run_starts == (RunStart(2, 3),)
    full_update, _ = read_history(path)
    assert list(full_update.steps) == [1, 2, 3, 4]
    assert list(full_update.metrics["loss"]) == [9.0, 8.0, 6.5, 5.5]
    joined_update = join_updates(first_update, second_update)
    assert list(joined_update.steps) == list(full_update.steps)
    assert list(joined_update.metrics["loss"]) == list(full_update.metrics["loss"])
    assert joined_update.run_starts == full_update.run_starts


def test_a_history_that_begins_again_is_read_from_its_start(tmp_path: Path) -> None:
    path = tmp_path / "history.toml"
    path.write_bytes(block(1, [9.0, 8.0, 7.0]))
    _, cursor = read_history(path)
    path.unlink()
    empty_update, cursor_of_none = read_history(path, cursor)
    assert empty_update.drop_from == 0
    path.write_bytes(block(1, [5.0], second=30) + block(2, [4.0]) + block(3, [3.0]))
    for known_cursor in (cursor, cursor_of_none):
        update, _ = read_history(path, known_cursor)
        assert update.drop_from == 0
        assert list(update.metrics["loss"]) == [5.0, 4.0, 3.0]


def test_seconds_lie_evenly_within_a_block_and_a_pause_between_runs_is_no_training(
    tmp_path: Path,
) -> None:
    path = tmp_path / "history.toml"
    path.write_bytes(
        block(1, [1.0, 1.0], second=0)
        + block(3, [1.0] * 4, second=8)
        + block(7, [1.0, 1.0], run=2, second=100)
        + block(9, [1.0, 1.0], run=2, second=104)
    )
    assert list(read_history(path)[0].seconds) == [0, 0, 2, 4, 6, 8, 100, 100, 102, 104]


VALUES = st.floats(width=32, allow_nan=True, allow_infinity=True)


@settings(max_examples=150)
@given(
    st.lists(
        st.dictionaries(
            st.text(st.characters(codec="utf-8"), max_size=12),
            st.lists(VALUES, min_size=3, max_size=3),
            min_size=1,
            max_size=3,
        ),
        min_size=1,
        max_size=5,
    ),
    st.text(st.characters(codec="utf-8"), max_size=30),
)
def test_the_reader_agrees_with_a_toml_parser_on_all_that_can_be_written(
    tables: list[dict[str, list[float]]], message: str
) -> None:
    content = b"".join(
        encode(Block("TRAINING", 1, 1, 3, 1 + 3 * number, "2026-11-21T07:30:00Z", metrics, message))
        for number, metrics in enumerate(tables)
    )
    entries = tomllib.loads(content.decode())["entry"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "history.toml"
        path.write_bytes(content)
        update, cursor = read_history(path)
    assert not update.problems
    assert cursor.offset == len(content)
    for number, entry in enumerate(entries):
        for name, values in entry["metrics"].items():
            stored_values = np.asarray(update.metrics[name])[3 * number : 3 * number + 3]
            assert np.array_equal(stored_values, np.array(values, float), equal_nan=True)
            assert np.array_equal(
                stored_values.astype(np.float32),
                np.array(tables[number][name], np.float32),
                equal_nan=True,
            )


def long_history(path: Path, later: float = 0.123456789) -> None:
    with path.open("wb") as file:
        for number in range(1200):
            values = [later if number else 0.123456789] * 100
            file.write(block(1 + number * 100, values, second=number))
    assert path.stat().st_size > WORTH_KEEPING_BYTES


def is_equal(a: HistoryUpdate, b: HistoryUpdate) -> bool:
    return (
        list(a.steps) == list(b.steps)
        and list(a.epochs) == list(b.epochs)
        and np.allclose(a.seconds, b.seconds)
        and a.metrics.keys() == b.metrics.keys()
        and all(np.array_equal(a.metrics[n], b.metrics[n], equal_nan=True) for n in a.metrics)
        and (a.run_starts, a.drop_from, a.problems) == (b.run_starts, b.drop_from, b.problems)
    )


def test_a_cached_history_is_equal_and_newer_steps_are_added(
    tmp_path: Path,
) -> None:
    path, reader = tmp_path / "history.toml", HistoryReader(tmp_path / "cache")
    long_history(path)
    first, cursor = reader.read(path)
    assert len(list((tmp_path / "cache").iterdir())) == 1
    repeated_update, cursor_again = reader.read(path)
    assert is_equal(first, repeated_update)
    assert cursor == cursor_again
    with path.open("ab") as file:
        file.write(block(119_991, [1.0] * 20, run=2, accuracy=[0.5] * 20))
    grown, _ = reader.read(path)
    assert is_equal(grown, read_history(path)[0])
    assert list(reader.read(path, cursor)[0].steps) == list(range(119_991, 120_011))


def test_a_cache_of_another_file_or_a_spoiled_one_is_not_believed(tmp_path: Path) -> None:
    path, reader = tmp_path / "history.toml", HistoryReader(tmp_path / "cache")
    long_history(path)
    reader.read(path)
    (cache,) = (tmp_path / "cache").iterdir()
    path.write_bytes(block(1, [1.0, 2.0]))
    assert list(reader.read(path)[0].steps) == [1, 2]
    long_history(path)
    full_update = read_history(path)[0]
    long_history(path, later=0.987654321)
    assert is_equal(reader.read(path)[0], read_history(path)[0])
    long_history(path)
    for spoiled in (b"", b"{}\n", cache.read_bytes()[:5000], b"\x00" * 100):
        cache.write_bytes(spoiled)
        assert is_equal(reader.read(path)[0], full_update)
