"""A number is read as people write it, in a column of a table or alone."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.records.base.cells import (
    delimiter_of,
    format_of,
    is_header,
    number_in,
    rows_of,
)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("12,500", 12_500),
        ("-1,234,567.5", -1_234_567.5),
        ("1_000", 1000),
        ("1.200,50", 1200.5),
        ("1.234.567", 1_234_567),
        ("12 500", 12_500),
        ("1\u202f234,5", 1234.5),
        ("1’234.5", 1234.5),
        ("0,25", 0.25),
        ("12,5", 12.5),
        ("0,125", 0.125),
        ("1,2345", 1.2345),
        ("-1.5e-3", -0.0015),
        ("−0.5", -0.5),
        ("1e−3", 0.001),
        ("5%", 5),
        ("93,5 %", 93.5),
        ("0.5 a.u.", 0.5),
        ("9.81 m/s²", 9.81),
        ("0.5 ± 0.1", 0.5),
        ("1.0e+00±0.01 %", 1),
        ("0.55*", 0.55),
        ("1.5k", 1500),
        ("3M", 3_000_000),
        ("3 K", 3),
        ("-inf", -math.inf),
    ],
)
def test_a_number_alone_is_read_by_its_signs(text: str, number: float) -> None:
    assert number_in(text) == number


@pytest.mark.parametrize(
    "text", ["", "x", "info", "1,2,3", "1,234,56", "12:30", "1.2.3", "4x4", "1-2"]
)
def test_a_list_or_another_text_is_no_number(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a number"):
        number_in(text)


@pytest.mark.parametrize(
    ("text", "decimal", "number"),
    [("1,000", ".", 1000), ("1,000", ",", 1), ("1.000", ".", 1), ("1.000", ",", 1000)],
)
def test_the_decimal_sign_of_other_numbers_decides(text: str, decimal: str, number: float) -> None:
    assert number_in(text, decimal) == number


@given(
    value=st.integers(-(10**12), 10**12).map(lambda thousandths: thousandths / 1000),
    signs=st.sampled_from([",.", ".,", " ,", "'.", "_.", "\u202f,", "\u00a0."]),
    minus=st.sampled_from("-−"),
    unit=st.sampled_from(["", "%", " %", " kg", "µm", " m/s²", " a.u."]),
)
def test_each_way_to_write_a_number_is_read_back_alone_and_in_a_column(
    value: float, signs: str, minus: str, unit: str
) -> None:
    thousands, decimal = signs
    digits = f"{value:,.3f}".translate(str.maketrans(",.-", f"{thousands}{decimal}{minus}"))
    text = f"{digits}{unit}"
    assert number_in(text, decimal) == value
    assert format_of([text], decimal).parse(text) == value


@pytest.mark.parametrize(
    ("table", "has_header"),
    [
        ("a,b|1,2|3,4", True),
        ("1stFlrSF,2ndFlrSF,price|856,854,208500|1262,0,181500", True),
        ("id,3D,kind|1,2.5,a|2,3,b", True),
        ("mass,kind|5 kg,a|7 kg,b", True),
        ("name,kind|a,x|b,y", True),
        ("5 kg,a|7 kg,b", False),
        ("1,2|3,4", False),
        ("1,a|2,a|3,b", False),
        ("ERR,2,3|1,2,3|4,5,6", False),
        ("NA,2,3|1,2,3|4,5,6", False),
        ("a,x|b,x|a,y", False),
    ],
)
def test_a_header_is_no_number_where_numbers_are_below(table: str, has_header: bool) -> None:
    assert is_header([row.split(",") for row in table.split("|")]) is has_header


@pytest.mark.parametrize(
    ("lines", "cells"),
    [
        (['18.0   8   307.0  12.0   70  1\t"chevrolet chevelle"'] * 3,
         ["18.0", "8", "307.0", "12.0", "70", "1", "chevrolet chevelle"]),
        (["1  2\t?", "3  ?\t4"], ["1", "2", "?"]),
        ([" 1.5 \t 2 3 \t", "1 2 3  ", "4\t5\t6"], ["1.5", "2", "3"]),
        (["1\t2 3", "1 2 3", "1 2\t3"], ["1", "2", "3"]),
        (["48.1 11.5\t3"] * 3, ["48.1 11.5", "3"]),
        (["New  York\t3"] * 3, ["New  York", "3"]),
        (["2026-01-01  10:00\t3"] * 3, ["2026-01-01  10:00", "3"]),
        (["0,70 80  82,Training"] * 3, ["0", "70 80  82", "Training"]),
        (["a,b,c", "1,2,3", "4,5,6", "Total,9", "written in May"], ["a", "b", "c"]),
    ],
)  # fmt: skip
def test_a_delimiter_divides_all_rows_and_no_cell_of_numbers_stays(
    lines: list[str], cells: list[str]
) -> None:
    text = "\n".join(lines)
    assert next(rows_of(text, delimiter_of(text)))[1] == cells
