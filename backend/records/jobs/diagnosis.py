"""Why a run failed, as far as its logs prove it.

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

UNKNOWN = "unknown"
USER_CODE = "user_code"


@dataclass(frozen=True)
class EvidenceLine:
    """A line of a log. ``line`` counts from 1 in the whole file; 0 when it was not counted."""

    file: str
    line: int
    text: str

    @property
    def place(self) -> str:
        """ "rank-3.log:214", or the file alone."""
        return f"{self.file}:{self.line}" if self.line else self.file

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> EvidenceLine:
        return cls(str(raw.get("file", "")), int(raw.get("line", 0)), str(raw.get("text", "")))


@dataclass(frozen=True)
class Explanation:
    """``cause`` is the name of a rule, `USER_CODE` or `UNKNOWN`; ``remedy`` "" says none is known.

    ``sentence`` is "" where the logs say no more than the exit records did.
    """

    cause: str
    sentence: str = ""
    remedy: str = ""
    evidence: tuple[EvidenceLine, ...] = ()
    is_quoted: bool = False
    """The cause is what the exception itself says in plain words: to quote it says as much."""
