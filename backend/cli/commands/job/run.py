"""``job preflight|start|stop|resume|wait|queue|unqueue|reorder``: the runs of a job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from backend.base.errors import BackendError
from backend.cli import questions
from backend.cli.command import ArgSpec, command
from backend.cli.parameters import JobId, NodePlacements, Reason, Wait, parse_hours, start_time
from backend.cli.printing import Answer, print_note
from backend.cli.runs import follow, state_answer
from backend.cli.session import Session
from backend.records.jobs.placement import node_label
from backend.records.jobs.settings import CHANGEABLE
from backend.records.jobs.view import JobView
from backend.records.nodes.preflight import Fix, Preflight, PreflightFinding, TrialResult
from backend.records.queue.entry import START_TIME_FORMS, QueuedJob
from backend.records.sweeps.values import field_kind, typed_value
from backend.services.context.container import Services

if TYPE_CHECKING:
    from backend.records.nodes.entry import SetUp


@command("job start")
def start(
    session: Session,
    id: JobId,
    *,
    wait: Wait = False,
    start_over: Annotated[
        bool, "start a job that ran before from its first step; its runs are kept in runs/"
    ] = False,
    on: NodePlacements = (),
) -> Answer:
    """Start a job from its first step."""
    lifecycle = session.services.jobs.lifecycle
    return _run_answer(session, lifecycle.start(id, start_over, on, session.progress), wait)


@command("job stop", reads_jobs=True)
def stop(
    session: Session,
    id: JobId,
    *,
    wait: Wait = False,
    kill: Annotated[bool, "end a run that did not stop when asked, without a checkpoint"] = False,
    reason: Reason = "",
) -> Answer:
    """Stop a job after a checkpoint."""
    lifecycle = session.services.jobs.lifecycle
    view = lifecycle.kill(id, reason) if kill else lifecycle.stop(id, reason)
    return _run_answer(session, view, wait and view.state.is_live)


_SETTINGS = [path for path in CHANGEABLE if field_kind(path) != "table"]


def _changes(_services: Services, assignments: Sequence[str]) -> tuple[tuple[str, Any], ...]:
    changes = []
    for assignment in assignments:
        path, is_set, text = assignment.partition("=")
        if not is_set:
            raise BackendError(f"--set {assignment}: has no “=”.", f"Use --set {assignment}=VALUE.")
        # As in a sweep, the last word of a setting is enough if no other one has it.
        matches = [setting for setting in CHANGEABLE if setting.rpartition(".")[2] == path]
        path = matches[0] if len(matches) == 1 else path
        try:
            changes.append((path, typed_value(path, text)))
        except ValueError as error:
            raise BackendError(str(error), "Nothing was changed.") from error
    return tuple(changes)


@command("job resume")
def resume(
    session: Session,
    id: JobId,
    *,
    wait: Wait = False,
    on: NodePlacements = (),
    checkpoint: Annotated[str, ArgSpec("C", "an older checkpoint")] = "",
    set: Annotated[
        tuple[tuple[str, Any], ...],
        ArgSpec(
            "PATH=VALUE",
            f"change {' or '.join(_SETTINGS)} for this and later runs; may be repeated",
            parse=str,
            resolve=_changes,
        ),
    ] = (),
) -> Answer:
    """Resume from the newest checkpoint."""
    view = session.services.jobs.lifecycle.resume(
        id,
        checkpoint,
        on,
        session.progress,
        changes=dict(set),
    )
    return _run_answer(session, view, wait)


@command("job wait", reads_jobs=True)
def wait(session: Session, id: JobId) -> Answer:
    """Return when the run has ended."""
    return follow(session, id)


def _run_answer(session: Session, view: JobView, waits: bool) -> Answer:
    return follow(session, view.id) if waits else state_answer(view)


@command("job queue")
def queue(
    session: Session,
    id: JobId,
    *,
    priority: Annotated[int | None, ArgSpec("N", "-100 to 100, default 0")] = None,
    not_before: Annotated[str, ArgSpec("TIME", f"{START_TIME_FORMS}, or now")] = "",
    hours: Annotated[
        float | None,
        ArgSpec("H", "reserve its nodes and GPUs from TIME on for so long", parse=parse_hours),
    ] = None,
    start_over: Annotated[bool, "begin at step 1, even if it ran before"] = False,
) -> Answer:
    """Queue a job to start automatically, or change its entry."""
    starts_now = not_before == "now"
    return _queue_answer(
        session.services.queue.enqueue(
            id,
            priority,
            None if starts_now else start_time(not_before),
            length_s=None if hours is None else hours * 3600,
            start_now=starts_now,
            start_over=start_over,
            progress=session.progress,
        )
    )


@command("job unqueue")
def unqueue(services: Services, id: JobId, *, reason: Reason = "") -> Answer:
    """Remove a job from the queue."""
    view = services.queue.dequeue(id, reason)
    return Answer(view, f"{view.id}  {view.state_label}")


@command("job reorder", one_of=("before", "after", "first"))
def reorder(
    services: Services,
    id: JobId,
    *,
    before: Annotated[str, ArgSpec("ID")] = "",
    after: Annotated[str, ArgSpec("ID")] = "",
    first: Annotated[bool, "before all others"] = False,
) -> Answer:
    """Move a waiting job; it gets the priority of its neighbour."""
    if first:
        return _queue_answer(services.queue.to_top(id))
    neighbour = services.queries.find(before or after)
    if before:
        return _queue_answer(services.queue.reorder(id, before_id=neighbour))
    return _queue_answer(services.queue.reorder(id, after_id=neighbour))


def _queue_answer(queued_job: QueuedJob) -> Answer:
    number = f"place {queued_job.number}, " if queued_job.number else ""
    priority = f"priority {queued_job.entry.priority}"
    return Answer(
        queued_job, f"{queued_job.entry.job_id}  {number}{priority}: {queued_job.full_message}"
    )


@command("job preflight")
def preflight(
    session: Session,
    id: JobId,
    *,
    canary: Annotated[bool, "then train one batch on its nodes as a test"] = False,
    fix: Annotated[bool, "fix what can be fixed, and check again"] = False,
    compute_node: Annotated[bool, "also check a compute node, in a job of Slurm"] = False,
) -> Answer:
    """Find what prevents a job from starting, and how to fix it."""
    services = session.services
    config = services.queries.show(id).config
    result = services.preflight.run(config, id)
    if fix and fix_findings(services, result, session.can_ask):
        result = services.preflight.run(config, id)
    if compute_node and any(f.fix is Fix.CHECK_COMPUTE_NODE for f in result.findings):
        result = services.compute_nodes.run(config, result, session.progress)
    trial = services.trial_runs.run(id) if canary and result.succeeded else None
    return Answer(
        {**result.to_dict(), "canary": trial},
        preflight_lines(result),
        () if trial is None else _trial_lines(trial),
        has_failed=not result.succeeded or (trial is not None and not trial.succeeded),
    )


def _trial_lines(trial: TrialResult) -> Iterator[str]:
    state = "ok   " if trial.succeeded else "FAULT"
    yield f"{state}  trial of {trial.took_s:.0f} s: {trial.message}"
    for line in trial.traceback.splitlines():
        yield f"       {line}"


def fix_findings(services: Services, result: Preflight, may_ask: bool) -> bool:
    """Fix what can be fixed; return whether anything was done. ``may_ask``: at a terminal."""
    fixable_findings = [
        finding
        for finding in (*result.blocking_findings, *result.warnings)
        if not finding.fix.needs_a_person
        or (may_ask and finding.host_key is not None and questions.ask_about_key(finding.host_key))
    ]
    for finding in fixable_findings:
        print_note(f"{finding.check}: {finding.message} Fixing: {finding.fix.value}")
    failed_findings = services.preflight.fix_all(fixable_findings, _print)
    for error in dict.fromkeys(failed_findings.values()):
        print_note(" ".join(filter(None, (error.message, error.remedy))))
    return bool(fixable_findings)


def _print(set_up: SetUp) -> None:
    if set_up.is_over and set_up.failed_step is None:
        print_note(f"{set_up.node} is set up.")


def preflight_lines(result: Preflight) -> Iterator[str]:
    from backend.services.preflight.names import COMPUTE_NODE

    for finding in result.findings:
        if not finding.ok:
            yield from _finding_lines(finding)
    passed_checks = [finding.check for finding in result.findings if finding.ok]
    yield from (f"ok     {f.message}" for f in result.findings if f.ok and f.check == COMPUTE_NODE)
    yield f"{len(passed_checks)} passed: {', '.join(passed_checks)}"
    if result.unchecked_pairs:
        yield result.unchecked_message
    problem_count = len(result.blocking_findings)
    problem_text = (
        "1 problem prevents" if problem_count == 1 else f"{problem_count} problems prevent"
    )
    outcome = "The job can start" if result.succeeded else f"{problem_text} the job from starting"
    nodes = " and ".join(map(node_label, result.nodes))
    yield f"{outcome}; checked {nodes} in {result.took_s:.1f} s."
    if result.smaller_placement:
        node_options = " ".join(
            f"--on {p.node}={','.join(p.gpus) or p.processes}" for p in result.smaller_placement
        )
        yield f"It could start with {node_options}"


def _finding_lines(finding: PreflightFinding) -> Iterator[str]:
    state = "warn " if finding.is_warning else "FAULT"
    node_names = f" ({', '.join(map(node_label, finding.nodes))})" if finding.nodes else ""
    yield f"{state}  {finding.check}{node_names}: {finding.message}"
    if finding.remedy:
        yield f"       {finding.remedy}"
