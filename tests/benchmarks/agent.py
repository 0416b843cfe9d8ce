"""P13: what the agent of a node with eight GPUs costs, each with a process on it.

The driver is a fake one behind the real binding: what the driver itself would need is not in it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from backend.node.system.background_service import ServiceLock
from backend.records.base.atomic_files import read_json
from backend.records.base.layout import DataRoot
from tests.benchmarks.figures import Figure
from tests.fakes.nvml.driver import FakeDriver, build
from tests.waiting import wait_for

ROOT = Path(__file__).parents[2]
INTERVAL_S = 2.0
SPANS = 3
SPAN_S = 12.0
JOBS = 200


def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        driver = FakeDriver(build(folder / "library"), folder / "state")
        workers = [_worker() for _ in range(8)]
        try:
            owners = [f"process {n} {worker.pid} 10240" for n, worker in enumerate(workers)]
            driver.describe("gpus 8", *owners)
            return _figures(DataRoot(folder / "data"), driver)
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()


def _figures(root: DataRoot, driver: FakeDriver) -> list[Figure]:
    node = root.node("gpu1")
    node.path.mkdir(parents=True)
    for number in range(JOBS):
        attempt = root.job(f"job-{number}").attempt(1)
        attempt.path.mkdir(parents=True)
        attempt.exit.write_text("{}")
    command = [sys.executable, "-m", "backend.node.agent.agent", "--name", "gpu1", "--folder"]
    command += [str(node.path), "--data-root", str(root.path), "--interval", str(INTERVAL_S)]
    agent = subprocess.Popen(command, env={**driver.environment, "PYTHONPATH": str(ROOT)})
    try:
        wait_for(lambda: node.status.exists() and read_json(node.status)["heartbeat"] >= 2)
        shares, sizes = [], []
        for _ in range(SPANS):
            used_s, started_s = _processor_s(agent.pid), time.monotonic()
            time.sleep(SPAN_S)
            span_s = time.monotonic() - started_s
            shares.append(100 * (_processor_s(agent.pid) - used_s) / span_s)
            sizes.append(_resident_mb(agent.pid))
        reading = read_json(node.status)
        assert [len(gpu["processes"]) for gpu in reading["gpus"]] == [1] * 8
    finally:
        agent.terminate()
        agent.wait()
        ServiceLock(node.path).path.unlink(missing_ok=True)
    context = f"8 GPUs, {JOBS} jobs, each {INTERVAL_S:g} s, fake driver"
    return [
        Figure("P13", "agent: share of one core", tuple(shares), 0.5, "%", context=context),
        Figure("P13", "agent: resident memory", tuple(sizes), 30, "MB", context=context),
    ]


def _worker() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])


def _processor_s(pid: int) -> float:
    """Processor time of a process and of all its threads, also of those that are gone."""
    return time.clock_gettime((~pid << 3) | 2)


def _resident_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
