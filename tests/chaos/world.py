"""One data root on this computer with two desktops, to which anything may happen."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from backend.base.errors import BackendError
from backend.datastore.access.root_access import OpenJob
from backend.node.queue.keeper import lock_of
from backend.node.system import process_cleanup, process_identity
from backend.node.system.start_supervisor import CODE_ROOT
from backend.records.base.layout import DataRoot, run_tag
from backend.records.jobs.placement import THIS_COMPUTER
from backend.records.jobs.state import JobState
from backend.records.jobs.status import ProcessIdentity
from backend.records.jobs.view import JobView
from backend.records.library.item import Kind
from backend.services.context.container import Services, open_services
from tests.cluster.commands import call
from tests.cluster.disks import fill
from tests.fakes.mounted_root import MOUNTED
from tests.integration.tiny import raw_job, write_sources
from tests.waiting import wait_for

T = TypeVar("T")
SCRIPT = """
import argparse, json, os, signal, time
signal.signal(signal.SIGTERM, lambda *_: None)
given = argparse.ArgumentParser()
given.add_argument("--out")
given.add_argument("--steps", type=int)
given.add_argument("--resume", default="")
given = given.parse_args()
step = int(open(given.resume).read()) if given.resume else 0
is_first = os.environ["RANK"] == "0"


def save():
    with open(f"{given.out}/new", "w") as file:
        file.write(str(step))
    os.rename(f"{given.out}/new", f"{given.out}/model-{step}.pt")


while step < given.steps and not os.path.exists(os.environ["RINGMASTER_STOP"]):
    step += 1
    time.sleep(0.05)
    if is_first:
        print(json.dumps({"step": step, "loss": 1 / step, "total_steps": given.steps}), flush=True)
        if step % 20 == 0:
            save()
if is_first:
    save()
"""
_CLOCK = Path(__file__).parents[1] / "cluster" / "clock.c"
_DISK = "1g"
_WAIT_LIMIT_S = 180.0
_POLL_S = 0.2
_MAX_LOAD_FACTOR = 5.0
_EXPLAINED_CHECKS = ("half made", "temporary files", "catalogue")
"""Findings of `ringmaster verify` that a killed program leaves and a jump of the clock ages, or the
other desktop when it removes something."""
_SUPERVISOR = "backend.node.run.supervisor"


def make_stock(folder: Path) -> None:
    """Import the tiny job's parts, and count them once, which imports torch."""
    folder.mkdir()
    services = open_services(folder / "data", folder / "catalogue.sqlite")
    kinds = (Kind.MODEL, Kind.LOADER, Kind.DATASET)
    for kind, source in zip(kinds, write_sources(folder / "sources"), strict=True):
        services.library.import_item(kind, source, "tiny")
    import_script(services, folder / "sources")
    job = services.jobs.create(raw_job())
    services.close()
    shutil.rmtree(services.data_root.job(job.id).path)


def import_script(services: Services, sources: Path) -> None:
    script = sources / "script"
    script.mkdir()
    (script / "train.py").write_text(SCRIPT)
    services.library.import_item(Kind.SCRIPT, script, "tiny")


class Clock:
    """The wall clock of this process and of all that it starts; files keep their true times."""

    def __init__(self, folder: Path) -> None:
        self._offset = folder / "clock-offset"
        self._library = folder / "clock.so"

    def preload(self) -> dict[str, str]:
        """Build the library, and return the environment that loads it."""
        self.set_offset(0)
        offset_option = f'-DOFFSET_FILE="{self._offset}"'
        call("gcc", "-shared", "-fPIC", "-O2", offset_option, "-o", self._library, _CLOCK)
        return {"LD_PRELOAD": str(self._library)}

    def set_offset(self, offset_s: float) -> None:
        with self._offset.open("r+b" if self._offset.exists() else "wb") as file:
            file.write(struct.pack("=q", round(offset_s * 1e9)))


class World:
    """A context manager: afterwards no process and no mount of it is left."""

    def __init__(self, folder: Path, stock: Path, clock: Clock) -> None:
        self.folder = folder
        self.clock = clock
        self.root = DataRoot(folder / "data")
        self.desktops: list[Services] = []
        self.repairs: dict[str, Callable[[], object]] = {}
        """Repairs of the damages that exist now, by name."""
        self.harmed_runs: set[tuple[str, int]] = set()
        """Runs that may fail, because something was done to them."""
        self.stopped_runs: set[tuple[str, int]] = set()
        """Runs that were asked to stop."""
        self.newest_checkpoints: dict[tuple[str, int], tuple[str, int, str]] = {}
        """By job and number of times it started over: name, step and hash of its newest
        checkpoint."""
        self.act_count = 0
        """Number of acts so far."""
        self._cursors: dict[tuple[Services, str], object] = {}
        self._known_jobs: list[str] = []
        self._stock = stock

    def __enter__(self) -> World:
        data = self.folder / "data"
        data.mkdir(parents=True)
        call("mount", "-t", "tmpfs", "-o", f"size={_DISK},mode=755", "tmpfs", data)
        shutil.copytree(self._stock / "data", data, dirs_exist_ok=True)
        shutil.copytree(self._stock / "sources", self.folder / "sources")
        for number in (0, 1):
            cache = self.folder / f"desktop-{number}" / "catalogue.sqlite.cache"
            shutil.copytree(self._stock / "catalogue.sqlite.cache", cache)
            self.desktops.append(self.open_desktop(number))
        return self

    def __exit__(self, *_: object) -> None:
        for repair in self.repairs.values():
            repair()
        if (holder := self.keeper()) is not None:
            process_identity.send_signal(holder, signal.SIGKILL)
        for job in self.jobs():
            for run in range(1, self.folder_of(job).newest_run() + 1):
                self.kill(self.supervisor(job, run))
                process_cleanup.end_tagged(run_tag(job, run), 0.0)
        for desktop in self.desktops:
            desktop.close()
        lock_of(self.root).path.unlink(missing_ok=True)
        self.clock.set_offset(0)
        call("umount", "--lazy", self.root.path)
        shutil.rmtree(self.folder, ignore_errors=True)

    def open_desktop(self, number: int) -> Services:
        return open_services(self.root.path, self.catalogue(number))

    def catalogue(self, number: int) -> Path:
        return self.folder / f"desktop-{number}" / "catalogue.sqlite"

    # State.

    def jobs(self) -> list[str]:
        """The ids of all jobs, as they came; read without the program's help.

        Ids are made by chance: in their own order, a replay would choose other jobs.
        """
        with contextlib.suppress(FileNotFoundError):
            job_ids = {name for name in os.listdir(self.root.jobs) if not name.startswith(".")}
            new_ids = job_ids.difference(self._known_jobs)
            self._known_jobs += sorted(
                new_ids, key=lambda job: self.root.job(job).path.stat().st_ino
            )
            return [job for job in self._known_jobs if job in job_ids]
        return []

    def folder_of(self, job: str) -> OpenJob:
        return OpenJob(self.root.job(job).path, MOUNTED)

    def views(self, desktop: int = 0) -> list[JobView]:
        """Return the jobs as a window shows them: only repeated polls find a silent node."""
        services = self.desktops[desktop]
        views = []
        for job in self.jobs():
            update = services.jobs.queries.poll(job, self._cursors.get((services, job)))
            self._cursors[services, job] = update.cursor
            views.append(update.view)
        return views

    def live_jobs(self) -> list[str]:
        return [view.id for view in self.views() if view.state.is_live]

    def resting_jobs(self) -> list[str]:
        return [view.id for view in self.views() if not view.state.is_live]

    def jobs_with_checkpoints(self) -> list[str]:
        return [job for job in self.jobs() if any(self.folder_of(job).checkpoints.glob("*.pt"))]

    def trashed_jobs(self) -> list[str]:
        with contextlib.suppress(FileNotFoundError):
            return sorted(name for name in os.listdir(self.root.trash / "jobs") if "." not in name)
        return []

    def supervisor(self, job: str, run: int) -> ProcessIdentity | None:
        """The living supervisor of a run, which has no tag."""
        fragments = (f"{_SUPERVISOR} ", f"/{job} ", f"--run {run} ")
        for pid in process_identity.pids():
            if all(word in _command_line(pid) for word in fragments):
                return process_identity.process(pid)
        return None

    def processes(self, job: str, command_word: str = "") -> list[ProcessIdentity]:
        """Return the processes of the newest run with a word in their command line."""
        run = self.folder_of(job).newest_run()
        processes = [*process_cleanup.tagged(run_tag(job, run)), self.supervisor(job, run)]
        return [p for p in processes if p is not None and command_word in _command_line(p.pid)]

    def placement(self, chance: random.Random) -> list[dict[str, Any]]:
        return [{"node": THIS_COMPUTER, "processes": choose(chance, (1, 1, 2))}]

    def keeper(self) -> ProcessIdentity | None:
        return lock_of(self.root).holder()

    def unexplained_finding(self) -> str:
        """Return a finding of a whole check that no act explains, or ""."""
        for finding in self.desktops[0].verification.verify().findings:
            if finding.check not in _EXPLAINED_CHECKS:
                return f"{finding.check}: {finding.message}"
        return ""

    def may_doubt(self, view: JobView) -> bool:
        """Whether nothing can show that a run is over.

        On a full disk, the age of a claim cannot be asked of the disk's clock.
        """
        return "full disk" in self.repairs and view.state is JobState.STARTING

    def may_compare(self) -> bool:
        """Whether both desktops reach the data root."""
        return True

    # Acts.

    def tick(self) -> None:
        """Do what every open window does again and again."""
        for desktop in self.desktops:
            with contextlib.suppress(BackendError):
                for job in desktop.reaper.unfinished_job_ids():
                    desktop.reaper.reap(job)
                desktop.queue.ensure_keeper()

    def mark_harmed(self, *jobs: str) -> None:
        """Allow the newest runs of these jobs, by default of all, to fail."""
        for job in jobs or self.jobs():
            self.harmed_runs.add((job, self.folder_of(job).newest_run()))

    def mark_stopped(self, job: str) -> None:
        self.stopped_runs.add((job, self.folder_of(job).newest_run()))

    def wait_until(self, is_reached: Callable[[], bool], goal: str) -> None:
        """Wait until a goal is reached.

        Raises:
            AssertionError: The goal is not reached in time.
        """
        for _ in polls(_WAIT_LIMIT_S):
            self.tick()
            if is_reached():
                return
        raise AssertionError(f"This did not come: {goal}. {self.views()}")

    def kill(
        self, process: ProcessIdentity | None, number: signal.Signals = signal.SIGKILL
    ) -> None:
        if process is None or not process_identity.send_signal(process, number):
            return
        if number is signal.SIGKILL:
            wait_for(lambda: not process_identity.is_alive(process), "the end of a process")

    def fill_disk(self) -> None:
        fill(self.root.path)
        self.repairs["full disk"] = lambda: (self.root.path / "full").unlink(missing_ok=True)

    def make_read_only(self, folder: Path) -> None:
        call("mount", "--bind", folder, folder)
        call("mount", "-o", "remount,bind,ro", folder)
        self.repairs[f"read-only {folder.name}"] = lambda: call("umount", "--lazy", folder)

    def start_command(self, number: int, *argv: str) -> subprocess.Popen[bytes]:
        """A subcommand as a process of its own, which shares the catalogue of a desktop."""
        root_options = ("--data-root", self.root.path, "--catalogue", self.catalogue(number))
        return subprocess.Popen(
            [sys.executable, str(CODE_ROOT / "main.py"), *map(str, root_options), *argv],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


def polls(limit_s: float) -> Iterator[None]:
    """Yield until the time is over in which a machine that does nothing else does as much."""
    cores = os.cpu_count() or 1
    while True:
        started_s = time.monotonic()
        yield
        if limit_s <= 0:
            return
        time.sleep(_POLL_S)
        load_factor = min(_MAX_LOAD_FACTOR, max(1.0, os.getloadavg()[0] / cores))
        limit_s -= (time.monotonic() - started_s) / load_factor


def choose(chance: random.Random, options: Sequence[T]) -> T:
    """Return a random option.

    Raises:
        BackendError: No option is left: the act was possible a moment ago.
    """
    if not options:
        raise BackendError("Nothing is left to choose from.")
    return options[chance.randrange(len(options))]


def _command_line(pid: int) -> str:
    with contextlib.suppress(OSError):
        command_line = Path("/proc", str(pid), "cmdline").read_bytes().replace(b"\0", b" ")
        return command_line.decode(errors="replace")
    return ""
