"""VGG-E: sixteen convolutions 3×3 and three linear layers.

Source: Deep convolutional networks for image classification (M.Sc. thesis, 2016), section 4.3.
"""

import torch
from torch import nn
from torch.nn import functional

CLASSES = 1000
CHANNELS = 3
SIDE = 224

STAGES = ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4))
"""Filters and number of the convolutions before each pooling."""


class UserModel(nn.Module):
    """Input: N × CHANNELS × SIDE × SIDE; output: N × CLASSES.

    Its parameters have the names of torchvision's vgg19: weights for that one can be loaded.
    """

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        inputs = CHANNELS
        for filters, count in STAGES:
            for _ in range(count):
                layers += [nn.Conv2d(inputs, filters, kernel_size=3, padding=1), nn.ReLU()]
                inputs = filters
            layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(
            nn.Linear(512 * (SIDE // 32) ** 2, 4096),
            nn.ReLU(),
            nn.Dropout(),
            nn.Linear(4096, 4096),
            nn.ReLU(),
            nn.Dropout(),
            nn.Linear(4096, CLASSES),
        )
        for layer in self.features:
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.features(pictures).flatten(1))

    def loss(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(output, target)

    def metrics(self, output: torch.Tensor, target: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"accuracy": (output.argmax(1) == target).float().mean()}
