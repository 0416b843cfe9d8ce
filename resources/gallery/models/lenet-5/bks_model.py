"""LeNet-5: two convolutions with pooling, then two linear layers.

Source: Deep convolutional networks for image classification (M.Sc. thesis, 2016), section 4.1.
"""

import torch
from torch import nn
from torch.nn import functional

CLASSES = 10
CHANNELS = 1
SIDE = 28


class UserModel(nn.Module):
    """Input: N × CHANNELS × SIDE × SIDE; output: N × CLASSES."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(CHANNELS, 20, kernel_size=5),
            nn.MaxPool2d(2),
            nn.Tanh(),
            nn.Conv2d(20, 50, kernel_size=5),
            nn.MaxPool2d(2),
            nn.Tanh(),
        )
        side = ((SIDE - 4) // 2 - 4) // 2
        self.classify = nn.Sequential(nn.Linear(50 * side**2, 500), nn.Linear(500, CLASSES))

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        return self.classify(self.features(pictures).flatten(1))

    def loss(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(output, target)

    def metrics(self, output: torch.Tensor, target: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"accuracy": (output.argmax(1) == target).float().mean()}
