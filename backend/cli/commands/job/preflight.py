"""``job preflight``: everything that prevents a job from starting, and how to fix it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from backend.cli import questions
from backend.cli.command import command
from backend.cli.parameters import JobId
from backend.cli.printing import Answer, print_note
from backend.cli.session import Session
from backend.records.nodes.preflight import Preflight, PreflightFinding, TrialResult
from backend.services.context.container import Services

if TYPE_CHECKING:
    from backend.records.nodes.entry import SetUp


@command("job preflight")
def preflight(
    session: Session,
    id: JobId,
    *,
    canary: Annotated[bool, "then train one batch on its nodes as a test"] = False,
    fix: Annotated[bool, "fix what can be fixed, and check again"] = False,
) -> Answer:
    """Find what prevents a job from starting, and how to fix it."""
    services = session.services
    config = services.queries.show(id).config
    found = services.preflight.run(config, id)
    if fix and fixed_any(services, found, session.asks):
        found = services.preflight.run(config, id)
    trial = services.trial_runs.run(id) if canary and found.succeeded else None
    return Answer(
        {**found.to_dict(), "canary": trial},
        lines(found),
        () if trial is None else _trial_lines(trial),
        failed=not found.succeeded or (trial is not None and not trial.succeeded),
    )


def _trial_lines(canary: TrialResult) -> Iterator[str]:
    state = "ok   " if canary.succeeded else "FAULT"
    yield f"{state}  trial of {canary.took_s:.0f} s: {canary.message}"
    for line in canary.traceback.splitlines():
        yield f"       {line}"


def fixed_any(services: Services, found: Preflight, asks: bool) -> bool:
    """Fix what can be fixed; return whether anything was done. ``asks``: at a terminal."""
    wanted = [
        finding
        for finding in (*found.blocking_findings, *found.warnings)
        if not finding.fix.needs_a_person
        or (asks and finding.host_key is not None and questions.accepts(finding.host_key))
    ]
    for finding in wanted:
        print_note(f"{finding.check}: {finding.message} Fixing: {finding.fix.value}")
    failed = services.preflight.fix_all(wanted, _print)
    for error in dict.fromkeys(failed.values()):
        print_note(" ".join(filter(None, (error.message, error.remedy))))
    return bool(wanted)


def _print(set_up: SetUp) -> None:
    if set_up.is_over and set_up.failed_step is None:
        print_note(f"{set_up.node} is set up.")


def lines(found: Preflight) -> Iterator[str]:
    for finding in found.findings:
        if not finding.ok:
            yield from _finding_lines(finding)
    passed = [finding.check for finding in found.findings if finding.ok]
    yield f"{len(passed)} passed: {', '.join(passed)}"
    if found.unchecked:
        yield found.unchecked_message
    many = len(found.blocking_findings)
    things = "1 problem prevents" if many == 1 else f"{many} problems prevent"
    outcome = "The job can start" if found.succeeded else f"{things} the job from starting"
    yield f"{outcome}; checked {' and '.join(found.nodes)} in {found.took_s:.1f} s."
    if found.smaller:
        on = " ".join(
            f"--on {one.node}={','.join(one.gpus) or one.processes}" for one in found.smaller
        )
        yield f"It could start with {on}"


def _finding_lines(finding: PreflightFinding) -> Iterator[str]:
    state = "warn " if finding.is_warning else "FAULT"
    where = f" ({', '.join(finding.nodes)})" if finding.nodes else ""
    yield f"{state}  {finding.check}{where}: {finding.message}"
    if finding.remedy:
        yield f"       {finding.remedy}"
