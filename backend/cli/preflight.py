"""``job preflight``: everything that prevents a job from starting, and how to fix it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from backend.cli import nodes
from backend.cli.printing import FAILED, OK, print_json, print_line, print_note
from backend.records.nodes.preflight import Canary, Preflight, PreflightFinding

if TYPE_CHECKING:
    from backend.records.nodes.entry import SetUp
    from backend.services.context.container import Services


def preflight(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    job_id = services.jobs.queries.find(arguments.id)
    config = services.jobs.queries.show(job_id).config
    found = services.preflight.run(config, job_id)
    if arguments.fix and _mend(services, found, nodes.has_person(as_json)):
        found = services.preflight.run(config, job_id)
    canary = None
    if arguments.canary and found.passed:
        canary = services.canary.run(job_id)
    if as_json:
        print_json({**found.to_dict(), "canary": canary})
    else:
        _print(found)
        if canary is not None:
            _print_canary(canary)
    return OK if found.passed and (canary is None or canary.passed) else FAILED


def _print_canary(canary: Canary) -> None:
    state = "ok   " if canary.passed else "FAULT"
    print_line(f"{state}  trial of {canary.took_s:.0f} s: {canary.sentence}")
    for line in canary.traceback.splitlines():
        print_line(f"       {line}")


def _mend(services: Services, found: Preflight, asks: bool) -> bool:
    """Fix what can be fixed; return whether anything was done. ``asks``: at a terminal."""
    wanted = [
        finding
        for finding in (*found.faults, *found.warnings)
        if not finding.fix.needs_a_person
        or (asks and finding.host_key is not None and nodes.asked(finding.host_key))
    ]
    for finding in wanted:
        print_note(f"{finding.check}: {finding.sentence} Fixing: {finding.fix.value}")
    failed = services.preflight.fix_all(wanted, _tell)
    for error in dict.fromkeys(failed.values()):
        print_note(" ".join(filter(None, (error.sentence, error.remedy))))
    return bool(wanted)


def _tell(news: SetUp) -> None:
    if news.is_over and news.failed is None:
        print_note(f"{news.node} is set up.")


def _print(found: Preflight) -> None:
    for finding in found.findings:
        if not finding.ok:
            _print_one(finding)
    passed = [finding.check for finding in found.findings if finding.ok]
    print_line(f"{len(passed)} passed: {', '.join(passed)}")
    if found.unchecked:
        print_line(found.unchecked_words)
    many = len(found.faults)
    things = "1 problem prevents" if many == 1 else f"{many} problems prevent"
    outcome = "The job can start" if found.passed else f"{things} the job from starting"
    print_line(f"{outcome}; checked {' and '.join(found.nodes)} in {found.took_s:.1f} s.")
    if found.smaller:
        on = " ".join(
            f"--on {one.node}={','.join(one.gpus) or one.processes}" for one in found.smaller
        )
        print_line(f"It could start with {on}")


def _print_one(finding: PreflightFinding) -> None:
    state = "warn " if finding.is_warning else "FAULT"
    where = f" ({', '.join(finding.nodes)})" if finding.nodes else ""
    print_line(f"{state}  {finding.check}{where}: {finding.sentence}")
    if finding.remedy:
        print_line(f"       {finding.remedy}")
