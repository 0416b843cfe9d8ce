"""A multilayer perceptron 64-64-1 for numbers: two hidden layers with tanh.

The targets are scaled by their mean and deviation, which are measured over all samples of the
training until now (Chan, Golub, LeVeque: Updating formulae and a pairwise algorithm for computing
sample variances, 1979, equation 2.1).
"""

import torch
from torch import nn
from torch.nn import functional

FEATURES = 8
OUTPUTS = 1
DROPOUT = 0


class UserModel(nn.Module):
    """Input: N × any shape of FEATURES numbers; output: N × OUTPUTS in the unit of the target."""

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
            nn.Linear(64, OUTPUTS),
        )
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("mean", torch.zeros(OUTPUTS))
        self.register_buffer("square_sum", torch.zeros(OUTPUTS))

    def forward(self, samples: torch.Tensor) -> torch.Tensor:
        return self.mean + self.deviation() * self.layers(samples)

    def deviation(self) -> torch.Tensor:
        """Return the deviation of the targets, 1 where they have been equal until now."""
        deviation = (self.square_sum / self.count.clamp(min=1)).sqrt()
        return torch.where(deviation > 0, deviation, torch.ones_like(deviation))

    def loss(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        target = target.reshape(output.shape).to(output.dtype)
        if self.training:
            self.measure(target)
        deviation = self.deviation()
        return functional.mse_loss(output / deviation, target / deviation)

    @torch.no_grad()
    def measure(self, target: torch.Tensor) -> None:
        """Add the targets of a batch to their mean and deviation."""
        total = self.count + len(target)
        difference = target.mean(0) - self.mean
        self.square_sum += ((target - target.mean(0)) ** 2).sum(0)
        self.square_sum += difference**2 * self.count * len(target) / total
        self.mean += difference * len(target) / total
        self.count.copy_(total)

    def metrics(self, output: torch.Tensor, target: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"mae": (output - target.reshape(output.shape)).abs().mean()}
