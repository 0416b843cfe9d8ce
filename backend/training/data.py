"""Order of the samples for each rank and step, and batches of them.

An epoch is one shuffled order of all samples, the same on every rank, derived only from seed and
epoch. A step takes the next ``batch_size × ranks`` of it, so the position is one number, the
samples taken, which is valid for any number of ranks and any batch size. Asynchronous workers do
not take the first ones, so for them the places in the order are kept too. The samples at the end of
an epoch that do not fill a step are left out; the next epoch's order includes them again.
"""

from __future__ import annotations

import hashlib
import itertools
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_leaves
from torch.utils.data import DataLoader, Dataset, Sampler, get_worker_info

from backend.base.errors import BackendError
from backend.records.base import number_format
from backend.training import user_code
from backend.training.checkpoint_content import random_state, restore_random_state
from backend.training.train_state import Span

if TYPE_CHECKING:
    from backend.training.user_code import UserData


class BatchIndices(list[int]):
    """The samples of one batch. ``number`` seeds the random generators of a loader worker."""

    def __init__(self, indices: list[int], number: int) -> None:
        super().__init__(indices)
        self.number = number

    def __reduce__(self) -> tuple[Any, ...]:
        return BatchIndices, (list(self), self.number)


def spans(places: torch.Tensor) -> list[Span]:
    """Return rising places as spans."""
    found: list[Span] = []
    for place in places.tolist():
        if found and found[-1][1] == place:
            found[-1] = found[-1][0], place + 1
        else:
            found.append((place, place + 1))
    return found


class TrainingOrder(Sampler[BatchIndices]):
    """This rank's batches of what is left of an epoch.

    Attributes:
        position: The samples taken: those in ``done``, and then the first of the others.
        done: The places in the order that asynchronous workers have taken.
    """

    def __init__(
        self,
        samples: int,
        batch_size: int,
        rank: int,
        world_size: int,
        seed: int,
        accumulate: int = 1,
    ) -> None:
        """``accumulate``: the batches of a rank in a step; together they are one larger batch."""
        self._samples = samples
        self._accumulate = accumulate
        self._batch_size = batch_size * accumulate
        self._rank = rank
        self._world_size = world_size
        self._seed = seed
        self.go_to(1, 0)
        if self.steps_per_epoch == 0:
            raise BackendError(
                f"The dataset has {number_format.count(samples)} samples, but one step of "
                f"{world_size} × {self._batch_size} needs "
                f"{number_format.count(self.global_batch)}.",
                "Choose a batch size of "
                f"{number_format.count(max(1, samples // (world_size * accumulate)))} or less"
                + (", or fewer passes of a step" if accumulate > 1 else "")
                + (", or fewer processes." if world_size > 1 else "."),
            )

    def go_to(self, epoch: int, position: int, done: Sequence[Span] = ()) -> None:
        self.epoch, self.position, self.done = epoch, position, done

    @property
    def global_batch(self) -> int:
        return self._batch_size * self._world_size

    @property
    def steps_per_epoch(self) -> int:
        return self._samples // self.global_batch

    @property
    def steps_left(self) -> int:
        """Return the steps of the epoch from the position on."""
        return max(0, self._samples - self.position) // self.global_batch

    def _places(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the places that were taken besides `done`, and those that are left."""
        free = torch.ones(self._samples, dtype=torch.bool)
        for first, end in self.done:
            free[first:end] = False
        others = free.nonzero().flatten()
        count = self.position - (self._samples - len(others))
        return others[:count], others[count:]

    def taken(self) -> list[Span]:
        return [*self.done, *spans(self._places()[0])]

    def pieces(self) -> list[torch.Tensor]:
        """Return the places of each batch that is left, for workers that take any of them.

        After another batch size the batches may be smaller, so that no sample is left out; but a
        single one is, on which batch normalization cannot train.
        """
        whole = self._samples // self._batch_size * self._batch_size
        left = self._places()[1][: max(0, whole - self.position)]
        if len(left) < min(2, self._batch_size):
            return []
        return list(_even(left, self._batch_size))

    def batches(self, pieces: Iterable[torch.Tensor]) -> Iterator[BatchIndices]:
        """Make the batches with the samples at these places."""
        generator = torch.Generator()
        generator.manual_seed(mixed_seed(self._seed, self.epoch))
        order = torch.randperm(self._samples, generator=generator)
        for places in pieces:
            number = mixed_seed(self._seed, self.epoch, int(places[0]))
            yield BatchIndices(order[places].tolist(), number)

    def __len__(self) -> int:
        return self.steps_left * self._accumulate

    def __iter__(self) -> Iterator[BatchIndices]:
        left = self._places()[1][: self.steps_left * self.global_batch]
        pieces = torch.split(left, self._batch_size)[self._rank :: self._world_size]
        passes = (part for piece in pieces for part in piece.chunk(self._accumulate))
        return self.batches(passes)


def portions(samples: int, size: int, batch_size: int, seed: int) -> list[list[BatchIndices]]:
    """Deal a training set in portions of ``size`` samples or one less, each in such batches.

    They are the same in each epoch, mixed, and none is much smaller than the others: batch
    normalization cannot train on a single sample.
    """
    generator = torch.Generator()
    generator.manual_seed(mixed_seed(seed))
    order = torch.randperm(samples, generator=generator)
    numbers = itertools.count()
    return [
        [
            BatchIndices(batch.tolist(), mixed_seed(seed, next(numbers)))
            for batch in _even(portion, batch_size)
        ]
        for portion in _even(order, size)
    ]


def _even(samples: torch.Tensor, size: int) -> tuple[torch.Tensor, ...]:
    return samples.tensor_split(-(-len(samples) // size))


class ValidationOrder(Sampler[BatchIndices]):
    """Every sample once: the batches in order, dealt to the ranks in turn.

    The batches are the same for any number of ranks, and so is every value computed from one.
    """

    def __init__(self, samples: int, batch_size: int, rank: int, world_size: int) -> None:
        self._samples = samples
        self._batch_size = batch_size
        self._rank = rank
        self._world_size = world_size

    @property
    def batches(self) -> int:
        return -(-self._samples // self._batch_size)

    @property
    def rounds(self) -> int:
        """The batches of the rank that has most."""
        return -(-self.batches // self._world_size)

    def numbers(self) -> range:
        return range(self._rank, self.batches, self._world_size)

    def size_of(self, batch: int) -> int:
        return min(self._batch_size, self._samples - batch * self._batch_size)

    def __len__(self) -> int:
        return len(self.numbers())

    def __iter__(self) -> Iterator[BatchIndices]:
        yield from map(self.share, self.numbers())

    def share(self, batch: int) -> BatchIndices:
        start = batch * self._batch_size
        return BatchIndices(list(range(start, start + self.size_of(batch))), batch)


class Items(Dataset[Any]):
    """The user's dataset, read one whole batch at a time.

    In a worker process the random generators are seeded for each batch: a resume creates new
    workers, and their random numbers must not depend on how long they have lived.

    Args:
        is_alike: Do the same without a worker, so that each rank makes the same batch.
    """

    def __init__(self, data: UserData, is_alike: bool) -> None:
        self._data = data
        self._is_alike = is_alike

    def __getitems__(self, share: BatchIndices) -> list[Any]:
        if get_worker_info() is not None:
            seed_everything(share.number)
        elif self._is_alike:
            kept = random_state(torch.device("cpu"))
            seed_everything(share.number)
            items = self._items(share)
            restore_random_state(kept, torch.device("cpu"))
            return items
        return self._items(share)

    def _items(self, share: BatchIndices) -> list[Any]:
        user = self._data.user_dataset
        name = self._data.class_name
        if hasattr(user, "__getitems__"):
            with user_code.calling(f"{name}.__getitems__", self._data.source):
                return list(user.__getitems__(list(share)))
        items: list[Any] = []
        index = 0
        try:
            for index in share:
                items.append(user[index])
        except BaseException:  # noqa: BLE001 - `calling` decides, and lets pass what is not theirs
            try:
                with user_code.calling(
                    f"{name}, item {number_format.count(index)},", self._data.source
                ):
                    raise
            except user_code.UserCodeError as error:
                error.index = index
                return [user_code.ItemFailure(error)]
        return items


def loader(
    data: UserData,
    order: Sampler[BatchIndices],
    workers: int,
    on_gpu: bool,
    is_alike: bool = False,
) -> DataLoader[Any]:
    return DataLoader(
        Items(data, is_alike),
        batch_sampler=order,
        num_workers=workers,
        collate_fn=data.collate,
        pin_memory=on_gpu,
        persistent_workers=workers > 0,
        # Its own generator: each iterator draws a number, and a resume makes one iterator more.
        generator=torch.Generator(),
    )


def fingerprint(data: UserData, index: int, seed: int) -> str | None:
    """Return a hash of the tensors, arrays, numbers and words of one item.

    None if the item cannot be read, or differs each time: then it is random in itself.
    """
    found = set()
    for _ in range(2):
        seed_everything(seed)
        item = data[index]
        if isinstance(item, user_code.ItemFailure):
            return None
        found.add(hashlib.sha256(b"".join(_content(item))).hexdigest())
    return found.pop() if len(found) == 1 else None


def _content(item: Any) -> Iterator[bytes]:
    for leaf in tree_leaves(item):
        if isinstance(leaf, torch.Tensor):
            leaf = leaf.detach().cpu().numpy()
        if isinstance(leaf, (bool, int, float, complex, str, bytes)):
            yield repr(leaf).encode()
        elif hasattr(leaf, "tobytes"):
            yield leaf.tobytes()


def mixed_seed(*parts: int) -> int:
    """Derive one seed from several numbers; close numbers give distant seeds (splitmix64)."""
    mixed = 0
    for part in parts:
        mixed = (mixed + part + 0x9E3779B97F4A7C15) & (2**64 - 1)
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & (2**64 - 1)
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & (2**64 - 1)
        mixed ^= mixed >> 31
    return mixed >> 1


def seed_everything(seed: int) -> None:
    """Seed every generator that user code may draw from."""
    import random

    random.seed(seed)
    torch.manual_seed(seed)
    # Not every node has numpy; then user code cannot draw from it.
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % 2**32)
