"""Checks of a machine with an NVIDIA GPU: `installers/gpu-check` prints one table of pass and fail.

Jobs run under the product's own supervisor in one process, readings come from its own agent, and
only code that runs on nodes is imported. A check that cannot run fails with its reason.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from backend.base.cores import usable_cores
from backend.launch import placement
from backend.node.system.process_identity import owner_of
from backend.records.base.atomic_files import read_json, replace_json
from backend.records.base.layout import DataRoot, JobFolder, NodeFolder, run_tag
from backend.records.jobs.job_file import parse_job
from backend.records.jobs.launch import Launch, rank_plans
from backend.records.jobs.placement import THIS_COMPUTER
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RunExit, RunStatus
from backend.records.nodes.reading import Gpu, NodeReading

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "resources/gallery/digits"
SOURCES = ROOT / "resources/gpu-check"
LIMIT_S = 340.0
MODULES = {
    "numpy": "numpy",
    "packaging": "packaging",
    "google.protobuf": "protobuf",
    "pynvml": "nvidia-ml-py",
    "tensorboardX": "tensorboardX",
}
"""Modules that jobs and the agent import besides PyTorch, and the package of each."""
OVERHEAD, BUSY_PERCENT = 0.01, 95.0
"""How much longer a step may take than in a bare loop, and how busy the GPU is in both."""
_SLOW_READINGS = 16
"""After this many readings the agent has queried every value again (`backend.node.metrics.gpus`).
"""
_WARM_STEPS = 20
_ONCE: dict[str, Any] = {"epochs": 1, "batch_size": 32, "schedule": {}, "checkpoint": {}}


class CheckFailed(Exception):
    """Why a check did not pass, as a sentence."""


@dataclass(frozen=True)
class CheckRow:
    check: str
    has_passed: bool
    figure: str
    message: str


@dataclass(frozen=True)
class Load:
    """The steps that are timed; the default occupies any GPU."""

    width: int = 4096
    depth: int = 16
    batch: int = 256
    seconds: float = 5.0
    pairs: int = 3


@dataclass
class CheckContext:
    """Place of the checks. ``gpu`` is the UUID of the GPU to train on, "" for CPUs."""

    folder: Path
    gpu: str = ""
    smi: str = "nvidia-smi"
    load: Load = field(default_factory=Load)
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    deadline: float = field(default_factory=lambda: time.monotonic() + LIMIT_S)

    @contextmanager
    def python_process(self, *arguments: str, **options: Any) -> Iterator[subprocess.Popen[str]]:
        """A Python of this environment that ends with the block."""
        command = [sys.executable, *arguments]
        environment = dict(self.environment)
        with subprocess.Popen(command, env=environment, text=True, cwd="/", **options) as process:
            try:
                yield process
            finally:
                process.terminate()

    def observe_until_end(
        self, process: subprocess.Popen[str], observe: Callable[[], None]
    ) -> None:
        """Call ``observe`` repeatedly until the process has ended."""
        while process.poll() is None:
            if time.monotonic() > self.deadline:
                raise CheckFailed("The time for all checks was over before it ended.")
            observe()
            time.sleep(0.05)

    @contextmanager
    def running_agent(self) -> Iterator[None]:
        arguments = ["--name", "gpu-check", "--interval", "0.2"]
        for option, folder in (("--folder", "node"), ("--data-root", "root")):
            (self.folder / folder).mkdir()
            arguments += [option, str(self.folder / folder)]
        with self.python_process("-m", "backend.node.agent.agent", *arguments):
            yield

    def read_gpus(self, readings: int = 0) -> tuple[Gpu, ...]:
        """Return the GPUs as the agent reads them after this many readings."""
        first_heartbeat = None
        deadline = min(self.deadline, time.monotonic() + 60)
        while time.monotonic() < deadline:
            time.sleep(0.02)
            try:
                status = read_json(NodeFolder(self.folder / "node").status)
            except (OSError, ValueError):  # not written yet
                continue
            reading = NodeReading.from_dict(status)
            first_heartbeat = reading.heartbeat if first_heartbeat is None else first_heartbeat
            if reading.heartbeat >= first_heartbeat + readings:
                if not reading.gpus:
                    raise CheckFailed(f"The agent reads no GPU. {reading.gpu_message}.")
                return reading.gpus
        raise CheckFailed("The agent wrote no reading.")

    def train_job(
        self,
        name: str,
        source: Path = SOURCES,
        observe: Callable[[str], None] = lambda tag: None,
        **changes: Any,
    ) -> tuple[JobFolder, RunExit]:
        """Run a job under the supervisor; ``observe`` is called with its tag until it is over."""
        # The pid, because the end of a run ends every process with its tag.
        folder = DataRoot(self.folder / "root").job(f"gpu-check-{name}-{os.getpid()}")
        for path in (folder.logs, folder.output, folder.attempt(1).path):
            path.mkdir(parents=True)
        devices = {"gpus": [self.gpu]} if self.gpu else {"processes": 1}
        raw = tomllib.loads((EXAMPLE / "job.toml").read_text())
        raw |= {"strategy": {"name": "alone"}, "placement": [{"node": THIS_COMPUTER, **devices}]}
        parsed = parse_job(raw | changes)
        if (config := parsed.config) is None:
            raise CheckFailed(f"The job cannot be used: {parsed.errors[0].message}")
        capacity = placement.this_computer(usable_cores(), (self.gpu,))
        placement.require_capacity(config, [capacity])
        job_path = str(folder.path)
        launch = Launch(
            job_id=folder.job_id,
            run=1,
            config=config,
            ranks=rank_plans(config, {capacity.node: capacity.host}),
            model_source=str(source / "model"),
            loader_source=str(source / "loader"),
            dataset_files=str(source / "dataset"),
            python=sys.executable,
            job_folder=job_path,
            code_root=self.environment["PYTHONPATH"],
        )
        replace_json(folder.launch, launch.to_dict())
        replace_json(folder.status, RunStatus(JobState.STARTING, run=1).to_dict())
        arguments = ("-m", "backend.node.run.supervisor", "--job", job_path, "--run", "1")
        with self.python_process(*arguments) as supervisor:
            self.observe_until_end(supervisor, lambda: observe(run_tag(folder.job_id, 1)))
        return folder, RunExit.from_dict(read_json(folder.attempt(1).exit))


def require_finished(run_exit: RunExit) -> None:
    if run_exit.state is not JobState.FINISHED:
        remark = run_exit.error.message if run_exit.error else run_exit.message
        raise CheckFailed(f"The job ended as {run_exit.state.value}: {remark}")


# --- training --------------------------------------------------------------------------------


def check_training(context: CheckContext, precision: str) -> Iterator[CheckRow]:
    """Check that the example learns on the chosen device in this precision."""
    name = "training" if precision == "float32" else precision
    folder, run_exit = context.train_job(name, EXAMPLE, precision=precision, epochs=10)
    require_finished(run_exit)
    from backend.training.checkpoint import load_checkpoint

    accuracy = read_json(folder.status)["metrics"]["validation/accuracy"] or 0.0
    environment = read_json(folder.attempt(1).environment)
    checkpoint_name = read_json(folder.latest)["name"]
    scale = load_checkpoint(folder.checkpoints / f"{checkpoint_name}.pt")["scaler"].get("scale", 0)
    has_passed = (
        accuracy >= 0.9
        and bool(scale) == (precision == "float16")
        and bool(environment["cuda"]) == bool(context.gpu)
    )
    remark = f"CUDA {environment['cuda'] or '–'}, loss scale {scale:g}"
    yield CheckRow(
        name, has_passed, f"{accuracy:.1%}", f"The example on {environment['device']}; {remark}."
    )


def check_pin(context: CheckContext) -> Iterator[CheckRow]:
    """Check that a rank sees only the GPU that its job names, and the agent finds it there."""
    seen_uuids: set[str] = set()

    def observe(tag: str) -> None:
        for gpu in context.read_gpus():
            if any(process.run_tag == tag for process in gpu.processes):
                seen_uuids.add(gpu.uuid)

    variables = {"STEPS": "10", "PAUSE_S": "0.3"}
    folder, run_exit = context.train_job("pin", observe=observe, environment=variables, **_ONCE)
    require_finished(run_exit)
    log = folder.rank_log(0).read_text(errors="replace")
    rank_line = next(
        (line for line in log.splitlines() if line.startswith("SEES")), "it prints nothing"
    )
    remark = (
        f"The rank: {rank_line}. The agent sees it on {', '.join(sorted(seen_uuids)) or 'no GPU'}."
    )
    has_passed = seen_uuids == {context.gpu} and rank_line == f"SEES {context.gpu} 1"
    yield CheckRow("pin by UUID", has_passed, f"{len(seen_uuids)} GPU", remark)


def check_out_of_memory(context: CheckContext) -> Iterator[CheckRow]:
    variables = {"STEPS": "10", "EXTRA_BYTES": str(1 << 47)}
    _, run_exit = context.train_job("memory", environment=variables, **_ONCE)
    remark = run_exit.error.message if run_exit.error else run_exit.message
    cause = "Out of GPU memory" if context.gpu else "The node is out of memory"
    has_passed = remark.startswith(f"{cause}. Try batch size 16 instead of 32.")
    yield CheckRow("out of memory", has_passed, run_exit.state.value, remark)


# --- readings --------------------------------------------------------------------------------

QUERY: dict[str, tuple[str, float, float]] = {
    "name": ("name", 0, 0),
    "index": ("index", 0, 0),
    "memory.total": ("memory_total_bytes", 2, 0),
    "memory.used": ("memory_used_bytes", 8, 0),
    "utilization.gpu": ("use_percent", 100, 0),
    "temperature.gpu": ("temperature_c", 3, 0),
    "power.draw": ("power_w", 10, 0.2),
    "enforced.power.limit": ("power_limit_w", 1, 0),
    "clocks.sm": ("sm_clock_mhz", 30, 0.05),
    "clocks.max.sm": ("max_sm_clock_mhz", 0, 0),
    "clocks.mem": ("memory_clock_mhz", 30, 0.05),
    "clocks.max.mem": ("max_memory_clock_mhz", 0, 0),
    "fan.speed": ("fan_percent", 5, 0),
    "pstate": ("performance_state", 0, 0),
    "pcie.link.gen.current": ("pcie_generation", 0, 0),
    "pcie.link.gen.max": ("max_pcie_generation", 0, 0),
    "pcie.link.width.current": ("pcie_width", 0, 0),
    "pcie.link.width.max": ("max_pcie_width", 0, 0),
    "ecc.errors.corrected.volatile.total": ("ecc_corrected", 0, 0),
    "ecc.errors.uncorrected.volatile.total": ("ecc_uncorrected", 0, 0),
    "ecc.errors.corrected.aggregate.total": ("ecc_corrected_ever", 0, 0),
    "ecc.errors.uncorrected.aggregate.total": ("ecc_uncorrected_ever", 0, 0),
    "mig.mode.current": ("mig_enabled", 0, 0),
}
"""Field of ``nvidia-smi``: that of the agent, and how much they may differ (absolute, share).

Values without a name in nvidia-smi that all drivers know are left out: energy, clock event reasons,
remapped rows.
"""
_WORD_VALUES = {"Enabled": 1.0, "Disabled": 0.0}


def query_smi(context: CheckContext, kind: str, fields: Sequence[str]) -> list[dict[str, str]]:
    command = [
        context.smi,
        f"--query-{kind}={','.join(fields)}",
        "--format=csv,noheader,nounits",
    ]
    completed = subprocess.run(
        command, env=context.environment, capture_output=True, text=True, timeout=60
    )
    lines = csv.reader(completed.stdout.splitlines(), skipinitialspace=True)
    rows = [dict(zip(fields, line, strict=True)) for line in lines if len(line) == len(fields)]
    # It ends with 14 and valid rows if one GPU's infoROM is damaged.
    if completed.returncode and not rows:
        raise CheckFailed(
            f"nvidia-smi refused: {(completed.stdout + completed.stderr).strip()[:200]}"
        )
    return rows


def smi_value(text: str) -> float | str | None:
    """Return a word of nvidia-smi as the agent has it; None for a value that the driver lacks."""
    if text.startswith("[") or text in ("", "N/A"):
        return None
    try:
        return _WORD_VALUES[text] if text in _WORD_VALUES else float(text[text[0] == "P" :])
    except ValueError:  # a word
        return text


def agrees(
    smi_reading: float | str | None, agent_readings: Sequence[Any], tolerance: float
) -> bool:
    """Return whether nvidia-smi's value lies between two of the agent, or close enough to them."""
    if not isinstance(smi_reading, float) or None in agent_readings:
        return smi_reading in agent_readings
    return bool(min(agent_readings) - tolerance <= smi_reading <= max(agent_readings) + tolerance)


def differences(
    smi: Mapping[str, str], process_memory: Mapping[int, str], gpu_readings: Sequence[Gpu]
) -> Iterator[tuple[str, str]]:
    """Yield fields of one GPU that differ in nvidia-smi and in the agent, before and after; and
    how.

    ``process_memory`` is that of each process that nvidia-smi sees on the GPU.
    """
    for name, (attribute, tolerance, share) in QUERY.items():
        agent_values = [getattr(gpu, attribute) for gpu in gpu_readings]
        value = smi_value(smi[name])
        if attribute.endswith("_bytes"):
            agent_values = [
                None if element is None else element / 2**20 for element in agent_values
            ]
        tolerance += share * value if isinstance(value, float) else 0
        if not agrees(value, agent_values, tolerance):
            yield name, f"{name} is {smi[name]} for nvidia-smi and {agent_values[-1]} for the agent"
    # Without the holder that no tool lists.
    pids = [
        sorted(element.pid for element in gpu.compute_processes if element.pid)
        for gpu in gpu_readings
    ]
    if sorted(process_memory) not in pids:
        yield (
            "processes",
            f"processes are {sorted(process_memory)} for nvidia-smi, {pids[-1]} for the agent",
        )
    for process in gpu_readings[-1].compute_processes:
        mib = None if process.memory_bytes is None else process.memory_bytes / 2**20
        smi_memory = smi_value(process_memory.get(process.pid, ""))
        if process.pid in process_memory and not agrees(smi_memory, [mib], 8):
            yield f"process {process.pid}", f"process {process.pid} has {smi_memory} MiB and {mib}"


def check_readings(context: CheckContext, tries: int = 4) -> Iterator[CheckRow]:
    """Each field agrees in some try: values that move agree soon, a wrong reading never does."""
    lasting_differences: dict[tuple[str, str], str] | None = None
    for _ in range(tries):
        first_gpus = context.read_gpus(2)
        by_uuid = {line["uuid"]: line for line in query_smi(context, "gpu", ("uuid", *QUERY))}
        apps = query_smi(context, "compute-apps", ("gpu_uuid", "pid", "used_memory"))
        last_gpus = context.read_gpus(_SLOW_READINGS)
        if by_uuid.keys() != {gpu.uuid for gpu in first_gpus}:
            raise CheckFailed(f"nvidia-smi lists {len(by_uuid)} GPUs, and the agent reads others.")
        try_differences = {}
        for gpu_readings in zip(first_gpus, last_gpus, strict=True):
            uuid = gpu_readings[0].uuid
            process_memory = {
                int(app["pid"]): app["used_memory"] for app in apps if app["gpu_uuid"] == uuid
            }
            for name, difference in differences(by_uuid[uuid], process_memory, gpu_readings):
                try_differences[uuid, name] = f"GPU {gpu_readings[0].index}: {difference}"
        lasting_differences = {
            key: difference
            for key, difference in try_differences.items()
            if lasting_differences is None or key in lasting_differences
        }
        if not lasting_differences:
            break
    message = "; ".join((lasting_differences or {}).values()) or "The agent and nvidia-smi agree"
    figure = f"{len(lasting_differences or ())} of {(len(QUERY) + 2) * len(first_gpus)} differ"
    yield CheckRow("readings", not lasting_differences, figure, f"{message}.")


@contextmanager
def hold_gpu_memory(context: CheckContext) -> Iterator[int]:
    """A process outside any job that has half a GiB of the GPU; yields its pid."""
    code = "import sys, torch; held = torch.zeros(1 << 29, dtype=torch.uint8, device='cuda'); "
    code += "print('ready', flush=True); sys.stdin.read()"
    gpu_context = replace(
        context, environment={**context.environment, "CUDA_VISIBLE_DEVICES": context.gpu}
    )
    with gpu_context.python_process(
        "-c", code, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        if not process.stdout or process.stdout.readline() != "ready\n":
            raise CheckFailed("The process that should hold memory of the GPU ended at once.")
        yield process.pid


def check_foreign_process(context: CheckContext, pid: int) -> Iterator[CheckRow]:
    """Check that the agent names the process on the GPU, and that it belongs to no job."""
    (gpu,) = (gpu for gpu in context.read_gpus(2) if gpu.uuid == context.gpu)
    own_processes = [process for process in gpu.foreign_processes() if process.pid == pid]
    owners = "; ".join(process.owner_label for process in gpu.compute_processes) or "nobody"
    mib = sum(process.memory_bytes or 0 for process in own_processes) >> 20
    owner = owner_of(os.getpid()).user
    has_passed = mib >= 512 and [
        (own_process.user, own_process.run_tag) for own_process in own_processes
    ] == [(owner, "")]
    message = f"Process {pid} of {owner} is on the GPU; the agent sees {owners}."
    yield CheckRow("foreign process", has_passed, f"{mib} MiB", message)


def check_with_foreign_process(context: CheckContext) -> Iterator[CheckRow]:
    """Compare the readings while there is a process to compare."""
    with ExitStack() as exit_stack:
        yield from run_check(
            "foreign process",
            lambda: check_foreign_process(
                context, exit_stack.enter_context(hold_gpu_memory(context))
            ),
        )
        yield from run_check("readings", lambda: check_readings(context))


# --- the cost of a step ----------------------------------------------------------------------


@dataclass(frozen=True)
class StepTiming:
    """One timed run: milliseconds of a step, and how busy the agent saw the GPU meanwhile."""

    step_ms: float
    busy_percent: float | None


def time_steps(context: CheckContext, name: str, steps: int, is_bare: bool) -> StepTiming:
    stopwatch, load = context.folder / f"stopwatch-{name}", context.load
    variables = {
        "STOPWATCH": str(stopwatch),
        "STEPS": str(steps),
        "WARM": str(_WARM_STEPS),
        "OMP_NUM_THREADS": "1",
    }
    variables |= {"WIDTH": str(load.width), "DEPTH": str(load.depth), "BATCH": str(load.batch)}
    busy_percents: list[int] = []

    def observe(_tag: str = "") -> None:
        # NVML's figure is a mean of up to a second: the first ones include the time before.
        marks = stopwatch.read_text().count("\n") if stopwatch.exists() else 0
        if context.gpu and marks == 1 and time.time() > stopwatch.stat().st_mtime + 1:
            busy_percents.extend(
                gpu.use_percent or 0 for gpu in context.read_gpus() if gpu.uuid == context.gpu
            )

    if is_bare:
        folders = f"{SOURCES}/model:{SOURCES}/loader:{context.environment['PYTHONPATH']}"
        variables |= {"PYTHONPATH": folders, "CUDA_VISIBLE_DEVICES": context.gpu}
        bare_context = replace(context, environment={**context.environment, **variables})
        with bare_context.python_process(
            str(SOURCES / "bare_loop.py"), stdout=subprocess.DEVNULL
        ) as process:
            bare_context.observe_until_end(process, observe)
        if process.returncode:
            raise CheckFailed(f"The bare loop exited with code {process.returncode}.")
    else:
        changes = {**_ONCE, "batch_size": load.batch, "loader_workers": 2}
        require_finished(
            context.train_job(name, observe=observe, environment=variables, **changes)[1]
        )
    started_s, ended_s = map(float, stopwatch.read_text().split())
    step_ms = (ended_s - started_s) * 1e3 / (steps - _WARM_STEPS)
    return StepTiming(step_ms, statistics.mean(busy_percents) if busy_percents else None)


def check_steps(context: CheckContext) -> Iterator[CheckRow]:
    """Run the same model and loader in a bare loop and in a job, alternately."""
    trial = time_steps(context, "trial", 3 * _WARM_STEPS, is_bare=True)
    steps = 2 * _WARM_STEPS + min(round(context.load.seconds * 1e3 / trial.step_ms), 5000)
    timings: dict[bool, list[StepTiming]] = {True: [], False: []}
    for number in range(context.load.pairs):
        # The first one alternates, so that a GPU that slows down favours neither.
        for is_bare in (True, False) if number % 2 else (False, True):
            name = f"{'bare' if is_bare else 'job'}-{number}"
            timings[is_bare].append(time_steps(context, name, steps, is_bare))
    yield from compare_steps(timings[True], timings[False])


def compare_steps(
    bare_timings: Sequence[StepTiming], job_timings: Sequence[StepTiming]
) -> Iterator[CheckRow]:
    pairs = zip(bare_timings, job_timings, strict=True)
    overhead = statistics.median(
        job_timing.step_ms / bare_timing.step_ms - 1 for bare_timing, job_timing in pairs
    )
    times = [
        statistics.median(timing.step_ms for timing in timings)
        for timings in (bare_timings, job_timings)
    ]
    remark = f"A step takes {times[0]:.2f} ms in a bare loop and {times[1]:.2f} ms in a job."
    yield CheckRow("step time", overhead <= OVERHEAD, f"{overhead:+.2%}", remark)
    if any(timing.busy_percent is None for timing in (*bare_timings, *job_timings)):
        raise CheckFailed("The agent reported no use of the GPU while steps were timed.")
    busy = [
        statistics.median(timing.busy_percent or 0 for timing in timings)
        for timings in (bare_timings, job_timings)
    ]
    remark = f"The GPU is busy for {busy[0]:.0f} % of a bare loop and {busy[1]:.0f} % of a job."
    yield CheckRow("GPU use", min(busy) >= BUSY_PERCENT, f"{busy[1]:.0f} %", remark)


# --- the table -------------------------------------------------------------------------------


def check_machine(context: CheckContext) -> Iterator[CheckRow]:
    """Check PyTorch with CUDA, the imports of jobs, and a GPU that the agent reads."""
    if missing_packages := list_missing():
        raise CheckFailed(
            f"{sys.executable} lacks {', '.join(missing_packages)}: give --wheels a folder of it."
        )
    names = ", ".join(gpu.name for gpu in context.read_gpus())
    code = "import torch; print(torch.__version__, torch.version.cuda, torch.cuda.is_available())"
    with context.python_process("-c", code, stdout=subprocess.PIPE) as process:
        output = process.communicate()[0].strip()
    yield CheckRow("machine", output.endswith("True"), f"torch {output or '–'}", f"{names}.")


def list_missing() -> list[str]:
    return [package for module, package in MODULES.items() if not is_installed(module)]


def is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # its parent package
        return False


def run_check(name: str, check: Callable[[], Iterable[CheckRow]]) -> Iterator[CheckRow]:
    """Return the rows of a check; one that raises is a failure with its reason."""
    try:
        yield from check()
    except CheckFailed as error:
        yield CheckRow(name, False, "–", str(error))
    except Exception as error:  # noqa: BLE001 - the other checks continue after any error
        yield CheckRow(name, False, "–", f"{type(error).__name__}: {error}")


def check_all(context: CheckContext) -> Iterator[CheckRow]:
    checks: dict[str, Callable[[], Iterable[CheckRow]]] = {
        "foreign process, readings": lambda: check_with_foreign_process(context),
        "training": lambda: check_training(context, "float32"),
        "bfloat16": lambda: check_training(context, "bfloat16"),
        "float16": lambda: check_training(context, "float16"),
        "pin by UUID": lambda: check_pin(context),
        "out of memory": lambda: check_out_of_memory(context),
        "steps": lambda: check_steps(context),
    }
    with context.running_agent():
        yield from run_check("machine", lambda: check_machine(context))
        try:
            # The last one, because CUDA takes the first if none is chosen.
            context.gpu = context.gpu or context.read_gpus()[-1].uuid
        except CheckFailed as error:
            yield from (CheckRow(name, False, "–", str(error)) for name in checks)
            return
        for name, check in checks.items():
            yield from run_check(name, check)


def format_table(rows: Sequence[CheckRow]) -> str:
    name, figure = (
        max(len(getattr(row, column)) for row in rows) for column in ("check", "figure")
    )
    return "".join(
        f"{'pass' if row.has_passed else 'FAIL'}  {row.check:{name}}  {row.figure:>{figure}}  "
        f"{row.message}\n"
        for row in rows
    )


def unpack_wheels(wheels: Path, folder: Path) -> None:
    """Unpack what this Python lacks where it and the processes that it starts find it."""
    # Without --no-deps, pip with --target wants the dependencies in the folder, too, even if they
    # are installed.
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    command += ["--find-links", str(wheels), "--target", str(folder)]
    subprocess.run([*command, *list_missing()], check=False)
    sys.path.append(str(folder))
    os.environ["PYTHONPATH"] += f":{folder}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="installers/gpu-check", description=__doc__)
    parser.add_argument("--wheels", type=Path, help="folder with wheels that this Python lacks")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="gpu-check-", ignore_cleanup_errors=True) as folder:
        if options.wheels and list_missing():
            unpack_wheels(options.wheels, Path(folder, "packages"))
        rows = []
        for row in check_all(CheckContext(Path(folder))):
            sys.stderr.write(f"{row.check}: {'pass' if row.has_passed else 'FAIL'}\n")
            rows.append(row)
    sys.stdout.write(format_table(rows))
    return 0 if all(row.has_passed for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
