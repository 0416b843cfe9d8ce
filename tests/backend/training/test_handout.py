"""Pieces of work: given once, late ones twice, those of lost workers again."""

from __future__ import annotations

from backend.training.handout import Handout


def test_a_late_piece_is_given_to_an_idle_worker_and_the_first_result_counts() -> None:
    handout = Handout(3)
    assert [handout.take(worker, 0.0) for worker in (1, 2, 3)] == [0, 1, 2]
    assert handout.done(1, 0, 1.0)
    assert handout.take(1, 1.9) is None, "not late yet"
    assert handout.take(1, 2.1) == 1
    assert handout.done(3, 2, 2.2)
    assert handout.take(3, 2.3) is None, "its copy is not late yet"
    assert handout.done(1, 1, 3.0)
    assert handout.is_over
    assert not handout.done(2, 1, 9.0)
    assert handout.copies == 1


def test_a_result_of_an_earlier_pass_does_not_count() -> None:
    handout = Handout(2)
    assert handout.take(1, 0.0) == 0
    assert not handout.done(2, 0, 1.0)
    assert not handout.done(2, 1, 1.0)
    assert not handout.is_over


def test_the_piece_of_a_lost_worker_is_given_again_unless_another_has_it() -> None:
    handout = Handout(2, usual_s=1.0)
    assert [handout.take(worker, 0.0) for worker in (1, 2)] == [0, 1]
    handout.lose(2)
    assert handout.take(3, 0.0) == 1
    assert handout.take(4, 5.0) == 0
    handout.lose(1)
    assert handout.take(5, 5.0) == 1, "late, and the other piece has a fresh copy"
    assert handout.done(4, 0, 6.0)
    assert handout.done(3, 1, 6.0)
    assert handout.is_over
