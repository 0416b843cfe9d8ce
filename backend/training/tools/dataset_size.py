"""Number of items a job trains and validates on, from which steps per epoch are computed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from backend.records.library.preview import DataSize
from backend.training.tools import protocol as tool_protocol
from backend.training.user_code import open_data


def measure(request: Mapping[str, Any], report: tool_protocol.Report) -> dict[str, Any]:
    """``loader`` and ``dataset``; optional ``validation_loader`` and ``validation_dataset``."""
    report("Opening the loader…")
    training, validation = open_data(
        Path(request["loader"]),
        Path(request["dataset"]),
        path_or_none(request.get("validation_loader")),
        path_or_none(request.get("validation_dataset")),
    )
    report("Counting the items…")
    return DataSize(len(training), None if validation is None else len(validation)).to_dict()


def path_or_none(value: str | None) -> Path | None:
    return Path(value) if value else None


if __name__ == "__main__":
    tool_protocol.main(measure)
