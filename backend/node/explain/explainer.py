"""From the logs of a failed run to its cause in one sentence, with the lines that prove it.

Pure. A message that no rule knows is no cause: then the answer is `UNKNOWN` with the last lines,
and nothing is guessed. What is only a warning, what Python ignored, and an exception after which
the program wrote on, prove nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from backend.node.explain import (
    rules_gpu,
    rules_network,
    rules_node,
    rules_program,
    rules_ssh,
    rules_start,
)
from backend.node.explain.hints import remedy_for
from backend.node.explain.log_text import LogPart, tidy
from backend.node.explain.raised import Raised, last_raised, without_ignored
from backend.node.explain.rule import Rule, Weight, Where
from backend.records.explanation import UNKNOWN, USER_CODE, Evidence, Explanation

RULES = (
    *rules_node.RULES[:1],
    *rules_gpu.RULES,
    *rules_start.RULES,
    *rules_program.RULES,
    *rules_ssh.RULES,
    *rules_network.RULES,
    *rules_node.RULES[1:],
)
"""The first rule that fits wins among those of one weight; /dev/shm comes before any full disk."""

LAST_LINES = 20
_SHOWN = 5
_END_LINES = 30
_WIDTH = 400
_MEND = (
    "Mend the code, import it as a new version, and clone the job with it; the traceback tells "
    "the way there."
)
_HARMLESS = re.compile(
    r"^\x00?── "  # what the supervisor wrote between the runs; mpirun ends its words with a NUL
    r"|NCCL INFO"
    r"|(?:^|\W)\w*Warning: |^\s*warnings\.warn\("
    r"|\b(?:DEBUG|INFO|WARN|WARNING)\b(?=\s*[|:\]-])(?<!NCCL WARN)"
    r"(?!:? (?:Open MPI|One or more|REMOTE))"
    r"|Warning: Permanently added|, retrying\b|skipping batch|attempting to recover"
)


@dataclass(frozen=True)
class Failure:
    """What is known of the failure before the logs are read.

    ``traceback`` is what the rank itself recorded, or "".
    """

    rank: int | None = None
    traceback: str = ""
    has_record: bool = False
    """The rank recorded its exception itself, so that none needs to be looked for in its log."""
    is_first: bool = False
    """It is known that this rank failed first: what others wrote came of it."""


@dataclass(frozen=True)
class _Found:
    rule: Rule
    match: re.Match[str]
    part: LogPart | None
    first: int = 0
    last: int = 0


def explain(
    failure: Failure,
    ranks: Mapping[int, Sequence[LogPart]],
    mpirun: Sequence[LogPart] = (),
) -> Explanation:
    """The cause of a failed run. ``ranks``: the logs of this run, that of the failing rank too."""
    own = tuple(ranks.get(failure.rank, ())) if failure.rank is not None else ()
    others = tuple(
        part for rank, parts in sorted(ranks.items()) if rank != failure.rank for part in parts
    )
    parts, chain = _raised(failure, own or (others if failure.rank is None else ()))
    raised = _in_chain(chain)
    if raised is not None and raised.rule.weight is Weight.CAUSE:
        found_out = _told(raised, _lines_of(chain, parts))
        placed = found_out.sentence.rstrip(".") + _place(chain[-1])
        return replace(found_out, sentence=placed) if found_out.is_quoted else found_out
    if raised is None and chain:
        remedy = next(filter(None, (remedy_for(one.text) for one in reversed(chain))), "")
        if remedy or chain[-1].of_user is not None or chain[-1].is_of_code:
            return _of_user(remedy, chain, parts)
    places = [(own, Where.RANK), (mpirun, Where.MPIRUN)]
    if not failure.is_first:
        places.append((others, Where.RANK))
    best = raised
    for logs, where in places:
        found = _in_lines(logs, where)
        if found is not None and (best is None or _is_before(found, best)):
            best = found
    if best is None or (failure.is_first and best.rule.weight is Weight.ECHO):
        told = _lines_of(chain, parts) or _last_lines(own or mpirun or others)
        return Explanation(UNKNOWN, evidence=told)
    return _told(best, _lines_of(chain, parts) if best is raised else ())


def _is_before(one: _Found, other: _Found) -> bool:
    return one.rule.weight.value < other.rule.weight.value


def _raised(
    failure: Failure, logs: Sequence[LogPart]
) -> tuple[Sequence[LogPart], tuple[Raised, ...]]:
    """The exception that ended the rank, and the lines in which its indices count."""
    if failure.has_record:
        lines = tuple(tidy(line) for line in failure.traceback.rstrip().split("\n"))
        recorded = LogPart("", lines, 0)
        return (recorded, *logs), last_raised(lines, must_be_last=False)
    if not logs:
        return (), ()
    last = logs[-1]
    return (last,), last_raised(without_ignored(_sober(last.lines, keep_raised=True)))


def _sober(lines: Iterable[str], keep_raised: bool = False) -> list[str]:
    """The lines, with those that are only warnings or chatter made empty."""
    if keep_raised:
        return ["" if "NCCL INFO" in line else line for line in lines]
    return ["" if _HARMLESS.search(line) else line for line in lines]


def _in_chain(chain: Sequence[Raised]) -> _Found | None:
    best: _Found | None = None
    for raised in chain:
        for rule in RULES:
            if Where.RAISED not in rule.where:
                continue
            match = rule.pattern.search(raised.text)
            if match is None:
                continue
            found = _Found(rule, match, None, raised.index, raised.end - 1)
            if best is None or _is_before(found, best):
                best = found
    return best


def _in_lines(parts: Sequence[LogPart], where: Where) -> _Found | None:
    best: _Found | None = None
    for part in parts:
        lines = without_ignored(_sober(part.lines))
        text = "\n".join(lines)
        end = _begin_of_end(lines) if where is Where.RANK else 0
        for rule in RULES:
            if where not in rule.where:
                continue
            match = rule.pattern.search(text, end if rule.at_end else 0)
            if match is None:
                continue
            first = text.count("\n", 0, match.start())
            last = first + text.count("\n", match.start(), match.end())
            found = _Found(rule, match, part, first, last)
            if best is None or _is_before(found, best):
                best = found
    return best


def _begin_of_end(lines: Sequence[str]) -> int:
    """The place in the joined lines where the last ones begin."""
    left = _END_LINES
    index = len(lines)
    while index > 0 and left > 0:
        index -= 1
        left -= bool(lines[index].strip())
    return sum(len(line) + 1 for line in lines[:index])


def _told(found: _Found, lines: tuple[Evidence, ...]) -> Explanation:
    rule = found.rule
    if found.part is not None:
        lines = _evidence(found.part, range(found.first, found.last + 1))
    return Explanation(rule.cause, rule.said(found.match), rule.remedy, lines, rule.is_quoted)


def _place(raised: Raised) -> str:
    frame = raised.of_user
    return f", at {frame.short}, line {frame.line}." if frame is not None else "."


def _of_user(remedy: str, chain: Sequence[Raised], parts: Sequence[LogPart]) -> Explanation:
    """A mistake of the program's own: by the place it was raised at, or because a hint is sure."""
    lines = _lines_of(chain, parts)
    first = " ".join(chain[-1].text.split("\n")[0].split())
    told = first[:300] + ("…" if len(first) > 300 else "")
    sentence = f"The program's code raised {told.rstrip('.')}{_place(chain[-1])}"
    return Explanation(USER_CODE, sentence, remedy or _MEND, lines, is_quoted=True)


def _lines_of(chain: Sequence[Raised], parts: Sequence[LogPart]) -> tuple[Evidence, ...]:
    """The lines of the last exception in the log: where it came from, and what it said."""
    if not chain:
        return ()
    last = chain[-1]
    source = parts[0]
    wanted = [last.index]
    if last.of_user is not None:
        wanted.insert(0, last.of_user.index)
    if source.file:
        return _evidence(source, wanted)
    # The rank's own record has no file: the same lines stand in its log too.
    for part in reversed(parts[1:]):
        places = [_find_last(part.lines, source.lines[index]) for index in wanted]
        if all(place >= 0 for place in places):
            return _evidence(part, places)
    return tuple(Evidence("", 0, _cut(source.lines[index])) for index in wanted)


def _find_last(lines: Sequence[str], line: str) -> int:
    return next((i for i in range(len(lines) - 1, -1, -1) if lines[i] == line), -1)


def _evidence(part: LogPart, indices: Iterable[int]) -> tuple[Evidence, ...]:
    told = [i for i in indices if part.lines[i].strip(" -*=@")][:_SHOWN]
    return tuple(Evidence(part.file, part.number(i), _cut(part.lines[i])) for i in told)


def _last_lines(parts: Sequence[LogPart]) -> tuple[Evidence, ...]:
    if not parts:
        return ()
    last = parts[-1]
    told = [i for i, line in enumerate(last.lines) if line.strip()][-LAST_LINES:]
    return tuple(Evidence(last.file, last.number(i), _cut(last.lines[i])) for i in told)


def _cut(line: str) -> str:
    return line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…"
