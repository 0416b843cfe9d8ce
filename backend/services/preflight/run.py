"""One pre-flight check: find everything that would prevent a job from running.

All nodes are asked in parallel over their own connections, with their own time limits, so that a
node that does not answer delays only the end. Nothing is started or changed, with two exceptions
that the start makes as well: mpirun's SSH settings on the head node are updated, and a folder in
the data root proves that all nodes see the same one; it is removed again.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

from backend.base.cores import usable_cores
from backend.base.errors import BackendError, Cancelled
from backend.base.log import suppress
from backend.launch.network import common_subnet
from backend.node.system.mpi import find_mpirun
from backend.node.system.start_supervisor import CODE_ROOT
from backend.provisioning import cluster_key
from backend.provisioning.agent_commands import AgentPlace
from backend.provisioning.code_archive import bundle_name
from backend.records.base.folder_modes import is_narrower
from backend.records.base.layout import NodeHome
from backend.records.jobs.config import THIS_COMPUTER, JobConfig
from backend.records.nodes.entry import NodeEntry
from backend.records.nodes.preflight import Fix, Preflight, PreflightFinding, smaller_placement
from backend.services.preflight import findings as preflight_findings
from backend.services.preflight import node_findings, node_probe
from backend.services.preflight.connectivity import Meeting, route_findings
from backend.services.preflight.context import (
    NodePreflight,
    PreflightContext,
    facts_of,
    looking_python,
    settings_texts,
    too_many_processes,
)
from backend.services.preflight.findings import NodeReplies, PreflightTarget
from backend.services.preflight.node_probe import NoPython
from backend.services.tools.training_python import has_horovod, lack_here
from backend.ssh.interface import Shell

_log = logging.getLogger(__name__)
_DRAIN_S = 0.1
_LOOK_S = 0.05
_NONCE_BYTES = 64
_LIBRARIES = {"allreduce": "horovod", "ddp": "mpi4py"}
"""Of each strategy, as in `PreflightTarget`."""

OnFinding = Callable[[PreflightFinding], None]


class PreflightRun:
    """One pre-flight check."""

    def __init__(self, ground: PreflightContext, config: JobConfig, needed_bytes: int) -> None:
        self._root = ground.root
        self._cluster = ground.cluster
        self._set_up = ground.set_up
        self._python = ground.python()
        self._share = ground.share
        self._config = config
        self._needed_bytes = needed_bytes
        self._news: queue.Queue[PreflightFinding | None] = queue.Queue()
        self._findings: list[PreflightFinding] = []
        self._limits, self._now = ground.limits, ground.now
        self._began = self._now()
        self._token = secrets.token_hex(16)
        self._nonce = secrets.token_hex(16)
        self._parts: dict[str, NodePreflight] = {}
        self._has_horovod: dict[str, bool] = {}
        self._library = _LIBRARIES.get(config.strategy.name, "")
        self._over = threading.Event()

    def fly(self, on_finding: OnFinding, cancelled: Callable[[], bool]) -> Preflight:
        """See `PreflightService.run`."""

        def take(finding: PreflightFinding) -> None:
            self._findings.append(finding)
            on_finding(finding)

        try:
            with self._proof() as fault:
                for finding in (*fault, *self._known_before()):
                    take(finding)
                self._ask_all(take, cancelled, sees_root=not fault)
                for finding in (*self._silent(), *self._versions(), *self._routes()):
                    take(finding)
        finally:
            self._over.set()
        nodes = tuple(placement.node for placement in self._config.placement)
        unchecked = tuple(self._unchecked(nodes))
        for finding in self._unexplained(unchecked):
            take(finding)
        told = {finding.check for finding in self._findings}
        for check in self._checked(nodes):
            if check not in told | {one for one, _ in unchecked}:
                take(PreflightFinding(check, True, f"{check[0].upper()}{check[1:]}: OK"))
        order = {check: number for number, check in enumerate(preflight_findings.ALL)}
        self._findings.sort(key=lambda one: (one.ok, one.is_warning, order[one.check]))
        took_s = self._now() - self._began
        found = Preflight(nodes, tuple(self._findings), took_s, unchecked=unchecked)
        if found.passed:
            return found
        return replace(found, smaller=smaller_placement(self._config.placement, found.findings))

    def _checked(self, nodes: Sequence[str]) -> Iterator[str]:
        for check in preflight_findings.ALL:
            is_far = any(node != THIS_COMPUTER for node in nodes)
            if check in preflight_findings.ONLY_BETWEEN and len(nodes) < 2:
                continue
            libraries = preflight_findings.LIBRARIES
            far_only = (preflight_findings.PYTHON, *libraries.values())
            if (check in preflight_findings.ONLY_FAR or check in far_only) and not is_far:
                continue
            unused = {*libraries.values()} - {libraries["torch"], libraries.get(self._library)}
            if check in unused:
                continue
            if check == preflight_findings.GPUS and not self._config.uses_gpus:
                continue
            if check == preflight_findings.OPEN_MPI and not self._library:
                continue
            yield check

    def _silent(self) -> Iterator[PreflightFinding]:
        for name, part in self._parts.items():
            if not part.is_over:
                yield preflight_findings.no_answer(name, self._whole_s)

    def _unchecked(self, nodes: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Yield each check that has no answer, with its node; it has not passed."""
        for check in self._checked(nodes):
            for placement in self._config.placement:
                part = self._parts.get(placement.node)
                if check == preflight_findings.GPUS and not placement.gpus:
                    continue
                if part is None or not self._is_made(check, part):
                    yield check, placement.node

    def _is_made(self, check: str, part: NodePreflight) -> bool:
        if check in (preflight_findings.NODE, preflight_findings.PROCESSES):
            return True
        if check in (preflight_findings.SSH, preflight_findings.HOST_KEY, preflight_findings.CLOCK):
            return part.has_answered
        if check == preflight_findings.NETWORK:
            return bool(part.address)
        if check == preflight_findings.SETTINGS:
            return part.has_settings or not part.site.leads
        if check in (preflight_findings.ROUTE, preflight_findings.BETWEEN):
            return not self._unmet(check, part)
        return check in node_findings.made(part.site, part.told)

    def _unmet(self, check: str, part: NodePreflight) -> set[str]:
        """Return the other nodes that ``part`` should have reached and has no result for."""
        kind = "route" if check == preflight_findings.ROUTE else "ssh"
        if kind == "ssh" and not part.site.leads:
            return set()
        met = {one["node"] for one in part.met if one["kind"] == kind}
        return {one.node for one in self._config.placement} - met - {part.site.node}

    def _unexplained(self, unchecked: Sequence[tuple[str, str]]) -> Iterator[PreflightFinding]:
        """Yield a finding for what was not checked although nothing else is wrong with the node."""
        blocking = [finding for finding in self._findings if finding.blocks]
        if any(not finding.nodes for finding in blocking):
            return
        wrong = {node for finding in blocking for node in finding.nodes}
        known = {(one.check, node) for one in self._findings if not one.ok for node in one.nodes}
        left: dict[str, list[str]] = {}
        for check, node in unchecked:
            part = self._parts.get(node)
            others = {one.node for one in self._config.placement} - {node}
            if part is not None and check in (preflight_findings.ROUTE, preflight_findings.BETWEEN):
                others = self._unmet(check, part)
            is_between = check in preflight_findings.ONLY_BETWEEN
            if node in wrong or (is_between and others <= wrong):
                continue
            libraries = preflight_findings.LIBRARIES.values()
            like = libraries if check in (preflight_findings.PYTHON, *libraries) else (check,)
            if not any((one, node) in known for one in like):
                left.setdefault(node, []).append(check)
        for node, checks in left.items():
            yield preflight_findings.not_checked(node, checks)

    # Before the nodes are asked.

    @contextlib.contextmanager
    def _proof(self) -> Iterator[tuple[PreflightFinding, ...]]:
        """Create a temporary folder in the data root; a failure to do so is a finding."""
        folder = self._root.path / self._folder
        try:
            # In the folder of jobs, because its permissions may differ from the data root's.
            self._share.make_folder(self._root.jobs, exist_ok=True)
            self._share.make_folder(folder)
            self._share.replace_bytes(folder / "desktop", self._nonce.encode())
            fault: tuple[PreflightFinding, ...] = ()
        except BackendError as error:
            fault = (
                PreflightFinding(preflight_findings.DATA_ROOT, False, error.sentence, error.remedy),
            )
        except OSError as error:
            check = (
                preflight_findings.DISK
                if error.errno in preflight_findings.FULL
                else preflight_findings.DATA_ROOT
            )
            fault = (
                PreflightFinding(
                    check,
                    False,
                    f"This computer cannot write to the data root {self._root.name}: "
                    f"{error.strerror}.",
                    "Free some space, or check that it is mounted and that you may write to it.",
                ),
            )
        try:
            yield fault
        finally:
            self._share.remove_tree(folder)

    @property
    def _folder(self) -> str:
        return f"{self._root.jobs.name}/.preflight-{self._token[:16]}"

    def _known_before(self) -> Iterator[PreflightFinding]:
        """Yield what is known of the nodes; add a part for each node that can be asked."""
        entries = {entry.name: entry for entry in self._cluster.list()}
        bundle = bundle_name()
        jobs_are_narrow = False
        if self._share.is_mounted:
            with suppress(OSError):
                jobs_are_narrow = is_narrower(self._root.jobs, self._root.path)
        for number, placement in enumerate(self._config.placement):
            name = placement.node
            entry = entries.get(name)
            if name == THIS_COMPUTER:
                if (lack := lack_here()) is not None:
                    yield preflight_findings.fault(
                        preflight_findings.PYTORCH, name, lack.sentence, lack.remedy, Fix.LEAVE_OUT
                    )
                    continue
                self._has_horovod[name] = has_horovod()
                found = find_mpirun(self._python) if self._library else None
                site = PreflightTarget(
                    name,
                    placement,
                    self._python,
                    found.path if found else "",
                    found.version if found else "",
                    "",
                    str(self._root.path),
                    "",
                    number == 0,
                    self._needed_bytes,
                    self._library,
                    loader_workers=self._config.loader_workers,
                )
                self._parts[name] = NodePreflight(site, None, limits=self._limits)
                yield from too_many_processes(site, usable_cores())
                continue
            if entry is None:
                yield preflight_findings.unknown_node(name, tuple(entries))
                continue
            yield from preflight_findings.of_entry(entry, bundle)
            there, facts = entry.installation, entry.facts
            if there is None or facts is None:
                continue
            self._has_horovod[name] = not there.without_horovod
            # One finding says it that Horovod is missing.
            is_lacking = self._library == "horovod" and there.without_horovod
            site = PreflightTarget(
                name,
                placement,
                there.python,
                there.mpirun,
                there.mpi_version,
                there.bundle,
                entry.data_root,
                str(PurePosixPath(facts.home).parent),
                number == 0,
                self._needed_bytes,
                "mpi4py" if is_lacking else self._library,
                jobs_are_narrow and not entry.no_share,
                entry.no_share,
                self._config.loader_workers,
            )
            self._parts[name] = NodePreflight(site, entry, limits=self._limits)
            yield from too_many_processes(site, facts.cores)
        is_needed = self._library == "horovod"
        yield from preflight_findings.without_horovod(self._has_horovod, is_needed)
        yield from self._together()

    def _together(self) -> Iterator[PreflightFinding]:
        parts = list(self._parts.values())
        has = self._has_horovod
        for part in parts[1:]:
            if has[part.site.node] == has[parts[0].site.node]:
                yield from preflight_findings.apart(parts[0].site, part.site)
        if len(parts) < 2:
            return
        # This computer has no address among nodes.
        addresses = {
            part.site.node: () if part.entry is None else part.entry.addresses for part in parts
        }
        try:
            _, hosts = common_subnet(addresses)
        except BackendError as error:
            yield preflight_findings.no_common_network(tuple(addresses), error)
            return
        for part in parts:
            part.address = hosts[part.site.node]

    # The nodes, all at once.

    def _ask_all(
        self,
        take: OnFinding,
        cancelled: Callable[[], bool],
        sees_root: bool,
    ) -> None:
        waiting = 0
        for part in self._parts.values():
            threading.Thread(
                target=self._ask, args=(part, sees_root), name=part.site.node, daemon=True
            ).start()
            waiting += 1
        while waiting:
            if cancelled():
                raise Cancelled
            try:
                news = self._news.get(timeout=_DRAIN_S)
            except queue.Empty:
                if self._now() > self._began + self._whole_s:
                    break
                continue
            if news is None:
                waiting -= 1
            else:
                take(news)
        # Findings of the last node are in the queue before its end is.

    @property
    def _whole_s(self) -> float:
        return max(part.limits.whole_s for part in self._parts.values())

    def _ask(self, part: NodePreflight, sees_root: bool) -> None:
        """Ask one node, on its own thread."""
        node = part.site.node
        with contextlib.ExitStack() as after:
            try:
                if part.entry is None:
                    part.has_answered = True
                    request = self._request(part.site)
                    told = NodeReplies(node_probe.probe_here(request, self._limits))
                    self._tell(part, told, sees_root)
                else:
                    self._ask_far(part, part.entry, sees_root, after)
            except NoPython as error:
                python = looking_python(part.entry) if part.entry is not None else self._python
                self._news.put(preflight_findings.no_python(node, python, error.sentence))
            except BackendError as error:
                self._news.put(preflight_findings.no_way_in(node, error))
            except Exception as error:  # noqa: BLE001 - the check of one node, not of all
                _log.exception("The check of %s failed", node)
                checks = (preflight_findings.NODE,)
                self._news.put(preflight_findings.not_checked(node, checks, repr(error)))
            finally:
                part.is_over = True
                part.listening.set()
                self._news.put(None)

    def _ask_far(
        self,
        part: NodePreflight,
        entry: NodeEntry,
        sees_root: bool,
        after: contextlib.ExitStack,
    ) -> None:
        """Ask a node over SSH; ``after`` takes what is to be done once its answers are in."""
        node = part.site.node
        began = time.monotonic()
        shell = self._cluster.open_shell(node)
        after.callback(shell.close)
        login_s = time.monotonic() - began
        part.limits = self._limits.times(node_probe.patience(login_s))
        python = looking_python(entry)
        visitors = len(self._parts) - 1
        facts, offset_s = node_probe.listen(
            shell, python, part.address, self._token, visitors, part.limits
        )
        part.has_answered = True
        part.load = facts
        part.limits = self._limits.times(node_probe.patience(login_s, facts))
        part.port = int(facts["port"])
        if part.port:
            after.callback(self._end_listener, shell, python, part)
        part.listening.set()
        for finding in preflight_findings.clock(node, offset_s):
            self._news.put(finding)
        if part.address and not part.port:
            self._news.put(
                preflight_findings.not_its_address(node, part.address, str(facts["why"]))
            )
        there = {
            "agent_folder": AgentPlace(
                node, part.site.python, part.site.bundle, facts_of(entry)
            ).folder,
            "imports": str(NodeHome(PurePosixPath(facts_of(entry).home)).imports(node)),
        }
        # The first probe mostly imports torch; the network tests need not wait for that.
        meeting = threading.Thread(
            target=self._meet, args=(part, entry, shell, python), daemon=True
        )
        with self._carried_proof(entry, shell):
            # Only while the proof is there: two threads that use files of one shell at the same
            # time take each other's answers, and one of them waits for 30 s.
            if part.address and part.port:
                meeting.start()
            request = {**self._request(part.site), **there}
            told = NodeReplies(node_probe.probe_node(shell, python, request, part.limits))
            self._tell(part, told, sees_root)
            if meeting.ident is not None:
                meeting.join()

    def _end_listener(self, shell: Shell, python: str, part: NodePreflight) -> None:
        """End a listener once no node can need it: one that was not visited lasts minutes."""
        self._over.wait()
        place = {"address": part.address, "port": part.port, "token": self._token}
        listener = {**place, "visitors": len(self._parts) - 1}
        with suppress(BackendError):
            node_probe.dismiss(shell, python, listener, part.limits)

    @contextlib.contextmanager
    def _carried_proof(self, entry: NodeEntry, shell: Shell) -> Iterator[None]:
        """Do as `_proof` in the staged root of a node that does not see the data root."""
        if not entry.no_share:
            yield
            return
        folder = f"{entry.data_root}/{self._folder}"
        with shell.files() as files:
            # If it cannot be written, the probe reports that the node does not see it.
            with suppress(BackendError, OSError):
                files.make_folder(folder)
                files.write(f"{folder}/desktop", self._nonce.encode(), 0o644)
            try:
                yield
            finally:
                with suppress(BackendError, OSError):
                    files.remove_tree(folder)

    def _request(self, site: PreflightTarget) -> Mapping[str, Any]:
        return {
            "node": site.node,
            "data_root": site.data_root,
            "folder": self._folder,
            "nonce": self._nonce,
            "home": site.home,
            "python": site.python,
            "mpirun": site.mpirun if site.library else "",
            "library": site.library,
            "major": int(site.mpi_version.partition(".")[0] or 5),
            "bundle": site.bundle,
            "code_root": site.bundle or str(CODE_ROOT),
            "gpus": list(site.placement.gpus),
        }

    def _tell(self, part: NodePreflight, told: NodeReplies, sees_root: bool) -> None:
        part.told = told
        found = list(node_findings.of_node(part.site, told))
        if not sees_root:
            # This desktop's own finding is the only one needed.
            found = [one for one in found if one.check != preflight_findings.DATA_ROOT]
        elif part.site.no_share:
            # The proof was written on the node itself, and staging reads it there.
            pass
        elif told.of("data_root").get("seen") and not told.of("data_root")["why"]:
            found += self._answer_of(part)
        for finding in found:
            self._news.put(finding)

    def _answer_of(self, part: NodePreflight) -> list[PreflightFinding]:
        """Check whether this computer sees what the node wrote."""
        path = self._root.path / self._folder / part.site.node
        end = time.monotonic() + self._limits.answer_s
        while time.monotonic() < end:
            with suppress(OSError, BackendError):
                if self._share.read(path, 0, _NONCE_BYTES) == self._nonce.encode():
                    return []
            if self._over.wait(_LOOK_S):
                break
        return [preflight_findings.not_seen_here(part.site.node, self._root.name)]

    # The nodes among each other.

    def _meet(self, part: NodePreflight, entry: NodeEntry, shell: Shell, python: str) -> None:
        others = [one for one in self._parts.values() if one is not part]
        for other in others:
            left_s = self._began + self._limits.meeting_s - self._now()
            other.listening.wait(max(0.0, left_s))
        there = [one for one in others if one.port]
        if not there:
            return
        request: dict[str, Any] = {
            "token": self._token,
            "peers": {one.site.node: [one.address, one.port] for one in there},
            "ssh": {},
            "ssh_config": "",
        }
        if part.site.leads and self._renew_settings(entry, shell):
            request["ssh"] = {one.site.node: [one.address, one.is_limited] for one in there}
            assert entry.installation is not None
            request["ssh_config"] = entry.installation.ssh_config
        # Without a result its checks count as not made.
        with suppress(BackendError):
            limits = max((one.limits for one in (part, *there)), key=lambda one: one.whole_s)
            part.met = node_probe.meet(shell, python, request, limits)

    def _renew_settings(self, entry: NodeEntry, shell: Shell) -> bool:
        """Update the settings as the start does: nodes may have been added since set-up."""
        assert entry.installation is not None
        home = NodeHome(PurePosixPath(facts_of(entry).home))
        try:
            before = settings_texts(shell, home)
            cluster_key.write_settings(
                shell, home, self._set_up.peers(), entry.installation.own_key
            )
            renewed = settings_texts(shell, home) != before
        except BackendError as error:
            self._news.put(preflight_findings.no_settings(entry.name, error))
            return False
        self._parts[entry.name].has_settings = True
        if renewed:
            self._news.put(preflight_findings.settings_renewed(entry.name))
        return True

    def _busy(self, part: NodePreflight, met: Mapping[str, Any]) -> str:
        for one in (self._parts[met["node"]], part):
            if load := preflight_findings.busy(one.load):
                return f"{one.site.node} is busy ({load})"
        return ""

    def _versions(self) -> Iterator[PreflightFinding]:
        told = {name: part.told.of("imports") for name, part in self._parts.items()}
        return preflight_findings.versions_apart(told)

    def _routes(self) -> Iterator[PreflightFinding]:
        meetings: list[Meeting] = []
        log_ins: list[Meeting] = []
        no_python = {
            node
            for one in self._findings
            if one.check == preflight_findings.PYTHON and not one.ok
            for node in one.nodes
        }
        for part in self._parts.values():
            for one in part.met:
                kind = meetings if one["kind"] == "route" else log_ins
                # The filter of a limited key is started by the Python that is at fault.
                if kind is log_ins and one["node"] in no_python:
                    continue
                kind.append(
                    Meeting(part.site.node, one["node"], one["facts"], self._busy(part, one))
                )
        yield from route_findings(meetings, log_ins)
