"""The cause of a run's failure, if its logs prove one.

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from backend.records.base.schema import KEY

UNKNOWN = "unknown"
USER_CODE = "user_code"
LOSS_NOT_A_NUMBER = "not_a_number"
LOSS_DIVERGED = "diverged"
OF_LOSS = frozenset({LOSS_NOT_A_NUMBER, LOSS_DIVERGED})
"""Causes in the course of the loss; the message names a rank only if others are well."""


@dataclass(frozen=True)
class EvidenceLine:
    """A line of a log. ``line`` counts from 1 in the whole file; 0 if it was not counted."""

    file: str = ""
    line: int = 0
    text: str = ""

    @property
    def location(self) -> str:
        """The place, such as "rank-3.log:214", or only the file."""
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass(frozen=True)
class Explanation:
    """A cause. ``cause`` is the name of a rule, `USER_CODE` or `UNKNOWN`; ``remedy`` may be "".

    ``message`` is "" if the logs say no more than the exit records.
    """

    cause: str
    message: str = field(default="", metadata={KEY: "sentence"})
    remedy: str = ""
    evidence: tuple[EvidenceLine, ...] = ()
    is_quoted: bool = False
    """The exception states the cause in plain words, so it is quoted."""
    rank: int | None = None
    """The rank whose log proves it; None if that of another program does."""
