"""Find processes that runs left behind on a node, and end one on request.

The search runs when the node's page opens, with each check, and after a process was ended.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial

from PySide6.QtCore import QObject, Slot

from app.runtime.background import Runner
from app.runtime.controller import Controller
from backend.base import log
from backend.records.jobs.status import ProcessIdentity
from backend.records.nodes.reading import Orphan
from backend.services.context.container import Services
from widgets.nodes.page.node_actions import CHECK, END_ORPHAN
from widgets.nodes.page.node_lists import process_label
from widgets.nodes.page.nodes_page import NodesPage


class OrphanFinder(Controller):
    """Serve the "left behind" findings of the page Nodes."""

    def __init__(
        self, services: Services, runner: Runner, page: NodesPage, parent: QObject | None = None
    ) -> None:
        super().__init__(runner, parent)
        self._services = services
        self._page = page
        self._orphans_by_node: dict[str, tuple[Orphan, ...]] = {}
        self._ending_processes: defaultdict[str, set[ProcessIdentity]] = defaultdict(set)
        page.node_opened.connect(self.search)
        page.node_actions.add_handler(CHECK, self.search)
        page.node_actions.add_handler(END_ORPHAN, self.end_process)

    @Slot(str)
    def search(self, node: str) -> None:
        """Search a node for orphans; an unreachable node reports nothing."""
        if node:
            self._runner.run(
                f"orphans {node}",
                partial(self._services.nodes.orphans, node),
                partial(self._show, node),
                log.swallowed,
            )

    @Slot(str, object)
    def end_process(self, node: str, orphan: Orphan) -> None:
        """End exactly this process."""
        self._ending_processes[node].add(orphan.process)
        self._show(node, self._orphans_by_node.get(node, ()))

        def report_outcome(remaining_orphans: tuple[Orphan, ...]) -> None:
            self._ending_processes[node].discard(orphan.process)
            self._show(node, remaining_orphans)
            still_runs = any(o.process == orphan.process for o in remaining_orphans)
            label = process_label(orphan)
            self._runner.notify(
                f"{label} did not end. Ask the node's administrator."
                if still_runs
                else f"Ended {label}."
            )

        def report_error(message: str) -> None:
            self._ending_processes[node].discard(orphan.process)
            self._show(node, self._orphans_by_node.get(node, ()))
            self._runner.notify(message)

        end_orphan = partial(self._services.nodes.end_orphans, node, (orphan,))
        self.serve(f"orphans {node}", end_orphan, report_outcome, report_error)

    def _show(self, node: str, orphans: tuple[Orphan, ...]) -> None:
        self._orphans_by_node[node] = orphans
        self._page.show_orphans(node, orphans, frozenset(self._ending_processes[node]))
