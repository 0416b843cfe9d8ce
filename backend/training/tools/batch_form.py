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
from backend.training.tools.preview import evenly
from backend.training.tools.thumbnails import entries
from backend.training.user_code import (
    UserCodeError,
    UserData,
    compute_loss,
    compute_output,
    split_batch,
)

ITEMS = "items"
"""The form of a list with one entry for each sample."""
Form = Any
"""An `Axis`, `ITEMS`, a dict of forms by key, or None for what has no axis of samples."""
Keys = tuple[Any, ...]
_EXAMPLES = 8
_AGREE = 0.75


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
        is_one = torch.allclose(sums, torch.ones_like(sums), atol=1e-3)
        return self._replace(has_shares=bool((scores >= 0).all()) and is_one)

    def class_shares(self, output: Any, size: int) -> torch.Tensor | None:
        """Return a row of probabilities of the classes for each sample; None for another task.

        Raises:
            LookupError, TypeError: The batch has another form.
        """
        scores = self._class_scores(output, size)
        if scores is None:
            return None
        scores = scores.float().cpu()
        return scores if self.has_shares else scores.softmax(dim=1)

    def _class_scores(self, output: Any, size: int) -> torch.Tensor | None:
        if self.classes is None:
            return None
        form: Form = self.output
        for key in self.classes:
            output, form = entries(output)[key], form[key]
        return _rows(output, form, size)


def learn(model: torch.nn.Module, data: UserData) -> BatchForm | None:
    """Find the form of the batches; None if the model takes no batches of two and three."""
    items = list(_examples(data))
    if not items:
        return None
    try:
        batches = [split_batch(data.collate(items[:1] * size)) for size in (2, 3)]
        outputs = [compute_output(model, given) for given, _ in batches]
        form = form_of(*outputs)
        classes, doubts = _classes(model, data, items, form)
    except (UserCodeError, LookupError) as error:
        swallowed(error)
        return None
    hidden = [".".join(map(str, keys)) for keys in _without_axis(form, outputs[0])]
    if hidden:
        parts = "" if hidden == [""] else f" ({name_list(hidden)})"
        doubts += (f"Output that belongs to no single sample is not shown{parts}.",)
    found = BatchForm(form, form_of(*(target for _, target in batches)), classes, doubts)
    return found.with_shares(outputs[1], 3)


def of_first_axis(output: Any, target: Any, size: int) -> BatchForm:
    """Return the form of a batch that is the only example, taking the first axis for samples."""

    def form(value: Any) -> Form:
        if isinstance(value, torch.Tensor):
            return Axis(0, value.ndim) if value.shape[:1] == (size,) else None
        forms = {key: form(one) for key, one in entries(value).items()}
        is_list = isinstance(value, (list, tuple)) and len(value) == size
        return ITEMS if is_list and not any(forms.values()) else forms or None

    found = form(output)
    fits = _fits(output, class_numbers(target, size)) if isinstance(found, Axis) else False
    note = (
        "The model takes no batches of 2 and 3 samples: the first axis of its output is taken for "
        "the samples."
    )
    return BatchForm(found, form(target), () if fits else None, (note,)).with_shares(output, size)


def form_of(two: Any, three: Any) -> Form:
    """Return the form of a value, of which a batch of two and a batch of three are given."""
    if isinstance(two, torch.Tensor) and isinstance(three, torch.Tensor):
        if two.ndim != three.ndim:
            return None
        lengths = zip(two.shape, three.shape, strict=True)
        growing = [number for number, (one, other) in enumerate(lengths) if one != other]
        is_one = len(growing) == 1 and two.shape[growing[0]] == 2 and three.shape[growing[0]] == 3
        return Axis(growing[0], two.ndim) if is_one else None
    one, other = entries(two), entries(three)
    if not isinstance(two, Mapping) and (len(one), len(other)) == (2, 3):
        return ITEMS
    if not one or one.keys() != other.keys():
        return None
    return {key: form_of(value, other[key]) for key, value in one.items()}


def of_sample(value: Any, form: Form, place: int, size: int) -> Any:
    """Return the part of a batch that belongs to one sample; None if no part does.

    Raises:
        LookupError, TypeError, AttributeError: The batch has another form.
    """
    if form == ITEMS:
        if len(value) != size:
            raise LookupError
        return value[place]
    if isinstance(form, Axis):
        return _rows(value, form, size)[place]
    if form is None:
        return None
    every = entries(value)
    parts = {key: of_sample(every[key], one, place, size) for key, one in form.items()}
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
    for place in evenly(len(data), min(_EXAMPLES, len(data))):
        try:
            item = data.item(place)
            _, target = split_batch(data.collate([item]))
        except UserCodeError:
            continue  # Its own batch reports it.
        yield item
        if class_numbers(target, 1) is None:
            return


def _classes(
    model: torch.nn.Module, data: UserData, items: list[Any], form: Form
) -> tuple[Keys | None, tuple[str, ...]]:
    """Find the part of the output that chooses a class; also return doubts about it."""
    try:
        given, target = split_batch(data.collate(items))
    except UserCodeError:  # Of different shapes.
        items = items[:1]
        given, target = split_batch(data.collate(items))
    numbers = class_numbers(target, len(items))
    if numbers is None:
        return None, ()
    with torch.enable_grad():
        output = compute_output(model, given)
        found = {
            keys: (part, axis)
            for keys, part, axis in _leaves(form, output)
            if _fits(_rows(part, axis, len(items)), numbers)
        }
        if not found:
            return None, ()
        used = {keys: part for keys, (part, _) in found.items() if part.requires_grad}
        try:
            loss = compute_loss(model, output, target)
            slopes = torch.autograd.grad(loss, list(used.values()), allow_unused=True)
        except (UserCodeError, RuntimeError):
            # Without a loss, only a part that is the whole output, or is named so, is taken.
            named = [keys for keys in found if keys in ((), ("logits",))]
            return (named[0] if named else None), ()
    for keys, slope in zip(used, slopes, strict=True):
        if slope is not None and _is_choice(_rows(slope, found[keys][1], len(items)), numbers):
            return keys, ()
    return None, (
        "The targets are whole numbers, but the model's loss does not use its output as scores of "
        "classes, so the output is shown as numbers.",
    )


def _is_choice(slope: torch.Tensor, numbers: torch.Tensor) -> bool:
    """Return whether a loss with this gradient wants the score of each sample's class to rise.

    Of cross entropy and other losses that compare scores, the gradients of a sample add up to 0;
    of the others the score of its class rises most.
    """
    sizes = slope.abs().sum(1)
    counted = (sizes > 0) & sizes.isfinite() & (numbers >= 0)
    if (slope.sum(1).abs() <= 1e-3 * sizes)[counted].all():
        return True
    return bool((slope.argmin(1) == numbers)[counted].double().mean() > _AGREE)


def _fits(part: Any, numbers: torch.Tensor | None) -> bool:
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
        for key, one in form.items():
            yield from _leaves(one, entries(value)[key], (*keys, key))


def _without_axis(form: Form, value: Any, keys: Keys = ()) -> Iterator[Keys]:
    """Yield the way to each tensor that has no axis of samples."""
    if form is None and isinstance(value, torch.Tensor):
        yield keys
    elif isinstance(form, dict):
        for key, one in form.items():
            yield from _without_axis(one, entries(value)[key], (*keys, key))
