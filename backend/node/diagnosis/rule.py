"""What a rule is: a message that other programs print, and what it means."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum


class Weight(Enum):
    """What wins when several messages are found: a cause before what it led to."""

    CAUSE = 0
    VAGUE = 1
    """True, and mostly the consequence of something that another line tells better."""
    ECHO = 2
    """Only says that somebody else has gone."""


class Where(Enum):
    """Which text a rule reads."""

    RAISED = "raised"
    """The exception that ended a rank, and those that led to it."""
    RANK = "rank"
    """Lines of a rank's log."""
    MPIRUN = "mpirun"
    """Lines of mpirun's log."""


ANYWHERE = (Where.RAISED, Where.RANK, Where.MPIRUN)
LINES = (Where.RANK, Where.MPIRUN)
RANK = (Where.RAISED, Where.RANK)


@dataclass(frozen=True)
class Rule:
    """``sentence`` may use the named groups of ``pattern``: ``{host}``.

    Groups of other branches of ``pattern`` that mean the same end in a digit: ``host2``.
    ``source`` is where the message is known from.
    """

    cause: str
    pattern: re.Pattern[str]
    sentence: str
    remedy: str
    source: str
    where: tuple[Where, ...] = ANYWHERE
    weight: Weight = Weight.CAUSE
    otherwise: str = ""
    """What is said when a group of ``sentence`` took no part."""
    is_quoted: bool = False
    """What `Explanation.is_quoted` will be."""

    def said(self, match: re.Match[str]) -> str:
        """The sentence about this match."""
        groups: dict[str, str] = {}
        for name, text in match.groupdict().items():
            same = name.rstrip("0123456789")
            groups[same] = groups.get(same) or " ".join((text or "").split())
        wanted = re.findall(r"\{(\w+)\}", self.sentence)
        if self.otherwise and not all(groups.get(name) for name in wanted):
            return self.otherwise
        return self.sentence.format(**groups)


def prose(pattern: str) -> re.Pattern[str]:
    """A pattern for a help text, of which each version breaks the lines in other places."""
    outside = re.split(r"(\[[^\]]*\])", pattern)
    return message("".join(p if p.startswith("[") else p.replace(" ", r"\s+") for p in outside))


def message(pattern: str) -> re.Pattern[str]:
    """A pattern in which ``^`` and ``$`` are ends of lines."""
    return re.compile(pattern, re.MULTILINE)
