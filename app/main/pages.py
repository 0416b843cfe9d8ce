"""The pages of the window, built one at a time after its first frame.

They make a window slow to open: importing the plots and building the pages takes three times as
long as the first visible frame. So the frame is shown first, what this module needs is imported
piece by piece, and `build` returns control to the event loop after each page.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from PySide6.QtWidgets import QWidget

from backend import VERSION
from backend.records.library.item import Kind
from widgets.common.cards import EmptyState
from widgets.compare.compare_page import ComparePage
from widgets.jobs.form.job_form import JobForm
from widgets.jobs.page.jobs_page import JobsPage
from widgets.library.library_page import LibraryPage
from widgets.nodes.page.nodes_page import NodesPage
from widgets.shell.help_page import HelpPage
from widgets.shell.main_window import MainWindow
from widgets.shell.pages import PAGE_KEYS
from widgets.shell.settings_page import SettingsPage


@dataclass
class Pages:
    """All pages of the window, complete once `build` has finished."""

    window: MainWindow
    jobs: JobsPage = field(init=False)
    form: JobForm = field(init=False)
    compare: ComparePage = field(init=False)
    nodes: NodesPage = field(init=False)
    refusal: EmptyState = field(init=False)
    settings: SettingsPage = field(init=False)
    help: HelpPage = field(init=False)
    library: dict[Kind, LibraryPage] = field(default_factory=dict)

    def build(self) -> Iterator[tuple[str, QWidget]]:
        """Yield each page and its key; the first visible page comes first."""
        self.jobs = JobsPage()
        yield "jobs", self.jobs
        self.refusal = EmptyState("warning-octagon", "", "", button="Try again")
        yield "refusal", self.refusal
        self.form = JobForm()
        yield "new-job", self.form
        self.compare = ComparePage()
        yield "compare", self.compare
        for kind, key in PAGE_KEYS.items():
            self.library[kind] = LibraryPage(kind)
            yield key, self.library[kind]
        self.nodes = NodesPage()
        yield "nodes", self.nodes
        self.settings = SettingsPage(VERSION)
        yield "settings", self.settings
        self.help = HelpPage()
        yield "help", self.help

    # Each page takes the focus: its shortcuts work only where the focus is.

    def open_job(self, job_id: str) -> None:
        self.window.open_page("jobs")
        self.jobs.reveal(job_id)
        self.jobs.setFocus()

    def open_sweep(self, tag: str) -> None:
        self.window.open_page("jobs")
        self.jobs.show_list()
        self.jobs.open_sweep(tag)
        self.jobs.setFocus()

    def open_node(self, name: str) -> None:
        self.window.open_page("nodes")
        self.nodes.open_node(name)
        self.nodes.setFocus()

    def show_processes(self, node: str) -> None:
        self.open_node(node)
        self.nodes.detail.show_processes()

    def open_item(self, kind: Kind, name: str) -> None:
        self.window.open_page(PAGE_KEYS[kind])
        self.library[kind].show_item(name)
        self.library[kind].setFocus()
