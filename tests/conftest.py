"""What every test stands on: no display is needed, and nothing waits for a clock."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from backend.errors import BackendError
from backend.progress import Progress

if sys.platform == "linux" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")


class Immediately:
    """Stands in for `Background`: same promises, no threads, so tests need not wait."""

    def run(
        self,
        lane: str,
        work: Callable[[], Any],
        then: Callable[[Any], None],
        otherwise: Callable[[BackendError], None],
    ) -> None:
        try:
            value = work()
        except BackendError as error:
            otherwise(error)
        else:
            then(value)

    def progress(self, on_report: Callable[[float | None, str], None]) -> Progress:
        progress = Progress()

        def report(done: float, total: float, what: str) -> None:
            on_report(done / total if total else None, what)

        progress.report = report  # type: ignore[method-assign]
        return progress


# Before pytest-xdist reads the marks.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Which tests stay together when several processes share them: those of one file.

    All that need the test cluster are one group, because they share the nodes that were set up,
    and they come first, because they are a third of the whole and mostly wait.
    """
    folder = Path(__file__).parent

    def needs_cluster(item: pytest.Item) -> bool:
        return item.path.is_relative_to(folder / "cluster")

    for item in items:
        group = "cluster" if needs_cluster(item) else str(item.path)
        item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=needs_cluster, reverse=True)


@pytest.fixture
def immediately() -> Immediately:
    return Immediately()
