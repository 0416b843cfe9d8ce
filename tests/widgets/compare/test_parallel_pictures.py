"""Parallel coordinates as a person sees them: with a few jobs, with many, with very many."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QEvent
from PySide6.QtWidgets import QApplication

from backend.records.comparison import ComparedLook, RunFigures
from backend.records.series import HistoryUpdate
from tests.widgets.compare.sweep_samples import sweep
from widgets.common.look import ThemeChoice
from widgets.compare.compare_page import ComparePage
from widgets.main_window import MainWindow


@pytest.fixture(params=[ThemeChoice.LIGHT, ThemeChoice.DARK], ids=["light", "dark"])
def dressed(request, look):
    look.choose(request.param)
    return request.param.value


@pytest.mark.parametrize("size", [(1440, 900), (1000, 640)], ids=["large", "small"])
@pytest.mark.parametrize("count", [6, 60, 500])
def test_the_plot_and_its_table_are_whole_at_every_size(qtbot, dressed, count, size, tmp_path):
    window, page = MainWindow(), ComparePage()
    qtbot.addWidget(window)
    window.add_page("compare", page)
    window.resize(*size)
    window.show()
    window.go("compare")
    jobs = sweep(count)
    page.set_jobs((jobs[0].id,))
    page.show_look(ComparedLook(jobs[0], HistoryUpdate(drop_from=0), RunFigures()))
    page.show_siblings(jobs)
    if count == 60:
        page.parallel.plot.brush(1, 0.45, 0.8)
        page.parallel.plot.brush(0, 0.0, 0.5)
    page.parallel.plot.point(page.parallel.shown.ranked()[2 if count == 60 else 1].job_id)
    for _ in range(4):
        QApplication.processEvents()
    bar = page._scroll.verticalScrollBar()
    bar.setValue(bar.maximum())
    QApplication.processEvents()
    image = window.grab().toImage()
    assert image.save(str(tmp_path / f"parallel-{count}-{size[0]}x{size[1]}-{dressed}.png"))
    card = page.parallel
    assert card.isVisible()
    assert len(card.shown.lines) == count
    assert card.plot.height() >= card.plot.minimumSizeHint().height()
    assert card.table.horizontalScrollBar().maximum() == 0, "the table would scroll sideways"
    last = card.plot.axis_x(len(card.shown.axes) - 1)
    assert last < card.plot.width() - 20
    window.deleteLater()
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
