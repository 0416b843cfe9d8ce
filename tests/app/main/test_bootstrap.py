"""The window by hand: example, live curve, Stop, Resume, Export; and what a killed window costs."""

import gc
import os
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import numpy as np
import PySide6.QtXml
import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget

from app.main.bootstrap import _QT_MODULES
from backend.node.system import process_cleanup
from backend.records.base.layout import run_tag
from backend.records.jobs.state import JobState
from backend.records.library.item import PARTS, Kind
from backend.services.context.container import open_services
from backend.services.context.example import create_example
from tests import programs
from tests.benchmarks.window import PROGRAM, run
from tests.windows import find_button, find_only
from widgets.common.buttons import SegmentedControl
from widgets.common.dialog import TaskStatus
from widgets.common.fields import LineEdit

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def paths(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "root", tmp_path / "catalogue.sqlite"


@pytest.fixture
def open_program(qtbot, qapp, paths):
    """Opens the whole program on the test's data root, with threads and real services."""
    with ExitStack() as stack:
        opening = partial(programs.open_program, qapp, qtbot, *paths, lambda _: True)
        yield lambda: stack.enter_context(opening())
    services = open_services(*paths)
    for view in services.jobs.queries.list():
        process_cleanup.end_tagged(run_tag(view.id, view.run), 0.0)
    services.close()


def state(program):
    view = program.jobs.open_view
    return view.state if view else None


def small_example(services, _workers):
    """The example in one process for a tenth of its time, and no name in the way."""
    raw = services.jobs.clone(create_example(services, 1).id)
    return services.jobs.create({**raw, "epochs": 2, "strategy": {"name": "alone"}})


def test_the_example_is_trained_to_its_end_and_exported(qtbot, open_program, tmp_path, monkeypatch):
    monkeypatch.setattr("app.jobs.job_controller.create_example", small_example)
    program = open_program()
    detail = program.jobs.detail
    first = program.jobs.welcome_page
    qtbot.waitUntil(lambda: first.example.isVisible() and "core" in first._reading_text)
    qtbot.mouseClick(first.example, Qt.MouseButton.LeftButton)

    def points():
        curve = detail.curves.curve("loss")
        return 0 if curve is None else len(curve)

    qtbot.waitUntil(lambda: state(program) is JobState.FINISHED)
    view = program.jobs.open_view
    qtbot.waitUntil(lambda: points() == view.step == view.status.total_steps)
    steps = detail.curves.curve("loss").steps
    assert np.array_equal(steps, np.arange(1, len(steps) + 1)), "the curve has a gap"
    assert dict([view.best_metric])["validation/accuracy"] > 0.5
    qtbot.waitUntil(
        lambda: any(c.is_latest and c.step == view.step for c in detail._checkpoints or ())
    )

    assert {program.library[kind].shown_name for kind in PARTS} == {"digits"}, "without F5"
    assert program.jobs.onboarding_strip.isVisible()
    program.window.open_page("datasets")
    box = program.library[Kind.DATASET].detail._boxes[Kind.LOADER]
    qtbot.waitUntil(lambda: box.key() == "digits")
    program.window.open_page("jobs")

    target = tmp_path / "digits.pt"
    qtbot.mouseClick(detail.header.main_button, Qt.MouseButton.LeftButton)
    dialog = detail.exporter.dialog.dialog
    find_only(SegmentedControl, dialog).choose("pt")
    find_only(LineEdit, dialog).setText(str(target))
    qtbot.mouseClick(find_button(dialog, "Export"), Qt.MouseButton.LeftButton)
    qtbot.waitUntil(target.exists)
    qtbot.waitUntil(lambda: find_only(TaskStatus, dialog).message.isVisible())
    dialog.reject()
    script = "import sys, torch; print(len(torch.load(sys.argv[1], weights_only=True)))"
    loaded = subprocess.run(
        [sys.executable, "-c", script, str(target)], capture_output=True, text=True, check=True
    )
    assert int(loaded.stdout) > 3


@pytest.mark.slow
def test_m12_a_window_killed_in_mid_training_costs_nothing(qtbot, open_program, paths):
    """F6: kill -9 of the window; reopened, the curve has no gap and Stop works."""
    services = open_services(*paths)
    raw = services.jobs.clone(create_example(services).id)
    job = services.jobs.create({**raw, "name": "a long night", "epochs": 400})
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", programs.WINDOW_THAT_STARTS_A_JOB, *map(str, paths), job.id]
    window = subprocess.Popen(command, env=environment)
    try:
        qtbot.waitUntil(lambda: services.jobs.queries.show(job.id).step > 30)
    finally:
        window.send_signal(signal.SIGKILL)
        window.wait()
    view = services.jobs.queries.show(job.id)
    services.close()
    program = open_program()
    detail = program.jobs.detail
    curve = detail.curves.curve
    qtbot.waitUntil(lambda: curve("loss") is not None and len(curve("loss")) > view.step + 20)
    steps = curve("loss").steps
    assert np.array_equal(steps, np.arange(1, len(steps) + 1)), "the curve has a gap"
    qtbot.mouseClick(detail.header.main_button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: state(program) is JobState.INTERRUPTED)
    # The supervisor writes the end before it ends itself.
    qtbot.waitUntil(lambda: not process_cleanup.tagged(run_tag(view.id, view.run)))


def test_main_without_a_subcommand_opens_the_window_and_ctrl_c_closes_it(qtbot, paths):
    command = [sys.executable, str(ROOT / "main.py"), "--data-root", str(paths[0])]
    window = subprocess.Popen(
        [*command, "--catalogue", str(paths[1])], stderr=subprocess.PIPE, text=True
    )
    try:
        # The window opens the catalogue after its first frame.
        qtbot.waitUntil(lambda: paths[1].exists() or window.poll() is not None)
        assert window.poll() is None, window.stderr.read()
        window.send_signal(signal.SIGINT)
        assert window.wait(timeout=60) == 0
    finally:
        window.kill()
        window.communicate()


IMPORTS_IN_THREADS = """
import importlib.abc, sys, threading

class Watch(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        is_qt = name.partition(".")[0] in ("app", "widgets", "PySide6", "pyqtgraph", "superqt")
        if is_qt and threading.current_thread() is not threading.main_thread():
            print("imported on a thread:", name, flush=True)

sys.meta_path.insert(0, Watch())

from pathlib import Path
from PySide6.QtWidgets import QApplication
from app.main.bootstrap import Program

app = QApplication([])
program = Program(app, Path(sys.argv[1]), Path(sys.argv[2]), None)
program.show()

def end(services):
    print("is open", flush=True)
    program.quit()

program.data_root_opener.services_opened.connect(end)
code = app.exec()
program.close()
sys.exit(code)
"""


def test_a_module_with_classes_of_qt_is_never_imported_on_a_thread(paths):
    """PySide keeps its classes in a table that Qt reads without Python's lock."""
    command = [sys.executable, "-c", IMPORTS_IN_THREADS, *map(str, paths)]
    completed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (completed.returncode, completed.stdout) == (0, "is open\n"), completed.stderr


def test_threads_may_ask_for_qt_types_at_the_same_time():
    script = """
import app, sys, threading
from PySide6 import QtCore, QtGui, QtWidgets

sys.setswitchinterval(1e-4)
both = threading.Barrier(2)

def ask_for_all():
    both.wait()
    for module in (QtWidgets, QtGui, QtCore):
        for name in dir(module):
            getattr(module, name)

other = threading.Thread(target=ask_for_all)
other.start()
ask_for_all()
other.join()
"""
    environment = {
        name: value for name, value in os.environ.items() if name != "PYSIDE6_OPTION_LAZY"
    }
    completed = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=environment, check=False, timeout=60
    )
    assert completed.returncode == 0


def test_windows_of_tests_have_their_types_before_any_thread_asks_for_them():
    assert "QDomDocument" in vars(PySide6.QtXml), "it was not loaded"


def test_f38_a_garbage_catalogue_is_reported_and_set_aside_by_one_button(
    qtbot, open_program, paths
):
    paths[1].write_bytes(b"this is no database at all" * 100)
    program = open_program()
    qtbot.waitUntil(lambda: program.window.page_key == "refusal")
    qtbot.mouseClick(
        find_button(program._pages.refusal, "Set it aside and build a new one"),
        Qt.MouseButton.LeftButton,
    )
    qtbot.waitUntil(lambda: program.window.page_key == "jobs" and program._services is not None)
    damaged_files = [p for p in paths[1].parent.iterdir() if "damaged" in p.name]
    assert [p.read_bytes()[:4] for p in damaged_files] == [b"this"]


def test_f58_nothing_that_trains_is_imported_by_the_window():
    modules = (
        "app.main.bootstrap",
        "app.shell.window_controller",
        "app.jobs.job_controller",
        "app.library.library_controller",
    )
    assert not imported_by(modules) & {"torch", "horovod", "onnx", "safetensors"}


def test_p8_the_first_frame_waits_for_nothing_that_comes_after_it():
    late_modules = {
        "app.shell.window_controller",
        "app.notifications.notification_center",
        "app.notifications.tray",
        "app.main.pages",
        "app.jobs.status_poller",
    }
    assert not imported_by(["app.main.gui_main"]) & (
        late_modules | {"pyqtgraph", "sqlalchemy", "fabric"}
    )


def test_p8_no_module_of_the_pages_is_imported_before_the_first_frame(tmp_path):
    script = PROGRAM.replace("time.time()", "*sys.modules")
    imported = run(script, str(tmp_path / "root"), str(tmp_path / "c.sqlite")).split()
    assert "app.main.bootstrap" in imported
    assert not {*_QT_MODULES, "sqlalchemy", "fabric"} & {*imported}


def imported_by(modules):
    script = f"import sys; import {', '.join(modules)}; print(*sys.modules)"
    completed = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return set(completed.stdout.split())


@pytest.fixture
def collects_anywhere():
    """Python as it is when no program takes the collector over."""
    was_enabled, thresholds = gc.isenabled(), gc.get_threshold()
    gc.enable()
    gc.set_threshold(100, 1, 1)
    yield
    gc.set_threshold(*thresholds)
    if not was_enabled:
        gc.disable()


class Panel(QWidget):
    """A widget that knows itself, as one with a bound slot or a child's back reference does."""

    def __init__(self):
        super().__init__()
        self.myself = self


def dropped_panel(destroyed_in):
    Panel().destroyed.connect(
        lambda: destroyed_in.append(threading.current_thread()),
        Qt.ConnectionType.DirectConnection,
    )


def test_work_in_a_thread_never_destroys_a_widget(qtbot, collects_anywhere, open_program):
    program = open_program()
    qtbot.waitUntil(lambda: program._services is not None)
    destroyed_in = []
    dropped_panel(destroyed_in)

    def litter():
        cycles = []
        for _ in range(10_000):
            cycles.append([cycles])

    thread = threading.Thread(target=litter)
    thread.start()
    thread.join()
    qtbot.waitUntil(lambda: bool(destroyed_in))
    assert destroyed_in == [threading.main_thread()]
