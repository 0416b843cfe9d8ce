"""The rows of the lists: what the user moved moves at once, whatever else is asked meanwhile."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from app.jobs.list_controller import ListController
from widgets.jobs.page.jobs_page import LIST, JobsPage


class ManualRunner:
    """A runner whose work and answers come when the test says so."""

    def __init__(self) -> None:
        self.tasks: deque[tuple[Any, Any]] = deque()
        self.answers: deque[tuple[Any, Any]] = deque()

    def run(self, _queue_name: str, work: Any, on_success: Any, _on_error: Any) -> None:
        self.tasks.append((work, on_success))

    def work(self) -> None:
        work, on_success = self.tasks.popleft()
        self.answers.append((on_success, work()))

    def answer(self) -> None:
        on_success, result = self.answers.popleft()
        on_success(result)


@pytest.mark.parametrize(
    "by_user",
    [(True,), (False,), (True, False), (False, True), (True, False, False), (False, True, False)],
)
@pytest.mark.parametrize("started_count", [0, 1])
def test_rows_that_the_user_moved_are_not_held_for_a_later_question(
    qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, by_user: tuple[bool, ...], started_count: int
) -> None:
    """``started_count`` is the number of earlier questions that are still running."""
    page, runner = JobsPage(), ManualRunner()
    qtbot.addWidget(page)
    lists = ListController(runner, page)  # type: ignore[arg-type] # without progress
    shown_flags: list[bool] = []
    monkeypatch.setattr(
        page,
        "show_rows",
        lambda _list_name, _rows, *, is_immediate: shown_flags.append(is_immediate),
    )
    query = {LIST: page.queries[LIST]}
    for _ in range(started_count):
        lists._find(query)
        runner.work()
    for is_immediate in by_user:
        lists._find(query, is_immediate=is_immediate)
    while runner.tasks:
        runner.work()
    while runner.answers:
        runner.answer()
    assert shown_flags[-1] is any(by_user)
    shown_flags.clear()
    lists._find(query)
    while runner.tasks:
        runner.work()
    while runner.answers:
        runner.answer()
    assert shown_flags == [False], "it was answered"
