"""Simulate the asynchronous training of a job file in one process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from backend.records.jobs.launch import Launch
from backend.records.jobs.simulation import Simulation
from backend.training.tools import protocol as tool_protocol


def simulate(request: Mapping[str, Any], report: tool_protocol.Report) -> dict[str, Any]:
    """``launch`` as a launch record, ``staleness`` and ``random``."""
    report("Loading PyTorch…")
    from backend.training.parameter_server import Delays
    from backend.training.simulation import Simulator

    launch = Launch.from_dict(request["launch"])
    config = launch.config
    delays = Delays(request["staleness"], request["random"], config.seed)
    simulator = Simulator(launch, delays)
    epochs = simulator.run(lambda step: report("Training…", step))
    return Simulation(tuple(epochs)).to_dict()


if __name__ == "__main__":
    tool_protocol.main(simulate)
