"""ResNet-50: residual blocks, whose inputs are added to their outputs.

Source: He et al., Deep residual learning for image recognition, 2015, table 1.
"""

import torch
from resnet import Bottleneck, first_weights, stages
from torch import nn
from torch.nn import functional

CLASSES = 1000
CHANNELS = 3
SIDE = 224


class UserModel(nn.Module):
    """Input: N × CHANNELS × SIDE × SIDE; output: N × CLASSES.

    Its parameters have the names of torchvision's resnet50: weights for that one can be loaded.
    """

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(CHANNELS, 64, kernel_size=7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.pool = nn.MaxPool2d(3, stride=2, padding=1)
        self.layer1, self.layer2, self.layer3, self.layer4 = stages(Bottleneck, (3, 4, 6, 3))
        self.fc = nn.Linear(512 * Bottleneck.expansion, CLASSES)
        first_weights(self)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        features = self.pool(functional.relu(self.bn1(self.conv1(pictures))))
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            features = stage(features)
        return self.fc(functional.adaptive_avg_pool2d(features, 1).flatten(1))

    def loss(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(output, target)

    def metrics(self, output: torch.Tensor, target: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"accuracy": (output.argmax(1) == target).float().mean()}
