"""``python -m tests.gallery.figures``: write ``figures.json`` beside each card of a model."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path

import torch

from backend.records.library.gallery import CardFigures, GalleryEntry
from backend.records.library.item import Kind
from backend.services.library.gallery import FIGURES, GALLERY, GalleryService
from backend.training.tools.layers import evaluating_step_by_step, model_layers
from backend.training.user_code import load_model

REFERENCE = "alexnet"
SERVICE = GalleryService(None)  # type: ignore[arg-type]
"""The gallery without a library: it lists, shows and writes."""


def build(name: str, **settings: object) -> torch.nn.Module:
    """Return the model of an entry. On the device “meta” it costs no memory."""
    with tempfile.TemporaryDirectory() as temporary_folder:
        folder = Path(temporary_folder) / name
        SERVICE.write(name, {key: str(value) for key, value in settings.items()}, folder)
        return load_model(folder)


def sample_of(entry: GalleryEntry, samples: int = 1, **settings: object) -> torch.Tensor:
    """Return pictures, or rows of a table, as the model takes them with such settings."""
    values = entry.card.values({key: str(value) for key, value in settings.items()})
    if "features" in values:
        return torch.zeros(samples, int(values["features"]))
    side = int(values["side"])
    return torch.zeros(samples, int(values["channels"]), side, side)


def complexity(model: torch.nn.Module, data: torch.Tensor) -> int:
    """Return the sum over convolutions of n_in · k² · n_out · m_out² (DCN, section 4)."""
    total = 0

    def count(layer: torch.nn.Module, _: object, output: torch.Tensor) -> None:
        nonlocal total
        assert isinstance(layer, torch.nn.Conv2d)
        total += layer.weight.numel() * output.shape[-1] * output.shape[-2]

    convolutions = [module for module in model.modules() if isinstance(module, torch.nn.Conv2d)]
    handles = [module.register_forward_hook(count) for module in convolutions]
    with evaluating_step_by_step(model), torch.no_grad():
        model(data)
    for handle in handles:
        handle.remove()
    return total


def figures(entry: GalleryEntry, reference: int) -> CardFigures:
    """Measure a model. ``reference`` is the complexity of AlexNet."""
    # What a detector returns depends on its numbers, and on “meta” there are none.
    with torch.device("meta" if entry.card.task == "classification" else "cpu"):
        model, data = build(entry.name), sample_of(entry)
        relative = complexity(model, data) / reference
        return CardFigures(model_layers(model, data, 1), float(f"{relative:.4g}"))


def reference_complexity() -> int:
    with torch.device("meta"):
        return complexity(build(REFERENCE), sample_of(SERVICE.show(REFERENCE)))


def as_text(content: Mapping[str, object]) -> str:
    """Return figures as JSON with a line for each layer."""
    return json.dumps(content).replace(', {"name"', ',\n{"name"') + "\n"


if __name__ == "__main__":
    reference = reference_complexity()
    for entry in SERVICE.list(Kind.MODEL):
        text = as_text(figures(entry, reference).to_dict())
        (GALLERY / entry.kind.folder / entry.name / FIGURES).write_text(text, encoding="utf-8")
