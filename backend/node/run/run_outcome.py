"""Derive how a run ended from what its supervisor found. Pure: no file, no process.

mpirun's exit code is not used: Open MPI 5.0 gives 0 when a node was lost, and 137 or 14 by chance
for a killed rank. A run is FINISHED when every rank wrote that it finished; a worker of an
asynchronous job may be lost. Otherwise the first failure that is not a consequence of another one
is reported, and of an asynchronous job the first one after which it could not continue.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from backend.node.diagnosis.log_text import LogPart
from backend.node.system import wording
from backend.records.base import number_format
from backend.records.base.layout import checkpoint_text, epoch_and_step, place_of
from backend.records.base.validation import sanitize
from backend.records.jobs.diagnosis import OF_LOSS, UNKNOWN, Explanation
from backend.records.jobs.launch import Launch, RankPlan
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RankError, RankExit, RunExit, RunStatus

_NOTICED = re.compile(
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
    "its output folder."
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
_ABORTED_AT_ITS_END = (
    "{} aborted after the script's last line, while its Python was ending, so nothing of its work "
    "is lost. With torch.distributed.destroy_process_group() as its last line it ends well."
)
_STOPS_A_LOADER = frozenset(("open_files", "shm_full", "processes"))
"""Causes that end a thread of a loader, for which its rank then waits."""
_FROM_OUTSIDE = {"SIGKILL": "once", "SIGTERM": "always", "SIGHUP": "always"}
"""Signals that no error of the code sends; the kernel sends SIGKILL if memory runs out."""
_NOISE = re.compile(r"^[\s\-=*#]*$|^\[.*\]\s*$|\(ignored\)$|^──")


@dataclass(frozen=True)
class _Judgement:
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


@dataclass(frozen=True)
class EndedRun:
    """The facts that a supervisor has when mpirun is gone; ``exits`` in the order of arrival.

    ``ended_early``: the supervisor ended the run before the first step, as requested.
    ``stopped_by``: the user who requested it, or ""; ``pause``: why the run gave way, or "".
    ``end_requested``: name of the signal that ended the supervisor, or "".
    ``gave_up``: a sentence about why the supervisor ended mpirun by itself, or "".
    ``unreached``: nodes that did not answer over SSH when the run had ended; ``blind``: those that
    answered and did not see ``data_root``. ``stood_still``: nodes that gave no sign of life within
    the limit, why the supervisor ended the run.
    """

    run: int
    ranks: Sequence[RankPlan]
    exits: Sequence[RankExit]
    launcher: str = "mpirun"
    launcher_code: int | None = None
    launcher_error: str = ""
    is_of_machine: bool = False
    """Whether ``launcher_error`` is about the machine: it restarted, or lost the supervisor."""
    launcher_log: str = ""
    stop_was_requested: bool = False
    stopped_by: str = ""
    pause: str = ""
    ended_early: bool = False
    end_signal: str = ""
    give_up_reason: str = ""
    unreached_nodes: Sequence[str] = ()
    nodes_without_root: Sequence[str] = ()
    silent_nodes: Sequence[str] = ()
    data_root: str = ""
    newest_checkpoint: str = ""
    checkpoint_of_run: bool = False
    """Whether this run made ``newest_checkpoint``."""
    runs_script: bool = False
    other_cpu: float | None = None
    logs: Mapping[int, Sequence[LogPart]] = field(default_factory=dict)
    """What ranks wrote in this run, that of the first failing one at least."""
    mpirun_log: Sequence[LogPart] = ()
    expendable_ranks: Set[int] = frozenset()
    """The ranks without which the job continues."""
    last_status: RunStatus | None = None
    wrote_nothing: bool = False
    """Of a script: it left no figure, no checkpoint and no file."""
    has_no_curve: bool = False
    log_end: str = ""
    """Of a script: the end of the log of its first process."""
    """Of a script: none of its numbers was found."""


def run_exit(found: EndedRun, leftovers: tuple[int, ...], ended_at: str) -> RunExit:
    """The exit record of a run."""
    found = _mark_secondary(found)
    state, message, judged = _judge(found)
    error = judged.error if judged is not None else None
    if state is JobState.ERROR and judged is not None:
        error = _explained(judged, found)
        if error.rank != judged.error.rank:
            judged = _Judgement(error)
        message = _named(error)
        is_only_an_echo = judged.is_of_machine and judged.record is not None
        node = "" if is_only_an_echo else error.node
        error = replace(error, node=node, retry=_retry(judged, error))
    return RunExit(
        *(found.run, state, message, error, found.launcher_code, leftovers, ended_at),
        other_cpu=found.other_cpu,
        pause=found.pause if state is JobState.INTERRUPTED else "",
    )


def final_status(
    record: RunExit, last: RunStatus | None, launch: Launch | None = None
) -> RunStatus:
    """Return the last status of a run: rank 0's last figures, and how it ended."""
    if last is None or last.run != record.run:
        heartbeat = last.heartbeat if last is not None else 0
        last = RunStatus(record.state, run=record.run, heartbeat=heartbeat)
        if launch is not None:
            last = replace(last, epochs=launch.config.epochs, world_size=len(launch.ranks))
    return replace(last.ended_as(record), heartbeat=last.heartbeat + 1)


def _judge(found: EndedRun) -> tuple[JobState, str, _Judgement | None]:
    needed = {plan.rank for plan in found.ranks} - found.expendable_ranks
    good = [
        one
        for one in found.exits
        if one.rank in needed and one.outcome in ("finished", "interrupted")
    ]
    if needed and len(good) == len(needed):
        if all(one.outcome == "finished" for one in good):
            last = found.last_status
            early = [last.early_finish] if last is not None and last.run == found.run else []
            message = " ".join([*early, *map(_named, _lost(found))]).strip()
            message = message or _aborted_at_its_end(found) or _WROTE_NOTHING * found.wrote_nothing
            message = message or _error_at_end(found) or _NO_CURVE * found.has_no_curve
            return JobState.FINISHED, message, None
        return JobState.INTERRUPTED, _stopped(found), None
    if found.runs_script and found.stop_was_requested and _ended_by_stop(found):
        return JobState.INTERRUPTED, _stopped(found), None
    judged = _first_failure(found)
    if found.stop_was_requested and found.ended_early:
        return JobState.INTERRUPTED, _stopped_early(found), None
    if found.stop_was_requested and _hung(found):
        return JobState.INTERRUPTED, _stopped_by_force(found, judged.error), judged
    return JobState.ERROR, _named(judged.error), judged


def _ended_by_stop(found: EndedRun) -> bool:
    """Return whether all processes stopped, or were ended by mpirun because another one had.

    A script that knows MPI and does not finish it at a stop makes mpirun end the rest.
    """
    stopped = [one for one in found.exits if one.outcome in ("finished", "interrupted")]
    others = [one for one in found.exits if one.outcome == "signal" and one.secondary]
    return bool(stopped) and len(stopped) + len(others) == len(found.ranks)


def _aborted_at_its_end(found: EndedRun) -> str:
    """Name the first process of a script that was done before a signal ended it, "" without one."""
    plans = (plan for one in found.exits for plan in found.ranks if plan.rank == one.rank)
    late = (p for one, p in zip(found.exits, plans, strict=False) if one.signal)
    first = next(late, None) if found.runs_script else None
    return _ABORTED_AT_ITS_END.format(wording.rank_label(first)) if first else ""


def _error_at_end(found: EndedRun) -> str:
    """Name the exception with which a log ends although the script ended with 0, or ""."""
    if not found.log_end:
        return ""
    # Imported here: most runs end without it.
    from backend.node.diagnosis.tracebacks import final_exceptions

    lines = found.log_end.rstrip().splitlines()
    exceptions = [chain[-1] for chain in final_exceptions(lines) if chain[-1].end >= len(lines) - 1]
    return _ERROR_AT_END.format(sanitize(exceptions[-1].text, 200)) if exceptions else ""


def _lost(found: EndedRun) -> list[RankError]:
    """Report the ranks without which a run finished; that of a lost node knows no more."""
    records = {one.rank: one for one in found.exits}
    lost = []
    for plan in found.ranks:
        record = records.get(plan.rank)
        if record is None or (record.error is not None and record.secondary):
            text = f"{wording.rank_label(plan)} was lost: its connection to the others broke."
            lost.append(RankError(text, plan.rank, plan.node))
        elif record.error is not None:
            lost.append(record.error)
    return lost


def _explained(judged: _Judgement, found: EndedRun) -> RankError:
    """The failure with what the logs say about it; its own sentence yields to a surer one only."""
    error, record = judged.error, judged.record
    raised = record is not None and record.outcome == "error"
    if judged.is_from_outside or not (found.logs or found.mpirun_log):
        return error
    if raised and not error.traceback:
        # A sentence of this program about something that it found itself.
        return error
    # Its hundreds of patterns take a third of the time that a list of jobs takes.
    from backend.node.diagnosis.explainer import Failure, explain

    stands_still = record is not None and record.outcome == "stalled"
    # A rank that stands still sees no other one end, and the job continues without some ranks.
    unasked = found.logs if stands_still else found.expendable_ranks
    explanation = explain(
        Failure(
            error.rank,
            error.traceback if raised else "",
            has_record=raised,
            is_first=record is not None and not record.secondary,
            signal=record.signal if record is not None else "",
        ),
        {
            rank: log
            for rank, log in found.logs.items()
            if rank == error.rank or rank not in unasked
        },
        found.mpirun_log,
    )
    if explanation.cause == UNKNOWN:
        sentence = error.sentence
        if record is not None and record.outcome == "exit":
            sentence = f"{sentence.rstrip('.')}{_last_line(explanation)}."
        return replace(error, sentence=sentence, cause=UNKNOWN, evidence=explanation.evidence)
    is_of_another = record is not None and explanation.rank not in (None, error.rank)
    if is_of_another:
        # The order in which ranks end does not say which of them failed first.
        plan = next(plan for plan in found.ranks if plan.rank == explanation.rank)
        record = next((record for record in found.exits if record.rank == plan.rank), None)
        traceback = record.error.traceback if record is not None and record.error else ""
        error = RankError("", plan.rank, plan.node, traceback)
    if record is not None:
        explanation = replace(
            explanation, sentence=explanation.sentence + _limit(explanation.cause, record)
        )
    if stands_still and explanation.cause not in _STOPS_A_LOADER:
        # A rank that stands still has not ended of what its log says last.
        return replace(error, evidence=explanation.evidence)
    own = not is_of_another and (error.says_remedy or _says_all(judged, explanation))
    # A sentence of a rank's own ends with the way out, which fits it better.
    has_remedy = own and raised and (error.says_remedy or not explanation.is_quoted)
    return replace(
        error,
        sentence=error.sentence if own else explanation.sentence,
        cause=explanation.cause,
        remedy="" if has_remedy else explanation.remedy,
        evidence=explanation.evidence,
    )


def _last_line(explanation: Explanation) -> str:
    """Return the end of a sentence about an unknown cause: programs print the reason last."""
    texts = [line.text.strip() for line in explanation.evidence if not _NOISE.search(line.text)]
    if not texts:
        return ", and its log does not say why"
    return f"; the last line of its log is “{sanitize(texts[-1], 200)}”"


def _retry(judged: _Judgement, error: RankError) -> str:
    """Return `RankError.retry`: whether the machine failed, and not the user's code."""
    record = judged.record
    if judged.is_of_machine or error.retry:
        return error.retry or "always"
    if record is not None and record.outcome == "signal" and record.signal in _FROM_OUTSIDE:
        return _FROM_OUTSIDE[record.signal]
    if not error.cause:
        return ""
    from backend.node.diagnosis.rule import retry_of

    return retry_of(error.cause)


def _limit(cause: str, record: RankExit) -> str:
    """Return the size of the limit that was reached, as a sentence; "" if it is not known."""
    if cause == "open_files" and record.open_files is not None:
        return f" The limit on {wording.node_label(record.node)} is {record.open_files}."
    if cause == "shm_full" and record.shared_memory_bytes is not None:
        size = number_format.size(record.shared_memory_bytes)
        return f" On {wording.node_label(record.node)} it has {size}."
    return ""


def _says_all(judged: _Judgement, explanation: Explanation) -> bool:
    """Return whether the sentence of the exit records is better than the one from the logs."""
    error, record = judged.error, judged.record
    if explanation.is_quoted:
        quoted = (
            bool(explanation.evidence) and explanation.evidence[-1].text.strip() in error.sentence
        )
        return quoted or record is None or record.outcome != "exit"
    if record is None:
        return judged.knows_why
    if record.outcome == "error":
        # The rank quotes its exception where it does not know it; its own words are better.
        first = (
            explanation.evidence[-1].text.partition(": ")[2][:60] if explanation.evidence else ""
        )
        return not first or first not in error.sentence
    return record.outcome == "signal" and explanation.cause in ("killed", "crash", "ended")


def _named(error: RankError) -> str:
    """The sentence with the rank it is about; what user code raised does not name it."""
    if error.rank is None or error.cause in OF_LOSS:
        return error.sentence
    if re.search(rf"\branks? .*\b{error.rank}\b", error.sentence.lower()):
        return error.sentence
    return f"Rank {error.rank} on {wording.node_label(error.node)}: {error.sentence}"


def _mark_secondary(found: EndedRun) -> EndedRun:
    """Mark ranks as secondary that MPI aborted because another rank was gone.

    This can happen in any phase: Horovod's own thread communicates all the time.
    """
    codes = _abort_codes(found)
    exits = (
        replace(one, secondary=True) if one.outcome == "exit" and one.code in codes else one
        for one in found.exits
    )
    return replace(found, exits=tuple(exits))


def _abort_codes(found: EndedRun) -> set[int | None]:
    """Exit codes of the ranks that MPI aborted because it found another one gone."""
    if found.end_signal:
        # mpirun may have got the signal too, and then does not pass on what MPI says.
        return {one.code for one in found.exits} - {0}
    if not _PEER_LOST.search(found.launcher_log):
        return set()
    # mpirun names the first one; all leave with the same code.
    named = {int(at["reporter"] or at["rank"]) for at in _ABORTED.finditer(found.launcher_log)}
    return {one.code for one in found.exits if one.rank in named}


def _first_failure(found: EndedRun) -> _Judgement:
    failures = [(one.error, one) for one in found.exits if one.error is not None]
    for error, record in failures:
        # Rank 0 reports the loss of a worker's batch, and that worker ends as an echo.
        is_cause = not record.secondary or error.rank in found.expendable_ranks
        if is_cause and record.rank not in found.expendable_ranks:
            return _Judgement(error, record)
    seen = _seen_from_outside(found)
    if seen is not None:
        return seen
    missing = {plan.rank for plan in found.ranks} - {one.rank for one in found.exits}
    if not failures or (found.expendable_ranks and missing - found.expendable_ranks):
        is_lost = 0 < len(missing) < len(found.ranks)
        return _Judgement(_silent(found), knows_why=False, is_of_machine=is_lost)
    # A job that can lose workers continues until the last one has ended.
    survived = [one for one in failures if not one[1].secondary]
    if survived:
        return _Judgement(*survived[-1])
    # All were ended, and none failed: something between them was lost, on an unknown node.
    return _Judgement(*failures[0], is_of_machine=True)


def _seen_from_outside(found: EndedRun) -> _Judgement | None:
    """Judge by mpirun and the supervisor, where no rank reported the first failure."""
    if found.launcher_error:
        return _Judgement(
            RankError(found.launcher_error, node=_head(found)), is_of_machine=found.is_of_machine
        )
    if found.end_signal:
        ended = f"The run was ended from outside: its supervisor got {found.end_signal}."
        return _Judgement(RankError(ended), is_from_outside=True, is_of_machine=True)
    outside = _stood_still(found) or _blind(found)
    if outside is not None:
        return _Judgement(outside, is_from_outside=True, is_of_machine=True)
    lost = _noticed(found) or _lost_contact(found) or _lost_node(found)
    if lost is not None:
        return _Judgement(lost, is_of_machine=True)
    if found.unreached_nodes:
        return _Judgement(_unreached(found), is_of_machine=True)
    if found.give_up_reason:
        return _Judgement(RankError(found.give_up_reason))
    if found.launcher_code is not None and found.launcher_code < 0:
        number = -found.launcher_code
        killed = (
            f"{found.launcher} on this computer was killed by signal {number} "
            f"({wording.signal_name(number)})."
        )
        return _Judgement(RankError(killed), is_of_machine=True)
    asked = _terminated(found)
    if asked is None:
        return None
    return _Judgement(asked, is_from_outside=True, is_of_machine=True)


def _head(found: EndedRun) -> str:
    """Return the node of which the supervisor is gone, "" if that is not why the run ended."""
    return found.ranks[0].node if found.is_of_machine and found.ranks else ""


def _stood_still(found: EndedRun) -> RankError | None:
    if not found.silent_nodes:
        return None
    nodes = " and ".join(wording.node_label(node) for node in found.silent_nodes)
    return RankError(
        f"{nodes} gave no sign of life: no heartbeat, and no answer over SSH.",
        node=found.silent_nodes[0],
        remedy=f"Look at the console of {found.silent_nodes[0]}; if it does not react, restart it.",
    )


def _blind(found: EndedRun) -> RankError | None:
    """Report a node that could not record how its ranks ended: a missing record is no silence."""
    reported = {one.rank for one in found.exits}
    missing = [p for p in found.ranks if p.node in found.nodes_without_root and p.rank not in reported]
    if not missing:
        return None
    node = missing[0].node
    ranks = _ranks([plan.rank for plan in missing if plan.node == node])
    return RankError(
        f"{wording.node_label(node)} answers, but no longer sees the data root {found.data_root}, so "
        f"the end of its {ranks} could not be recorded.",
        missing[0].rank,
        node,
        remedy=f"Mount the share on {node} again, and run a check of the node. Then resume the "
        "job, or resume it without that node.",
    )


def _silent(found: EndedRun) -> RankError:
    """Report ranks that are gone for an unknown reason."""
    missing = [plan for plan in found.ranks if plan.rank not in {one.rank for one in found.exits}]
    last = _last_words(found.launcher_log)
    if len(missing) == len(found.ranks):
        return RankError(
            f"{found.launcher} ended with code {found.launcher_code} before any rank could say "
            f"how it ended{': ' + last if last else '.'}",
            traceback=found.launcher_log[-4000:],
        )
    plan = missing[0]
    return RankError(
        f"{wording.rank_label(plan)} disappeared without an error: its node or its guard process was lost"
        f"{': ' + last if last else '.'}",
        plan.rank,
        plan.node,
        found.launcher_log[-4000:],
    )


def _noticed(found: EndedRun) -> RankError | None:
    """A rank that mpirun saw die and whose guard could not say so."""
    for match in _NOTICED.finditer(found.launcher_log):
        plan = next((one for one in found.ranks if one.rank == int(match["rank"])), None)
        if plan is None or any(one.rank == plan.rank for one in found.exits):
            continue
        number = int(match["number"])
        return RankError(
            f"{wording.rank_label(plan)} was lost: its guard was killed by signal {number} "
            f"({wording.signal_name(number)}).",
            plan.rank,
            plan.node,
        )
    return None


def _lost_contact(found: EndedRun) -> RankError | None:
    """Report a node that mpirun lost; its guards may have recorded their end nevertheless."""
    match = _LOST_CONTACT.search(found.launcher_log)
    if match is None:
        return None
    # mpirun names nodes by their host names (5.0) or as they were given to it (4.1); users know
    # them by the names in the window.
    names = {plan.host: plan.node for plan in found.ranks}
    names |= {one.host: one.node for one in found.exits}
    node = names.get(match["host"], match["host"])
    ranks = [plan.rank for plan in found.ranks if plan.node == node]
    return RankError(
        f"{wording.node_label(node)} no longer answers: the connection to it"
        f"{f' and its {_ranks(ranks)}' if ranks else ''} was lost.",
        ranks[0] if ranks else None,
        node,
        found.launcher_log[-4000:],
    )


def _terminated(found: EndedRun) -> RankError | None:
    """A rank that got SIGTERM from outside before the others found it gone.

    Its guard cannot distinguish them: mpirun sends it SIGTERM a moment later as well.
    """
    lost = _PEER_LOST.search(found.launcher_log)
    if lost is None:
        return None
    gone = [
        one
        for one in found.exits
        if (one.outcome, one.signal, one.host) == ("signal", "SIGTERM", lost["host"])
    ]
    if not gone:
        return None
    first, *more = gone
    ranks = [one.rank for one in gone]
    who = f"One of {_ranks(ranks)}" if more else f"Rank {first.rank}"
    return RankError(
        f"{who} on {wording.node_label(first.node)} was ended from outside (SIGTERM).",
        None if more else first.rank,
        first.node,
    )


def _ranks(ranks: Sequence[int]) -> str:
    *firsts, final = map(str, ranks)
    return f"ranks {', '.join(firsts)} and {final}" if firsts else f"rank {final}"


def _lost_node(found: EndedRun) -> RankError | None:
    """A node none of whose ranks left a record, while every rank on the others did."""
    reported = {one.rank for one in found.exits}
    missing = [plan for plan in found.ranks if plan.rank not in reported]
    nodes = {plan.node for plan in missing}
    if (
        not reported
        or len(nodes) != 1
        or {p.node for p in found.ranks if p.rank in reported} & nodes
    ):
        return None
    last = _last_words(found.launcher_log)
    ranks = _ranks([plan.rank for plan in missing])
    return RankError(
        f"{wording.node_label(missing[0].node)} was lost with its {ranks}: it no longer answers"
        f"{'. mpirun says: ' + last if last else '.'}",
        missing[0].rank,
        missing[0].node,
        found.launcher_log[-4000:],
    )


def _unreached(found: EndedRun) -> RankError:
    """Nodes that are gone, where neither mpirun nor a rank said so: it was still starting."""
    *others, last = (wording.node_label(node) for node in found.unreached_nodes)
    who = f"{', '.join(others)} and {last} do" if others else f"{last} does"
    effect = "ended" if found.exits else "could not begin"
    return RankError(
        f"{who} not answer over SSH, so the run {effect}.",
        node=found.unreached_nodes[0],
        traceback=found.launcher_log[-4000:],
    )


def _last_words(log: str) -> str:
    """The first telling line of what mpirun wrote; its texts begin with what is the matter."""
    for line in log.splitlines():
        text = " ".join(line.split())
        if text and not _NOISE.match(text):
            return text[:300]
    return ""


def _hung(found: EndedRun) -> bool:
    return bool(found.give_up_reason) or any(
        one.outcome == "stalled" and not one.secondary for one in found.exits
    )


def _by(found: EndedRun) -> str:
    """Name the user: the other one of two desktops learns it here."""
    if found.pause:
        return found.pause.rstrip(".")
    return f"Stopped by {found.stopped_by}" if found.stopped_by else "Stopped"


def _stopped(found: EndedRun) -> str:
    if found.runs_script:
        newest = f"The newest checkpoint is {checkpoint_text(found.newest_checkpoint)}."
        if not found.newest_checkpoint:
            newest = "There is no checkpoint: the script wrote none."
        elif not found.checkpoint_of_run:
            newest = f"The script wrote no checkpoint in this run; {newest[:1].lower()}{newest[1:]}"
        return f"{_by(found)}. {newest}"
    if found.checkpoint_of_run:
        return f"{_by(found)}. {_saved(found.newest_checkpoint)}"
    return f"{_by(found)} before the first step."


def _saved(checkpoint: str) -> str:
    place = epoch_and_step(checkpoint)
    if place is None:
        return f"Saved as {checkpoint}."
    return f"Saved at {place_of(*place)}."


def _stopped_early(found: EndedRun) -> str:
    if found.newest_checkpoint:
        return (
            f"{_by(found)} before the first step of this run; "
            f"the newest checkpoint is still {checkpoint_text(found.newest_checkpoint)}."
        )
    return f"{_by(found)} before the first step; there is no checkpoint yet."


def _stopped_by_force(found: EndedRun, error: RankError) -> str:
    if found.checkpoint_of_run and any(
        (one.rank, one.outcome) == (0, "interrupted") for one in found.exits
    ):
        # Rank 0 writes the checkpoint of the stop before it leaves.
        return f"{_stopped(found)} {_named(error)}"
    newest = (
        f"the newest one is {checkpoint_text(found.newest_checkpoint)}"
        if found.newest_checkpoint
        else "there is none from before"
    )
    by = f" by {found.stopped_by}," if found.stopped_by else ""
    return f"Stopped{by} by force, so no checkpoint could be made; {newest}. {_named(error)}"
