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
    generator = random.Random(seed)
    state = TrainState()
    positions: list[int] = []
    for number, size in enumerate(sizes):
        training_order = order(size)
        training_order.seek(1, state.position, state.done_spans)
        batches = training_order.remaining_batches()
        assert all(len(batch_positions) <= size for batch_positions in batches)
        is_last = number == len(sizes) - 1
        for batch in batches if is_last else generator.sample(batches, len(batches) // 2):
            positions += batch.tolist()
            state.done_spans += spans(batch)
            state.position += len(batch)
    assert len(set(positions)) == len(positions)
    # Remaining samples that are no batch are left out, also a single sample.
    sample_count = SAMPLES // sizes[-1] * sizes[-1]
    assert sample_count - 1 <= len(positions) <= SAMPLES


def test_the_pieces_of_a_whole_epoch_are_the_batches_of_one_process() -> None:
    for size in (1, 8, 16, 103):
        training_order = order(size)
        assert list(training_order.batches(training_order.remaining_batches())) == list(
            training_order
        )


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_a_synchronous_run_takes_the_samples_left_by_asynchronous_workers(ranks: int) -> None:
    done_spans = [(0, 8), (16, 24), (40, 48)]
    remaining_positions = [
        position for position in range(SAMPLES) if not any(a <= position < b for a, b in done_spans)
    ]
    earlier_positions, remaining_positions = (
        remaining_positions[: 4 * ranks],
        remaining_positions[4 * ranks :],
    )
    positions: list[int] = []
    for rank in range(ranks):
        training_order = order(4, rank, ranks)
        sample_order = next(training_order.batches([torch.arange(SAMPLES)]))
        training_order.seek(1, 24 + 4 * ranks, done_spans)
        assert training_order.done_position_spans() == [
            *done_spans,
            *spans(torch.tensor(earlier_positions)),
        ]
        positions += [sample_order.index(sample) for batch in training_order for sample in batch]
    assert (
        sorted(positions)
        == remaining_positions[: len(remaining_positions) // (4 * ranks) * 4 * ranks]
    )


@pytest.mark.parametrize(
    ("saved_state", "done_spans"),
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
    saved_state: dict[str, object], done_spans: list[tuple[int, int]]
) -> None:
    assert TrainState.from_saved(saved_state).done_spans == done_spans


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_samples_are_drawn_by_their_weights_alike_for_any_number_of_ranks(ranks: int) -> None:
    weights = torch.tensor([0.0, 1.0, 3.0, 0.0] + [0.0] * 96, dtype=torch.float64)
    orders = [TrainingOrder(100, 4 // ranks, r, ranks, 1, weights=weights) for r in range(ranks)]
    draw_counts = [0] * 100
    steps = []
    for epoch in range(1, 41):
        for order_of_rank in orders:
            order_of_rank.seek(epoch, 0)
        for parts in zip(*orders, strict=True):
            steps.append([index for part in parts for index in part])
            for index in steps[-1]:
                draw_counts[index] += 1
    assert sum(draw_counts) == 40 * 100
    assert draw_counts[1] + draw_counts[2] == sum(draw_counts)
    assert draw_counts[2] / draw_counts[1] == pytest.approx(3, rel=0.15)
    single_order = TrainingOrder(100, 4, 0, 1, 1, weights=weights)
    assert steps[:25] == [list(batch) for batch in single_order]


def test_a_weighted_epoch_continues_where_it_stopped() -> None:
    weights = torch.arange(1, SAMPLES + 1, dtype=torch.float64)
    straight_order = TrainingOrder(SAMPLES, 8, 0, 1, 1, weights=weights)
    resumed_order = TrainingOrder(SAMPLES, 8, 0, 1, 1, weights=weights)
    resumed_order.seek(1, 40)
    assert list(resumed_order) == list(straight_order)[5:]
