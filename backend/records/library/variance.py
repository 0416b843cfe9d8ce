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
from backend.records.base.schema import KEY, READ, Record
from backend.records.library.preview import TOOL_RULES

_MATTERS = 1e4
"""A variance that changes more than this over all layers hinders training: the gradients of the
first layers are then a hundred times smaller than those of the last."""
_LEAST_LAYERS, _MOST_FITTED = 3, 200
_OF_SIGMOID = 16
_FIXES = "Kaiming initialisation, batch normalisation or shortcuts around layers keep it."
_NO_SIGMOID = (
    f"sigmoid has slope 1/4 at 0, which alone is a factor of {_OF_SIGMOID}. "
    "ReLU, tanh and 4 · sigmoid(x) − 2 have slope 1."
)


@dataclass(frozen=True)
class LayerVariance:
    """A call of a layer.

    Attributes:
        activation: The variance of its output between samples, averaged over the output; None if it
            is infinite or not a number, or there is only one sample.
        gradient: The variance around zero of the gradient of the loss by its output; None if there
            is no gradient, or it is infinite or not a number.
        broken_part: "output" or "gradient": the first of both that has a value that is infinite
            or not a number.
    """

    name: str
    kind: str
    activation: float | None
    gradient: float | None
    broken_part: str = field(default="", metadata={KEY: "broken"})


@dataclass(frozen=True)
class DepthVariance(Record, label="list of variances", rules=TOOL_RULES):
    """The layers with weights in the order of the forward pass.

    Attributes:
        sigmoids: How often the forward pass computes a sigmoid.
        output: The end of what the user's code printed.
    """

    layers: tuple[LayerVariance, ...] = ()
    sigmoids: int = 0
    warnings: tuple[str, ...] = ()
    output: str = field(default="", metadata={READ: str})

    def judge(self) -> tuple[bool, str]:
        """Return whether depth does not hinder training, and a sentence about it."""
        # An output breaks all after it, then every gradient; a gradient those before it.
        broken_layers = [layer for layer in self.layers if layer.broken_part == "output"]
        broken_layers += [layer for layer in reversed(self.layers) if layer.broken_part]
        if broken_layers:
            layer = broken_layers[0]
            return False, (
                f"The {layer.broken_part} of {layer.name} is the first that is infinite or not a "
                "number. Look for logarithms, divisions by zero and large values before it."
            )
        count = len(self.layers)
        if count < _LEAST_LAYERS:
            return True, f"Fewer than {_LEAST_LAYERS} layers with weights have no depth to judge."
        gradients = [layer.gradient for layer in self.layers]
        if all(value is None for value in gradients):
            return False, "No layer gets a gradient, so that none learns."
        gradient_slope, output_slope = (
            _median_slope(gradients),
            _median_slope([layer.activation for layer in self.layers]),
        )
        is_sigmoid = 2 * self.sigmoids >= count and gradient_slope >= math.log(_OF_SIGMOID / 2)
        # Each with its slope in the direction of its way, then what shrinking and growing do.
        for slope, nouns, shrink_effect, growth_effect in (
            (
                -gradient_slope,
                ("gradients", "a layer from the output to the input"),
                f"the first layers hardly learn. {_NO_SIGMOID if is_sigmoid else _FIXES}",
                f"the first layers take too large steps. {_FIXES}",
            ),
            (
                output_slope,
                ("outputs between samples", "a layer"),
                f"the last layers hardly distinguish them. {_FIXES}",
                f"the last layers get too large values. {_FIXES}",
            ),
        ):
            if abs(slope) * (count - 1) >= math.log(_MATTERS):
                changes, effect = (
                    ("shrinks", shrink_effect) if slope < 0 else ("grows", growth_effect)
                )
                times = f"about {_figure(abs(slope))} times {nouns[1]}"
                return False, f"The variance of the {nouns[0]} {changes} {times}: {effect}"
        zero_count = sum(value == 0 for value in gradients)
        if zero_count:
            return False, (
                f"The gradient of {zero_count} of {count} layers is zero: weights of zero after "
                "them, or a ReLU whose inputs are all negative, keep it from them."
            )
        largest_factor = _figure(max(abs(gradient_slope), abs(output_slope)))
        return True, (
            f"Variances change about {largest_factor} times a layer: depth is not what prevents "
            "training."
        )


def _median_slope(values: Sequence[float | None]) -> float:
    """Return the change of the logarithm from a layer to the next: the median of all slopes.

    One layer that differs, as after pooling over the whole picture, does not change it.
    """
    logarithms = [(n, math.log(value)) for n, value in enumerate(values) if value]
    sampled_logarithms = logarithms[:: 1 + len(logarithms) // _MOST_FITTED]
    slopes = [(b - a) / (n - m) for (m, a), (n, b) in combinations(sampled_logarithms, 2)]
    return statistics.median(slopes or [0.0])


def _figure(logarithm: float) -> str:
    value = math.exp(min(logarithm, 300.0))
    return f"{value:.2g}" if value < 9.95 else number_format.count(round(value))
