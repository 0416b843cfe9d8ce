"""A small network with one of twelve modules, to compare them.

Source: Deep convolutional networks for image classification (M.Sc. thesis, 2016), section 4.5.
"""

from functools import partial

import torch
from activations import activation, first_weights
from torch import nn
from torch.nn import functional
from units import unit

CLASSES = 10
CHANNELS = 3
SIDE = 32
ACTIVATION = "relu"
A = 7.5
BATCH_NORM = True
VARIANT = "K"
FILTERS = 32

conv = partial(unit, act=partial(activation, ACTIVATION, A), batch_norm=BATCH_NORM)


def reduced(inputs: int, n: int, kernels: tuple[int, ...]) -> nn.Sequential:
    """Return a 1×1 convolution to n / 2 channels, and convolutions with these kernels after it."""
    path = nn.Sequential(conv(inputs, n // 2, 1))
    for number, kernel in enumerate(kernels):
        path.append(conv(n if number else n // 2, n, kernel))
    return path


def paths(inputs: int, n: int) -> tuple[int, list[nn.Module]]:
    """Return the channels and the paths of a module of the chosen variant with n filters."""
    average, largest = nn.AvgPool2d(3, 1, padding=1), nn.MaxPool2d(3, 1, padding=1)
    conv_3x3, conv_1x1 = conv(inputs, n, 3), conv(inputs, n, 1)
    projected = nn.Sequential(average, conv(inputs, n // 2, 1))
    double = [reduced(inputs, n, (3,)), reduced(inputs, n, (3, 3))]
    return {
        "A": (n, [conv_3x3]),
        "B": (2 * n, [conv_3x3, conv(inputs, n, 3)]),
        "B-stacked": (2 * n, [conv_3x3, nn.Sequential(conv(inputs, n, 3), conv(n, n, 3))]),
        "C": (2 * n, [conv_3x3, conv(inputs, n, 5)]),
        "D": (n, [reduced(inputs, n, (3,))]),
        "E": (2 * n, [conv_3x3, conv_1x1]),
        "F": (2 * n, [conv(inputs, 2 * n, 3)]),
        "G": (n + inputs, [conv_3x3, average]),
        "H": (n + inputs, [conv_3x3, largest]),
        "I": (n + n // 2, [conv_3x3, projected]),
        "J": (2 * n, double),
        "K": (3 * n + n // 2, [conv_1x1, *double, projected]),
    }[VARIANT]


class Module(nn.Module):
    """Paths joined by their channels."""

    def __init__(self, inputs: int, n: int) -> None:
        super().__init__()
        self.outputs, path_modules = paths(inputs, n)
        self.paths = nn.ModuleList(path_modules)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return torch.cat([path(inputs) for path in self.paths], 1)


class UserModel(nn.Module):
    """Input: N × CHANNELS × SIDE × SIDE; output: N × CLASSES."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(conv(CHANNELS, FILTERS, 3))
        inputs = FILTERS
        for n in (FILTERS, 2 * FILTERS, 4 * FILTERS):
            for _ in range(2):
                module = Module(inputs, n)
                self.features.append(module)
                inputs = module.outputs
            self.features.append(nn.MaxPool2d(3, stride=2, padding=1))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classify = nn.Linear(inputs, CLASSES)
        first_weights(self, ACTIVATION)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        return self.classify(self.pool(self.features(pictures)).flatten(1))

    def loss(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(output, target)

    def metrics(self, output: torch.Tensor, target: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"accuracy": (output.argmax(1) == target).float().mean()}
