"""Table of all preflight checks, each with its probe, its judges and its fix.

A new check is one entry of `CHECKS`, with its judge in the module of its domain. Its `Probe` is
mostly `preflight_probe.command`, for anything that a program prints.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from backend.node.checks import preflight_probe
from backend.records.nodes.preflight import Fix, PreflightFinding
from backend.services.preflight import connectivity, installation, machine, names, storage
from backend.services.preflight.check import (
    Check,
    Probe,
    Result,
    is_executable,
    is_remote,
    unchecked_result,
)
from backend.services.preflight.context import JobPreflight, NodePreflight

_log = logging.getLogger(__name__)

LOAD = Probe("load", preflight_probe.load)
"""The probe of each node's load, which explains a late answer."""


def _login_results(job: JobPreflight) -> Iterator[Result]:
    login_tests = connectivity.connection_tests("ssh", job)
    route_tests = connectivity.connection_tests("route", job)
    # The filter of a limited key is started by the Python that may be at fault.
    return connectivity.login_findings(login_tests, route_tests, job.faulty_nodes(names.PYTHON))


def _library_check(key: str, **options: Any) -> Check:
    return Check(
        installation.LIBRARIES[key],
        installation.IMPORTS,
        partial(installation.library, key),
        **{
            "job_judges": (partial(installation.versions, key),),
            "silence_judge": partial(installation.late_library, key),
            "applies_to": partial(installation.is_needed, key),
            "is_answered": partial(installation.is_imported, key),
            "fix": Fix.SET_UP_AGAIN,
            "replaced_part": "environment",
            **options,
        },
    )


CHECKS: tuple[Check, ...] = (
    Check(names.NODE, node_judge=connectivity.node),
    Check(
        names.SSH,
        node_judge=connectivity.ssh,
        applies_to=is_remote,
        is_answered=connectivity.has_answered,
    ),
    Check(
        names.HOST_KEY,
        node_judge=connectivity.host_key,
        applies_to=is_remote,
        is_answered=connectivity.has_answered,
    ),
    Check(
        names.PYTHON,
        installation.IMPORTS,
        installation.python,
        node_judge=installation.no_python,
        applies_to=is_remote,
        is_answered=lambda node, job: (
            installation.is_imported("torch", node, job)
            or installation.is_imported("python", node, job)
        ),
        fix=Fix.SET_UP_AGAIN,
        replaced_part="environment",
        uniform_option=(
            lambda entry: entry.shares_environment,
            lambda options, is_shared: replace(options, shared=is_shared),
        ),
    ),
    _library_check("torch", node_judge=installation.local_setup),
    _library_check(
        "horovod",
        job_judges=(installation.missing_horovod, partial(installation.versions, "horovod")),
    ),
    _library_check("mpi4py"),
    Check(
        names.OPEN_MPI,
        Probe("mpirun", preflight_probe.mpirun),
        installation.mpirun,
        applies_to=lambda node, job: bool(job.library),
        conditions=(is_executable, installation.has_mpirun),
        fix=Fix.SET_UP_AGAIN,
        replaced_part="own mpi",
        uniform_option=(
            lambda entry: entry.has_own_mpi,
            lambda options, system_mpi: replace(options, system_mpi=system_mpi),
        ),
    ),
    Check(
        names.PROGRAM,
        Probe("program", preflight_probe.program),
        installation.program,
        node_judge=installation.old_program,
        applies_to=is_remote,
        fix=Fix.SET_UP_AGAIN,
        replaced_part="program",
    ),
    Check(
        names.AGENT,
        Probe(
            "agent",
            preflight_probe.command,
            lambda target: [
                *(target.python, "-m", "backend.node.agent.control", "check"),
                *("--bundle", target.bundle, "--folder", target.agent_folder),
            ],
        ),
        installation.agent,
        applies_to=is_remote,
        conditions=(is_executable, installation.can_run_program, storage.sees_root),
        fix=Fix.START_AGENT,
    ),
    Check(
        names.DATA_ROOT,
        storage.ROOT,
        storage.data_root,
        node_judge=storage.no_data_root,
        job_judges=(storage.local_data_root, storage.differences),
        silence_judge=lambda target, replies: storage.data_root(target, None),
        # If this computer cannot write to it, that is the only fault.
        applies_to=lambda node, job: job.root_error is None,
        conditions=(),
    ),
    Check(names.DISK, storage.ROOT, storage.disk, conditions=(storage.sees_root,), fix=Fix.NONE),
    Check(
        names.HOME,
        Probe("home", preflight_probe.home),
        storage.home,
        silence_judge=storage.no_home,
        applies_to=is_remote,
        conditions=(),
    ),
    Check(
        names.NETWORK,
        node_judge=connectivity.outdated_address,
        job_judges=(connectivity.no_common_network,),
        missing_peers=connectivity.peers_without_address,
        fix=Fix.CHECK_AGAIN,
    ),
    Check(
        names.SETTINGS,
        node_judge=connectivity.settings,
        missing_peers=connectivity.peers_without_settings,
        fix=Fix.INSTALL_CLUSTER_KEY,
    ),
    Check(
        names.SSH_BETWEEN_NODES,
        job_judges=(_login_results,),
        missing_peers=partial(connectivity.untested_peers, "ssh"),
        fix=Fix.INSTALL_CLUSTER_KEY,
    ),
    Check(
        names.ROUTE,
        job_judges=(
            lambda job: connectivity.route_findings(connectivity.connection_tests("route", job)),
        ),
        missing_peers=partial(connectivity.untested_peers, "route"),
    ),
    Check(
        names.GPUS,
        Probe(
            "gpus", preflight_probe.command, lambda target: [target.python, "-c", machine.READ_GPUS]
        ),
        machine.gpus,
        silence_judge=machine.no_gpus,
        applies_to=lambda node, job: bool(node.placement.gpus),
        conditions=(is_executable, installation.can_run_program),
    ),
    Check(
        names.SHARED_MEMORY,
        Probe("shared_memory", preflight_probe.shared_memory),
        machine.shared_memory,
    ),
    Check(names.OPEN_FILES, Probe("limits", preflight_probe.limits), machine.open_files),
    Check(
        names.SCRIPT_PYTHON,
        installation.SCRIPT_PYTHON,
        installation.script_python,
        applies_to=lambda node, job: bool(node.target and node.target.script_python),
    ),
    Check(names.PROCESSES, node_judge=machine.processes, fix=Fix.FIT_PROCESSES),
    Check(names.RESERVATION, node_judge=machine.reserved, only_warns=True),
    Check(
        names.DATA,
        job_judges=(machine.data,),
        applies_to=lambda node, job: bool(job.data_notes),
        fix=Fix.NONE,
        only_warns=True,
    ),
    Check(
        names.CLOCK,
        node_judge=connectivity.clock,
        applies_to=is_remote,
        is_answered=connectivity.has_answered,
        fix=Fix.NONE,
        only_warns=True,
    ),
    Check(
        names.LEFTOVERS,
        Probe(
            "leftovers",
            preflight_probe.command,
            lambda target: [
                *(target.python, "-m", "backend.node.checks.orphans"),
                *("--data-root", target.data_root),
            ],
        ),
        machine.leftovers,
        conditions=(is_executable, installation.can_run_program, storage.sees_root),
        fix=Fix.END_ORPHANS,
        only_warns=True,
    ),
)
"""All checks, in the order in which they are shown."""
BY_NAME: Mapping[str, Check] = {check.name: check for check in CHECKS}


def judge(job: JobPreflight) -> tuple[tuple[PreflightFinding, ...], tuple[tuple[str, str], ...]]:
    """Return all findings, and the names of the checks without an answer, each with its node."""
    findings, unanswered_checks = job.findings, []
    for check in CHECKS:
        for node in job.nodes:
            try:
                # Once: the thread of a late node may still add replies.
                reply = check.reply(node, job)
                findings += check.node_findings(node, job, reply)
            except Exception as error:  # noqa: BLE001 - an answer that is no answer
                _log.exception("%s of %s could not be judged", check.name, node.name)
                reply, cause = None, repr(error)
                findings.append(
                    check.finding(unchecked_result(node.name, (check.name,), cause), node.name)
                )
            if reply is None and check.is_relevant(node, job):
                unanswered_checks.append((check, node))
        findings += [check.finding(result) for judge in check.job_judges for result in judge(job)]
    findings += _unexplained_findings(job, unanswered_checks)
    failed_names = {finding.check for finding in findings}
    failed_names |= {check.name for check, _ in unanswered_checks}
    for check in CHECKS:
        is_failed = check.name in failed_names
        if not is_failed and any(check.is_relevant(node, job) for node in job.nodes):
            finding = PreflightFinding(check.name, True, "")
            findings.append(replace(finding, message=f"{finding.label}: OK"))
    order = {check.name: index for index, check in enumerate(CHECKS)}
    findings.sort(key=lambda finding: (finding.ok, finding.is_warning, order[finding.check]))
    return tuple(findings), tuple((check.name, node.name) for check, node in unanswered_checks)


def judge_replies(node: NodePreflight) -> Iterator[PreflightFinding]:
    """Yield the findings on the replies of one node."""
    job = JobPreflight(node.target.library if node.target else "", "", (node,))
    for check in CHECKS:
        if check.probe is not None and check.probe.name in (node.replies or {}):
            yield from check.node_findings(node, job, check.reply(node, job))


def _unexplained_findings(
    job: JobPreflight, unanswered_checks: Sequence[tuple[Check, NodePreflight]]
) -> Iterator[PreflightFinding]:
    """Yield a finding for checks without an answer where the node has no other finding."""
    blocking_findings = [finding for finding in job.findings if finding.blocks]
    if any(not finding.nodes for finding in blocking_findings):
        return
    faulty_nodes = {node for finding in blocking_findings for node in finding.nodes}
    unexplained_checks: dict[str, list[Check]] = {}
    for check, node in unanswered_checks:
        missing_peers = check.missing_peers(node, job) if check.missing_peers is not None else set()
        related_checks = [c for c in CHECKS if c is check or c.probe is check.probe is not None]
        is_explained = (
            node.name in faulty_nodes
            or any(node.name in job.faulty_nodes(c.name) for c in related_checks)
            or (missing_peers and missing_peers <= faulty_nodes)
        )
        if not is_explained:
            unexplained_checks.setdefault(node.name, []).append(check)
    for name, checks in unexplained_checks.items():
        check_names = [check.name for check in checks]
        is_warning = all(check.only_warns for check in checks)
        node = next(node for node in job.nodes if node.name == name)
        probe = checks[0].probe if len(checks) == 1 else None
        cause = ((node.replies or {}).get(probe.name) or {}).get("why", "") if probe else ""
        yield checks[0].finding(
            unchecked_result(name, check_names, str(cause), is_warning=is_warning), name
        )
