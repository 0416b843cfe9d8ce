"""The whole way to the first training of an own model, with the mouse; each click is counted."""

from __future__ import annotations

from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractButton, QApplication, QLineEdit, QWidget
from pytestqt.qtbot import QtBot

from app.main.bootstrap import Program
from backend.records.library.item import PARTS, Kind
from backend.services.jobs.service import JobService
from tests.integration.tiny import LOADER, MODEL
from tests.programs import open_program
from tests.widgets import drags
from widgets.library.import_dialog import ImportDialog


@pytest.fixture(scope="module")
def program(qapp, request, tmp_path_factory):
    """One window for both ways; a job that is started is only made."""
    folder = tmp_path_factory.mktemp("own")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
        patch.setattr(JobService, "create_and_start", JobService.create)
        paths = folder / "root", folder / "catalogue.sqlite"
        with open_program(qapp, QtBot(request), *paths) as program:
            yield program


@pytest.fixture
def make_folder(tmp_path):
    """As people have it: the code of both at the top, the data below."""

    def make(name):
        folder = tmp_path / name
        (folder / "data").mkdir(parents=True)
        (folder / "data/train.csv").write_text("1,2,3,4,0\n")
        (folder / "bks_model.py").write_text(MODEL)
        (folder / "bks_dataset.py").write_text(LOADER)
        (folder / "layers.py").write_text("WIDTH = 64\n")
        return folder

    return make


class Mouse:
    """Clicks on what is seen and able, by its text, and counts."""

    def __init__(self, qtbot: QtBot, program: Program) -> None:
        self._qtbot, self._program = qtbot, program
        self.clicks = self.typed_count = 0

    def click(self, text: str, parent: QWidget) -> None:
        self._qtbot.waitUntil(lambda: self._find(text, parent) is not None)
        button = self._find(text, parent)
        assert button is not None
        self.clicks += 1
        self._qtbot.mouseClick(button, Qt.MouseButton.LeftButton)

    def _find(self, text: str, parent: QWidget) -> QAbstractButton | None:
        return next(
            (
                button
                for button in parent.findChildren(QAbstractButton)
                if button.isVisible()
                and button.isEnabled()
                and button_title(button).startswith(text)
            ),
            None,
        )

    def type(self, field: QLineEdit, text: str) -> None:
        self.typed_count += 1
        self._qtbot.keyClicks(field, text)

    def drop(self, path: Any) -> None:
        self.clicks += 1
        drags.drop(self._program.window, drags.file(path))


def button_title(button: QAbstractButton) -> str:
    return button.text() or button.accessibleName()


def dialog_of(qtbot: QtBot) -> ImportDialog:
    qtbot.waitUntil(lambda: isinstance(QApplication.activeModalWidget(), ImportDialog))
    dialog = QApplication.activeModalWidget()
    assert isinstance(dialog, ImportDialog)
    return dialog


def start_job(mouse: Mouse, program: Program, qtbot: QtBot) -> tuple[dict[str, str], str]:
    """From the dialog, which knows all three, to Start; what the job uses, and its name."""
    mouse.click("Import", dialog_of(qtbot))
    mouse.click("New job with it", program.library[Kind.DATASET].detail)
    qtbot.waitUntil(lambda: program.window.page_key == "new-job")
    qtbot.waitUntil(lambda: program.form._result.text() == "Ready to start")
    previous_count = program.jobs.job_count
    mouse.click("Start", program.form)
    qtbot.waitUntil(
        lambda: program.jobs.job_count > previous_count and program.window.page_key == "jobs"
    )
    view = program.jobs.open_view
    assert view is not None
    return {kind: pin.reference for kind, pin in view.pins.items()}, view.name


@pytest.mark.parametrize(
    ("name", "is_dropped", "clicks", "typed_count"),
    [("plankton", True, 4, 0), ("squid", False, 5, 1)],
)
def test_an_own_model_is_at_most_eight_clicks_from_its_training(
    program, make_folder, qtbot, name, is_dropped, clicks, typed_count
):
    folder = make_folder(name)
    mouse = Mouse(qtbot, program)
    if is_dropped:
        mouse.drop(folder)
    else:
        mouse.click("Loaders", program.window.side_bar)
        mouse.click("Import", program.library[Kind.LOADER])
        mouse.type(dialog_of(qtbot)._source, str(folder))
    references, job = start_job(mouse, program, qtbot)
    assert references == {kind.value: f"{name}@1" for kind in PARTS}
    assert job == f"{name} 1"
    assert (mouse.clicks, mouse.typed_count) == (clicks, typed_count)
    assert (clicks, typed_count) <= (8, 3)
