"""The table of all preflight checks: what is asked, how it is judged, and which fix is offered.

A new check is one entry of `CHECKS`, with its judge in the module of its domain. It asks for a fact
with a `Probe`; most are `preflight_probe.command`, for anything that a program prints.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from backend.node.checks import preflight_probe
from backend.records.nodes.preflight import Fix, PreflightFinding
from backend.services.preflight import access, connectivity, installation, machine, names, storage
from backend.services.preflight.check import (
    Check,
    Probe,
    Result,
    is_executable,
    is_remote,
    not_checked,
)
from backend.services.preflight.context import JobPreflight, NodePreflight

_log = logging.getLogger(__name__)

LOAD = Probe("load", preflight_probe.load)
"""Asked of each node; it explains a late answer."""


def _log_ins(job: JobPreflight) -> Iterator[Result]:
    tried, routes = (connectivity.meetings(kind, job) for kind in ("ssh", "route"))
    # The filter of a limited key is started by the Python that may be at fault.
    return connectivity.log_in_findings(tried, routes, job.faulty(names.PYTHON))


def _library_check(key: str, **more: Any) -> Check:
    return Check(
        installation.LIBRARIES[key],
        installation.IMPORTS,
        partial(installation.library, key),
        **{
            "together": (partial(installation.versions, key),),
            "silence": partial(installation.late_library, key),
            "of_nodes": partial(installation.is_needed, key),
            "is_answered": partial(installation.is_imported, key),
            "fix": Fix.SET_UP_AGAIN,
            "sets_aside": "environment",
            **more,
        },
    )


CHECKS: tuple[Check, ...] = (
    Check(names.NODE, known=access.node),
    Check(names.SSH, known=access.ssh, of_nodes=is_remote, is_answered=access.has_answered),
    Check(
        names.HOST_KEY, known=access.host_key, of_nodes=is_remote, is_answered=access.has_answered
    ),
    Check(
        names.PYTHON,
        installation.IMPORTS,
        installation.python,
        known=installation.no_python,
        of_nodes=is_remote,
        is_answered=lambda node, job: (
            installation.is_imported("torch", node, job)
            or installation.is_imported("python", node, job)
        ),
        fix=Fix.SET_UP_AGAIN,
        sets_aside="environment",
        alike=(
            lambda entry: entry.shares_environment,
            lambda options, shared: replace(options, shared=shared),
        ),
    ),
    _library_check("torch", known=installation.lack),
    _library_check(
        "horovod",
        together=(installation.without_horovod, partial(installation.versions, "horovod")),
    ),
    _library_check("mpi4py"),
    Check(
        names.OPEN_MPI,
        Probe("mpirun", preflight_probe.mpirun),
        installation.mpirun,
        of_nodes=lambda node, job: bool(job.library),
        needs=(is_executable, installation.has_mpirun),
        fix=Fix.SET_UP_AGAIN,
        sets_aside="own mpi",
        alike=(
            lambda entry: entry.has_own_mpi,
            lambda options, own: replace(options, system_mpi=own),
        ),
    ),
    Check(
        names.PROGRAM,
        Probe("program", preflight_probe.program),
        installation.program,
        known=installation.old_program,
        of_nodes=is_remote,
        fix=Fix.SET_UP_AGAIN,
        sets_aside="program",
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
        of_nodes=is_remote,
        needs=(is_executable, installation.works, storage.sees_root),
        fix=Fix.START_AGENT,
    ),
    Check(
        names.DATA_ROOT,
        storage.ROOT,
        storage.data_root,
        known=storage.no_data_root,
        together=(storage.root_here, storage.apart),
        silence=lambda target, replies: storage.data_root(target, None),
        # If this computer cannot write to it, that is the only fault.
        of_nodes=lambda node, job: job.root_error is None,
        needs=(),
    ),
    Check(names.DISK, storage.ROOT, storage.disk, needs=(storage.sees_root,), fix=Fix.NONE),
    Check(
        names.HOME,
        Probe("home", preflight_probe.home),
        storage.home,
        silence=storage.no_home,
        of_nodes=is_remote,
        needs=(),
    ),
    Check(
        names.NETWORK,
        known=connectivity.not_its_address,
        together=(connectivity.no_common_network,),
        waits_for=connectivity.without_address,
        fix=Fix.CHECK_AGAIN,
    ),
    Check(
        names.SETTINGS,
        known=connectivity.settings,
        waits_for=connectivity.without_settings,
        fix=Fix.INSTALL_CLUSTER_KEY,
    ),
    Check(
        names.BETWEEN,
        together=(_log_ins,),
        waits_for=partial(connectivity.unmet, "ssh"),
        fix=Fix.INSTALL_CLUSTER_KEY,
    ),
    Check(
        names.ROUTE,
        together=(lambda job: connectivity.route_findings(connectivity.meetings("route", job)),),
        waits_for=partial(connectivity.unmet, "route"),
    ),
    Check(
        names.GPUS,
        Probe(
            "gpus", preflight_probe.command, lambda target: [target.python, "-c", machine.READ_GPUS]
        ),
        machine.gpus,
        silence=machine.no_gpus,
        of_nodes=lambda node, job: bool(node.placement.gpus),
        needs=(is_executable, installation.works),
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
        of_nodes=lambda node, job: bool(node.target and node.target.script_python),
    ),
    Check(names.PROCESSES, known=machine.processes, fix=Fix.FIT_PROCESSES),
    Check(
        names.DATA,
        together=(machine.data,),
        of_nodes=lambda node, job: bool(job.data_notes),
        fix=Fix.NONE,
        only_warns=True,
    ),
    Check(
        names.CLOCK,
        known=access.clock,
        of_nodes=is_remote,
        is_answered=access.has_answered,
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
        needs=(is_executable, installation.works, storage.sees_root),
        fix=Fix.END_ORPHANS,
        only_warns=True,
    ),
)
"""In the order in which they are shown."""
BY_NAME: Mapping[str, Check] = {check.name: check for check in CHECKS}


def judge(job: JobPreflight) -> tuple[tuple[PreflightFinding, ...], tuple[tuple[str, str], ...]]:
    """Return all findings, and each check that has no answer with its node; it has not passed."""
    found, unanswered = job.findings, []
    for check in CHECKS:
        for node in job.nodes:
            try:
                # Once: the thread of a node that is late may still add facts.
                facts = check.answer(node, job)
                found += check.of_node(node, job, facts)
            except Exception as error:  # noqa: BLE001 - an answer that is no answer
                _log.exception("%s of %s could not be judged", check.name, node.name)
                facts, why = None, repr(error)
                found.append(check.finding(not_checked(node.name, (check.name,), why), node.name))
            if facts is None and check.concerns(node, job):
                unanswered.append((check, node))
        found += [check.finding(one) for judge in check.together for one in judge(job)]
    found += _unexplained(job, unanswered)
    not_green = {one.check for one in found} | {check.name for check, _ in unanswered}
    for check in CHECKS:
        if check.name not in not_green and any(check.concerns(node, job) for node in job.nodes):
            passed = PreflightFinding(check.name, True, "")
            found.append(replace(passed, sentence=f"{passed.label}: OK"))
    order = {check.name: number for number, check in enumerate(CHECKS)}
    found.sort(key=lambda one: (one.ok, one.is_warning, order[one.check]))
    return tuple(found), tuple((check.name, node.name) for check, node in unanswered)


def of_replies(node: NodePreflight) -> Iterator[PreflightFinding]:
    """Yield the findings on what one node has answered."""
    job = JobPreflight(node.target.library if node.target else "", "", (node,))
    for check in CHECKS:
        if check.probe is not None and check.probe.name in (node.replies or {}):
            yield from check.of_node(node, job, check.answer(node, job))


def _unexplained(
    job: JobPreflight, unanswered: Sequence[tuple[Check, NodePreflight]]
) -> Iterator[PreflightFinding]:
    """Yield a finding for what has no answer although nothing else is wrong with the node."""
    blocking = [finding for finding in job.findings if finding.blocks]
    if any(not finding.nodes for finding in blocking):
        return
    wrong = {node for finding in blocking for node in finding.nodes}
    left: dict[str, list[Check]] = {}
    for check, node in unanswered:
        others = check.waits_for(node, job) if check.waits_for is not None else set()
        alike = [one for one in CHECKS if one is check or one.probe is check.probe is not None]
        is_known = any(node.name in job.faulty(one.name) for one in alike)
        if not (node.name in wrong or is_known or (others and others <= wrong)):
            left.setdefault(node.name, []).append(check)
    for name, checks in left.items():
        listed, warns = [check.name for check in checks], all(one.only_warns for one in checks)
        node = next(node for node in job.nodes if node.name == name)
        probe = checks[0].probe if len(checks) == 1 else None
        why = ((node.replies or {}).get(probe.name) or {}).get("why", "") if probe else ""
        yield checks[0].finding(not_checked(name, listed, str(why), warns=warns), name)
