"""Optimizer of a job: its parameters in groups, its learning rate, its saved state; and the moving
average of the weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from backend.base.errors import BackendError
from backend.records.jobs.config import JobConfig
from backend.training import user_code
from backend.training.lbfgs import Lbfgs
from backend.training.user_code import UserCodeError
from backend.training.weights_file import names_with_prefix

RATE_FACTOR = "rate_factor"
"""Key of a group: its learning rate, as a multiple of the job's."""
_OPTIMIZERS: dict[str, Any] = {
    "sgd": torch.optim.SGD,
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "adagrad": torch.optim.Adagrad,
    "adadelta": torch.optim.Adadelta,
    "rmsprop": torch.optim.RMSprop,
}


def make_optimizer(
    config: JobConfig, model: torch.nn.Module, parameters: Sequence[torch.nn.Parameter]
) -> torch.optim.Optimizer:
    """Return the optimizer of these parameters: the model's own, if the model makes one.

    Raises:
        BackendError: ``lr_of`` names no parameter, or the model's method returns no optimizer.
    """
    user_function = getattr(type(model), "optimizer", None)
    # Keras has a property of this name.
    if callable(user_function):
        if config.lr_of or config.no_decay:
            raise BackendError(
                "The model makes its own optimizer, to which lr_of and no_decay do not apply.",
                "Remove these settings, or the method optimizer of the model.",
            )
        return make_user_optimizer(model, user_function, parameters, config.optimizer.lr)
    settings = config.optimizer
    optimizer: torch.optim.Optimizer = _OPTIMIZERS[settings.name](
        _group_parameters(config, model, parameters), lr=settings.lr, **settings.settings
    )
    return optimizer


def make_user_optimizer(
    model: torch.nn.Module, user_function: Any, parameters: Sequence[torch.nn.Parameter], lr: float
) -> torch.optim.Optimizer:
    with user_code.calling("The model's optimizer"):
        optimizer = user_function(model, list(parameters), lr)
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise UserCodeError(
            f"The model's optimizer returns {type(optimizer).__name__}, not an optimizer.",
            "Return an optimizer of torch.optim, made with the parameters that it gets.",
        )
    trained_ids = {id(parameter) for parameter in parameters}
    optimizer_ids = {id(parameter) for parameter in grouped_parameters(optimizer)}
    if optimizer_ids != trained_ids:
        common_count = len(trained_ids & optimizer_ids)
        raise UserCodeError(
            f"The model's optimizer has {common_count} of the {len(trained_ids)} parameters that "
            f"it was called with, and {len(optimizer_ids - trained_ids)} others.",
            "Give each parameter that it gets to one group; freeze the others by the job's setting "
            "freeze.",
        )
    for group in optimizer.param_groups:
        group[RATE_FACTOR] = float(group["lr"]) / lr
    return optimizer


def _group_parameters(
    config: JobConfig, model: torch.nn.Module, parameters: Sequence[torch.nn.Parameter]
) -> Sequence[torch.nn.Parameter] | list[dict[str, Any]]:
    """Return the parameters, in groups if they have different settings."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    rates = config.rate_factors
    names_with_prefix(names.values(), tuple(rates), "lr_of")
    groups: dict[tuple[float, bool], list[torch.nn.Parameter]] = {}
    for parameter in parameters:
        prefixes = [prefix for prefix in rates if names[id(parameter)].startswith(prefix)]
        factor = rates[max(prefixes, key=len)] if prefixes else 1.0
        # Biases, and the scales of normalizations.
        has_decay = not (config.no_decay and parameter.ndim <= 1)
        groups.setdefault((factor, has_decay), []).append(parameter)
    if groups and not any(factor for factor, _ in groups):
        raise BackendError(
            "lr_of gives all layers the rate 0, so nothing would be trained.",
            "Leave out a layer, or give it a factor above 0.",
        )
    if groups.keys() == {(1.0, True)}:
        return parameters
    return [
        {"params": members, RATE_FACTOR: factor, **({} if has_decay else {"weight_decay": 0.0})}
        for (factor, has_decay), members in groups.items()
    ]


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate * group.get(RATE_FACTOR, 1.0)


def grouped_parameters(optimizer: torch.optim.Optimizer) -> list[torch.nn.Parameter]:
    """Return the parameters in the order of the state dict."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def load_optimizer(
    optimizer: torch.optim.Optimizer | Lbfgs, state: dict[str, Any], config: JobConfig
) -> None:
    """Load the state of a checkpoint; settings that were edited in the job since then stay."""
    keys = config.optimizer.settings.keys() | {RATE_FACTOR}
    group_settings = [
        {k: group[k] for k in keys & group.keys()} for group in optimizer.param_groups
    ]
    try:
        optimizer.load_state_dict(state)
    except (ValueError, KeyError) as error:
        raise BackendError(
            f"The checkpoint's optimizer does not match this job's: {error}.",
            "Resume with the optimizer and the model that the checkpoint was made with.",
        ) from error
    for group, settings in zip(optimizer.param_groups, group_settings, strict=True):
        group.update(settings)


def trained_parameters(model: torch.nn.Module) -> list[torch.nn.Parameter]:
    """Return the parameters that training changes."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    if not parameters:
        raise BackendError(
            "The model has no parameters to train.",
            "Build layers in UserModel.__init__, leave requires_grad on for some, or freeze fewer.",
        )
    return parameters


def served_parameters(model: torch.nn.Module) -> list[torch.nn.Parameter]:
    """Return all parameters, first those in training, as a model may thaw others later."""
    return [*trained_parameters(model), *(p for p in model.parameters() if not p.requires_grad)]


def parameters_by_name(model: torch.nn.Module, names: Iterable[str]) -> list[torch.nn.Parameter]:
    """Return the parameters of these names; parameters that a model has tied since then once."""
    parameters = dict(model.named_parameters(remove_duplicate=False))
    unique_parameters = {id(parameters[name]): parameters[name] for name in names}
    return list(unique_parameters.values())


class WeightAverage:
    """Exponential moving average of the parameters: s ← d·s + (1 − d)·w after each step.

    It is validated and saved in place of the weights. Every rank has the same weights after a step,
    so each computes the average without a message.

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
