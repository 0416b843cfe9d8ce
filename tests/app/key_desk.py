"""The window, and hands at its keyboard, for whatever presses a key of the sheet."""

from __future__ import annotations

from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest

from tests.app.keyboard_window import rows
from tests.app.pointer import Hands
from tests.app.used_data_root import QUEUED_NAMES, rows_of_all
from tests.windows import find_only
from widgets.common.cards import Card, PageHeader
from widgets.jobs.detail.job_header import JobHeader
from widgets.jobs.list.job_list_model import JobColumn
from widgets.jobs.list.job_list_view import JobListView
from widgets.jobs.list.jobs_table import JobsTable
from widgets.plots.curve_panel import CurvePanel
from widgets.plots.plot_view import PlotView

PRESSED = {}
"""What presses a key and sees what it does, by its place and its words in the sheet."""


def presses(label, page_title=""):
    def take(check):
        PRESSED[page_title, label] = check
        return check

    return take


_KINDS = {
    "plot": (CurvePanel,),
    "card": (Card,),
    "row": (JobListView,),
    "head": (JobHeader, PageHeader, JobsTable),
}


class Desk:
    """The window, and hands at its keyboard."""

    def __init__(self, qtbot, program, ids, folder):
        self.qtbot, self.program, self.ids, self.folder = qtbot, program, ids, folder
        self.hands = Hands(qtbot, program.window)
        self.press, self.wait = self.hands.press, self.hands.wait
        self.jobs, self.window = program.jobs, program.window

    def open(self, name):
        """A job with its curves, the focus in the list."""
        self.program._pages.open_job(self.ids[name])
        detail = self.jobs.detail
        self.wait(lambda: self.jobs.open_id == self.ids[name] and self.jobs.open_view)
        self.wait(lambda: detail._checkpoints is not None)
        detail.tabs.choose("curves")
        self.jobs.setFocus()
        return detail

    def plot(self):
        curves = self.open("slow").curves
        self.wait(lambda: curves.curve("loss") is not None and len(curves.curve("loss")) == 30)
        plot = self.hands.tab_to("Loss")
        plot.fit()
        return plot

    def table(self):
        self.jobs.show_table()
        view = self.jobs.table.view
        self.wait(lambda: view.model().rowCount() == rows_of_all(self.jobs.job_count))
        view.setFocus()
        return view

    def on_row(self, view, name):
        self.wait(lambda: name in rows(view))
        view.setCurrentIndex(view.model().index(rows(view).index(name), JobColumn.NAME))

    def queue(self, name=QUEUED_NAMES[-1]):
        """The focus is on this one that waits."""
        self.wait(lambda: self.order() == list(QUEUED_NAMES))
        self.program._pages.open_job(self.ids[name])
        self.wait(lambda: self.jobs.open_id == self.ids[name] and self.jobs.open_view)
        view = self.jobs.list.view
        self.wait(lambda: view.currentIndex().data() == name)
        view.setFocus()
        return view

    def order(self):
        model = self.jobs.model
        numbers = model.queue_numbers()
        return [model.summary(i).name for i in model.ids(range(model.rowCount())) if i in numbers]

    def compared(self):
        self.program._job_controllers.compare.compare((self.ids["slow"], self.ids["fast"]))
        page = self.program._pages.compare
        self.wait(lambda: len(page.plots.panels()) == 2)
        self.wait(lambda: all(p.isVisible() for p in page.plots.panels().values()))
        return page

    def click(self, area):
        """Click with the mouse: into the middle of a plot or current row, else near an edge."""
        page = self.window._pages[self.window.page_key]
        parts = [part for kind in _KINDS[area] for part in page.findChildren(kind)]
        part = next(part for part in parts if part.isVisible())
        position = QPoint(3, 3)
        if area == "plot":
            part = find_only(PlotView, part).viewport()
            position = part.rect().center()
        elif area == "row":
            position = part.visualRect(part.currentIndex()).center()
            part = part.viewport()
        self.hands.focus().clearFocus()
        QTest.mouseClick(part, Qt.MouseButton.LeftButton, pos=position)

    def sweep(self):
        lots = [i for name, i in self.ids.items() if name.startswith("digits batch")]
        page = self.program._pages.compare
        self.program._job_controllers.compare.compare(tuple(lots[:6]))
        self.wait(
            lambda: page.parallel.isVisible() and len(page.parallel.plot._coordinates.lines) == 6
        )
        plot = page.parallel.plot
        plot.setFocus()
        self.press("Esc")
        return plot
