"""Import, list, show, check and remove models, and store weights with them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from backend.base.progress import Progress
from backend.cli.command import Word, command
from backend.cli.commands._library import Reference, for_kind, record
from backend.cli.parameters import count
from backend.cli.printing import Answer, Note, Table, in_bytes
from backend.records.library.item import unused_weights_message
from backend.services.context.container import Services

for_kind("model")


@command("model check")
def check(
    services: Services,
    progress: Progress,
    reference: Reference,
    *,
    dataset: Annotated[str, Word("NAME")] = "",
    loader: Annotated[str, Word("NAME")] = "",
) -> Answer:
    """Load a model, and train it on one batch of a dataset."""
    return record(
        services.library.check_model(reference, dataset=dataset, loader=loader, progress=progress)
    )


@command("model layers")
def layers(
    services: Services,
    progress: Progress,
    reference: Reference,
    *,
    dataset: Annotated[str, Word("NAME")],
    loader: Annotated[str, Word("NAME")],
    batch_size: Annotated[int, Word("B", "for shapes and memory", parse=count)] = 1,
) -> Answer:
    """Every layer: shape, parameters, multiply-adds, memory of its output."""
    found = services.inspection.layers(
        reference, dataset, loader, batch_size=batch_size, progress=progress
    )
    rows = [
        (
            layer.name,
            layer.kind,
            "-" if layer.output_shape is None else str(list(layer.output_shape)),
            str(layer.parameters),
            _number(layer.multiply_adds),
            in_bytes(layer.activation_bytes),
            ("trained" if layer.trained else "frozen") if layer.parameters else "-",
        )
        for layer in found.layers
    ]
    memory = in_bytes(found.activation_bytes)
    total = ("(total)", "", "", str(found.parameters), _number(found.multiply_adds), memory, "")
    head = ("NAME", "KIND", "OUTPUT", "PARAMETERS", "MULTIPLY-ADDS", "MEMORY", "TRAINED")
    return Answer(found.layers, Table(head, (*rows, total)), map(Note, found.warnings))


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)


@command("model variance")
def variance(
    services: Services,
    progress: Progress,
    reference: Reference,
    *,
    dataset: Annotated[str, Word("NAME")],
    loader: Annotated[str, Word("NAME")],
) -> Answer:
    """The variance of activations and gradients by depth: the reason why a model does not train."""
    found = services.inspection.variance(reference, dataset, loader, progress=progress)
    rows = (
        (one.name, one.kind, *map(_short, (one.activation, one.gradient))) for one in found.layers
    )
    head = ("NAME", "KIND", "ACTIVATIONS", "GRADIENTS")
    return Answer(found, Table(head, rows), found.judge()[1], map(Note, found.warnings))


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


@command("model weights")
def weights(
    services: Services,
    progress: Progress,
    reference: Reference,
    path: Annotated[Path, Word("FILE", ".pt or .safetensors")],
) -> Answer:
    """Store weights with a model, from which its new jobs start."""
    item = services.library.add_weights(reference, path, progress=progress)
    unused = unused_weights_message(item.details)
    begin = f"New jobs of {item.reference} begin with these weights."
    return Answer(item, begin, [unused] if unused else [])
