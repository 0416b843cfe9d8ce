"""Find processes that runs left behind on a node, and end one on request.

The search runs when the node's page opens, with each check, and after a process was ended.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial

from PySide6.QtCore import QObject, Slot

from app.runtime.background import Runner
from backend.base import log
from backend.base.errors import BackendError
from backend.records.jobs.status import ProcessIdentity
from backend.records.nodes.reading import Orphan
from backend.services.context.container import Services
from widgets.nodes.page.node_actions import CHECK, END_ORPHAN
from widgets.nodes.page.node_lists import process_words
from widgets.nodes.page.nodes_page import NodesPage


class OrphanFinder(QObject):
    """Serve the "left behind" findings of the page Nodes."""

    def __init__(
        self, services: Services, runner: Runner, page: NodesPage, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._services = services
        self._runner = runner
        self._page = page
        self._found: dict[str, tuple[Orphan, ...]] = {}
        self._ending: defaultdict[str, set[ProcessIdentity]] = defaultdict(set)
        page.opened.connect(self.ask)
        page.node_actions.on(CHECK, self.ask)
        page.node_actions.on(END_ORPHAN, self.end)

    @Slot(str)
    def ask(self, node: str) -> None:
        """Search a node for them; an unreachable node reports nothing."""
        if node:
            self._runner.run(
                f"orphans {node}",
                partial(self._services.nodes.orphans, node),
                partial(self._show, node),
                log.swallowed,
            )

    @Slot(str, object)
    def end(self, node: str, orphan: Orphan) -> None:
        """End exactly this process."""
        self._ending[node].add(orphan.process)
        self._show(node, self._found.get(node, ()))

        def ended(left: tuple[Orphan, ...]) -> None:
            self._ending[node].discard(orphan.process)
            self._show(node, left)
            stays = any(one.process == orphan.process for one in left)
            words = process_words(orphan)
            self._runner.notify(
                f"{words} did not end. Ask the node's administrator."
                if stays
                else f"Ended {words}."
            )

        def refused(error: BackendError) -> None:
            self._ending[node].discard(orphan.process)
            self._show(node, self._found.get(node, ()))
            self._runner.notify(error.with_remedy)

        self._runner.run(
            f"orphans {node}",
            partial(self._services.nodes.end_orphans, node, (orphan,)),
            ended,
            refused,
        )

    def _show(self, node: str, found: tuple[Orphan, ...]) -> None:
        self._found[node] = found
        self._page.show_orphans(node, found, frozenset(self._ending[node]))
