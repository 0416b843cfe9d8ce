"""The ten modules of TinyNet.

Source: Deep convolutional networks for image classification (M.Sc. thesis, 2016), section 4.6.
"""

from collections.abc import Callable

import torch
from torch import nn

FILTERS = (
    *((32, 32), (32, 48)),
    *((0, 80), (112, 48), (96, 64), (80, 80), (48, 96)),
    *((0, 96), (176, 160), (176, 160)),
)
"""Of each module the filters 1×1 and 3×3. The 0 is that of a max pooling, which halves the side."""


class Module(nn.Module):
    """A 3×3 convolution beside a 1×1 convolution, or of stride 2 beside a max pooling."""

    def __init__(self, inputs: int, width_1x1: int, width_3x3: int, unit: Callable) -> None:
        super().__init__()
        if width_1x1:
            self.paths = nn.ModuleList([unit(inputs, width_1x1, 1), unit(inputs, width_3x3, 3)])
        else:
            pool = nn.MaxPool2d(3, stride=2, padding=1)
            self.paths = nn.ModuleList([pool, unit(inputs, width_3x3, 3, stride=2)])
        self.outputs = (width_1x1 or inputs) + width_3x3

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return torch.cat([path(inputs) for path in self.paths], 1)


def tinynet(inputs: int, unit: Callable) -> nn.Sequential:
    """Return the modules of such units, and after them the mean of each channel: N × 336."""
    modules = []
    for width_1x1, width_3x3 in FILTERS:
        modules.append(Module(inputs, width_1x1, width_3x3, unit))
        inputs = modules[-1].outputs
    return nn.Sequential(*modules, nn.AdaptiveAvgPool2d(1), nn.Flatten())
