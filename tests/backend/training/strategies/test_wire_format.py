"""Messages between ranks: every value comes back, and no byte is ever executed."""

from __future__ import annotations

import math
import pickle
from contextlib import suppress
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from backend.training.strategies.wire_format import decode, encode

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters())
    | st.binary()
)
KEYS = st.integers() | st.text() | st.tuples(st.integers(), st.text())
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(KEYS, inner, max_size=4)
    ),
    max_leaves=20,
)
TENSORS = {
    "scalar": torch.tensor(3.5),
    "empty": torch.empty(0, 4),
    "transposed": torch.rand(2, 3).T,
    "bool": torch.tensor([True, False]),
    "bfloat16": torch.rand(5).to(torch.bfloat16),
    "conjugate": torch.rand(4, dtype=torch.complex64).conj(),
    "sparse": torch.tensor([[1, 0], [0, 2]]).to_sparse(),
    "parameter": torch.nn.Parameter(torch.rand(3)),
    "not finite": torch.tensor([math.nan, math.inf]),
}


class Program:
    """A value that pickle would execute."""

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, ("raise SystemExit('executed')",)


@given(VALUES)
def test_every_plain_value_comes_back_with_its_types(value: Any) -> None:
    decoded = decode(encode(value))
    assert decoded == value
    assert repr(decoded) == repr(value)


@pytest.mark.parametrize("kind", TENSORS)
def test_every_tensor_comes_back_bit_by_bit(kind: str) -> None:
    tensor = TENSORS[kind]
    message = {"state": [(3, tensor)], "dtype": tensor.dtype, "shape": tensor.shape}
    decoded = decode(encode(message))
    ((number, copy),) = decoded["state"]
    assert number == 3
    assert copy.dtype == decoded["dtype"] == tensor.dtype
    assert copy.shape == decoded["shape"] == tensor.shape
    torch.testing.assert_close(copy, tensor.detach().to_dense(), rtol=0, atol=0, equal_nan=True)


class WeightedNumber(float):
    """A plain value with an attribute of its own."""


def weighted_number() -> WeightedNumber:
    number = WeightedNumber(0.5)
    number.__dict__["weight"] = 3.0
    return number


@pytest.mark.parametrize(
    "value", [Program(), {"a": object()}, {1, 2}, print, {"loss": weighted_number()}]
)
def test_a_value_of_another_type_is_refused_where_it_is_sent(value: Any) -> None:
    with pytest.raises(TypeError, match="cannot be sent"):
        encode(value)


@given(st.binary(max_size=200))
def test_bytes_of_an_outsider_are_no_message(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"message|text|Expecting|Extra|JSON|decode"):
        decode(content)


@given(st.data())
def test_a_torn_or_changed_message_is_a_value_or_refused(data: st.DataObject) -> None:
    content = bytearray(encode({"loss": 0.5, "state": torch.arange(6.0), "sent": b"abc"}))
    position = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        del content[position:]
    else:
        content[position] = data.draw(st.integers(0, 255))
    with suppress(ValueError):
        decode(content)


def test_a_pickle_is_not_executed() -> None:
    for content in (pickle.dumps(Program()), encode(pickle.dumps(Program()))):
        with suppress(ValueError):
            assert isinstance(decode(content), bytes)
