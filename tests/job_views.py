"""Views of jobs in tests."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from backend.records.jobs.status import RunStatus
from backend.records.jobs.view import JobView

_OF_STATUS = {field.name for field in fields(RunStatus)}


def changed(view: JobView, **values: Any) -> JobView:
    """Return the view with other values of its fields, or of its status's fields."""
    of_status = {name: values.pop(name) for name in _OF_STATUS & values.keys()}
    if "energy_j" in of_status:
        of_status["earlier_energy_j"] = 0.0
    return replace(view, status=replace(view.status, **of_status), **values)
