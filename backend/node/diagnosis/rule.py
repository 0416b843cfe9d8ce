"""A rule: a message that other programs print, and its meaning."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum


class Weight(Enum):
    """Precedence of messages: a cause wins over its consequences."""

    CAUSE = 0
    VAGUE = 1
    """True, but usually the consequence of something that another line explains better."""
    ECHO = 2
    """Only reports that another process has ended."""


class Where(Enum):
    """The text that a rule reads."""

    RAISED = "raised"
    """The exception that ended a rank, and its causes."""
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

    Groups in other branches of ``pattern`` with the same meaning end in a digit: ``host2``.
    ``source`` is where the message was found.
    """

    cause: str
    pattern: re.Pattern[str]
    sentence: str
    remedy: str
    source: str
    where: tuple[Where, ...] = ANYWHERE
    weight: Weight = Weight.CAUSE
    otherwise: str = ""
    """The sentence used if a group of ``sentence`` did not match."""
    is_quoted: bool = False
    """The value of `Explanation.is_quoted`."""

    def said(self, match: re.Match[str]) -> str:
        """Return the sentence for this match."""
        groups: dict[str, str] = {}
        for name, text in match.groupdict().items():
            same = name.rstrip("0123456789")
            groups[same] = groups.get(same) or " ".join((text or "").split())
        wanted = re.findall(r"\{(\w+)\}", self.sentence)
        if self.otherwise and not all(groups.get(name) for name in wanted):
            return self.otherwise
        return self.sentence.format(**groups)


def prose(pattern: str) -> re.Pattern[str]:
    """Return a pattern for a help text, whose line breaks differ between versions."""
    outside = re.split(r"(\[[^\]]*\])", pattern)
    return message(
        "".join(p if p.startswith("[") else re.sub(r" [+*]?", r"\\s+", p) for p in outside)
    )


def message(pattern: str) -> re.Pattern[str]:
    """Return a pattern in which ``^`` and ``$`` match at line ends."""
    return re.compile(pattern, re.MULTILINE)
