"""A real rank of a job on GPUs that computes on CPUs: the driver of the tests has no CUDA."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from backend.records.jobs.launch import Launch
from backend.records.jobs.placement import Placement
from backend.training import rank


class CpuLaunch(Launch, label="launch record"):
    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Launch:  # type: ignore[override]
        launch = Launch.from_dict(raw)
        placement = tuple(
            Placement(gpu_placement.node, gpu_placement.process_count)
            for gpu_placement in launch.config.placement
        )
        return replace(launch, config=replace(launch.config, placement=placement))


if __name__ == "__main__":
    vars(rank)["Launch"] = CpuLaunch
    rank.main()
