"""Search for the learning rate of a job file in one process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from backend.records.jobs.launch import Launch
from backend.training.tools import protocol as tool_protocol


def find_rate(request: Mapping[str, Any], report: tool_protocol.Report) -> dict[str, Any]:
    """``launch`` as a launch record."""
    report("Loading PyTorch…")
    from backend.training import rate_finder

    launch = Launch.from_dict(request["launch"])
    search = rate_finder.find_rate(
        launch, lambda step: report("Training…", step, rate_finder.STEP_COUNT)
    )
    return search.to_dict()


if __name__ == "__main__":
    tool_protocol.main(find_rate)
