"""Import, list, show, check and remove models, and store weights with them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from backend.base.progress import Progress
from backend.cli.command import ArgSpec, command
from backend.cli.commands._library import Reference, for_kind, record_answer
from backend.cli.parameters import parse_count
from backend.cli.printing import Answer, Note, Table, size_text
from backend.records.library.item import unused_weights_message
from backend.services.context.container import Services

for_kind("model")


@command("model check")
def check(
    services: Services,
    progress: Progress,
    reference: Reference,
    *,
    dataset: Annotated[str, ArgSpec("NAME")] = "",
    loader: Annotated[str, ArgSpec("NAME")] = "",
) -> Answer:
    """Load a model, and train it on one batch of a dataset."""
    return record_answer(
        services.library.check_model(reference, dataset=dataset, loader=loader, progress=progress)
    )


@command("model layers")
def layers(
    services: Services,
    progress: Progress,
    reference: Reference,
    *,
    dataset: Annotated[str, ArgSpec("NAME")],
    loader: Annotated[str, ArgSpec("NAME")],
    batch_size: Annotated[int, ArgSpec("B", "for shapes and memory", parse=parse_count)] = 1,
) -> Answer:
    """Every layer: shape, parameters, multiply-adds, memory of its output."""
    model_layers = services.inspection.layers(
        reference, dataset, loader, batch_size=batch_size, progress=progress
    )
    rows = [
        (
            layer.name,
            layer.kind,
            "-" if layer.output_shape is None else str(list(layer.output_shape)),
            str(layer.parameters),
            _number(layer.multiply_adds),
            size_text(layer.activation_bytes),
            ("trained" if layer.is_trained else "frozen") if layer.parameters else "-",
        )
        for layer in model_layers.layers
    ]
    memory = size_text(model_layers.activation_bytes)
    total = (
        "(total)",
        "",
        "",
        str(model_layers.parameters),
        _number(model_layers.multiply_adds),
        memory,
        "",
    )
    head = ("NAME", "KIND", "OUTPUT", "PARAMETERS", "MULTIPLY-ADDS", "MEMORY", "TRAINED")
    return Answer(
        model_layers.layers, Table(head, (*rows, total)), map(Note, model_layers.warnings)
    )


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)


@command("model variance")
def variance(
    services: Services,
    progress: Progress,
    reference: Reference,
    *,
    dataset: Annotated[str, ArgSpec("NAME")],
    loader: Annotated[str, ArgSpec("NAME")],
) -> Answer:
    """The variance of activations and gradients by depth: the reason why a model does not train."""
    depth_variance = services.inspection.variance(reference, dataset, loader, progress=progress)
    rows = (
        (layer.name, layer.kind, *map(_short, (layer.activation, layer.gradient)))
        for layer in depth_variance.layers
    )
    head = ("NAME", "KIND", "ACTIVATIONS", "GRADIENTS")
    return Answer(
        depth_variance,
        Table(head, rows),
        depth_variance.judge()[1],
        map(Note, depth_variance.warnings),
    )


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


@command("model weights")
def weights(
    services: Services,
    progress: Progress,
    reference: Reference,
    path: Annotated[Path, ArgSpec("FILE", ".pt or .safetensors")],
) -> Answer:
    """Store weights with a model, from which its new jobs start."""
    item = services.library.add_weights(reference, path, progress=progress)
    unused_message = unused_weights_message(item.details)
    message = f"New jobs of {item.reference} begin with these weights."
    return Answer(item, message, [unused_message] if unused_message else [])
