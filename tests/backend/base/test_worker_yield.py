"""A thread that works next to a window pauses most of the time; any other one never does."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from backend.base import worker_yield


class ComputeTimes:
    """The time that a thread computed, and its pauses."""

    def __init__(self) -> None:
        self.computed_s = 1.0
        self.pauses: list[float] = []

    def work(self, piece_count: int, piece_s: float) -> list[float]:
        for _ in range(piece_count):
            self.computed_s += piece_s
            worker_yield.pause()
        return self.pauses


@pytest.fixture
def times(monkeypatch: pytest.MonkeyPatch) -> ComputeTimes:
    times = ComputeTimes()
    # Not of the module itself: threads of other tests may sleep, too.
    fake_time = SimpleNamespace(thread_time=lambda: times.computed_s, sleep=times.pauses.append)
    monkeypatch.setattr(worker_yield, "time", fake_time)
    return times


def in_a_thread(work: Callable[[], object]) -> None:
    """Run ``work`` in a thread that lets others go first, which no other thread then does."""

    def run() -> None:
        worker_yield.let_others_go_first()
        worker_yield.pause()
        work()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()


def test_a_yielding_thread_pauses_four_times_as_long_as_it_computes(
    times: ComputeTimes,
) -> None:
    in_a_thread(lambda: times.work(20, 0.002))
    assert times.pauses[1:] == pytest.approx([0.008] * 20)


def test_no_pause_is_long(times: ComputeTimes) -> None:
    in_a_thread(lambda: times.work(1, 3.0))
    assert times.pauses[1:] == [0.02]


def test_no_other_thread_pauses(times: ComputeTimes) -> None:
    assert times.work(20, 0.002) == []


def test_very_small_pieces_are_followed_by_no_pause(times: ComputeTimes) -> None:
    in_a_thread(lambda: times.work(45, 0.0001))
    assert len(times.pauses[1:]) == 4
