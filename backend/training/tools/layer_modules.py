"""The modules of a model that count as its layers, with the parameters of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import torch

MODEL_LAYER = "(the model)"
"""The name of the model itself among its layers."""


class LayerModule(NamedTuple):
    """A module with its parameters outside its parts; a shared one belongs to one module only."""

    name: str
    module: torch.nn.Module
    parameters: tuple[torch.nn.Parameter, ...]
    has_parts: bool

    @property
    def is_layer(self) -> bool:
        """Return whether it holds parameters itself or has no parts."""
        return bool(self.parameters) or not self.has_parts


def layer_modules(model: torch.nn.Module) -> list[LayerModule]:
    """Return every module except those that only hold parameters, outer ones first.

    Parameters that the first batch will create are left out.
    """
    import torch
    from torch.nn.parameter import is_lazy

    # Keras keeps each layer's parameters in such a container, and all of them once more on top.
    containers = (torch.nn.ParameterDict, torch.nn.ParameterList)
    modules = dict(model.named_modules())
    names = [name for name, module in modules.items() if not isinstance(module, containers)]
    parent_names = {name.rpartition(".")[0] for name in names if name}
    layer_parameters: dict[str, list[torch.nn.Parameter]] = {name: [] for name in names}
    counted_ids: set[int] = set()
    for name in sorted(modules, key=lambda name: -name.count(".")):
        layer = name
        while layer not in layer_parameters:
            layer = layer.rpartition(".")[0]
        for parameter in modules[name].parameters(recurse=False):
            if id(parameter) not in counted_ids and not is_lazy(parameter):
                counted_ids.add(id(parameter))
                layer_parameters[layer].append(parameter)
    return [
        LayerModule(
            name or MODEL_LAYER,
            modules[name],
            tuple(layer_parameters[name]),
            name in parent_names or not name,
        )
        for name in names
    ]
