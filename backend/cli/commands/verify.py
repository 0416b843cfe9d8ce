"""``verify``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from backend.base.progress import Progress
from backend.cli.command import command
from backend.cli.printing import Answer, Note
from backend.services.context.container import Services

if TYPE_CHECKING:
    from backend.records.verify.finding import Verification, VerifyFinding

Hashes = Annotated[bool, "compare all contents with their hashes, too"]


@command("verify")
def verify(services: Services, progress: Progress, *, hashes: Hashes = False) -> Answer:
    """Check the data root: versions, jobs, checkpoints, the queue, leftovers."""
    verification = services.verification.verify(hashes=hashes, progress=progress)
    lines = [line for finding in verification.findings for line in finding_lines(finding)]
    return Answer(
        verification,
        lines,
        verification.message,
        notes(verification),
        has_failed=bool(verification.findings),
    )


def notes(verification: Verification) -> Iterator[Note]:
    for message in verification.not_checked:
        yield Note(f"Not checked: {message}")


def finding_lines(finding: VerifyFinding) -> Iterator[str]:
    yield finding.message
    if finding.repair:
        yield f"    Repair: {finding.repair}"
    if finding.remedy:
        yield f"    {finding.remedy}"
