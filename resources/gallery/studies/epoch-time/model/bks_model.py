"""The published network: two hidden layers of 64 units, tanh, dropout. L2 is the optimizer's.

A step sleeps for as long as a node computes.

So the workers of one computer do not wait for its cores, and an epoch shows what messages cost.
"""

import time

import torch
from torch import nn
from torch.nn import functional

COMPUTE_S = 0.1


class UserModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(),
            *(nn.Linear(64, 64), nn.Tanh(), nn.Dropout(0.2)),
            *(nn.Linear(64, 64), nn.Tanh(), nn.Dropout(0.2)),
            nn.Linear(64, 10),
        )

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        if self.training:
            time.sleep(COMPUTE_S)
        return self.layers(pictures)

    def loss(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(output, target)

    def metrics(self, output: torch.Tensor, target: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"accuracy": (output.argmax(1) == target).float().mean()}
