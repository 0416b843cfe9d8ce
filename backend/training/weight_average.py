"""Moving average of a model's weights, which is validated and saved in their place.

Every rank has the same weights after a step, so each computes the average without a message.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch


class WeightAverage:
    """Exponential moving average of the parameters: s ← d·s + (1 − d)·w after each step.

    At first d is smaller, (1 + n) / (10 + n) after n steps, so that the random weights of the
    beginning are soon forgotten, as in TensorFlow's ExponentialMovingAverage with num_updates.
    Buffers, such as running means, are those of the model.
    """

    def __init__(self, model: torch.nn.Module, decay: float) -> None:
        self._decay = decay
        self.use_model(model)
        self._averages = {name: p.detach().clone() for name, p in self._parameters.items()}

    def use_model(self, model: torch.nn.Module) -> None:
        """Use the model's current parameters of the same names."""
        self._parameters = dict(model.named_parameters())
        names = {id(parameter): name for name, parameter in self._parameters.items()}
        all_parameters = model.named_parameters(remove_duplicate=False)
        self._first_names = {name: names[id(parameter)] for name, parameter in all_parameters}

    def update(self, step: int) -> None:
        """Add the weights after the ``step``-th step of the job."""
        decay = min(self._decay, (1 + step) / (10 + step))
        weights = [parameter.detach() for parameter in self._parameters.values()]
        torch._foreach_lerp_(list(self._averages.values()), weights, 1 - decay)

    @contextmanager
    def apply(self) -> Iterator[None]:
        """Set the model's parameters to the average, until the end of the context."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def _swap(self) -> None:
        for name, parameter in self._parameters.items():
            parameter.data, self._averages[name] = self._averages[name], parameter.data

    def averaged_state(self, model_state: Mapping[str, object]) -> dict[str, object]:
        """Return the model's state dict with the average in place of the parameters."""
        return {
            name: self._averages[self._first_names[name]] if name in self._first_names else value
            for name, value in model_state.items()
        }

    def load(self, model_state: Mapping[str, torch.Tensor]) -> None:
        """Continue with the average of a checkpoint."""
        for name, average in self._averages.items():
            average.copy_(model_state[name])
