"""A multilayer perceptron 64-64-10: two hidden layers with tanh and dropout.

Source: Distributed deep neural networks (M.S.E. report, 2017).
"""

import torch
from torch import nn
from torch.nn import functional

CLASSES = 10
FEATURES = 784
DROPOUT = 0.2


class UserModel(nn.Module):
    """Input: N × any shape of FEATURES numbers; output: N × CLASSES."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(),
            nn.Linear(FEATURES, 64),
            nn.Tanh(),
            nn.Dropout(DROPOUT),
            nn.Linear(64, 64),
            nn.Tanh(),
            nn.Dropout(DROPOUT),
            nn.Linear(64, CLASSES),
        )
        for layer in self.layers:
            if isinstance(layer, nn.Linear):
                nn.init.xavier_uniform_(layer.weight)

    def forward(self, samples: torch.Tensor) -> torch.Tensor:
        return self.layers(samples)

    def loss(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(output, target)

    def metrics(self, output: torch.Tensor, target: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"accuracy": (output.argmax(1) == target).float().mean()}
