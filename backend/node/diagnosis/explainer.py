"""Find the cause of a failed run in its logs: one sentence, with the lines that prove it.

Pure. A message that no rule knows is not a cause: then the answer is `UNKNOWN` with the last lines.
Warnings, exceptions that Python ignored, and exceptions after which the program kept writing prove
nothing.
"""

from __future__ import annotations

import difflib
import re
import signal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from backend.node.diagnosis.attribution import (
    Attribution,
    attribute,
    is_from_other_library,
    is_program_error,
)
from backend.node.diagnosis.log_text import TAIL_SLACK, LogPart, LogTail, is_ordinary, tidy
from backend.node.diagnosis.rule import RuleMatch, SearchedText, Weight, load, select_causes
from backend.node.diagnosis.tracebacks import (
    PACKAGES_PREFIX,
    LoggedException,
    blank_ignored_exceptions,
    final_exceptions,
)
from backend.records.jobs.status import UNKNOWN, USER_CODE, EvidenceLine, Explanation

LAST_LINES = 20
_EVIDENCE_LINES = 5
_LINE_WIDTH = 400
UNKNOWN_EXCEPTION = "raised"
"""The cause, sentence and remedy of an exception that no rule knows, by its attribution."""
_REMEDIES = {
    Attribution.CODE: "Fix the code where the traceback points, import it as a new version, then "
    "clone this job with that version.",
    Attribution.CHECK: "Supply what the check requires: fix the data or the job's options. If the "
    "code is wrong, fix it, import it as a new version, then clone this job with "
    "that version.",
    Attribution.CALL: "Fix the call. If the function belongs to a library, the code was written "
    "for another version of that library.",
    Attribution.UNDECIDED: "Change what the message names, at the last line of your code in the "
    "traceback, or in the settings. If the program worked elsewhere, install the versions of the "
    "libraries that it was written for. The log lines before it may say more.",
}
_NEW_VERSION = "Fix the code, import it as a new version, then clone this job with that version."
_OF_NAMES = re.compile(r"has no attribute|cannot import|is not defined")
_OTHER_VERSION = (
    "If the missing name belongs to a library, the code was written for another version of it: "
    "adapt the code, or install that version. Otherwise fix the code where the traceback points."
)
_ADVICE = re.compile(
    r"\brequires?\b|\bHINT\b|[Dd]id you (?:mean|call|forget)|\b[Aa]vailable\b[^\n]*[:\[(]"
    r"|\b[Pp]lease \w+|\bmust be one of\b"
)
"""Words by which a library's message itself says what it needs."""
_SUPPLY = "The message says what is needed: supply it, or leave out the call that asks for it."
_NAME = re.compile(r"['\"`]([\w./-]+)['\"`]")
_LIST_OF_NAMES = re.compile(r"[\[({](?P<names>(?:['\"`][^'\"`\n]+['\"`],? ?){2,})[\])}]")
_MESSAGES = {
    Attribution.CODE: "The program's code raised {exception}{location}",
    Attribution.CHECK: "The program stopped at a check of its own: {exception}{location}",
    Attribution.CALL: "A function was called with arguments that it does not accept: "
    "{exception}{location}",
    Attribution.UNDECIDED: "The program ended with {exception}{location}",
}
_CAUSES = {
    Attribution.CALL: "call_mismatch",
    Attribution.UNDECIDED: UNKNOWN_EXCEPTION,
}
_OF_VERSIONS = ("library_version", "library_mismatch", "weights_mismatch")
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


_NO_EXPLANATION = Explanation(UNKNOWN)
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
    explanation: Explanation = _NO_EXPLANATION
    rank: int | None = None

    @classmethod
    def from_match(cls, match: RuleMatch, lines: tuple[EvidenceLine, ...] = ()) -> LogDiagnosis:
        weight = match.rule.weight
        is_follow_up = weight is Weight.ECHO or match.rule.is_follow_up
        return cls((int(is_follow_up), weight.value), _explanation_of(match, lines))

    @classmethod
    def from_matches(cls, matches: Sequence[RuleMatch]) -> LogDiagnosis:
        """Return what the lines of a log prove; nothing if they contradict each other."""
        if len(matches) > 1:
            return cls(
                (0, Weight.CAUSE.value),
                Explanation(UNKNOWN, evidence=_contradicting_lines(matches)),
            )
        return cls.from_match(matches[0]) if matches else cls()


def explain(
    failure: Failure,
    ranks: Mapping[int, Sequence[LogPart]],
    mpirun: Sequence[LogPart] = (),
) -> Explanation:
    """Return the cause of a failed run. ``ranks``: the logs of all its ranks.

    Each log is read by itself, that of the failing rank first. What a rank sees when another one
    has ended loses against a cause in the other one's log.
    """
    own_log = tuple(ranks.get(failure.rank, ())) if failure.rank is not None else ()
    diagnoses = [
        replace(_diagnose_log(failure, own_log), rank=failure.rank),
        LogDiagnosis.from_matches(select_causes(_match_lines(mpirun, SearchedText.MPIRUN))),
    ]
    is_settled = failure.is_first and (
        failure.signal in _FROM_OUTSIDE or diagnoses[0].certainty < _FOLLOW_UP
    )
    other_logs = {rank: ranks[rank] for rank in sorted(ranks) if rank != failure.rank}
    if not is_settled:
        diagnoses += [
            replace(_diagnose_log(Failure(), log), rank=rank) for rank, log in other_logs.items()
        ]
    best_diagnosis = min(diagnoses, key=lambda diagnosis: diagnosis.certainty)
    is_echo = best_diagnosis.certainty[1] == Weight.ECHO.value
    if best_diagnosis.certainty < _UNKNOWN and not (failure.is_first and is_echo):
        return replace(best_diagnosis.explanation, rank=best_diagnosis.rank)
    line = f"Signal {getattr(signal, failure.signal, 0):d} ({failure.signal}) received by PID"
    for match in (
        _match_lines([LogPart.from_text("", line)], SearchedText.RANK) if failure.signal else ()
    ):
        return replace(_explanation_of(match, ()), evidence=())
    lines = diagnoses[0].explanation.evidence if is_echo else ()
    other_parts = [part for log in other_logs.values() for part in log]
    return Explanation(UNKNOWN, evidence=lines or _last_lines(own_log or mpirun or other_parts))


def _diagnose_log(failure: Failure, log: Sequence[LogPart]) -> LogDiagnosis:
    """Return what one rank's log and its recorded exception say."""
    parts, chains = _final_chains(failure, log)
    sure_diagnosis = next(filter(None, (_diagnose_chain(chain, parts) for chain in chains)), None)
    if sure_diagnosis is not None and (
        sure_diagnosis.certainty != _ATTRIBUTED or failure.has_record
    ):
        return sure_diagnosis
    matches = select_causes(
        _match_lines(log, SearchedText.RANK, slack=0 if sure_diagnosis else TAIL_SLACK)
    )
    if sure_diagnosis is not None:
        is_surer = len(matches) == 1 and matches[0].is_cause
        return LogDiagnosis.from_match(matches[0]) if is_surer else sure_diagnosis
    chain_matches = [
        (match, chain) for chain in chains if (match := _match_chain(chain)) is not None
    ]
    best_match, chain = min(
        chain_matches, key=lambda pair: pair[0].rule.weight.value, default=(None, ())
    )
    if matches and (
        best_match is None
        or matches[0].rule.weight.value < best_match.rule.weight.value
        or _is_more_specific(matches[0], best_match)
    ):
        best_match = matches[0]
    unmatched_chain = _unmatched_chain(chains) or _final_line_chain(chains, parts)
    has_no_details = (
        best_match is not None
        and not best_match.part
        and best_match.message == best_match.rule.otherwise
    )
    if len(matches) < 2 and (
        best_match is None or has_no_details or best_match.rule.weight is Weight.ECHO
    ):
        wrapper_chain = (
            chain if has_no_details else unmatched_chain or (chains[-1] if chains else ())
        )
        explanation = _quote_line_above(parts, wrapper_chain)
        if explanation and best_match is not None and has_no_details:
            explanation = replace(
                explanation, cause=best_match.cause, remedy=best_match.rule.remedy
            )
            return replace(LogDiagnosis.from_match(best_match), explanation=explanation)
        if unmatched_chain and not has_no_details:
            explanation = explanation or _describe_exception(
                Attribution.UNDECIDED, unmatched_chain, parts
            )
        if explanation:
            return LogDiagnosis(_NAMELESS, explanation)
    if best_match is None or best_match in matches:
        return LogDiagnosis.from_matches(matches)
    return LogDiagnosis.from_match(best_match, _exception_lines(chain, parts))


def _diagnose_chain(
    chain: Sequence[LoggedException], parts: Sequence[LogPart]
) -> LogDiagnosis | None:
    """Return the cause that an exception proves by itself."""
    match = _match_chain(chain)
    if match is not None and match.is_cause:
        diagnosis = LogDiagnosis.from_match(match, _exception_lines(chain, parts))
        if match.cause in _OF_VERSIONS and chain[-1].packages:
            message = f"{diagnosis.explanation.message.strip()} Installed: {chain[-1].packages}."
            return replace(diagnosis, explanation=replace(diagnosis.explanation, message=message))
        if not match.rule.is_quoted:
            return diagnosis
        message = diagnosis.explanation.message.rstrip(".") + _location_text(chain[-1])
        return replace(diagnosis, explanation=replace(diagnosis.explanation, message=message))
    if match is not None or _LAUNCHERS.search(chain[-1].kind):
        return None
    attribution = attribute(chain[-1])
    if (
        attribution is Attribution.UNDECIDED
        and _hint(chain)
        and not is_from_other_library(chain[-1])
    ):
        attribution = Attribution.CODE
    return (
        None
        if attribution is Attribution.UNDECIDED
        else LogDiagnosis(_ATTRIBUTED, _describe_exception(attribution, chain, parts))
    )


def _hint(chain: Sequence[LoggedException]) -> str:
    remedies = (
        hint.remedy
        for exception in reversed(chain)
        for hint in load("hint")
        if hint.pattern.search(
            exception.text_and_places
            if hint.searched_texts == (SearchedText.EXCEPTION,)
            else exception.text
        )
    )
    return next((f"{remedy} {_NEW_VERSION}" for remedy in remedies), "")


def _describe_exception(
    attribution: Attribution, chain: Sequence[LoggedException], parts: Sequence[LogPart]
) -> Explanation:
    """Describe an exception that no rule knows: its own message and its place in the program."""
    first_line = " ".join(chain[-1].text.split("\n")[0].split())
    if first_line == chain[-1].kind and chain[-1].frames:
        frame = chain[-1].frames[-1]
        caller = f" in {frame.function} of {frame.file_name}" if frame.is_of_library else ""
        first_line += f" ({frame.source}{caller})" if frame.source else ""
    summary = first_line[:300] + ("…" if len(first_line) > 300 else "")
    message = _MESSAGES[attribution].format(
        exception=summary.rstrip(".? "), location=_location_text(chain[-1])
    )
    return Explanation(
        _CAUSES.get(attribution, USER_CODE),
        message,
        _hint(chain) or _remedy(attribution, chain[-1]),
        _exception_lines(chain, parts),
        is_quoted=True,
    )


def _remedy(attribution: Attribution, exception: LoggedException) -> str:
    if attribution is Attribution.UNDECIDED and _OF_NAMES.search(exception.text):
        return _OTHER_VERSION
    if attribution is Attribution.UNDECIDED and _ADVICE.search(exception.text):
        return _SUPPLY + _nearest_name(exception.text)
    return _REMEDIES[attribution]


def _nearest_name(text: str) -> str:
    """Return advice to use the listed name that is most like the one before the list."""
    for match in _LIST_OF_NAMES.finditer(text):
        names = _NAME.findall(match["names"])
        for name in reversed(_NAME.findall(text[: match.start()])):
            for nearest_name in () if name in names else difflib.get_close_matches(name, names, 1):
                return f" Of the names it lists, “{nearest_name}” is the nearest to “{name}”."
    return ""


def _unmatched_chain(chains: Sequence[Sequence[LoggedException]]) -> Sequence[LoggedException]:
    """Return the first traceback that no rule knows and that is not a launcher's report."""
    for chain in chains:
        is_whole = bool(chain[-1].frames)
        if is_whole and not _LAUNCHERS.search(chain[-1].kind) and _match_chain(chain) is None:
            return chain
    return ()


def _quote_line_above(
    parts: Sequence[LogPart], chain: Sequence[LoggedException]
) -> Explanation | None:
    """Quote the last error above an exception, if that only says that something failed."""
    if not chain or not _WRAPPERS.search(chain[-1].text):
        return None
    start = chain[0].frames[0].index if chain[0].frames else chain[0].index
    lines = parts[0].lines
    for index in range(start - 1, max(start - _SEARCHED_LINES, -1), -1):
        if _ERROR_LINE.search(lines[index]) and not _NO_REASON.search(lines[index]):
            wrapper = " ".join(chain[-1].text.split("\n")[0].split())[:_SHORT].rstrip(".: ")
            message = f"The program ended with {wrapper}, after “{lines[index].strip()[:_SHORT]}”."
            remedy = "Fix what the last words name; the lines around them say more."
            return Explanation(
                UNKNOWN_EXCEPTION, message, remedy, _evidence(parts[0], [index]), is_quoted=True
            )
    return None


def _final_line_chain(
    chains: Sequence[Sequence[LoggedException]], parts: Sequence[LogPart]
) -> Sequence[LoggedException]:
    """Return an exception without a traceback, if it is the very last line of the log."""
    chain = chains[-1] if chains else ()
    if not chain or not is_program_error(chain[-1]) or _match_chain(chain) is not None:
        return ()
    return () if any(map(is_ordinary, parts[0].lines[chain[-1].index + 1 :])) else chain


def _is_more_specific(match: RuleMatch, other_match: RuleMatch) -> bool:
    """Return whether both have the same cause and only ``match`` names its subject."""
    return (
        match.cause == other_match.cause
        and match.rule.weight is other_match.rule.weight
        and other_match.message == other_match.rule.otherwise
        and match.message != match.rule.otherwise
    )


def _final_chains(
    failure: Failure, logs: Sequence[LogPart]
) -> tuple[Sequence[LogPart], tuple[tuple[LoggedException, ...], ...]]:
    """Return the exceptions that ended the rank, and the lines their indices refer to."""
    if failure.has_record:
        lines = tuple(tidy(line) for line in failure.traceback.rstrip().split("\n"))
        notes = [line for log in logs for line in log.lines if line.startswith(PACKAGES_PREFIX)]
        record_part = LogPart("", lines, 0)
        return (record_part, *logs), final_exceptions((*lines, *notes), must_be_last=False)
    if not logs:
        return (), ()
    last_part = logs[-1]
    return (last_part,), final_exceptions(
        blank_ignored_exceptions(_blank_warnings(last_part.lines, keep_exceptions=True))
    )


def _blank_warnings(lines: Iterable[str], keep_exceptions: bool = False) -> list[str]:
    """Return the lines, with warnings and progress messages blanked."""
    if keep_exceptions:
        return ["" if "NCCL INFO" in line else line for line in lines]
    return ["" if _HARMLESS.search(line) else line for line in lines]


def _match_chain(chain: Sequence[LoggedException]) -> RuleMatch | None:
    rule_matches = []
    for exception in chain:
        text = exception.text_and_functions
        for rule in load("rule"):
            match = (
                rule.pattern.search(text) if SearchedText.EXCEPTION in rule.searched_texts else None
            )
            if match is not None:
                rule_matches.append(
                    RuleMatch(rule, match, None, exception.index, exception.end - 1)
                )
    return min(rule_matches, key=lambda rule_match: rule_match.rule.weight.value, default=None)


def _match_lines(
    parts: Sequence[LogPart], searched_text: SearchedText, slack: int = TAIL_SLACK
) -> list[RuleMatch]:
    """Return the rule matches in lines that ended the program, in the order of the lines."""
    rule_matches = []
    for part in parts:
        lines = blank_ignored_exceptions(_blank_warnings(part.lines))
        text = "\n".join(lines)
        end = LogTail(lines, slack).offset(lines) if searched_text is SearchedText.RANK else 0
        part_matches = []
        for order, rule in enumerate(load("rule")):
            match = rule.pattern.search(text, end) if searched_text in rule.searched_texts else None
            if match is None:
                continue
            first_index = text.count("\n", 0, match.start())
            last_index = first_index + text.count("\n", match.start(), match.end())
            part_matches.append(
                (first_index, order, RuleMatch(rule, match, part, first_index, last_index))
            )
        rule_matches += _first_of_each_line(
            rule_match for _, _, rule_match in sorted(part_matches, key=lambda entry: entry[:2])
        )
    return rule_matches


def _first_of_each_line(matches: Iterable[RuleMatch]) -> list[RuleMatch]:
    """Keep one match for each line: that of the first rule among the most certain."""
    kept_matches: list[RuleMatch] = []
    for match in matches:
        if not any(
            k.first_index == match.first_index and k.rule.weight is match.rule.weight
            for k in kept_matches
        ):
            kept_matches.append(match)
    return kept_matches


def _contradicting_lines(matches: Sequence[RuleMatch]) -> tuple[EvidenceLine, ...]:
    """Return one line of each of the contradicting findings."""
    return tuple(
        line
        for match in matches
        if match.part is not None
        for line in _evidence(match.part, [match.first_index])
    )


def _explanation_of(match: RuleMatch, lines: tuple[EvidenceLine, ...]) -> Explanation:
    rule = match.rule
    if match.part is not None:
        lines = _evidence(match.part, range(match.first_index, match.last_index + 1))
    return Explanation(rule.cause, match.message, rule.remedy, lines, rule.is_quoted)


def _location_text(exception: LoggedException) -> str:
    frame = exception.user_frame
    if frame is not None:
        return f", at {frame.file_name}, line {frame.line}."
    if exception.frames:
        last_frame = exception.frames[-1]
        return f", in {last_frame.file_name} of a library, line {last_frame.line}."
    return "."


def _exception_lines(
    chain: Sequence[LoggedException], parts: Sequence[LogPart]
) -> tuple[EvidenceLine, ...]:
    """Return the lines of the last exception in the log: its place and its message."""
    if not chain:
        return ()
    last_exception = chain[-1]
    source = parts[0]
    indices = [last_exception.index]
    if last_exception.user_frame is not None:
        indices.insert(0, last_exception.user_frame.index)
    if source.file:
        return _evidence(source, indices)
    # The rank's own record is not a file; its log contains the same lines.
    for part in reversed(parts[1:]):
        positions = [_find_last(part.lines, source.lines[index]) for index in indices]
        if all(position >= 0 for position in positions):
            return _evidence(part, positions)
    return tuple(EvidenceLine("", 0, _cut(source.lines[index])) for index in indices)


def _find_last(lines: Sequence[str], line: str) -> int:
    return next((i for i in range(len(lines) - 1, -1, -1) if lines[i] == line), -1)


def _evidence(part: LogPart, indices: Iterable[int]) -> tuple[EvidenceLine, ...]:
    shown_indices = [i for i in indices if part.lines[i].strip(" -*=@")][:_EVIDENCE_LINES]
    return tuple(
        EvidenceLine(part.file, part.number(i), _cut(part.lines[i])) for i in shown_indices
    )


def _last_lines(parts: Sequence[LogPart]) -> tuple[EvidenceLine, ...]:
    if not parts:
        return ()
    last_part = parts[-1]
    lines = enumerate(last_part.lines)
    shown_indices = [i for i, line in lines if line.strip() and not re.search(_OF_SUCCESS, line)]
    shown_indices = shown_indices[-LAST_LINES:]
    return tuple(
        EvidenceLine(last_part.file, last_part.number(i), _cut(last_part.lines[i]))
        for i in shown_indices
    )


def _cut(line: str) -> str:
    return line if len(line) <= _LINE_WIDTH else line[: _LINE_WIDTH - 1] + "…"
