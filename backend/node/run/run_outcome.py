"""Derive how a run ended from what its supervisor found. Pure: no file, no process.

mpirun's exit code is not used: Open MPI 5.0 gives 0 when a node was lost, and 137 or 14 by chance
for a killed rank. A run is FINISHED when every rank wrote that it finished; a worker of an
asynchronous job may be lost. Otherwise the first failure that is not a consequence of another one
is reported, and of an asynchronous job the first one after which it could not continue.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from backend.node.run.ended_run import EndedRun
from backend.node.system import wording
from backend.records.base import number_format
from backend.records.base.validation import sanitize
from backend.records.jobs.launch import Launch
from backend.records.jobs.state import JobState
from backend.records.jobs.status import (
    OF_LOSS,
    UNKNOWN,
    Explanation,
    RankError,
    RankExit,
    RunExit,
    RunStatus,
)

_GUARD_KILLED = re.compile(
    r"process rank (?P<rank>\d+) with PID \d+ on node (?P<host>\S+) exited on\s+"
    r"signal (?P<number>\d+)"
)
_LOST_CONTACT = re.compile(
    r"lost communication with a remote daemon\."
    r"(?:.|\n)*?Remote daemon\s*:[^\n]* on node (?P<host>\S+)"
)
_PEER_LOST = re.compile(
    r"MPI communication peer process has unexpectedly disconnected"
    r"(?:.|\n)*?Peer host:\s*(?P<host>\S+)"
)
_ABORTED = re.compile(
    r"reported by process \[\d+,(?P<reporter>\d+)\]"
    r"|due to process rank (?P<rank>\d+) with PID \d+ on\s+node\s+\S+\s+calling\s+\"abort\""
)
_WROTE_NOTHING = (
    "The script ended without an error, but wrote nothing: no figure, no checkpoint and no file in "
    "its output or working folder."
)
_NO_CURVE = (
    "No curve was found: no file of the script has rows with a step or an epoch (TensorBoard, CSV "
    "or JSON), and no line of its log names one with a value. If it prints numbers, right-click "
    "one in Log and choose “Draw …”."
)
_ERROR_AT_END = (
    "The script ended without an error, but its log ends with “{}”. A shell script ends as its "
    "last command does: begin it with “set -eo pipefail”."
)
_LATE_ABORT = (
    "{} aborted after the script's last line, while its Python was ending, so nothing of its work "
    "is lost. With torch.distributed.destroy_process_group() as its last line it ends well."
)
_STOPS_A_LOADER = frozenset(("open_files", "shm_full", "processes"))
"""Causes that end a thread of a loader, for which its rank then waits."""
_RESUME = re.compile(
    r"\b(?P<first>[Rr])esume(?: the job| it| from the newest checkpoint)?\b(?! (?:from|with)\b)"
)
"""Advice to resume this job; not the advice that a script resumes from another checkpoint."""
_FROM_OUTSIDE = {"SIGKILL": "once", "SIGTERM": "always", "SIGHUP": "always"}
"""Signals that no error of the code sends; the kernel sends SIGKILL if memory runs out."""
_NOISE = re.compile(r"^[\s\-=*#]*$|^\[.*\]\s*$|\(ignored\)$|^──")


@dataclass(frozen=True)
class _ReportedFailure:
    """The failure to report, and what it is based on."""

    error: RankError
    record: RankExit | None = None
    """The exit record it is from; None when it was concluded from other signs."""
    knows_why: bool = True
    """False when it only says that no rank was left to report the cause."""
    is_from_outside: bool = False
    """A signal from outside ended the run; the logs show only what followed."""
    is_of_machine: bool = False
    """A node or a process of the program was lost, without an error of the user's code."""


def run_exit(ended_run: EndedRun, leftovers: tuple[int, ...], ended_at: str) -> RunExit:
    """Return the exit record of a run."""
    ended_run = _mark_secondary(ended_run)
    state, message, failure = _derive_end(ended_run)
    error = failure.error if failure is not None else None
    if state is JobState.ERROR and failure is not None:
        error = _explain_failure(failure, ended_run)
        if error.rank != failure.error.rank:
            failure = _ReportedFailure(error)
        message = _message_with_rank(error)
        is_only_an_echo = failure.is_of_machine and failure.record is not None
        node = "" if is_only_an_echo else error.node
        remedy = error.remedy if ended_run.can_resume else _without_resume(error.remedy)
        error = replace(error, node=node, retry=_retry(failure, error), remedy=remedy)
    return RunExit(
        *(ended_run.run, state, message, error, ended_run.launcher_code, leftovers, ended_at),
        other_cpu=ended_run.other_cpu,
        pause=ended_run.pause if state is JobState.INTERRUPTED else "",
    )


def _without_resume(remedy: str) -> str:
    """Return a remedy for a job that has no checkpoint, or whose script cannot use one."""

    def start_over(match: re.Match[str]) -> str:
        return ("S" if match["first"] == "R" else "s") + "tart the job over"

    return _RESUME.sub(start_over, remedy)


def final_status(
    record: RunExit, last_status: RunStatus | None, launch: Launch | None = None
) -> RunStatus:
    """Return the last status of a run: rank 0's last figures, and how it ended."""
    if last_status is None or last_status.run != record.run:
        heartbeat = last_status.heartbeat if last_status is not None else 0
        last_status = RunStatus(record.state, run=record.run, heartbeat=heartbeat)
        if launch is not None:
            last_status = replace(
                last_status, epochs=launch.config.epochs, world_size=len(launch.ranks)
            )
    return replace(last_status.with_exit(record), heartbeat=last_status.heartbeat + 1)


def _derive_end(ended_run: EndedRun) -> tuple[JobState, str, _ReportedFailure | None]:
    required_ranks = {plan.rank for plan in ended_run.ranks} - ended_run.expendable_ranks
    complete_exits = [
        record
        for record in ended_run.exits
        if record.rank in required_ranks and record.outcome in ("finished", "interrupted")
    ]
    if required_ranks and len(complete_exits) == len(required_ranks):
        if all(record.outcome == "finished" for record in complete_exits):
            last_status = ended_run.last_status
            early_finishes = (
                [last_status.early_finish]
                if last_status is not None and last_status.run == ended_run.run
                else []
            )
            message = " ".join(
                [*early_finishes, *map(_message_with_rank, _lost_rank_errors(ended_run))]
            ).strip()
            message = (
                message
                or _late_abort_message(ended_run)
                or _WROTE_NOTHING * (ended_run.wrote_nothing and not ended_run.printed_numbers)
            )
            message = message or _log_end_message(ended_run) or _NO_CURVE * ended_run.has_no_curve
            return JobState.FINISHED, message, None
        return JobState.INTERRUPTED, ended_run.stop_message(), None
    if ended_run.runs_script and ended_run.stop_was_requested and _ended_by_stop(ended_run):
        return JobState.INTERRUPTED, ended_run.stop_message(), None
    failure = _first_failure(ended_run)
    if ended_run.stop_was_requested and ended_run.ended_early:
        return JobState.INTERRUPTED, ended_run.early_stop_message(), None
    if ended_run.stop_was_requested and ended_run.is_hung:
        return (
            JobState.INTERRUPTED,
            ended_run.forced_stop_message(_message_with_rank(failure.error)),
            failure,
        )
    return JobState.ERROR, _message_with_rank(failure.error), failure


def _ended_by_stop(ended_run: EndedRun) -> bool:
    """Return whether all processes stopped, or were ended by mpirun because another one had.

    A script that knows MPI and does not finish it at a stop makes mpirun end the rest.
    """
    stopped_exits = [
        record for record in ended_run.exits if record.outcome in ("finished", "interrupted")
    ]
    killed_exits = [
        record for record in ended_run.exits if record.outcome == "signal" and record.is_secondary
    ]
    return bool(stopped_exits) and len(stopped_exits) + len(killed_exits) == len(ended_run.ranks)


def _late_abort_message(ended_run: EndedRun) -> str:
    """Name the first process of a script that was done before a signal ended it, "" without one."""
    plans = (
        plan for record in ended_run.exits for plan in ended_run.ranks if plan.rank == record.rank
    )
    aborted_plans = (p for record, p in zip(ended_run.exits, plans, strict=False) if record.signal)
    first_plan = next(aborted_plans, None) if ended_run.runs_script else None
    return _LATE_ABORT.format(wording.rank_label(first_plan)) if first_plan else ""


def _log_end_message(ended_run: EndedRun) -> str:
    """Name the exception with which a log ends although the script ended with 0, or ""."""
    if not ended_run.log_end:
        return ""
    # Imported here: most runs end without it.
    from backend.node.diagnosis.tracebacks import final_exceptions

    lines = ended_run.log_end.rstrip().splitlines()
    exceptions = [chain[-1] for chain in final_exceptions(lines) if chain[-1].end >= len(lines) - 1]
    return _ERROR_AT_END.format(sanitize(exceptions[-1].text, 200)) if exceptions else ""


def _lost_rank_errors(ended_run: EndedRun) -> list[RankError]:
    """Report the ranks without which a run finished; that of a lost node knows no more."""
    records = {exit_record.rank: exit_record for exit_record in ended_run.exits}
    errors = []
    for plan in ended_run.ranks:
        record = records.get(plan.rank)
        if record is None or (record.error is not None and record.is_secondary):
            text = f"{wording.rank_label(plan)} was lost: its connection to the others broke."
            errors.append(RankError(text, plan.rank, plan.node))
        elif record.error is not None:
            errors.append(record.error)
    return errors


def _explain_failure(failure: _ReportedFailure, ended_run: EndedRun) -> RankError:
    """The failure with what the logs say about it; its own sentence yields to a surer one only."""
    error, record = failure.error, failure.record
    has_exception = record is not None and record.outcome == "error"
    if failure.is_from_outside or not (ended_run.logs or ended_run.mpirun_log):
        return error
    if has_exception and not error.traceback:
        # A sentence of this program about something that it found itself.
        return error
    # Its hundreds of patterns take a third of the time that a list of jobs takes.
    from backend.node.diagnosis.explainer import Failure, explain

    stands_still = record is not None and record.outcome == "stalled"
    # A rank that stands still sees no other one end, and the job continues without some ranks.
    excluded_ranks = ended_run.logs if stands_still else ended_run.expendable_ranks
    explanation = explain(
        Failure(
            error.rank,
            error.traceback if has_exception else "",
            has_record=has_exception,
            is_first=record is not None and not record.is_secondary,
            signal=record.signal if record is not None else "",
        ),
        {
            rank: log
            for rank, log in ended_run.logs.items()
            if rank == error.rank or rank not in excluded_ranks
        },
        ended_run.mpirun_log,
    )
    if explanation.cause == UNKNOWN:
        message = error.message
        if record is not None and record.outcome == "exit":
            message = f"{message.rstrip('.')}{_last_line_message(explanation)}."
        return replace(error, message=message, cause=UNKNOWN, evidence=explanation.evidence)
    is_of_another = record is not None and explanation.rank not in (None, error.rank)
    if is_of_another:
        # The order in which ranks end does not say which of them failed first.
        plan = next(plan for plan in ended_run.ranks if plan.rank == explanation.rank)
        record = next((record for record in ended_run.exits if record.rank == plan.rank), None)
        traceback = record.error.traceback if record is not None and record.error else ""
        error = RankError("", plan.rank, plan.node, traceback)
    if record is not None:
        explanation = replace(
            explanation, message=explanation.message + _limit_message(explanation.cause, record)
        )
    if stands_still and explanation.cause not in _STOPS_A_LOADER:
        # A rank that stands still has not ended of what its log says last.
        return replace(error, evidence=explanation.evidence)
    keeps_message = not is_of_another and (
        error.says_remedy or _is_own_message_better(failure, explanation)
    )
    # A sentence of a rank's own ends with the way out, which fits it better.
    has_remedy = (
        keeps_message and has_exception and (error.says_remedy or not explanation.is_quoted)
    )
    return replace(
        error,
        message=error.message if keeps_message else explanation.message,
        cause=explanation.cause,
        remedy="" if has_remedy else explanation.remedy,
        evidence=explanation.evidence,
    )


def _last_line_message(explanation: Explanation) -> str:
    """Return the end of a sentence about an unknown cause: programs print the reason last."""
    texts = [line.text.strip() for line in explanation.evidence if not _NOISE.search(line.text)]
    if not texts:
        return ", and its log does not say why"
    return f"; the last line of its log is “{sanitize(texts[-1], 200)}”"


def _retry(failure: _ReportedFailure, error: RankError) -> str:
    """Return `RankError.retry`: whether the machine failed, and not the user's code."""
    record = failure.record
    if failure.is_of_machine or error.retry:
        return error.retry or "always"
    if record is not None and record.outcome == "signal" and record.signal in _FROM_OUTSIDE:
        return _FROM_OUTSIDE[record.signal]
    if not error.cause:
        return ""
    from backend.node.diagnosis.rule import retry_of

    return retry_of(error.cause)


def _limit_message(cause: str, record: RankExit) -> str:
    """Return the size of the limit that was reached, as a sentence; "" if it is not known."""
    if cause == "open_files" and record.open_files is not None:
        return f" The limit on {wording.node_label(record.node)} is {record.open_files}."
    if cause == "shm_full" and record.shared_memory_bytes is not None:
        size = number_format.size(record.shared_memory_bytes)
        return f" On {wording.node_label(record.node)} it has {size}."
    return ""


def _is_own_message_better(failure: _ReportedFailure, explanation: Explanation) -> bool:
    """Return whether the sentence of the exit records is better than the one from the logs."""
    error, record = failure.error, failure.record
    if explanation.is_quoted:
        is_quoted_already = (
            bool(explanation.evidence) and explanation.evidence[-1].text.strip() in error.message
        )
        return is_quoted_already or record is None or record.outcome != "exit"
    if record is None:
        return failure.knows_why
    if record.outcome == "error":
        # The rank quotes its exception where it does not know it; its own words are better.
        exception_text = (
            explanation.evidence[-1].text.partition(": ")[2][:60] if explanation.evidence else ""
        )
        return not exception_text or exception_text not in error.message
    return record.outcome == "signal" and explanation.cause in ("killed", "crash", "ended")


def _message_with_rank(error: RankError) -> str:
    """The sentence with the rank it is about; what user code raised does not name it."""
    if error.rank is None or error.cause in OF_LOSS:
        return error.message
    if re.search(rf"\branks? .*\b{error.rank}\b", error.message.lower()):
        return error.message
    return f"Rank {error.rank} on {wording.node_label(error.node)}: {error.message}"


def _mark_secondary(ended_run: EndedRun) -> EndedRun:
    """Mark ranks as secondary that MPI aborted because another rank was gone.

    This can happen in any phase: Horovod's own thread communicates all the time.
    """
    codes = _abort_codes(ended_run)
    exits = (
        replace(record, is_secondary=True)
        if record.outcome == "exit" and record.code in codes
        else record
        for record in ended_run.exits
    )
    return replace(ended_run, exits=tuple(exits))


def _abort_codes(ended_run: EndedRun) -> set[int | None]:
    """Exit codes of the ranks that MPI aborted because it found another one gone."""
    if ended_run.end_signal:
        # mpirun may have got the signal too, and then does not pass on what MPI says.
        return {record.code for record in ended_run.exits} - {0}
    if not _PEER_LOST.search(ended_run.launcher_log):
        return set()
    # mpirun names the first one; all leave with the same code.
    named_ranks = {
        int(match["reporter"] or match["rank"])
        for match in _ABORTED.finditer(ended_run.launcher_log)
    }
    return {record.code for record in ended_run.exits if record.rank in named_ranks}


def _first_failure(ended_run: EndedRun) -> _ReportedFailure:
    if ended_run.outside_error is not None:
        return _ReportedFailure(ended_run.outside_error, is_from_outside=True)
    failures = [
        (exit_record.error, exit_record)
        for exit_record in ended_run.exits
        if exit_record.error is not None
    ]
    for error, record in failures:
        # Rank 0 reports the loss of a worker's batch, and that worker ends as an echo.
        is_cause = not record.is_secondary or error.rank in ended_run.expendable_ranks
        if is_cause and record.rank not in ended_run.expendable_ranks:
            return _ReportedFailure(error, record)
    external_failure = _external_failure(ended_run)
    if external_failure is not None:
        return external_failure
    missing_ranks = {plan.rank for plan in ended_run.ranks} - {
        exit_record.rank for exit_record in ended_run.exits
    }
    if not failures or (ended_run.expendable_ranks and missing_ranks - ended_run.expendable_ranks):
        is_lost = 0 < len(missing_ranks) < len(ended_run.ranks)
        return _ReportedFailure(
            _vanished_rank_error(ended_run), knows_why=False, is_of_machine=is_lost
        )
    # A job that can lose workers continues until the last one has ended.
    primary_failures = [exit_record for exit_record in failures if not exit_record[1].is_secondary]
    if primary_failures:
        return _ReportedFailure(*primary_failures[-1])
    # All were ended, and none failed: something between them was lost, on an unknown node.
    return _ReportedFailure(*failures[0], is_of_machine=True)


def _external_failure(ended_run: EndedRun) -> _ReportedFailure | None:
    """Judge by mpirun and the supervisor, where no rank reported the first failure."""
    if ended_run.launcher_error:
        lost_head = ended_run.ranks[0].node if ended_run.is_of_machine and ended_run.ranks else ""
        return _ReportedFailure(
            RankError(ended_run.launcher_error, node=lost_head),
            is_of_machine=ended_run.is_of_machine,
        )
    if ended_run.end_signal:
        signal_message = (
            f"The run was ended from outside: its supervisor got {ended_run.end_signal}."
        )
        return _ReportedFailure(RankError(signal_message), is_from_outside=True, is_of_machine=True)
    node_error = _silent_node_error(ended_run) or _lost_root_error(ended_run)
    if node_error is not None:
        return _ReportedFailure(node_error, is_from_outside=True, is_of_machine=True)
    loss_error = (
        _killed_guard_error(ended_run)
        or _lost_contact_error(ended_run)
        or _lost_node_error(ended_run)
    )
    if loss_error is not None:
        return _ReportedFailure(loss_error, is_of_machine=True)
    if ended_run.unreached_nodes:
        return _ReportedFailure(_unreached_node_error(ended_run), is_of_machine=True)
    if ended_run.give_up_reason:
        return _ReportedFailure(RankError(ended_run.give_up_reason))
    if ended_run.launcher_code is not None and ended_run.launcher_code < 0:
        number = -ended_run.launcher_code
        kill_message = (
            f"{ended_run.launcher} on this computer was killed by signal {number} "
            f"({wording.signal_name(number)})."
        )
        return _ReportedFailure(RankError(kill_message), is_of_machine=True)
    termination_error = _termination_error(ended_run)
    if termination_error is None:
        return None
    return _ReportedFailure(termination_error, is_from_outside=True, is_of_machine=True)


def _silent_node_error(ended_run: EndedRun) -> RankError | None:
    if not ended_run.silent_nodes:
        return None
    nodes = " and ".join(wording.node_label(node) for node in ended_run.silent_nodes)
    return RankError(
        f"{nodes} gave no sign of life: no heartbeat, and no answer over SSH.",
        node=ended_run.silent_nodes[0],
        remedy=f"Look at the console of {ended_run.silent_nodes[0]}; if it does not react, "
        "restart it.",
    )


def _lost_root_error(ended_run: EndedRun) -> RankError | None:
    """Report a node that could not record how its ranks ended: a missing record is no silence."""
    reported_ranks = {record.rank for record in ended_run.exits}
    missing_plans = [
        p
        for p in ended_run.ranks
        if p.node in ended_run.nodes_without_root and p.rank not in reported_ranks
    ]
    if not missing_plans:
        return None
    node = missing_plans[0].node
    ranks = _rank_list([plan.rank for plan in missing_plans if plan.node == node])
    return RankError(
        f"{wording.node_label(node)} answers, but no longer sees the data root "
        f"{ended_run.data_root}, so "
        f"the end of its {ranks} could not be recorded.",
        missing_plans[0].rank,
        node,
        remedy=f"Mount the share on {node} again, and run a check of the node. Then resume the "
        "job, or resume it without that node.",
    )


def _vanished_rank_error(ended_run: EndedRun) -> RankError:
    """Report ranks that are gone for an unknown reason."""
    missing_plans = [
        plan
        for plan in ended_run.ranks
        if plan.rank not in {record.rank for record in ended_run.exits}
    ]
    launcher_message = _launcher_message(ended_run.launcher_log)
    if len(missing_plans) == len(ended_run.ranks):
        return RankError(
            f"{ended_run.launcher} ended with code {ended_run.launcher_code} before any rank "
            "could say "
            f"how it ended{': ' + launcher_message if launcher_message else '.'}",
            traceback=ended_run.launcher_log[-4000:],
        )
    plan = missing_plans[0]
    return RankError(
        f"{wording.rank_label(plan)} disappeared without an error: its node or its guard process "
        "was lost"
        f"{': ' + launcher_message if launcher_message else '.'}",
        plan.rank,
        plan.node,
        ended_run.launcher_log[-4000:],
    )


def _killed_guard_error(ended_run: EndedRun) -> RankError | None:
    """A rank that mpirun saw die and whose guard could not say so."""
    for match in _GUARD_KILLED.finditer(ended_run.launcher_log):
        plan = next(
            (element for element in ended_run.ranks if element.rank == int(match["rank"])), None
        )
        if plan is None or any(element.rank == plan.rank for element in ended_run.exits):
            continue
        number = int(match["number"])
        return RankError(
            f"{wording.rank_label(plan)} was lost: its guard was killed by signal {number} "
            f"({wording.signal_name(number)}).",
            plan.rank,
            plan.node,
        )
    return None


def _lost_contact_error(ended_run: EndedRun) -> RankError | None:
    """Report a node that mpirun lost; its guards may have recorded their end nevertheless."""
    match = _LOST_CONTACT.search(ended_run.launcher_log)
    if match is None:
        return None
    # mpirun names nodes by their host names (5.0) or as they were given to it (4.1); users know
    # them by the names in the window.
    names = {plan.host: plan.node for plan in ended_run.ranks}
    names |= {record.host: record.node for record in ended_run.exits}
    node = names.get(match["host"], match["host"])
    ranks = [plan.rank for plan in ended_run.ranks if plan.node == node]
    return RankError(
        f"{wording.node_label(node)} no longer answers: the connection to it"
        f"{f' and its {_rank_list(ranks)}' if ranks else ''} was lost.",
        ranks[0] if ranks else None,
        node,
        ended_run.launcher_log[-4000:],
    )


def _termination_error(ended_run: EndedRun) -> RankError | None:
    """A rank that got SIGTERM from outside before the others found it gone.

    Its guard cannot distinguish them: mpirun sends it SIGTERM a moment later as well.
    """
    peer_match = _PEER_LOST.search(ended_run.launcher_log)
    if peer_match is None:
        return None
    terminated_exits = [
        record
        for record in ended_run.exits
        if (record.outcome, record.signal, record.host) == ("signal", "SIGTERM", peer_match["host"])
    ]
    if not terminated_exits:
        return None
    first_exit, *other_exits = terminated_exits
    ranks = [record.rank for record in terminated_exits]
    subject = f"One of {_rank_list(ranks)}" if other_exits else f"Rank {first_exit.rank}"
    return RankError(
        f"{subject} on {wording.node_label(first_exit.node)} was ended from outside (SIGTERM).",
        None if other_exits else first_exit.rank,
        first_exit.node,
    )


def _rank_list(ranks: Sequence[int]) -> str:
    *previous_ranks, last_rank = map(str, ranks)
    return (
        f"ranks {', '.join(previous_ranks)} and {last_rank}"
        if previous_ranks
        else f"rank {last_rank}"
    )


def _lost_node_error(ended_run: EndedRun) -> RankError | None:
    """A node none of whose ranks left a record, while every rank on the others did."""
    reported_ranks = {record.rank for record in ended_run.exits}
    missing_plans = [plan for plan in ended_run.ranks if plan.rank not in reported_ranks]
    nodes = {plan.node for plan in missing_plans}
    if (
        not reported_ranks
        or len(nodes) != 1
        or {p.node for p in ended_run.ranks if p.rank in reported_ranks} & nodes
    ):
        return None
    launcher_message = _launcher_message(ended_run.launcher_log)
    ranks = _rank_list([plan.rank for plan in missing_plans])
    return RankError(
        f"{wording.node_label(missing_plans[0].node)} was lost with its {ranks}: it no longer "
        "answers"
        f"{'. mpirun says: ' + launcher_message if launcher_message else '.'}",
        missing_plans[0].rank,
        missing_plans[0].node,
        ended_run.launcher_log[-4000:],
    )


def _unreached_node_error(ended_run: EndedRun) -> RankError:
    """Nodes that are gone, where neither mpirun nor a rank said so: it was still starting."""
    *previous_nodes, last_node = (wording.node_label(node) for node in ended_run.unreached_nodes)
    subject = (
        f"{', '.join(previous_nodes)} and {last_node} do" if previous_nodes else f"{last_node} does"
    )
    effect = "ended" if ended_run.exits else "could not begin"
    return RankError(
        f"{subject} not answer over SSH, so the run {effect}.",
        node=ended_run.unreached_nodes[0],
        traceback=ended_run.launcher_log[-4000:],
    )


def _launcher_message(log: str) -> str:
    """The first telling line of what mpirun wrote; its texts begin with what is the matter."""
    for line in log.splitlines():
        text = " ".join(line.split())
        if text and not _NOISE.match(text):
            return text[:300]
    return ""
