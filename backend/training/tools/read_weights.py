"""Read a file of weights before it is stored with a model, as a job would read it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from backend.training.tools import protocol as tool_protocol


def read_weights(request: Mapping[str, Any], report: tool_protocol.Report) -> dict[str, Any]:
    """``path``; return the names of what is in the file besides weights."""
    report("Loading PyTorch…")
    from backend.training import weights_file

    report("Reading the weights…")
    return {"others": list(weights_file.read_weights(Path(request["path"]))[1])}


if __name__ == "__main__":
    tool_protocol.main(read_weights)
