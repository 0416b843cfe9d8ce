"""A plain network of the depth planner: stages of convolutions, with max pooling between them.

Source: Deep convolutional networks for image classification (M.Sc. thesis, 2016), sections 4.2 to
4.6. The source leaves the widths open: here the first stage has WIDTH channels and each later one
twice those before it, up to 512.
"""

import torch
from torch import nn
from torch.nn import functional

CLASSES = 10
CHANNELS = 1
SIDE = 128
KERNEL = 3
STAGES = "18-9-7"
WIDTH = 32


class UserModel(nn.Module):
    """Input: N × CHANNELS × SIDE × SIDE; output: N × CLASSES."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        inputs, width = CHANNELS, WIDTH
        for number, convolutions in enumerate(map(int, STAGES.split("-"))):
            if number:
                layers.append(nn.MaxPool2d(2, ceil_mode=True))
            for _ in range(convolutions):
                if KERNEL % 2 == 0:  # it has no middle: its sides are padded differently
                    layers.append(nn.ZeroPad2d((0, 1, 0, 1)))
                padding = (KERNEL - 1) // 2
                layers += [nn.Conv2d(inputs, width, KERNEL, padding=padding), nn.ReLU()]
                inputs = width
            width = min(2 * width, 512)
        self.features = nn.Sequential(*layers)
        self.classify = nn.Linear(inputs, CLASSES)
        # With PyTorch's own start the gradients of so many layers vanish.
        for layer in layers:
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
                nn.init.zeros_(layer.bias)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        return self.classify(self.features(pictures).mean((2, 3)))

    def loss(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(output, target)

    def metrics(self, output: torch.Tensor, target: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"accuracy": (output.argmax(1) == target).float().mean()}
