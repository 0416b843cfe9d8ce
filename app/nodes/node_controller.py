"""Poll the nodes every two seconds, and turn user actions on them into calls of the service.

Adding a node is a dialog: the connection stops at each question for the user (accept this key,
enter the passphrase), and starts again with the answer.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from PySide6.QtCore import QObject, QTimer, Signal, Slot
from PySide6.QtWidgets import QWidget

from app.nodes.orphan_finder import OrphanFinder
from app.nodes.provisioning_controller import SetUpController
from app.nodes.ssh_poller import SshWatch
from app.runtime.background import Controller, Runner
from app.runtime.stale_data import stale_reason
from backend.base import log, worker_yield
from backend.base.errors import BackendError
from backend.records.jobs.placement import THIS_COMPUTER
from backend.records.jobs.view import JobView
from backend.records.nodes.entry import HostKey, NodeAddress, NodeEntry
from backend.records.nodes.health import Health, missed_after_s
from backend.records.nodes.provisioning_options import usual_options
from backend.records.nodes.reading import NodeState, Presence
from backend.services.context.container import Services
from backend.ssh.interface import HostKeyChanged, HostKeyUnknown, LoginRefused, PassphraseNeeded
from widgets.nodes.history.node_history import NodeHistoryData, past_of
from widgets.nodes.page import node_actions as do
from widgets.nodes.page.give_way_dialog import GiveWayDialog
from widgets.nodes.page.nodes_page import NodesPage
from widgets.nodes.provisioning.add_node_dialog import AddNodeDialog, NodeRequest

_WAKE_EVERY_S = 30.0
"""A node that was rebooted and has neither systemd nor cron is restarted by this contact."""

_SLOW_S = 10.0
"""A poll of the data root that takes longer is reported; a share that hangs never ends it."""
_PAST_EVERY_S = 120.0
_WATCHED_EVERY_S = 600.0
"""Readings of this window are kept for twenty minutes."""
_PASTS = 8
"""The number of histories kept besides those of watched nodes: a week of eight GPUs is 2 MB."""


def _judged(
    read: Callable[[], Iterable[NodeState]], known: Mapping[str, Health]
) -> tuple[tuple[NodeState, Health], ...]:
    """Return the nodes with their health, judged by all readings up to now."""
    now = time.monotonic()
    found = []
    for state in read():
        found.append(_state_judged(state, known.get(state.name, Health()), now))
        worker_yield.pause()
    return tuple(found)


def _state_judged(state: NodeState, before: Health, now_s: float) -> tuple[NodeState, Health]:
    if state.reading is None:
        return state, before
    health = before.after(state.reading, now_s, state.silent_s)
    return replace(state, health=health.findings), health


class NodeController(Controller):
    """Serve the page Nodes and its dialogs.

    Signals:
        listed: All nodes as a tuple of `NodeState`; this computer is the first.
    """

    listed = Signal(object)

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
        self._here: tuple[NodeState, ...] = ()
        self._remote: tuple[NodeState, ...] | None = None
        """None until the data root has listed them once."""
        self._since: dict[str, float] = {}
        self._looking: dict[str, float] = {}
        """Lanes whose poll has not ended, and when it began."""
        self._woken: dict[str, float] = {}
        self._health: dict[str, Health] = {}
        self._past_read: dict[str, float] = {}
        self._watched: tuple[str, ...] = ()
        self._adding: AddNodeDialog | None = None
        self._request = NodeRequest(NodeAddress(""), "")
        self.set_ups = SetUpController(services, runner, page, window, self)
        self.set_ups.ended.connect(self.refresh)
        self._orphans = OrphanFinder(services, runner, page, self)
        self._ssh = SshWatch(services, runner)
        self._timer = QTimer(self)
        self._timer.setInterval(interval_ms)
        self._timer.timeout.connect(self.refresh)
        actions = page.node_actions
        actions.on(do.CHECK, self._check)
        actions.on(do.RETRY, self._refresh)
        actions.on(do.ADD, self.add)
        actions.on(do.SET_UP, self.set_ups.set_up)
        actions.on(do.SET_UP_AGAIN, self.set_ups.set_up)
        actions.on(do.TAKE_OUT, lambda name: self._set_in_service(name, False))
        actions.on(do.PUT_BACK, lambda name: self._set_in_service(name, True))
        actions.on(do.GIVE_WAY, self._ask_hours)
        actions.on(do.REMOVE_NOW, self._remove)
        actions.on(do.FORGET, self._forget_passphrase)
        actions.on(do.READ_PAST, self._read_past)

    def start(self) -> None:
        self._page.begin_reading()
        self.refresh()
        self._timer.start()

    def stop(self) -> None:
        """Stop polling; running set-ups end at their next step and are found by the next set-up."""
        self._timer.stop()
        self.set_ups.stop()

    def show_jobs(self, views: tuple[JobView, ...]) -> None:
        self._page.show_jobs(views)

    # Polling.

    @Slot()
    def refresh(self) -> None:
        """Poll once; a poll that has not ended is not repeated, and delays no other."""
        self._read_in("node this-computer", self._state_here, self._take_here, log.swallowed)
        self._read_in("nodes", self._services.nodes.remote, self._take_remote, self._miss_remote)

    def _read_in(
        self,
        lane: str,
        read: Callable[[], tuple[NodeState, ...]],
        take: Callable[[tuple[NodeState, ...]], None],
        miss: Callable[[BackendError], None],
    ) -> None:
        if lane in self._looking:
            return
        self._looking[lane] = time.monotonic()

        def taken(found: Sequence[tuple[NodeState, Health]]) -> None:
            self._looking.pop(lane, None)
            self._health.update((state.name, health) for state, health in found)
            take(tuple(state for state, _ in found))

        def missed(error: BackendError) -> None:
            self._looking.pop(lane, None)
            miss(error)

        self._runner.run(lane, partial(_judged, read, dict(self._health)), taken, missed)

    def _state_here(self) -> tuple[NodeState, ...]:
        return (NodeState(THIS_COMPUTER, Presence.ONLINE, self._services.nodes.reading()),)

    def _take_here(self, states: tuple[NodeState, ...]) -> None:
        self._here = states
        # The other nodes follow in a moment, and showing 64 nodes takes time; but a share that
        # hangs must not delay this computer.
        remote_s = time.monotonic() - self._looking.get("nodes", -math.inf)
        if not self._remote or 1000 * remote_s > self._timer.interval() / 2:
            self._doubt_what_hangs()
            self._show()
        if math.isfinite(remote_s) and remote_s > _SLOW_S:
            since = datetime.fromtimestamp(time.time() - remote_s, UTC).astimezone()
            self._page.show_error(f"The data root has not responded since {since:%H:%M}.")

    def _miss_remote(self, error: BackendError) -> None:
        self._page.show_error(error.with_remedy)

    def _doubt_what_hangs(self) -> None:
        """While the poll of the other nodes does not return, show that their state is unknown."""
        words = stale_reason(self._looking.get("nodes", math.inf))
        if not words or self._remote is None:
            return
        self._remote = tuple(
            replace(one, presence=Presence.OFFLINE, message=words)
            if one.presence is Presence.ONLINE
            else one
            for one in self._remote
        )
        now = time.time()
        away = (one.name for one in self._remote if one.presence is not Presence.ONLINE)
        self._since = {name: self._since.get(name, now) for name in away}

    def _take_remote(self, states: tuple[NodeState, ...]) -> None:
        if self._remote is None and not states:
            # With only one computer its page needs no click to open.
            self._orphans.ask(THIS_COMPUTER)
        self._page.show_error("")
        self._remote = states
        self._ssh.poll(states)
        now = time.time()
        away = {one.name for one in states if one.presence is not Presence.ONLINE}
        self._since = {name: self._since.get(name, now) for name in away}
        for one in states:
            # Also a node out of service: it may lead a run.
            is_silent = one.silent_s > missed_after_s(one.reading)
            if is_silent or one.presence is Presence.OFFLINE:
                self._wake(one.name)
        self._show()

    def _wake(self, name: str) -> None:
        """Try to start the agent of a silent node; usually the node itself is offline."""
        now = time.monotonic()
        if now < self._woken.get(name, -_WAKE_EVERY_S) + _WAKE_EVERY_S:
            return
        self._woken[name] = now
        self._runner.run(
            f"wake {name}",
            partial(self._services.provisioning.wake, name),
            lambda _: None,
            log.swallowed,
        )

    def _show(self) -> None:
        if not self._here:
            return
        states = (*self._here, *map(self._ssh.with_ssh_state, self._remote or ()))
        if self._remote is not None:
            self._page.show_nodes(states, self._since)
        self.listed.emit(states)
        # Readings of this window are kept for some minutes only.
        now = time.monotonic()
        opened = self._page.open_name
        if opened and now > self._past_read.get(opened, 0.0) + _PAST_EVERY_S:
            self._read_past(opened)
        for name in self._watched:
            if now > self._past_read.get(name, -_WATCHED_EVERY_S) + _WATCHED_EVERY_S:
                # One after the other: a job may have every node.
                self._read_past(name, "pasts")

    def watch(self, names: tuple[str, ...]) -> None:
        """Also read the last hours of these nodes: a job that ran there is open."""
        known = {state.name for state in self._remote or ()}
        self._watched = tuple(name for name in names if name in known)

    def _read_past(self, name: str, lane: str = "") -> None:
        self._past_read.pop(name, None)
        self._past_read[name] = time.monotonic()
        self._forget_pasts()
        self._runner.run(
            lane or f"past {name}",
            lambda: past_of(self._services.nodes.history(name)),
            partial(self._show_past, name),
            log.swallowed,
        )

    def _show_past(self, name: str, past: NodeHistoryData) -> None:
        if name in self._past_read:
            self._page.show_past(name, past)

    def _forget_pasts(self) -> None:
        """Remove the histories of unwatched nodes except the last few; the oldest go first."""
        resting = [name for name in self._past_read if name not in self._watched]
        for name in resting[:-_PASTS]:
            del self._past_read[name]
            self._page.remove_history(name)

    def _check(self, name: str) -> None:
        self._runner.run(
            f"check {name}",
            partial(self._services.nodes.check, name),
            partial(self._page.show_findings, name),
            lambda error: self._page.show_check_error(name, error.with_remedy),
        )

    def _refresh(self, name: str) -> None:
        def read() -> NodeEntry:
            entry = self._services.cluster.inspect(name)
            self._services.provisioning.wake(name)
            return entry

        self._runner.run(
            f"check {name}",
            read,
            lambda entry: self._runner.notify(f"{entry.name} is reachable."),
            lambda error: self._runner.notify(error.with_remedy),
        )

    # Adding.

    @Slot()
    def add(self) -> None:
        usual = usual_options([one.entry for one in self._remote or () if one.entry is not None])
        dialog = AddNodeDialog([state.name for state in self._remote or ()], self._window, usual)
        dialog.inspection_requested.connect(self._request_add)
        dialog.trusted.connect(self._trust)
        dialog.passphrase_given.connect(self._unlock)
        dialog.cancelled.connect(self._forget_adding)
        dialog.finished.connect(self._forget_adding)
        self._adding = dialog
        dialog.open()

    @Slot(NodeRequest)
    def _request_add(self, request: NodeRequest) -> None:
        self._request = request
        self._try_to_add()

    @Slot(object)
    def _trust(self, key: HostKey) -> None:
        self._try_to_add(key=key)

    @Slot(str, bool)
    def _unlock(self, passphrase: str, keep: bool) -> None:
        self._try_to_add(passphrase=passphrase, keep=keep)

    @Slot()
    def _forget_adding(self) -> None:
        self._adding = None

    def _try_to_add(
        self, key: HostKey | None = None, passphrase: str = "", keep: bool = False
    ) -> None:
        dialog = self._adding
        if dialog is None:
            return
        request, address = self._request, self._request.address
        cluster = self._services.cluster
        dialog.show_progress(f"Connecting to {address.host}")

        def add() -> tuple[NodeEntry, str]:
            if key is not None:
                cluster.accept_key(key)
            asked: list[str] = []

            def give(identity: str) -> str:
                asked.append(identity)
                return passphrase

            entry = cluster.add(
                request.name,
                address,
                accept=lambda _key: False,
                passphrase=give if passphrase else None,
                node_data_root=request.data_root,
                no_share=request.no_share,
            )
            # Stored once it has opened the key; a keyring that stays locked changes nothing.
            try:
                for identity in asked[:1] if keep else ():
                    cluster.keep_passphrase(identity)
            except BackendError as error:
                return entry, f" {error}"
            return entry, ""

        def added(outcome: tuple[NodeEntry, str]) -> None:
            entry, failure = outcome
            self.refresh()
            self._runner.notify(f"Added {entry.name}.{failure}")
            if dialog is self._adding:
                options = dialog.choices.options()
                dialog.accept()
                self.set_ups.set_up_added(entry.name, options)

        def refused(error: BackendError) -> None:
            # The dialog may have been closed in the meantime.
            if dialog is self._adding:
                _explain(dialog, error, bool(passphrase))
                if isinstance(error, PassphraseNeeded):
                    self._check_keyring(dialog)

        self._runner.run("add node", add, added, refused)

    def _check_keyring(self, dialog: AddNodeDialog) -> None:
        def show(fault: str) -> None:
            if dialog is self._adding:
                dialog.show_keyring(fault)

        keyring = self._services.cluster.keyring
        self._runner.run("keyring", keyring.unavailable_reason, show, log.swallowed)

    def _forget_passphrase(self, name: str) -> None:
        def show_keys(keys: tuple[str, ...]) -> None:
            none = f"No passphrase for a key of {name} was stored."
            self._runner.notify(f"Forgot the passphrase of {', '.join(keys)}." if keys else none)

        self._runner.run(
            "keyring",
            partial(self._services.cluster.remove_passphrase, name),
            show_keys,
            lambda error: self._runner.notify(error.with_remedy),
        )

    # Actions on a node.

    def _set_in_service(self, name: str, in_service: bool) -> None:
        self._runner.run(
            "nodes",
            partial(self._services.cluster.set_in_service, name, in_service),
            lambda _entry: self.refresh(),
            lambda error: self._runner.notify(str(error)),
        )

    def _ask_hours(self, name: str) -> None:
        for known in (one.entry for one in self._remote or () if one.name == name):
            if known is not None:
                dialog = GiveWayDialog(name, known.gives_way, self._window)
                dialog.requested.connect(partial(self._set_hours, known))
                dialog.finished.connect(dialog.deleteLater)
                dialog.open()

    def _set_hours(self, known: NodeEntry, hours: str) -> None:
        self._runner.run(
            "nodes",
            partial(self._services.cluster.set_gives_way, known.name, hours, known.gives_way),
            lambda _entry: self.refresh(),
            lambda error: self._runner.notify(error.with_remedy),
        )

    def _remove(self, name: str) -> None:
        def removed(entry: NodeEntry) -> None:
            self.set_ups.remove(entry.name)
            self._runner.notify(f"Removed {entry.name}. Software installed on the node is kept.")
            self.refresh()

        self._runner.run(
            "nodes",
            partial(self._services.cluster.remove, name),
            removed,
            lambda error: self._runner.notify(str(error)),
        )


def _explain(dialog: AddNodeDialog, error: BackendError, had_passphrase: bool) -> None:
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
