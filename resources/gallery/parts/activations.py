"""Activations by name, and the first weights that suit them.

Source: Deep convolutional networks for image classification (M.Sc. thesis, 2016), section 5.
"""

import torch
from torch import nn
from torch.nn import functional

LIKE_RELU = ("relu", "leaky", "prelu", "rrelu")


class SigmoidStar(nn.Module):
    """4 · sigmoid(x) − 2: a sigmoid through the origin, with slope 1 there."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return 4 * torch.sigmoid(inputs) - 2


class RReLU(nn.RReLU):
    """Slopes from U(1/8, 1/3) in training; in evaluation their mean, in a form that ONNX has."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        if self.training:
            return super().forward(inputs)
        return functional.leaky_relu(inputs, (self.lower + self.upper) / 2)


def activation(name: str, a: float = 7.5) -> nn.Module:
    """Return a new module; ``a`` is that of "leaky", whose slope is 1/a."""
    if name == "leaky":
        return nn.LeakyReLU(1 / a)
    modules = {
        "relu": nn.ReLU,
        "prelu": nn.PReLU,
        "rrelu": RReLU,
        "sigmoid": nn.Sigmoid,
        "tanh": nn.Tanh,
        "sigmoid-star": SigmoidStar,
        "none": nn.Identity,
    }
    return modules[name]()


def first_weights(model: nn.Module, name: str) -> None:
    """Draw the weights of convolutions and linear layers for the activation ``name``.

    Kaiming's rule for those like ReLU, Xavier's for the others and for the last layer. Biases
    are 0.
    """
    layers = [module for module in model.modules() if isinstance(module, (nn.Conv2d, nn.Linear))]
    for layer in layers:
        if name in LIKE_RELU and layer is not layers[-1]:
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        else:
            nn.init.xavier_uniform_(layer.weight)
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)
