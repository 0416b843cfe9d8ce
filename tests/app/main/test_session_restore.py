"""A window whose process is killed comes back as it was left, from what was written meanwhile."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.main.session_restore import first_page
from app.runtime.settings import Preferences, Settings
from backend.services.context.container import open_services
from backend.services.context.example import create_example
from tests.waiting import LIMIT_S

ROOT = Path(__file__).resolve().parents[3]
OPEN = """
import json, sys, tomllib
from pathlib import Path
from PySide6.QtCore import QEventLoop, QTimer
from PySide6.QtWidgets import QApplication
from app.main.bootstrap import Program
from backend.records.library.item import Kind
from backend.services.nodes.service import NodeService
from widgets.jobs.list.job_columns import JobColumn

NodeService.doctor = lambda _: ()  # seconds of torch, and nothing here is about it
app = QApplication(sys.argv[:1])
program = Program(app, Path(sys.argv[1]), Path(sys.argv[2]), None)
program.window.resize(1440, 900)
program.show()

too_late = QTimer(app, singleShot=True, interval=200_000)
too_late.start()

def wait(until):
    while not until():
        assert too_late.isActive(), "it takes too long"
        app.processEvents(QEventLoop.ProcessEventsFlag.WaitForMoreEvents)

wait(lambda: program.is_built)
page = program.jobs
models = program.library[Kind.MODEL].splitter
wait(lambda: page.job_count == 7 and page.model.rowCount())
"""
CHANGE = """
page.sweeps.fold("list", "sweep:lr", False)
page.list.job_chosen.emit(sys.argv[3])
page.split.moveSplitter(431, 1)
page.show_table()
app.processEvents()
page.table.view.setColumnWidth(JobColumn.STATE, 99)
program.window.open_page("models")
models.moveSplitter(402, 1)

def written():
    path = Path(sys.argv[4])
    kept = tomllib.loads(path.read_text()) if path.exists() else {}
    return kept.get("list_widths", {})

# The last thing that is changed is written, and so is all before it.
wait(lambda: written().get("models") == 402)
print("written", flush=True)
app.exec()
"""
RETRY = """
wait(lambda: page.open_id)
found = {"place": program.window.page_key, "as table": page._is_table()}
found["models"] = models.sizes()[0]
found["open"] = page.open_id
found["state column"] = page.table.view.layout_state()["widths"]["state"]
page.show_list()
program.window.open_page("jobs")
app.processEvents()
found["jobs"] = page.split.sizes()[0]
found["rows"] = page.model.rowCount()
print(json.dumps(found))
program.close()
"""


@pytest.fixture
def start(tmp_path):
    """Starts a process with a window on the test's data root, and ends it with the test."""
    processes = []

    def start_it(script, *args):
        environment = {
            **os.environ,
            "XDG_CONFIG_HOME": str(tmp_path / "config"),
            "QT_QPA_PLATFORM": "offscreen",
        }
        process = subprocess.Popen(
            [sys.executable, "-c", OPEN + script, *map(str, paths(tmp_path)), *args],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        return process

    yield start_it
    for process in processes:
        process.kill()
        process.wait()
        process.stdout.close()


def paths(tmp_path):
    return tmp_path / "root", tmp_path / "catalogue.sqlite"


def make_jobs(tmp_path):
    """Seven, of which six are a sweep; the id of the one that is to be open."""
    services = open_services(*paths(tmp_path))
    raw = services.jobs.clone(create_example(services, 1).id)
    views = [
        services.jobs.create({**raw, "name": f"digits seed={n}", "tags": ["sweep:lr"]})
        for n in range(6)
    ]
    services.close()
    return views[2].id


def test_after_a_kill_place_open_job_widths_columns_and_folds_are_as_they_were(tmp_path, start):
    job_id = make_jobs(tmp_path)
    process = start(CHANGE, job_id, str(tmp_path / "config" / "ringmaster" / "window.toml"))
    assert process.stdout.readline() == "written\n", "the window ended by itself"
    process.kill()
    process.wait()

    restarted = start(RETRY)
    out, _ = restarted.communicate(timeout=2 * LIMIT_S)
    assert json.loads(out.splitlines()[-1]) == {
        "place": "models",
        "as table": True,
        "open": job_id,
        "state column": 99,
        "jobs": 431,
        "models": 402,
        "rows": 8,
    }


@pytest.mark.parametrize("spoiled", ["nowhere", "new-job", ""])
def test_an_invalid_place_is_ignored(spoiled):
    assert first_page(Preferences(place=spoiled)) == "jobs"


def test_settings_of_the_wrong_kind_are_left_out_and_the_others_stay(tmp_path):
    path = tmp_path / "window.toml"
    path.write_text('place = 7\nopen_job = "job-1"\nsweep_folds = "all"\njobs_as_table = true\n')
    preferences = Settings(path).preferences
    assert (preferences.place, preferences.sweep_folds) == ("jobs", {})
    assert (preferences.open_job, preferences.jobs_as_table) == ("job-1", True)
