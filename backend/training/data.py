"""Order of the samples for each rank and step, and batches of them.

An epoch is one shuffled order of all samples, the same on every rank, derived only from seed and
epoch. A step takes the next ``batch_size × ranks`` of it, so the position is one number, the
samples taken, which is valid for any number of ranks and any batch size. Asynchronous workers do
not take the first samples, so their positions in the order are stored, too. The samples at the end
of an epoch that do not fill a step are left out; the next epoch's order includes them again.
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
    """Indices of one batch. ``number`` seeds the random generators of a loader worker."""

    def __init__(self, indices: list[int], number: int) -> None:
        super().__init__(indices)
        self.number = number

    def __reduce__(self) -> tuple[Any, ...]:
        return BatchIndices, (list(self), self.number)


def spans(positions: torch.Tensor) -> list[Span]:
    """Return rising positions as spans."""
    merged_spans: list[Span] = []
    for position in positions.tolist():
        if merged_spans and merged_spans[-1][1] == position:
            merged_spans[-1] = merged_spans[-1][0], position + 1
        else:
            merged_spans.append((position, position + 1))
    return merged_spans


class TrainingOrder(Sampler[BatchIndices]):
    """Order of this rank's remaining batches of an epoch.

    Attributes:
        position: The number of samples taken: those in ``done_spans``, and then the first others.
        done_spans: The positions in the order that asynchronous workers have taken.
    """

    def __init__(
        self,
        samples: int,
        batch_size: int,
        rank: int,
        world_size: int,
        seed: int,
        accumulate: int = 1,
        weights: torch.Tensor | None = None,
    ) -> None:
        """Deal an epoch.

        Args:
            accumulate: The batches of a rank in a step; together they are one larger batch.
            weights: How often a sample is drawn, relative to others; None for once an epoch.
        """
        self._cumulative_weights = None if weights is None else weights.cumsum(0)
        self._samples = samples
        self._accumulate = accumulate
        self._batch_size = batch_size * accumulate
        self._rank = rank
        self._world_size = world_size
        self._seed = seed
        self.seek(1, 0)
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

    def seek(self, epoch: int, position: int, done_spans: Sequence[Span] = ()) -> None:
        self.epoch, self.position, self.done_spans = epoch, position, done_spans

    @property
    def global_batch(self) -> int:
        return self._batch_size * self._world_size

    @property
    def steps_per_epoch(self) -> int:
        return self._samples // self.global_batch

    @property
    def remaining_steps(self) -> int:
        """Number of steps of the epoch from the position on."""
        return max(0, self._samples - self.position) // self.global_batch

    def _split_positions(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the taken positions outside `done_spans`, and the remaining positions."""
        is_free = torch.ones(self._samples, dtype=torch.bool)
        for start, end in self.done_spans:
            is_free[start:end] = False
        free_positions = is_free.nonzero().flatten()
        count = self.position - (self._samples - len(free_positions))
        return free_positions[:count], free_positions[count:]

    def done_position_spans(self) -> list[Span]:
        return [*self.done_spans, *spans(self._split_positions()[0])]

    def remaining_batches(self) -> list[torch.Tensor]:
        """Return the positions of each remaining batch, for workers that take any of them.

        After another batch size the batches may be smaller, so that no sample is left out, except
        a single sample, on which batch normalization cannot train.
        """
        sample_count = self._samples // self._batch_size * self._batch_size
        positions = self._split_positions()[1][: max(0, sample_count - self.position)]
        if len(positions) < min(2, self._batch_size):
            return []
        return list(_split_evenly(positions, self._batch_size))

    def batches(self, batch_positions: Iterable[torch.Tensor]) -> Iterator[BatchIndices]:
        """Make the batches with the samples at these positions."""
        generator = torch.Generator()
        generator.manual_seed(mixed_seed(self._seed, self.epoch))
        order = self._draw_indices(generator)
        for positions in batch_positions:
            number = mixed_seed(self._seed, self.epoch, int(positions[0]))
            yield BatchIndices(order[positions].tolist(), number)

    def _draw_indices(self, generator: torch.Generator) -> torch.Tensor:
        """Return the sample at each position of the epoch."""
        if self._cumulative_weights is None:
            return torch.randperm(self._samples, generator=generator)
        # torch.multinomial takes 2**24 samples at most.
        points = torch.rand(self._samples, generator=generator, dtype=torch.float64)
        scaled_points = points * self._cumulative_weights[-1]
        indices = torch.searchsorted(self._cumulative_weights, scaled_points, right=True)
        return indices.clamp(max=self._samples - 1)

    def __len__(self) -> int:
        return self.remaining_steps * self._accumulate

    def __iter__(self) -> Iterator[BatchIndices]:
        positions = self._split_positions()[1][: self.remaining_steps * self.global_batch]
        batch_positions = torch.split(positions, self._batch_size)[self._rank :: self._world_size]
        return self.batches(
            part
            for step_positions in batch_positions
            for part in step_positions.chunk(self._accumulate)
        )


def deal_portions(samples: int, size: int, batch_size: int, seed: int) -> list[list[BatchIndices]]:
    """Deal a training set in portions of ``size`` samples or one less, each in several batches.

    The portions are the same in each epoch, mixed, and of about equal size, because batch
    normalization cannot train on a single sample.
    """
    generator = torch.Generator()
    generator.manual_seed(mixed_seed(seed))
    order = torch.randperm(samples, generator=generator)
    numbers = itertools.count()
    return [
        [
            BatchIndices(batch.tolist(), mixed_seed(seed, next(numbers)))
            for batch in _split_evenly(portion, batch_size)
        ]
        for portion in _split_evenly(order, size)
    ]


def _split_evenly(samples: torch.Tensor, size: int) -> tuple[torch.Tensor, ...]:
    return samples.tensor_split(-(-len(samples) // size))


class ValidationOrder(Sampler[BatchIndices]):
    """Order of a validation with every sample once: its batches, dealt to the ranks in turn.

    The batches are the same for any number of ranks, and so are the values computed from them.
    """

    def __init__(self, samples: int, batch_size: int, rank: int, world_size: int) -> None:
        self._samples = samples
        self._batch_size = batch_size
        self._rank = rank
        self._world_size = world_size

    @property
    def batch_count(self) -> int:
        return -(-self._samples // self._batch_size)

    @property
    def max_batch_count(self) -> int:
        """Number of batches of the rank that has most."""
        return -(-self.batch_count // self._world_size)

    def batch_numbers(self) -> range:
        return range(self._rank, self.batch_count, self._world_size)

    def size_of(self, batch: int) -> int:
        return min(self._batch_size, self._samples - batch * self._batch_size)

    def __len__(self) -> int:
        return len(self.batch_numbers())

    def __iter__(self) -> Iterator[BatchIndices]:
        yield from map(self.batch_indices, self.batch_numbers())

    def batch_indices(self, batch: int) -> BatchIndices:
        start = batch * self._batch_size
        return BatchIndices(list(range(start, start + self.size_of(batch))), batch)


class UserItems(Dataset[Any]):
    """The user's dataset, read a whole batch at a time.

    In a worker process the random generators are seeded for each batch: a resume creates new
    workers, and their random numbers must not depend on how long they have lived.

    Args:
        is_shared: Seed also without a worker, so that each rank makes the same batch.
    """

    def __init__(self, data: UserData, is_shared: bool) -> None:
        self._data = data
        self._is_shared = is_shared

    def __getitems__(self, indices: BatchIndices) -> list[Any]:
        if get_worker_info() is not None:
            seed_everything(indices.number)
        elif self._is_shared:
            saved_random = random_state(torch.device("cpu"))
            seed_everything(indices.number)
            items = self._read_items(indices)
            restore_random_state(saved_random, torch.device("cpu"))
            return items
        return self._read_items(indices)

    def _read_items(self, indices: BatchIndices) -> list[Any]:
        user_dataset = self._data.user_dataset
        name = self._data.class_name
        if hasattr(user_dataset, "__getitems__"):
            with user_code.calling(f"{name}.__getitems__", self._data.source):
                return list(user_dataset.__getitems__(list(indices)))
        items: list[Any] = []
        index = 0
        try:
            for index in indices:
                items.append(user_dataset[index])
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


def make_loader(
    data: UserData,
    order: Sampler[BatchIndices],
    workers: int,
    on_gpu: bool,
    is_shared: bool = False,
) -> DataLoader[Any]:
    return DataLoader(
        UserItems(data, is_shared),
        batch_sampler=order,
        num_workers=workers,
        collate_fn=data.collate,
        pin_memory=on_gpu,
        persistent_workers=workers > 0,
        # Its own generator: each iterator draws a number, and a resume makes one iterator more.
        generator=torch.Generator(),
    )


def fingerprint(data: UserData, index: int, seed: int) -> str | None:
    """Return a hash of the tensors, arrays, numbers and texts of one item.

    None if the item cannot be read, or is random and differs each time.
    """
    digests = set()
    for _ in range(2):
        seed_everything(seed)
        item = data[index]
        if isinstance(item, user_code.ItemFailure):
            return None
        digests.add(hashlib.sha256(b"".join(_content(item))).hexdigest())
    return digests.pop() if len(digests) == 1 else None


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
    seed = 0
    for part in parts:
        seed = (seed + part + 0x9E3779B97F4A7C15) & (2**64 - 1)
        seed = ((seed ^ (seed >> 30)) * 0xBF58476D1CE4E5B9) & (2**64 - 1)
        seed = ((seed ^ (seed >> 27)) * 0x94D049BB133111EB) & (2**64 - 1)
        seed ^= seed >> 31
    return seed >> 1


def seed_everything(seed: int) -> None:
    """Seed every generator that user code may draw from."""
    import random

    random.seed(seed)
    torch.manual_seed(seed)
    # Not every node has numpy; then user code cannot draw from it.
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % 2**32)
