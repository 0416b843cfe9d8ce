"""A report as one HTML file, or as PDF.

`masked` hides what does not leave the cluster, `render` escapes.
"""

from __future__ import annotations

import base64
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from backend import VERSION
from backend.base.errors import BackendError
from backend.base.log import swallowed
from backend.node.system.start_supervisor import own_environment
from backend.records.base.terminal_text import terminal_safe
from backend.records.reports.report import Report

_RESOURCES = Path(__file__).parents[3] / "resources"
_OWN_WORDS = ("style", "color_role", "png", "frames")
"""Fields that are no text."""
_PRINT_LIMIT_S = 120.0


def render(report: Report, template_name: str = "report.html") -> str:
    """Return the file of a report whose texts are masked."""
    environment = Environment(
        loader=FileSystemLoader(_RESOURCES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["base64"] = lambda text: base64.b64encode(text.encode()).decode()
    template = environment.get_template(template_name)
    return template.render(report=report, version=VERSION)


def render_pdf(report: Report) -> bytes:
    """Return the report as PDF: Qt prints it in a process of its own, which needs no display.

    Raises:
        BackendError: Qt could not print it.
    """
    try:
        return subprocess.run(
            [sys.executable, "-m", "widgets.report_printer"],
            input=render(report, "report-print.html").encode(),
            capture_output=True,
            env={**own_environment(), "QT_QPA_PLATFORM": "offscreen"},
            timeout=_PRINT_LIMIT_S,
            check=True,
        ).stdout
    except (OSError, subprocess.SubprocessError) as error:
        swallowed(error)
        raise BackendError(
            "Qt could not print the report as PDF.",
            "Write it as .html, and print that from a browser.",
        ) from error


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
