"""Readings of this computer, and of two GPUs behind a library with NVML's own ABI."""

from __future__ import annotations

import getpass
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from backend.node import probe
from backend.records.node import NodeReading
from tests.fakes.runs import wait_for

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "tests" / "fakes" / "nvml" / "nvml.c"
READ = """
import json, sys
from pathlib import Path
from backend.node.probe import Probe
print(json.dumps(Probe("gpu1", Path("/")).read().to_dict()))
"""


@pytest.fixture(scope="session")
def nvml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nvml")
    library = folder / "libnvidia-ml.so.1"
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-Wall", "-Werror", "-o", str(library), str(SOURCE)],
        check=True,
    )
    return folder


@pytest.fixture
def read_gpus(nvml: Path) -> Callable[..., NodeReading]:
    def read(**environment: str) -> NodeReading:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", READ],
            env={
                **os.environ,
                "LD_LIBRARY_PATH": str(nvml),
                "PYTHONPATH": str(ROOT),
                **environment,
            },
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stderr == ""
        return NodeReading.from_dict(json.loads(done.stdout))

    return read


@pytest.fixture
def worker() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-c", "import signal; signal.pause()", "train.py", "--night"],
        env={**os.environ, "RINGMASTER_RUN": "job-7/3"},
    )
    wait_for(lambda: b"train.py" in Path(f"/proc/{process.pid}/cmdline").read_bytes())
    yield process
    process.kill()
    process.wait()


def test_two_gpus_are_read_with_what_each_of_them_tells(
    read_gpus: Callable[..., NodeReading],
) -> None:
    reading = read_gpus()
    first, second = reading.gpus
    assert (reading.driver, reading.gpu_message) == ("550.54.15", "")
    assert first.uuid == "GPU-00000000-aaaa-bbbb-cccc-dddddddddddd"
    assert (first.name, second.name) == ("NVIDIA GeForce RTX 4090", "NVIDIA H100 80GB HBM3")
    assert (first.memory_used_bytes, first.memory_total_bytes) == (18 * 2**30, 24 * 2**30)
    assert (first.use_percent, first.temperature_c, first.fan_percent) == (93, 64, 55)
    assert (first.sm_clock_mhz, first.max_sm_clock_mhz) == (2520, 3105)
    assert (second.power_w, second.power_limit_w) == (312.5, 700.0)


def test_what_a_gpu_does_not_tell_is_none_and_costs_nothing_else(
    read_gpus: Callable[..., NodeReading],
) -> None:
    first, second = read_gpus().gpus
    assert (first.ecc_corrected, first.ecc_uncorrected, first.power_w) == (None, None, None)
    assert (second.ecc_corrected, second.ecc_uncorrected) == (12, 1)
    assert second.fan_percent is None


@pytest.mark.parametrize("names", [{}, {"FAKE_NVML_OLD": "1"}], ids=["new", "before 535"])
def test_a_slowdown_for_heat_is_seen_under_the_old_and_the_new_name(
    read_gpus: Callable[..., NodeReading], names: dict[str, str]
) -> None:
    first, second = read_gpus(**names).gpus
    assert first.clock_event_reasons == ()
    assert second.clock_event_reasons == ("hardware slowdown", "hardware thermal slowdown")


def test_m03_m15_a_process_on_a_gpu_is_shown_with_owner_command_age_and_run(
    read_gpus: Callable[..., NodeReading], worker: subprocess.Popen[bytes]
) -> None:
    first, second = read_gpus(FAKE_NVML_PID=str(worker.pid)).gpus
    (process,) = first.processes
    assert second.processes == ()
    assert (process.pid, process.user) == (worker.pid, getpass.getuser())
    assert process.memory_bytes == 18 * 2**30
    assert process.command.endswith("train.py --night")
    assert process.age_s is not None
    assert 0 <= process.age_s < 60
    assert process.run_tag == "job-7/3"


def test_a_process_that_is_not_to_be_seen_here_has_no_owner(
    read_gpus: Callable[..., NodeReading],
) -> None:
    (process,) = read_gpus(FAKE_NVML_PID="4194000").gpus[0].processes
    assert (process.user, process.command, process.age_s) == ("", "", None)


def test_m15_without_a_driver_it_is_cpu_only(
    read_gpus: Callable[..., NodeReading], tmp_path: Path
) -> None:
    (tmp_path / "libnvidia-ml.so.1").write_text("no library")
    reading = read_gpus(LD_LIBRARY_PATH=str(tmp_path))
    assert (reading.gpus, reading.gpu_message) == ((), "CPU only: no NVIDIA driver was found")


def test_a_driver_that_was_updated_under_way_is_told_in_its_words(
    read_gpus: Callable[..., NodeReading],
) -> None:
    reading = read_gpus(FAKE_NVML_INIT="18")
    assert reading.gpus == ()
    assert "Mismatch" in reading.gpu_message or "mismatch" in reading.gpu_message


def test_a_reading_holds_processors_memory_disk_and_rates_and_survives_json(
    tmp_path: Path,
) -> None:
    reading = probe.read_once("here", tmp_path, over_s=0.05)
    assert NodeReading.from_dict(json.loads(json.dumps(reading.to_dict()))) == reading
    assert reading.cpu.cores == os.cpu_count()
    assert reading.cpu.use_percent is not None
    assert 0 <= reading.cpu.use_percent <= 100
    assert 0 < reading.memory_used_bytes < reading.memory_total_bytes
    assert reading.disk_free_bytes is not None
    assert reading.network_bytes_per_s is not None
    assert reading.uptime_s > 0
    assert reading.heartbeat == 2


def test_a_data_root_that_is_gone_has_no_disk(tmp_path: Path) -> None:
    reading = probe.Probe("here", tmp_path / "gone").read()
    assert (reading.disk_total_bytes, reading.disk_free_bytes) == (None, None)
