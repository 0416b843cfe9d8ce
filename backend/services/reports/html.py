"""A report as one HTML file: `masked` hides what does not leave the cluster, `render` escapes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from backend import VERSION
from backend.records.base.terminal_text import terminal_safe
from backend.records.reports.report import Report

_RESOURCES = Path(__file__).parents[3] / "resources"
_OWN_WORDS = ("style", "color_role", "png", "frames")
"""Fields that are no text."""


def render(report: Report) -> str:
    """Return the file of a report whose texts are masked."""
    environment = Environment(
        loader=FileSystemLoader(_RESOURCES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    template = environment.get_template("report.html")
    return template.render(report=report, version=VERSION)


def masked(value: Any, mask: Callable[[str], str]) -> Any:
    """Return a record of a report with masked texts."""
    if isinstance(value, str):
        return terminal_safe(mask(value))
    if isinstance(value, tuple):
        return tuple(masked(element, mask) for element in value)
    if not is_dataclass(value) or isinstance(value, type):
        return value
    names = (field.name for field in fields(value) if field.name not in _OWN_WORDS)
    return replace(value, **{name: masked(getattr(value, name), mask) for name in names})
