"""Residual blocks and the four stages of a ResNet.

Source: He et al., Deep residual learning for image recognition, 2015. The names are torchvision's.
"""

from collections.abc import Sequence

import torch
from torch import nn


def conv(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)


class Block(nn.Module):
    """Adds its input, projected where the shape changes, to the output of its convolutions."""

    expansion = 1

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = width * self.expansion
        self.relu = nn.ReLU()
        self.downsample = None
        if stride > 1 or inputs != outputs:
            self.downsample = nn.Sequential(
                conv(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs)
            )

    def residual(self, inputs: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        shortcut = inputs if self.downsample is None else self.downsample(inputs)
        return self.relu(shortcut + self.residual(inputs))


class Basic(Block):
    """Two convolutions 3×3."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__(inputs, width, stride)
        self.conv1, self.bn1 = conv(inputs, width, 3, stride), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = conv(width, width, 3), nn.BatchNorm2d(width)

    def residual(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.bn2(self.conv2(self.relu(self.bn1(self.conv1(inputs)))))


class Bottleneck(Block):
    """A convolution 3×3 between two of 1×1; the last has four times the filters."""

    expansion = 4

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__(inputs, width, stride)
        self.conv1, self.bn1 = conv(inputs, width, 1), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = conv(width, width, 3, stride), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = conv(width, 4 * width, 1), nn.BatchNorm2d(4 * width)

    def residual(self, inputs: torch.Tensor) -> torch.Tensor:
        features = self.relu(self.bn1(self.conv1(inputs)))
        return self.bn3(self.conv3(self.relu(self.bn2(self.conv2(features)))))


def stages(block: type[Block], counts: Sequence[int], inputs: int = 64) -> list[nn.Sequential]:
    """Return stages of so many blocks; each but the first halves the side."""
    stage_list = []
    for number, count in enumerate(counts):
        width, stage = 64 * 2**number, nn.Sequential()
        for block_number in range(count):
            stage.append(block(inputs, width, 2 if number and not block_number else 1))
            inputs = width * block.expansion
        stage_list.append(stage)
    return stage_list


def first_weights(model: nn.Module) -> None:
    """Draw the weights of the convolutions by Kaiming's rule."""
    for layer in model.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
