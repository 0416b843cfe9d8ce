"""A thread that works beside a window leaves it most of the time; any other one hurries."""

from __future__ import annotations

import threading
import time

import pytest

from backend import pace

_PIECES, _PIECE_S = 20, 0.002


def work_in_pieces() -> float:
    """Share of the time for which this thread computed."""
    begin_s, computed_s = time.perf_counter(), time.thread_time()
    for _ in range(_PIECES):
        until_s = time.thread_time() + _PIECE_S
        while time.thread_time() < until_s:
            pass
        pace.pause()
    return (time.thread_time() - computed_s) / (time.perf_counter() - begin_s)


def test_who_lets_others_go_first_computes_a_fifth_of_the_time() -> None:
    shares = []

    def work() -> None:
        pace.let_others_go_first()
        shares.append(work_in_pieces())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert shares[0] < 0.25


def test_nobody_else_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_seconds: float) -> None:
        raise AssertionError("it slept")

    monkeypatch.setattr(pace.time, "sleep", refuse)
    assert work_in_pieces() > 0


def test_pieces_that_are_too_small_to_be_felt_are_not_paused_after(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(pace.time, "sleep", pauses.append)

    def work() -> None:
        pace.let_others_go_first()
        for _ in range(50):
            pace.pause()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert len(pauses) < 5
