"""`installers/gpu-check` without a GPU: readings of the library of `nvml.c`, jobs on processors."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from backend.records.base.layout import RUN_VARIABLE, DataRoot, JobFolder
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RunExit
from backend.records.nodes.reading import Gpu
from installers import gpu_check
from installers.gpu_check import QUERY, CheckContext, CheckFailed, CheckRow, Load, StepTiming
from tests.fakes.nvml.driver import FakeDriver, build, put_smi
from tests.installers.small_project import put_wheel

REPOSITORY = Path(__file__).resolve().parents[2]
GPUS = [f"GPU-0000000{number}-aaaa-bbbb-cccc-dddddddddddd" for number in (0, 1)]


@dataclass
class FakeGpus:
    driver: FakeDriver
    context: CheckContext


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = build(tmp_path_factory.mktemp("nvml"))
    put_smi(folder)
    return folder


@pytest.fixture
def fake(library: Path, tmp_path: Path) -> Iterator[FakeGpus]:
    """Two GPUs and an agent that reads them."""
    driver = FakeDriver(library, tmp_path / "gpus")
    environment = {**driver.environment, "PYTHONPATH": str(REPOSITORY)}
    smi = str(library / "nvidia-smi")
    context = CheckContext(tmp_path, gpu=GPUS[1], smi=smi, environment=environment)
    with context.running_agent():
        yield FakeGpus(driver, context)


@pytest.fixture
def on_processors(tmp_path: Path) -> CheckContext:
    load = Load(width=16, depth=1, batch=4, seconds=0.01, pairs=1)
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    return CheckContext(tmp_path, load=load, environment=environment)


def row_of(name: str, check: Callable[[], Iterator[CheckRow]]) -> CheckRow:
    (row,) = gpu_check.run_check(name, check)
    return row


def test_readings_that_agree_pass_and_a_wrong_one_is_named(fake: FakeGpus) -> None:
    fake.driver.describe(f"process 1 {os.getpid()} 700", "temperature 0 51")
    good_row = row_of("readings", lambda: gpu_check.check_readings(fake.context))
    assert good_row.has_passed, good_row
    assert good_row.figure == f"0 of {2 * (len(QUERY) + 2)} differ"

    environment = {**fake.context.environment, "FAKE_SMI_WRONG": "temperature.gpu 57"}
    fake.context.environment = environment
    bad_row = row_of("readings", lambda: gpu_check.check_readings(fake.context, tries=1))
    assert not bad_row.has_passed
    assert bad_row.message.startswith(
        "GPU 0: temperature.gpu is 57 for nvidia-smi and 51 for the agent; GPU 1: "
    )


GPU = Gpu(
    3, GPUS[1], "NVIDIA H100", 10 * 2**30, 80 * 2**30, 50, 40, 300.0, 700.0, 1000, 1980, 60, 1, 2,
    memory_clock_mhz=2619, max_memory_clock_mhz=2619, performance_state=0, pcie_generation=4,
    max_pcie_generation=5, pcie_width=8, max_pcie_width=16, ecc_corrected_ever=3,
    ecc_uncorrected_ever=4, mig_enabled=False,
)  # fmt: skip
SMI = {
    "name": "NVIDIA H100", "index": "3", "memory.total": "81920", "memory.used": "10240",
    "utilization.gpu": "61", "temperature.gpu": "42", "power.draw": "330.12",
    "enforced.power.limit": "700.00", "clocks.sm": "1020", "clocks.max.sm": "1980",
    "clocks.mem": "2619", "clocks.max.mem": "2619", "fan.speed": "60", "pstate": "P0",
    "pcie.link.gen.current": "4", "pcie.link.gen.max": "5", "pcie.link.width.current": "8",
    "pcie.link.width.max": "16", "ecc.errors.corrected.volatile.total": "1",
    "ecc.errors.uncorrected.volatile.total": "2", "ecc.errors.corrected.aggregate.total": "3",
    "ecc.errors.uncorrected.aggregate.total": "4", "mig.mode.current": "Disabled",
}  # fmt: skip
WRONG_VALUES = {
    "name": "NVIDIA A100", "memory.total": "81900", "memory.used": "10900",
    "temperature.gpu": "46", "utilization.gpu": "[N/A]", "power.draw": "[N/A]", "pstate": "P8",
    "mig.mode.current": "Enabled", "clocks.sm": "1980", "clocks.mem": "1593",
}  # fmt: skip


@pytest.mark.parametrize("field", QUERY)
def test_each_field_is_compared(field: str) -> None:
    assert dict(gpu_check.differences(SMI, {}, (GPU, GPU))) == {}
    changed_values = {**SMI, field: WRONG_VALUES.get(field, "77")}
    assert field in dict(gpu_check.differences(changed_values, {}, (GPU, GPU)))
    unknown_gpu = replace(GPU, **{QUERY[field][0]: None})
    assert field in dict(gpu_check.differences(SMI, {}, (unknown_gpu, unknown_gpu)))


def test_a_process_that_one_of_them_does_not_see_is_named(fake: FakeGpus) -> None:
    fake.driver.describe(f"process 1 {os.getpid()} 700", "graphics 1 4194000 40")
    gpu = fake.context.read_gpus(2)[1]
    line = gpu_check.query_smi(fake.context, "gpu", ("uuid", *QUERY))[1]

    def different_names(processes: dict[int, str]) -> set[str]:
        return {name for name, _ in gpu_check.differences(line, processes, (gpu, gpu))}

    assert different_names({os.getpid(): "704"}) == set()
    assert different_names({}) == {"processes"}
    assert different_names({os.getpid(): "720"}) == {f"process {os.getpid()}"}


def test_a_foreign_process_is_shown_with_its_owner(fake: FakeGpus) -> None:
    def row() -> CheckRow:
        return row_of("foreign", lambda: gpu_check.check_foreign_process(fake.context, os.getpid()))

    fake.driver.describe(f"process 1 {os.getpid()} 700")
    assert row().has_passed
    assert f"(pid {os.getpid()})" in row().message
    fake.driver.describe(f"process 0 {os.getpid()} 700")
    assert not row().has_passed
    assert "the agent sees nobody" in row().message
    fake.driver.describe(f"process 1 {os.getpid()} 40")
    assert not row().has_passed


@pytest.mark.parametrize(
    ("gpu_index", "visible_gpus", "has_passed"),
    [(1, f"{GPUS[1]} 1", True), (0, f"{GPUS[1]} 1", False), (1, "0 2", False)],
)
def test_a_pinned_rank_is_on_its_gpu_alone(
    fake: FakeGpus,
    monkeypatch: pytest.MonkeyPatch,
    gpu_index: int,
    visible_gpus: str,
    has_passed: bool,
) -> None:
    def train(
        context: CheckContext, name: str, observe: Callable[[str], None], **_changes: Any
    ) -> tuple[JobFolder, RunExit]:
        folder = DataRoot(context.folder / "root").job("pinned")
        folder.logs.mkdir(parents=True)
        folder.rank_log(0).write_text(f"SEES {visible_gpus}\n")
        rank = CheckContext(
            context.folder, environment={**context.environment, RUN_VARIABLE: "pinned/1"}
        )
        code = "import sys; print(flush=True); sys.stdin.read()"
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with rank.python_process("-c", code, **pipes) as process:
            assert process.stdout is not None
            process.stdout.readline()
            fake.driver.describe(f"process {gpu_index} {process.pid} 300")
            context.read_gpus(2)
            observe("pinned/1")
        return folder, RunExit(1, JobState.FINISHED, "")

    monkeypatch.setattr(CheckContext, "train_job", train)
    row = row_of("pin", lambda: gpu_check.check_pin(fake.context))
    assert row.has_passed == has_passed, row


def test_a_job_that_needs_too_much_memory_is_explained(on_processors: CheckContext) -> None:
    row = row_of("memory", lambda: gpu_check.check_out_of_memory(on_processors))
    assert (row.has_passed, row.figure) == (True, "ERROR"), row


def test_a_job_that_cannot_run_is_a_failure_with_its_reason(on_processors: CheckContext) -> None:
    row = row_of("float16", lambda: gpu_check.check_training(on_processors, "float16"))
    assert (row.has_passed, row.message) == (
        False,
        "The job cannot be used: precision: “tf32” and “float16” need GPUs; the job runs on CPUs.",
    )


@pytest.mark.slow
def test_the_example_and_timed_steps_run_on_processors(on_processors: CheckContext) -> None:
    row = row_of("training", lambda: gpu_check.check_training(on_processors, "float32"))
    assert row.has_passed, row
    steps_row, use_row = gpu_check.run_check("steps", lambda: gpu_check.check_steps(on_processors))
    assert "in a bare loop and" in steps_row.message
    assert use_row.message == "The agent reported no use of the GPU while steps were timed."


@pytest.mark.parametrize(
    ("step_ms", "busy", "has_passed"),
    [
        (10.05, (99.0, 98.0), [True, True]),
        (10.2, (99.0, 98.0), [False, True]),
        (10.0, (99.0, 94.0), [True, False]),
        (10.0, (94.0, 99.0), [True, False]),
        (10.0, (99.0, None), [True, False]),
    ],
)
def test_a_step_is_held_against_the_bare_loop(
    step_ms: float, busy: tuple[float, float | None], has_passed: list[bool]
) -> None:
    bare_timings, job_timings = [StepTiming(10.0, busy[0])] * 3, [StepTiming(step_ms, busy[1])] * 3
    rows = gpu_check.run_check("steps", lambda: gpu_check.compare_steps(bare_timings, job_timings))
    assert [row.has_passed for row in rows] == has_passed


def test_checks_without_a_job_are_made_where_no_job_can_run(
    fake: FakeGpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def hold(_context: CheckContext) -> Iterator[int]:
        fake.driver.describe(f"process 1 {os.getpid()} 700")
        yield os.getpid()

    def no_job(*_args: Any, **_changes: Any) -> None:
        raise CheckFailed("There is no CUDA.")

    monkeypatch.setattr(gpu_check, "MODULES", {"lacking_here": "lacking"})
    monkeypatch.setattr(gpu_check, "hold_gpu_memory", hold)
    monkeypatch.setattr(CheckContext, "running_agent", lambda context: nullcontext())
    monkeypatch.setattr(CheckContext, "train_job", no_job)
    monkeypatch.setattr(gpu_check, "time_steps", no_job)
    rows = list(gpu_check.check_all(replace(fake.context, gpu="")))
    assert [row.check for row in rows if row.has_passed] == ["foreign process", "readings"]
    assert {row.check: row.message for row in rows if not row.has_passed} == {
        "machine": f"{sys.executable} lacks lacking: give --wheels a folder of it.",
        **dict.fromkeys(
            ("training", "bfloat16", "float16", "pin by UUID", "out of memory", "steps"),
            "There is no CUDA.",
        ),
    }


@pytest.mark.parametrize("has_passed", [True, False])
def test_the_table_has_a_line_for_each_check_and_a_failure_is_the_exit_code(
    has_passed: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        CheckRow("pin", True, "1 GPU", "Pinned."),
        CheckRow("readings", has_passed, "0", "Compared."),
    ]
    monkeypatch.setattr(gpu_check, "check_all", lambda context: iter(rows))
    assert gpu_check.main([]) == (0 if has_passed else 1)
    word = "pass" if has_passed else "FAIL"
    assert capsys.readouterr().out == (
        f"pass  pin       1 GPU  Pinned.\n{word}  readings      0  Compared.\n"
    )


def test_without_a_gpu_each_check_fails_with_the_reason(tmp_path: Path) -> None:
    arguments = ["--wheels", tmp_path, "--python", sys.executable]
    command = [REPOSITORY / "installers/gpu-check", *arguments]
    completed = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    lines = completed.stdout.splitlines()
    assert (completed.returncode, len(lines)) == (1, 8), completed.stderr
    for line in lines:
        assert line.startswith("FAIL")
        assert "The agent reads no GPU. CPU only: no NVIDIA driver was found." in line


def test_missing_modules_come_from_the_folder_of_wheels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What it needs is installed, and not in the folder.
    put_wheel(tmp_path, "lacking", "1.0", "lacking_here.py", "", requirement="pytest")
    monkeypatch.setattr(gpu_check, "MODULES", {"lacking_here": "lacking"})
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    assert gpu_check.list_missing() == ["lacking"]
    gpu_check.unpack_wheels(tmp_path, tmp_path / "packages")
    assert gpu_check.list_missing() == []
    assert os.environ["PYTHONPATH"] == f"{REPOSITORY}:{tmp_path / 'packages'}"
