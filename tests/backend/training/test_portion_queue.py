"""Pieces of work: given once, late ones twice, those of lost workers again."""

from __future__ import annotations

from backend.training.portion_queue import PortionQueue


def test_a_late_piece_is_given_to_an_idle_worker_and_the_first_result_counts() -> None:
    handout = PortionQueue(3)
    assert [handout.take(worker, 0.0) for worker in (1, 2, 3)] == [0, 1, 2]
    assert handout.finish(1, 0, 1.0)
    assert handout.take(1, 1.9) is None, "not late yet"
    assert handout.take(1, 2.1) == 1
    assert handout.finish(3, 2, 2.2)
    assert handout.take(3, 2.3) is None, "its copy is not late yet"
    assert handout.finish(1, 1, 3.0)
    assert handout.is_finished
    assert not handout.finish(2, 1, 9.0)
    assert handout.copy_count == 1


def test_a_result_of_an_earlier_pass_does_not_count() -> None:
    handout = PortionQueue(2)
    assert handout.take(1, 0.0) == 0
    assert not handout.finish(2, 0, 1.0)
    assert not handout.finish(2, 1, 1.0)
    assert not handout.is_finished


def test_the_piece_of_a_lost_worker_is_given_again_unless_another_has_it() -> None:
    handout = PortionQueue(2, default_s=1.0)
    assert [handout.take(worker, 0.0) for worker in (1, 2)] == [0, 1]
    handout.release(2)
    assert handout.take(3, 0.0) == 1
    assert handout.take(4, 5.0) == 0
    handout.release(1)
    assert handout.take(5, 5.0) == 1, "late, and the other piece has a fresh copy"
    assert handout.finish(4, 0, 6.0)
    assert handout.finish(3, 1, 6.0)
    assert handout.is_finished
