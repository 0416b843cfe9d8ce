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
import hashlib
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NoReturn

import psutil

from backend.base import prctl, process_signals
from backend.base.log import suppress
from backend.records.base import timestamps
from backend.records.base.atomic_files import read_json, replace_json
from backend.records.base.layout import SIDECAR_SUFFIX, JobFolder, checkpoint_name
from backend.records.jobs.checkpoint import Checkpoint, read_checkpoints
from backend.records.jobs.heartbeat import Phase, RankHeartbeat, report_to_guard
from backend.records.jobs.launch import Launch, RankPlan
from backend.records.jobs.script import PORT_VARIABLE, entry_words, filled, interpreter
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RankError, last_status
from backend.records.jobs.stop_request import stop_requested
from backend.training.reporter import Reporter, Step
from backend.training.script_disk import DiskWatch
from backend.training.script_metrics import Point, ScriptMetrics

STOP_VARIABLE = "RINGMASTER_STOP"
_TICK_S = 0.25
_LOOK_S = 2.0
_TERM_S = 5.0
_PIECE_BYTES = 1 << 20
_FULL_TERM_S = 1.0
_NUMBER = re.compile(r"\d+")
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
    if (was_stopped or code == 0) and not script.was_ended:
        beat.beat(Phase.INTERRUPTED if was_stopped else Phase.FINISHED)
        os._exit(0)
    if code < 0 and not script.was_ended:
        # The guard then names the signal that ended the script.
        number = signal.Signals(-code)
        with suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
        process_signals.send(os.getpid(), lambda: True, number)
    os._exit(max(1, code))


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
        self._reports = Reports(folder, launch, self._work, self._log) if plan.rank == 0 else None
        self._disk = DiskWatch(folder.path, self._log, None if plan.local_rank else folder.output)
        self.was_ended = False
        """Whether it was ended for what it did; the guard has the reason."""

    def run(self) -> tuple[int, bool]:
        """Run the script; return its exit code as `subprocess` has it, and if it was stopped."""
        self._copy()
        parent = os.getpid()
        self._beat.beat(Phase.RUNNING)
        child = subprocess.Popen(
            self._command(),
            cwd=self._work,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            preexec_fn=lambda: prctl.die_with_parent(signal.SIGKILL, parent),
        )
        stop_seen = self._watch(child)
        code = child.wait()
        if self._reports is not None:
            self._reports.close()
        return code, stop_seen

    def _watch(self, child: subprocess.Popen[bytes]) -> bool:
        """Wait for the end of the script; return whether a stop was requested before."""
        seen: object = None
        looked, stop_at = -_LOOK_S, 0.0
        while child.poll() is None:
            now = time.monotonic()
            if now >= looked + _LOOK_S:
                looked = now
                if (progress := self._progress(child.pid)) != seen:
                    seen = progress
                    self._beat.beat(Phase.RUNNING)
                if self._reports is not None:
                    self._reports.update()
                if not self.was_ended and (reason := self._disk.why_to_end()):
                    self.was_ended = True
                    plan = self._plan
                    report_to_guard(
                        RankError(reason, plan.rank, plan.node, says_remedy=True).to_dict()
                    )
                    process_signals.end(child, _FULL_TERM_S)
            # A share that is away for a while must not end the script.
            with suppress(OSError):
                if not stop_at and stop_requested(self._folder.lock, self._launch.run):
                    stop_at = now
                    self._ask_to_stop(child)
            if stop_at and now > stop_at + self._launch.grace_s - _TERM_S:
                process_signals.end(child, _TERM_S)
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
        shutil.copytree(self._launch.script_source, building)
        for place, _, names in os.walk(building):
            for one in (place, *(os.path.join(place, name) for name in names)):
                os.chmod(one, os.stat(one).st_mode | 0o200)
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
        words = entry_words(config.entry)
        program = interpreter(self._work / config.entry) or [config.python or sys.executable]
        return [*program, *words, *filled(arguments, values)]

    def _environment(self) -> Mapping[str, str]:
        ranks, plan = self._launch.ranks, self._plan
        nodes = list(Counter(one.node for one in ranks))
        here = sum(one.node == plan.node for one in ranks)
        group, run = nodes.index(plan.node), f"{self._launch.job_id}-{self._launch.run}"
        given = {
            "RANK": plan.rank,
            "LOCAL_RANK": plan.local_rank,
            "WORLD_SIZE": len(ranks),
            "LOCAL_WORLD_SIZE": here,
            # As under torchrun: LOCAL_RANK is the index of its GPU.
            "CUDA_VISIBLE_DEVICES": ",".join(
                one.gpu for one in ranks if one.gpu and one.node == plan.node
            ),
            "GROUP_RANK": group,
            "GROUP_WORLD_SIZE": len(nodes),
            "ROLE_RANK": plan.rank,
            "ROLE_WORLD_SIZE": len(ranks),
            "MASTER_ADDR": ranks[0].host if len(nodes) > 1 else "127.0.0.1",
            "TORCHELASTIC_RUN_ID": run,
            "TORCHELASTIC_RESTART_COUNT": 0,
            "TORCHELASTIC_MAX_RESTARTS": 0,
            STOP_VARIABLE: self._stop_file,
            "RINGMASTER_OUTPUT": self._folder.output,
        }
        environment = {**os.environ, **{name: str(value) for name, value in given.items()}}
        environment.setdefault(PORT_VARIABLE, "29500")
        if len(nodes) > 1 and (name := _interface(plan.host)):
            environment.setdefault("GLOO_SOCKET_IFNAME", name)
            environment.setdefault("NCCL_SOCKET_IFNAME", name)
        # Our modules are not the script's.
        environment.pop("PYTHONPATH", None)
        if path := self._launch.config.environment.get("PYTHONPATH"):
            environment["PYTHONPATH"] = path
        return environment


class Reports:
    """Status, history and records of checkpoints, which rank 0 writes for a script."""

    def __init__(self, folder: JobFolder, launch: Launch, work: Path, log: Path) -> None:
        self._folder = folder
        self._launch = launch
        self._work = work
        begin = log.stat().st_size if log.exists() else 0
        self._metrics = ScriptMetrics(log, begin, (folder.output, work), folder.tensorboard)
        self._reporter = Reporter(
            folder,
            run=launch.run,
            epochs=0,
            world_size=len(launch.ranks),
            global_batch=1,
            before=last_status(folder),
            times_exchange=False,
        )
        self._reporter.state(JobState.TRAINING)
        self._at = time.monotonic()
        self._last = Point(0, 0, {})
        self._steps: set[int] = set()
        folder.checkpoints.mkdir(parents=True, exist_ok=True)
        self._known = {one.path for one in read_checkpoints(folder.checkpoints)}
        self._sizes: dict[Path, tuple[float, ...]] = {}

    def update(self, is_over: bool = False) -> None:
        """Report what the script has written since the last call."""
        for point in self._metrics.poll():
            now = time.monotonic()
            if point.total_steps:
                self._reporter.plan(
                    step=point.step,
                    epoch=point.epoch,
                    total_steps=point.total_steps,
                    steps_per_epoch=0,
                )
            self._reporter.step(
                Step(point.step, point.epoch, point.step, point.metrics, now - self._at, ())
            )
            self._at, self._last = now, point
            self._steps.add(point.step)
        for path in self._complete(is_over):
            self._record(path)

    def stopping(self) -> None:
        self._reporter.stopping()

    def close(self) -> None:
        self.update()
        self.update(is_over=True)
        self._reporter.close()

    def _complete(self, is_over: bool) -> Iterator[Path]:
        """Yield the checkpoint files that are new and no longer grow."""
        for folder in (self._folder.output, self._work):
            for pattern in self._launch.config.checkpoint_files:
                for path in sorted(folder.rglob(pattern)):
                    if path.is_symlink() or not path.is_file() or str(path) in self._known:
                        continue
                    found = path.stat()
                    size = (found.st_size, found.st_mtime)
                    if is_over or self._sizes.get(path) == size:
                        yield path
                    self._sizes[path] = size

    def _step_of(self, path: Path) -> int:
        """Return the step in the name of a checkpoint, or the last one that was reported."""
        numbers = [int(one) for one in _NUMBER.findall(path.stem)]
        return next((one for one in reversed(numbers) if one in self._steps), self._last.step)

    def _record(self, path: Path) -> None:
        """Record a checkpoint where the script wrote it."""
        with suppress(OSError), path.open("rb") as file:
            # Not hashlib.file_digest, which Python 3.10 lacks.
            digest = hashlib.sha256()
            while piece := file.read(_PIECE_BYTES):
                digest.update(piece)
            step = self._step_of(path)
            name = _free_name(self._folder, self._last.epoch, step)
            record = Checkpoint(
                name=name,
                run=self._launch.run,
                epoch=self._last.epoch,
                step=step,
                epoch_step=0,
                bytes=path.stat().st_size,
                sha256=digest.hexdigest(),
                config_sha256=self._launch.config.sha256(),
                created=timestamps.now(),
                metrics=dict(self._last.metrics),
                reason="script",
                file=str(path.relative_to(self._folder.path)),
            )
            replace_json(
                (self._folder.checkpoints / name).with_suffix(SIDECAR_SUFFIX), record.to_dict()
            )
            replace_json(self._folder.latest, record.to_dict())
            self._known.add(str(path))


def _free_name(folder: JobFolder, epoch: int, step: int) -> str:
    """Return a name that no checkpoint has yet: a script may save several at one step."""
    while (folder.checkpoints / f"{checkpoint_name(epoch, step)}{SIDECAR_SUFFIX}").exists():
        step += 1
    return checkpoint_name(epoch, step)


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
