"""A small network like CaffeNet, for pictures of 32 × 32.

Source: Distributed neural network training (final-year project, 2017).
"""

import torch
from activations import first_weights
from torch import nn
from torch.nn import functional

CLASSES = 10
CHANNELS = 3
SIDE = 32


class UserModel(nn.Module):
    """Input: N × CHANNELS × SIDE × SIDE; output: N × CLASSES.

    The source cuts it between ``front`` and ``back``.
    """

    def __init__(self) -> None:
        super().__init__()
        self.front = nn.Sequential(
            nn.Conv2d(CHANNELS, 32, kernel_size=5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 64, kernel_size=5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.back = nn.Sequential(
            nn.Conv2d(64, 128, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.Conv2d(128, 128, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(128 * (SIDE // 8) ** 2, 256),
            nn.ReLU(),
            nn.Linear(256, CLASSES),
        )
        first_weights(self, "relu")

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        return self.back(self.front(pictures))

    def loss(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(output, target)

    def metrics(self, output: torch.Tensor, target: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"accuracy": (output.argmax(1) == target).float().mean()}
