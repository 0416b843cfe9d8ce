"""A start starts agents that are down, such as after a reboot, and is refused if one stays down."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from backend.base.errors import BackendError
from backend.base.progress import Progress
from backend.records.jobs.job_file import parse_job
from backend.records.nodes.preflight import Fix, Preflight, PreflightFinding
from backend.services.preflight.service import PreflightFailed, PreflightService
from tests.fakes.mounted_root import mounted
from tests.integration.tiny import raw_job

NODES = ("gpu1", "gpu2")
DOWN = {
    node: PreflightFinding(
        "agent", False, f"The agent of {node} is not running.", "", (node,), Fix.START_AGENT
    )
    for node in NODES
}
FULL = PreflightFinding("disk", False, "The disk is full.", "", ("gpu1",))
GOOD = PreflightFinding("node", True, "gpu1 answers.", "", ("gpu1",))


@pytest.mark.parametrize(
    ("findings", "stays_down", "refusal"),
    [
        ((GOOD, DOWN["gpu2"]), (), ""),
        ((DOWN["gpu1"], DOWN["gpu2"]), (), ""),
        ((GOOD, DOWN["gpu2"]), ("gpu2",), "The agent of gpu2 is not running."),
        ((DOWN["gpu1"], DOWN["gpu2"]), ("gpu1",), "The agent of gpu1 is not running."),
        ((DOWN["gpu2"], FULL), (), "gpu1: The disk is full."),
        ((GOOD,), (), ""),
    ],
)
def test_a_start_starts_the_agents_that_are_down(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    findings: tuple[PreflightFinding, ...],
    stays_down: tuple[str, ...],
    refusal: str,
) -> None:
    unused: Any = None
    service = PreflightService(mounted(tmp_path), unused, unused, python=lambda: "python")
    started: list[str] = []

    def fix(
        down: list[PreflightFinding], _on_change: object = None
    ) -> dict[PreflightFinding, BackendError]:
        started.extend(node for finding in down for node in finding.nodes)
        return {f: BackendError("It does not start.") for f in down if f.nodes[0] in stays_down}

    monkeypatch.setattr(service, "run", lambda *_, **__: Preflight(NODES, findings, 0.1))
    monkeypatch.setattr(service, "fix_all", fix)
    placement = [{"node": node, "processes": 1} for node in NODES]
    config = parse_job(raw_job(placement=placement)).config
    assert config is not None
    labels: list[str] = []
    progress = Progress()
    monkeypatch.setattr(progress, "report", lambda done, total, label: labels.append(label))

    if refusal:
        with pytest.raises(PreflightFailed) as caught:
            service.require(config, progress=progress)
        assert caught.value.message == refusal
    else:
        service.require(config, progress=progress)
    down = [finding.nodes[0] for finding in findings if finding.fix is Fix.START_AGENT]
    assert started == down
    assert [node for node in down if any(f"the agent of {node}" in line for line in labels)] == down
