"""Set nodes up from the window: the options, the progress, and the result."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from PySide6.QtCore import QObject, QTimer, Signal, Slot
from PySide6.QtWidgets import QWidget

from app.runtime.background import Runner
from app.runtime.controller import DialogController
from backend.base.errors import BackendError
from backend.base.progress import Progress
from backend.provisioning.step_reporter import with_key
from backend.records.nodes.entry import HostKey, NodeEntry, SetUp
from backend.records.nodes.provisioning_options import (
    SetUpOptions,
    choice_errors,
    options_of,
    usual_options,
)
from backend.services.context.container import Services
from widgets.nodes.page.nodes_page import NodesPage
from widgets.nodes.provisioning.progress_dialog import SetUpDialog
from widgets.nodes.provisioning.reprovision_dialog import SetUpAgainDialog

_QUEUE = "set up choices"
_STATE_INTERVAL_MS = 150


@dataclass(frozen=True)
class _OptionInputs:
    """The inputs of the options."""

    entries: tuple[NodeEntry, ...]
    bundled_mpi: str


class ProvisioningController(DialogController[SetUpAgainDialog]):
    """Serve the dialogs in which nodes are set up.

    Signals:
        finished: A set-up ended, with or without success.
    """

    finished = Signal()

    def __init__(
        self,
        services: Services,
        runner: Runner,
        page: NodesPage,
        window: QWidget,
        parent: QObject | None = None,
    ) -> None:
        # Not of the window: it is stopped after the window is deleted.
        super().__init__(runner, window, parent)
        self._services = services
        self._page = page
        self._steps_dialog: SetUpDialog | None = None
        self._options_by_node: dict[str, SetUpOptions] = {}
        self._addresses: dict[str, str] = {}
        self._progress_by_node: dict[str, Progress] = {}
        self._blocked_groups: dict[str, tuple[str, ...]] = {}
        self._states: deque[SetUp] = deque()
        self._state_timer = QTimer(self, interval=_STATE_INTERVAL_MS)
        self._state_timer.timeout.connect(self._show_states)

    def stop(self) -> None:
        """Stop: set-ups end at their next step and are found by the next set-up."""
        self._state_timer.stop()
        for progress in self._progress_by_node.values():
            progress.cancel()

    @Slot(str)
    def set_up(self, name: str) -> None:
        """Set up a new node, offer options for a ready one, or show the running set-up."""
        if name in self._progress_by_node:
            self._show(name)
        else:
            self._read_inputs(partial(self._offer_options, name, None))

    def set_up_added(self, name: str, options: SetUpOptions) -> None:
        """Set up the node that was just added; ask first about options that do not fit it."""
        self._read_inputs(partial(self._offer_options, name, options))

    def remove(self, name: str) -> None:
        """Take the removal of a node."""
        self._options_by_node.pop(name, None)
        if self._steps_dialog is not None:
            self._steps_dialog.remove_node(name)

    # The options.

    def _read_inputs(self, on_success: partial[None]) -> None:
        def read() -> _OptionInputs:
            return _OptionInputs(
                self._services.cluster.list(), self._services.provisioning.bundled_mpi_version()
            )

        self.serve(_QUEUE, read, on_success, self._runner.notify)

    def _offer_options(
        self, name: str, options: SetUpOptions | None, inputs: _OptionInputs
    ) -> None:
        entry = next((e for e in inputs.entries if e.name == name), None)
        if entry is None:
            self._runner.notify(f"{name} is no longer in the list of nodes.")
            return
        if options is None:
            default_options = options_of(entry) if entry.is_ready else usual_options(inputs.entries)
            options = self._options_by_node.get(name, default_options)
        other_entries = [e for e in inputs.entries if e is not entry]
        if entry.is_ready or choice_errors(options, [entry], other_entries, inputs.bundled_mpi):
            self._ask_options(name, options, inputs)
        else:
            self._start_set_up((name,), options, inputs.entries)

    def _ask_options(self, name: str, options: SetUpOptions, inputs: _OptionInputs) -> None:
        if self.dialog is not None:
            self.dialog.raise_()
            return
        dialog = SetUpAgainDialog(
            inputs.entries, (name,), options, inputs.bundled_mpi, self._choices_parent()
        )
        dialog.set_up_requested.connect(
            lambda names, options: self._start_set_up(names, options, inputs.entries)
        )
        dialog.refresh_requested.connect(partial(self._refresh, dialog))
        dialog.key_trusted.connect(lambda key: self._refresh(dialog, dialog.selected_names(), key))
        self.open(dialog)

    def _choices_parent(self) -> QWidget:
        """Return the parent of the options: the progress dialog if visible, or the window."""
        dialog = self._steps_dialog
        return dialog if dialog is not None and dialog.isVisible() else self._window

    def _refresh(
        self, dialog: SetUpAgainDialog, names: Sequence[str], key: HostKey | None = None
    ) -> None:
        def read() -> tuple[NodeEntry, ...]:
            if key is not None:
                self._services.cluster.accept_key(key)
            for name in names:
                self._services.cluster.inspect(name)
            return self._services.cluster.list()

        def show_error(error: BackendError) -> None:
            set_up = with_key(SetUp(""), error)
            if set_up.key is not None:
                dialog.show_key(set_up.key, set_up.accepted_fingerprint)
            else:
                dialog.show_error(error.with_remedy)

        if_open = partial(self.if_open, dialog)
        self._runner.run(_QUEUE, read, if_open(dialog.show_entries), if_open(show_error))

    # The steps.

    def _start_set_up(
        self, names: Sequence[str], options: SetUpOptions, entries: Sequence[NodeEntry] = ()
    ) -> None:
        """Set up all of them together, so that Open MPI and the wheels are fetched once."""
        new_names = tuple(name for name in names if name not in self._progress_by_node)
        if not new_names:
            return
        self._addresses.update((entry.name, _login_address(entry)) for entry in entries)
        for name in new_names:
            self._options_by_node[name] = options
            self._progress_by_node[name] = self._runner.progress(lambda _share, _step: None)
            self._progress_dialog().show_set_up(SetUp(name), self._addresses.get(name, ""))
        progresses = {name: self._progress_by_node[name] for name in new_names}
        self._state_timer.start()
        self._show(new_names[0])
        self._runner.run(
            f"set up {new_names[0]}",
            lambda: self._services.provisioning.set_up(
                new_names, self._states.append, lambda name: progresses[name].is_cancelled, options
            ),
            lambda _outcome: self._finish(progresses),
            partial(self._handle_start_error, progresses),
        )

    def _show(self, name: str) -> None:
        dialog = self._progress_dialog()
        dialog.show()
        dialog.select_node(name)

    def _progress_dialog(self) -> SetUpDialog:
        dialog = self._steps_dialog
        if dialog is None:
            dialog = self._steps_dialog = SetUpDialog(self._window)
            dialog.retry_requested.connect(self._retry)
            dialog.choices_requested.connect(self._choose_again)
            dialog.cancel_requested.connect(self._cancel)
            dialog.node_opened.connect(self._page.open_node)
            dialog.key_trusted.connect(self._accept_key)
        return dialog

    @Slot(str, str)
    def _retry(self, name: str, _step: str) -> None:
        # Completed steps are detected, so a restart costs no more than a retry.
        self._start_set_up((name,), self._options_by_node[name])

    @Slot(str, object)
    def _accept_key(self, name: str, key: HostKey) -> None:
        """Continue a set-up that stopped at a key that the user has now accepted."""
        names = self._blocked_groups.pop(name, (name,))
        self.serve(
            _QUEUE,
            partial(self._services.cluster.accept_key, key),
            lambda _result: self._start_set_up(names, self._options_by_node[name]),
            self._runner.notify,
        )

    @Slot(str)
    def _choose_again(self, name: str) -> None:
        self._read_inputs(partial(self._ask_options, name, self._options_by_node[name]))

    @Slot(str)
    def _cancel(self, name: str) -> None:
        if name in self._progress_by_node:
            self._progress_by_node[name].cancel()

    @Slot()
    def _show_states(self) -> None:
        """Show the latest reports of the set-ups; of many in a moment the last one counts."""
        newest_states: dict[str, SetUp] = {}
        while self._states:
            state = self._states.popleft()
            newest_states[state.node] = state
            if state.failed_step is not None:
                # Other nodes of the same set-up may take minutes; this one can be retried now.
                self._progress_by_node.pop(state.node, None)
        for name, state in newest_states.items():
            self._page.show_set_up(state)
            self._progress_dialog().show_set_up(state, self._addresses.get(name, ""))

    def _finish(self, progresses: Mapping[str, Progress]) -> None:
        for name, progress in progresses.items():
            if self._progress_by_node.get(name) is progress:
                del self._progress_by_node[name]
        self._show_states()
        if not self._progress_by_node:
            self._state_timer.stop()
        self.finished.emit()

    def _handle_start_error(self, progresses: Mapping[str, Progress], error: BackendError) -> None:
        names = tuple(progresses)
        state = _with_cause_key(SetUp(names[0]), error)
        for name in names[1:] if state.key is not None else names:
            self._progress_dialog().remove_node(name)
        self._finish(progresses)
        if state.key is None:
            self._runner.notify(error.with_remedy)
        else:
            self._blocked_groups[names[0]] = names
            self._progress_dialog().show_set_up(state)
            self._show(names[0])


def _with_cause_key(state: SetUp, error: BackendError) -> SetUp:
    """Attach the key that kept a set-up from beginning, or the connection that it needed first."""
    cause = error.__cause__
    state_with_key = with_key(state, error)
    return (
        state_with_key
        if state_with_key.key or not isinstance(cause, BackendError)
        else with_key(state, cause)
    )


def _login_address(entry: NodeEntry) -> str:
    address = replace(entry.address, user=entry.info.user if entry.info else entry.address.user)
    return f"{address.user}@{address.host}" if address.user else address.host
