"""Views of jobs in tests."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from backend.records.jobs.status import RunStatus
from backend.records.jobs.view import JobView

_STATUS_FIELDS = {field.name for field in fields(RunStatus)}


def replace_fields(view: JobView, **values: Any) -> JobView:
    """Return the view with other values of its fields, or of its status's fields."""
    status_values = {name: values.pop(name) for name in _STATUS_FIELDS & values.keys()}
    if "energy_j" in status_values:
        status_values["earlier_energy_j"] = 0.0
    return replace(view, status=replace(view.status, **status_values), **values)
