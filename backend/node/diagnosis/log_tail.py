"""Lines of a log that the program did not outlive.

A message after which the program kept working did not end it. Lines that are part of a failure do
not count as work: tracebacks, and what libraries and launchers write during the shutdown, which may
be long.
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
TAIL_SLACK = 30
"""Lines of its own that a program may still write after the message that ends it."""


def is_ordinary(line: str) -> bool:
    """Return whether it is a line that a working program writes."""
    return bool(line.strip()) and not _OF_A_FAILURE.search(line)


class LogTail:
    """The lines of one log after which the program wrote little more."""

    def __init__(self, lines: Sequence[str], slack: int = TAIL_SLACK) -> None:
        remaining_slack = slack
        index = len(lines)
        while index > 0:
            remaining_slack -= is_ordinary(lines[index - 1])
            if remaining_slack < 0:
                break
            index -= 1
        self.start = index
        """The first line after which nothing shows that the program kept working."""

    def offset(self, lines: Sequence[str]) -> int:
        """Return the offset of ``start`` in the lines joined by line feeds."""
        return sum(len(line) + 1 for line in lines[: self.start])
