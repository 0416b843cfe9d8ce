"""What a job trains: the user's data and model, opened the same way on every rank."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from backend.records.jobs.heartbeat import Phase, RankHeartbeat
from backend.records.jobs.launch import Launch
from backend.training import user_code
from backend.training.checkpoint_content import random_state, restore_random_state
from backend.training.data import mixed_seed, seed_everything


@dataclass(frozen=True)
class Subject:
    training: user_code.UserData
    validation: user_code.UserData | None
    model: torch.nn.Module


def open_subject(launch: Launch, device: torch.device, stream: int, beat: RankHeartbeat) -> Subject:
    """Open data and model; afterwards every generator draws this rank's own random numbers.

    Args:
        stream: Which of the job's streams of random numbers: the place among those who train.
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
    if user_code.needs_first_batch(model):
        kept = random_state(device)
        size = min(config.batch_size, len(training))
        batch = training.collate([training[index] for index in range(size)])
        data, _ = user_code.split_batch(batch)
        user_code.materialize(model, user_code.to_device(data, device))
        model.to(device)
        restore_random_state(kept, device)
    beat.beat(Phase.SETUP)
    user_code.require_restorable(model)
    return Subject(training, validation, model)


def _path(text: str) -> Path | None:
    return Path(text) if text else None
