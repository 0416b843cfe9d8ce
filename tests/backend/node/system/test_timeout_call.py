"""Calls that may hang without an end are left behind, and report what they did."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from backend.node.system.timeout_call import TimeoutCall
from tests.waiting import LIMIT_S, wait_for


@pytest.fixture
def back() -> Iterator[threading.Event]:
    """Ends every call that hangs on it."""
    event = threading.Event()
    yield event
    event.set()


def test_an_answer_and_a_failure_come_home() -> None:
    bounded = TimeoutCall(LIMIT_S)
    assert bounded.call(lambda: 7) == 7
    with pytest.raises(FileNotFoundError):
        bounded.call(lambda: open("/no/such/file").close())


def test_while_a_call_hangs_the_next_is_refused_at_once_and_then_all_is_well(
    back: threading.Event,
) -> None:
    bounded = TimeoutCall(0.05)
    with pytest.raises(TimeoutError, match=r"no answer within 0\.05 s"):
        bounded.call(back.wait)
    with pytest.raises(TimeoutError, match="an earlier call hangs"):
        bounded.call(lambda: 7)
    bounded._limit_s = LIMIT_S
    back.set()
    assert wait_for(lambda: _answer(bounded), "an answer")


def test_a_call_that_hangs_for_long_is_left_behind_but_not_without_end(
    back: threading.Event,
) -> None:
    previous_threads = set(threading.enumerate())
    bounded = TimeoutCall(0.02, give_up_s=0.0)
    for _ in range(20):
        with pytest.raises(TimeoutError):
            bounded.call(back.wait)
    assert len(set(threading.enumerate()) - previous_threads) == 5


def test_after_a_hanging_call_was_left_behind_the_next_one_answers(back: threading.Event) -> None:
    bounded = TimeoutCall(0.02, give_up_s=0.0)
    with pytest.raises(TimeoutError):
        bounded.call(back.wait)
    bounded._limit_s = LIMIT_S
    assert bounded.call(lambda: 7) == 7


def _answer(bounded: TimeoutCall) -> bool:
    try:
        return bounded.call(lambda: True)
    except TimeoutError:
        return False
