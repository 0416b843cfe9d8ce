"""The axis of the samples in a model's batches, and the part of its output that chooses a class.

The shape of one batch does not say it: an axis may be as long as the batch by chance, and is gone
in a batch of one after ``squeeze()``. So one sample is passed twice and three times: the axis that
grows with the batch is that of the samples. The loss says, on a few samples of the dataset, whether
an output chooses a class. So a sample has the same answer alone, in a set and as a file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import torch

from backend.base.log import swallowed
from backend.records.base.number_format import name_list
from backend.training.tools.preview import spread_indices
from backend.training.tools.thumbnails import entries
from backend.training.user_code import (
    UserCodeError,
    UserData,
    compute_loss,
    compute_output,
    split_batch,
)

ITEM_LIST = "items"
"""The form of a list with one entry for each sample."""
Form = Any
"""An `Axis`, `ITEM_LIST`, a dict of forms by key, or None for what has no axis of samples."""
Keys = tuple[Any, ...]
_EXAMPLE_COUNT = 8
_AGREEMENT_SHARE = 0.75


class Axis(NamedTuple):
    """The axis of the samples in a tensor of ``dims`` dimensions."""

    number: int
    dims: int


class BatchForm(NamedTuple):
    """``classes`` leads to the part of the output that chooses a class; None if no part does.

    ``has_shares``: the numbers of this part are probabilities already.
    """

    output: Form
    target: Form
    classes: Keys | None
    notes: tuple[str, ...] = ()
    has_shares: bool = False

    def with_shares(self, example: Any, size: int) -> BatchForm:
        """Return the form with ``has_shares``, from the output for a batch."""
        scores = self._class_scores(example, size)
        if scores is None:
            return self
        sums = scores.double().sum(dim=1)
        adds_to_one = torch.allclose(sums, torch.ones_like(sums), atol=1e-3)
        return self._replace(has_shares=bool((scores >= 0).all()) and adds_to_one)

    def class_shares(
        self, output: Any, size: int, samples: list[int] | None = None
    ) -> torch.Tensor | None:
        """Return a row of probabilities of the classes for each sample; None for another task.

        Args:
            samples: Those of the batch to return; None for all.

        Raises:
            LookupError, TypeError: The batch has another form.
        """
        scores = self._class_scores(output, size)
        if scores is None:
            return None
        scores = (scores if samples is None else scores[samples]).float().cpu()
        return scores if self.has_shares else scores.softmax(dim=1)

    def _class_scores(self, output: Any, size: int) -> torch.Tensor | None:
        if self.classes is None:
            return None
        form: Form = self.output
        for key in self.classes:
            output, form = entries(output)[key], form[key]
        return _rows(output, form, size)


def learn_form(model: torch.nn.Module, data: UserData) -> BatchForm | None:
    """Find the form of the batches; None if the model takes no batches of two and three."""
    items = list(_examples(data))
    if not items:
        return None
    try:
        batches = [split_batch(data.collate(items[:1] * size)) for size in (2, 3)]
        outputs = [compute_output(model, data_batch) for data_batch, _ in batches]
        form = form_of(*outputs)
        classes, notes = _find_classes(model, data, items, form)
    except (UserCodeError, LookupError) as error:
        swallowed(error)
        return None
    hidden_parts = [".".join(map(str, keys)) for keys in _keys_without_axis(form, outputs[0])]
    if hidden_parts:
        part_list = "" if hidden_parts == [""] else f" ({name_list(hidden_parts)})"
        notes += (f"Output that belongs to no single sample is not shown{part_list}.",)
    batch_form = BatchForm(form, form_of(*(target for _, target in batches)), classes, notes)
    return batch_form.with_shares(outputs[1], 3)


def first_axis_form(output: Any, target: Any, size: int) -> BatchForm:
    """Return the form of a batch that is the only example, taking the first axis for samples."""

    def form(value: Any) -> Form:
        if isinstance(value, torch.Tensor):
            return Axis(0, value.ndim) if value.shape[:1] == (size,) else None
        forms = {key: form(entry) for key, entry in entries(value).items()}
        is_list = isinstance(value, (list, tuple)) and len(value) == size
        return ITEM_LIST if is_list and not any(forms.values()) else forms or None

    output_form = form(output)
    has_scores = (
        _has_class_scores(output, class_numbers(target, size))
        if isinstance(output_form, Axis)
        else False
    )
    note = (
        "The model takes no batches of 2 and 3 samples: the first axis of its output is taken for "
        "the samples."
    )
    return BatchForm(output_form, form(target), () if has_scores else None, (note,)).with_shares(
        output, size
    )


def batch_form(model: torch.nn.Module, output: Any, target: Any, size: int) -> BatchForm:
    """Return the form of a batch of which the model has made its output and no other is known.

    A choice of a class is as in `learn_form`: what the loss uses so, or a part of that name.
    """
    form = first_axis_form(output, target, size)
    numbers = class_numbers(target, size)
    if form.classes is None and isinstance(form.output, dict) and "logits" in form.output:
        part, axis = entries(output)["logits"], form.output["logits"]
        if isinstance(axis, Axis) and _has_class_scores(_rows(part, axis, size), numbers):
            return form._replace(classes=("logits",)).with_shares(output, size)
    if form.classes is None or numbers is None:
        return form
    with torch.enable_grad():
        scores = output.detach().requires_grad_()
        try:
            (gradient,) = torch.autograd.grad(compute_loss(model, scores, target), scores)
        except (UserCodeError, RuntimeError) as error:
            swallowed(error)
            return form
    return form if _is_choice(gradient, numbers) else form._replace(classes=None)


def form_of(two_samples: Any, three_samples: Any) -> Form:
    """Return the form of a value, of which a batch of two and a batch of three are given."""
    if isinstance(two_samples, torch.Tensor) and isinstance(three_samples, torch.Tensor):
        if two_samples.ndim != three_samples.ndim:
            return None
        lengths = zip(two_samples.shape, three_samples.shape, strict=True)
        growing_axes = [
            number
            for number, (two_entries, three_entries) in enumerate(lengths)
            if two_entries != three_entries
        ]
        is_sample_axis = (
            len(growing_axes) == 1
            and two_samples.shape[growing_axes[0]] == 2
            and three_samples.shape[growing_axes[0]] == 3
        )
        return Axis(growing_axes[0], two_samples.ndim) if is_sample_axis else None
    two_entries, three_entries = entries(two_samples), entries(three_samples)
    if not isinstance(two_samples, Mapping) and (len(two_entries), len(three_entries)) == (2, 3):
        return ITEM_LIST
    if not two_entries or two_entries.keys() != three_entries.keys():
        return None
    return {key: form_of(value, three_entries[key]) for key, value in two_entries.items()}


def sample_part(value: Any, form: Form, index: int, size: int) -> Any:
    """Return the part of a batch that belongs to one sample; None if no part does.

    Raises:
        LookupError, TypeError, AttributeError: The batch has another form.
    """
    if form == ITEM_LIST:
        if len(value) != size:
            raise LookupError
        return value[index]
    if isinstance(form, Axis):
        return _rows(value, form, size)[index]
    if form is None:
        return None
    value_entries = entries(value)
    parts = {
        key: sample_part(value_entries[key], entry_form, index, size)
        for key, entry_form in form.items()
    }
    parts = {key: part for key, part in parts.items() if part is not None}
    return parts if parts else None


def _rows(value: torch.Tensor, form: Axis, size: int) -> torch.Tensor:
    """Return a tensor with the samples as its first axis."""
    if size == 1 and value.ndim == form.dims - 1:  # After squeeze().
        return value.unsqueeze(0)
    if value.ndim != form.dims or value.shape[form.number] != size:
        raise LookupError
    return value.movedim(form.number, 0)


def class_numbers(target: Any, size: int) -> torch.Tensor | None:
    """Return one whole number for each sample, None if these targets are no classes."""
    if not isinstance(target, torch.Tensor) or target.numel() != size:
        return None
    is_whole = not (target.is_floating_point() or target.is_complex() or target.dtype is torch.bool)
    return target.reshape(-1) if is_whole else None


def _examples(data: UserData) -> Iterator[Any]:
    """Yield some samples of the dataset; only one unless its target is a whole number."""
    for index in spread_indices(len(data), min(_EXAMPLE_COUNT, len(data))):
        try:
            item = data.item(index)
            _, target = split_batch(data.collate([item]))
        except UserCodeError:
            continue  # Its own batch reports it.
        yield item
        if class_numbers(target, 1) is None:
            return


def _find_classes(
    model: torch.nn.Module, data: UserData, items: list[Any], form: Form
) -> tuple[Keys | None, tuple[str, ...]]:
    """Find the part of the output that chooses a class; also return doubts about it."""
    try:
        data_batch, target = split_batch(data.collate(items))
    except UserCodeError:  # Of different shapes.
        items = items[:1]
        data_batch, target = split_batch(data.collate(items))
    numbers = class_numbers(target, len(items))
    if numbers is None:
        return None, ()
    with torch.enable_grad():
        output = compute_output(model, data_batch)
        candidates = {
            keys: (part, axis)
            for keys, part, axis in _leaves(form, output)
            if _has_class_scores(_rows(part, axis, len(items)), numbers)
        }
        if not candidates:
            return None, ()
        trained_parts = {keys: part for keys, (part, _) in candidates.items() if part.requires_grad}
        try:
            loss = compute_loss(model, output, target)
            gradients = torch.autograd.grad(loss, list(trained_parts.values()), allow_unused=True)
        except (UserCodeError, RuntimeError):
            # Without a loss, only a part that is the whole output, or is named so, is taken.
            logit_keys = [keys for keys in candidates if keys in ((), ("logits",))]
            return (logit_keys[0] if logit_keys else None), ()
    for keys, gradient in zip(trained_parts, gradients, strict=True):
        if gradient is not None and _is_choice(
            _rows(gradient, candidates[keys][1], len(items)), numbers
        ):
            return keys, ()
    return None, (
        "The targets are whole numbers, but the model's loss does not use its output as scores of "
        "classes, so the output is shown as numbers.",
    )


def _is_choice(gradient: torch.Tensor, numbers: torch.Tensor) -> bool:
    """Return whether a loss with this gradient wants the score of each sample's class to rise.

    Of cross entropy and other losses that compare scores, the gradients of a sample add up to 0;
    of the others the score of its class rises most.
    """
    sizes = gradient.abs().sum(1)
    is_used = (sizes > 0) & sizes.isfinite() & (numbers >= 0)
    if (gradient.sum(1).abs() <= 1e-3 * sizes)[is_used].all():
        return True
    return bool((gradient.argmin(1) == numbers)[is_used].double().mean() > _AGREEMENT_SHARE)


def _has_class_scores(part: Any, numbers: torch.Tensor | None) -> bool:
    """Return whether a part has a score for each class of the targets."""
    return (
        numbers is not None
        and isinstance(part, torch.Tensor)
        and part.is_floating_point()
        and part.ndim == 2
        and len(part) == len(numbers)
        and int(numbers.max()) < part.shape[1] > 1
    )


def _leaves(form: Form, value: Any, keys: Keys = ()) -> Iterator[tuple[Keys, Any, Axis]]:
    """Yield the parts with an axis of samples, and the way to each."""
    if isinstance(form, Axis):
        yield keys, value, form
    elif isinstance(form, dict):
        for key, entry_form in form.items():
            yield from _leaves(entry_form, entries(value)[key], (*keys, key))


def _keys_without_axis(form: Form, value: Any, keys: Keys = ()) -> Iterator[Keys]:
    """Yield the way to each tensor that has no axis of samples."""
    if form is None and isinstance(value, torch.Tensor):
        yield keys
    elif isinstance(form, dict):
        for key, entry_form in form.items():
            yield from _keys_without_axis(entry_form, entries(value)[key], (*keys, key))
