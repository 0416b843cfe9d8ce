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
    found = services.verification.verify(hashes=hashes, progress=progress)
    lines = [line for one in found.findings for line in finding_lines(one)]
    return Answer(found, lines, found.message, notes(found), failed=bool(found.findings))


def notes(found: Verification) -> Iterator[Note]:
    for sentence in found.not_checked:
        yield Note(f"Not checked: {sentence}")


def finding_lines(one: VerifyFinding) -> Iterator[str]:
    yield one.message
    if one.repair:
        yield f"    Repair: {one.repair}"
    if one.remedy:
        yield f"    {one.remedy}"
