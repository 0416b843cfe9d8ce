"""A small convolutional network for pictures of 8 × 8 pixels.

A model is a file `bks_model.py` with a class `UserModel`. It is called with the data that the
loader gives, and says with `loss` what training should make small. `metrics` may name other figures
to plot; training does not look at them.
"""

import torch
from torch import nn
from torch.nn import functional


class UserModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 32, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.Conv2d(32, 64, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Dropout(0.3),
        )
        self.classify = nn.Linear(64 * 4 * 4, 10)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        return self.classify(self.features(pictures).flatten(1))

    def loss(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(output, target)

    def metrics(self, output: torch.Tensor, target: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"accuracy": (output.argmax(1) == target).float().mean()}
