"""``doctor``, and how findings are shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from backend.cli.command import command
from backend.cli.printing import Answer
from backend.services.context.container import Services

if TYPE_CHECKING:
    from backend.records.nodes.reading import Finding


@command("doctor")
def doctor(services: Services) -> Answer:
    """Show what is installed, what is missing, and how to fix it."""
    findings = services.nodes.doctor()
    return Answer(
        findings, finding_lines(findings), has_failed=not all(finding.ok for finding in findings)
    )


def finding_lines(findings: Sequence[Finding]) -> Iterator[str]:
    for finding in findings:
        yield f"{'ok   ' if finding.ok else 'FAULT'}  {finding.check}: {finding.message}"
        if not finding.ok and finding.remedy:
            yield f"       {finding.remedy}"
