"""Find the cause of a failed run in its logs: one sentence, with the lines that prove it.

Pure. A message that no rule knows is not a cause: then the answer is `UNKNOWN` with the last lines.
Warnings, exceptions that Python ignored, and exceptions after which the program kept writing prove
nothing.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from backend.node.diagnosis.attribution import Attribution, attribute, is_from_other_library, is_program_error
from backend.node.diagnosis.log_tail import TAIL_SLACK, LogTail, is_ordinary
from backend.node.diagnosis.log_text import LogPart, tidy
from backend.node.diagnosis.ranking import RuleMatch, select_causes
from backend.node.diagnosis.rule import Weight, SearchedText, load
from backend.node.diagnosis.tracebacks import LoggedException, final_exceptions, blank_ignored_exceptions
from backend.records.jobs.diagnosis import UNKNOWN, USER_CODE, EvidenceLine, Explanation

LAST_LINES = 20
_SHOWN = 5
_WIDTH = 400
UNKNOWN_EXCEPTION = "raised"
"""The cause, sentence and remedy of an exception that no rule knows, by its attribution."""
_REMEDIES = {
    Attribution.CODE: "Fix the code where the traceback points, import it as a new version, then "
    "clone this job with that version.",
    Attribution.CHECK: "Supply what the check requires: fix the data or the job's options. If the "
    "code is wrong, fix it, import it as a new version, then clone this job with "
    "that version.",
    Attribution.CALL: "Fix the call. If the function belongs to a library, the code was written for "
    "another version of that library.",
    Attribution.LIBRARIES: "Set the node up again, or use versions of both that fit each other.",
    Attribution.UNDECIDED: "Follow the traceback to its last line of your code, and read the log lines "
    "before it.",
}
_NEW_VERSION = "Fix the code, import it as a new version, then clone this job with that version."
_OF_NAMES = re.compile(r"(?:Attribute|Import|Name|Type)Error$")
_OTHER_VERSION = (
    "If the missing name belongs to a library, the code was written for another version of it: "
    "adapt the code, or install that version. Otherwise fix the code where the traceback points."
)
_SENTENCES = {
    Attribution.CODE: "The program's code raised {what}{place}",
    Attribution.CHECK: "The program stopped at a check of its own: {what}{place}",
    Attribution.CALL: "A function was called with arguments that it does not accept: {what}{place}",
    Attribution.LIBRARIES: "Two libraries on the node are incompatible: {what}{place}",
    Attribution.UNDECIDED: "The program ended with {what}{place}",
}
_CAUSES = {Attribution.CALL: "call_mismatch", Attribution.LIBRARIES: "library_version", Attribution.UNDECIDED: UNKNOWN_EXCEPTION}
_LAUNCHERS = re.compile(
    r"(?:ChildFailedError|CalledProcessError|ProcessRaisedException|ProcessExitedException"
    r"|HorovodInternalError|SystemExit)$"
)
"""Messages that only report the end of another process."""
_OF_SUCCESS = (
    r"\[c10d\] The (?:hostname of the client socket cannot be retrieved"
    r"|(?:client|server) socket cannot be initialized [^\n]*errno: 97\b)"
)
"""Warnings of c10d about a name or an address family, after which its connection works."""
_HARMLESS = re.compile(
    _OF_SUCCESS
    + r"|^\x00?── "  # what the supervisor wrote between the runs; mpirun ends its words with a NUL
    r"|NCCL INFO"
    r"|(?:^|\W)\w*Warning: |^\s*warnings\.warn\("
    r"|\b(?:DEBUG|INFO|WARN|WARNING)\b(?=\s*[|:\]-])(?<!NCCL WARN)"
    r"(?!:? (?:Open MPI|One or more|REMOTE))"
    r"|Warning: Permanently added|, retrying\b|skipping batch|attempting to recover"
)
_WRAPPERS = re.compile(
    _LAUNCHERS.pattern.replace("$", r"\b") + r"|returned non-zero|device-side assert|RayTaskError"
    r"|(?i:initiali[sz]ation failed|(?:process|worker|engine|job|actor|subprocess)\b[^\n]* failed\b"
    r"|\bsee [^\n]*(?:above|logs?\b)|check [^\n]*logs?\b|\bunexpectedly\b)"
)
"""Messages that only say that something failed, which a line above them names."""
_ERROR_LINE = re.compile(
    r"(?i:\berror\b|\bfatal\b|\bfailed\b|\bcan(?:not|'t)\b|\bcould not\b|not found|no such"
    r"|undefined|unsupported|denied|assertion|\bunable\b|\binvalid\b)|\bXid\b"
)
_NO_REASON = re.compile(
    _HARMLESS.pattern
    + r"|exitcode|error_file|traceback *:|FAILED$|elastic|exit (?:code|status)|aborted due to"
    r"|ld returned|build stopped"
)
_SEARCHED_LINES = 200
_SHORT = 200


@dataclass(frozen=True)
class Failure:
    """Facts about the failure that are known before the logs are read.

    ``traceback`` is what the rank itself recorded, or "".
    """

    rank: int | None = None
    traceback: str = ""
    has_record: bool = False
    """The rank recorded its exception itself; its log is not searched for one."""
    is_first: bool = False
    """This rank is known to have failed first; errors of the other ranks follow from it."""
    signal: str = ""
    """The name of the signal that ended it."""


_NOTHING = Explanation(UNKNOWN)
_ATTRIBUTED = (0, 0.5)
_NAMELESS = (0, 1.5)
_FOLLOW_UP = (1, 0.0)
_UNKNOWN = (2, 0.0)
_FROM_OUTSIDE = ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP")


@dataclass(frozen=True)
class LogDiagnosis:
    """The diagnosis of one log; the lowest ``certainty`` wins.

    Its first number is 0 for a cause, 1 for what a rank sees when another one has ended, and 2 if
    the log says nothing; the second is the weight.
    """

    certainty: tuple[int, float] = _UNKNOWN
    explanation: Explanation = _NOTHING
    rank: int | None = None

    @classmethod
    def of(cls, match: RuleMatch, lines: tuple[EvidenceLine, ...] = ()) -> LogDiagnosis:
        weight = match.rule.weight
        follows = weight is Weight.ECHO or match.rule.is_follow_up
        return cls((int(follows), weight.value), _explained(match, lines))

    @classmethod
    def of_lines(cls, matches: Sequence[RuleMatch]) -> LogDiagnosis:
        """Return what the lines of a log prove; nothing if they contradict each other."""
        if len(matches) > 1:
            return cls((0, Weight.CAUSE.value), Explanation(UNKNOWN, evidence=_both(matches)))
        return cls.of(matches[0]) if matches else cls()


def explain(
    failure: Failure,
    ranks: Mapping[int, Sequence[LogPart]],
    mpirun: Sequence[LogPart] = (),
) -> Explanation:
    """Return the cause of a failed run. ``ranks``: the logs of all its ranks.

    Each log is read by itself, that of the failing rank first. What a rank sees when another one
    has ended loses against a cause in the other one's log.
    """
    own = tuple(ranks.get(failure.rank, ())) if failure.rank is not None else ()
    diagnoses = [
        replace(_read(failure, own), rank=failure.rank),
        LogDiagnosis.of_lines(select_causes(_in_lines(mpirun, SearchedText.MPIRUN))),
    ]
    is_settled = failure.is_first and (
        failure.signal in _FROM_OUTSIDE or diagnoses[0].certainty < _FOLLOW_UP
    )
    other_logs = {rank: ranks[rank] for rank in sorted(ranks) if rank != failure.rank}
    if not is_settled:
        diagnoses += [replace(_read(Failure(), log), rank=rank) for rank, log in other_logs.items()]
    best = min(diagnoses, key=lambda diagnosis: diagnosis.certainty)
    is_echo = best.certainty[1] == Weight.ECHO.value
    if best.certainty < _UNKNOWN and not (failure.is_first and is_echo):
        return replace(best.explanation, rank=best.rank)
    line = f"Signal {getattr(signal, failure.signal, 0):d} ({failure.signal}) received by PID"
    for match in _in_lines([LogPart.from_text("", line)], SearchedText.RANK) if failure.signal else ():
        return replace(_explained(match, ()), evidence=())
    lines = diagnoses[0].explanation.evidence if is_echo else ()
    other_parts = [part for log in other_logs.values() for part in log]
    return Explanation(UNKNOWN, evidence=lines or _last_lines(own or mpirun or other_parts))


def _read(failure: Failure, log: Sequence[LogPart]) -> LogDiagnosis:
    """Return what one rank's log and its recorded exception say."""
    parts, ends = _ends(failure, log)
    sure = next(filter(None, (_surely(chain, parts) for chain in ends)), None)
    if sure is not None and (sure.certainty != _ATTRIBUTED or failure.has_record):
        return sure
    matches = select_causes(_in_lines(log, SearchedText.RANK, slack=0 if sure else TAIL_SLACK))
    if sure is not None:
        is_surer = len(matches) == 1 and matches[0].is_cause
        return LogDiagnosis.of(matches[0]) if is_surer else sure
    known = [(match, chain) for chain in ends if (match := _in_chain(chain)) is not None]
    best, chain = min(known, key=lambda pair: pair[0].rule.weight.value, default=(None, ()))
    if matches and (best is None or _is_before(matches[0], best) or _says_more(matches[0], best)):
        best = matches[0]
    nameless = _primary(ends) or _last_word(ends, parts)
    is_bare = best is not None and not best.part and best.message == best.rule.otherwise
    if len(matches) < 2 and (best is None or is_bare or best.rule.weight is Weight.ECHO):
        wrapper = chain if is_bare else nameless or (ends[-1] if ends else ())
        explanation = _quote_line_above(parts, wrapper)
        if explanation and best is not None and is_bare:
            explanation = replace(explanation, cause=best.cause, remedy=best.rule.remedy)
            return replace(LogDiagnosis.of(best), explanation=explanation)
        if nameless and not is_bare:
            explanation = explanation or _raised(Attribution.UNDECIDED, nameless, parts)
        if explanation:
            return LogDiagnosis(_NAMELESS, explanation)
    if best is None or best in matches:
        return LogDiagnosis.of_lines(matches)
    return LogDiagnosis.of(best, _lines_of(chain, parts))


def _surely(chain: Sequence[LoggedException], parts: Sequence[LogPart]) -> LogDiagnosis | None:
    """Return the cause that an exception proves by itself."""
    found = _in_chain(chain)
    if found is not None and found.is_cause:
        diagnosis = LogDiagnosis.of(found, _lines_of(chain, parts))
        if not found.rule.is_quoted:
            return diagnosis
        sentence = diagnosis.explanation.sentence.rstrip(".") + _place(chain[-1])
        return replace(diagnosis, explanation=replace(diagnosis.explanation, sentence=sentence))
    if found is not None or _LAUNCHERS.search(chain[-1].kind):
        return None
    whose = attribute(chain[-1])
    if whose is Attribution.UNDECIDED and _hint(chain) and not is_from_other_library(chain[-1]):
        whose = Attribution.CODE
    return (
        None if whose is Attribution.UNDECIDED else LogDiagnosis(_ATTRIBUTED, _raised(whose, chain, parts))
    )


def _hint(chain: Sequence[LoggedException]) -> str:
    found = (
        hint.remedy
        for one in reversed(chain)
        for hint in load("hint")
        if hint.pattern.search(one.text)
    )
    return next((f"{remedy} {_NEW_VERSION}" for remedy in found), "")


def _raised(whose: Attribution, chain: Sequence[LoggedException], parts: Sequence[LogPart]) -> Explanation:
    """Describe an exception that no rule knows: its own message and its place in the program."""
    first = " ".join(chain[-1].text.split("\n")[0].split())
    if whose is Attribution.CHECK and first == chain[-1].kind:
        first += f" ({chain[-1].frames[-1].source})"
    what = first[:300] + ("…" if len(first) > 300 else "")
    sentence = _SENTENCES[whose].format(what=what.rstrip(".? "), place=_place(chain[-1]))
    return Explanation(
        _CAUSES.get(whose, USER_CODE),
        sentence,
        _hint(chain) or _remedy(whose, chain[-1]),
        _lines_of(chain, parts),
        is_quoted=True,
    )


def _remedy(whose: Attribution, raised: LoggedException) -> str:
    if whose is Attribution.UNDECIDED and _OF_NAMES.search(raised.kind):
        return _OTHER_VERSION
    return _REMEDIES[whose]


def _primary(ends: Sequence[Sequence[LoggedException]]) -> Sequence[LoggedException]:
    """Return the first traceback that no rule knows and that is not a launcher's report."""
    for chain in ends:
        is_whole = bool(chain[-1].frames)
        if is_whole and not _LAUNCHERS.search(chain[-1].kind) and _in_chain(chain) is None:
            return chain
    return ()


def _quote_line_above(parts: Sequence[LogPart], chain: Sequence[LoggedException]) -> Explanation | None:
    """Quote the last error above an exception, if that only says that something failed."""
    if not chain or not _WRAPPERS.search(chain[-1].text):
        return None
    start = chain[0].frames[0].index if chain[0].frames else chain[0].index
    lines = parts[0].lines
    for index in range(start - 1, max(start - _SEARCHED_LINES, -1), -1):
        if _ERROR_LINE.search(lines[index]) and not _NO_REASON.search(lines[index]):
            wrapper = " ".join(chain[-1].text.split("\n")[0].split())[:_SHORT].rstrip(".: ")
            sentence = f"The program ended with {wrapper}, after “{lines[index].strip()[:_SHORT]}”."
            remedy = "Fix what the last words name; the lines around them say more."
            return Explanation(
                UNKNOWN_EXCEPTION, sentence, remedy, _evidence(parts[0], [index]), is_quoted=True
            )
    return None


def _last_word(ends: Sequence[Sequence[LoggedException]], parts: Sequence[LogPart]) -> Sequence[LoggedException]:
    """Return an exception without a traceback, if it is the very last line of the log."""
    chain = ends[-1] if ends else ()
    if not chain or not is_program_error(chain[-1]) or _in_chain(chain) is not None:
        return ()
    return () if any(map(is_ordinary, parts[0].lines[chain[-1].index + 1 :])) else chain


def _says_more(one: RuleMatch, other: RuleMatch) -> bool:
    """Return whether both have the same cause and only ``one`` names its subject."""
    return (
        one.cause == other.cause
        and one.rule.weight is other.rule.weight
        and other.message == other.rule.otherwise
        and one.message != one.rule.otherwise
    )


def _is_before(one: RuleMatch, other: RuleMatch) -> bool:
    return one.rule.weight.value < other.rule.weight.value


def _ends(
    failure: Failure, logs: Sequence[LogPart]
) -> tuple[Sequence[LogPart], tuple[tuple[LoggedException, ...], ...]]:
    """Return the exceptions that ended the rank, and the lines their indices refer to."""
    if failure.has_record:
        lines = tuple(tidy(line) for line in failure.traceback.rstrip().split("\n"))
        recorded = LogPart("", lines, 0)
        return (recorded, *logs), final_exceptions(lines, must_be_last=False)
    if not logs:
        return (), ()
    last = logs[-1]
    return (last,), final_exceptions(blank_ignored_exceptions(_sober(last.lines, keep_raised=True)))


def _sober(lines: Iterable[str], keep_raised: bool = False) -> list[str]:
    """Return the lines, with warnings and progress messages blanked."""
    if keep_raised:
        return ["" if "NCCL INFO" in line else line for line in lines]
    return ["" if _HARMLESS.search(line) else line for line in lines]


def _in_chain(chain: Sequence[LoggedException]) -> RuleMatch | None:
    found = []
    for raised in chain:
        text = raised.text_and_functions
        for rule in load("rule"):
            match = rule.pattern.search(text) if SearchedText.EXCEPTION in rule.searched_texts else None
            if match is not None:
                found.append(RuleMatch(rule, match, None, raised.index, raised.end - 1))
    return min(found, key=lambda one: one.rule.weight.value, default=None)


def _in_lines(parts: Sequence[LogPart], where: SearchedText, slack: int = TAIL_SLACK) -> list[RuleMatch]:
    """Return the rule matches in lines that ended the program, in the order of the lines."""
    found = []
    for part in parts:
        lines = blank_ignored_exceptions(_sober(part.lines))
        text = "\n".join(lines)
        end = LogTail(lines, slack).offset(lines) if where is SearchedText.RANK else 0
        here = []
        for order, rule in enumerate(load("rule")):
            match = rule.pattern.search(text, end) if where in rule.searched_texts else None
            if match is None:
                continue
            first = text.count("\n", 0, match.start())
            last = first + text.count("\n", match.start(), match.end())
            here.append((first, order, RuleMatch(rule, match, part, first, last)))
        found += _one_for_each_line(one for _, _, one in sorted(here, key=lambda each: each[:2]))
    return found


def _one_for_each_line(found: Iterable[RuleMatch]) -> list[RuleMatch]:
    """Keep one match for each line: that of the first rule among the most certain."""
    kept: list[RuleMatch] = []
    for one in found:
        if not any(k.first_index == one.first_index and k.rule.weight is one.rule.weight for k in kept):
            kept.append(one)
    return kept


def _both(found: Sequence[RuleMatch]) -> tuple[EvidenceLine, ...]:
    """Return one line of each of the contradicting findings."""
    return tuple(
        line for one in found if one.part is not None for line in _evidence(one.part, [one.first_index])
    )


def _explained(found: RuleMatch, lines: tuple[EvidenceLine, ...]) -> Explanation:
    rule = found.rule
    if found.part is not None:
        lines = _evidence(found.part, range(found.first_index, found.last_index + 1))
    return Explanation(rule.cause, found.message, rule.remedy, lines, rule.is_quoted)


def _place(raised: LoggedException) -> str:
    frame = raised.user_frame
    if frame is not None:
        return f", at {frame.short}, line {frame.line}."
    if raised.frames:
        last = raised.frames[-1]
        return f", in {last.short} of a library, line {last.line}."
    return "."


def _lines_of(chain: Sequence[LoggedException], parts: Sequence[LogPart]) -> tuple[EvidenceLine, ...]:
    """Return the lines of the last exception in the log: its place and its message."""
    if not chain:
        return ()
    last = chain[-1]
    source = parts[0]
    wanted = [last.index]
    if last.user_frame is not None:
        wanted.insert(0, last.user_frame.index)
    if source.file:
        return _evidence(source, wanted)
    # The rank's own record is not a file; its log contains the same lines.
    for part in reversed(parts[1:]):
        places = [_find_last(part.lines, source.lines[index]) for index in wanted]
        if all(place >= 0 for place in places):
            return _evidence(part, places)
    return tuple(EvidenceLine("", 0, _cut(source.lines[index])) for index in wanted)


def _find_last(lines: Sequence[str], line: str) -> int:
    return next((i for i in range(len(lines) - 1, -1, -1) if lines[i] == line), -1)


def _evidence(part: LogPart, indices: Iterable[int]) -> tuple[EvidenceLine, ...]:
    shown = [i for i in indices if part.lines[i].strip(" -*=@")][:_SHOWN]
    return tuple(EvidenceLine(part.file, part.number(i), _cut(part.lines[i])) for i in shown)


def _last_lines(parts: Sequence[LogPart]) -> tuple[EvidenceLine, ...]:
    if not parts:
        return ()
    last = parts[-1]
    lines = enumerate(last.lines)
    shown = [i for i, line in lines if line.strip() and not re.search(_OF_SUCCESS, line)]
    shown = shown[-LAST_LINES:]
    return tuple(EvidenceLine(last.file, last.number(i), _cut(last.lines[i])) for i in shown)


def _cut(line: str) -> str:
    return line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…"
