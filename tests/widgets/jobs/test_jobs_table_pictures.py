"""Pictures of the wide table in all its states, in both themes, wide and narrow."""

import pytest
from PySide6.QtWidgets import QApplication

from backend.records.queue import Queue, QueueEntry, QueuePlace
from tests.widgets.jobs.jobs_rig import show_jobs
from tests.widgets.jobs.test_jobs_table import TWO, VIEWS, choose, search
from widgets.common.look import ThemeChoice
from widgets.jobs.job_columns import JobColumn
from widgets.jobs.jobs_page import JobsPage
from widgets.main_window import MainWindow

SIZES = ((1440, 900), (1000, 640))


@pytest.fixture(params=[ThemeChoice.LIGHT, ThemeChoice.DARK], ids=["light", "dark"])
def dressed(request, look):
    look.choose(request.param)
    return request.param.value


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}")
def test_pictures_of_the_table(qtbot, dressed, size, tmp_path):
    window, page = MainWindow(), JobsPage()
    qtbot.addWidget(window)
    window.add_page("jobs", page)
    window.resize(*size)
    window.show()
    window.go("jobs")
    page.begin_reading()
    page._slow.timeout.emit()
    page._slow.stop()
    page._settle()

    def take(name):
        for _ in range(3):
            QApplication.processEvents()
        image = window.grab().toImage()
        assert image.save(str(tmp_path / f"table-{name}-{dressed}-{size[0]}.png"))
        across, down = range(0, image.width(), 5), range(0, image.height(), 5)
        assert len({image.pixel(x, y) for x in across for y in down}) > 8, f"{name} is blank"

    take("reading")
    show_jobs(page, VIEWS)
    place = QueuePlace(
        QueueEntry(VIEWS[3].id, VIEWS[3].name, 1, TWO.placement, "m1"), 1, None, None
    )
    page.show_queue(Queue((place,)), at_once=True)
    page.show_table()
    page.table.view.clearSelection()
    page.table.view.setCurrentIndex(page.table.model.index(0, 1))
    take("all")
    choose(page, VIEWS[5].name, VIEWS[6].name, VIEWS[8].name)
    take("chosen")
    page.table.view.clearSelection()
    page.table._funnel_button.click()
    page.table.funnel._high.setText("much")
    page.table.funnel._high.editingFinished.emit()
    take("funnel")
    page.table.funnel._high.setText("")
    page.table._funnel_button.click()
    search(page, "resnt")
    take("no-match")
    page.table.clear()
    page.table.view.edit_cell(2, JobColumn.TAGS)
    take("edit")
    assert page.table.view._is_editing()
