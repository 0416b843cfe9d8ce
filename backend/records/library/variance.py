"""The variance of a model's activations and gradients by depth: the reason why it does not train.

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

from backend.records.base import number_format
from backend.records.base.schema import READ, Record
from backend.records.library.preview import TOOL_RULES

_MATTERS = 1e4
"""The change of a variance over all layers from which on depth hinders training: the gradients of
the first layers are then a hundred times smaller than those of the last."""
_LEAST_LAYERS = 3
_OF_SIGMOID = 16
_FIXES = "Kaiming initialisation, batch normalisation or shortcuts around layers keep them."


@dataclass(frozen=True)
class LayerVariance:
    """One call of a layer.

    Attributes:
        activation: The variance of its output between samples, averaged over the output; None if it
            is infinite or not a number, or there is only one sample.
        gradient: The variance around zero of the gradient of the loss by its output; None if there
            is no gradient, or it is infinite or not a number.
    """

    name: str
    kind: str
    activation: float | None
    gradient: float | None
    is_finite: bool = True


@dataclass(frozen=True)
class DepthVariance(Record, what="list of variances", rules=TOOL_RULES):
    """The layers with weights in the order of the forward pass.

    Attributes:
        sigmoids: How often the forward pass computes a sigmoid.
    """

    layers: tuple[LayerVariance, ...] = ()
    sigmoids: int = 0
    warnings: tuple[str, ...] = ()
    output: str = field(default="", metadata={READ: str})
    """The end of what the user's code printed."""

    @property
    def is_healthy(self) -> bool:
        return self._judged[0]

    @property
    def sentence(self) -> str:
        """Return what the figures mean for training."""
        return self._judged[1]

    @property
    def _judged(self) -> tuple[bool, str]:
        broken = next((one.name for one in self.layers if not one.is_finite), "")
        if broken:
            return False, (
                f"{broken} is the first layer whose output or gradient is infinite or not a "
                "number. Look for logarithms, divisions by zero and large values before it."
            )
        if len(self.layers) < _LEAST_LAYERS:
            return True, f"Fewer than {_LEAST_LAYERS} layers with weights have no depth to judge."
        gradients = [one.gradient for one in self.layers]
        activations = [one.activation for one in self.layers]
        if all(value is None for value in gradients):
            return False, "No layer gets a gradient, so that none learns."
        for factor, total, sentence in (
            (_growth(gradients), _over(gradients), self._of_gradients),
            (1 / _growth(activations), 1 / _over(activations), _of_activations),
        ):
            if max(total, 1 / total) >= _MATTERS:
                return False, sentence(factor)
        silent = sum(value == 0 for value in gradients)
        if silent:
            return False, f"The gradient of {silent} of {len(gradients)} layers is zero: {_DEAD}"
        changes = [max(one, 1 / one) for one in (_over(gradients), _over(activations))]
        return True, (
            f"Variances stay within a factor of {_figure(max(changes))} from the first layer to "
            "the last: depth is not what prevents training."
        )

    def _of_gradients(self, factor: float) -> str:
        if factor < 1:
            return (
                f"The variance of the gradients grows about {_figure(1 / factor)} times a layer "
                f"from the output to the input: the first layers take too large steps. {_FIXES}"
            )
        found = (
            f"The variance of the gradients shrinks about {_figure(factor)} times a layer from the "
            "output to the input: the first layers hardly learn. "
        )
        if 2 * self.sigmoids < len(self.layers) or factor < _OF_SIGMOID / 2:
            return found + _FIXES
        return found + (
            f"sigmoid has slope 1/4 at 0, which alone is a factor of {_OF_SIGMOID}. "
            "ReLU, tanh and 4 · sigmoid(x) − 2 have slope 1."
        )


_DEAD = "weights of zero after them, or a ReLU whose inputs are all negative, keep it from them."


def _of_activations(factor: float) -> str:
    if factor < 1:
        return (
            f"The variance of the outputs grows about {_figure(1 / factor)} times a layer: the "
            f"last layers get too large values. {_FIXES}"
        )
    return (
        f"The variance between samples shrinks about {_figure(factor)} times a layer: the last "
        f"layers hardly distinguish them. {_FIXES}"
    )


def _logarithms(values: Sequence[float | None]) -> list[tuple[int, float]]:
    return [(n, math.log(value)) for n, value in enumerate(values) if value]


def _growth(values: Sequence[float | None]) -> float:
    """Return the factor from each layer to the next: the median of all slopes (Theil and Sen).

    One layer that differs, as after pooling over the whole picture, does not change it.
    """
    found = _logarithms(values)
    slopes = [(b - a) / (n - m) for (m, a), (n, b) in combinations(found, 2)]
    return math.exp(statistics.median(slopes)) if slopes else 1.0


def _over(values: Sequence[float | None]) -> float:
    """Return the factor of the fit from the first layer to the last one."""
    places = [n for n, _ in _logarithms(values)]
    return _growth(values) ** (places[-1] - places[0]) if places else 1.0


def _figure(value: float) -> str:
    return f"{float(f'{value:.2g}'):,.12g}".replace(",", number_format.THIN)
