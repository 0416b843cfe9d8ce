"""Compare as a person sees it: pictures to look at, and nothing in them is cut or blank.

They go to a scratch folder; those of the guide into ``docs/pictures`` when RINGMASTER_PICTURES
is set.
"""

import os
from pathlib import Path

import pytest
from PySide6.QtCore import QEvent
from PySide6.QtWidgets import QApplication

from tests.widgets.compare.compare_samples import draft, eight, three
from widgets.common.look import ThemeChoice
from widgets.compare.compare_page import ComparePage
from widgets.main_window import MainWindow

PICTURES = Path(__file__).resolve().parents[3] / "docs" / "pictures"
PUBLISHED = {"compare-1440x900-light", "compare-1440x900-dark"}
CASES = {
    "compare": three,
    "compare-eight": eight,
    "compare-one": lambda: three()[:1],
    "compare-draft": lambda: (*three()[:1], draft()),
    "compare-empty": lambda: (),
}


@pytest.fixture(params=[ThemeChoice.LIGHT, ThemeChoice.DARK], ids=["light", "dark"])
def dressed(request, look):
    look.choose(request.param)
    return request.param.value


@pytest.mark.parametrize("size", [(1440, 900), (1000, 640)], ids=["large", "small"])
@pytest.mark.parametrize("name", CASES)
def test_compare(qtbot, dressed, name, size, tmp_path):
    window, page = MainWindow(), ComparePage()
    qtbot.addWidget(window)
    window.add_page("compare", page)
    window.resize(*size)
    window.show()
    window.go("compare")
    looks = CASES[name]()
    page.set_jobs(tuple(each.view.id for each in looks))
    for each in looks:
        page.show_look(each)
    for _ in range(4):
        QApplication.processEvents()
    whole = f"{name}-{size[0]}x{size[1]}-{dressed}"
    wanted = whole in PUBLISHED and os.environ.get("RINGMASTER_PICTURES")
    image = window.grab().toImage()
    assert image.save(str((PICTURES if wanted else tmp_path) / f"{whole}.png"))
    across, down = range(0, image.width(), 5), range(0, image.height(), 5)
    assert len({image.pixel(x, y) for x in across for y in down}) > 8, f"{whole} is nearly blank"
    if looks:
        scroll = page._scroll
        assert scroll.widget().width() <= scroll.viewport().width(), "it would scroll sideways"
        header = page._header
        assert page._add.geometry().right() <= header.width(), "the header is cut"
        assert header.title.width() >= header.title.sizeHint().width(), "the title is cut"
    window.deleteLater()
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
