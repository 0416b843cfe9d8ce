"""Import, list, show, preview, scan and remove datasets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from backend.base.progress import Progress
from backend.cli.command import ArgSpec, command
from backend.cli.commands._library import Loader, Reference, for_kind
from backend.cli.printing import Answer, Part, Properties, Table
from backend.records.base import number_format
from backend.services.context.container import Services

if TYPE_CHECKING:
    from backend.records.library.preview import Preview
    from backend.records.library.scan import DatasetScan

_GROUPS_SHOWN = _SAMPLES_SHOWN = 10

for_kind("dataset")


@command("dataset preview")
def preview(
    services: Services,
    progress: Progress,
    reference: Reference,
    *,
    loader: Loader,
    split: Annotated[str, ArgSpec(choices=("training", "validation"))] = "training",
) -> Answer:
    """Some samples of a dataset, read by a loader."""
    preview = services.library.preview(reference, loader, split=split, progress=progress)
    return Answer(preview, _preview_parts(preview))


def _preview_parts(preview: Preview) -> Iterator[Part]:
    """Yield what a terminal can show: no pictures, and of many classes the largest."""
    classes = sorted(preview.classes, key=lambda entry: -entry.count)
    sizes = ", ".join(f"{entry.name} {number_format.count(entry.count)}" for entry in classes[:20])
    remainder = f" and {number_format.count(len(classes) - 20)} more" if len(classes) > 20 else ""
    yield Properties(
        (
            ("Samples", number_format.count(preview.count)),
            ("Read", number_format.count(preview.examined_count)),
            ("Classes", f"{sizes}{remainder}"),
        )
    )
    rows = (
        (
            str(sample.index),
            sample.target,
            ", ".join(
                f"{part.path} {list(part.shape or ())} {part.dtype}"
                for part in sample.parts
                if part.shape is not None
            ),
        )
        for sample in preview.samples[:_SAMPLES_SHOWN]
    )
    yield Table(("SAMPLE", "TARGET", "PARTS"), rows, "No sample could be read.")
    for error in preview.errors:
        yield f"{error.message} {error.remedy}".rstrip()
    yield from preview.warnings


@command("dataset scan")
def scan(services: Services, progress: Progress, reference: Reference, *, loader: Loader) -> Answer:
    """Read all samples: broken ones, duplicates, leaks, shifts."""
    dataset_scan = services.scans.scan(reference, loader, progress)
    return Answer(dataset_scan, _scan_parts(dataset_scan))


def _scan_parts(dataset_scan: DatasetScan) -> Iterator[Part]:
    validation = dataset_scan.validation
    splits = [("Training", dataset_scan)] + ([("Validation", validation)] if validation else [])
    yield Properties(
        (name, f"{number_format.count(split_scan.samples)} samples") for name, split_scan in splits
    )
    for finding in dataset_scan.findings():
        yield finding.message
        for group in finding.groups[:_GROUPS_SHOWN]:
            yield "  " + ", ".join(f"{split} {index}" for split, index in group)
        if len(finding.groups) > _GROUPS_SHOWN:
            yield "  …"
    if not dataset_scan.findings():
        yield "No findings."
