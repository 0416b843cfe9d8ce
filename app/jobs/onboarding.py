"""Guide the user from the example to the first job of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from PySide6.QtCore import QObject, Slot

from backend.records.library.item import Kind, LibraryItem
from backend.services.context.example import NAME
from widgets.jobs.page.welcome_page import OnboardingStrip


class Onboarding(QObject):
    """Show the strip while all jobs use nothing but the example."""

    def __init__(
        self,
        strip: OnboardingStrip,
        import_new: Callable[[Kind], object],
        add_node: Callable[[], object],
        parent: QObject,
    ) -> None:
        super().__init__(parent)
        self._strip = strip
        self._uses_only_example = False
        self._completed_steps: frozenset[str] = frozenset()
        strip.steps["data"].clicked.connect(partial(import_new, Kind.DATASET))
        strip.steps["model"].clicked.connect(partial(import_new, Kind.MODEL))
        strip.steps["node"].clicked.connect(add_node)

    @Slot(object)
    def see_uses(self, use_counts: Mapping[tuple[str, str], int]) -> None:
        """Take the versions that jobs use, as `ListController.used` reports them."""
        used_names = {
            reference.partition("@")[0] for (_, reference), count in use_counts.items() if count
        }
        self._uses_only_example = used_names == {NAME}
        self._show()

    def see_items(self, items: Mapping[Kind, Iterable[LibraryItem]]) -> None:
        imported_kinds = {
            kind
            for kind, kind_items in items.items()
            if any(item.name != NAME for item in kind_items)
        }
        steps = {"data": {Kind.DATASET}, "model": {Kind.MODEL, Kind.LOADER}}
        completed_steps = {step for step, kinds in steps.items() if kinds <= imported_kinds}
        self._completed_steps = self._completed_steps & {"node"} | completed_steps
        self._show()

    def see_nodes(self, count: int) -> None:
        """Take the nodes; this computer is one of them."""
        completed_steps = self._completed_steps - {"node"}
        self._completed_steps = completed_steps | {"node"} if count > 1 else completed_steps
        self._show()

    def _show(self) -> None:
        self._strip.show_steps(self._completed_steps, is_visible=self._uses_only_example)
