"""The ten modules of TinyNet.

Source: Deep convolutional networks for image classification (M.Sc. thesis, 2016), section 4.6.
"""

from functools import partial

import torch
from torch import nn
from units import unit

FILTERS = (
    *((32, 32), (32, 48)),
    *((0, 80), (112, 48), (96, 64), (80, 80), (48, 96)),
    *((0, 96), (176, 160), (176, 160)),
)
"""Of each module the filters 1×1 and 3×3. The 0 is that of a max pooling, which halves the side."""


class Module(nn.Module):
    """A 3×3 convolution beside a 1×1 convolution, or of stride 2 beside a max pooling."""

    def __init__(self, inputs: int, ones: int, threes: int, unit: partial) -> None:
        super().__init__()
        if ones:
            self.paths = nn.ModuleList([unit(inputs, ones, 1), unit(inputs, threes, 3)])
        else:
            pool = nn.MaxPool2d(3, stride=2, padding=1)
            self.paths = nn.ModuleList([pool, unit(inputs, threes, 3, stride=2)])
        self.outputs = (ones or inputs) + threes

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return torch.cat([path(inputs) for path in self.paths], 1)


def modules(inputs: int, act: str, batch_norm: bool, a: float) -> nn.Sequential:
    """Return the modules, and after them the mean over each channel: N × 336."""
    layers = []
    for ones, threes in FILTERS:
        module = Module(inputs, ones, threes, partial(unit, act=act, batch_norm=batch_norm, a=a))
        layers.append(module)
        inputs = module.outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
