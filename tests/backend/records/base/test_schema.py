"""Every record goes to JSON and comes back; what another process wrote is read or refused."""

from __future__ import annotations

import dataclasses
import importlib
import json
import math
import pkgutil
import sys
import typing
from collections.abc import Mapping
from contextlib import suppress
from enum import Enum
from functools import cache
from typing import Any, Union, get_args, get_origin

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import backend.records
from backend.records.base.schema import (
    KEY,
    READ,
    STRICT,
    Record,
    SchemaError,
    build,
    evaluate_annotation,
)
from backend.records.jobs.checkpoint import Checkpoint
from backend.records.jobs.config import JobConfig
from backend.records.jobs.launch import Launch, RankPlan
from backend.records.jobs.placement import Placement
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RankError, RunExit, RunStatus
from backend.records.library.preview import Histogram, ModelCheck, Preview
from backend.records.nodes.entry import NodeAddress, NodeEntry
from backend.records.queue.entry import MAX_LENGTH_S
from tests.fakes.trained import CONFIG

for module in pkgutil.walk_packages(backend.records.__path__, "backend.records."):
    importlib.import_module(module.name)
RECORDS = sorted(
    (
        record_type
        for record_type in Record.__subclasses__()
        if record_type.__module__.startswith("backend.")
    ),
    key=lambda record_type: record_type.__name__,
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
TEXT = st.text(st.characters(categories=("L", "N", "P", "S")), max_size=20)
NUMBER = st.floats(allow_nan=False, allow_infinity=False)
PLAIN: Mapping[Any, st.SearchStrategy[Any]] = {
    str: TEXT,
    bool: st.booleans(),
    int: st.integers(0, 2**53),
    float: NUMBER,
    Any: st.none() | TEXT | NUMBER,
    JobConfig: st.just(CONFIG),
    tuple[Placement, ...]: st.sampled_from(
        [(Placement("a", 2),), (Placement("b", gpus=("GPU-1",)),)]
    ),
    Histogram: st.builds(Histogram, NUMBER, st.floats(1e-9, 1e9), st.just((3, 4))),
}
FIELDS = {
    "schema": st.just(1),
    "length_s": st.floats(0, MAX_LENGTH_S),
    "not_before": st.sampled_from(["", "2026-11-22T06:00:00Z"]),
}


@cache
def values_of(kind: Any) -> st.SearchStrategy[Any]:
    """Return a strategy for the values of a type."""
    inner = get_args(kind)
    if kind in PLAIN:
        return PLAIN[kind]
    if get_origin(kind) is Union:
        return st.none() | values_of(inner[0])
    if get_origin(kind) is tuple:
        return st.lists(values_of(inner[0]), max_size=2).map(tuple)
    if get_origin(kind) is Mapping:
        return st.dictionaries(TEXT, values_of(inner[1]), max_size=2)
    if issubclass(kind, Enum):
        return st.sampled_from(kind)
    names = vars(sys.modules[kind.__module__])
    fields = {
        f.name: FIELDS[f.name]
        if f.name in FIELDS
        else values_of(evaluate_annotation(str(f.type), names))
        for f in dataclasses.fields(kind)
        if f.metadata.get(READ, True)
    }
    return st.builds(kind, **fields)


def through_json(raw: Mapping[str, Any]) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(json.dumps(raw, allow_nan=False))
    return read


@pytest.mark.parametrize("record", RECORDS)
@settings(max_examples=30)
@given(data=st.data())
def test_a_record_comes_back_from_json_as_it_was(record: type[Record], data: st.DataObject) -> None:
    record_value = data.draw(values_of(record))
    assert record.from_dict(through_json(record_value.to_dict())) == record_value


@pytest.mark.parametrize("record", RECORDS)
@settings(max_examples=30)
@given(data=st.data())
def test_f35_no_json_is_worse_than_a_value_error(record: type[Record], data: st.DataObject) -> None:
    document = data.draw(values_of(record)).to_dict()
    changes = data.draw(st.dictionaries(st.sampled_from(sorted(document)), ANYTHING, min_size=1))
    for candidate in (changes, {**document, **changes}):
        with suppress(ValueError):
            record.from_dict(candidate)


class _WithoutOr(type):
    """The type of types in Python 3.9."""

    def __or__(cls, _kind: object) -> Any:
        raise TypeError("unsupported operand type(s) for |")

    __ror__ = __or__


class _Old(metaclass=_WithoutOr):
    pass


@pytest.mark.parametrize(
    ("text", "equal_text"),
    [
        ("Old", "Old"),
        ("Old | None", "Optional[Old]"),
        ("None | Old", "Optional[Old]"),
        ("Old | int | None", "Union[Old, int, None]"),
        ("Mapping[str, Old | None]", "Mapping[str, Optional[Old]]"),
        ("Mapping[str, Old | None] | None", "Optional[Mapping[str, Optional[Old]]]"),
        ("tuple[Old, ...] | None", "Optional[tuple[Old, ...]]"),
        ("tuple[tuple[Old | None, ...], ...]", "tuple[tuple[Optional[Old], ...], ...]"),
    ],
)
def test_an_annotation_is_evaluated_without_the_operator_of_python_3_10(
    text: str, equal_text: str
) -> None:
    names = {**vars(typing), "Old": _Old}
    assert evaluate_annotation(text, names) == evaluate_annotation(equal_text, names)


def test_an_infinite_number_is_written_as_null() -> None:
    status = RunStatus(JobState.TRAINING, metrics={"loss": math.nan, "gain": math.inf, "ok": 1.0})
    assert through_json(status.to_dict())["metrics"] == {"loss": None, "gain": None, "ok": 1.0}


def test_momentary_properties_of_a_checkpoint_are_neither_written_nor_read() -> None:
    checkpoint = Checkpoint("e1", 1, 1, 8, 0, 9, "a", "b", "", {}, is_best=True, path="/p")
    raw = checkpoint.to_dict()
    assert not {"is_latest", "is_best", "is_kept", "path"} & set(raw)
    assert Checkpoint.from_dict({**raw, "path": "/etc", "is_kept": True}).path == ""
    assert checkpoint.to_json()["is_best"] is True


def test_a_key_of_a_newer_program_is_ignored_or_refused() -> None:
    run_exit = RunExit(1, JobState.ERROR, "", RankError("It broke."))
    assert RunExit.from_dict({**run_exit.to_dict(), "wisdom": 42}) == run_exit
    entry = NodeEntry("gpu1", NodeAddress("gpu1")).to_dict()
    with pytest.raises(ValueError, match=r"^node without a usable wisdom: it is unknown$"):
        NodeEntry.from_dict({**entry, "wisdom": 42})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"run": None}, "run: it must be a whole number, not NoneType"),
        ({"ranks": "all"}, "ranks: it must be a list, not text"),
        ({"ranks": [{"rank": 0}]}, "ranks[0].local_rank: it is missing"),
        ({"hashes": {"model": 3}}, "hashes.model: it must be text, not a whole number"),
        ({"grace_s": "long"}, "grace_s: it must be a number, not text"),
        ({"apart": 1}, "apart: it must be true or false, not a whole number"),
    ],
)
def test_a_refusal_names_the_record_and_the_field(changes: dict[str, Any], message: str) -> None:
    ranks = (RankPlan(0, 0, "a", "a"),)
    launch = Launch("id", 1, CONFIG, ranks, "m", "l", "d")
    with pytest.raises(ValueError, match="launch record") as caught:
        Launch.from_dict({**launch.to_dict(), **changes})
    assert str(caught.value) == f"launch record without a usable {message}"


def test_a_field_keeps_the_key_of_old_files_when_its_name_changes() -> None:
    @dataclasses.dataclass(frozen=True)
    class Account(Record, label="account", rules=STRICT):
        message: str = dataclasses.field(metadata={KEY: "sentence"})
        size_bytes: int = dataclasses.field(default=0, metadata={KEY: "size"})

    assert Account("a", 2).to_dict() == {"sentence": "a", "size": 2}
    assert Account.from_dict({"sentence": "a"}) == Account("a")
    for raw in ({"message": "a"}, {"sentence": "a", "size_bytes": 2}):
        with pytest.raises(ValueError, match=r"sentence: it is missing|size_bytes: it is unknown"):
            Account.from_dict(raw)


def test_a_list_may_be_too_long() -> None:
    rules = dataclasses.replace(STRICT, max_elements=2)
    assert build(Placement, {"node": "a", "gpus": ["b", "c"]}, rules).gpus == ("b", "c")
    with pytest.raises(SchemaError, match=r"^gpus contains more than 2 elements$"):
        build(Placement, {"node": "a", "gpus": ["b", "c", "d"]}, rules)


def test_text_of_users_code_can_command_no_terminal() -> None:
    raw = Preview("training", "D", 1, 1, warnings=("\x1b[2Jx",), output="one\ntwo").to_dict()
    preview = Preview.from_dict({**raw, "item_time_ms": "2.5"})
    assert (preview.warnings, preview.output, preview.item_time_ms) == (("?[2Jx",), "one\ntwo", 2.5)
    check = ModelCheck(1, 1, 4).to_dict()
    assert ModelCheck.from_dict({**check, "loss": math.nan, "metrics": {"a": math.inf}}) == (
        ModelCheck(1, 1, 4, metrics={"a": None})
    )
