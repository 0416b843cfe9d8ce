"""``repair``."""

from __future__ import annotations

from typing import Annotated

from backend.base.progress import Progress
from backend.cli.command import command
from backend.cli.commands.verify import Hashes, finding_lines, notes
from backend.cli.printing import Answer
from backend.records.base.program_name import COMMAND
from backend.services.context.container import Services


@command("repair")
def repair(
    services: Services,
    progress: Progress,
    *,
    hashes: Hashes = False,
    yes: Annotated[bool, "repair; without it, only show what would be done"] = False,
) -> Answer:
    """Move what verify found damaged to the trash; nothing is deleted."""
    verification = services.verification.verify(hashes=hashes, progress=progress)
    repairable_findings = [finding for finding in verification.findings if finding.repair]
    if yes and repairable_findings:
        result = services.verification.repair(repairable_findings, hashes=hashes, progress=progress)
        return Answer(result, result.message, has_failed=bool(result.remaining_findings))
    lines = [
        line
        for finding in repairable_findings
        for line in (*finding_lines(finding), *(f"    Would move {path}" for path in finding.moves))
    ]
    hint = f"To repair: {COMMAND} repair{' --hashes' if hashes else ''} --yes"
    closing_text = (
        hint
        if repairable_findings
        else "Nothing can be repaired."
        if verification.findings
        else verification.message
    )
    return Answer(repairable_findings, lines, closing_text, notes(verification))
