"""Reports in the window: of the job of a menu, of selected jobs, and of compared ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.jobs.report_controller import ReportController
from app.runtime.background import Runner
from backend.services.context.container import Services, open_services
from tests.asks import open_menu_entries
from tests.fakes import trained
from tests.widgets.jobs.jobs_rig import show_jobs
from tests.windows import find_button, find_only
from widgets.common.buttons import Switch
from widgets.common.dialog import TaskStatus
from widgets.common.fields import LineEdit
from widgets.jobs.actions.job_actions import BULK_ACTIONS, REPORT_ALL, SWEEP_ACTIONS, Selection
from widgets.jobs.page.jobs_page import JobsPage
from widgets.jobs.page.report_dialog import ReportDialog


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Services]:
    container = open_services(tmp_path / "root", tmp_path / "c.sqlite")
    trained.job(tmp_path / "root", "a/b", [2.0, 1.0], [0.5])
    yield container
    container.close()


@pytest.fixture
def page(qtbot: QtBot, services: Services) -> JobsPage:
    page = JobsPage()
    qtbot.addWidget(page)
    page.show()
    (view,) = services.queries.list()
    show_jobs(page, (view,))
    page.open_job(view.id)
    return page


@pytest.fixture
def controller(services: Services, page: JobsPage, immediately: Runner) -> ReportController:
    return ReportController(services, immediately, page, page)


def choose(
    monkeypatch: pytest.MonkeyPatch, qtbot: QtBot, dialog: ReportDialog, path: Path | str
) -> list[str]:
    """Press "Save as…" and choose a path; return the suggested one."""
    suggested_paths = []

    def choose_path(_parent: object, _title: str, suggested: str, _kind: str) -> tuple[str, str]:
        suggested_paths.append(suggested)
        return str(path), ""

    monkeypatch.setattr("widgets.jobs.page.report_dialog.QFileDialog.getSaveFileName", choose_path)
    qtbot.mouseClick(find_button(dialog, "Save as…"), Qt.MouseButton.LeftButton)
    return suggested_paths


def test_a_report_is_written_from_the_menu_of_a_job(
    controller: ReportController,
    page: JobsPage,
    qtbot: QtBot,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    open_menu_entries(page.detail.header.menu_button)["Report…"].trigger()
    dialog = controller.dialog
    assert isinstance(dialog, ReportDialog)
    target = tmp_path / "mine.html"
    target.write_text("an older one, which Qt asked about")
    (suggested,) = choose(monkeypatch, qtbot, dialog, target)
    assert Path(suggested).name == "a-b.html"
    status = find_only(TaskStatus, dialog)
    assert status.message.text() == f"Written to {target}."
    assert not status.show_in_folder.isHidden()
    assert "<h1>a/b</h1>" in target.read_text("utf-8")
    assert choose(monkeypatch, qtbot, dialog, "") == [str(target)], "another try starts there"
    assert choose(monkeypatch, qtbot, dialog, tmp_path / "no" / "r.html")
    assert "does not exist" in status.message.text()


def test_samples_and_places_are_what_the_user_chose(
    controller: ReportController,
    services: Services,
    qtbot: QtBot,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    requests = []
    monkeypatch.setattr(
        services.reports, "write", lambda ids, path, **rest: requests.append((ids, rest)) or path
    )
    controller.ask(["x", "y"])
    dialog = controller.dialog
    assert dialog is not None
    find_only(LineEdit, dialog).setText(" 0-9 ")
    find_only(Switch, dialog).setChecked(True)
    (suggested,) = choose(monkeypatch, qtbot, dialog, tmp_path / "r.html")
    assert Path(suggested).name == "report.html"
    ((ids, options),) = requests
    assert ids == ("x", "y")
    assert options["samples"] == "0-9"
    assert options["shows_places"] is True


def test_selected_jobs_are_compared_up_to_eight_and_a_sweep_is_of_any_size() -> None:
    assert REPORT_ALL in BULK_ACTIONS
    (of_sweep,) = (action for action in SWEEP_ACTIONS if action == REPORT_ALL)
    assert [REPORT_ALL.is_enabled(Selection(n, 0, 0)) for n in (1, 2, 8, 9)] == [0, 1, 1, 0]
    assert of_sweep.is_enabled(Selection(90, 0, 0))
