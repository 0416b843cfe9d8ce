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
    result = services.preflight.run(config, id)
    if fix and fix_findings(services, result, session.asks):
        result = services.preflight.run(config, id)
    trial = services.trial_runs.run(id) if canary and result.succeeded else None
    return Answer(
        {**result.to_dict(), "canary": trial},
        lines(result),
        () if trial is None else _trial_lines(trial),
        failed=not result.succeeded or (trial is not None and not trial.succeeded),
    )


def _trial_lines(trial: TrialResult) -> Iterator[str]:
    state = "ok   " if trial.succeeded else "FAULT"
    yield f"{state}  trial of {trial.took_s:.0f} s: {trial.message}"
    for line in trial.traceback.splitlines():
        yield f"       {line}"


def fix_findings(services: Services, result: Preflight, asks: bool) -> bool:
    """Fix what can be fixed; return whether anything was done. ``asks``: at a terminal."""
    fixable_findings = [
        finding
        for finding in (*result.blocking_findings, *result.warnings)
        if not finding.fix.needs_a_person
        or (asks and finding.host_key is not None and questions.ask_about_key(finding.host_key))
    ]
    for finding in fixable_findings:
        print_note(f"{finding.check}: {finding.message} Fixing: {finding.fix.value}")
    failed = services.preflight.fix_all(fixable_findings, _print)
    for error in dict.fromkeys(failed.values()):
        print_note(" ".join(filter(None, (error.message, error.remedy))))
    return bool(fixable_findings)


def _print(set_up: SetUp) -> None:
    if set_up.is_over and set_up.failed_step is None:
        print_note(f"{set_up.node} is set up.")


def lines(result: Preflight) -> Iterator[str]:
    for finding in result.findings:
        if not finding.ok:
            yield from _finding_lines(finding)
    passed_checks = [finding.check for finding in result.findings if finding.ok]
    yield f"{len(passed_checks)} passed: {', '.join(passed_checks)}"
    if result.unchecked:
        yield result.unchecked_message
    problem_count = len(result.blocking_findings)
    problem_text = (
        "1 problem prevents" if problem_count == 1 else f"{problem_count} problems prevent"
    )
    outcome = "The job can start" if result.succeeded else f"{problem_text} the job from starting"
    yield f"{outcome}; checked {' and '.join(result.nodes)} in {result.took_s:.1f} s."
    if result.smaller:
        node_options = " ".join(
            f"--on {p.node}={','.join(p.gpus) or p.processes}" for p in result.smaller
        )
        yield f"It could start with {node_options}"


def _finding_lines(finding: PreflightFinding) -> Iterator[str]:
    state = "warn " if finding.is_warning else "FAULT"
    node_names = f" ({', '.join(finding.nodes)})" if finding.nodes else ""
    yield f"{state}  {finding.check}{node_names}: {finding.message}"
    if finding.remedy:
        yield f"       {finding.remedy}"
