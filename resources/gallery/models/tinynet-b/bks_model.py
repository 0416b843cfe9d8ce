"""TinyNet-B: few parameters for pictures of 256 × 256.

Source: Deep convolutional networks for image classification (M.Sc. thesis, 2016), section 4.6.
"""

from functools import partial

import torch
from activations import activation, first_weights
from tinynet import tinynet
from torch import nn
from torch.nn import functional
from units import unit

CLASSES = 1000
CHANNELS = 3
SIDE = 256
ACTIVATION = "relu"
A = 7.5
BATCH_NORM = False


class UserModel(nn.Module):
    """Input: N × CHANNELS × SIDE × SIDE; output: N × CLASSES."""

    def __init__(self) -> None:
        super().__init__()
        conv = partial(unit, act=partial(activation, ACTIVATION, A), batch_norm=BATCH_NORM)
        # Without padding: 256 pixels become the 28 that the source's table begins with.
        self.first = nn.Sequential(
            conv(CHANNELS, 64, 9, stride=4, padding=0),
            nn.MaxPool2d(3, stride=2),
            conv(64, 96, 3, padding=0),
        )
        self.features = tinynet(96, conv)
        self.classify = nn.Linear(336, CLASSES)
        first_weights(self, ACTIVATION)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        return self.classify(self.features(self.first(pictures)))

    def loss(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(output, target)

    def metrics(self, output: torch.Tensor, target: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"accuracy": (output.argmax(1) == target).float().mean()}
