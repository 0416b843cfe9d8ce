"""Rows of the ledger: however they are made, they add up to what the nodes were used."""

from __future__ import annotations

import csv
import itertools
import time
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.records.base.number_format import GAP, use_time
from backend.records.base.timestamps import stamp
from backend.records.jobs.ledger import (
    LedgerKey,
    LedgerRow,
    UsageTable,
    csv_text,
    ledger_rows,
    period_of,
    project_of,
)
from backend.records.jobs.usage import NodeUsage, RunUsage

DAY_S = 86_400.0
GROUPINGS = [keys for n in range(6) for keys in itertools.combinations(LedgerKey, n)]
SUMS = ("node_s", "gpu_s", "energy_j", "energy_gpu_s", "idle_s", "sampled_gpu_s")

_share = st.none() | st.floats(0, 1)
_node = st.builds(
    NodeUsage,
    st.sampled_from(["gpu01", "gpu02", "gpu03"]),
    st.integers(0, 8),
    st.none() | st.floats(0, 1e9),
    _share,
)
_run = st.builds(
    RunUsage,
    job_id=st.sampled_from(["a", "b", "c"]),
    run=st.integers(1, 99),
    user=st.sampled_from(["", "anna", "ben"]),
    tags=st.sampled_from([(), ("sweep:lr",), ("sweep:lr", "vision"), ("vision", "old")]),
    ended_at=st.integers(1_764_000_000_000, 1_802_000_000_000).map(
        lambda ms: stamp(datetime.fromtimestamp(ms / 1000, UTC))
    ),
    took_s=st.sampled_from([0.0, 1.0, DAY_S]) | st.floats(0, 90 * DAY_S),
    waited_s=st.none() | st.floats(0, DAY_S),
    nodes=st.lists(_node, min_size=1, max_size=3, unique_by=lambda n: n.node).map(tuple),
)
_runs = st.lists(_run, max_size=6, unique_by=lambda run: (run.job_id, run.run))


@pytest.mark.parametrize(
    ("key", "keys", "text"),
    [
        (LedgerKey.NODE, ("vm",), "this computer"),
        (LedgerKey.NODE, ("2026-11", "vm"), "this computer"),
        (LedgerKey.NODE, ("gpu01",), "gpu01"),
        (LedgerKey.USER, ("vm",), "vm"),
        (LedgerKey.NODE, (), "Total"),
    ],
)
def test_this_computer_has_one_name_for_people(key: LedgerKey, keys: tuple[str, ...], text: str):
    assert UsageTable(key, host="vm").text(LedgerRow(keys)) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.4, "400 ms"),
        (42, "42 s"),
        (150, "2 min 30 s"),
        (3600, "1 h"),
        (11_700, "3.25 h"),
        (355_000, "98.6 h"),
        (4_582_800, "1\u202f273 h"),
    ],
)
def test_the_use_of_a_short_run_is_not_zero_hours(seconds: float, text: str):
    assert use_time(seconds).replace(GAP, " ") == text


def local_s(year: int, month: int, day: int, hour: int = 0) -> float:
    return time.mktime((year, month, day, hour, 0, 0, 0, 0, -1))


def node_sums(runs: list[RunUsage]) -> dict[str, list[float]]:
    """What each node was used, without any row."""
    sums: dict[str, list[float]] = {}
    for run in runs:
        for node in run.nodes:
            gpu_s = run.took_s * node.gpus
            known_s = gpu_s if node.energy_j is not None else 0.0
            idle = node.idle_share
            values = (
                *(run.took_s, gpu_s, node.energy_j or 0.0, known_s),
                *((idle or 0.0) * gpu_s, gpu_s if idle is not None else 0.0),
            )
            previous = sums.setdefault(node.node, [0.0] * len(SUMS))
            sums[node.node] = [a + b for a, b in zip(previous, values, strict=True)]
    return sums


def sums_of(rows: tuple[LedgerRow, ...]) -> list[float]:
    return [sum(getattr(row, name) for row in rows) for name in SUMS]


def total(sums: dict[str, list[float]]) -> list[float]:
    return [sum(column) for column in zip(*sums.values(), strict=True)] or [0.0] * len(SUMS)


@given(_runs)
def test_rows_add_up_to_the_totals_of_the_nodes(runs: list[RunUsage]) -> None:
    sums = node_sums(runs)
    for keys in GROUPINGS:
        rows = ledger_rows(runs, keys)
        assert sums_of(rows) == pytest.approx(total(sums), abs=1e-3)
        if LedgerKey.NODE in keys:
            index = keys.index(LedgerKey.NODE)
            for node, expected_sums in sums.items():
                node_rows = tuple(row for row in rows if row.keys[index] == node)
                assert sums_of(node_rows) == pytest.approx(expected_sums, abs=1e-3)


@given(_runs, st.lists(st.floats(1.764e9, 1.802e9), max_size=3).map(sorted))
def test_periods_that_follow_each_other_add_up_and_no_wait_counts_twice(
    runs: list[RunUsage], cuts_s: list[float]
) -> None:
    bounds = [float("-inf"), *cuts_s, float("inf")]
    rows = [
        row
        for start_s, end_s in itertools.pairwise(bounds)
        for row in ledger_rows(runs, (), start_s, end_s)
    ]
    assert sums_of(tuple(rows)) == pytest.approx(total(node_sums(runs)), abs=1e-3)
    waits_s = [wait_s for row in rows for wait_s in row.waits_s.values()]
    expected_waits_s = [run.waited_s for run in runs if run.waited_s is not None]
    assert sorted(waits_s) == sorted(expected_waits_s)
    month_rows = ledger_rows(runs, (LedgerKey.MONTH,))
    assert sum(len(row.waits_s) for row in month_rows) == len(expected_waits_s)


def test_a_run_over_new_year_is_shared_by_two_months() -> None:
    start_s = local_s(2026, 12, 31, 18)
    run = RunUsage(
        *("a", 1, "digits", "anna", ()),
        ended_at=stamp(datetime.fromtimestamp(start_s + 12 * 3600, UTC)),
        took_s=12 * 3600.0,
        nodes=(NodeUsage("gpu01", 2, 7.2e6, 0.25), NodeUsage("gpu02", 0)),
    )
    rows = ledger_rows([run], (LedgerKey.MONTH, LedgerKey.NODE))
    assert [(row.keys, row.gpu_s / 3600, row.energy_kwh, row.idle_share) for row in rows] == [
        (("2026-12", "gpu01"), 12.0, 1.0, 0.25),
        (("2026-12", "gpu02"), 0.0, None, None),
        (("2027-01", "gpu01"), 12.0, 1.0, 0.25),
        (("2027-01", "gpu02"), 0.0, None, None),
    ]
    (row,) = ledger_rows([run], (), *period_of("2027"))
    assert (row.node_s, row.values()["runs"]) == (2 * 6 * 3600.0, 1)


@pytest.mark.parametrize(
    ("tags", "project"),
    [
        ((), "(no tag)"),
        (("sweep:lr",), "(no tag)"),
        (("sweep:lr", "vision"), "vision"),
        (("vision", "old"), "vision"),
    ],
)
def test_the_project_is_the_first_tag_of_the_user(tags: tuple[str, ...], project: str) -> None:
    assert project_of(tags) == project


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("2026-12-31", (2026, 12, 31), (2027, 1, 1)),
        ("2026-2-28", (2026, 2, 28), (2026, 3, 1)),
        ("2026-12", (2026, 12, 1), (2027, 1, 1)),
        ("2026", (2026, 1, 1), (2027, 1, 1)),
    ],
)
def test_a_period_is_a_day_a_month_or_a_year(
    text: str, start: tuple[int, int, int], end: tuple[int, int, int]
) -> None:
    assert period_of(text) == (local_s(*start), local_s(*end))


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2026-13", "2026-02-30", "26-11", "2026-11-30-1", "0001", "9999"]
)
def test_another_text_is_no_period(text: str) -> None:
    with pytest.raises(ValueError, match=r"month|day"):
        period_of(text)


def test_a_cell_of_the_spreadsheet_is_empty_where_nothing_is_known() -> None:
    run = RunUsage(
        "a", 1, "x", 'anna, "b"', (), "2026-11-30T10:00:00Z", 3600.0, None, (NodeUsage("gpu01", 2),)
    )
    keys = (LedgerKey.USER,)
    head, row = csv.reader(csv_text(ledger_rows([run], keys), keys).splitlines())
    assert dict(zip(head, row, strict=True)) == {
        "user": 'anna, "b"',
        "runs": "1",
        "node_hours": "1.0",
        "gpu_hours": "2.0",
        "energy_kwh": "",
        "energy_known_share": "0.0",
        "idle_share": "",
        "mean_wait_hours": "",
    }
