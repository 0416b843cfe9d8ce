"""A convolution with its activation and batch norm."""

from activations import activation
from torch import nn


def unit(
    inputs: int,
    outputs: int,
    kernel: int,
    stride: int = 1,
    padding: int | None = None,
    *,
    act: str = "relu",
    batch_norm: bool = False,
    a: float = 7.5,
) -> nn.Sequential:
    """Return convolution, batch norm if any, and activation. The padding is kernel // 2."""
    padding = kernel // 2 if padding is None else padding
    # Batch norm adds a bias of its own.
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=not batch_norm)
    norm = [nn.BatchNorm2d(outputs)] if batch_norm else []
    return nn.Sequential(convolution, *norm, activation(act, a))
