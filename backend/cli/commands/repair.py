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
    found = services.verification.verify(hashes=hashes, progress=progress)
    wanted = [one for one in found.findings if one.repair]
    if yes and wanted:
        done = services.verification.repair(wanted, hashes=hashes, progress=progress)
        return Answer(done, done.message, failed=bool(done.remaining_findings))
    lines = [
        line
        for one in wanted
        for line in (*finding_lines(one), *(f"    Would move {path}" for path in one.moves))
    ]
    again = f"To repair: {COMMAND} repair{' --hashes' if hashes else ''} --yes"
    end = again if wanted else "Nothing can be repaired." if found.findings else found.message
    return Answer(wanted, lines, end, notes(found))
