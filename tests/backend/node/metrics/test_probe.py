"""Readings of this computer and its processes, and of GPUs behind a library with NVML's own ABI."""

from __future__ import annotations

import getpass
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import pytest

from backend.node.metrics import probe
from backend.node.metrics.probe import OtherPrograms
from backend.node.metrics.processes import ProcessReader
from backend.records.nodes.reading import NodeReading, short_command
from tests.fakes.nvml.driver import FakeDriver, build
from tests.waiting import LIMIT_S, wait_for

ROOT = Path(__file__).parents[4]
READ = """
import json, sys
from pathlib import Path
from backend.node.metrics import gpus
from backend.node.metrics.probe import Probe
vars(gpus).update(json.loads(sys.argv[1]))
probe = Probe("gpu1", Path("/"))
for _ in sys.stdin:
    print(json.dumps(probe.read().to_dict()), flush=True)
"""


class Reader(Protocol):
    def __call__(self, *description: str) -> NodeReading: ...


class Watch:
    """A process that reads the GPUs of a described driver each time it is asked."""

    def __init__(self, driver: FakeDriver, **limits: float) -> None:
        self._driver = driver
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-W",
                "error",
                "-c",
                READ,
                json.dumps({"_LIMIT_S": LIMIT_S, **limits}),
            ],
            env={**driver.environment, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def read(self, *description: str) -> NodeReading:
        self._driver.describe(*description)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return NodeReading.from_dict(json.loads(self._process.stdout.readline()))

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def watch(library: Path, tmp_path: Path) -> Iterator[Callable[..., Watch]]:
    watches: list[Watch] = []

    def start_watch(folder: Path = library, **limits: float) -> Watch:
        watches.append(Watch(FakeDriver(folder, tmp_path / "state"), **limits))
        return watches[-1]

    yield start_watch
    for started_watch in watches:
        started_watch.end()


@pytest.fixture
def read_gpus(watch: Callable[..., Watch]) -> Reader:
    """One reading of a driver that is as described."""
    return lambda *description: watch().read(*description)


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


def test_two_gpus_are_read_with_their_own_figures(
    read_gpus: Reader,
) -> None:
    reading = read_gpus()
    first, second = reading.gpus
    assert (reading.driver, reading.gpu_message) == ("550.54.15", "")
    assert first.uuid == "GPU-00000000-aaaa-bbbb-cccc-dddddddddddd"
    assert (first.name, second.name) == ("NVIDIA GeForce RTX 4090", "NVIDIA H100 80GB HBM3")
    assert (first.memory_used_bytes, first.memory_total_bytes) == (300 * 2**20, 24 * 2**30)
    assert (first.use_percent, first.temperature_c, first.fan_percent) == (93, 64, 55)
    assert (first.sm_clock_mhz, first.max_sm_clock_mhz) == (2520, 3105)
    assert (second.power_w, second.power_limit_w) == (312.5, 700.0)


def test_a_missing_value_of_a_gpu_is_none_and_hides_no_other_value(
    read_gpus: Reader,
) -> None:
    first, second = read_gpus().gpus
    assert (first.ecc_corrected, first.ecc_uncorrected, first.power_w) == (None, None, None)
    assert (second.ecc_corrected, second.ecc_uncorrected) == (12, 1)
    assert second.fan_percent is None


@pytest.mark.parametrize("missing", ["NO_THROTTLE_REASONS", "NO_EVENT_REASONS"])
def test_a_slowdown_for_heat_is_seen_where_the_driver_has_only_one_of_its_two_names(
    watch: Callable[..., Watch], tmp_path: Path, missing: str
) -> None:
    first, second = watch(build(tmp_path / "library", missing)).read().gpus
    assert first.clock_event_reasons == ()
    assert second.clock_event_reasons == ("hardware slowdown", "hardware thermal slowdown")


def test_reserved_memory_is_in_use_only_where_the_driver_reports_no_other_figure(
    watch: Callable[..., Watch], tmp_path: Path
) -> None:
    first, _ = watch(build(tmp_path / "library", "NO_MEMORY_V2")).read().gpus
    assert first.memory_used_bytes == (300 + 500) * 2**20


def test_m03_m15_a_process_on_a_gpu_is_shown_with_owner_command_age_and_run(
    read_gpus: Reader, worker: subprocess.Popen[bytes]
) -> None:
    first, second = read_gpus(f"process 0 {worker.pid} 18432").gpus
    (process,) = first.processes
    assert second.processes == ()
    assert (process.pid, process.user) == (worker.pid, getpass.getuser())
    assert process.memory_bytes == 18 * 2**30
    assert process.command.endswith("train.py --night")
    assert process.age_s is not None
    assert 0 <= process.age_s < 10 * LIMIT_S
    assert process.run_tag == "job-7/3"


def test_a_display_does_not_hold_a_gpu_unless_it_also_computes(
    read_gpus: Reader, worker: subprocess.Popen[bytes]
) -> None:
    first, second = read_gpus(
        "graphics 0 4194000 300",
        "graphics 0 4194001 12",
        f"graphics 1 {worker.pid} 300",
        f"process 1 {worker.pid} 900",
    ).gpus
    assert (len(first.display_processes), first.compute_processes) == (2, ())
    assert sum(process.memory_bytes or 0 for process in first.display_processes) == 312 * 2**20
    (shared_process,) = second.processes
    assert (second.compute_processes, second.display_processes) == ((shared_process,), ())
    assert shared_process.memory_bytes == 900 * 2**20


@pytest.mark.parametrize(
    ("lines", "owner"),
    [
        ((), None),
        (("memory 1 81000",), "hidden processes"),
        (("memory 1 81000", "process 1 4194000 80000"), None),
        (("mig 1 2",), "MIG"),
        (("mode 1 2",), "administrator"),
        (("mode 1 3",), None),
        (("mode 1 3", "memory 1 700"), "hidden processes"),
    ],
)
def test_the_user_of_an_unlisted_gpu_process_is_known(
    read_gpus: Reader, lines: tuple[str, ...], owner: str | None
) -> None:
    _, gpu = read_gpus(*lines).gpus
    assert (gpu.unlisted_holder.user if gpu.unlisted_holder else None) == owner


def test_an_invisible_process_has_no_owner(
    read_gpus: Reader,
) -> None:
    (process,) = read_gpus("process 0 4194000 1024").gpus[0].processes
    assert (process.user, process.command, process.age_s) == ("", "", None)


def test_m15_without_a_driver_it_is_cpu_only(watch: Callable[..., Watch], tmp_path: Path) -> None:
    (tmp_path / "libnvidia-ml.so.1").write_text("no library")
    reading = watch(tmp_path).read()
    assert (reading.gpus, reading.gpu_message) == ((), "CPU only: no NVIDIA driver was found")


def test_an_updated_driver_is_reported_in_its_own_words(
    read_gpus: Reader,
) -> None:
    reading = read_gpus("error 18")
    assert reading.gpus == ()
    assert "Mismatch" in reading.gpu_message or "mismatch" in reading.gpu_message


def test_a_driver_that_is_updated_while_it_is_read_says_so_and_comes_back(
    watch: Callable[..., Watch],
) -> None:
    probe_watch = watch()
    assert len(probe_watch.read().gpus) == 2
    assert "ismatch" in probe_watch.read("error 18").gpu_message
    assert probe_watch.read("error 18").gpus == ()
    assert len(probe_watch.read().gpus) == 2


def test_everything_of_the_metric_set_is_read_from_a_gpu_that_reports_it(read_gpus: Reader) -> None:
    gpu = read_gpus("remap 1 3 1 1 0", "pcie 1 4 8").gpus[1]
    assert (gpu.memory_clock_mhz, gpu.max_memory_clock_mhz) == (2619, 2619)
    assert (gpu.energy_j, gpu.performance_state) == (5_000_000.5, 0)
    assert (gpu.pcie_generation, gpu.max_pcie_generation) == (4, 5)
    assert (gpu.pcie_width, gpu.max_pcie_width) == (8, 16)
    assert (gpu.ecc_corrected_ever, gpu.ecc_uncorrected_ever) == (999, 7)
    assert (gpu.rows_remapped, gpu.repair_pending, gpu.repair_failed) == (4, True, False)
    assert (gpu.mig_enabled, gpu.mig_instances, gpu.is_lost) == (False, (), False)


def test_a_gpu_that_retires_pages_instead_of_rows_reports_those(read_gpus: Reader) -> None:
    gpu = read_gpus("pages 0 1").gpus[0]
    assert (gpu.rows_remapped, gpu.repair_pending, gpu.repair_failed) == (None, True, None)
    assert (gpu.performance_state, gpu.mig_enabled) == (None, None)


def test_the_instances_of_a_divided_gpu_are_listed(read_gpus: Reader) -> None:
    gpu = read_gpus("gpus 2", "mig 1 2").gpus[1]
    assert (gpu.mig_enabled, gpu.use_percent) == (True, None)
    first, second = gpu.mig_instances
    assert (first.index, second.index) == (0, 1)
    assert first.uuid == "MIG-00000001-aaaa-bbbb-cccc-000000000000"
    assert (first.name, first.memory_total_bytes) == (
        "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
        10 * 2**30,
    )


def test_a_gpu_that_falls_off_the_bus_stays_listed_as_lost(watch: Callable[..., Watch]) -> None:
    probe_watch = watch()
    previous_gpus = probe_watch.read("gpus 8").gpus
    gpus = probe_watch.read("gpus 8", "lost 5").gpus
    assert [gpu.index for gpu in gpus] == list(range(8))
    assert [gpu.index for gpu in gpus if gpu.is_lost] == [5]
    assert (gpus[5].uuid, gpus[5].name) == (previous_gpus[5].uuid, previous_gpus[5].name)
    assert (gpus[5].temperature_c, gpus[5].processes) == (None, ())
    assert [gpu for gpu in gpus if not gpu.is_lost] == [
        gpu for gpu in previous_gpus if gpu.index != 5
    ]


def test_a_gpu_lost_before_the_first_reading_is_listed_without_its_name(
    read_gpus: Reader,
) -> None:
    first, second = read_gpus("lost 1").gpus
    assert (first.is_lost, second.is_lost) == (False, True)
    assert (second.index, second.uuid) == (1, "")


def test_a_gpu_that_a_driver_counts_no_more_is_lost_too(watch: Callable[..., Watch]) -> None:
    probe_watch = watch()
    probe_watch.read("gpus 4")
    gpus = probe_watch.read("gpus 3").gpus
    assert [(gpu.index, gpu.is_lost) for gpu in gpus] == [
        (0, False),
        (1, False),
        (2, False),
        (3, True),
    ]
    assert gpus[3].uuid == "GPU-00000003-aaaa-bbbb-cccc-dddddddddddd"


def test_a_gpu_that_comes_back_is_read_again_in_the_next_slow_round(
    watch: Callable[..., Watch],
) -> None:
    probe_watch = watch(_SLOW_EVERY=2)
    probe_watch.read()
    assert probe_watch.read("lost 1").gpus[1].is_lost
    assert probe_watch.read().gpus[1].temperature_c == 91


def test_slowly_changing_values_are_read_less_often(watch: Callable[..., Watch]) -> None:
    probe_watch = watch(_SLOW_EVERY=2)
    probe_watch.read()
    changed = ("ecc 1 13 2 1000 8", "temperature 1 40")
    second, third = probe_watch.read(*changed).gpus[1], probe_watch.read(*changed).gpus[1]
    assert (second.ecc_uncorrected, second.temperature_c) == (2, 40)
    assert (second.ecc_uncorrected_ever, third.ecc_uncorrected_ever) == (7, 8)


def test_a_driver_that_hangs_is_given_up_and_hides_nothing_else(
    watch: Callable[..., Watch],
) -> None:
    probe_watch = watch(_LIMIT_S=0.2)
    reading = probe_watch.read("hang 1")
    assert reading.gpus == ()
    assert reading.gpu_message == "GPUs cannot be read: the NVIDIA driver does not respond"
    assert reading.memory_total_bytes > 0
    assert probe_watch.read("hang 1").heartbeat == 2


def test_a_pid_that_another_process_has_now_has_the_other_owner(
    watch: Callable[..., Watch], worker: subprocess.Popen[bytes]
) -> None:
    probe_watch = watch()
    assert probe_watch.read(f"process 0 {worker.pid} 1").gpus[0].processes[0].user
    worker.kill()
    worker.wait()
    assert probe_watch.read(f"process 0 {worker.pid} 1").gpus[0].processes[0].user == ""


def test_a_reading_holds_processors_memory_disk_and_rates_and_survives_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "_DISK_LIMIT_S", LIMIT_S)
    reading = probe.read_once("here", tmp_path, over_s=0.05)
    assert NodeReading.from_dict(json.loads(json.dumps(reading.to_dict()))) == reading
    assert reading.cpu.cores == os.cpu_count()
    assert reading.cpu.use_percent is not None
    assert 0 <= reading.cpu.use_percent <= 100
    assert 0 < reading.memory_used_bytes < reading.memory_total_bytes
    assert reading.disk_free_bytes is not None
    assert len(reading.cpu.core_use_percent) == os.cpu_count()
    assert all(0 <= use <= 100 for use in reading.cpu.core_use_percent)
    assert min(reading.cpu.load_5min, reading.cpu.load_15min) >= 0
    assert reading.network_in_bytes_per_s is not None
    assert reading.network_out_bytes_per_s is not None
    assert reading.network_bytes_per_s is not None
    assert reading.uptime_s > 0
    assert reading.heartbeat == 2


def test_a_missing_data_root_has_no_disk(tmp_path: Path) -> None:
    reading = probe.Probe("here", tmp_path / "gone").read()
    assert (reading.disk_total_bytes, reading.disk_free_bytes) == (None, None)


@pytest.mark.parametrize(
    ("elapsed_s", "busy", "own_s", "share"),
    [
        (100.0, 50.0, 50.0, 0.0),
        (100.0, 90.0, 10.0, 0.8),
        (100.0, 40.0, 41.0, 0.0),
        (100.0, 101.0, 0.0, 1.0),
        (8.0, 2.0, 0.0, 0.25),
        (0.0, 0.0, 0.0, None),
    ],
)
def test_the_share_of_other_programs_excludes_the_run(
    monkeypatch: pytest.MonkeyPatch,
    elapsed_s: float,
    busy: float,
    own_s: float,
    share: float | None,
) -> None:
    readings = iter([(1000.0, 300.0, 7.0), (1000.0 + elapsed_s, 300.0 + busy, 7.0 + own_s)])
    monkeypatch.setattr(probe, "_processor_seconds", lambda: next(readings))
    assert OtherPrograms().share() == share


def test_an_ended_child_s_time_is_the_run_s_own() -> None:
    previous_times = probe._processor_seconds()
    busy = "import os\nwhile sum(os.times()[:2]) < 0.5: pass"
    subprocess.run([sys.executable, "-S", "-c", busy], check=True)
    assert probe._processor_seconds()[2] - previous_times[2] >= 0.5


BUSY = """
import os, sys
block = bytearray(64 << 20)
print("ready", flush=True)
sys.stdin.readline()
while sum(os.times()[:2]) < 0.4: pass
print("done", flush=True)
sys.stdin.readline()
"""


def test_a_busy_process_is_shown_with_its_owner_cpu_and_memory(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(BUSY)
    command = [sys.executable, str(script), "--password=secret"]
    processes = ProcessReader()
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as busy:
        assert busy.stdin is not None
        assert busy.stdout is not None
        busy.stdout.readline()
        assert all(process.cpu_percent == 0 for process in processes.read(frozenset()))
        busy.stdin.write("\n")
        busy.stdin.flush()
        busy.stdout.readline()
        process_list = processes.read(frozenset({busy.pid}))
        busy.stdin.close()
    busy_process = next(process for process in process_list if process.pid == busy.pid)
    assert busy_process.user == getpass.getuser()
    assert busy_process.command.endswith(" train.py")
    assert busy_process.cpu_percent > 0
    assert busy_process.memory_bytes >= 64 << 20
    assert not any("secret" in process.command for process in process_list)
    later = [processes.read(frozenset({busy.pid})) for _ in range(5)]
    assert all(process.pid != busy.pid for process in later[-1])


@pytest.mark.parametrize(
    ("command", "label"),
    [
        ("/usr/bin/python3.11 /home/mai/train.py --key abc", "python3.11 train.py"),
        ("/e/bin/python -m backend.training.rank --x /a/b", "python -m backend.training.rank"),
        ("python -c import_this", "python"),
        ("python", "python"),
        ("/opt/matlab/bin/MATLAB -nodesktop -r secret", "MATLAB"),
        ("[kworker/0:1]", "0:1]"),
        ("sshd: mai@pts/3", "sshd:"),
        ("mysqld --password=x", "mysqld"),
        ("", ""),
        ("   ", ""),
    ],
)
def test_a_command_is_shown_as_its_program_and_script(command: str, label: str) -> None:
    assert short_command(command) == label
