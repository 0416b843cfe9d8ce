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
from backend.provisioning.code_archive import bundle_name
from backend.provisioning.node_environment import STAMP
from backend.records.base.access_modes import inherit_access
from backend.records.base.layout import NodeHome
from backend.records.jobs.placement import THIS_COMPUTER
from backend.records.nodes.entry import NodeEntry, NodeInfo, NodeInstallation, SetUp
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
    """Fixes of preflight findings. Every call blocks and may run on any thread."""

    def __init__(self, context: PreflightContext) -> None:
        self._root, self._limits = context.root, context.limits
        self._node_registry, self._provisioning = context.node_registry, context.provisioning

    def fix(
        self, findings: Sequence[PreflightFinding], on_change: OnChange
    ) -> dict[PreflightFinding, BackendError]:
        """See `PreflightService.fix_all`."""
        failures: dict[PreflightFinding, BackendError] = {
            finding: BackendError(
                f"The program cannot fix this by itself: {finding.message}", finding.remedy
            )
            for finding in findings
            if finding.fix.is_about_job or finding.fix is Fix.NONE
        }
        key_findings = [finding for finding in findings if finding.fix is Fix.INSTALL_CLUSTER_KEY]

        def for_each_node(action: Callable[[str], object]) -> Callable[[PreflightFinding], object]:
            return lambda finding: [action(node) for node in finding.nodes]

        def install_key(finding: PreflightFinding) -> None:
            for_each_node(self._set_aside_foreign)(finding)
            # The head's own copy of the key may be what is spoiled, so each node gets it again.
            if finding is key_findings[-1]:
                self._provisioning.authorize_all()

        def apply(fix: Fix, action: Callable[[PreflightFinding], object]) -> None:
            for finding in findings:
                if finding.fix is fix:
                    try:
                        action(finding)
                    except BackendError as error:
                        failures[finding] = error

        apply(Fix.ACCEPT_HOST_KEY, self._accept_host_key)
        apply(
            Fix.PUT_INTO_SERVICE,
            for_each_node(lambda node: self._node_registry.set_in_service(node, True)),
        )
        apply(Fix.CHECK_AGAIN, for_each_node(self._refresh))
        apply(Fix.SHARE_JOBS, lambda finding: self._share_jobs())
        apply(Fix.END_ORPHANS, for_each_node(self._end_orphans))
        apply(Fix.INSTALL_CLUSTER_KEY, install_key)
        failures.update(self._set_up_again(findings, on_change))
        limit_s = self._limits.agent_s
        apply(Fix.START_AGENT, for_each_node(lambda node: self._provisioning.wake(node, limit_s)))
        return failures

    def _accept_host_key(self, finding: PreflightFinding) -> None:
        if finding.host_key is not None:
            self._node_registry.accept_key(finding.host_key)

    def _set_up_again(
        self, findings: Sequence[PreflightFinding], on_change: OnChange
    ) -> dict[PreflightFinding, BackendError]:
        """Set each node with findings up once, all of them in parallel."""
        findings_by_node: dict[str, list[PreflightFinding]] = {}
        for finding in findings:
            if finding.fix is Fix.SET_UP_AGAIN:
                for node in finding.nodes:
                    findings_by_node.setdefault(node, []).append(finding)
        failures: dict[PreflightFinding, BackendError] = {}
        plans: dict[SetUpOptions, dict[str, list[PreflightFinding]]] = {}
        for node, node_findings in findings_by_node.items():
            try:
                names, options = self._plan(node, [f.check for f in node_findings])
            except BackendError as error:
                failures.update(dict.fromkeys(node_findings, error))
                continue
            for name in names:
                plans.setdefault(options, {}).setdefault(name, []).extend(node_findings)
        for options, plan in plans.items():
            results: Mapping[str, NodeEntry | BackendError]
            try:
                results = self._provisioning.set_up(tuple(plan), on_change, options=options)
            except BackendError as error:
                results = dict.fromkeys(plan, error)
            for name, result in results.items():
                if isinstance(result, BackendError):
                    failures.update(dict.fromkeys(plan[name], result))
        return failures

    def _plan(self, node: str, checks: Sequence[str]) -> tuple[Sequence[str], SetUpOptions]:
        """Return the nodes to set up, and the options, so that ``node`` is like the others."""
        entry = self._node_registry.entry(node)
        entries = self._node_registry.list()
        options = options_of(entry)
        if names.HOROVOD in checks and options.without_horovod:
            return (node,), replace(options, without_horovod=False)
        for check in checks:
            if plan := _uniform_plan(check, entry, entries):
                return plan
        self._set_aside_damaged(entry, checks)
        return (node,), options

    def _set_aside_damaged(self, entry: NodeEntry, checks: Sequence[str]) -> None:
        """Set damaged files of the node aside."""
        installation = entry.installation
        if installation is None or entry.info is None:
            return
        with closing(self._node_registry.open_shell(entry.name)) as shell:
            _set_aside_foreign_files(shell, entry.info)
            for check in checks:
                _set_aside_damaged_files(shell, check, installation, is_ours=not entry.has_own_mpi)

    def _set_aside_foreign(self, node: str) -> None:
        with closing(self._node_registry.open_shell(node)) as shell:
            _set_aside_foreign_files(shell, self._installed_entry(node)[2])

    def _refresh(self, node: str) -> None:
        """Inspect the node again where the other nodes have the data root mounted."""
        folders = Counter(
            entry.data_root for entry in self._node_registry.list() if entry.data_root
        )
        common_folder = folders.most_common(1)[0][0] if folders else ""
        node_folder = self._node_registry.entry(node).data_root
        self._node_registry.inspect(node, node_data_root=node_folder or common_folder)

    def _share_jobs(self) -> None:
        with as_backend_error(f"The rights of {self._root.jobs} could not be changed"):
            inherit_access(self._root.jobs, self._root.path)

    def _end_orphans(self, node: str) -> None:
        """End the orphans whose run is known in this data root and has ended."""
        if node == THIS_COMPUTER:
            processes = [
                orphan.process
                for orphan in orphans.find(self._root)
                if orphan.reason and orphan.reason.is_known_run
            ]
            remaining_pids: object = orphans.end(
                self._root, [(process.pid, process.start_ticks) for process in processes]
            )
        else:
            remaining_pids = self._end_remote_orphans(node)
        if remaining_pids:
            raise BackendError(
                f"Processes {remaining_pids} on {node_label(node)} do not end.",
                "They wait for a disk or a driver that hangs; restart that computer.",
            )

    def _end_remote_orphans(self, node: str) -> object:
        entry, installation, _ = self._installed_entry(node)
        argv = ["env", f"PYTHONPATH={installation.bundle}", installation.python]
        argv += ["-m", "backend.node.checks.orphans", "--data-root", entry.data_root]
        with closing(self._node_registry.open_shell(node)) as shell:
            listed_orphans = map(Orphan.from_dict, _read_json(shell, node, argv)["orphans"])
            process_ids = [
                f"{orphan.process.pid}:{orphan.process.start_ticks}"
                for orphan in listed_orphans
                if orphan.reason and orphan.reason.is_known_run
            ]
            if not process_ids:
                return []
            return _read_json(shell, node, [*argv, "--end", *process_ids])["left"]

    def _installed_entry(self, node: str) -> tuple[NodeEntry, NodeInstallation, NodeInfo]:
        entry = self._node_registry.entry(node)
        if entry.installation is None or entry.info is None:
            raise BackendError(f"{node} is not set up.", f"Set {node} up first.")
        return entry, entry.installation, entry.info


def _set_aside_foreign_files(shell: Shell, info: NodeInfo) -> None:
    """Set aside the files of other users in the program's own folder.

    Raises:
        BackendError: The files cannot be renamed.
    """
    home = NodeHome(PurePosixPath(info.home))
    folders = [str(folder) for folder in (home.environments, home.bundles, home.wheels, home.ssh)]
    command_end = shell.run(["sh", "-c", _SET_ASIDE, "sh", *folders])
    if not command_end.ok:
        raise BackendError(
            f"Files in {home.path} belong to another user: {command_end.complaint}.",
            f"Let its administrator give it back: chown -R {info.user} {home.path}",
        )


def _set_aside_damaged_files(
    shell: Shell, check: str, installation: NodeInstallation, is_ours: bool
) -> None:
    """Set damaged files aside, because a set-up changes no files that have its stamp."""
    is_current = installation.bundle.rpartition("/")[2] == bundle_name()
    replaced_part = BY_NAME[check].replaced_part
    if replaced_part == "program" and is_current:
        damaged_folder = f"{installation.bundle}.damaged"
        shell.run(["rm", "-rf", "--", damaged_folder])
        shell.run(["mv", "-T", "--", installation.bundle, damaged_folder])
    elif replaced_part == "environment" or (replaced_part == "own mpi" and is_ours):
        environment = PurePosixPath(installation.python).parent.parent
        shell.run(["rm", "-f", "--", str(environment / STAMP)])


def _read_json(shell: Shell, node: str, argv: list[str]) -> dict[str, Any]:
    answer = shell.run(argv)
    try:
        result = json.loads(answer.out)
        assert isinstance(result, dict)
    except ValueError as error:
        raise BackendError(
            f"{node} does not report its leftover processes: {answer.complaint}.",
            f"Set {node} up again.",
        ) from error
    return result


def _uniform_plan(
    check: str, entry: NodeEntry, entries: Sequence[NodeEntry]
) -> tuple[Sequence[str], SetUpOptions] | None:
    """Return the nodes to set up like the others, and the options; None if ``entry`` matches.

    These are the nodes set up unlike most, in a tie those like ``entry``. Their environments are
    intact, so none of them is set aside.
    """
    if (uniform_option := BY_NAME[check].uniform_option) is None or entry.installation is None:
        return None
    read_option, set_option = uniform_option
    entries_by_value: dict[bool, list[NodeEntry]] = {True: [], False: []}
    for other_entry in entries:
        installation = other_entry.installation
        # All nodes have one Open MPI; Pythons differ only between dissimilar nodes.
        is_similar = installation and installation.environment == entry.installation.environment
        if installation and (check == names.OPEN_MPI or is_similar):
            entries_by_value[read_option(other_entry)].append(other_entry)
    deviating_entries = min(entries_by_value.values(), key=len)
    if len(entries_by_value[True]) == len(entries_by_value[False]):
        deviating_entries = entries_by_value[read_option(entry)]
    if not deviating_entries:
        return None
    options = set_option(options_of(entry), not read_option(deviating_entries[0]))
    return [entry.name for entry in deviating_entries], options
