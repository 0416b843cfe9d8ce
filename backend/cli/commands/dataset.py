"""Import, list, show, preview, scan and remove datasets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from backend.base.progress import Progress
from backend.cli.command import Word, command
from backend.cli.commands._library import Loader, Reference, for_kind, record
from backend.cli.printing import Answer, Facts, Part
from backend.records.base import number_format
from backend.services.context.container import Services

if TYPE_CHECKING:
    from backend.records.library.scan import DatasetScan

_GROUPS_SHOWN = 10

for_kind("dataset")


@command("dataset preview")
def preview(
    services: Services,
    progress: Progress,
    reference: Reference,
    *,
    loader: Loader,
    split: Annotated[str, Word(choices=("training", "validation"))] = "training",
) -> Answer:
    """Some samples of a dataset, read by a loader."""
    return record(services.library.preview(reference, loader, split=split, progress=progress))


@command("dataset scan")
def scan(services: Services, progress: Progress, reference: Reference, *, loader: Loader) -> Answer:
    """Read all samples: broken ones, duplicates, leaks, shifts."""
    found = services.scans.scan(reference, loader, progress)
    return Answer(found, _scan_parts(found))


def _scan_parts(found: DatasetScan) -> Iterator[Part]:
    validation = found.validation
    read = [("Training", found)] + ([("Validation", validation)] if validation else [])
    yield Facts((name, f"{number_format.count(one.samples)} samples") for name, one in read)
    for finding in found.findings():
        yield finding.sentence
        for group in finding.groups[:_GROUPS_SHOWN]:
            yield "  " + ", ".join(f"{split} {index}" for split, index in group)
        if len(finding.groups) > _GROUPS_SHOWN:
            yield "  …"
    if not found.findings():
        yield "No findings."
