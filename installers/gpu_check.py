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
from backend.launch import mpirun, placement
from backend.node.system.process_info import owner_of
from backend.records.base.atomic_files import read_json, replace_json
from backend.records.base.layout import DataRoot, JobFolder, NodeFolder, run_tag
from backend.records.jobs.config import parse_job
from backend.records.jobs.launch import Launch
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


class Failed(Exception):
    """Why a check did not pass, as a sentence."""


@dataclass(frozen=True)
class Row:
    check: str
    passed: bool
    figure: str
    sentence: str


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
    end: float = field(default_factory=lambda: time.monotonic() + LIMIT_S)

    @contextmanager
    def process(self, *words: str, **options: Any) -> Iterator[subprocess.Popen[str]]:
        """A Python of this environment that ends with the block."""
        command = [sys.executable, *words]
        environment = dict(self.environment)
        with subprocess.Popen(command, env=environment, text=True, cwd="/", **options) as process:
            try:
                yield process
            finally:
                process.terminate()

    def see_through(self, process: subprocess.Popen[str], observe: Callable[[], None]) -> None:
        """Call ``observe`` repeatedly until the process has ended."""
        while process.poll() is None:
            if time.monotonic() > self.end:
                raise Failed("The time for all checks was over before it ended.")
            observe()
            time.sleep(0.05)

    @contextmanager
    def agent(self) -> Iterator[None]:
        words = ["--name", "gpu-check", "--interval", "0.2"]
        for option, folder in (("--folder", "node"), ("--data-root", "root")):
            (self.folder / folder).mkdir()
            words += [option, str(self.folder / folder)]
        with self.process("-m", "backend.node.agent.agent", *words):
            yield

    def gpus(self, readings: int = 0) -> tuple[Gpu, ...]:
        """Return the GPUs as the agent reads them after this many readings."""
        first = None
        end = min(self.end, time.monotonic() + 60)
        while time.monotonic() < end:
            time.sleep(0.02)
            try:
                status = read_json(NodeFolder(self.folder / "node").status)
            except (OSError, ValueError):  # not written yet
                continue
            found = NodeReading.from_dict(status)
            first = found.heartbeat if first is None else first
            if found.heartbeat >= first + readings:
                if not found.gpus:
                    raise Failed(f"The agent reads no GPU. {found.gpu_message}.")
                return found.gpus
        raise Failed("The agent wrote no reading.")

    def train(
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
        where = {"gpus": [self.gpu]} if self.gpu else {"processes": 1}
        raw = tomllib.loads((EXAMPLE / "job.toml").read_text())
        raw |= {"strategy": {"name": "alone"}, "placement": [{"node": THIS_COMPUTER, **where}]}
        parsed = parse_job(raw | changes)
        if (config := parsed.config) is None:
            raise Failed(f"The job cannot be used: {parsed.errors[0].message}")
        room = placement.this_computer(usable_cores(), (self.gpu,))
        plans = placement.rank_plans(config, [room])
        job, python = str(folder.path), sys.executable
        launch = Launch(
            job_id=folder.job_id,
            run=1,
            config=config,
            argv=mpirun.command(config, plans, job_folder=job, run=1, python=python),
            ranks=plans,
            model_source=str(source / "model"),
            loader_source=str(source / "loader"),
            dataset_files=str(source / "dataset"),
            environment=mpirun.environment(
                config, job_id=folder.job_id, run=1, code_root=self.environment["PYTHONPATH"]
            ),
        )
        replace_json(folder.launch, launch.to_dict())
        replace_json(folder.status, RunStatus(JobState.STARTING, run=1).to_dict())
        words = ("-m", "backend.node.run.supervisor", "--job", job, "--run", "1")
        with self.process(*words) as supervisor:
            self.see_through(supervisor, lambda: observe(run_tag(folder.job_id, 1)))
        return folder, RunExit.from_dict(read_json(folder.attempt(1).exit))


def require(ended: RunExit) -> None:
    if ended.state is not JobState.FINISHED:
        remark = ended.error.message if ended.error else ended.message
        raise Failed(f"The job ended as {ended.state.value}: {remark}")


# --- training --------------------------------------------------------------------------------


def check_training(context: CheckContext, precision: str) -> Iterator[Row]:
    """Check that the example learns on the chosen device in this precision."""
    name = "training" if precision == "float32" else precision
    folder, ended = context.train(name, EXAMPLE, precision=precision, epochs=10)
    require(ended)
    from backend.training.checkpoint import load_checkpoint

    accuracy = read_json(folder.status)["metrics"]["validation/accuracy"] or 0.0
    made_with = read_json(folder.attempt(1).environment)
    newest = read_json(folder.latest)["name"]
    scale = load_checkpoint(folder.checkpoints / f"{newest}.pt")["scaler"].get("scale", 0)
    passed = (
        accuracy >= 0.9
        and bool(scale) == (precision == "float16")
        and bool(made_with["cuda"]) == bool(context.gpu)
    )
    remark = f"CUDA {made_with['cuda'] or '–'}, loss scale {scale:g}"
    yield Row(name, passed, f"{accuracy:.1%}", f"The example on {made_with['device']}; {remark}.")


def check_pin(context: CheckContext) -> Iterator[Row]:
    """Check that a rank sees only the GPU that its job names, and the agent finds it there."""
    seen: set[str] = set()

    def observe(tag: str) -> None:
        for gpu in context.gpus():
            if any(process.run_tag == tag for process in gpu.processes):
                seen.add(gpu.uuid)

    variables = {"STEPS": "10", "PAUSE_S": "0.3"}
    folder, ended = context.train("pin", observe=observe, environment=variables, **_ONCE)
    require(ended)
    log = folder.rank_log(0).read_text(errors="replace")
    sees = next((line for line in log.splitlines() if line.startswith("SEES")), "it prints nothing")
    remark = f"The rank: {sees}. The agent sees it on {', '.join(sorted(seen)) or 'no GPU'}."
    passed = seen == {context.gpu} and sees == f"SEES {context.gpu} 1"
    yield Row("pin by UUID", passed, f"{len(seen)} GPU", remark)


def check_out_of_memory(context: CheckContext) -> Iterator[Row]:
    variables = {"STEPS": "10", "EXTRA_BYTES": str(1 << 47)}
    _, ended = context.train("memory", environment=variables, **_ONCE)
    remark = ended.error.message if ended.error else ended.message
    which = "Out of GPU memory" if context.gpu else "The node is out of memory"
    passed = remark.startswith(f"{which}. Try batch size 16 instead of 32.")
    yield Row("out of memory", passed, ended.state.value, remark)


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
_WORDS = {"Enabled": 1.0, "Disabled": 0.0}


def ask_smi(context: CheckContext, kind: str, fields: Sequence[str]) -> list[dict[str, str]]:
    command = [
        context.smi,
        f"--query-{kind}={','.join(fields)}",
        "--format=csv,noheader,nounits",
    ]
    done = subprocess.run(
        command, env=context.environment, capture_output=True, text=True, timeout=60
    )
    lines = csv.reader(done.stdout.splitlines(), skipinitialspace=True)
    rows = [dict(zip(fields, line, strict=True)) for line in lines if len(line) == len(fields)]
    # It ends with 14 and valid rows if one GPU's infoROM is damaged.
    if done.returncode and not rows:
        raise Failed(f"nvidia-smi refused: {(done.stdout + done.stderr).strip()[:200]}")
    return rows


def smi_value(text: str) -> float | str | None:
    """Return a word of nvidia-smi as the agent has it; None for a value that the driver lacks."""
    if text.startswith("[") or text in ("", "N/A"):
        return None
    try:
        return _WORDS[text] if text in _WORDS else float(text[text[0] == "P" :])
    except ValueError:  # a word
        return text


def agrees(of_smi: float | str | None, of_agent: Sequence[Any], within: float) -> bool:
    """Return whether nvidia-smi's value lies between two of the agent, or close enough to them."""
    if not isinstance(of_smi, float) or None in of_agent:
        return of_smi in of_agent
    return bool(min(of_agent) - within <= of_smi <= max(of_agent) + within)


def differences(
    smi: Mapping[str, str], on_it: Mapping[int, str], both: Sequence[Gpu]
) -> Iterator[tuple[str, str]]:
    """Yield fields of one GPU that differ in nvidia-smi and in the agent, before and after; and
    how.

    ``on_it`` has the memory of each process that nvidia-smi sees on the GPU.
    """
    for name, (attribute, within, share) in QUERY.items():
        mine = [getattr(gpu, attribute) for gpu in both]
        value = smi_value(smi[name])
        if attribute.endswith("_bytes"):
            mine = [None if one is None else one / 2**20 for one in mine]
        within += share * value if isinstance(value, float) else 0
        if not agrees(value, mine, within):
            yield name, f"{name} is {smi[name]} for nvidia-smi and {mine[-1]} for the agent"
    # Without the holder that no tool lists.
    pids = [sorted(one.pid for one in gpu.compute_processes if one.pid) for gpu in both]
    if sorted(on_it) not in pids:
        yield "processes", f"processes are {sorted(on_it)} for nvidia-smi, {pids[-1]} for the agent"
    for process in both[-1].compute_processes:
        mib = None if process.memory_bytes is None else process.memory_bytes / 2**20
        theirs = smi_value(on_it.get(process.pid, ""))
        if process.pid in on_it and not agrees(theirs, [mib], 8):
            yield f"process {process.pid}", f"process {process.pid} has {theirs} MiB and {mib}"


def check_readings(context: CheckContext, tries: int = 4) -> Iterator[Row]:
    """Each field agrees in some try: values that move agree soon, a wrong reading never does."""
    wrong: dict[tuple[str, str], str] | None = None
    for _ in range(tries):
        before = context.gpus(2)
        by_uuid = {line["uuid"]: line for line in ask_smi(context, "gpu", ("uuid", *QUERY))}
        apps = ask_smi(context, "compute-apps", ("gpu_uuid", "pid", "used_memory"))
        after = context.gpus(_SLOW_READINGS)
        if by_uuid.keys() != {gpu.uuid for gpu in before}:
            raise Failed(f"nvidia-smi lists {len(by_uuid)} GPUs, and the agent reads others.")
        found = {}
        for both in zip(before, after, strict=True):
            uuid = both[0].uuid
            on_it = {int(app["pid"]): app["used_memory"] for app in apps if app["gpu_uuid"] == uuid}
            for name, how in differences(by_uuid[uuid], on_it, both):
                found[uuid, name] = f"GPU {both[0].index}: {how}"
        wrong = {key: how for key, how in found.items() if wrong is None or key in wrong}
        if not wrong:
            break
    all_wrong = "; ".join((wrong or {}).values()) or "The agent and nvidia-smi agree"
    figure = f"{len(wrong or ())} of {(len(QUERY) + 2) * len(before)} differ"
    yield Row("readings", not wrong, figure, f"{all_wrong}.")


@contextmanager
def hold(context: CheckContext) -> Iterator[int]:
    """A process outside any job that has half a GiB of the GPU; yields its pid."""
    code = "import sys, torch; held = torch.zeros(1 << 29, dtype=torch.uint8, device='cuda'); "
    code += "print('ready', flush=True); sys.stdin.read()"
    other = replace(
        context, environment={**context.environment, "CUDA_VISIBLE_DEVICES": context.gpu}
    )
    with other.process("-c", code, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        if not process.stdout or process.stdout.readline() != "ready\n":
            raise Failed("The process that should hold memory of the GPU ended at once.")
        yield process.pid


def check_foreign_process(context: CheckContext, pid: int) -> Iterator[Row]:
    """Check that the agent names the process on the GPU, and that it belongs to no job."""
    (gpu,) = (gpu for gpu in context.gpus(2) if gpu.uuid == context.gpu)
    mine = [process for process in gpu.foreign_processes() if process.pid == pid]
    who = "; ".join(process.owner_label for process in gpu.compute_processes) or "nobody"
    mib = sum(process.memory_bytes or 0 for process in mine) >> 20
    owner = owner_of(os.getpid()).user
    passed = mib >= 512 and [(one.user, one.run_tag) for one in mine] == [(owner, "")]
    seen = f"Process {pid} of {owner} is on the GPU; the agent sees {who}."
    yield Row("foreign process", passed, f"{mib} MiB", seen)


def check_with_foreign_process(context: CheckContext) -> Iterator[Row]:
    """Compare the readings while there is a process to compare."""
    with ExitStack() as held:
        yield from attempt(
            "foreign process",
            lambda: check_foreign_process(context, held.enter_context(hold(context))),
        )
        yield from attempt("readings", lambda: check_readings(context))


# --- the cost of a step ----------------------------------------------------------------------


@dataclass(frozen=True)
class Steps:
    """One timed run: milliseconds of a step, and how busy the agent saw the GPU meanwhile."""

    step_ms: float
    busy_percent: float | None


def timed(context: CheckContext, name: str, steps: int, is_bare: bool) -> Steps:
    stopwatch, load = context.folder / f"stopwatch-{name}", context.load
    variables = {
        "STOPWATCH": str(stopwatch),
        "STEPS": str(steps),
        "WARM": str(_WARM_STEPS),
        "OMP_NUM_THREADS": "1",
    }
    variables |= {"WIDTH": str(load.width), "DEPTH": str(load.depth), "BATCH": str(load.batch)}
    busy: list[int] = []

    def observe(_tag: str = "") -> None:
        # NVML's figure is a mean of up to a second: the first ones include the time before.
        marks = stopwatch.read_text().count("\n") if stopwatch.exists() else 0
        if context.gpu and marks == 1 and time.time() > stopwatch.stat().st_mtime + 1:
            busy.extend(gpu.use_percent or 0 for gpu in context.gpus() if gpu.uuid == context.gpu)

    if is_bare:
        folders = f"{SOURCES}/model:{SOURCES}/loader:{context.environment['PYTHONPATH']}"
        variables |= {"PYTHONPATH": folders, "CUDA_VISIBLE_DEVICES": context.gpu}
        other = replace(context, environment={**context.environment, **variables})
        with other.process(str(SOURCES / "bare_loop.py"), stdout=subprocess.DEVNULL) as process:
            other.see_through(process, observe)
        if process.returncode:
            raise Failed(f"The bare loop exited with code {process.returncode}.")
    else:
        changes = {**_ONCE, "batch_size": load.batch, "loader_workers": 2}
        require(context.train(name, observe=observe, environment=variables, **changes)[1])
    began, ended = map(float, stopwatch.read_text().split())
    step_ms = (ended - began) * 1e3 / (steps - _WARM_STEPS)
    return Steps(step_ms, statistics.mean(busy) if busy else None)


def check_steps(context: CheckContext) -> Iterator[Row]:
    """Run the same model and loader in a bare loop and in a job, alternately."""
    trial = timed(context, "trial", 3 * _WARM_STEPS, is_bare=True)
    steps = 2 * _WARM_STEPS + min(round(context.load.seconds * 1e3 / trial.step_ms), 5000)
    sides: dict[bool, list[Steps]] = {True: [], False: []}
    for number in range(context.load.pairs):
        # The first one alternates, so that a GPU that slows down favours neither.
        for bare in (True, False) if number % 2 else (False, True):
            name = f"{'bare' if bare else 'job'}-{number}"
            sides[bare].append(timed(context, name, steps, bare))
    yield from judge_steps(sides[True], sides[False])


def judge_steps(bare: Sequence[Steps], job: Sequence[Steps]) -> Iterator[Row]:
    pairs = zip(bare, job, strict=True)
    added = statistics.median(ours.step_ms / theirs.step_ms - 1 for theirs, ours in pairs)
    times = [statistics.median(one.step_ms for one in side) for side in (bare, job)]
    remark = f"A step takes {times[0]:.2f} ms in a bare loop and {times[1]:.2f} ms in a job."
    yield Row("step time", added <= OVERHEAD, f"{added:+.2%}", remark)
    if any(one.busy_percent is None for one in (*bare, *job)):
        raise Failed("The agent reported no use of the GPU while steps were timed.")
    busy = [statistics.median(one.busy_percent or 0 for one in side) for side in (bare, job)]
    remark = f"The GPU is busy for {busy[0]:.0f} % of a bare loop and {busy[1]:.0f} % of a job."
    yield Row("GPU use", min(busy) >= BUSY_PERCENT, f"{busy[1]:.0f} %", remark)


# --- the table -------------------------------------------------------------------------------


def check_machine(context: CheckContext) -> Iterator[Row]:
    """Check PyTorch with CUDA, the imports of jobs, and a GPU that the agent reads."""
    if lacks := missing():
        raise Failed(f"{sys.executable} lacks {', '.join(lacks)}: give --wheels a folder of it.")
    names = ", ".join(gpu.name for gpu in context.gpus())
    ask = "import torch; print(torch.__version__, torch.version.cuda, torch.cuda.is_available())"
    with context.process("-c", ask, stdout=subprocess.PIPE) as process:
        said = process.communicate()[0].strip()
    yield Row("machine", said.endswith("True"), f"torch {said or '–'}", f"{names}.")


def missing() -> list[str]:
    return [package for module, package in MODULES.items() if not is_there(module)]


def is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # its parent package
        return False


def attempt(name: str, check: Callable[[], Iterable[Row]]) -> Iterator[Row]:
    """Return the rows of a check; one that raises is a failure with its reason."""
    try:
        yield from check()
    except Failed as error:
        yield Row(name, False, "–", str(error))
    except Exception as error:  # noqa: BLE001 - the other checks continue after any error
        yield Row(name, False, "–", f"{type(error).__name__}: {error}")


def check_all(context: CheckContext) -> Iterator[Row]:
    checks: dict[str, Callable[[], Iterable[Row]]] = {
        "foreign process, readings": lambda: check_with_foreign_process(context),
        "training": lambda: check_training(context, "float32"),
        "bfloat16": lambda: check_training(context, "bfloat16"),
        "float16": lambda: check_training(context, "float16"),
        "pin by UUID": lambda: check_pin(context),
        "out of memory": lambda: check_out_of_memory(context),
        "steps": lambda: check_steps(context),
    }
    with context.agent():
        yield from attempt("machine", lambda: check_machine(context))
        try:
            # The last one, because CUDA takes the first if none is chosen.
            context.gpu = context.gpu or context.gpus()[-1].uuid
        except Failed as error:
            yield from (Row(name, False, "–", str(error)) for name in checks)
            return
        for name, check in checks.items():
            yield from attempt(name, check)


def table(rows: Sequence[Row]) -> str:
    name, figure = (max(len(getattr(one, of)) for one in rows) for of in ("check", "figure"))
    return "".join(
        f"{'pass' if one.passed else 'FAIL'}  {one.check:{name}}  {one.figure:>{figure}}  "
        f"{one.sentence}\n"
        for one in rows
    )


def unpack_wheels(wheels: Path, folder: Path) -> None:
    """Unpack what this Python lacks where it and the processes that it starts find it."""
    # Without --no-deps, pip with --target wants the dependencies in the folder, too, even if they
    # are installed.
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    command += ["--find-links", str(wheels), "--target", str(folder)]
    subprocess.run([*command, *missing()], check=False)
    sys.path.append(str(folder))
    os.environ["PYTHONPATH"] += f":{folder}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="installers/gpu-check", description=__doc__)
    parser.add_argument("--wheels", type=Path, help="folder with wheels that this Python lacks")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="gpu-check-", ignore_cleanup_errors=True) as folder:
        if given.wheels and missing():
            unpack_wheels(given.wheels, Path(folder, "packages"))
        rows = []
        for row in check_all(CheckContext(Path(folder))):
            sys.stderr.write(f"{row.check}: {'pass' if row.passed else 'FAIL'}\n")
            rows.append(row)
    sys.stdout.write(table(rows))
    return 0 if all(row.passed for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
