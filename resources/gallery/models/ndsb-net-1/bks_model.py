"""NDSB-Net 1: as deep as pictures of 128 × 128 allow.

Source: Deep convolutional networks for image classification (M.Sc. thesis, 2016), section 6.1.
"""

from functools import partial

import torch
from activations import activation, first_weights
from torch import nn
from torch.nn import functional
from units import unit

CLASSES = 121
CHANNELS = 1
SIDE = 128
ACTIVATION = "relu"
A = 7.5
BATCH_NORM = False
POOLING = "average"


class UserModel(nn.Module):
    """Input: N × CHANNELS × SIDE × SIDE; output: N × CLASSES."""

    def __init__(self) -> None:
        super().__init__()
        conv = partial(unit, act=partial(activation, ACTIVATION, A), batch_norm=BATCH_NORM)
        self.features = nn.Sequential(
            conv(CHANNELS, 16, 5),
            nn.MaxPool2d(3, stride=2, padding=1),
            conv(16, 32, 3),
            conv(32, 32, 3),
            conv(32, 64, 3),
            conv(64, 64, 3),
            conv(64, 128, 3),
            nn.MaxPool2d(3, stride=2, padding=1),
            conv(128, 256, 3),
            nn.MaxPool2d(3, stride=2, padding=1),
            conv(256, 512, 3),
            nn.MaxPool2d(3, stride=2, padding=1),
            conv(512, 512, 3),
            conv(512, 512, 3),
            nn.AdaptiveAvgPool2d(1) if POOLING == "average" else nn.AdaptiveMaxPool2d(1),
        )
        self.classify = nn.Linear(512, CLASSES)
        first_weights(self, ACTIVATION)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        return self.classify(self.features(pictures).flatten(1))

    def loss(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(output, target)

    def metrics(self, output: torch.Tensor, target: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"accuracy": (output.argmax(1) == target).float().mean()}
