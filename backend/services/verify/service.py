"""Check a whole data root, and repair its findings; a repair moves and never deletes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from backend.base.errors import BackendError, as_backend_error
from backend.base.progress import Progress
from backend.datastore.access.root_access import move_into
from backend.records.verify.finding import RepairResult, Verification, VerifyFinding
from backend.services.verify.checks import CHECKS, Check, CheckFinding
from backend.services.verify.scan import Scan

if TYPE_CHECKING:
    from backend.services.context.container import Services


class VerifyService:
    """Checks and repairs of a data root. Every call blocks and may run on any thread."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def verify(self, *, hashes: bool = False, progress: Progress | None = None) -> Verification:
        """Run every check; nothing is changed.

        Args:
            hashes: Whether all contents are compared with their hashes, too.
            progress: Gets the number of jobs, then the bytes.

        Raises:
            BackendError: The data root cannot be read.
            Cancelled: By ``progress``.
        """
        scan = Scan(self._services, hashes, progress or Progress())
        findings = tuple(finding for finding, _ in self._findings(scan))
        return Verification(
            len(scan.jobs),
            len(scan.versions),
            scan.checkpoints,
            scan.hashed_bytes if hashes else None,
            scan.needed_bytes,
            findings,
            tuple(dict.fromkeys(scan.not_checked)),
        )

    def repair(
        self,
        findings: Sequence[VerifyFinding],
        *,
        hashes: bool = False,
        progress: Progress | None = None,
    ) -> RepairResult:
        """Repair those findings that still exist; ``hashes`` is that of their check.

        Raises:
            BackendError: The data root cannot be read; nothing was changed.
            Cancelled: By ``progress``, before the first change.
        """
        keys = {f.key for f in findings if f.repair}
        subjects = frozenset(f.subject for f in findings)
        scan = Scan(self._services, hashes, progress or Progress(), subjects)
        pairs = [pair for pair in self._findings(scan) if pair[0].key in keys]
        repairs, failures = [], []
        for finding, check_finding in pairs:
            try:
                with as_backend_error(f"The {finding.subject} could not be repaired"):
                    _repair(scan, check_finding)
            except BackendError as error:
                failures.append(replace(finding, message=error.with_remedy))
            else:
                repairs.append(finding)
        return RepairResult(
            tuple(repairs), tuple(failures), scan.root.display_path(scan.trash_folder)
        )

    def _findings(self, scan: Scan) -> Iterator[tuple[VerifyFinding, CheckFinding]]:
        with as_backend_error(f"The data root {scan.root.name} cannot be read"):
            for check in CHECKS:
                for check_finding in check.find(scan):
                    yield self._finding(check, check_finding), check_finding

    def _finding(self, check: Check, check_finding: CheckFinding) -> VerifyFinding:
        root = self._services.data_root.path
        can_be_repaired = check_finding.repair is not None or bool(check_finding.moves)
        return VerifyFinding(
            check.name,
            check_finding.subject,
            check.finding.format(what=check_finding.subject, **check_finding.values),
            check.repair if can_be_repaired else "",
            check_finding.remedy,
            tuple(str(path.relative_to(root)) for path in check_finding.moves),
        )


def _repair(scan: Scan, check_finding: CheckFinding) -> None:
    if check_finding.repair is not None:
        check_finding.repair()
        return
    for path in check_finding.moves:
        # An earlier repair may have moved it already.
        if scan.root.files.exists(path):
            move_into(scan.root, path, scan.trash_folder / path.relative_to(scan.root.path))
