"""A template: named settings for new jobs.

A template is a job file, or a sweep file, without a job's name. It may be incomplete: the form
fills what is missing as for any new job.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from backend.records.base.schema import KEY
from backend.records.jobs.job_file import without_shared_gpus

SUFFIX = ".toml"
_OF_ONE_JOB = ("name",)


@dataclass(frozen=True)
class Template:
    """A template in a list. ``error`` says why the template cannot be used."""

    name: str
    description: str = field(default="", metadata={KEY: "sentence"})
    path: str = ""
    error: str = field(default="", metadata={KEY: "fault"})


def template_of(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return a job file without what belongs to one job only."""
    return without_shared_gpus({key: raw[key] for key in raw if key not in _OF_ONE_JOB})


def describe(raw: Mapping[str, Any]) -> str:
    """Summarize a template: ``digits · SGD 0.05 · 20 epochs``."""
    optimizer = raw.get("optimizer")
    parts = [str(raw.get(key, "")) for key in ("model", "script", "dataset")]
    if isinstance(optimizer, Mapping):
        name, rate = str(optimizer.get("name", "")), optimizer.get("lr")
        parts.append(f"{name} {rate:g}" if _is_number(rate) else name)
    epochs = raw.get("epochs")
    if isinstance(epochs, int) and not isinstance(epochs, bool):
        parts.append("1 epoch" if epochs == 1 else f"{epochs} epochs")
    if isinstance(raw.get("sweep"), Mapping):
        parts.append("sweep")
    return " · ".join(dict.fromkeys(part for part in parts if part))


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
