"""``python -m tests.gallery.figures``: write ``figures.json`` beside each card of a model."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from backend.records.library.gallery import CardFigures, GalleryEntry
from backend.records.library.item import Kind
from backend.services.library.gallery import FIGURES, GALLERY, GalleryService
from backend.training.tools.layers import layers_of, step_by_step
from backend.training.user_code import load_model

REFERENCE = "alexnet"


def folder_of(entry: GalleryEntry) -> Path:
    return GALLERY / entry.kind.folder / entry.name


def sample_of(entry: GalleryEntry) -> torch.Tensor:
    """Return one picture as the model takes it with its default settings."""
    settings = entry.card.settings
    side = int(settings["side"].default)
    return torch.zeros(1, int(settings["channels"].default), side, side)


def complexity(model: torch.nn.Module, data: torch.Tensor) -> int:
    """Return the sum over convolutions of n_in · k² · n_out · m_out² (DCN, section 4)."""
    total = 0

    def count(layer: torch.nn.Module, _: object, output: torch.Tensor) -> None:
        nonlocal total
        assert isinstance(layer, torch.nn.Conv2d)
        total += layer.weight.numel() * output.shape[-1] * output.shape[-2]

    convolutions = [one for one in model.modules() if isinstance(one, torch.nn.Conv2d)]
    handles = [one.register_forward_hook(count) for one in convolutions]
    with step_by_step(model), torch.no_grad():
        model(data)
    for handle in handles:
        handle.remove()
    return total


def figures(entry: GalleryEntry, reference: int) -> CardFigures:
    """Measure a model. ``reference`` is the complexity of AlexNet."""
    torch.manual_seed(0)
    model, data = load_model(folder_of(entry)), sample_of(entry)
    return CardFigures(
        layers_of(model, data, 1), float(f"{complexity(model, data) / reference:.4g}")
    )


def reference_complexity(gallery: GalleryService) -> int:
    entry = gallery.show(REFERENCE)
    return complexity(load_model(folder_of(entry)), sample_of(entry))


def gallery_here() -> GalleryService:
    """Return the gallery without a library: it lists and shows."""
    return GalleryService(None)  # type: ignore[arg-type]


if __name__ == "__main__":
    gallery = gallery_here()
    reference = reference_complexity(gallery)
    for entry in gallery.list(Kind.MODEL):
        text = json.dumps(figures(entry, reference).to_dict(), indent=1) + "\n"
        (folder_of(entry) / FIGURES).write_text(text, encoding="utf-8")
