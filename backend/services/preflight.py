"""The look before the start of a job, and what the program itself can mend of what it finds."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

from backend.cluster import agent_commands
from backend.cluster.agent_commands import AgentPlace
from backend.cluster.node_environment import STAMP
from backend.cluster.shell import Shell
from backend.datastore.checkpoint_files import list_checkpoints
from backend.datastore.share import MOUNTED, Share
from backend.errors import BackendError
from backend.node import orphans
from backend.node.words import place
from backend.records.cluster import NodeEntry, NodeFacts, NodeInstallation, SetUp
from backend.records.job import THIS_COMPUTER, JobConfig, Placement
from backend.records.layout import DataRoot
from backend.records.preflight import Fix, Preflight, PreflightFinding
from backend.services import preflight_node_words, preflight_words
from backend.services.cluster import ClusterService
from backend.services.preflight_flight import Flight, Ground, OnFinding
from backend.services.set_up import SetUpOptions, SetUpService

_AGENT_LIMIT_S = 20.0
_DAMAGED = frozenset(
    (
        preflight_words.PYTHON,
        preflight_words.PYTORCH,
        preflight_words.HOROVOD,
        preflight_words.OPEN_MPI,
    )
)


class PreflightService:
    """Every call blocks and may run on any thread."""

    def __init__(
        self,
        root: DataRoot,
        cluster: ClusterService,
        set_up: SetUpService,
        python: str = sys.executable,
        share: Share = MOUNTED,
    ) -> None:
        self._root = root
        self._cluster = cluster
        self._set_up = set_up
        self._share = share
        self._ground = Ground(root, cluster, set_up, python, share)

    def run(
        self,
        config: JobConfig,
        job_id: str = "",
        on_finding: OnFinding = lambda finding: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Preflight:
        """Look at everything; ``on_finding`` hears of each finding on this thread, as it is made.

        With a ``job_id`` the checkpoints that the job has already made say how much disk it needs.

        Raises:
            Cancelled: As ``cancelled`` said; the looks that were under way end by themselves.
        """
        return Flight(self._ground, config, self.needed_bytes(config, job_id)).fly(
            on_finding, cancelled
        )

    def insist(
        self, config: JobConfig, job_id: str = "", placement: Sequence[Placement] = ()
    ) -> None:
        """Look before a start on nodes; a job of this computer alone needs no look.

        With a ``placement`` the job is to run there instead.

        Raises:
            BackendError: What would keep the job from running, all of it.
        """
        config = replace(config, placement=tuple(placement) or config.placement)
        if all(one.node == THIS_COMPUTER for one in config.placement):
            return
        found = self.run(config, job_id)
        if found.passed:
            return
        faults = found.faults
        remedies = dict.fromkeys(fault.remedy for fault in faults if fault.remedy)
        if found.smaller:
            remedies[f"Or run on {', '.join(one.node for one in found.smaller)} alone."] = None
        raise BackendError(" ".join(fault.sentence for fault in faults), " ".join(remedies))

    def fix(
        self, finding: PreflightFinding, on_change: Callable[[SetUp], None] = lambda news: None
    ) -> None:
        """Mend what was found; look again afterwards. ``on_change`` hears how far a set-up is.

        `Fix.LEAVE_OUT` is a wish about the job and not done here: see `smaller_placement`.

        Raises:
            BackendError: It could not be mended.
        """
        acts: Mapping[Fix, Callable[[str], None]] = {
            Fix.SET_UP_AGAIN: lambda node: self._set_up_again(finding.check, node, on_change),
            Fix.INSTALL_CLUSTER_KEY: lambda node: self._let_in(),
            Fix.END_ORPHANS: self._end_orphans,
            Fix.START_AGENT: self._start_agent,
            Fix.LOOK_AGAIN: self._look_again,
        }
        act = acts.get(finding.fix)
        if act is None:
            raise BackendError(
                f"The program cannot mend this by itself: {finding.sentence}", finding.remedy
            )
        for node in finding.nodes:
            act(node)

    def _set_up_again(self, check: str, node: str, on_change: Callable[[SetUp], None]) -> None:
        entry = self._cluster.entry(node)
        options = SetUpOptions()
        if entry.installation is not None and entry.facts is not None:
            there = entry.installation
            is_ours = PurePosixPath(there.mpirun).is_relative_to(entry.facts.home)
            options = SetUpOptions(own_key=there.own_key, system_mpi=not is_ours)
            shell = self._cluster.open_shell(node)
            try:
                _set_aside(shell, check, there, is_ours)
            finally:
                shell.close()
        outcome = self._set_up.set_up((node,), on_change, options=options)[node]
        if isinstance(outcome, BackendError):
            raise outcome

    def _let_in(self) -> None:
        # The head's own copy may be what is spoiled, so each node gets it again.
        self._set_up.let_in_again()

    def _start_agent(self, node: str) -> None:
        entry, there, facts = self._ready(node)
        agent = AgentPlace(node, there.python, there.bundle, facts)
        shell = self._cluster.open_shell(node)
        try:
            started = shell.run(agent_commands.start(agent))
            lives = started.ok and shell.run(agent_commands.check(agent, _AGENT_LIMIT_S)).ok
        finally:
            shell.close()
        if not lives:
            raise BackendError(
                f"The agent of {entry.name} does not start: {started.complaint}.",
                f"Set {entry.name} up again.",
            )

    def _look_again(self, node: str) -> None:
        self._cluster.look(node)

    def _end_orphans(self, node: str) -> None:
        """Those only whose run is known in this data root, and known to be over."""
        if node == THIS_COMPUTER:
            old = [one for one in orphans.find(self._root) if preflight_node_words.is_over(one.why)]
            left: object = orphans.end(
                self._root, [(one.process.pid, one.process.start_ticks) for one in old]
            )
        else:
            left = self._end_far_orphans(node)
        if left:
            raise BackendError(
                f"Processes {left} on {place(node)} do not end.",
                "They wait for a disk or a driver that hangs; restart that computer.",
            )

    def _end_far_orphans(self, node: str) -> object:
        entry, there, _ = self._ready(node)
        argv = ["env", f"PYTHONPATH={there.bundle}", there.python, "-m", "backend.node.orphans"]
        argv += ["--data-root", entry.data_root]
        shell = self._cluster.open_shell(node)
        try:
            found = _answer(shell, node, argv)["orphans"]
            wanted = [
                f"{one['process']['pid']}:{one['process']['start_ticks']}"
                for one in found
                if preflight_node_words.is_over(one["why"])
            ]
            return _answer(shell, node, [*argv, "--end", *wanted])["left"] if wanted else []
        finally:
            shell.close()

    def _ready(self, node: str) -> tuple[NodeEntry, NodeInstallation, NodeFacts]:
        entry = self._cluster.entry(node)
        if entry.installation is None or entry.facts is None:
            raise BackendError(f"{node} is not set up.", f"Set {node} up first.")
        return entry, entry.installation, entry.facts

    def needed_bytes(self, config: JobConfig, job_id: str) -> int:
        """Of the checkpoints to come: those that are kept, and one being written."""
        if not job_id:
            return 0
        with contextlib.suppress(BackendError, OSError):
            folder = self._root.job(job_id)
            self._share.look_at_job(folder)
            found = list_checkpoints(folder, config.checkpoint, self._share)
            largest = max((record.bytes for record in found), default=0)
            kept = config.checkpoint.keep_latest + config.checkpoint.keep_best + 2
            return largest * max(0, kept - len(found))
        return 0


def _set_aside(shell: Shell, check: str, there: NodeInstallation, is_ours: bool) -> None:
    """What is damaged looks whole to a set-up, which changes nothing that has its stamp."""
    if check == preflight_words.PROGRAM:
        aside = f"{there.bundle}.damaged"
        shell.run(["rm", "-rf", "--", aside])
        shell.run(["mv", "-T", "--", there.bundle, aside])
    elif check in _DAMAGED and (check != preflight_words.OPEN_MPI or is_ours):
        environment = PurePosixPath(there.python).parent.parent
        shell.run(["rm", "-f", "--", str(environment / STAMP)])


def _answer(shell: Shell, node: str, argv: list[str]) -> dict[str, Any]:
    answer = shell.run(argv)
    try:
        found = json.loads(answer.out)
        assert isinstance(found, dict)
    except ValueError as error:
        raise BackendError(
            f"{node} does not tell what is left over there: {answer.complaint}.",
            f"Set {node} up again.",
        ) from error
    return found
