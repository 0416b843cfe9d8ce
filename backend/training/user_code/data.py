"""The user's ``bks_dataset.py``: datasets built over a folder, their items and batches."""

from __future__ import annotations

import operator
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from backend.records.base import number_format
from backend.records.library.preview import note_messages
from backend.training.user_code.batches import ItemFailure, shape_of
from backend.training.user_code.errors import (
    UserCodeError,
    calling,
    clean_traceback,
    describe,
    with_article,
)
from backend.training.user_code.importing import import_entry
from backend.training.user_code.sources import UserSource

if TYPE_CHECKING:
    import torch

LOADER_FILE = "bks_dataset.py"


class UserData:
    """A dataset through its loader, for torch's DataLoader with its `collate`.

    ``user_dataset`` is the instance of the user's class.
    """

    def __init__(self, source: UserSource, class_name: str, user_dataset: Any) -> None:
        # First, so that a spawned worker knows the source before the user's classes.
        self.source = source
        self.class_name = class_name
        self.user_dataset = user_dataset
        self._length: int | None = None

    def __len__(self) -> int:
        """Return the user's ``__len__``, called once: steps are counted by it."""
        if self._length is None:
            self._length = self._ask_length()
        return self._length

    def _ask_length(self) -> int:
        with calling(f"{self.class_name}.__len__", self.source):
            length = self.user_dataset.__len__()
        try:
            length = operator.index(length)
        except TypeError as error:
            raise UserCodeError(
                f"{self.class_name}.__len__ returns {with_article(type(length).__name__)}, not a "
                "whole number."
            ) from error
        if length <= 0:
            raise UserCodeError(
                f"{self.class_name} has no items: its __len__ is {length}.",
                "Check that the dataset contains the files that this loader reads.",
            )
        if length > sys.maxsize:
            raise UserCodeError(f"{self.class_name}.__len__ is {length}, which is too large.")
        return length

    def reading_notes(self) -> tuple[str, ...]:
        """Return the loader's ``reading_notes``, on left-out or guessed items, as messages."""
        with calling(f"{self.class_name}.reading_notes", self.source):
            notes = getattr(self.user_dataset, "reading_notes", ())
        try:
            return note_messages(notes)
        except ValueError as error:
            return (f"{self.class_name}.reading_notes cannot be shown: {error}.",)

    def weights(self) -> torch.Tensor | None:
        """Return how often each item is drawn, relative to the others; None for once an epoch.

        Raises:
            UserCodeError: The loader's ``weights`` are not one number of each item.
        """
        import torch

        with calling(f"{self.class_name}.weights", self.source):
            raw_weights = getattr(self.user_dataset, "weights", None)
        if raw_weights is None or callable(raw_weights):
            return None
        try:
            weights = torch.as_tensor(raw_weights, dtype=torch.float64)
        except (TypeError, ValueError, RuntimeError) as error:
            raise self._weights_error(f"are {with_article(type(raw_weights).__name__)}") from error
        if weights.shape != (len(self),):
            raise self._weights_error(f"have the shape {list(weights.shape)}")
        if not bool((weights >= 0).all()) or not 0 < float(weights.sum()) < float("inf"):
            raise self._weights_error("have negative or infinite numbers, or only zeros")
        return weights

    def _weights_error(self, description: str) -> UserCodeError:
        count = number_format.count(len(self))
        return UserCodeError(
            f"{self.class_name}.weights {description}, not a number for each of the {count} items.",
            "Give a list of numbers, 0 or more, one of each item; remove it to draw each item "
            "once.",
        )

    def item(self, index: int) -> Any:
        """Return one item.

        Raises:
            UserCodeError: The user's code raised; ``index`` is the item.
        """
        try:
            with calling(f"{self.class_name}, item {number_format.count(index)},", self.source):
                return self.user_dataset[index]
        except UserCodeError as error:
            error.index = index
            cause = error.__cause__
            if isinstance(cause, IndexError) and re.search(rf"\b{index}\b", str(cause)):
                raise self._too_long(index, cause) from cause
            raise

    def _too_long(self, index: int, cause: IndexError) -> UserCodeError:
        """Return the error of a ``__len__`` that counts missing items."""
        count, name = number_format.count(len(self)), self.class_name
        error = UserCodeError(
            f"{name} has no item {number_format.count(index)}, although its __len__ is {count}: "
            f"{describe(cause)}.",
            f"Let {name}.__len__ return the number of items that __getitem__ knows.",
        )
        error.index = index
        return error

    def __getitem__(self, index: int) -> Any:
        try:
            return self.item(index)
        except UserCodeError as error:
            return ItemFailure(error)

    def collate(self, items: list[Any]) -> Any:
        """Make a batch of items, with the user's ``collate`` or torch's."""
        for item in items:
            if isinstance(item, ItemFailure):
                return item
        user_collate = getattr(self.user_dataset, "collate", None)
        try:
            if callable(user_collate):
                with calling(f"{self.class_name}.collate", self.source):
                    return user_collate(items)
            return _collate(items, self.class_name)
        except UserCodeError as error:
            return ItemFailure(error)


def _collate(items: list[Any], class_name: str) -> Any:
    from torch.utils.data import default_collate

    none_count = sum(item is None for item in items)
    if none_count:
        raise UserCodeError(
            f"{class_name}.__getitem__ returned None for {none_count} of the {len(items)} items of "
            "a batch.",
            f"Leave such items out when {class_name} is made, so that __len__ does not count them, "
            f"or add a method collate(self, items) to {class_name}.",
        )
    try:
        return default_collate(items)
    except (RuntimeError, TypeError, ValueError, KeyError) as error:
        shapes = sorted({shape_of(item) for item in items})
        if len(shapes) > 1:
            raise UserCodeError(
                f"Items of {class_name} have different shapes, so they cannot form a batch: "
                f"{shapes[0]} and {shapes[1]}.",
                f"Bring them to one shape, or add a method collate(self, items) to {class_name}.",
                clean_traceback(error),
            ) from error
        raise UserCodeError(
            f"Items of {class_name} cannot form a batch: {describe(error)}.",
            "Return tensors, arrays or numbers, or add a method collate(self, items) to "
            f"{class_name}.",
            clean_traceback(error),
        ) from error


class UserLoader:
    """The user's ``bks_dataset.py``, loaded."""

    def __init__(self, source: UserSource, module: ModuleType) -> None:
        self._source = source
        self._module = module

    @property
    def has_validation(self) -> bool:
        return getattr(self._module, "UserValDataset", None) is not None

    def training(self, files: Path) -> UserData:
        """Return ``UserDataset`` over the dataset's folder."""
        return self._open("UserDataset", files)

    def validation(self, files: Path) -> UserData:
        """Return ``UserValDataset`` over the dataset's folder."""
        return self._open("UserValDataset", files)

    def _open(self, class_name: str, files: Path) -> UserData:
        user_class = getattr(self._module, class_name, None)
        if user_class is None:
            raise UserCodeError(
                f"{LOADER_FILE} defines no {class_name}.",
                f"Name the loader's class {class_name}: "
                f"class {class_name}(torch.utils.data.Dataset).",
            )
        if not isinstance(user_class, type):
            raise UserCodeError(
                f"{class_name} in {LOADER_FILE} is {with_article(type(user_class).__name__)}, not "
                "a class.",
                f"Write class {class_name}(torch.utils.data.Dataset).",
            )
        import torch

        if issubclass(user_class, torch.utils.data.IterableDataset):
            raise UserCodeError(
                f"{class_name} is an IterableDataset, which cannot be distributed over processes.",
                "Give it the methods __getitem__ and __len__ of a torch.utils.data.Dataset.",
            )
        for method, purpose in (("__getitem__", "returns one item"), ("__len__", "counts them")):
            if not callable(getattr(user_class, method, None)):
                raise UserCodeError(
                    f"{class_name} has no method {method}, which {purpose}.",
                    f"Add {method} to {class_name}; an endless dataset cannot be distributed "
                    "over processes.",
                )
        factory: Any = user_class
        with calling(f"{class_name}()", self._source):
            dataset = factory(str(files))
        return UserData(self._source, class_name, dataset)


def load_loader(folder: Path) -> UserLoader:
    """Return the user's loader.

    Raises:
        UserCodeError: The loader cannot be loaded.
    """
    return UserLoader(*import_entry(folder, LOADER_FILE, "loader"))


def open_data(
    loader: Path,
    dataset: Path,
    validation_loader: Path | None = None,
    validation_dataset: Path | None = None,
) -> tuple[UserData, UserData | None]:
    """Return training and validation data of a job.

    If the job names neither a validation loader nor a validation dataset, the loader's
    ``UserValDataset`` is used, if it exists. Otherwise the named data is for validation, with
    either class.
    """
    training_loader = load_loader(loader)
    training = training_loader.training(dataset)
    has_own_loader = validation_loader is not None and validation_loader != loader
    reader = (
        load_loader(validation_loader) if has_own_loader and validation_loader else training_loader
    )
    files = validation_dataset or dataset
    if reader.has_validation:
        return training, reader.validation(files)
    if has_own_loader or (validation_dataset is not None and validation_dataset != dataset):
        return training, reader.training(files)
    return training, None
