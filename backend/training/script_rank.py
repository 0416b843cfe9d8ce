"""One process of a job with a script: start it, beat for it, pass the stop on, report its curves.

The guard starts this module in place of `backend.training.rank`, once for each process; the script
itself is its child, in a copy of the script's version, with the variables of ``torchrun``. It
writes to the rank's log. It makes progress while it writes a line or a byte in the output folder,
or uses processor time: a script that calls nothing of ours is judged by the stall limit, and a
quiet one is not ended.
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

from backend.base import prctl, process_signals
from backend.base.log import suppress
from backend.base.rendezvous_point import PORT_VARIABLE, SECRET_VARIABLE
from backend.records.base import number_format
from backend.records.base.atomic_files import read_json
from backend.records.base.layout import JobFolder
from backend.records.jobs import history
from backend.records.jobs.alarm import BAD_CURVE, Alarm
from backend.records.jobs.heartbeat import Phase, RankHeartbeat, report_to_guard
from backend.records.jobs.launch import Launch, RankPlan
from backend.records.jobs.script import entry_args, fill_placeholders, command_line, interpreter
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RankError, last_status
from backend.records.jobs.stop_request import stop_requested
from backend.training.reporter import Reporter, Step
from backend.training.script_checkpoints import ScriptCheckpoints, TrainingState, step_of
from backend.training.script_disk import DiskWatch
from backend.training.script_metrics import Point, ScriptMetrics

STOP_VARIABLE = "RINGMASTER_STOP"
_TICK_S = 0.25
_POLL_S = 2.0
_TERM_S = 5.0
_QUICK_TERM_S = 1.0
_IDLE_S = 10.0
"""Longer than two reports of a guard that its script works."""
_TAIL_BYTES = 16_384
_RAISED = b"Traceback (most recent call last)"
_READS_RANK = re.compile(
    r"environ\[\s*[\"'](?:LOCAL_)?(?:RANK|WORLD_SIZE)[\"']|init_process_group\("
)
_ASKS_FOR_RANK = re.compile(
    r"(?:environ\.get|getenv)\(\s*[\"'](?:LOCAL_)?(?:RANK|WORLD_SIZE)[\"']"
    r"|[\"'](?:LOCAL_)?(?:RANK|WORLD_SIZE)[\"']\s+(?:not\s+)?in\s+os\.environ"
)
_ADDRESS_OF = 0x8915  # SIOCGIFADDR of Linux


def main(arguments: list[str] | None = None) -> NoReturn:
    parser = argparse.ArgumentParser(prog="backend.training.script_rank")
    parser.add_argument("--job", type=Path, required=True)
    parser.add_argument("--run", type=int, required=True)
    given = parser.parse_args(arguments)
    beat = RankHeartbeat.inherited()
    beat.beat(Phase.SETUP)
    folder = JobFolder(given.job)
    launch = Launch.from_dict(read_json(folder.launch))
    rank = int(os.environ.get("OMPI_COMM_WORLD_RANK", "0"))
    script = Script(folder, launch, launch.ranks[rank], beat)
    code, was_stopped = script.run()
    sys.stdout.flush()
    is_late = script.aborted_after_its_end(code)
    if (was_stopped or code == 0 or is_late) and not script.was_ended:
        beat.beat(Phase.INTERRUPTED if was_stopped else Phase.FINISHED)
        if was_stopped or not is_late:
            os._exit(0)
    if code < 0 and not script.was_ended:
        # The guard then names the signal that ended the script.
        number = signal.Signals(-code)
        with suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
        process_signals.send(os.getpid(), lambda: True, number)
    os._exit(max(1, code))


def copy_script(source: str, target: Path) -> None:
    """Copy a script's version, which is read-only, to where its program may write."""
    shutil.copytree(source, target)
    for place, _, names in os.walk(target):
        for one in (place, *(os.path.join(place, name) for name in names)):
            os.chmod(one, os.stat(one).st_mode | 0o200)


def script_program(folder: Path, entry: str, python: str) -> list[str]:
    """Return the words that run an entry of a script in ``folder``, before its arguments."""
    program = interpreter(folder / entry) or [python or sys.executable]
    return [*program, *entry_args(entry)]


def _needs_torchrun(folder: Path) -> bool:
    """Return whether a program reads torchrun's variables without a look whether they are there.

    A program for one process and for several, such as nanoGPT, would else believe that it has
    others.
    """
    text = ""
    for path in folder.rglob("*.py"):
        with suppress(OSError):
            text += path.read_text("utf-8", "replace")
    return bool(_READS_RANK.search(text)) and not _ASKS_FOR_RANK.search(text)


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
        self._reports: Reports | None = None
        self._signs: object = None
        self._signs_at = 0.0
        self._disk = DiskWatch(folder.path, self._log, None if plan.local_rank else folder.output)
        self.was_ended = False
        """Whether it was ended for what it did; the guard has the reason."""

    def run(self) -> tuple[int, bool]:
        """Run the script; return its exit code as `subprocess` has it, and if it was stopped."""
        self._copy()
        command, environment = self._command(), self._environment()
        # What really runs, in the log; no number in it is one of the script's.
        sys.stdout.write(f"── {command_line(command)}\n── {self._surroundings(environment)}\n")
        sys.stdout.flush()
        if self._plan.rank == 0:
            self._reports = Reports(
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
            preexec_fn=lambda: prctl.die_with_parent(signal.SIGKILL, parent),
        )
        with ThreadPoolExecutor(1, "reports") as reader:
            stop_seen = self._watch(child, reader)
        code = child.wait()
        if self._reports is not None:
            self._reports.close(ended_well=code == 0)
        return code, stop_seen

    def _surroundings(self, environment: Mapping[str, str]) -> str:
        """Return the folder and the variables that the script gets from its job.

        Those that the job sets are only named: their values may be secrets.
        """
        of_job = self._launch.config.environment
        of_run = [
            f"{name}={value}"
            for name, value in sorted(environment.items())
            if name not in of_job and (name == PORT_VARIABLE or os.environ.get(name) != value)
        ]
        names = f"; from the job's settings {', '.join(sorted(of_job))}" if of_job else ""
        return f"in {shlex.quote(str(self._cwd))} with {command_line(of_run)}{names}"

    def aborted_after_its_end(self, code: int) -> bool:
        """Return whether the script was done, and only the end of its Python went wrong.

        The threads of torch's process groups do this to a script that leaves its group open.
        """
        if code != -signal.SIGABRT:
            return False
        with suppress(OSError), self._log.open("rb") as file:
            file.seek(max(self._log_begin, _size(self._log) - _TAIL_BYTES))
            before, aborted, threads = file.read().rpartition(b"Fatal Python error: Aborted")
            was_done = b"<no Python frame>" in threads and b'  File "' not in threads
            return bool(aborted) and was_done and _RAISED not in before
        return False

    def _watch(self, child: subprocess.Popen[bytes], reader: Executor) -> bool:
        """Wait for the end of the script; return whether a stop was requested before.

        A large checkpoint, which ``reader`` hashes, must not delay a stop.
        """
        seen: object = None
        reading: Future[None] | None = None
        polled, stop_at = -_POLL_S, 0.0
        while child.poll() is None:
            now = time.monotonic()
            if now >= polled + _POLL_S:
                polled = now
                if (progress := self._progress(child.pid)) != seen:
                    seen = progress
                    self._beat.beat(Phase.RUNNING)
                if self._reports is not None and (reading is None or reading.done()):
                    if reading is not None:
                        reading.result()
                    reading = reader.submit(self._reports.update)
                if not self.was_ended and (reason := self._disk.why_to_end()):
                    self.was_ended = True
                    plan = self._plan
                    report_to_guard(
                        RankError(reason, plan.rank, plan.node, says_remedy=True).to_dict()
                    )
                    process_signals.end(child, _QUICK_TERM_S)
            # A share that is away for a while must not end the script.
            with suppress(OSError):
                if not stop_at and stop_requested(self._folder.lock, self._launch.run):
                    stop_at = now
                    self._ask_to_stop(child)
            if stop_at and now > stop_at + self._launch.grace_s - _TERM_S:
                process_signals.end(child, _TERM_S)
            elif stop_at and now == polled and self._all_are_idle(now):
                # They wait for each other: no time would help.
                process_signals.end(child, _QUICK_TERM_S)
            with suppress(subprocess.TimeoutExpired):
                child.wait(_TICK_S)
        # Processes that ended sooner by the stop may have broken this one's exchange with them.
        with suppress(OSError):
            return stop_at > 0 or stop_requested(self._folder.lock, self._launch.run)
        return stop_at > 0

    def _ask_to_stop(self, child: subprocess.Popen[bytes]) -> None:
        if self._reports is not None:
            self._reports.stopping()
        with suppress(OSError):
            self._stop_file.touch()
        number = signal.Signals[self._launch.config.stop_signal]
        process_signals.send(child.pid, lambda: child.poll() is None, number)

    def _all_are_idle(self, now: float) -> bool:
        """Return whether no process has worked for a while; the guards touch the logs of others."""
        if self._launch.is_staged:
            return False
        signs: list[int] = []
        for one in self._launch.ranks:
            # Opened, because a share remembers the times of files that it does not open.
            with suppress(OSError), self._folder.rank_log(one.rank).open("rb") as file:
                signs.append(os.fstat(file.fileno()).st_mtime_ns)
        if signs != self._signs:
            self._signs, self._signs_at = signs, now
        return now > self._signs_at + _IDLE_S

    def _progress(self, pid: int) -> object:
        """Return what changes while the script works."""
        written: list[float] = []
        with suppress(OSError):
            written.append(self._log.stat().st_size)
        if self._plan.local_rank == 0:
            written += _newest(self._folder.output)
        used = 0.0
        with suppress(psutil.Error):
            script = psutil.Process(pid)
            for one in (script, *script.children(recursive=True)):
                with suppress(psutil.Error):
                    used += sum(one.cpu_times()[:2])
        # Less than this is what an idle interpreter uses.
        return written, round(used, 1)

    def _copy(self) -> None:
        """Copy the script's version: the first process of a node does it, the others wait."""
        if self._plan.local_rank:
            while not self._work.exists():
                time.sleep(_TICK_S)
            return
        self._stop_file.unlink(missing_ok=True)
        if self._work.exists():
            shutil.rmtree(self._work)
        building = self._work.with_name(f".{self._work.name}")
        shutil.rmtree(building, ignore_errors=True)
        copy_script(self._launch.script_source, building)
        building.rename(self._work)

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
        # Launches of before have the path in the job.
        return launch.script_python or launch.config.python or sys.executable

    def _environment(self) -> Mapping[str, str]:
        ranks, plan = self._launch.ranks, self._plan
        nodes = list(Counter(one.node for one in ranks))
        here = sum(one.node == plan.node for one in ranks)
        group, run = nodes.index(plan.node), f"{self._launch.job_id}-{self._launch.run}"
        given: dict[str, object] = {
            # As under torchrun: LOCAL_RANK is the index of its GPU.
            "CUDA_VISIBLE_DEVICES": ",".join(
                one.gpu for one in ranks if one.gpu and one.node == plan.node
            ),
            STOP_VARIABLE: self._stop_file,
            # A crash then says in the log where the script was.
            "PYTHONFAULTHANDLER": 1,
            "RINGMASTER_OUTPUT": self._folder.output,
        }
        is_shared = self._launch.config.processes_per != "node" and _needs_torchrun(self._work)
        if len(ranks) > 1 or is_shared:
            # A program that starts the processes of a node itself would take them for its own.
            given |= {
                "MASTER_ADDR": ranks[0].host if len(nodes) > 1 else "127.0.0.1",
                "RANK": plan.rank,
                "LOCAL_RANK": plan.local_rank,
                "WORLD_SIZE": len(ranks),
                "LOCAL_WORLD_SIZE": here,
                "GROUP_RANK": group,
                "GROUP_WORLD_SIZE": len(nodes),
                "ROLE_RANK": plan.rank,
                "ROLE_WORLD_SIZE": len(ranks),
                "TORCHELASTIC_RUN_ID": run,
                "TORCHELASTIC_RESTART_COUNT": 0,
                "TORCHELASTIC_MAX_RESTARTS": 0,
            }
        environment = {**os.environ, **{name: str(value) for name, value in given.items()}}
        environment.setdefault(PORT_VARIABLE, "29500")
        if len(nodes) > 1 and (name := _interface(plan.host)):
            environment.setdefault("GLOO_SOCKET_IFNAME", name)
            environment.setdefault("NCCL_SOCKET_IFNAME", name)
        if folder := os.path.dirname(self._python):
            # What a shell script calls ``python``, and programs of the packages.
            environment["PATH"] = f"{folder}:{environment.get('PATH', os.defpath)}"
        # Our modules and the run's secret are not the script's.
        for name in ("PYTHONPATH", SECRET_VARIABLE):
            environment.pop(name, None)
        paths = [self._launch.config.environment.get("PYTHONPATH", "")]
        above = (self._work / parent for parent in Path(self._launch.config.entry).parents)
        if self._launch.config.folder or any((path / "__init__.py").exists() for path in above):
            # Its packages are found from its top.
            paths.insert(0, str(self._work))
        if any(paths):
            environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        return environment


class Reports:
    """Status, history and records of checkpoints, which rank 0 writes for a script."""

    def __init__(
        self, folder: JobFolder, launch: Launch, work: Path, log: Path, beat: Callable[[int], None]
    ) -> None:
        """``beat``: is called while bytes of a checkpoint are hashed."""
        self._folder, self._log = folder, log
        self._config = launch.config
        before = last_status(folder)
        self._steps_before = before.step if before is not None else 0
        steps = self._steps_before if launch.resume_from else 0
        self._metrics = ScriptMetrics(
            log,
            _size(log),
            (folder.output, work),
            folder.tensorboard,
            steps_before=steps,
        )
        self._reporter = Reporter(
            folder,
            run=launch.run,
            epochs=launch.config.total_epochs or 0,
            world_size=len(launch.ranks),
            global_batch=1,
            before=before,
            times_exchange=False,
        )
        # From now on it ends by itself when a stop is requested, whatever it says of its steps.
        self._total = launch.config.total_steps or 0
        self._reporter.plan(step=steps, epoch=0, total_steps=self._total, steps_per_epoch=0)
        self._reporter.state(JobState.TRAINING)
        self._at: float | None = None
        self._last = Point(0, 0, {})
        self._newest_step = 0
        self._points: dict[int, Point] = {}
        self._nan_names: set[str] = set()
        self._begin_ns = time.time_ns()
        self._polls: list[tuple[int, int]] = [(self._begin_ns, 0)]
        """The newest step at each poll, and the time in nanoseconds of the last poll with it."""
        self._patterns: Sequence[str] = ()
        self._checkpoints = ScriptCheckpoints(folder, launch, work, beat)

    def update(self) -> None:
        """Report what the script has written since the last call."""
        self._read_curves()
        self._checkpoints.update(self._state_at)

    def _read_curves(self, *, is_over: bool = False) -> None:
        patterns = self._marked()
        if patterns != self._patterns:
            self._patterns = patterns
            self._metrics.mark(patterns)
        for point in self._metrics.poll(is_over=is_over):
            replaces = history.REPLACES if point.step <= self._last.step else ""
            if point.is_restart or (self._points and point.step <= min(self._points)):
                replaces = history.REPLACES_RUN
                self._points.clear()
            self._report(point, replaces)
        if self._polls[-1][1] == self._last.step:
            del self._polls[-1]
        self._polls.append((time.time_ns(), self._last.step))

    def _marked(self) -> Sequence[str]:
        """Return the patterns of numbers; the user may change them while the script runs."""
        changed: Mapping[str, Any] = {}
        if self._folder.placement.exists():
            with suppress(OSError, ValueError):
                changed = read_json(self._folder.placement)
        return tuple(changed.get("log_numbers", self._config.log_numbers))

    def _report(self, point: Point, replaces: str) -> None:
        now, last = time.monotonic(), self._last
        epochs = self._config.total_epochs or point.total_epochs
        steps = self._config.total_steps or point.total_steps
        if not steps and epochs and 0 < last.epoch < point.epoch:
            # The epochs before took as many steps each.
            steps = round(last.step / last.epoch * epochs)
        if steps or epochs:
            self._reporter.plan(
                step=max(point.step, self._newest_step),
                epoch=point.epoch,
                total_steps=steps or self._total,
                steps_per_epoch=0,
                epochs=epochs,
            )
            self._total = steps or self._total
        if self._at is not None and point.step > self._newest_step:
            self._reporter.paced(point.step - self._newest_step, now - self._at)
        self._reporter.step(
            Step(point.step, point.epoch, point.step, point.metrics, 0.0, (), (), replaces)
        )
        self._warn_of_nan(point)
        if point.step >= self._newest_step:
            self._at, self._newest_step = now, point.step
        self._last = point
        self._points[point.step] = point

    def _warn_of_nan(self, point: Point) -> None:
        """Name the curves that became NaN; norms of gradients are, where a scaler adapts."""
        new_names = {
            name for name, value in point.metrics.items() if value != value and "norm" not in name
        } - self._nan_names
        if new_names:
            self._nan_names |= new_names
            message = (
                f"The script wrote NaN for {number_format.name_list(sorted(self._nan_names))}."
            )
            self._reporter.alarm(Alarm(BAD_CURVE, point.step, message))

    def stopping(self) -> None:
        self._reporter.stopping()

    def close(self, ended_well: bool) -> None:
        """Report the end; ``ended_well``: the script was not in the middle of its work."""
        for _ in range(2):
            self._read_curves(is_over=True)
        ended_ns = 0
        with suppress(OSError):
            os.utime(self._log)
            ended_ns = self._log.stat().st_mtime_ns
        self._checkpoints.update(
            self._state_at, is_over=True, ended_well=ended_well, ended_ns=ended_ns
        )
        self._reporter.close()

    def _state_at(self, path: Path, written_ns: int) -> TrainingState:
        """Return the state at the first poll after a file was written.

        A number in its name is the step if the script was there between two polls: one of an
        epoch, or of an earlier count, is not.
        """
        index = bisect_left(self._polls, (written_ns, 0), hi=len(self._polls) - 1)
        newest = self._polls[index][1]
        previous = self._polls[index - 1][1] if index else 0

        def is_step(number: int) -> bool:
            # A run that was killed may have left a folder without a record.
            is_earlier = written_ns < self._begin_ns and 0 < number <= self._steps_before
            return is_earlier or (number in self._points and previous <= number <= newest)

        step = step_of(path, is_step, self._newest_step) or newest or self._last.step
        metrics: dict[str, float | None] = {}
        epoch = 0
        for point_step in sorted(self._points):
            if point_step <= step:
                point = self._points[point_step]
                epoch = max(epoch, point.epoch)
                metrics |= point.metrics
        return TrainingState(epoch, step, metrics)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _newest(folder: Path) -> list[float]:
    """Return the newest time and the total size of what is in a folder, not deeper."""
    with suppress(OSError):
        found = [one.stat() for one in os.scandir(folder)]
        return [max((one.st_mtime for one in found), default=0.0), sum(f.st_size for f in found)]
    return []


def _interface(address: str) -> str:
    """Return the network interface that has an address, "" if none does."""
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode()[:15])
            with suppress(OSError):
                answer = fcntl.ioctl(asked.fileno(), _ADDRESS_OF, request)
                if socket.inet_ntoa(answer[20:24]) == address:
                    return name
    return ""


if __name__ == "__main__":
    main()
