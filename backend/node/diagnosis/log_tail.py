"""Whether a program lived on after a line of its log.

What a program survived did not end it. Lines that belong to a failure itself say nothing of it:
tracebacks, what libraries and launchers write while everything goes down, and it may be much.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_OF_A_FAILURE = re.compile(
    r"^\s|^[^\w\s]{3,}"
    r"|[Ee]rror|ERROR|[Ee]xception|[Ff]ail|FAIL|[Aa]bort|[Tt]erminat|[Kk]ill|[Ss]ignal|\bSIG[A-Z]"
    r"|[Ww]arn|WARN|Traceback|[Ss]tack\b|frame #|core dumped|what\(\)|During handling|direct cause"
    r"|NCCL|UCX|\bMPI\b|ORTE|PRTE|PMIX|PMI[Xx]|CUDA|cuda|slurmstepd|^srun: |[Ee]xit|EXIT"
    r"|[Tt]imed? ?out|disconnected|closed|broken|denied|refused|[Uu]nable|[Cc](?:an|ould) ?not"
    r"|[Cc]an't|Last error|^\[?[EF] ?\d{4}|^\[[\w.-]+:\d+\]|^wandb: |Assertion|^Process \S+:$"
    r"|(?:re)?submit|^Root Cause|^Failures:|\b(?:[a-z]+_)?pid\b|leaked \w+ objects"
    r"|^/?\S+\.(?:cu|cc|h):\d"
)
_TAIL_OF_MATCH = 30
"""So many lines of its own may a program still write after what ends it."""


def is_ordinary(line: str) -> bool:
    """Whether it is a line as a program writes it while it works."""
    return bool(line.strip()) and not _OF_A_FAILURE.search(line)


class LogTail:
    """Of lines of one log, those that the program did not write much after."""

    def __init__(self, lines: Sequence[str], slack: int = _TAIL_OF_MATCH) -> None:
        left = slack
        index = len(lines)
        while index > 0:
            left -= is_ordinary(lines[index - 1])
            if left < 0:
                break
            index -= 1
        self.first = index
        """The first line after which nothing shows that the program went on."""

    def place(self, lines: Sequence[str]) -> int:
        """Where ``first`` begins in the lines joined by line feeds."""
        return sum(len(line) + 1 for line in lines[: self.first])
