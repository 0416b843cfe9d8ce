"""Each sample of an epoch is taken once, in whichever pieces the runs of a job take it."""

from __future__ import annotations

import random

import pytest
import torch

from backend.training.data import TrainingOrder, spans
from backend.training.train_state import TrainState

SAMPLES = 103


def order(batch_size: int, rank: int = 0, world_size: int = 1) -> TrainingOrder:
    return TrainingOrder(SAMPLES, batch_size, rank, world_size, 1)


@pytest.mark.parametrize("sizes", [(8, 8), (8, 16), (8, 4), (16, 7), (1, 51), (3, 100, 9)])
@pytest.mark.parametrize("seed", range(3))
def test_workers_that_take_any_pieces_take_each_place_once(
    sizes: tuple[int, ...], seed: int
) -> None:
    drawn = random.Random(seed)
    state = TrainState()
    taken: list[int] = []
    for number, size in enumerate(sizes):
        own = order(size)
        own.seek(1, state.position, state.done_spans)
        pieces = own.remaining_batches()
        assert all(len(one) <= size for one in pieces)
        is_last = number == len(sizes) - 1
        for piece in pieces if is_last else drawn.sample(pieces, len(pieces) // 2):
            taken += piece.tolist()
            state.done_spans += spans(piece)
            state.position += len(piece)
    assert len(set(taken)) == len(taken)
    # The rest that is no batch is left out; a single sample is none either.
    whole = SAMPLES // sizes[-1] * sizes[-1]
    assert whole - 1 <= len(taken) <= SAMPLES


def test_the_pieces_of_a_whole_epoch_are_the_batches_of_one_process() -> None:
    for size in (1, 8, 16, 103):
        own = order(size)
        assert list(own.batches(own.remaining_batches())) == list(own)


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_a_synchronous_run_takes_the_samples_left_by_asynchronous_workers(ranks: int) -> None:
    done = [(0, 8), (16, 24), (40, 48)]
    left = [place for place in range(SAMPLES) if not any(a <= place < b for a, b in done)]
    before, left = left[: 4 * ranks], left[4 * ranks :]
    places: list[int] = []
    for rank in range(ranks):
        own = order(4, rank, ranks)
        whole = next(own.batches([torch.arange(SAMPLES)]))
        own.seek(1, 24 + 4 * ranks, done)
        assert own.done_position_spans() == [*done, *spans(torch.tensor(before))]
        places += [whole.index(sample) for batch in own for sample in batch]
    assert sorted(places) == left[: len(left) // (4 * ranks) * 4 * ranks]


@pytest.mark.parametrize(
    ("saved", "done"),
    [
        ({"position": 24, "done": [0, 2, 1]}, [(0, 8), (16, 24), (8, 16)]),
        ({"position": 16, "done": [5]}, [(80, 96)]),
        ({"position": 8, "done": []}, []),
        ({"position": 8}, []),
        ({"position": 0, "done": []}, []),
        ({"position": 8, "done": [(0, 3), (5, 10)]}, [(0, 3), (5, 10)]),
    ],
)
def test_an_older_checkpoint_s_numbers_of_batches_are_places(
    saved: dict[str, object], done: list[tuple[int, int]]
) -> None:
    assert TrainState.from_saved(saved).done_spans == done


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_samples_are_drawn_by_their_weights_alike_for_any_number_of_ranks(ranks: int) -> None:
    weights = torch.tensor([0.0, 1.0, 3.0, 0.0] + [0.0] * 96, dtype=torch.float64)
    orders = [TrainingOrder(100, 4 // ranks, r, ranks, 1, weights=weights) for r in range(ranks)]
    drawn = [0] * 100
    steps = []
    for epoch in range(1, 41):
        for order_of_rank in orders:
            order_of_rank.seek(epoch, 0)
        for parts in zip(*orders, strict=True):
            steps.append([index for part in parts for index in part])
            for index in steps[-1]:
                drawn[index] += 1
    assert sum(drawn) == 40 * 100
    assert drawn[1] + drawn[2] == sum(drawn)
    assert drawn[2] / drawn[1] == pytest.approx(3, rel=0.15)
    alone = TrainingOrder(100, 4, 0, 1, 1, weights=weights)
    assert steps[:25] == [list(batch) for batch in alone]


def test_a_weighted_epoch_continues_where_it_stopped() -> None:
    weights = torch.arange(1, SAMPLES + 1, dtype=torch.float64)
    straight = TrainingOrder(SAMPLES, 8, 0, 1, 1, weights=weights)
    resumed = TrainingOrder(SAMPLES, 8, 0, 1, 1, weights=weights)
    resumed.seek(1, 40)
    assert list(resumed) == list(straight)[5:]
