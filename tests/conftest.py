"""What every test stands on: no display is needed, and nothing waits for a clock."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Generator
from typing import Any

# Before PySide6, as in the program: how its types are made is settled when it is imported.
import widgets  # noqa: F401 # isort: skip

import pytest
from PySide6.QtCore import QCoreApplication, QEvent
from PySide6.QtWidgets import QApplication
from xdist.scheduler import LoadScopeScheduling

from app.garbage import collect_due
from backend.errors import BackendError
from backend.progress import Progress
from tests.gui_stalls import StallWatch, elsewhere

if sys.platform == "linux" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")


# A thread of one test must not destroy the widgets of another, as no thread of the window may.
gc.disable()


def pytest_runtest_logfinish() -> None:
    """No test has the widgets of those before it: twelve thousand make a new look take 2 s.

    What pytest-qt closes is only marked for deletion, which happens in an event loop, and between
    tests there is none.
    """
    if QCoreApplication.instance() is not None:
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    collect_due()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, None, None]:
    """No file has the windows of those before it: each new look would dress them all anew."""
    yield
    is_last_of_file = nextitem is None or nextitem.path != item.path
    # One that has stalled is tried again, with the windows of its file.
    is_over = is_last_of_file and not item.stash.get(_HAS_STALLED, False)
    if is_over and isinstance(QCoreApplication.instance(), QApplication):
        for widget in QApplication.topLevelWidgets():
            # Those of a plot are pyqtgraph's own, which ends them in an order of its own.
            is_ours = type(widget).__module__.startswith(("widgets.", "app."))
            if is_ours and widget.parent() is None:
                widget.deleteLater()
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
        gc.unfreeze()
        gc.collect()
        # As the window does with what stays: it is not looked through again in every test.
        gc.freeze()


_watch: StallWatch | None = None
_HAS_STALLED = pytest.StashKey[bool]()


def _watched(item: pytest.Item) -> Generator[None, object, object]:
    """A test fails that holds the GUI thread up (see `tests.gui_stalls`)."""
    global _watch
    has_window = "qapp" in getattr(item, "fixturenames", ())
    if not has_window or item.get_closest_marker("unwatched") is not None:
        return (yield)
    if _watch is None:
        _watch = StallWatch()
    _watch.begin()
    try:
        result = yield
    finally:
        stalls = _watch.end()
    item.stash[_HAS_STALLED] = bool(stalls)
    if stalls:
        pytest.fail("\n".join(str(stall) for stall in stalls), pytrace=False)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    return (yield from _watched(item))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    return (yield from _watched(item))


_MOST_RETRIED = 12
"""Of a whole run on a busy machine; more is the program's doing."""
_retried: dict[str, str] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Which tests were tried again because something held the GUI thread up, of all workers."""
    if report.outcome == "rerun":  # type: ignore[comparison-overlap]  # pytest-rerunfailures' own
        _retried[report.nodeid] = report.longreprtext.strip().partition("\n")[0]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _retried:
        terminalreporter.section("tried again because the window stood still")
    for name, why in _retried.items():
        terminalreporter.write_line(f"{name}\n    {why}")
    if len(_retried) > _MOST_RETRIED:
        terminalreporter.write_line(f"More than {_MOST_RETRIED}: that is no machine's mood.")


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if len(_retried) > _MOST_RETRIED and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


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
            value = elsewhere(work)
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


def is_of_cluster(node_id: str) -> bool:
    return node_id.startswith("tests/cluster/")


class ByRoom(LoadScopeScheduling):
    """Tests of one file stay in one process, and so do all that need the test cluster.

    Those share the nodes that were set up. The marks of ``--dist loadgroup`` would do it, but
    pytest-xdist 3.8.0 writes them where pytest 9.2 does not read them.
    """

    def _split_scope(self, nodeid: str) -> str:
        return "cluster" if is_of_cluster(nodeid) else nodeid.partition("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByRoom:
    return ByRoom(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those of the cluster come first: they are a third of the whole, and mostly wait."""
    items.sort(key=lambda item: not is_of_cluster(item.nodeid))


@pytest.fixture
def immediately() -> Immediately:
    return Immediately()
