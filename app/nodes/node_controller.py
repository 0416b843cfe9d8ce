"""Poll the nodes every two seconds, and turn user actions on them into calls of the service.

Adding a node is a dialog: the connection stops at each question for the user (accept this key,
enter the passphrase), and starts again with the answer.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from PySide6.QtCore import QObject, QTimer, Signal, Slot
from PySide6.QtWidgets import QWidget

from app.nodes.orphan_finder import OrphanFinder
from app.nodes.provisioning_controller import ProvisioningController
from app.nodes.ssh_poller import SshPoller
from app.runtime.background import Runner
from app.runtime.controller import DialogController
from app.runtime.stale_data import stale_reason
from backend.base import log, worker_yield
from backend.base.errors import BackendError
from backend.records.jobs.placement import THIS_COMPUTER
from backend.records.nodes.entry import HostKey, NodeAddress, NodeEntry
from backend.records.nodes.health import Health, missed_after_s
from backend.records.nodes.provisioning_options import usual_options
from backend.records.nodes.reading import NodeState, Presence
from backend.services.context.container import Services
from backend.ssh.interface import HostKeyChanged, HostKeyUnknown, LoginRefused, PassphraseNeeded
from widgets.common.dialog import Question
from widgets.nodes.history.node_history import NodeHistoryData, to_history_data
from widgets.nodes.page import node_actions
from widgets.nodes.page.node_actions import hours_question
from widgets.nodes.page.nodes_page import NodesPage
from widgets.nodes.provisioning.add_node_dialog import AddNodeDialog, NodeRequest
from widgets.shell.command_palette import PaletteEntry
from widgets.shell.pages import PAGE_ICONS

_WAKE_INTERVAL_S = 30.0
"""A node that was rebooted and has neither systemd nor cron is restarted by this contact."""

_SLOW_S = 10.0
"""A poll of the data root that takes longer is reported; a share that hangs never ends it."""
_HISTORY_INTERVAL_S = 120.0
_WATCH_INTERVAL_S = 600.0
"""Readings of this window are kept for twenty minutes."""
_MAX_HISTORIES = 8
"""The number of histories kept besides those of watched nodes: a week of eight GPUs is 2 MB."""


def _states_with_health(
    read: Callable[[], Iterable[NodeState]], previous_health: Mapping[str, Health]
) -> tuple[tuple[NodeState, Health], ...]:
    """Return the nodes with their health, judged by all readings up to now."""
    now_s = time.monotonic()
    results = []
    for state in read():
        results.append(_state_with_health(state, previous_health.get(state.name, Health()), now_s))
        worker_yield.pause()
    return tuple(results)


def _state_with_health(
    state: NodeState, previous_health: Health, now_s: float
) -> tuple[NodeState, Health]:
    if state.reading is None:
        return state, previous_health
    health = previous_health.after_reading(state.reading, now_s, state.silent_s)
    return replace(state, health=health.findings), health


class NodeController(DialogController[AddNodeDialog | Question]):
    """Serve the page Nodes and its dialogs.

    Attributes:
        names: The names of all nodes once they were listed; this computer is the first.

    Signals:
        nodes_listed: All nodes as a tuple of `NodeState`; this computer is the first.
    """

    nodes_listed = Signal(object)

    def __init__(
        self,
        services: Services,
        runner: Runner,
        page: NodesPage,
        window: QWidget,
        interval_ms: int,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(runner, window, parent)
        self._services = services
        self._page = page
        self.names: tuple[str, ...] = ()
        self._local_states: tuple[NodeState, ...] = ()
        self._remote_states: tuple[NodeState, ...] | None = None
        """None until the data root has listed the nodes once."""
        self._offline_since_s: dict[str, float] = {}
        self._poll_starts_s: dict[str, float] = {}
        """By queue name, the start of the poll that has not ended."""
        self._wake_times_s: dict[str, float] = {}
        self._health: dict[str, Health] = {}
        self._history_times_s: dict[str, float] = {}
        self._watched_nodes: tuple[str, ...] = ()
        self._request = NodeRequest(NodeAddress(""), "")
        self._attempt: object = None
        """The attempt to add a node whose outcome is shown, None after Cancel."""
        self.provisioning = ProvisioningController(services, runner, page, window, self)
        self.provisioning.finished.connect(self.refresh)
        self._orphan_finder = OrphanFinder(services, runner, page, self)
        self._ssh_poller = SshPoller(services, runner)
        self._timer = QTimer(self, interval=interval_ms)
        self._timer.timeout.connect(self.refresh)
        actions = page.node_actions
        actions.add_handler(node_actions.CHECK, self._check)
        actions.add_handler(node_actions.RETRY, self._try_to_reach)
        actions.add_handler(node_actions.ADD, self.add)
        actions.add_handler(node_actions.SET_UP, self.provisioning.set_up)
        actions.add_handler(node_actions.SET_UP_AGAIN, self.provisioning.set_up)
        actions.add_handler(node_actions.TAKE_OUT, lambda name: self._set_in_service(name, False))
        actions.add_handler(node_actions.PUT_BACK, lambda name: self._set_in_service(name, True))
        actions.add_handler(node_actions.GIVE_WAY, self._ask_hours)
        actions.add_handler(node_actions.REMOVE_NOW, self._remove)
        actions.add_handler(node_actions.FORGET, self._remove_passphrase)
        actions.add_handler(node_actions.READ_HISTORY, self._read_open_node)

    def start(self) -> None:
        self._page.begin_reading()
        self.refresh()
        self._timer.start()

    def stop(self) -> None:
        """Stop polling; running set-ups end at their next step and are found by the next set-up."""
        self._timer.stop()
        self.provisioning.stop()

    # Polling.

    @Slot()
    def refresh(self) -> None:
        """Poll once; a poll that has not ended is not repeated, and delays no other."""
        self._poll_states(
            "node this-computer", self._read_local_state, self._take_local_states, log.swallowed
        )
        self._poll_states(
            "nodes",
            self._services.nodes.remote,
            self._take_remote_states,
            lambda error: self._page.show_error(error.with_remedy),
        )

    def _poll_states(
        self,
        queue_name: str,
        read: Callable[[], tuple[NodeState, ...]],
        on_success: Callable[[tuple[NodeState, ...]], None],
        on_error: Callable[[BackendError], None],
    ) -> None:
        if queue_name in self._poll_starts_s:
            return
        self._poll_starts_s[queue_name] = time.monotonic()

        def handle_states(results: Sequence[tuple[NodeState, Health]]) -> None:
            self._poll_starts_s.pop(queue_name, None)
            self._health.update((state.name, health) for state, health in results)
            on_success(tuple(state for state, _ in results))

        def handle_error(error: BackendError) -> None:
            self._poll_starts_s.pop(queue_name, None)
            on_error(error)

        self._runner.run(
            queue_name,
            partial(_states_with_health, read, dict(self._health)),
            handle_states,
            handle_error,
        )

    def _read_local_state(self) -> tuple[NodeState, ...]:
        return (NodeState(THIS_COMPUTER, Presence.ONLINE, self._services.nodes.reading()),)

    def _take_local_states(self, states: tuple[NodeState, ...]) -> None:
        self._local_states = states
        # The other nodes follow in a moment, and showing 64 nodes takes time; but a share that
        # hangs must not delay this computer.
        poll_duration_s = time.monotonic() - self._poll_starts_s.get("nodes", -math.inf)
        if not self._remote_states or 1000 * poll_duration_s > self._timer.interval() / 2:
            self._mark_stale_states()
            self._show()
        if math.isfinite(poll_duration_s) and poll_duration_s > _SLOW_S:
            poll_start = datetime.fromtimestamp(time.time() - poll_duration_s, UTC).astimezone()
            self._page.show_error(f"The data root has not responded since {poll_start:%H:%M}.")

    def _mark_stale_states(self) -> None:
        """While the poll of the other nodes does not return, show that their state is unknown."""
        reason = stale_reason(self._poll_starts_s.get("nodes", math.inf))
        if not reason or self._remote_states is None:
            return
        self._remote_states = tuple(
            replace(state, presence=Presence.OFFLINE, message=reason)
            if state.presence is Presence.ONLINE
            else state
            for state in self._remote_states
        )
        now_s = time.time()
        offline_names = (
            state.name for state in self._remote_states if state.presence is not Presence.ONLINE
        )
        self._offline_since_s = {
            name: self._offline_since_s.get(name, now_s) for name in offline_names
        }

    def _take_remote_states(self, states: tuple[NodeState, ...]) -> None:
        if self._remote_states is None and not states:
            # With only one computer its page needs no click to open.
            self._orphan_finder.search(THIS_COMPUTER)
        self._page.show_error("")
        self._remote_states = states
        self._ssh_poller.poll(states)
        now_s = time.time()
        offline_names = {state.name for state in states if state.presence is not Presence.ONLINE}
        self._offline_since_s = {
            name: self._offline_since_s.get(name, now_s) for name in offline_names
        }
        for state in states:
            # Also a node out of service: it may lead a run.
            is_silent = state.silent_s > missed_after_s(state.reading)
            if is_silent or state.presence is Presence.OFFLINE:
                self._wake(state.name)
        self._show()

    def _wake(self, name: str) -> None:
        """Try to start the agent of a silent node; usually the node itself is offline."""
        now_s = time.monotonic()
        if now_s < self._wake_times_s.get(name, -_WAKE_INTERVAL_S) + _WAKE_INTERVAL_S:
            return
        self._wake_times_s[name] = now_s
        self._runner.run(
            f"wake {name}",
            partial(self._services.provisioning.wake, name),
            lambda _: None,
            log.swallowed,
        )

    def _show(self) -> None:
        if not self._local_states:
            return
        states = (
            *self._local_states,
            *map(self._ssh_poller.with_ssh_state, self._remote_states or ()),
        )
        if self._remote_states is not None:
            self._page.show_nodes(states, self._offline_since_s)
        self.names = tuple(state.name for state in states)
        self.nodes_listed.emit(states)
        # Readings of this window are kept for some minutes only.
        now_s = time.monotonic()
        open_name = self._page.open_name
        if open_name and now_s > self._history_times_s.get(open_name, 0.0) + _HISTORY_INTERVAL_S:
            self._read_open_node(open_name)
        for name in self._watched_nodes:
            if now_s > self._history_times_s.get(name, -_WATCH_INTERVAL_S) + _WATCH_INTERVAL_S:
                # One after the other: a job may have every node.
                self._read_history(name, "pasts")

    def palette_entries(self, _text: str) -> Iterator[PaletteEntry]:
        for name in self.names:
            yield PaletteEntry("node", name, name, "node", PAGE_ICONS["nodes"])

    def watch(self, names: tuple[str, ...]) -> None:
        """Also read the last hours of these nodes: a job that ran there is open."""
        known_names = {state.name for state in self._remote_states or ()}
        self._watched_nodes = tuple(name for name in names if name in known_names)

    def _read_open_node(self, name: str) -> None:
        self._read_history(name)
        self._read_partitions(name)

    def _read_history(self, name: str, queue_name: str = "") -> None:
        self._history_times_s.pop(name, None)
        self._history_times_s[name] = time.monotonic()
        self._remove_histories()
        self._runner.run(
            queue_name or f"past {name}",
            lambda: to_history_data(self._services.nodes.history(name)),
            partial(self._show_history, name),
            log.swallowed,
        )

    def _read_partitions(self, name: str) -> None:
        states = self._remote_states or ()
        entry = next((state.entry for state in states if state.name == name), None)
        if entry is not None and entry.scheduler:
            self._runner.run(
                f"partitions {name}",
                partial(self._services.launchers.partitions, name),
                partial(self._page.show_partitions, name),
                log.swallowed,
            )

    def _show_history(self, name: str, history: NodeHistoryData) -> None:
        if name in self._history_times_s:
            self._page.show_agent_history(name, history)

    def _remove_histories(self) -> None:
        """Remove the histories of unwatched nodes except the last few; the oldest go first."""
        unwatched_nodes = [
            name for name in self._history_times_s if name not in self._watched_nodes
        ]
        for name in unwatched_nodes[:-_MAX_HISTORIES]:
            del self._history_times_s[name]
            self._page.remove_history(name)

    def _check(self, name: str) -> None:
        self.serve(
            f"check {name}",
            partial(self._services.nodes.check, name),
            partial(self._page.show_findings, name),
            partial(self._page.show_check_error, name),
        )

    def _try_to_reach(self, name: str) -> None:
        def read() -> NodeEntry:
            entry = self._services.cluster.inspect(name)
            self._services.provisioning.wake(name)
            return entry

        self.serve(
            f"check {name}", read, lambda entry: self._runner.notify(f"{entry.name} is reachable.")
        )

    def show_error(self, message: str) -> None:
        """Show an error as a message: the open dialog is about another action."""
        self._runner.notify(message)

    # Adding.

    @Slot()
    def add(self) -> None:
        entries = [s.entry for s in self._remote_states or () if s.entry is not None]
        options = usual_options(entries)
        dialog = AddNodeDialog(
            [state.name for state in self._remote_states or ()], self._window, options
        )
        try_to_add = partial(self._try_to_add, dialog)

        def add_requested(request: NodeRequest) -> None:
            self._request = request
            try_to_add()

        def end_attempt() -> None:
            self._attempt = None

        dialog.inspection_requested.connect(add_requested)
        dialog.key_trusted.connect(lambda key: try_to_add(key=key))
        dialog.passphrase_given.connect(
            lambda passphrase, stores: try_to_add(passphrase=passphrase, stores_passphrase=stores)
        )
        dialog.cancelled.connect(end_attempt)
        self.open(dialog)

    def _try_to_add(
        self,
        dialog: AddNodeDialog,
        key: HostKey | None = None,
        passphrase: str = "",
        stores_passphrase: bool = False,
    ) -> None:
        if self.dialog is not dialog:
            return
        attempt = self._attempt = object()
        request, address = self._request, self._request.address
        cluster = self._services.cluster
        dialog.show_progress(f"Connecting to {address.host}")

        def add() -> tuple[NodeEntry, str]:
            if key is not None:
                cluster.accept_key(key)
            locked_keys: list[str] = []

            def answer_passphrase(identity: str) -> str:
                locked_keys.append(identity)
                return passphrase

            entry = cluster.add(
                request.name,
                address,
                accept=lambda _key: False,
                passphrase=answer_passphrase if passphrase else None,
                node_data_root=request.data_root,
                is_staged=request.no_share,
                scheduler=request.scheduler,
            )
            # Stored once it has opened the key; a keyring that stays locked changes nothing.
            try:
                for identity in locked_keys[:1] if stores_passphrase else ():
                    cluster.keep_passphrase(identity)
            except BackendError as error:
                return entry, f" {error}"
            return entry, ""

        def show_added(outcome: tuple[NodeEntry, str]) -> None:
            entry, failure = outcome
            self.refresh()
            self._runner.notify(f"Added {entry.name}.{failure}")
            if self.dialog is dialog and self._attempt is attempt:
                options = dialog.choices.options()
                dialog.accept()
                self.provisioning.set_up_added(entry.name, options)

        def show_error(error: BackendError) -> None:
            if self.dialog is dialog and self._attempt is attempt:
                _show_add_error(dialog, error, bool(passphrase))
                if isinstance(error, PassphraseNeeded):
                    self._check_keyring(dialog)

        self._runner.run("add node", add, show_added, show_error)

    def _check_keyring(self, dialog: AddNodeDialog) -> None:
        show = self.if_open(dialog, dialog.show_keyring)
        keyring = self._services.cluster.keyring
        self._runner.run("keyring", keyring.unavailable_reason, show, log.swallowed)

    def _remove_passphrase(self, name: str) -> None:
        def show_keys(keys: tuple[str, ...]) -> None:
            message = f"No passphrase for a key of {name} was stored."
            self._runner.notify(f"Forgot the passphrase of {', '.join(keys)}." if keys else message)

        self.serve("keyring", partial(self._services.cluster.remove_passphrase, name), show_keys)

    # Actions on a node.

    def _set_in_service(self, name: str, in_service: bool) -> None:
        self._runner.run(
            "nodes",
            partial(self._services.cluster.set_in_service, name, in_service),
            lambda _entry: self.refresh(),
            lambda error: self._runner.notify(str(error)),
        )

    def _ask_hours(self, name: str) -> None:
        for entry in (state.entry for state in self._remote_states or () if state.name == name):
            if entry is not None:
                set_hours = partial(self._set_hours, entry)
                self.open(hours_question(name, entry.gives_way, set_hours, self._window))

    def _set_hours(self, entry: NodeEntry, hours: str) -> None:
        set_hours = self._services.cluster.set_gives_way
        change = partial(set_hours, entry.name, hours, entry.gives_way)
        self.serve("nodes", change, lambda _entry: self.refresh())

    def _remove(self, name: str) -> None:
        def report_removal(entry: NodeEntry) -> None:
            self.provisioning.remove(entry.name)
            self._runner.notify(f"Removed {entry.name}. Software installed on the node is kept.")
            self.refresh()

        self._runner.run(
            "nodes",
            partial(self._services.cluster.remove, name),
            report_removal,
            lambda error: self._runner.notify(str(error)),
        )


def _show_add_error(dialog: AddNodeDialog, error: BackendError, had_passphrase: bool) -> None:
    """Ask the question that the connection stopped at, if the user can answer it."""
    if isinstance(error, HostKeyUnknown):
        dialog.ask_trust(error.key)
    elif isinstance(error, HostKeyChanged):
        dialog.show_changed_key(error.key, error.accepted_fingerprint)
    elif isinstance(error, PassphraseNeeded):
        refusal = "That passphrase is wrong." if had_passphrase else ""
        dialog.ask_passphrase(f"Passphrase for {error.identity}", refusal)
    elif isinstance(error, LoginRefused):
        dialog.show_refusal("user", str(error), error.remedy)
    else:
        dialog.show_refusal("host", str(error), error.remedy)
