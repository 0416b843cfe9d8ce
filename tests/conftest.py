"""The base of every test: no display is needed, and no result depends on a clock."""

from __future__ import annotations

import gc
import logging
import os
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

# Before PySide6, as in the program: how its types are made is settled when it is imported.
import widgets  # noqa: F401 # isort: skip

import pytest
from hypothesis import HealthCheck, settings
from PySide6.QtCore import QCoreApplication, QEvent
from PySide6.QtGui import QCursor
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from backend.base.errors import BackendError
from backend.base.log import PACKAGES
from backend.base.progress import Progress
from backend.catalogue import store
from tests.fakes.shared_tools import share_tool_process
from tests.scheduling import FileScheduling, is_of_cluster
from tests.waiting import LIMIT_MS

if sys.platform == "linux" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

# Else each process that a test starts compiles all that it imports: 3 s of a core for sympy alone.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Here, before any test module is imported: a decorated test keeps the profile of that moment.
settings.register_profile(
    "tests", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("tests")

# 5 s by default: work in another thread or process takes longer on a busy machine.
for _wait in (QtBot.waitUntil, QtBot.waitSignal, QtBot.waitSignals, QtBot.waitCallback):
    _wait.__kwdefaults__["timeout"] = LIMIT_MS

_REMOTE = 10_000
"""Outside every window."""


def _check_descriptor(descriptor: Any) -> None:
    os.fstat(descriptor if isinstance(descriptor, int) else descriptor.fileno())


# No test cuts the power. The disk of a busy machine takes 7 ms for each, and four tests make 5,000.
os.fsync = _check_descriptor

# A thread of one test must not destroy the widgets of another, as no thread of the window may.
gc.disable()


def pytest_runtest_logfinish() -> None:
    """Delete the widgets of the test that ended: twelve thousand make a new style take 2 s.

    What pytest-qt closes is only marked for deletion, which happens in an event loop, and between
    tests there is none.
    """
    if QCoreApplication.instance() is not None:
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    if isinstance(QCoreApplication.instance(), QApplication):
        # Where this test has clicked, the pointer would hold the rows of the next one's lists.
        QCursor.setPos(_REMOTE, _REMOTE)
    gc.collect(1)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, None, None]:
    """Delete the windows of a file after its last test: each new style would be applied to them.

    So are the folders of users' code: processes get their list in a variable, of 128 kB at most.
    """
    yield
    is_last_of_file = nextitem is None or nextitem.path != item.path
    if is_last_of_file and "backend.training.user_code.sources" in sys.modules:
        forget_user_folders()
    if is_last_of_file and isinstance(QCoreApplication.instance(), QApplication):
        for widget in QApplication.topLevelWidgets():
            # Those of a plot are pyqtgraph's own, which ends them in an order of its own.
            is_ours = type(widget).__module__.startswith(("widgets.", "app."))
            if is_ours and widget.parent() is None:
                widget.deleteLater()
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
        gc.collect()
        # As the window does with what stays: 760,000 objects are not searched after each file.
        gc.freeze()


def forget_user_folders() -> None:
    from backend.training.user_code.sources import VARIABLE, known_sources

    folders = {str(source.folder) for source in known_sources.values()}
    sys.path[:] = [folder for folder in sys.path if folder not in folders]
    known_sources.clear()
    os.environ.pop(VARIABLE, None)


def pytest_unconfigure() -> None:
    """Collect once what the last tests left: pytest does it five times, 0.5 s of a core each."""
    gc.collect()
    gc.freeze()


_BUDGETS_S = {
    "tests/app": 300,
    "tests/backend/datastore": 60,
    "tests/backend/node": 130,
    "tests/backend/services": 280,
    "tests/backend/training": 220,
    "tests/chaos": 150,
    "tests/cluster": 240,
    "tests/installers": 60,
    "tests/integration": 150,
    "tests/widgets": 160,
}
"""Seconds of one worker that a folder may take where nothing is slow; see `installers/test`."""
_durations_s: Counter[str] = Counter()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up the time of each folder, set-up and teardown included, over all workers."""
    *folders, _file = report.nodeid.partition("::")[0].split("/")
    depth = 3 if "backend" in folders else 2
    _durations_s["/".join(folders[:depth])] += report.duration


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print the time of each folder; one over its budget is named in yellow and fails nothing."""
    if not config.getoption("numprocesses", None):
        return
    terminalreporter.section("seconds of each folder")
    is_gate = config.getoption("markexpr") == "not slow"
    for folder, took_s in _durations_s.most_common():
        budget_s = _BUDGETS_S.get(folder)
        is_over = is_gate and budget_s is not None and took_s > budget_s
        note = f", more than its {budget_s}" if is_over else ""
        terminalreporter.write_line(f"{took_s:7.1f}  {folder}{note}", yellow=is_over)


class LogWatch(logging.Handler):
    """The warnings and errors that this program logs during a test."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.expected: list[str] = []
        self._records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.partition(".")[0] in PACKAGES:
            self._records.append(record)

    def expect(self, part: str) -> None:
        """Allow records whose message holds ``part``; at least one must come."""
        self.expected.append(part)

    def check(self) -> None:
        messages = [record.getMessage() for record in self._records]
        missing = [
            part for part in self.expected if not any(part in message for message in messages)
        ]
        assert not missing, f"not logged: {missing}"
        unexpected_messages = [
            message for message in messages if not any(part in message for part in self.expected)
        ]
        assert not unexpected_messages, f"logged and not expected: {unexpected_messages}"


@pytest.fixture(autouse=True)
def log_watch() -> Iterator[LogWatch]:
    """Fail a test in which this program logs a warning or an error that it does not expect."""
    watch = LogWatch()
    logging.getLogger().addHandler(watch)
    yield watch
    logging.getLogger().removeHandler(watch)
    watch.check()


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Let torch compute in one thread, as a rank does where there are as many ranks as cores.

    Two add sums in another order, and wait by spinning on the cores of other tests: 24 tests of the
    gallery took 15 s of processor time, and take 4.
    """
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


@pytest.fixture(autouse=True, scope="session")
def catalogues_trust_the_disk() -> Iterator[None]:
    """Let the commits of all catalogues wait for no disk, as `os.fsync` does not."""
    connect = store._connect

    def connect_without_sync(path: Path, **options: bool) -> sqlite3.Connection:
        connection = connect(path, **options)
        connection.execute("PRAGMA synchronous = OFF")
        return connection

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "_connect", connect_without_sync)
        yield


@pytest.fixture(autouse=True, scope="session")
def tools_share_torch() -> Iterator[None]:
    with share_tool_process():
        yield


class SynchronousRunner:
    """Stands in for `Background`: same promises, no threads, so tests need not wait."""

    def __init__(self) -> None:
        self.notifications: list[str] = []
        self.notify = self.notifications.append

    def run(
        self,
        queue_name: str,
        work: Callable[[], Any],
        on_result: Callable[[Any], None],
        on_error: Callable[[BackendError], None],
    ) -> None:
        try:
            value = work()
        except BackendError as error:
            on_error(error)
        else:
            on_result(value)

    def progress(self, on_report: Callable[[float | None, str], None]) -> Progress:
        progress = Progress()

        def report(done: float, total: float, step_name: str) -> None:
            on_report(done / total if total else None, step_name)

        progress.report = report  # type: ignore[method-assign]
        return progress


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FileScheduling:
    return FileScheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with those of the cluster: they are the longest row of tests, and mostly wait."""
    items.sort(key=lambda item: not is_of_cluster(item.nodeid))


@pytest.fixture
def immediately() -> SynchronousRunner:
    return SynchronousRunner()
