"""The exported history: every row is there whatever the metrics are called, or its loss is said."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from backend.records.jobs.history import Block, encode
from backend.training.tools.history_table import blocks, rows, write_csv

NAMES = (
    "recall (IoU = 0.5)",
    "IoU [0.5, 0.95] = x",
    "a] b",
    'with "quotes" and \\',
    "two\nlines\r\n# end\n",
    "\u2028 and \x85 and \x0b end lines elsewhere",
    "mAP@0.5, 日本 😀",
    "metrics.x",
    "",
    "=HYPERLINK(1)",
    "+1",
    "@x",
    "step",
    "epoch",
    "user/step",
)


def block(first: int, metrics: dict[str, list[float]]) -> bytes:
    return encode(Block("TRAINING", 1, 1, 1, first, "2026-11-21T07:30:00Z", metrics))


def table(path: Path) -> tuple[list[list[str]], int]:
    block_rows, damaged_count = rows(blocks(path))
    text = io.StringIO(newline="")
    write_csv(block_rows, text)
    return list(csv.reader(io.StringIO(text.getvalue(), newline=""))), damaged_count


def test_any_name_of_a_metric_is_a_column_of_its_own_and_none_a_formula(tmp_path: Path) -> None:
    path = tmp_path / "history.toml"
    path.write_bytes(block(1, {name: [float(n), n + 0.5] for n, name in enumerate(NAMES)}))
    (head, *lines), damaged_count = table(path)
    assert damaged_count == 0
    assert head[:2] == ["step", "epoch"]
    assert len(set(head)) == len(head) == len(NAMES) + 2
    assert head[2 : 2 + len(NAMES) - 6] == list(NAMES[:-6])
    assert head[-6:-3] == ["'=HYPERLINK(1)", "'+1", "'@x"]
    assert lines[0] == ["1", "1", *(str(n) for n in range(len(NAMES)))]
    assert lines[1] == ["2", "1", *(str(n + 0.5) for n in range(len(NAMES)))]


def test_whole_numbers_have_all_their_digits(tmp_path: Path) -> None:
    path = tmp_path / "history.toml"
    path.write_bytes(block(1, {"tokens": [67128463.0, 123456789012.0]}))
    (_, *lines), _ = table(path)
    assert [line[2] for line in lines] == ["67128463", "123456789012"]


def test_damaged_blocks_cost_their_own_steps_and_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "history.toml"
    intact_blocks = [block(first, {"loss": [float(first)]}) for first in range(1, 6)]
    intact_blocks[1] = intact_blocks[1].replace(b"[2.0]", b"[2.0x]")
    intact_blocks[2] = intact_blocks[2][:-20]
    path.write_bytes(b"".join(intact_blocks) + b"[[entry]]\nstill being writ")
    (_, *lines), damaged_count = table(path)
    assert [line[0] for line in lines] == ["1", "4", "5"]
    assert damaged_count == 2


def test_a_resumed_run_replaces_its_repeated_steps(tmp_path: Path) -> None:
    path = tmp_path / "history.toml"
    path.write_bytes(block(1, {"loss": [1.0, 2.0, 3.0]}) + block(2, {"loss": [9.0]}))
    (_, *lines), _ = table(path)
    assert lines == [["1", "1", "1"], ["2", "1", "9"]]
