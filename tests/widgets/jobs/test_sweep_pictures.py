"""Pictures of sweeps in the list, in the table and open, in both themes, wide and narrow."""

import pytest
from PySide6.QtWidgets import QApplication

from tests.widgets.jobs.jobs_rig import show_jobs
from tests.widgets.jobs.sweep_samples import EVERY, LONG, LR
from tests.widgets.jobs.test_jobs_table_pictures import SIZES, dressed
from widgets.jobs.jobs_page import LIST, TABLE, JobsPage
from widgets.main_window import MainWindow

__all__ = ["dressed"]


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}")
def test_pictures_of_sweeps(qtbot, dressed, size, tmp_path):
    window, page = MainWindow(), JobsPage()
    qtbot.addWidget(window)
    window.add_page("jobs", page)
    window.resize(*size)
    window.show()
    window.go("jobs")
    show_jobs(page, EVERY)

    def take(name):
        for _ in range(3):
            QApplication.processEvents()
        image = window.grab().toImage()
        assert image.save(str(tmp_path / f"sweep-{name}-{dressed}-{size[0]}.png"))
        across, down = range(0, image.width(), 5), range(0, image.height(), 5)
        assert len({image.pixel(x, y) for x in across for y in down}) > 8, f"{name} is blank"

    page.open_sweep(LR)
    take("folded")
    page.sweeps.fold(LIST, LR, False)
    page.open_sweep(LONG)
    take("unfolded")
    page.show_table()
    page.table.view.selectRow(page.table.model.row_of(LR))
    take("table")
    page.sweeps.fold(TABLE, LR, True)
    page.table.search.setText("lr=0.003")
    page.table.search._say()
    take("search")
