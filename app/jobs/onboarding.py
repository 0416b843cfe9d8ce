"""Guide the user from the example to the first job of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from PySide6.QtCore import QObject, Slot

from backend.records.library.item import Kind, LibraryItem
from backend.services.context.example import NAME
from widgets.jobs.page.onboarding_strip import OwnStrip


class Onboarding(QObject):
    """Show the strip while all jobs use nothing but the example."""

    def __init__(
        self,
        strip: OwnStrip,
        import_new: Callable[[Kind], object],
        add_node: Callable[[], object],
        parent: QObject,
    ) -> None:
        super().__init__(parent)
        self._strip = strip
        self._is_wanted = False
        self._done: frozenset[str] = frozenset()
        strip.steps["data"].clicked.connect(partial(import_new, Kind.DATASET))
        strip.steps["model"].clicked.connect(partial(import_new, Kind.MODEL))
        strip.steps["node"].clicked.connect(add_node)

    @Slot(object)
    def see_uses(self, uses: Mapping[tuple[str, str], int]) -> None:
        """Take the versions that jobs use, as `ListController.used` reports them."""
        used = {reference.partition("@")[0] for (_, reference), count in uses.items() if count}
        self._is_wanted = used == {NAME}
        self._show()

    def see_items(self, items: Mapping[Kind, Iterable[LibraryItem]]) -> None:
        own = {kind for kind, found in items.items() if any(item.name != NAME for item in found)}
        steps = {"data": {Kind.DATASET}, "model": {Kind.MODEL, Kind.LOADER}}
        done = {step for step, kinds in steps.items() if kinds <= own}
        self._done = self._done & {"node"} | done
        self._show()

    def see_nodes(self, count: int) -> None:
        """Take the nodes; this computer is one of them."""
        done = self._done - {"node"}
        self._done = done | {"node"} if count > 1 else done
        self._show()

    def _show(self) -> None:
        self._strip.show_steps(self._done, is_wanted=self._is_wanted)
