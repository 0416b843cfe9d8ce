"""Records that cross from a process which ran a stranger's code: nothing in them is believed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.records.library import preview
from backend.records.library.preview import DataSize, ModelCheck, Preview

finite = st.floats(allow_nan=False, allow_infinity=False)
words = st.text(st.characters(categories=("L", "N", "P", "S")), max_size=20)
anything = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)

PARTS = st.builds(
    preview.SamplePart,
    path=words,
    shape=st.none() | st.lists(st.integers(0, 9), max_size=3).map(tuple),
    dtype=words,
    look=st.sampled_from(["image", "wave", "table", "values", "text"]),
    values=st.lists(st.none() | finite, max_size=3).map(tuple),
    rows=st.lists(st.lists(finite, max_size=2).map(tuple), max_size=2).map(tuple),
    text=words,
)
PREVIEWS = st.builds(
    Preview,
    split=words,
    class_name=words,
    count=st.integers(0, 1 << 70),
    examined=st.integers(0, 99),
    samples=st.lists(
        st.builds(
            preview.SamplePreview,
            st.integers(0, 9),
            st.lists(PARTS, max_size=2).map(tuple),
            words,
            finite,
        ),
        max_size=2,
    ).map(tuple),
    classes=st.lists(st.builds(preview.ClassCount, words, st.integers(0, 9)), max_size=2).map(
        tuple
    ),
    item_time_ms=finite,
    warnings=st.lists(words, max_size=2).map(tuple),
    output=words,
)
CHECKS = st.builds(
    ModelCheck,
    parameters=st.integers(0, 1 << 40),
    trainable_parameters=st.integers(0, 9),
    parameter_bytes=st.integers(0, 9),
    layers=st.lists(
        st.builds(preview.LayerRow, words, words, st.integers(0, 9), words), max_size=3
    ).map(tuple),
    loss=st.none() | finite,
    metrics=st.dictionaries(words, st.none() | finite, max_size=3),
    forward_ms=st.none() | finite,
    has_metrics=st.booleans(),
)
SIZES = st.builds(DataSize, st.integers(0, 9), st.none() | st.integers(0, 9))


@given(PREVIEWS | CHECKS | SIZES)
def test_a_record_comes_back_as_it_went(record: Preview | ModelCheck | DataSize) -> None:
    assert type(record).from_dict(json.loads(json.dumps(record.to_dict()))) == record


@pytest.mark.parametrize("read", [Preview.from_dict, ModelCheck.from_dict, DataSize.from_dict])
@given(raw=st.dictionaries(st.text(), anything), changes=st.data())
def test_what_is_no_record_is_a_value_error(
    read: Callable[[dict[str, Any]], object], raw: dict[str, Any], changes: st.DataObject
) -> None:
    whole = changes.draw(PREVIEWS | CHECKS | SIZES).to_dict()
    for key in whole:
        if changes.draw(st.booleans()):
            whole[key] = changes.draw(anything)
    for candidate in (raw, whole):
        try:
            read(candidate)
        except ValueError:
            continue
