"""The proposal for a new job: parts that are known to fit each other, and their settings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from backend.records.base.timestamps import seconds
from backend.records.jobs.flat_settings import flatten
from backend.records.jobs.state import JobState
from backend.records.jobs.view import JobView
from backend.records.library.item import (
    PARTS,
    STUDY_DETAIL,
    TRAINING_DETAIL,
    Combination,
    Kind,
    LibraryItem,
)

DEFAULT_TRAINING: Mapping[str, Any] = {
    "epochs": 10,
    "batch_size": 32,
    "optimizer": {"name": "sgd", "lr": 0.05, "momentum": 0.9},
    "gradient_norm": None,
}
"""The settings for a model without any."""
_MIN_STEPS = 20
"""The steps of an epoch; with fewer, as many more epochs are proposed."""


def training_of(model: str, models: Sequence[LibraryItem]) -> dict[str, Any]:
    """Return the settings that a model brings, by its name or reference, the newest first."""
    items = (item for item in models if model in (item.name, item.reference))
    newest_model = next(items, None)
    model_settings = newest_model.details.get(TRAINING_DETAIL) if newest_model is not None else None
    return {**DEFAULT_TRAINING, **(model_settings or {})}


class ProposedTraining:
    """Replace the proposed settings when the model changes; settings that the user typed stay."""

    def __init__(self) -> None:
        self._settings: dict[str, Any] = {}
        self._model = ""
        self._epochs = 0

    def reset(self, raw: Mapping[str, Any]) -> None:
        """Take the settings of a new job; none for a job whose settings the user chose."""
        self._settings = {key: raw[key] for key in DEFAULT_TRAINING if key in raw}
        self._model = str(raw.get("model", ""))
        self._epochs = int(self._settings.get("epochs", 0))

    def is_of_other_model(self, raw: Mapping[str, Any]) -> bool:
        """Return whether the job has another model than the proposed settings."""
        return bool(self._settings) and raw.get("model", "") not in ("", self._model)

    def follow_model(self, raw: Mapping[str, Any], training: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings of the job's model that the user did not change."""
        self._model = str(raw.get("model", ""))
        changes = {key: value for key, value in training.items() if self._is_untouched(key, raw)}
        self._settings.update(changes)
        self._epochs = int(changes.get("epochs", self._epochs))
        return changes

    def propose_epochs(self, raw: Mapping[str, Any], steps_per_epoch: int | None) -> dict[str, int]:
        """Return the epochs that make enough steps, {} if they are right or the user's own."""
        if not steps_per_epoch or not self._epochs or not self._is_untouched("epochs", raw):
            return {}
        epochs = math.ceil(self._epochs * max(1.0, _MIN_STEPS / steps_per_epoch))
        if epochs == self._settings["epochs"]:
            return {}
        self._settings["epochs"] = epochs
        return {"epochs": epochs}

    def _is_untouched(self, key: str, raw: Mapping[str, Any]) -> bool:
        proposed_value = self._settings.get(key)
        return flatten({key: raw.get(key)}) == flatten({key: proposed_value})


def fitting_parts(
    chosen_names: Mapping[str, str],
    items: Mapping[Kind, Sequence[LibraryItem]],
    combinations: Iterable[Combination],
    jobs: Iterable[JobView] = (),
) -> dict[str, str]:
    """Return names by the key in the job file; a part of which nothing is known stays open.

    Args:
        chosen_names: Names that the user chose. Without any, the job is like the newest usable one
            of ``jobs``, or has one item imported since: the newest, a dataset preferred.
        items: The models, datasets and loaders.
        combinations: Names of parts that worked together.
        jobs: The newest first.
    """
    # The parts of a study are for its jobs.
    items_outside_studies = {
        kind: [item for item in items[kind] if STUDY_DETAIL not in item.details] for kind in PARTS
    }
    names = {kind.value: {item.name for item in items_outside_studies[kind]} for kind in PARTS}
    parts = dict(chosen_names) or _latest_parts(items_outside_studies, names, jobs)
    known_sets = [
        {key: name for key, name in vars(combination).items() if name}
        for combination in combinations
    ]
    # Sets of more parts first.
    for known_set in sorted(known_sets, key=len, reverse=True):
        shared_keys = parts.keys() & known_set.keys()
        all_exist = all(name in names[key] for key, name in known_set.items())
        if all_exist and shared_keys and all(parts[key] == known_set[key] for key in shared_keys):
            parts = {**known_set, **parts}
    for key, names_of_kind in names.items():
        # Parts of one name belong together.
        namesake = next((name for name in parts.values() if name in names_of_kind), "")
        if key not in parts and namesake:
            parts[key] = namesake
    gallery_model_names = {
        item.name for item in items_outside_studies[Kind.MODEL] if TRAINING_DETAIL in item.details
    }
    for key, names_of_kind in names.items():
        # The code of a user with one dataset was written for it; a network of the gallery was not.
        if (
            len(names[Kind.DATASET.value]) == len(names_of_kind) == 1
            and not names_of_kind & gallery_model_names
        ):
            parts.setdefault(key, *names_of_kind)
    return parts


def _latest_parts(
    items_outside_studies: Mapping[Kind, Sequence[LibraryItem]],
    names: Mapping[str, set[str]],
    jobs: Iterable[JobView],
) -> dict[str, str]:
    """Return the parts of the newest usable job, or one item imported later.

    That item is the newest one, a dataset preferred.
    """
    latest_parts: dict[str, str] = {}
    latest_created_s = 0.0
    for job in jobs:
        job_parts = {key: str(getattr(job.config, key)).partition("@")[0] for key in names}
        made_no_step = job.state is JobState.ERROR and not job.step
        latest_parts = {key: name for key, name in job_parts.items() if name in names[key]}
        if latest_parts.keys() >= {Kind.DATASET.value, Kind.LOADER.value} and not made_no_step:
            latest_created_s = seconds(job.created)
            break
        latest_parts = {}
    new_items = [item for kind in PARTS for item in items_outside_studies[kind]]
    new_items = [item for item in new_items if seconds(item.created) > latest_created_s]
    if not new_items:
        return latest_parts
    new_item = max(new_items, key=lambda item: (item.kind is Kind.DATASET, seconds(item.created)))
    return {new_item.kind.value: new_item.name}
