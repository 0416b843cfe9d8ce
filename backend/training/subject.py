"""The user's data and model, opened the same way on every rank."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from backend.base.errors import BackendError
from backend.records.base import number_format
from backend.records.jobs.heartbeat import Phase, RankHeartbeat
from backend.records.jobs.launch import Launch
from backend.training import user_code
from backend.training.checkpoint_content import (
    freeze,
    frozen_names,
    random_state,
    restore_random_state,
)
from backend.training.data import fingerprint, mixed_seed, seed_everything
from backend.training.weights_file import names_with_prefix


@dataclass(frozen=True)
class Subject:
    training: user_code.UserData
    validation: user_code.UserData | None
    model: torch.nn.Module
    pass_batch: Callable[[], None]
    """Pass the first batch to the model, without changes to it and to the random numbers."""


def open_subject(launch: Launch, device: torch.device, stream: int, beat: RankHeartbeat) -> Subject:
    """Open data and model; afterwards every generator draws this rank's own random numbers.

    Args:
        stream: The number of the stream of random numbers: the rank's number among the trainers.
    """
    config = launch.config
    # Every rank draws the same weights, and creates the same data if the loader uses random
    # numbers. The loader is first, as in the preview: of two utils.py the loader's keeps its plain
    # name, which pickles in its data may contain.
    seed_everything(config.seed)
    training, validation = user_code.open_data(
        Path(launch.loader_source),
        Path(launch.dataset_files),
        _path(launch.validation_loader_source),
        _path(launch.validation_dataset_files),
    )
    beat.beat(Phase.SETUP)
    seed_everything(config.seed)
    model = user_code.load_model(Path(launch.model_source)).to(device)
    seed_everything(mixed_seed(config.seed, stream))

    def pass_batch() -> None:
        saved_random = random_state(device)
        size = min(config.batch_size, len(training))
        batch = training.collate([training[index] for index in range(size)])
        data, target = user_code.to_device(user_code.split_batch(batch), device)
        user_code.materialize(model, data, target)
        model.to(device)
        restore_random_state(saved_random, device)

    if user_code.needs_first_batch(model):
        pass_batch()
        user_code.require_shapes(model)
    beat.beat(Phase.SETUP)
    if config.freeze:
        parameters = (name for name, _ in model.named_parameters())
        names = names_with_prefix(parameters, config.freeze, "freeze")
        freeze(model, {*frozen_names(model), *names})
    user_code.require_restorable(model)
    return Subject(training, validation, model, pass_batch)


Traits = tuple[tuple[int, int], tuple[str | None, ...]]
"""The number of training and of validation samples; hashes of the first and the last sample."""


def collect_traits(subject: Subject, launch: Launch, device: torch.device) -> Traits:
    """Return traits that must be equal on all ranks; samples are read only with several nodes."""
    sizes = len(subject.training), len(subject.validation or ())
    samples: tuple[str | None, ...] = ()
    if len({plan.node for plan in launch.ranks}) > 1:
        saved_random = random_state(device)
        indices = (0, sizes[0] - 1)
        samples = tuple(fingerprint(subject.training, n, launch.config.seed) for n in indices)
        restore_random_state(saved_random, device)
    return sizes, samples


def require_same_traits(own_traits: Traits, rank_traits: Traits, rank: int, launch: Launch) -> None:
    """Compare rank 0's traits with those of another rank.

    Ranks with different numbers of samples would wait for each other. Each node lists the files of
    a folder in its own order (``os.listdir``), so the ranks would train on other samples, or number
    the classes differently.

    Raises:
        BackendError: The traits differ.
    """
    for kind, own_count, rank_count in zip(
        ("training", "validation"), own_traits[0], rank_traits[0], strict=True
    ):
        if own_count != rank_count:
            raise BackendError(
                f"The loader returns {number_format.count(own_count)} {kind} samples on rank 0 and "
                f"{number_format.count(rank_count)} on rank {rank}; all ranks need the same "
                "samples.",
                "In the loader, use random numbers from random, numpy.random or torch, which have "
                "the same seed on every rank, or from a generator with a fixed seed.",
            )
    nodes = launch.ranks[0].node, launch.ranks[rank].node
    indices = (0, own_traits[0][0] - 1)
    for index, own_hash, rank_hash in zip(indices, own_traits[1], rank_traits[1], strict=False):
        if None not in (own_hash, rank_hash) and own_hash != rank_hash:
            raise BackendError(
                f"Sample {number_format.count(index)} of the loader differs on {nodes[1]} and "
                f"{nodes[0]}; all ranks need the same samples.",
                "Sort the files and classes that the loader lists: sorted(os.listdir(folder)), "
                "sorted(Path(folder).iterdir()).",
            )


def _path(text: str) -> Path | None:
    return Path(text) if text else None
