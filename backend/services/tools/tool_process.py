"""Run tools on users' code in their own process, with limits.

The desktop is protected from the code, which may run endlessly (a time limit), print a gigabyte
(only the end is kept), leave children in their own sessions (they carry a tag and are adopted by
the tool, a subreaper), kill itself, or be cancelled. The result is a record or an error.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, TypeVar

from backend.base import process_signals
from backend.base.errors import BackendError, as_backend_error
from backend.base.log import suppress, swallowed
from backend.base.progress import Progress
from backend.node.system import process_cleanup, process_identity
from backend.node.system.start_supervisor import own_environment
from backend.records.base.atomic_files import read_json, replace_json
from backend.records.base.layout import RUN_VARIABLE, SIDECAR_SUFFIX, TOOL_TAG
from backend.records.base.terminal_text import strip_codes
from backend.records.base.validation import sanitize
from backend.records.jobs.config import JobConfig
from backend.records.jobs.launch import Launch
from backend.records.jobs.rate_search import RateSearch
from backend.records.jobs.simulation import Simulation
from backend.records.library.preview import DataSize, ModelCheck, Preview
from backend.services.tools.result_files import partial_path, put_in_place, require_free
from backend.services.tools.training_python import training_error, training_python
from backend.services.tools.warm_process import WarmProcess

_RESULT_BYTES = 64_000_000
_OUTPUT_BYTES = 200_000
_OUTPUT_CHARACTERS = 4_000
_POLL_S = 0.05

T = TypeVar("T")


class ToolError(BackendError):
    """A user's code cannot be used, or the tool did not finish.

    Attributes:
        traceback: The traceback of the error, or "".
        output: The end of the output.
        part: "loader" if a check of a model failed in the loader, otherwise "".
        package: The name on PyPI of a missing package, or "".
        module: The name of a missing module whose package is unknown, or "".
    """

    def __init__(
        self,
        message: str,
        remedy: str = "",
        traceback: str = "",
        output: str = "",
        part: str = "",
        package: str = "",
        module: str = "",
    ) -> None:
        super().__init__(message, remedy)
        self.traceback = traceback
        self.output = output
        self.part = part
        self.package = package
        self.module = module


def preview(
    loader: Path,
    dataset: Path,
    split: str = "training",
    samples: int = 48,
    budget_s: float = 20.0,
    progress: Progress | None = None,
) -> Preview:
    """Preview a dataset with a loader; the folders are those with the user's files."""
    request = {
        "loader": str(loader),
        "dataset": str(dataset),
        "split": split,
        "samples": samples,
        "budget_s": budget_s,
    }
    return run_tool("preview", request, Preview.from_dict, "The preview", budget_s + 100, progress)


def check_model(
    model: Path,
    loader: Path | None = None,
    dataset: Path | None = None,
    time_limit_s: float = 120.0,
    progress: Progress | None = None,
) -> ModelCheck:
    """Import and build a model, and try one step if a loader and a dataset are given."""
    request = {
        "model": str(model),
        "loader": str(loader) if loader else "",
        "dataset": str(dataset) if dataset else "",
    }
    return run_tool(
        "check_model",
        request,
        ModelCheck.from_dict,
        "The check of the model",
        time_limit_s,
        progress,
    )


def count_samples(
    loader: Path,
    dataset: Path,
    validation_loader: Path | None = None,
    validation_dataset: Path | None = None,
    time_limit_s: float = 120.0,
    progress: Progress | None = None,
) -> DataSize:
    """Count the samples that a job would train and validate on."""
    request = {
        "loader": str(loader),
        "dataset": str(dataset),
        "validation_loader": str(validation_loader or ""),
        "validation_dataset": str(validation_dataset or ""),
    }
    return run_tool(
        "dataset_size", request, DataSize.from_dict, "Counting the samples", time_limit_s, progress
    )


def read_weights(path: Path, progress: Progress | None = None) -> tuple[str, ...]:
    """Read a file of weights as a job would; return the names of its other entries."""
    request = {"path": str(path.absolute())}
    return run_tool("read_weights", request, _unused_names, "Reading the weights", 600.0, progress)


def _unused_names(raw: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(sanitize(str(name), 100) for name in raw["others"])


def simulate(
    launch: Launch,
    staleness: int,
    is_random: bool,
    time_limit_s: float,
    progress: Progress | None = None,
) -> Simulation:
    """Train a job in one process with simulated staleness; its launch names the files."""
    request = {"launch": launch.to_dict(), "staleness": staleness, "random": is_random}
    return run_tool(
        "simulate", request, Simulation.from_dict, "The simulation", time_limit_s, progress
    )


def find_rate(launch: Launch, time_limit_s: float, progress: Progress | None = None) -> RateSearch:
    """Search for the learning rate of a job in one process; its launch names the files."""
    request = {"launch": launch.to_dict()}
    return run_tool(
        "find_rate",
        request,
        RateSearch.from_dict,
        "The search for the learning rate",
        time_limit_s,
        progress,
    )


def export(
    checkpoint: Path,
    export_format: str,
    output: Path,
    model: Path,
    loader: Path | None = None,
    dataset: Path | None = None,
    files: Mapping[str, str] | None = None,
    history: Path | None = None,
    time_limit_s: float = 3600.0,
    progress: Progress | None = None,
    is_live: bool = False,
) -> tuple[str, ...]:
    """Write a checkpoint to ``output`` as pt, safetensors, onnx or zip; return notes about it.

    ``checkpoint`` is the file, with its record next to it. ``loader`` and ``dataset`` are for ONNX.
    ``files`` (name -> text: ``job.toml`` from `job_file_to_share`) and ``history`` go into a zip.
    ``is_live``: the run may remove the checkpoint meanwhile. An existing file at ``output`` stays.
    """
    require_free(output)
    partial_file = partial_path(output)
    request = {
        "format": export_format,
        "partial": str(partial_file.absolute()),
        "model": str(model.absolute()),
        "loader": str(loader.absolute()) if loader else "",
        "dataset": str(dataset.absolute()) if dataset else "",
        "files": dict(files or {}),
        "history": str(history.absolute()) if history else "",
    }
    stable_checkpoint: contextlib.AbstractContextManager[Path] = contextlib.nullcontext(checkpoint)
    if is_live:
        stable_checkpoint = hold_checkpoint(checkpoint, output.parent)
    try:
        with stable_checkpoint as file:
            request["checkpoint"] = str(file.absolute())
            notes = run_tool("export", request, _notes, "The export", time_limit_s, progress)
        put_in_place(partial_file, output)
    finally:
        partial_file.unlink(missing_ok=True)
    return notes


@contextlib.contextmanager
def hold_checkpoint(checkpoint: Path, folder: Path) -> Iterator[Path]:
    """Link the checkpoint and its record in ``folder``, or copy them if links are impossible.

    The run may remove the checkpoint during an export: the import of torch takes seconds before
    the file is opened; an epoch may take less.

    Raises:
        BackendError: The checkpoint was removed already, or the disk of ``folder`` is full.
    """
    with as_backend_error(f"Nothing can be written into {folder}"):
        link_folder = tempfile.TemporaryDirectory(
            prefix=".ringmaster-", dir=folder, ignore_cleanup_errors=True
        )
    with link_folder:
        for part in (checkpoint, checkpoint.with_suffix(SIDECAR_SUFFIX)):
            _link_or_copy(part, Path(link_folder.name, part.name))
        yield Path(link_folder.name, checkpoint.name)


def _link_or_copy(part: Path, link: Path) -> None:
    try:
        os.link(part, link)
    except FileNotFoundError:
        raise BackendError(
            f"The run has just replaced the checkpoint {part.stem}.",
            "Try it again.",
        ) from None
    except OSError as error:
        swallowed(error)
        with as_backend_error(f"{part.name} cannot be copied to {link.parent.parent}"):
            shutil.copyfile(part, link)


def _notes(raw: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(note) for note in raw["notes"])


_warm_process: WarmProcess | None = None


def start_warm_process() -> None:
    """Fork the tools of this window from a process that has imported PyTorch."""
    global _warm_process
    _warm_process = _warm_process or WarmProcess()


def stop_warm_process() -> None:
    """End the process that forks the tools."""
    global _warm_process
    if _warm_process is not None:
        _warm_process.close()
    _warm_process = None


def run_tool(
    tool: str,
    request: Mapping[str, Any],
    parse: Callable[[Mapping[str, Any]], T],
    title: str,
    time_limit_s: float,
    progress: Progress | None = None,
) -> T:
    """Run ``backend.training.tools.<tool>`` and parse its result; ``title`` begins messages.

    Raises:
        ToolError: The tool failed, crashed, exceeded its limit, or there is no PyTorch here.
        Cancelled: The user cancelled; no process of the tool remains.
    """
    if (error := training_error()) is not None:
        raise ToolError(error.message, error.remedy)
    folder = Path(tempfile.mkdtemp(prefix="ringmaster-tool-"))
    try:
        with _ToolRun(tool, request, folder, title, time_limit_s) as run:
            run.wait(progress or Progress())
        return run.result(parse)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _ToolRun:
    """A running tool. Leaving the ``with`` ends all its processes."""

    def __init__(
        self, tool: str, request: Mapping[str, Any], folder: Path, title: str, time_limit_s: float
    ) -> None:
        self._title = title
        self._time_limit_s = time_limit_s
        self._tag = f"{TOOL_TAG}{secrets.token_hex(8)}"
        self._result = folder / "result.json"
        self._progress_file = folder / "progress"
        self._progress_file.touch()
        self._activity = "Starting Python"
        self._output_tail = bytearray()
        replace_json(folder / "request.json", {**request, "time_limit_s": time_limit_s})
        work_folder = folder / "work"
        work_folder.mkdir()
        python, module = training_python(), f"backend.training.tools.{tool}"
        files = [str(folder / "request.json"), str(self._result), str(self._progress_file)]
        environment = _environment(self._tag)
        forked_tool = _warm_process and _warm_process.start(
            python, module, files, work_folder, environment, [RUN_VARIABLE]
        )
        self._process = forked_tool or subprocess.Popen(
            [python, "-m", module, *files],
            cwd=work_folder,
            env=environment,
            # The tool ends when this pipe breaks, because the desktop has ended then.
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self._reader = threading.Thread(
            target=self._drain, args=(self._process.stdout,), daemon=True
        )
        self._reader.start()

    def __enter__(self) -> _ToolRun:
        return self

    def __exit__(self, *error: object) -> None:
        self._end()

    def wait(self, progress: Progress) -> None:
        """Wait until the tool has ended."""
        deadline = time.monotonic() + self._time_limit_s
        with self._progress_file.open("rb") as lines:
            while self._process.poll() is None:
                done_amount, total = self._read_progress(lines)
                progress.step(done_amount, total, self._activity)
                if time.monotonic() > deadline:
                    raise ToolError(
                        f"{self._title} did not end within {self._time_limit_s:.0f} s; "
                        f"last step: {self._activity.rstrip('…')}.",
                        "Remove any endless loop or download from the code, in particular from "
                        "what runs at import.",
                        output=self.output,
                    )
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(_POLL_S)
            self._read_progress(lines)

    def result(self, parse: Callable[[Mapping[str, Any]], T]) -> T:
        """Return the tool's result, with the end of its output."""
        try:
            reply = read_json(self._result, _RESULT_BYTES)
            if reply["ok"]:
                return parse({**reply["result"], "output": self.output})
            error = reply["error"]
            tool_error = ToolError(
                sanitize(str(error["sentence"]), 1000),
                sanitize(str(error["remedy"]), 1000),
                strip_codes(str(error["traceback"])),
                self.output,
                str(error.get("part", "")),
                sanitize(str(error.get("package", "")), 60),
                sanitize(str(error.get("module", "")), 60),
            )
        except FileNotFoundError:
            tool_error = self._exit_error()
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ToolError(
                f"{self._title} returned an unusable result: {sanitize(str(error), 200)}.",
                output=self.output,
            ) from error
        raise tool_error

    @property
    def output(self) -> str:
        """Return the end of the output."""
        return strip_codes(self._output_tail[-_OUTPUT_CHARACTERS:].decode("utf-8", "replace"))

    def _exit_error(self) -> ToolError:
        """Return the error of a process without a result."""
        code = self._process.returncode
        assert code is not None
        last_step = f"last step: {self._activity.rstrip('…')}"
        if code >= 0:
            return ToolError(
                f"{self._title} exited with code {code}; {last_step}.",
                "Find os._exit or an error in its output.",
                output=self.output,
            )
        number = -code
        name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
        if number == signal.SIGKILL:
            return ToolError(
                f"{self._title} was killed; {last_step}.",
                "The most likely cause is too little memory: try smaller data or a smaller model.",
                output=self.output,
            )
        return ToolError(
            f"{self._title} crashed Python ({name}); {last_step}.",
            "The most likely cause is a C library that the code uses; its output may have details.",
            output=self.output,
        )

    def _read_progress(self, lines: IO[bytes]) -> tuple[float, float]:
        """Read new progress; the last complete line counts."""
        done_amount = total = 0.0
        while line := lines.readline(10_000):
            if not line.endswith(b"\n"):
                lines.seek(-len(line), os.SEEK_CUR)
                break
            with suppress(ValueError, KeyError, TypeError):
                report = json.loads(line)
                self._activity = sanitize(str(report["what"]), 120)
                done_amount, total = float(report["done"]), float(report["total"])
        return done_amount, total

    def _drain(self, stream: IO[bytes]) -> None:
        with stream, suppress(OSError):
            while chunk := os.read(stream.fileno(), 1 << 16):
                self._output_tail += chunk
                if len(self._output_tail) > 2 * _OUTPUT_BYTES:
                    del self._output_tail[:-_OUTPUT_BYTES]

    def _end(self) -> None:
        """Kill the remaining processes of the tool: its children first, then the tool."""
        process = self._process
        if process.stdin is not None:
            with suppress(OSError):
                process.stdin.close()
        descendants = process_cleanup.descendants(process.pid) if process.pid is not None else ()
        # The pid of a tool that has ended may belong to another program now.
        if process.poll() is None:
            for descendant in descendants:
                process_identity.send_signal(descendant, signal.SIGKILL)
            process_signals.kill(process)
        process_cleanup.end(lambda: process_cleanup.tagged(self._tag), 0.0)
        self._reader.join(1.0)


def _environment(tag: str) -> dict[str, str]:
    return {
        # Threads that wait for each other on cores that a job keeps busy are slower than one
        # thread: 169 s against 6 s for the digits at a load of 13 on 2 cores.
        "OMP_NUM_THREADS": "1",
        **own_environment(),
        # As in the ranks of a job without a seed.
        "PYTHONHASHSEED": str(JobConfig.seed),
        "PYTHONFAULTHANDLER": "1",
        "PYTHONUNBUFFERED": "1",
        "PYTHONIOENCODING": "utf-8:replace",
        # Checking a model must not take memory from a job that trains on the GPU.
        "CUDA_VISIBLE_DEVICES": "",
        RUN_VARIABLE: tag,
    }
