"""Inception-BN: ten modules of convolutions 1×1, 3×3 and double 3×3 beside a pooling.

Source: Deep convolutional networks for image classification (M.Sc. thesis, 2016), section 4.4.
"""

from functools import partial

import torch
from activations import activation, first_weights
from torch import nn
from torch.nn import functional
from units import unit

CLASSES = 1000
CHANNELS = 3
SIDE = 224
ACTIVATION = "relu"
A = 7.5
BATCH_NORM = True

# Filters of 1×1, 3×3 with its reduction, double 3×3 with its reduction, and the projection of the
# pooling, which is 0 in the modules that halve the side.
MODULES = {
    "3a": (64, (64, 64), (64, 96), 32, "average"),
    "3b": (64, (64, 96), (64, 96), 64, "average"),
    "3c": (0, (128, 160), (64, 96), 0, "max"),
    "4a": (224, (64, 96), (96, 128), 128, "average"),
    "4b": (192, (96, 128), (96, 128), 128, "average"),
    "4c": (160, (128, 160), (128, 160), 128, "average"),
    "4d": (96, (128, 192), (160, 192), 128, "average"),
    "4e": (0, (128, 192), (192, 256), 0, "max"),
    "5a": (352, (192, 320), (160, 224), 128, "average"),
    "5b": (352, (192, 320), (192, 224), 128, "max"),
}

conv = partial(unit, act=partial(activation, ACTIVATION, A), batch_norm=BATCH_NORM)


class Module(nn.Module):
    """The paths of one row of the table, joined by their channels."""

    def __init__(
        self,
        inputs: int,
        width_1x1: int,
        threes: tuple[int, int],
        double: tuple[int, int],
        projection: int,
        pooling: str,
    ) -> None:
        super().__init__()
        stride = 1 if width_1x1 else 2
        pool = nn.AvgPool2d if pooling == "average" else nn.MaxPool2d
        paths = [
            nn.Sequential(conv(inputs, threes[0], 1), conv(*threes, 3, stride)),
            nn.Sequential(
                conv(inputs, double[0], 1), conv(*double, 3), conv(double[1], double[1], 3, stride)
            ),
            nn.Sequential(pool(3, stride, padding=1)),
        ]
        if width_1x1:
            paths.insert(0, conv(inputs, width_1x1, 1))
            paths[-1].append(conv(inputs, projection, 1))
        self.paths = nn.ModuleList(paths)
        self.outputs = width_1x1 + threes[1] + double[1] + (projection or inputs)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return torch.cat([path(inputs) for path in self.paths], 1)


class UserModel(nn.Module):
    """Input: N × CHANNELS × SIDE × SIDE; output: N × CLASSES."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(
            conv(CHANNELS, 64, 7, stride=2),
            nn.MaxPool2d(3, stride=2, padding=1),
            conv(64, 64, 1),
            conv(64, 192, 3),
            nn.MaxPool2d(3, stride=2, padding=1),
        )
        self.features = nn.Sequential()
        inputs = 192
        for name, row in MODULES.items():
            module = Module(inputs, *row)
            self.features.add_module(name, module)
            inputs = module.outputs
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classify = nn.Linear(inputs, CLASSES)
        # Without batch norm the source uses Xavier's for each activation.
        first_weights(self, ACTIVATION if BATCH_NORM else "none")

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        return self.classify(self.pool(self.features(self.first(pictures))).flatten(1))

    def loss(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(output, target)

    def metrics(self, output: torch.Tensor, target: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"accuracy": (output.argmax(1) == target).float().mean()}
