"""From a bare program and a folder of pictures to a job: each click is counted, no path typed."""

from __future__ import annotations

import pytest
from PySide6.QtGui import QColor, QImage
from PySide6.QtWidgets import QAbstractButton, QApplication
from pytestqt.qtbot import QtBot

from backend.records.library.item import Kind
from backend.services.jobs.service import JobService
from tests.app.jobs.test_own_model import Mouse
from tests.programs import open_program
from tests.widgets.library.test_gallery_dialog import click_row, titles
from widgets.common.fields import LineEdit
from widgets.library.gallery_dialog import GalleryDialog
from widgets.library.import_dialog import ImportDialog

CLASSES = {"daisy": "#F8F4E0", "poppy": "#D03020", "violet": "#5030A0"}
SIDE = 28


@pytest.fixture
def program(qapp, request, tmp_path, monkeypatch):
    """A window with an empty library; a job that is started is only made."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(JobService, "create_and_start", JobService.create)
    paths = tmp_path / "root", tmp_path / "catalogue.sqlite"
    with open_program(qapp, QtBot(request), *paths) as program:
        yield program


@pytest.fixture
def flowers(tmp_path):
    for name, colour in CLASSES.items():
        (tmp_path / "flowers" / name).mkdir(parents=True)
        for number in range(12):
            picture = QImage(SIDE, SIDE, QImage.Format.Format_RGB32)
            picture.fill(QColor(colour).lighter(80 + 4 * number))
            assert picture.save(str(tmp_path / "flowers" / name / f"{number}.png"))
    return tmp_path / "flowers"


def dialog_of(qtbot, kind):
    qtbot.waitUntil(lambda: isinstance(QApplication.activeModalWidget(), kind))
    return QApplication.activeModalWidget()


def choose(qtbot, mouse, dialog, title):
    """Click on a row of the list by its title."""
    qtbot.waitUntil(lambda: title in titles(dialog))
    mouse.clicks += 1
    click_row(dialog, title)


def read(dialog):
    """The settings that the dialog shows, by their labels."""
    checked_buttons = [part for part in dialog.findChildren(QAbstractButton) if part.isChecked()]
    texts = {
        part.parentWidget().accessibleName(): part.accessibleName() for part in checked_buttons
    }
    return texts | {e.accessibleName(): e.text() for e in dialog.findChildren(LineEdit)}


def test_from_a_folder_of_pictures_to_a_job_in_eight_clicks(program, flowers, qtbot):
    mouse = Mouse(qtbot, program)
    mouse.drop(flowers)
    mouse.click("Import", dialog_of(qtbot, ImportDialog))
    mouse.click("Add a loader for it", program.library[Kind.DATASET].detail)
    mouse.click("Train…", program.library[Kind.DATASET].detail)
    qtbot.waitUntil(lambda: program.window.page_key == "new-job")
    mouse.click("Gallery…", program.form)
    dialog = dialog_of(qtbot, GalleryDialog)
    choose(qtbot, mouse, dialog, "LeNet-5")
    data_settings = {
        "Classes": "3",
        "Channels of a picture": "3",
        "Side of a picture, pixels": "28",
    }
    qtbot.waitUntil(lambda: data_settings.items() <= read(dialog).items())
    mouse.click("Add", dialog)
    card = program._services.gallery.show("lenet-5").card.training
    qtbot.waitUntil(lambda: program.form._result.text() == "Ready to start")
    previous_count = program.jobs.job_count
    mouse.click("Start", program.form)
    qtbot.waitUntil(
        lambda: program.jobs.job_count > previous_count and program.window.page_key == "jobs"
    )
    view = program.jobs.open_view
    pins = {kind: pin.reference for kind, pin in view.pins.items()}
    assert pins == {"model": "lenet-5@1", "dataset": "flowers@1", "loader": "flowers@1"}
    assert view.name == "lenet-5 1"
    assert view.config.optimizer.name == card["optimizer"]["name"]
    assert view.config.batch_size == card["batch_size"]
    assert (mouse.clicks, mouse.typed_count) == (8, 0)
    code = program._services.library.text(Kind.MODEL, "lenet-5@1", "bks_model.py")
    assert "CLASSES = 3\nCHANNELS = 3\nSIDE = 28\n" in code
