"""Blocks of ``history.toml``: valid TOML whatever they hold, and float32 exact."""

from __future__ import annotations

import math
import struct
import tomllib
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from backend.records.jobs.history import BLOCK_END, BLOCK_START, Block, encode, epoch_values

TEXT = st.text(st.characters(codec="utf-8"))
FLOATS = st.floats(width=32) | st.integers(-(10**6), 10**6).map(float)


def is_equal(a: float, b: float) -> bool:
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    if math.isinf(a) or math.isinf(b):
        return a == b
    return struct.pack("f", a) == struct.pack("f", b)


def block(metrics: dict[str, list[float]], **fields: Any) -> Block:
    values: dict[str, Any] = {
        "state": "TRAINING",
        "run": 1,
        "epoch": 2,
        "epoch_step": 45,
        "first_step": 98,
        "timestamp": "2026-11-21T07:30:00.123456Z",
        **fields,
    }
    return Block(metrics=metrics, **values)


@given(TEXT, st.dictionaries(TEXT, st.lists(FLOATS, min_size=3, max_size=3), max_size=4))
def test_any_text_and_any_numbers_are_valid_toml_and_come_back(
    message: str, metrics: dict[str, list[float]]
) -> None:
    content = encode(block(metrics, message=message))
    (entry,) = tomllib.loads(content.decode())["entry"]
    assert entry["message"] == message
    read = entry.get("metrics", {})
    assert read.keys() == metrics.keys()
    for name, values in metrics.items():
        assert all(isinstance(value, float) for value in read[name])
        assert all(map(is_equal, read[name], values))


def test_many_blocks_are_one_valid_file() -> None:
    content = encode(block({"loss": [0.5, 1.0]})) + encode(block({"loss": [0.25]}, first_step=100))
    entries = tomllib.loads(content.decode())["entry"]
    assert [entry["totalIter"] for entry in entries] == [99, 100]


def test_a_block_has_one_start_mark_and_one_end_mark() -> None:
    content = encode(block({'a "quoted"\n[[entry]]\n# end\n': [1.0]}, message="\n# end\n"))
    assert content.startswith(BLOCK_START)
    assert content.endswith(b"\n" + BLOCK_END)
    assert content.count(BLOCK_START) == 1
    assert content.count(b"\n" + BLOCK_END) == 1


def test_the_last_finite_value_of_each_epoch_is_read_and_repeated_steps_count_once(
    tmp_path: Path,
) -> None:
    path = tmp_path / "history.toml"
    assert epoch_values(path, "a") == ({}, frozenset(), 0)
    nan, inf = math.nan, math.inf
    blocks = [
        block({"a": [1.0, nan], "b": [0.0, 0.0]}, epoch=1, first_step=1),
        block({"a": [nan, 2.0]}, epoch=2, first_step=3),
        block({"a": [3.0, inf]}, epoch=3, first_step=5),
        # A run that resumed makes the steps from 3 on again.
        block({"a": [nan, 4.0]}, epoch=2, first_step=3, run=2),
    ]
    torn = encode(block({"a": [9.0]}, epoch=3, first_step=5, run=2))[:-3]
    path.write_bytes(b"".join(map(encode, blocks)) + torn)
    assert epoch_values(path, "a") == ({1: 1.0, 2: 4.0}, frozenset("ab"), 2)
    assert epoch_values(path, "c").values == {}


def test_a_script_without_epochs_has_steps(tmp_path: Path) -> None:
    path = tmp_path / "history.toml"
    blocks = [block({'m "x"': [0.5]}, epoch=0, first_step=step) for step in (10, 20)]
    path.write_bytes(b"".join(map(encode, blocks)))
    assert epoch_values(path, 'm "x"') == ({10: 0.5, 20: 0.5}, frozenset(['m "x"']), 0)
