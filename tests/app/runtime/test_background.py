"""The one module that starts threads keeps its promises to those who use it."""

import logging
import threading
import weakref

import pytest
from PySide6.QtCore import QEventLoop

from app.runtime.background import Background
from backend.base.errors import BackendError
from tests.waiting import LIMIT_S


@pytest.fixture
def background(qapp):
    background = Background(worker_count=2)
    yield background
    background.close()


class Clock:
    def __init__(self):
        self.now_s = 1000.0

    def monotonic(self):
        return self.now_s


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("app.runtime.background.time", clock)
    return clock


def at_shutdown(background, call):
    """Call it each time that the pool is shut down, with whether that waits."""
    shutdown = background._pool.shutdown

    def spy(wait=True, **kwargs):
        call(wait)
        shutdown(wait, **kwargs)

    background._pool.shutdown = spy


def test_work_runs_elsewhere_and_its_outcome_comes_home(qtbot, background):
    gate, outcomes = threading.Event(), []

    def work():
        gate.wait(LIMIT_S)  # so that it cannot have ended before run() returns
        return threading.get_ident()

    background.run(
        "any",
        work,
        on_success=lambda worker: outcomes.append((worker, threading.get_ident())),
        on_error=pytest.fail,
    )
    gate.set()
    qtbot.waitUntil(lambda: len(outcomes) == 1)
    worker, home = outcomes[0]
    assert home == threading.get_ident() != worker


def test_one_lane_never_overlaps_itself(qtbot, background):
    started, release, order = threading.Event(), threading.Event(), []

    def first():
        started.set()
        release.wait(LIMIT_S)
        return 1

    background.run("node gpu3", first, order.append, pytest.fail)
    background.run("node gpu3", lambda: 2, order.append, pytest.fail)
    background.run("node gpu4", lambda: 3, order.append, pytest.fail)
    assert started.wait(LIMIT_S)
    qtbot.waitUntil(lambda: order == [3])
    release.set()
    qtbot.waitUntil(lambda: order == [3, 1, 2])


def test_expected_failures_are_handed_over(qtbot, background):
    def refuse():
        raise BackendError("no route to gpu3")

    errors = []
    background.run("any", refuse, pytest.fail, errors.append)
    qtbot.waitUntil(lambda: len(errors) == 1)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (PermissionError(13, "Permission denied", "/data/jobs"), "/data/jobs: Permission denied."),
        (OSError(116, "Stale file handle", "/data/a.json"), "/data/a.json: Stale file handle."),
        (OSError(5, "Input/output error"), "Input/output error."),
        (TimeoutError("timed out"), "timed out."),
        (FileNotFoundError(2, "No such file or directory", "x"), "x: No such file or directory."),
        (OSError(), "OSError."),
    ],
)
def test_an_error_of_a_disk_is_a_sentence(qtbot, background, error, message, caplog):
    def fail():
        raise error

    errors = []
    with caplog.at_level(logging.INFO, "backend"):
        background.run("any", fail, pytest.fail, errors.append)
        qtbot.waitUntil(lambda: len(errors) == 1)
    assert str(errors[0]) == message
    assert "Traceback" in caplog.text


def test_a_bug_reaches_the_excepthook_and_frees_the_lane(qtbot, background):
    done = []
    with qtbot.captureExceptions() as caught:
        background.run("any", lambda: 1 / 0, pytest.fail, pytest.fail)
        background.run("any", lambda: 1, done.append, pytest.fail)
        qtbot.waitUntil(lambda: done == [1])
    assert caught[0][0] is ZeroDivisionError


def test_no_callback_comes_after_close(qtbot, qapp):
    gate, heard = threading.Event(), []
    background = Background(worker_count=1)
    background.run("a", lambda: gate.wait(LIMIT_S), heard.append, heard.append)
    background.run("a", lambda: 2, heard.append, heard.append)
    background.run("b", lambda: 3, heard.append, heard.append)
    gate.set()
    background.close()
    qapp.processEvents()
    assert heard == []


def test_reports_of_progress_come_home(qtbot, background):
    reports, homes = [], []

    def on_report(share, step):
        reports.append((share, step))
        homes.append(threading.get_ident())

    progress = background.progress(on_report)
    background.run("any", lambda: progress.step(1, 2, "Copying"), lambda _: None, pytest.fail)
    qtbot.waitUntil(lambda: reports == [(0.5, "Copying")])
    assert homes == [threading.get_ident()]


def test_many_reports_do_not_flood_the_window_and_the_last_is_there(qtbot, background, clock):
    reports = []
    progress = background.progress(lambda share, _step: reports.append(share))

    def work():
        for done in range(1, 10_001):
            clock.now_s += 0.001
            progress.report(done, 10_000, "Copying")

    background.run("any", work, lambda _: None, pytest.fail)
    qtbot.waitUntil(lambda: bool(reports) and reports[-1] == 1.0)
    assert 190 <= len(reports) <= 210, "twenty a second"


def test_closing_cancels_work_that_reports_progress(qapp):
    background = Background(worker_count=1)
    progress = background.progress(lambda _share, _step: None)
    started, errors = threading.Event(), []

    def work():
        started.set()
        try:
            while True:
                progress.step(0, 0, "Importing")
        except BackendError as error:
            errors.append(error)
            raise

    background.run("any", work, pytest.fail, pytest.fail)
    assert started.wait(LIMIT_S)
    background.close()
    assert len(errors) == 1


def test_the_progress_of_ended_work_is_not_kept(qtbot, background):
    results = []

    def search():
        progress = background.progress(lambda _share, _step: None)
        background.run(
            "log", lambda: progress.report(1, 1, "Searching"), results.append, pytest.fail
        )
        return weakref.ref(progress)

    references = [search() for _ in range(20)]
    qtbot.waitUntil(lambda: len(results) == len(references))
    qtbot.waitUntil(lambda: not any(r() for r in references))


def test_closing_waits_for_endless_work_only_until_its_limit(qapp):
    background = Background(worker_count=2)
    gate, started = threading.Event(), threading.Event()

    def hang():
        started.set()
        gate.wait()

    background.run("share", hang, pytest.fail, pytest.fail)
    assert started.wait(LIMIT_S)
    assert not background.close(0.05)
    gate.set()
    background._pool.shutdown()


def test_no_thread_signals_a_deleted_object_after_a_close(qapp):
    background = Background(worker_count=1)
    gate, waited_for, closed = threading.Event(), threading.Event(), threading.Event()
    signalled_too_late = []
    at_shutdown(background, lambda waits: waits and waited_for.set())
    background.run("any", lambda: gate.wait(LIMIT_S), pytest.fail, pytest.fail)
    (future,) = background._running_futures

    def signal(_future):
        waited_for.wait(LIMIT_S)
        signalled_too_late.append(closed.is_set())

    future.add_done_callback(signal)
    gate.set()
    assert background.close()
    closed.set()
    background._pool.shutdown()
    assert signalled_too_late == [False]


def test_closing_does_not_wait_for_work_that_never_began(qapp):
    background = Background(worker_count=1)
    gate, started = threading.Event(), threading.Event()

    def work():
        started.set()
        gate.wait(LIMIT_S)

    background.run("first", work, pytest.fail, pytest.fail)
    background.run("second", pytest.fail, pytest.fail, pytest.fail)
    assert started.wait(LIMIT_S)
    (second,) = (f for f in background._running_futures if not f.running())
    second.add_done_callback(lambda _: gate.set())
    assert background.close()


def test_a_callback_that_runs_the_event_loop_holds_nothing_back(qtbot):
    # With one worker what began first is delivered first.
    background = Background(worker_count=1)
    order, loop = [], QEventLoop()

    def ask(_value):
        loop.exec()
        order.append("asked")

    def answer(_value):
        order.append("answered")
        loop.quit()

    background.run("dialog", lambda: 1, ask, pytest.fail)
    background.run("read", lambda: 2, answer, pytest.fail)
    background._pool.shutdown()
    qtbot.waitUntil(lambda: order == ["answered", "asked"])
