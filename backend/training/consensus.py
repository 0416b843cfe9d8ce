"""Consensus training of a split network: the work of each part on a batch.

The activations at a cut are a variable of their own (alternating directions, ADMM). With x the
output of the part below, y the copy that the part above owns, u the multiplier and β the penalty,
one round is:

    above:  a gradient step on its weights, and one on y, for  loss(y) + u·(x - y) + β/2 ‖x - y‖²
    below:  a gradient step on its weights for                           u·(x - y) + β/2 ‖x - y‖²
    u  <-  u + β/rounds · (x - y)

The step on y has the length 1/β, the minimum of the linearised problem. So u + β(x - y) is the
gradient of the loss at y, and in the first round that of backpropagation, whatever β is. Three
bounds keep several rounds from diverging:

- β is raised for a sample whose copy would leave x by more than a tenth of its norm: a copy that
  goes further fits the label by itself.
- u converges to that gradient, and is at most as long as it; a longer one, which a large β makes,
  would leave few digits of their difference.
- u and y last for one batch; the next one has other samples.

The published forms have no y: both parts have the layer after the cut, and the one below learns to
agree with the one above. No label reaches it, and activations of zero agree best. Equation 9.3 of
the source divides the disagreement by the size of both; “dual-layer-normalised” holds that size
constant in a step, “dual-layer-quotient” has the gradient of the whole quotient.

No process and no message here, so that a test or a study trains all parts in one process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from backend.records.jobs.config import StrategyConfig
from backend.records.jobs.torch_options import PUBLISHED_VARIANTS
from backend.training.model_parts import ModelParts
from backend.training.saved_tensors import SavedTensors

REACH = 0.1
"""The longest distance from x to y, as a share of the norm of x."""
_EPSILON = 1e-12


@dataclass(frozen=True)
class ConsensusSettings:
    """The settings of the strategy."""

    beta: float = 1.0
    rounds: int = 1
    variant: str = "admm"

    @classmethod
    def from_strategy(cls, strategy: StrategyConfig) -> ConsensusSettings:
        return cls(
            float(strategy.setting("beta")),
            int(strategy.setting("inner_rounds")),
            str(strategy.setting("variant")),
        )


class ConsensusUpdate:
    """One part of a network, with its computations in a round.

    Attributes:
        figures: Figures of the last round, by name.
        unsplit_bytes: Bytes of the activations that this part of the network holds in a step.
        split_bytes: The same with y and u, which only a split network has.
    """

    def __init__(
        self,
        parts: ModelParts,
        number: int,
        settings: ConsensusSettings,
        twin_layer: torch.nn.Module | None = None,
    ) -> None:
        """``twin_layer``: in a published form, this part's own layer after the cut above it."""
        self._parts = parts
        self._number = number
        self._settings = settings
        self._is_published = settings.variant in PUBLISHED_VARIANTS
        self._twin_layer = twin_layer
        self.figures: dict[str, float] = {}
        self.unsplit_bytes = self.split_bytes = 0
        self.begin_batch()

    def begin_batch(self) -> None:
        """Begin a batch."""
        self._last_round: tuple[torch.Tensor, ...] | None = None

    def forward(self, data: Any, cut_input: torch.Tensor | None) -> Any:
        """Return the part's output, whose graph is kept for `objective`.

        Args:
            cut_input: x of the cut below; None for the first part.
        """
        if cut_input is not None:
            cut_input = self._begin_copy(data, cut_input)
        self._data = data
        if self.unsplit_bytes:
            self._output = self._parts.run(self._number, data, cut_input)
        else:
            self._output = self._run_measured(data, cut_input)
        return self._output

    def _run_measured(self, data: Any, cut_input: torch.Tensor | None) -> Any:
        """Return the output, and measure the memory that its graph holds for the backward pass."""
        with SavedTensors(self._parts.model) as saved_tensors:
            output = self._parts.run(self._number, data, cut_input)
        self.unsplit_bytes = saved_tensors.bytes
        self.split_bytes = self.unsplit_bytes + (
            2 * cut_input.nbytes if cut_input is not None else 0
        )
        return output

    def _begin_copy(self, data: Any, x: torch.Tensor) -> torch.Tensor:
        """Return the part's input: y, after the step on u with the new x."""
        self._x = self._y = x
        if self._is_published:
            with torch.no_grad():
                self._layer_output = self._parts.first_layers[self._number](data, x)
        else:
            self._u = torch.zeros_like(x)
            if self._last_round is not None:
                self._y, u, beta, gradient = self._last_round
                u = u + beta / self._settings.rounds * (x - self._y)
                self._u = _at_most(u, gradient)
            self._y = self._y.detach().requires_grad_()
        # A module that works in place changes this copy.
        return self._y.clone()

    def objective(self, answer: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return the objective of a part that is not the last.

        Args:
            answer: The answer of the part above.
        """
        x = self._output
        if self._is_published:
            return self._disagreement(x, answer[0])
        difference, u, beta = answer
        # x - y with the value that the part above computed: x and y are nearly equal.
        residual: torch.Tensor = x - x.detach() + difference
        self._measure("residual", difference)
        self._measure("multiplier", u)
        return (u * residual + beta / 2 * residual * residual).sum() / len(x)

    def _disagreement(self, x: torch.Tensor, upper_output: torch.Tensor) -> torch.Tensor:
        assert self._twin_layer is not None
        lower_output = self._twin_layer(self._data, x)
        self._measure("residual", lower_output.detach() - upper_output)
        error = _square(lower_output - upper_output)
        if self._settings.variant != "dual-layer":
            size = _square(lower_output) + _square(upper_output) + _EPSILON
            is_constant = self._settings.variant == "dual-layer-normalised"
            error = error / (size.detach() if is_constant else size)
        return error.mean() / 2

    def answer(self) -> list[torch.Tensor]:
        """Step y after the backward pass; return the tensors for the part below."""
        if self._is_published:
            return [self._layer_output]
        x, u, gradient = self._x, self._u, self._y.grad
        # The gradient of each sample's loss: the loss of the batch is their mean.
        gradient = torch.zeros_like(x) if gradient is None else gradient * len(x)
        pull = gradient - u
        min_beta = (_square(pull) / (REACH**2 * _square(x) + _EPSILON)).sqrt()
        beta = min_beta.clamp(min=self._settings.beta)
        difference = pull / beta
        self._last_round = x - difference, u, beta, gradient
        return [difference, u, beta]

    def _measure(self, name: str, value: torch.Tensor) -> None:
        """Store the mean norm of the samples' values at the cut above this part."""
        norm = float(_square(value.detach()).sqrt().mean())
        self.figures[f"{name} at cut {self._number + 1}"] = norm


def _square(value: torch.Tensor) -> torch.Tensor:
    """Return the square of each sample's norm, in a shape that multiplies ``value``."""
    squares: torch.Tensor = value.reshape(len(value), -1).square().sum(1)
    return squares.view(-1, *[1] * (value.ndim - 1))


def _at_most(value: torch.Tensor, upper_bound: torch.Tensor) -> torch.Tensor:
    """Return ``value`` with each sample's norm limited to that of ``upper_bound``."""
    factor = (_square(upper_bound) / (_square(value) + _EPSILON)).sqrt()
    return value * factor.clamp(max=1.0)


def reinitialized(layer: torch.nn.Module) -> torch.nn.Module:
    """Draw new weights for a layer, in place."""
    for module in layer.modules():
        if callable(reset := getattr(module, "reset_parameters", None)):
            reset()
    return layer
