"""Fix preflight findings that the program can fix by itself.

Nothing is deleted that could belong to a user: damaged files and those of another user are renamed
in place, under a name that says so.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

from backend.base.errors import BackendError, as_backend_error
from backend.node.checks import orphans
from backend.node.system.wording import node_label
from backend.provisioning import agent_commands
from backend.provisioning.agent_commands import AgentPaths
from backend.provisioning.code_archive import bundle_name
from backend.provisioning.node_environment import STAMP
from backend.records.base.access_modes import take_after
from backend.records.base.layout import NodeHome
from backend.records.jobs.placement import THIS_COMPUTER
from backend.records.nodes.entry import NodeEntry, NodeFacts, NodeInstallation, SetUp
from backend.records.nodes.preflight import Fix, PreflightFinding
from backend.records.nodes.provisioning_options import SetUpOptions, options_of
from backend.records.nodes.reading import Orphan
from backend.services.preflight import names
from backend.services.preflight.checks import BY_NAME
from backend.services.preflight.context import PreflightContext
from backend.ssh.interface import Shell

OnChange = Callable[[SetUp], None]

_SET_ASIDE = (
    'for one in "$@"; do if [ -e "$one" ] && [ ! -O "$one" ]; then'
    ' mv -T -- "$one" "$one.not-ours-$(date +%s)" || exit; fi; done'
)


class PreflightFixes:
    """Every call blocks and may run on any thread."""

    def __init__(self, context: PreflightContext) -> None:
        self._root, self._limits = context.root, context.limits
        self._cluster, self._set_up = context.cluster, context.set_up

    def fix(
        self, findings: Sequence[PreflightFinding], on_change: OnChange
    ) -> dict[PreflightFinding, BackendError]:
        """See `PreflightService.fix_all`."""
        failed: dict[PreflightFinding, BackendError] = {
            finding: BackendError(
                f"The program cannot fix this by itself: {finding.sentence}", finding.remedy
            )
            for finding in findings
            if finding.fix.is_about_job or finding.fix is Fix.NONE
        }
        keys = [finding for finding in findings if finding.fix is Fix.INSTALL_CLUSTER_KEY]

        def each(act: Callable[[str], object]) -> Callable[[PreflightFinding], object]:
            return lambda finding: [act(node) for node in finding.nodes]

        def install_key(finding: PreflightFinding) -> None:
            each(self._set_aside_foreign_of)(finding)
            # The head's own copy of the key may be what is spoiled, so each node gets it again.
            if finding is keys[-1]:
                self._set_up.authorize_all()

        def do(fix: Fix, act: Callable[[PreflightFinding], object]) -> None:
            for finding in findings:
                if finding.fix is fix:
                    try:
                        act(finding)
                    except BackendError as error:
                        failed[finding] = error

        do(Fix.ACCEPT_HOST_KEY, self._accept)
        do(Fix.PUT_INTO_SERVICE, each(lambda node: self._cluster.set_in_service(node, True)))
        do(Fix.CHECK_AGAIN, each(self._refresh))
        do(Fix.SHARE_JOBS, lambda finding: self._share_jobs())
        do(Fix.END_ORPHANS, each(self._end_orphans))
        do(Fix.INSTALL_CLUSTER_KEY, install_key)
        failed.update(self._set_up_again(findings, on_change))
        do(Fix.START_AGENT, each(self._start_agent))
        return failed

    def _accept(self, finding: PreflightFinding) -> None:
        if finding.host_key is not None:
            self._cluster.accept_key(finding.host_key)

    def _set_up_again(
        self, findings: Sequence[PreflightFinding], on_change: OnChange
    ) -> dict[PreflightFinding, BackendError]:
        """Each node once, whatever is damaged there, and all of them side by side."""
        wanted: dict[str, list[PreflightFinding]] = {}
        for finding in findings:
            if finding.fix is Fix.SET_UP_AGAIN:
                for node in finding.nodes:
                    wanted.setdefault(node, []).append(finding)
        failed: dict[PreflightFinding, BackendError] = {}
        plans: dict[SetUpOptions, dict[str, list[PreflightFinding]]] = {}
        for node, some in wanted.items():
            try:
                names, options = self._plan(node, [one.check for one in some])
            except BackendError as error:
                failed.update(dict.fromkeys(some, error))
                continue
            for name in names:
                plans.setdefault(options, {}).setdefault(name, []).extend(some)
        for options, because in plans.items():
            outcome: Mapping[str, NodeEntry | BackendError]
            try:
                outcome = self._set_up.set_up(tuple(because), on_change, options=options)
            except BackendError as error:
                outcome = dict.fromkeys(because, error)
            for name, result in outcome.items():
                if isinstance(result, BackendError):
                    failed.update(dict.fromkeys(because[name], result))
        return failed

    def _plan(self, node: str, checks: Sequence[str]) -> tuple[Sequence[str], SetUpOptions]:
        """Return the nodes to set up, and the options, so that ``node`` is like the others."""
        entry = self._cluster.entry(node)
        entries = self._cluster.list()
        options = options_of(entry)
        if names.HOROVOD in checks and options.without_horovod:
            return (node,), replace(options, without_horovod=False)
        for check in checks:
            if plan := _to_be_alike(check, entry, entries):
                return plan
        self._clear(entry, checks)
        return (node,), options

    def _clear(self, entry: NodeEntry, checks: Sequence[str]) -> None:
        """Set damaged files of the node aside."""
        there = entry.installation
        if there is None or entry.facts is None:
            return
        with closing(self._cluster.open_shell(entry.name)) as shell:
            _set_aside_foreign(shell, entry.facts)
            for check in checks:
                _set_aside_damaged(shell, check, there, is_ours=not entry.has_own_mpi)

    def _set_aside_foreign_of(self, node: str) -> None:
        with closing(self._cluster.open_shell(node)) as shell:
            _set_aside_foreign(shell, self._ready(node)[2])

    def _start_agent(self, node: str) -> None:
        entry, there, facts = self._ready(node)
        agent = AgentPaths(node, there.python, there.bundle, facts)
        with closing(self._cluster.open_shell(node)) as shell:
            started = shell.run(agent_commands.start(agent))
            lives = started.ok and shell.run(agent_commands.check(agent, self._limits.agent_s)).ok
        if not lives:
            raise BackendError(
                f"The agent of {entry.name} does not start: {started.complaint}.",
                f"Set {entry.name} up again.",
            )

    def _refresh(self, node: str) -> None:
        """Inspect the node again where the other nodes have the data root mounted."""
        others = Counter(one.data_root for one in self._cluster.list() if one.data_root)
        usual = others.most_common(1)[0][0] if others else ""
        known = self._cluster.entry(node).data_root
        self._cluster.inspect(node, node_data_root=known or usual)

    def _share_jobs(self) -> None:
        with as_backend_error(f"The rights of {self._root.jobs} could not be changed"):
            take_after(self._root.jobs, self._root.path)

    def _end_orphans(self, node: str) -> None:
        """Those only whose run is known in this data root, and known to be over."""
        if node == THIS_COMPUTER:
            old = [
                one for one in orphans.find(self._root) if one.reason and one.reason.is_known_run
            ]
            left: object = orphans.end(
                self._root, [(one.process.pid, one.process.start_ticks) for one in old]
            )
        else:
            left = self._end_remote_orphans(node)
        if left:
            raise BackendError(
                f"Processes {left} on {node_label(node)} do not end.",
                "They wait for a disk or a driver that hangs; restart that computer.",
            )

    def _end_remote_orphans(self, node: str) -> object:
        entry, there, _ = self._ready(node)
        argv = ["env", f"PYTHONPATH={there.bundle}", there.python]
        argv += ["-m", "backend.node.checks.orphans", "--data-root", entry.data_root]
        with closing(self._cluster.open_shell(node)) as shell:
            found = map(Orphan.from_dict, _answer(shell, node, argv)["orphans"])
            wanted = [
                f"{one.process.pid}:{one.process.start_ticks}"
                for one in found
                if one.reason and one.reason.is_known_run
            ]
            return _answer(shell, node, [*argv, "--end", *wanted])["left"] if wanted else []

    def _ready(self, node: str) -> tuple[NodeEntry, NodeInstallation, NodeFacts]:
        entry = self._cluster.entry(node)
        if entry.installation is None or entry.facts is None:
            raise BackendError(f"{node} is not set up.", f"Set {node} up first.")
        return entry, entry.installation, entry.facts


def _set_aside_foreign(shell: Shell, facts: NodeFacts) -> None:
    """Set aside what belongs to another user in the program's own folder.

    Raises:
        BackendError: It cannot be renamed either.
    """
    home = NodeHome(PurePosixPath(facts.home))
    places = [str(one) for one in (home.environments, home.bundles, home.wheels, home.ssh)]
    done = shell.run(["sh", "-c", _SET_ASIDE, "sh", *places])
    if not done.ok:
        raise BackendError(
            f"Files in {home.path} belong to another user: {done.complaint}.",
            f"Let its administrator give it back: chown -R {facts.user} {home.path}",
        )


def _set_aside_damaged(shell: Shell, check: str, there: NodeInstallation, is_ours: bool) -> None:
    """Set damaged files aside: a set-up changes nothing that has its stamp."""
    is_current = there.bundle.rpartition("/")[2] == bundle_name()
    what = BY_NAME[check].sets_aside
    if what == "program" and is_current:
        aside = f"{there.bundle}.damaged"
        shell.run(["rm", "-rf", "--", aside])
        shell.run(["mv", "-T", "--", there.bundle, aside])
    elif what == "environment" or (what == "own mpi" and is_ours):
        environment = PurePosixPath(there.python).parent.parent
        shell.run(["rm", "-f", "--", str(environment / STAMP)])


def _answer(shell: Shell, node: str, argv: list[str]) -> dict[str, Any]:
    answer = shell.run(argv)
    try:
        found = json.loads(answer.out)
        assert isinstance(found, dict)
    except ValueError as error:
        raise BackendError(
            f"{node} does not report its leftover processes: {answer.complaint}.",
            f"Set {node} up again.",
        ) from error
    return found


def _to_be_alike(
    check: str, entry: NodeEntry, entries: Sequence[NodeEntry]
) -> tuple[Sequence[str], SetUpOptions] | None:
    """Return the nodes to set up like the others, and the options; None if ``entry`` matches.

    The odd ones are those set up unlike most, in a tie those like ``entry``. Their environments
    are intact, so none of them is set aside.
    """
    if (alike := BY_NAME[check].alike) is None or entry.installation is None:
        return None
    is_set, set_to = alike
    found: dict[bool, list[NodeEntry]] = {True: [], False: []}
    for one in entries:
        there = one.installation
        # All nodes have one Open MPI; Pythons differ only between dissimilar nodes.
        is_like = there and there.environment == entry.installation.environment
        if there and (check == names.OPEN_MPI or is_like):
            found[is_set(one)].append(one)
    odd = min(found.values(), key=len)
    if len(found[True]) == len(found[False]):
        odd = found[is_set(entry)]
    return (
        ([one.name for one in odd], set_to(options_of(entry), not is_set(odd[0]))) if odd else None
    )
