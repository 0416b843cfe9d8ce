"""The settings of New job that came with the model and were not changed by the user."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from backend.records.jobs.flat_settings import flatten
from backend.records.library.item import TRAINING_DETAIL, LibraryItem

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
    newest = next(items, None)
    model_settings = newest.details.get(TRAINING_DETAIL) if newest is not None else None
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
