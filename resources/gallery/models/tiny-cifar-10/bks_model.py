"""Tiny CIFAR-10: TinyNet without its first convolution and pooling.

Source: Deep convolutional networks for image classification (M.Sc. thesis, 2016), section 5.1.
"""

import torch
from activations import first_weights
from tinynet import modules
from torch import nn
from torch.nn import functional
from units import unit

CLASSES = 10
CHANNELS = 3
SIDE = 28
ACTIVATION = "relu"
A = 7.5
BATCH_NORM = True


class UserModel(nn.Module):
    """Input: N × CHANNELS × SIDE × SIDE; output: N × CLASSES."""

    def __init__(self) -> None:
        super().__init__()
        self.first = unit(CHANNELS, 96, 3, act=ACTIVATION, batch_norm=BATCH_NORM, a=A)
        self.features = modules(96, ACTIVATION, BATCH_NORM, A)
        self.classify = nn.Linear(336, CLASSES)
        first_weights(self, ACTIVATION)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        return self.classify(self.features(self.first(pictures)))

    def loss(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(output, target)

    def metrics(self, output: torch.Tensor, target: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"accuracy": (output.argmax(1) == target).float().mean()}
