"""Findings of a check of the whole data root, and the result of a repair."""

from __future__ import annotations

from dataclasses import dataclass, field

from backend.records.base import number_format
from backend.records.base.schema import KEY


@dataclass(frozen=True)
class VerifyFinding:
    """A difference between the data root and its records.

    ``subject`` names the affected item ("job 20261124-5wx8g7"), ``repair`` says what a repair does,
    or is "" if only the user can act (``remedy``). ``moves`` are the files and folders that it
    moves to the trash, below the data root.
    """

    check: str
    subject: str = field(metadata={KEY: "what"})
    message: str = field(metadata={KEY: "sentence"})
    repair: str = ""
    remedy: str = ""
    moves: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str, tuple[str, ...]]:
        """A key that is equal in every check of the same difference."""
        return (self.check, self.subject, self.moves)


@dataclass(frozen=True)
class Verification:
    """Result of a check of the data root.

    ``hashed_bytes`` is None if no content was compared with its hash. ``needed_bytes`` is the size
    of the next checkpoints of the running and queued jobs. ``not_checked`` has a sentence for each
    part that could not be read.
    """

    jobs: int
    versions: int
    checkpoints: int
    hashed_bytes: int | None
    needed_bytes: int
    findings: tuple[VerifyFinding, ...]
    not_checked: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        """A summary: the number of parts that were checked, and of findings."""
        parts = ((self.jobs, "job"), (self.versions, "version"), (self.checkpoints, "checkpoint"))
        counts = [f"{number_format.count(n)} {noun}{'' if n == 1 else 's'}" for n, noun in parts]
        finding_count, hashed_bytes = len(self.findings), self.hashed_bytes
        needed_size = number_format.size(self.needed_bytes)
        checkpoint_text = f" The next checkpoints need {needed_size}." if self.needed_bytes else ""
        hash_text = (
            ""
            if hashed_bytes is None
            else f"; compared {number_format.size(hashed_bytes)} with hashes"
        )
        return (
            f"Checked {counts[0]}, {counts[1]} and {counts[2]}{hash_text}. "
            f"{'No' if not finding_count else number_format.count(finding_count)} "
            f"finding{'' if finding_count == 1 else 's'}.{checkpoint_text}"
        )


@dataclass(frozen=True)
class RepairResult:
    """Result of a repair. The message of a remaining finding says why it was not repaired."""

    repaired_findings: tuple[VerifyFinding, ...] = field(metadata={KEY: "done"})
    remaining_findings: tuple[VerifyFinding, ...] = field(metadata={KEY: "left"})
    folder: str
    """The folder in the trash that has what was moved."""

    @property
    def message(self) -> str:
        count = len(self.repaired_findings)
        repair_text = f"Repaired {number_format.count(count)} finding{'' if count == 1 else 's'}."
        has_moves = any(finding.moves for finding in self.repaired_findings)
        trash_text = f" What was moved is in {self.folder}." if has_moves else ""
        return " ".join(
            [repair_text + trash_text, *(finding.message for finding in self.remaining_findings)]
        )
