"""AlexNet: five convolutions and three linear layers, the first deep network to win ImageNet.

Source: Deep convolutional networks for image classification (M.Sc. thesis, 2016), section 4.2.
"""

import torch
from torch import nn
from torch.nn import functional

CLASSES = 1000
CHANNELS = 3
SIDE = 224
GROUPS = 2
WIDTHS = "2012"

FILTERS = {"2012": (96, 256, 384, 384, 256), "2014": (64, 192, 384, 256, 256)}


def conv(inputs: int, outputs: int, kernel: int, groups: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, groups=groups)


class UserModel(nn.Module):
    """Input: N × CHANNELS × SIDE × SIDE; output: N × CLASSES."""

    def __init__(self) -> None:
        super().__init__()
        a, b, c, d, e = FILTERS[WIDTHS]
        self.features = nn.Sequential(
            nn.Conv2d(CHANNELS, a, kernel_size=11, stride=4, padding=2),
            nn.MaxPool2d(3, stride=2),
            nn.ReLU(),
            nn.LocalResponseNorm(5, k=2),
            conv(a, b, 5, GROUPS),
            nn.MaxPool2d(3, stride=2),
            nn.ReLU(),
            nn.LocalResponseNorm(5, k=2),
            conv(b, c, 3),
            nn.ReLU(),
            conv(c, d, 3, GROUPS),
            nn.ReLU(),
            conv(d, e, 3, GROUPS),
            nn.ReLU(),
            nn.MaxPool2d(3, stride=2),
        )
        side = (SIDE - 7) // 4 + 1
        for _ in range(3):
            side = (side - 3) // 2 + 1
        self.classify = nn.Sequential(
            nn.Flatten(),
            nn.Linear(e * side**2, 4096),
            nn.ReLU(),
            nn.Dropout(),
            nn.Linear(4096, 4096),
            nn.ReLU(),
            nn.Dropout(),
            nn.Linear(4096, CLASSES),
        )

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        return self.classify(self.features(pictures))

    def loss(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(output, target)

    def metrics(self, output: torch.Tensor, target: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"accuracy": (output.argmax(1) == target).float().mean()}
