"""A deep plain network: convolutions in a row, without batch norm and without shortcuts.

To see which activations can train it, as in table 5.3 of the source, which takes Inception-BN
without batch norm.
Source: Deep convolutional networks for image classification (M.Sc. thesis, 2016), section 5.3.
"""

import torch
from activations import activation, first_weights
from torch import nn
from torch.nn import functional

CLASSES = 10
CHANNELS = 1
SIDE = 8
DEPTH = 12
WIDTH = 32
ACTIVATION = "relu"


class UserModel(nn.Module):
    """Input: N × CHANNELS × SIDE × SIDE; output: N × CLASSES."""

    def __init__(self) -> None:
        super().__init__()
        layers = []
        for number in range(DEPTH):
            inputs = WIDTH if number else CHANNELS
            layers += [nn.Conv2d(inputs, WIDTH, 3, padding=1), activation(ACTIVATION)]
            if number in (DEPTH // 3, 2 * DEPTH // 3):
                layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.classify = nn.Linear(WIDTH, CLASSES)
        first_weights(self, ACTIVATION)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        return self.classify(self.features(pictures))

    def loss(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(output, target)

    def metrics(self, output: torch.Tensor, target: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"accuracy": (output.argmax(1) == target).float().mean()}
