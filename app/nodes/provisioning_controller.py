"""Set nodes up from the window: the options, the progress, and the result."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from PySide6.QtCore import QObject, QTimer, Signal, Slot
from PySide6.QtWidgets import QWidget

from app.runtime.background import Controller, Runner
from backend.base.errors import BackendError
from backend.base.progress import Progress
from backend.provisioning.step_reporter import with_key
from backend.records.nodes.entry import HostKey, NodeEntry, SetUp
from backend.records.nodes.provisioning_options import (
    SetUpOptions,
    choice_faults,
    options_of,
    usual_options,
)
from backend.services.context.container import Services
from widgets.common.dialog_holder import DialogHolder
from widgets.nodes.page.nodes_page import NodesPage
from widgets.nodes.provisioning.progress_dialog import SetUpDialog
from widgets.nodes.provisioning.reprovision_dialog import SetUpAgainDialog

_STATE_INTERVAL_MS = 150


@dataclass(frozen=True)
class _Known:
    """Facts that the options are based on."""

    entries: tuple[NodeEntry, ...]
    brought_mpi: str


class SetUpController(Controller):
    """Serve the dialogs in which nodes are set up.

    Signals:
        ended: A set-up ended, with or without success.
    """

    ended = Signal()

    def __init__(
        self,
        services: Services,
        runner: Runner,
        page: NodesPage,
        window: QWidget,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(runner, window, parent)
        self._services = services
        self._page = page
        self._dialog: SetUpDialog | None = None
        self._choosing: DialogHolder[SetUpAgainDialog] = DialogHolder()
        self._requested: dict[str, SetUpOptions] = {}
        self._addresses: dict[str, str] = {}
        self._under_way: dict[str, Progress] = {}
        self._stopped: dict[str, tuple[str, ...]] = {}
        self._states: deque[SetUp] = deque()
        self._state_timer = QTimer(self)
        self._state_timer.setInterval(_STATE_INTERVAL_MS)
        self._state_timer.timeout.connect(self._show_states)

    def stop(self) -> None:
        """Stop: set-ups end at their next step and are found by the next set-up."""
        self._state_timer.stop()
        for progress in self._under_way.values():
            progress.cancel()

    @Slot(str)
    def set_up(self, name: str) -> None:
        """Set up a new node, offer options for a ready one, or show the running set-up."""
        if name in self._under_way:
            self._show(name)
        else:
            self._with_known(partial(self._offer, name, None))

    def set_up_added(self, name: str, options: SetUpOptions) -> None:
        """Set up the node that was just added; ask first about options that do not fit it."""
        self._with_known(partial(self._offer, name, options))

    def remove(self, name: str) -> None:
        """Take the removal of a node."""
        self._requested.pop(name, None)
        if self._dialog is not None:
            self._dialog.remove(name)

    # The options.

    def _with_known(self, then: partial[None]) -> None:
        self._runner.run("set up choices", self._known, then, self._show_error)

    def _known(self) -> _Known:
        return _Known(self._services.cluster.list(), self._services.provisioning.bundled_mpi_version())

    def _offer(self, name: str, options: SetUpOptions | None, known: _Known) -> None:
        entry = next((one for one in known.entries if one.name == name), None)
        if entry is None:
            self._runner.notify(f"{name} is no longer in the list of nodes.")
            return
        if options is None:
            usual = options_of(entry) if entry.is_ready else usual_options(known.entries)
            options = self._requested.get(name, usual)
        others = [one for one in known.entries if one is not entry]
        if entry.is_ready or choice_faults(options, [entry], others, known.brought_mpi):
            self._ask(name, options, known)
        else:
            self._begin((name,), options, known.entries)

    def _ask(self, name: str, options: SetUpOptions, known: _Known) -> None:
        if self._choosing.now is not None:
            self._choosing.now.raise_()
            return
        dialog = SetUpAgainDialog(
            known.entries, (name,), options, known.brought_mpi, self._choices_parent()
        )
        dialog.set_up_requested.connect(
            lambda names, chosen: self._begin(names, chosen, known.entries)
        )
        dialog.refresh_requested.connect(self._refresh)
        dialog.trusted.connect(self._trust_and_inspect)
        self._choosing.open(dialog)

    def _choices_parent(self) -> QWidget:
        """The parent of the options: the progress dialog if visible, which would hide them."""
        steps = self._dialog
        return steps if steps is not None and steps.isVisible() else self._window

    @Slot(object)
    def _refresh(self, names: Sequence[str], key: HostKey | None = None) -> None:
        dialog = self._choosing.now

        def read() -> tuple[NodeEntry, ...]:
            if key is not None:
                self._services.cluster.accept_key(key)
            for name in names:
                self._services.cluster.inspect(name)
            return self._services.cluster.list()

        def show(entries: tuple[NodeEntry, ...]) -> None:
            if dialog is not None and dialog is self._choosing.now:
                dialog.show_entries(entries)

        def refuse(error: BackendError) -> None:
            if dialog is None or dialog is not self._choosing.now:
                return
            shown = with_key(SetUp(""), error)
            if shown.key is not None:
                dialog.show_key(shown.key, shown.accepted)
            else:
                dialog.show_error(error.with_remedy)

        self._runner.run("set up choices", read, show, refuse)

    @Slot(object)
    def _trust_and_inspect(self, key: HostKey) -> None:
        if self._choosing.now is not None:
            self._refresh(self._choosing.now.ticked(), key)

    # The steps.

    def _begin(
        self, names: Sequence[str], options: SetUpOptions, entries: Sequence[NodeEntry] = ()
    ) -> None:
        """Set up all of them together, so that Open MPI and the wheels are fetched once."""
        wanted = tuple(name for name in names if name not in self._under_way)
        if not wanted:
            return
        self._addresses.update((entry.name, _who(entry)) for entry in entries)
        for name in wanted:
            self._requested[name] = options
            self._under_way[name] = self._runner.progress(lambda _share, _what: None)
            self._steps().show_set_up(SetUp(name), self._addresses.get(name, ""))
        cancels = {name: self._under_way[name] for name in wanted}
        self._state_timer.start()
        self._show(wanted[0])
        self._runner.run(
            f"set up {wanted[0]}",
            lambda: self._services.provisioning.set_up(
                wanted, self._states.append, lambda name: cancels[name].is_cancelled, options
            ),
            lambda _outcome: self._is_over(cancels),
            partial(self._could_not_begin, cancels),
        )

    def _show(self, name: str) -> None:
        steps = self._steps()
        steps.show()
        steps.choose(name)

    def _steps(self) -> SetUpDialog:
        if self._dialog is None:
            self._dialog = SetUpDialog(self._window)
            self._dialog.retry_requested.connect(self._retry)
            self._dialog.choices_requested.connect(self._choose_again)
            self._dialog.cancel_requested.connect(self._cancel)
            self._dialog.node_opened.connect(self._page.open_node)
            self._dialog.trusted.connect(self._trust)
        return self._dialog

    @Slot(str, str)
    def _retry(self, name: str, _step: str) -> None:
        # Completed steps are detected, so a restart costs no more than a retry.
        self._begin((name,), self._requested[name])

    @Slot(str, object)
    def _trust(self, name: str, key: HostKey) -> None:
        """Continue a set-up that stopped at a key that the user has now accepted."""
        names = self._stopped.pop(name, (name,))
        self._runner.run(
            "set up choices",
            partial(self._services.cluster.accept_key, key),
            lambda _none: self._begin(names, self._requested[name]),
            self._show_error,
        )

    @Slot(str)
    def _choose_again(self, name: str) -> None:
        self._with_known(partial(self._ask, name, self._requested[name]))

    @Slot(str)
    def _cancel(self, name: str) -> None:
        if name in self._under_way:
            self._under_way[name].cancel()

    @Slot()
    def _show_states(self) -> None:
        """Show the latest reports of the set-ups; of many in a moment the last one counts."""
        newest: dict[str, SetUp] = {}
        while self._states:
            state = self._states.popleft()
            newest[state.node] = state
            if state.failed is not None:
                # Other nodes of the same set-up may take minutes; this one can be retried now.
                self._under_way.pop(state.node, None)
        for name, state in newest.items():
            self._page.show_set_up(state)
            self._steps().show_set_up(state, self._addresses.get(name, ""))

    def _is_over(self, began: Mapping[str, Progress]) -> None:
        for name, progress in began.items():
            if self._under_way.get(name) is progress:
                del self._under_way[name]
        self._show_states()
        if not self._under_way:
            self._state_timer.stop()
        self.ended.emit()

    def _could_not_begin(self, began: Mapping[str, Progress], error: BackendError) -> None:
        names = tuple(began)
        shown = _key_of(SetUp(names[0]), error)
        for name in names[1:] if shown.key is not None else names:
            self._steps().remove(name)
        self._is_over(began)
        if shown.key is None:
            self._show_error(error)
        else:
            self._stopped[names[0]] = names
            self._steps().show_set_up(shown)
            self._show(names[0])

    def _show_error(self, error: BackendError) -> None:
        self._runner.notify(error.with_remedy)


def _key_of(state: SetUp, error: BackendError) -> SetUp:
    """Attach the key that kept a set-up from beginning, or the connection that it needed first."""
    cause = error.__cause__
    found = with_key(state, error)
    return found if found.key or not isinstance(cause, BackendError) else with_key(state, cause)


def _who(entry: NodeEntry) -> str:
    address = replace(entry.address, user=entry.facts.user if entry.facts else entry.address.user)
    return f"{address.user}@{address.host}" if address.user else address.host
