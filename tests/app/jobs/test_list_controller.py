"""The rows of the lists: what the user moved moves at once, whatever else is asked meanwhile."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from app.jobs.list_controller import ListController
from widgets.jobs.page.jobs_page import LIST, JobsPage


class Held:
    """A runner whose work and answers come when the test says so."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[Any, Any]] = deque()
        self.answers: deque[tuple[Any, Any]] = deque()

    def run(self, _lane: str, work: Any, then: Any, _otherwise: Any) -> None:
        self.waiting.append((work, then))

    def work(self) -> None:
        work, then = self.waiting.popleft()
        self.answers.append((then, work()))

    def answer(self) -> None:
        then, found = self.answers.popleft()
        then(found)


@pytest.mark.parametrize(
    "by_user",
    [(True,), (False,), (True, False), (False, True), (True, False, False), (False, True, False)],
)
@pytest.mark.parametrize("began", [0, 1])
def test_rows_that_the_user_moved_are_not_held_for_a_later_question(
    qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, by_user: tuple[bool, ...], began: int
) -> None:
    """``began``: how many questions were at work before the first of these was asked."""
    page, runner = JobsPage(), Held()
    qtbot.addWidget(page)
    lists = ListController(runner, page)  # type: ignore[arg-type] # without progress
    shown: list[bool] = []
    monkeypatch.setattr(page, "show_rows", lambda _which, _rows, *, at_once: shown.append(at_once))
    query = {LIST: page.queries[LIST]}
    for _ in range(began):
        lists._find(query)
        runner.work()
    for at_once in by_user:
        lists._find(query, is_immediate=at_once)
    while runner.waiting:
        runner.work()
    while runner.answers:
        runner.answer()
    assert shown[-1] is any(by_user)
    shown.clear()
    lists._find(query)
    while runner.waiting:
        runner.work()
    while runner.answers:
        runner.answer()
    assert shown == [False], "it was answered"
