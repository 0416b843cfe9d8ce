"""One process of a job with a script: start the script, beat, pass the stop on, report curves.

The guard starts this module in place of `backend.training.rank`, once for each process; the script
itself is its child, in a copy of the script's version, with the variables of ``torchrun``. It
writes to the rank's log. It makes progress while it writes a line or a byte in the output folder,
or uses processor time: the stall limit applies to a script that calls nothing of Ringmaster, and a
quiet script is not ended.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import re
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NoReturn

import psutil

from backend.base import process_signals
from backend.base.log import suppress
from backend.base.rendezvous_point import PORT_VARIABLE, SECRET_VARIABLE
from backend.records.base import number_format
from backend.records.base.atomic_files import read_json
from backend.records.base.layout import JobFolder
from backend.records.jobs import history
from backend.records.jobs.heartbeat import Phase, RankHeartbeat, report_to_guard
from backend.records.jobs.launch import Launch, RankPlan, visible_devices
from backend.records.jobs.script import (
    UNUSED_FILE,
    command_line,
    entry_args,
    fill_placeholders,
    interpreter,
    is_session,
)
from backend.records.jobs.state import JobState
from backend.records.jobs.status import BAD_CURVE, UNMATCHED, Alarm, RankError, last_status
from backend.records.jobs.stop_request import stop_requested
from backend.training.reporter import Reporter, Step
from backend.training.script_checkpoints import ScriptCheckpoints, ScriptPosition, step_of
from backend.training.script_disk import DiskWatch
from backend.training.script_metrics import Point, ScriptMetrics

STOP_VARIABLE = "RINGMASTER_STOP"
_TICK_S = 0.25
_POLL_S = 2.0
_PAUSE_FACTOR = 20
"""A reading of the curves that took a second is followed by this many seconds without one."""
_REST_S = 120.0
"""Time after the end of the script to read its log: 800,000 lines of 100 bytes on an idle core."""
_UNMATCHED_NS = 60_000_000_000
"""A script that has written none of its numbers for so long may have other names for them."""
_TERM_S = 5.0
_QUICK_TERM_S = 1.0
_IDLE_S = 10.0
"""Longer than two reports of a guard that its script works."""
_TAIL_BYTES = 16_384
_TRACEBACK = b"Traceback (most recent call last)"
_READS_RANK = re.compile(
    r"environ\[\s*[\"'](?:LOCAL_)?(?:RANK|WORLD_SIZE)[\"']|init_process_group\("
)
_CHECKS_RANK = re.compile(
    r"(?:environ\.get|getenv)\(\s*[\"'](?:LOCAL_)?(?:RANK|WORLD_SIZE)[\"']"
    r"|[\"'](?:LOCAL_)?(?:RANK|WORLD_SIZE)[\"']\s+(?:not\s+)?in\s+os\.environ"
)
_GET_ADDRESS = 0x8915  # SIOCGIFADDR of Linux


def main(arguments: list[str] | None = None) -> NoReturn:
    parser = argparse.ArgumentParser(prog="backend.training.script_rank")
    parser.add_argument("--job", type=Path, required=True)
    parser.add_argument("--run", type=int, required=True)
    options = parser.parse_args(arguments)
    beat = RankHeartbeat.inherited()
    beat.beat(Phase.SETUP)
    folder = JobFolder(options.job)
    launch = Launch.from_dict(read_json(folder.launch))
    rank = int(os.environ.get("OMPI_COMM_WORLD_RANK", "0"))
    script = Script(folder, launch, launch.ranks[rank], beat)
    code, was_stopped = script.run()
    sys.stdout.flush()
    is_late = script.aborted_at_exit(code)
    if (was_stopped or code == 0 or is_late) and not script.was_killed:
        beat.beat(Phase.INTERRUPTED if was_stopped else Phase.FINISHED)
        if was_stopped or not is_late:
            os._exit(0)
    if code < 0 and not script.was_killed:
        # The guard then names the signal that ended the script.
        number = signal.Signals(-code)
        with suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
        process_signals.send(os.getpid(), lambda: True, number)
    os._exit(max(1, code))


def copy_script(source: str, target: Path) -> None:
    """Copy a script's version, which is read-only, to a folder in which its program may write."""
    shutil.copytree(source, target)
    for folder, _, names in os.walk(target):
        for path in (folder, *(os.path.join(folder, name) for name in names)):
            os.chmod(path, os.stat(path).st_mode | 0o200)


def script_program(folder: Path, entry: str, python: str) -> list[str]:
    """Return the command that runs an entry of a script in ``folder``, without its arguments."""
    program = interpreter(folder / entry) or [python or sys.executable]
    return [*program, *entry_args(entry)]


def _needs_torchrun(folder: Path) -> bool:
    """Return whether a program reads torchrun's variables without a check that they exist.

    A program for one process and for several, such as nanoGPT, would otherwise wait for others.
    """
    text = ""
    for path in folder.rglob("*.py"):
        with suppress(OSError):
            text += path.read_text("utf-8", "replace")
    return bool(_READS_RANK.search(text)) and not _CHECKS_RANK.search(text)


class Script:
    """The script of one process, from its copy to its end."""

    def __init__(
        self, folder: JobFolder, launch: Launch, plan: RankPlan, beat: RankHeartbeat
    ) -> None:
        self._folder = folder
        self._launch = launch
        self._plan = plan
        self._beat = beat
        self._work = folder.work(launch.run, plan.node)
        self._stop_file = self._work.parent / f"stop-{plan.rank}"
        self._log = folder.rank_log(plan.rank)
        self._log_begin = _size(self._log)
        self._reports: ScriptReports | None = None
        self._log_times: object = None
        self._log_times_s = 0.0
        self._disk = DiskWatch(folder.path, self._log, None if plan.local_rank else folder.output)
        self.was_killed = False
        """Whether it was ended because it filled the disk; the guard has the reason."""

    def run(self) -> tuple[int, bool]:
        """Run the script; return its exit code as `subprocess` has it, and if it was stopped."""
        self._copy()
        command, environment = self._command(), self._environment()
        # The command, for the log; no number in it is one of the script's.
        sys.stdout.write(
            f"── {command_line(command)}\n── {self._environment_summary(environment)}\n"
        )
        sys.stdout.flush()
        if self._plan.rank == 0:
            self._reports = ScriptReports(
                *(self._folder, self._launch, self._work, self._log),
                lambda _count: self._beat.beat(Phase.RUNNING),
            )
        parent = os.getpid()
        self._beat.beat(Phase.RUNNING)
        child = subprocess.Popen(
            command,
            cwd=self._cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            preexec_fn=lambda: process_signals.die_with_parent(signal.SIGKILL, parent),
        )
        with ThreadPoolExecutor(1, "reports") as reader:
            was_stopped = self._watch(child, reader)
        code = child.wait()
        if self._reports is not None:
            self._reports.close(ended_well=code == 0)
        return code, was_stopped

    def _environment_summary(self, environment: Mapping[str, str]) -> str:
        """Return the folder and the variables that the script gets from its job.

        Variables of the job's settings are only named: their values may be secrets.
        """
        job_variables = self._launch.config.environment
        run_variables = [
            f"{name}={value}"
            for name, value in sorted(environment.items())
            if name not in job_variables
            and (name == PORT_VARIABLE or os.environ.get(name) != value)
        ]
        names = (
            f"; from the job's settings {', '.join(sorted(job_variables))}" if job_variables else ""
        )
        return f"in {shlex.quote(str(self._cwd))} with {command_line(run_variables)}{names}"

    def aborted_at_exit(self, code: int) -> bool:
        """Return whether the script had finished, and only the exit of its Python failed.

        The threads of torch's process groups do this to a script that leaves its group open.
        """
        if code != -signal.SIGABRT:
            return False
        with suppress(OSError), self._log.open("rb") as file:
            file.seek(max(self._log_begin, _size(self._log) - _TAIL_BYTES))
            output, marker, threads = file.read().rpartition(b"Fatal Python error: Aborted")
            has_finished = b"<no Python frame>" in threads and b'  File "' not in threads
            return bool(marker) and has_finished and _TRACEBACK not in output
        return False

    def _watch(self, child: subprocess.Popen[bytes], reader: Executor) -> bool:
        """Wait for the end of the script; return whether a stop was requested earlier.

        A large checkpoint, which ``reader`` hashes, must not delay a stop.
        """
        last_progress: object = None
        reports_future: Future[float] | None = None
        polled_s, reported_s, stop_s = -_POLL_S, -_POLL_S, 0.0
        while child.poll() is None:
            now_s = time.monotonic()
            if now_s >= polled_s + _POLL_S:
                polled_s = now_s
                if (progress := self._progress(child.pid)) != last_progress:
                    last_progress = progress
                    self._beat.beat(Phase.RUNNING)
                if not self.was_killed and (reason := self._disk.end_reason()):
                    self.was_killed = True
                    plan = self._plan
                    report_to_guard(
                        RankError(reason, plan.rank, plan.node, says_remedy=True).to_dict()
                    )
                    process_signals.end(child, _QUICK_TERM_S)
            if self._reports is not None and (reports_future is None or reports_future.done()):
                took_s = 0.0 if reports_future is None else reports_future.result()
                # A checkpoint has the values of the newest epoch when it was written, so the curves
                # are read as often as that costs little.
                if (is_due := now_s == polled_s) or now_s >= reported_s + _PAUSE_FACTOR * took_s:
                    report = self._reports.update if is_due else self._reports.read_curves
                    reports_future, reported_s = reader.submit(report), now_s
            # A share that is away for a while must not end the script.
            with suppress(OSError):
                if not stop_s and stop_requested(self._folder.stop_request, self._launch.run):
                    stop_s = now_s
                    self._ask_to_stop(child)
            if stop_s and now_s > stop_s + self._launch.grace_s - _TERM_S:
                process_signals.end(child, _TERM_S)
            elif stop_s and now_s == polled_s and self._all_are_idle(now_s):
                # They wait for each other: no time would help.
                process_signals.end(child, _QUICK_TERM_S)
            with suppress(subprocess.TimeoutExpired):
                child.wait(_TICK_S)
        # Processes that ended sooner by the stop may have broken this one's exchange with them.
        with suppress(OSError):
            return stop_s > 0 or stop_requested(self._folder.stop_request, self._launch.run)
        return stop_s > 0

    def _ask_to_stop(self, child: subprocess.Popen[bytes]) -> None:
        if self._reports is not None:
            self._reports.set_stopping()
        with suppress(OSError):
            self._stop_file.touch()
        number = signal.Signals[self._launch.config.stop_signal]
        process_signals.send(child.pid, lambda: child.poll() is None, number)

    def _all_are_idle(self, now_s: float) -> bool:
        """Return whether no process has worked for a while, by the times of all logs."""
        if self._launch.is_staged:
            return False
        log_times: list[int] = []
        for plan in self._launch.ranks:
            # Opened, because a share remembers the times of files that it does not open.
            with suppress(OSError), self._folder.rank_log(plan.rank).open("rb") as file:
                log_times.append(os.fstat(file.fileno()).st_mtime_ns)
        if log_times != self._log_times:
            self._log_times, self._log_times_s = log_times, now_s
        return now_s > self._log_times_s + _IDLE_S

    def _progress(self, pid: int) -> object:
        """Return figures that change while the script works."""
        output_figures: list[float] = []
        with suppress(OSError):
            output_figures.append(self._log.stat().st_size)
        if self._plan.local_rank == 0:
            output_figures += _folder_figures(self._folder.output)
        cpu_s = 0.0
        with suppress(psutil.Error):
            script = psutil.Process(pid)
            for process in (script, *script.children(recursive=True)):
                with suppress(psutil.Error):
                    cpu_s += sum(process.cpu_times()[:2])
        # An idle interpreter uses less than this.
        return output_figures, round(cpu_s, 1)

    def _copy(self) -> None:
        """Copy the script's version: the first process of a node does it, the others wait."""
        if self._plan.local_rank:
            while not self._work.exists():
                time.sleep(_TICK_S)
            return
        self._stop_file.unlink(missing_ok=True)
        if self._work.exists():
            shutil.rmtree(self._work)
        temporary_folder = self._work.with_name(f".{self._work.name}")
        shutil.rmtree(temporary_folder, ignore_errors=True)
        copy_script(self._launch.script_source, temporary_folder)
        temporary_folder.rename(self._work)

    def _command(self) -> list[str]:
        config, launch = self._launch.config, self._launch
        arguments = list(config.arguments)
        if launch.resume_from:
            arguments += config.resume_arguments
        gpus = len(self._plan.gpu.split(",")) if self._plan.gpu else 0
        values = {
            "dataset": launch.dataset_files,
            "output": str(self._folder.output),
            "seed": str(config.seed),
            "checkpoint": launch.resume_from,
            "nodes": str(len({plan.node for plan in launch.ranks})),
            "processes": str(len(launch.ranks)),
            "gpus": str(gpus),
        }
        program = script_program(self._work, config.entry, self._python)
        if config.folder and program[-1] == config.entry:
            program[-1] = str(self._work / config.entry)
        return [*program, *fill_placeholders(arguments, values)]

    @property
    def _cwd(self) -> Path:
        return self._work / self._launch.config.folder

    @property
    def _python(self) -> str:
        launch = self._launch
        # Older launches have the path in the job.
        return launch.script_python or launch.config.python or sys.executable

    def _environment(self) -> Mapping[str, str]:
        ranks, plan = self._launch.ranks, self._plan
        nodes = list(Counter(rank.node for rank in ranks))
        local_size = sum(rank.node == plan.node for rank in ranks)
        group, run = nodes.index(plan.node), f"{self._launch.job_id}-{self._launch.run}"
        variables: dict[str, object] = {
            # As under torchrun: LOCAL_RANK is the index of its GPU.
            "CUDA_VISIBLE_DEVICES": visible_devices(
                ",".join(rank.gpu for rank in ranks if rank.node == plan.node), os.environ
            ),
            STOP_VARIABLE: self._stop_file,
            # A crash then writes the script's position to the log.
            "PYTHONFAULTHANDLER": 1,
            "RINGMASTER_OUTPUT": self._folder.output,
        }
        is_shared = self._launch.config.processes_per != "node" and _needs_torchrun(self._work)
        if len(ranks) > 1 or is_shared:
            # A program that starts the processes of a node itself would use them for its own.
            variables |= {
                "MASTER_ADDR": ranks[0].host if len(nodes) > 1 else "127.0.0.1",
                "RANK": plan.rank,
                "LOCAL_RANK": plan.local_rank,
                "WORLD_SIZE": len(ranks),
                "LOCAL_WORLD_SIZE": local_size,
                "GROUP_RANK": group,
                "GROUP_WORLD_SIZE": len(nodes),
                "ROLE_RANK": plan.rank,
                "ROLE_WORLD_SIZE": len(ranks),
                "TORCHELASTIC_RUN_ID": run,
                "TORCHELASTIC_RESTART_COUNT": 0,
                "TORCHELASTIC_MAX_RESTARTS": 0,
            }
        environment = {**os.environ, **{name: str(value) for name, value in variables.items()}}
        environment.setdefault(PORT_VARIABLE, "29500")
        if len(nodes) > 1 and (name := _interface_of(plan.host)):
            environment.setdefault("GLOO_SOCKET_IFNAME", name)
            environment.setdefault("NCCL_SOCKET_IFNAME", name)
        if folder := os.path.dirname(self._python):
            # For ``python`` in a shell script, and programs of the packages.
            environment["PATH"] = f"{folder}:{environment.get('PATH', os.defpath)}"
        # Our modules and the run's secret are not the script's.
        for name in ("PYTHONPATH", SECRET_VARIABLE):
            environment.pop(name, None)
        paths = [self._launch.config.environment.get("PYTHONPATH", "")]
        folders = (self._work / parent for parent in Path(self._launch.config.entry).parents)
        if self._launch.config.folder or any((path / "__init__.py").exists() for path in folders):
            # Its packages are found from its top.
            paths.insert(0, str(self._work))
        if any(paths):
            environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        return environment


class ScriptReports:
    """Writer of status, history and records of checkpoints of a script, on rank 0."""

    def __init__(
        self, folder: JobFolder, launch: Launch, work: Path, log: Path, beat: Callable[[int], None]
    ) -> None:
        """``beat``: is called while a checkpoint is hashed or the rest of a log is read."""
        self._folder, self._log, self._beat = folder, log, beat
        self._config = launch.config
        status = last_status(folder)
        self._steps_before = status.step if status is not None else 0
        steps = self._resumed_step = self._steps_before if launch.resume_from else 0
        epochs = status.epoch if status is not None and launch.resume_from else 0
        self._metrics = ScriptMetrics(
            log,
            _size(log),
            (folder.output, work),
            folder.tensorboard,
            steps_before=steps,
            epochs_before=epochs,
        )
        self._reporter = Reporter(
            folder,
            run=launch.run,
            epochs=launch.config.total_epochs or 0,
            world_size=len(launch.ranks),
            global_batch=1,
            previous_status=status,
            times_exchange=False,
        )
        # From now on it ends by itself when a stop is requested, whatever steps it writes.
        self._total_steps = launch.config.total_steps or 0
        self._reporter.plan(step=steps, epoch=0, total_steps=self._total_steps, steps_per_epoch=0)
        self._reporter.set_state(JobState.TRAINING)
        self._reported_s: float | None = None
        self._last_point = Point(0, 0, {})
        self._newest_step = 0
        self._points: dict[int, Point] = {}
        self._lowest_step = -1
        """The lowest step in ``_points``, -1 without any."""
        self._nan_names: set[str] = set()
        self._begin_ns = time.time_ns()
        self._polled_steps: list[tuple[int, int]] = [(self._begin_ns, 0)]
        """The time in nanoseconds of the last poll with each newest step, and the step."""
        self._patterns: Sequence[str] = ()
        self._checkpoints = ScriptCheckpoints(folder, launch, work, beat)

    def update(self) -> float:
        """Report the script's new curves and checkpoints; return the seconds that this took."""
        took_s = self.read_curves()
        if is_session(self._config.script):
            # Its script writes the number; half of it is read while it is replaced.
            with suppress(OSError, ValueError):
                self._reporter.unused_s = float((self._folder.output / UNUSED_FILE).read_text())
        self._checkpoints.update(self._position_at)
        return took_s

    def read_curves(self, *, is_over: bool = False) -> float:
        """Report the script's new curves; return the seconds that this took."""
        begin_s = time.monotonic()
        patterns = self._log_patterns()
        if patterns != self._patterns:
            self._patterns = patterns
            self._metrics.use_patterns(patterns)
        for point in self._metrics.poll(is_over=is_over):
            replaced_part = history.REPLACES if point.step <= self._last_point.step else ""
            if point.is_restart or point.step <= self._lowest_step:
                replaced_part = history.REPLACES_RUN
                self._points.clear()
                self._lowest_step = -1
            self._report(point, replaced_part)
        self._warn_of_unmatched(is_over)
        if self._polled_steps[-1][1] == self._last_point.step:
            del self._polled_steps[-1]
        self._polled_steps.append((time.time_ns(), self._last_point.step))
        return time.monotonic() - begin_s

    def _log_patterns(self) -> Sequence[str]:
        """Return the patterns of numbers; the user may change them while the script runs."""
        settings: Mapping[str, Any] = {}
        if self._folder.placement.exists():
            with suppress(OSError, ValueError):
                settings = read_json(self._folder.placement)
        return tuple(settings.get("log_numbers", self._config.log_numbers))

    def _report(self, point: Point, replaced_part: str) -> None:
        now_s, last_point = time.monotonic(), self._last_point
        epochs = self._config.total_epochs or point.total_epochs
        steps = self._config.total_steps or point.total_steps
        if not steps and epochs and 0 < last_point.epoch < point.epoch:
            # The earlier epochs took as many steps each.
            steps = round(last_point.step / last_point.epoch * epochs)
        if steps or epochs:
            # An epoch may have more steps than those before it, from which the total is estimated.
            steps = max(steps or self._total_steps, point.step)
            self._reporter.plan(
                step=max(point.step, self._newest_step),
                epoch=point.epoch,
                total_steps=steps,
                steps_per_epoch=0,
                epochs=epochs,
            )
            self._total_steps = steps
        if self._reported_s is not None and point.step > self._newest_step:
            self._reporter.add_pace(point.step - self._newest_step, now_s - self._reported_s)
        self._reporter.add_step(
            Step(point.step, point.epoch, point.step, point.metrics, 0.0, (), (), replaced_part)
        )
        self._warn_of_nan(point)
        if point.step >= self._newest_step:
            self._reported_s, self._newest_step = now_s, point.step
        self._last_point = point
        self._points[point.step] = point
        if self._lowest_step < 0:
            self._lowest_step = point.step

    def _warn_of_nan(self, point: Point) -> None:
        """Report curves that became NaN, except norms of gradients, which a scaler makes NaN."""
        new_names = {
            name for name, value in point.metrics.items() if value != value and "norm" not in name
        } - self._nan_names
        if new_names:
            self._nan_names |= new_names
            message = (
                f"The script wrote NaN for {number_format.name_list(sorted(self._nan_names))}."
            )
            self._reporter.add_alarm(Alarm(BAD_CURVE, point.step, message))

    def _warn_of_unmatched(self, is_over: bool) -> None:
        """Report patterns that find nothing at the end; if none finds something, also before.

        That is after a while, or as soon as there are other numbers.
        """
        patterns = self._metrics.unmatched_patterns
        has_waited = self._points or time.time_ns() > self._begin_ns + _UNMATCHED_NS
        if not patterns or not (is_over or (has_waited and len(patterns) == len(self._patterns))):
            self._reporter.remove_alarm(UNMATCHED)
        else:
            pattern_list = number_format.name_list([f"“{pattern}”" for pattern in patterns])
            message = f"No line of the log has a number at {pattern_list}."
            if self._points:
                message += " The curves are from other lines or files."
            self._reporter.add_alarm(Alarm(UNMATCHED, self._last_point.step, message))

    def set_stopping(self) -> None:
        self._reporter.set_stopping()

    def close(self, ended_well: bool) -> None:
        """Report the end; ``ended_well``: the script was not in the middle of its work."""
        self._read_rest()
        for _ in range(2):
            self.read_curves(is_over=True)
        if (unread_bytes := self._metrics.unread_log_bytes) > _TAIL_BYTES:
            size = number_format.size(unread_bytes)
            message = f"The last {size} of the log were not read for curves: it is too long."
            self._reporter.add_alarm(Alarm(UNMATCHED, self._last_point.step, message))
        ended_ns = 0
        with suppress(OSError):
            os.utime(self._log)
            ended_ns = self._log.stat().st_mtime_ns
        self._checkpoints.update(
            self._position_at, is_over=True, ended_well=ended_well, ended_ns=ended_ns
        )
        self._reporter.close()

    def _read_rest(self) -> None:
        """Read what the script wrote faster than it was read, for some time."""
        begin_s, read_bytes = time.monotonic(), -1
        while read_bytes < self._metrics.read_bytes and time.monotonic() < begin_s + _REST_S:
            read_bytes = self._metrics.read_bytes
            self.read_curves()
            self._beat(read_bytes)

    def _position_at(self, path: Path, written_ns: int) -> ScriptPosition:
        """Return the position at the first poll after a file was written.

        A number in its name is the step if the script was at it between two polls, unlike the
        number of an epoch or of an earlier count.
        """
        index = bisect_left(self._polled_steps, (written_ns, 0), hi=len(self._polled_steps) - 1)
        # Numbers of the log's text are known from their second line on, so later than the file.
        newest_step = self._polled_steps[index][1] or min(self._points, default=self._resumed_step)
        previous_step = self._polled_steps[index - 1][1] if index else 0

        def is_step(number: int) -> bool:
            # A run that was killed may have left a folder without a record.
            is_earlier = written_ns < self._begin_ns and 0 < number <= self._steps_before
            return is_earlier or (number in self._points and previous_step <= number <= newest_step)

        step = step_of(path, is_step, self._newest_step) or newest_step
        metrics: dict[str, float | None] = {}
        epoch = 0
        for point_step in sorted(self._points):
            if point_step <= step:
                point = self._points[point_step]
                epoch = max(epoch, point.epoch)
                metrics |= point.metrics
        return ScriptPosition(epoch, step, metrics)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _folder_figures(folder: Path) -> list[float]:
    """Return the newest time and the total size of the entries of a folder."""
    with suppress(OSError):
        statuses = [entry.stat() for entry in os.scandir(folder)]
        return [
            max((entry.st_mtime for entry in statuses), default=0.0),
            sum(f.st_size for f in statuses),
        ]
    return []


def _interface_of(address: str) -> str:
    """Return the network interface that has an address, "" if none does."""
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode()[:15])
            with suppress(OSError):
                answer = fcntl.ioctl(probe.fileno(), _GET_ADDRESS, request)
                if socket.inet_ntoa(answer[20:24]) == address:
                    return name
    return ""


if __name__ == "__main__":
    main()
