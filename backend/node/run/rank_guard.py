"""Watches over one rank: mpirun starts a guard for each, and the guard starts the rank.

mpirun's exit code does not say how a rank ended (Open MPI 5 gives 0 when a node was lost), so the
guard is the rank's parent and writes down what it saw. It executes a new interpreter for the rank
instead of forking into it: that costs about 15 ms, and gives the job's environment (LD_PRELOAD,
PYTHONHASHSEED) the only moment at which it can take effect.

One thread, no handler: every signal is blocked and taken with `sigtimedwait`.

The guards of a run that a user started by pasting its command make its own folder below the job's;
each makes what is still missing. The run begins as the job's newest run did and does not change the
job: it has no supervisor, and no list shows it.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import re
import resource
import signal
import sys
import time
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from glob import glob
from pathlib import Path
from typing import Any

from backend.base import log, process_signals
from backend.base.cores import usable_cores
from backend.base.errors import BackendError
from backend.base.log import suppress
from backend.base.room import disk_space
from backend.node.diagnosis.log_text import read_parts
from backend.node.run import run_files
from backend.node.run.rank_bootstrap import DUMP_VARIABLE
from backend.node.run.rank_outcome import LOG_LINES, EndCause, RankObservation, rank_exit
from backend.node.run.run_files import write_until_done
from backend.node.system import process_cleanup, process_identity
from backend.node.system.tcp_watch import BlockedReceiveWatch, TcpStallWatch
from backend.node.system.temp_dirs import make_own, shared_memory_folder
from backend.records.base import access_modes, timestamps
from backend.records.base.access_modes import create, make_folders
from backend.records.base.atomic_files import PreallocatedFile, read_json, replace_json
from backend.records.base.layout import JobFolder, run_tag
from backend.records.jobs.heartbeat import (
    BEAT_BYTES,
    BEAT_VARIABLE,
    LAST_WORDS_VARIABLE,
    Phase,
    RankHeartbeat,
)
from backend.records.jobs.launch import (
    ALLOCATED_DEVICES,
    Launch,
    RankPlan,
    visible_devices,
)
from backend.records.jobs.placement import ALLOCATED_GPU
from backend.records.jobs.schedulers import scheduler_of_run
from backend.records.jobs.status import RankError, RankExit
from backend.records.jobs.stop_request import stop_requested

TMPDIR_VARIABLE = "RINGMASTER_TMPDIR"
"""The user's TMPDIR, while mpirun itself runs with a shorter one."""

_WATCHED_SIGNALS = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_TICK_S = 0.5
_BEFORE_TRAINING = (Phase.IMPORTING, Phase.SETUP, Phase.WAITING_FOR_OTHERS)
_SETUP_LIMIT_S = 120.0
_LOCK_S = 1.0
_REPORT_S = 2.0
_DUMP_WAIT_S = 1.0
_LATE_DUMP_S = 10.0
"""The longest time for the stacks of a rank and its workers together, where they had no processor
yet: one that waits for a lost share never takes the signal."""
_TERM_S = 1.0
_HURRIED_TERM_S = 0.3
"""mpirun kills a guard 1 s (4.1) or 2 s (5.0) after it asked it to end; all must be done before."""
_EXIT_S = 20.0
"""How long a rank may take to leave after its last act."""
_DAEMON_S = 10.0
"""The time between two looks whether a run that lost this node is over."""
_WRITE_LIMIT_S = 90.0
"""Retry: the share may return within a minute; the rank is gone and holds nothing."""
_LOG_LIMIT_S = 2.0
"""How long the guard's own log may take to write: mpirun waits for it, and its share may hang."""
_LOG_TAIL_BYTES = 16_384
_MEMORY_BYTES = 200_000
_LONGEST_TMPDIR = 107 - len("/pymp-12345678/listener-12345678")
"""A socket's path has 107 bytes; with more, the loader workers of a rank hang."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="backend.node.run.rank_guard", description=__doc__)
    parser.add_argument("--job", type=Path, required=True, help="folder of the job")
    parser.add_argument("--run", type=int, required=True)
    parser.add_argument("--by-hand", metavar="NAME", default="", help="a folder of its own")
    options = parser.parse_args(arguments)
    signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED_SIGNALS)
    process_signals.die_with_parent(signal.SIGTERM, os.getppid())
    process_signals.become_subreaper()
    folder = JobFolder(options.job)
    access_modes.set_umask(folder.path)
    rank = int(os.environ.get("OMPI_COMM_WORLD_RANK", "0"))
    if options.by_hand:
        try:
            folder, launch = _prepare_manual_run(folder, options.run, options.by_hand, rank)
        except (BackendError, OSError, ValueError) as error:
            return _print_refusal(error)
    else:
        launch = Launch.from_dict(read_json(folder.launch))
    attempt = folder.attempt(launch.run)
    log.to_file_at_end(attempt.guard_log(rank))
    guard = Guard(folder, launch, launch.ranks[rank])
    record = guard.watch()
    write_until_done(attempt.rank_exit(rank), record.to_dict(), _WRITE_LIMIT_S)
    guard.end_lone_daemon(record)
    log.write_out(_LOG_LIMIT_S)
    # mpirun ends all ranks when one fails.
    is_good = record.outcome in ("finished", "interrupted") or launch.can_lose(rank)
    return 0 if is_good else 1


class Guard:
    """One rank from its start to its exit record."""

    def __init__(self, folder: JobFolder, launch: Launch, plan: RankPlan) -> None:
        self._folder = folder
        self._launch = launch
        self._plan = plan
        self._attempt = folder.attempt(launch.run)
        self._user_folders = tuple(
            source
            for source in (
                launch.model_source,
                launch.loader_source,
                launch.validation_loader_source,
            )
            if source
        )
        beat = os.memfd_create("beat")
        os.ftruncate(beat, BEAT_BYTES)
        self._beat_fd = beat
        self._beat = RankHeartbeat(mmap.mmap(beat, BEAT_BYTES))
        self._dump_fd = os.memfd_create("dump")
        self._error_fd = os.memfd_create("last words")
        self._refusal = ""
        try:
            self._log_fd = access_modes.open_for_writing(folder.rank_log(plan.rank))
        except PermissionError as error:
            self._refusal = run_files.refusal(error)
            self._log_fd = os.open(os.devnull, os.O_RDWR)
        self._shared_memory = shared_memory_folder(run_tag(launch.job_id, launch.run))
        self._launcher = os.getppid()
        self._stall_watch = TcpStallWatch(self._launcher)
        self._log_start = 0
        self._next_lock_check_s = 0.0
        self._has_begun = False
        self._child = 0
        self._status: int | None = None
        self._out_of_memory = _oom_kills()

    def watch(self) -> RankExit:
        """Start the rank, wait for its end, clear up behind it, and say how it ended."""
        self._log(
            f"── run {self._launch.run}, rank {self._plan.rank} on {os.uname().nodename}, "
            f"{timestamps.utc_now('seconds')} ──\n"
        )
        self._log_start = os.fstat(self._log_fd).st_size
        PreallocatedFile(self._attempt.rank_exit(self._plan.rank)).reserve()
        refusal = self._refusal or self._mismatch()
        if refusal:
            cause = RankError(refusal, says_remedy=bool(self._refusal))
            return self._record(RankObservation(Phase.IMPORTING, EndCause.ITSELF, error=cause))
        self._start()
        ended_by, stall_s, stop_was_requested = self._wait()
        _, phase = self._beat.read()
        if ended_by is EndCause.STALL:
            self._request_stacks()
        is_cut_off = self._is_cut_off(time.monotonic())
        is_given_up = self._is_given_up()
        grace_s = _HURRIED_TERM_S if ended_by is EndCause.LAUNCHER else _TERM_S
        process_cleanup.end(lambda: process_cleanup.descendants(os.getpid()), grace_s, self._reap)
        self._free_shared_memory()
        may_continue = self._launch.can_lose_nodes and self._has_begun
        if is_given_up or (is_cut_off and not may_continue):
            # Left alone it would wait for 15 minutes, and on the head the whole run with it.
            self._end_launcher()
        error, is_secondary = self._error_of_rank()
        dump = _read_memory(self._dump_fd)
        if dump:
            self._log(dump)
        observation = RankObservation(
            phase=phase,
            ended_by=ended_by,
            wait_status=self._status,
            error=error,
            error_is_secondary=is_secondary,
            dump=dump,
            log_tail=self._log_tail(),
            stall_s=stall_s,
            stop_was_requested=stop_was_requested,
            out_of_memory=_oom_kills() > self._out_of_memory,
            scheduler=scheduler_of_run(self._attempt),
        )
        if ended_by is EndCause.ITSELF and self._status:
            # Whatever is wrong with a package, the exit record must be written.
            with suppress(Exception):
                self._log(self._packages_line())
        return self._record(observation)

    def _packages_line(self) -> str:
        from backend.node.run.installed_packages import packages_line

        log_parts = read_parts(self._folder.rank_log(self._plan.rank), self._log_start)
        python = self._launch.script_python or self._launch.config.python or sys.executable
        return packages_line(log_parts, python)

    def _record(self, observation: RankObservation) -> RankExit:
        record = rank_exit(
            self._plan, self._launch.run, os.uname().nodename, observation, self._user_folders
        )
        open_files, shared_memory = _limits()
        return replace(record, open_files=open_files, shared_memory_bytes=shared_memory)

    def end_lone_daemon(self, record: RankExit) -> None:
        """Wait for the end of a run that continues without this node, then end its daemon here.

        Without keepalive it never ends. If it ended before, and a packet about that reached mpirun,
        mpirun would end the whole run: PRRTE 3.0 has no option against that (`errmgr_dvm.c`).
        """
        if not self._launch.can_lose_nodes or self._is_head or not record.is_secondary:
            return
        # Where mpirun can be reached, it ends its daemons and these their guards.
        while signal.sigtimedwait((signal.SIGTERM,), _DAEMON_S) is None:
            # The share may be away with the network.
            with suppress(OSError):
                if self._attempt.exit.exists() or os.getppid() != self._launcher:
                    self._end_launcher()
                    return

    def _end_launcher(self) -> None:
        with suppress(OSError):
            process_signals.send(
                self._launcher, lambda: os.getppid() == self._launcher, signal.SIGKILL
            )

    @property
    def _is_head(self) -> bool:
        return self._plan.node == self._launch.ranks[0].node

    def _mismatch(self) -> str:
        """Library and launcher that do not fit show as N jobs of one rank each."""
        planned_ranks = len(self._launch.ranks)
        started_ranks = int(os.environ.get("OMPI_COMM_WORLD_SIZE", "1"))
        if started_ranks == planned_ranks:
            return ""
        return (
            f"mpirun started {started_ranks} ranks where {planned_ranks} were planned; "
            "check that mpirun and the MPI library are of one installation."
        )

    # The rank's beginning.

    def _start(self) -> None:
        parent = os.getpid()
        environment = self._environment()
        command = (
            sys.executable,
            str(Path(__file__).with_name("rank_bootstrap.py")),
            self._launch.rank_module,
            "--job",
            str(self._folder.path),
            "--run",
            str(self._launch.run),
        )
        access_modes.make_folder(self._folder.output, exist_ok=True)
        self._child = os.fork()
        if self._child:
            return
        try:
            process_signals.die_with_parent(signal.SIGKILL, parent)
            os.setsid()
            null = os.open(os.devnull, os.O_RDONLY)
            os.dup2(null, 0)
            os.dup2(self._log_fd, 1)
            os.dup2(self._log_fd, 2)
            os.set_inheritable(self._beat_fd, True)
            os.set_inheritable(self._dump_fd, True)
            os.set_inheritable(self._error_fd, True)
            os.chdir(self._folder.output)
            access_modes.protect(self._launch.sources)
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            os.execve(command[0], command, environment)
        except BaseException as error:  # noqa: BLE001 - a forked child must never return
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
            os._exit(127)

    def _environment(self) -> Mapping[str, str]:
        environment = dict(os.environ)
        if TMPDIR_VARIABLE in environment:
            user_tmpdir = environment.pop(TMPDIR_VARIABLE)
            environment["TMPDIR"] = user_tmpdir
            if not user_tmpdir:
                del environment["TMPDIR"]
        environment["PYTHONHASHSEED"] = self._launch.config.hash_seed
        environment.update(self._launch.config.environment)
        # The rank itself adds the job's folders, behind its own modules.
        environment["PYTHONPATH"] = os.environ.get("PYTHONPATH", "")
        user_tmpdir = environment.get("TMPDIR", "")
        if len(os.fsencode(user_tmpdir)) > _LONGEST_TMPDIR:
            del environment["TMPDIR"]
            self._log(
                f"TMPDIR {user_tmpdir} is too long for the sockets of loader workers; unset.\n"
            )
        environment.setdefault("OMP_NUM_THREADS", str(_cores_of_a_rank()))
        # Threads that wait by spinning eat the cores of those they wait for: where something else
        # computes on the node, a step of two threads took 800 ms, and 10 ms with this.
        environment.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        if make_own(self._shared_memory):
            # Open MPI 5.0 knows the first name, 4.1 the second.
            for name in ("sm", "vader"):
                variable = f"OMPI_MCA_btl_{name}_backing_directory"
                environment[variable] = str(self._shared_memory)
        environment[BEAT_VARIABLE] = str(self._beat_fd)
        environment[DUMP_VARIABLE] = str(self._dump_fd)
        environment[LAST_WORDS_VARIABLE] = str(self._error_fd)
        # None on processors: such a job holds no GPU, not even by a library that looks for one.
        if ALLOCATED_GPU in self._plan.gpu:
            environment[ALLOCATED_DEVICES] = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        environment["CUDA_VISIBLE_DEVICES"] = visible_devices(self._plan.gpu, environment)
        # What a model prints shall be in the log when it hangs in the next line.
        environment["PYTHONUNBUFFERED"] = "1"
        return environment

    # The rank's life.

    def _wait(self) -> tuple[EndCause, float, bool]:
        """Wait until the rank ends or hangs, or a signal ends this guard."""
        last_beat = self._beat.read()
        progress_s = reported_s = next_check_s = time.monotonic()
        stop_seen_s: float | None = None
        receive_watch = BlockedReceiveWatch(self._child)
        # While the ranks meet. Later the user's code may wait in a receive, and so does a rank
        # of the other strategies.
        uses_mpi = (
            self._launch.config.strategy.name == "allreduce" and not self._launch.config.script
        )
        while True:
            signal_info = signal.sigtimedwait(_WATCHED_SIGNALS, _TICK_S)
            self._reap()
            end_requested = signal_info is not None and signal_info.si_signo != signal.SIGCHLD
            if self._status == signal.SIGTERM and not end_requested:
                # A sweep asks guard and rank at the same time, and the rank may be gone first.
                end_requested = signal.sigtimedwait((signal.SIGTERM,), _TICK_S) is not None
            if end_requested and self._status in (None, signal.SIGTERM):
                return EndCause.LAUNCHER, 0.0, stop_seen_s is not None
            if self._status is not None:
                return EndCause.ITSELF, 0.0, stop_seen_s is not None
            now_s = time.monotonic()
            beat = self._beat.read()
            if beat != last_beat:
                last_beat, progress_s = beat, now_s
            if stop_seen_s is None and self._stop_is_requested(now_s):
                stop_seen_s = now_s
            if stop_seen_s is not None and now_s > reported_s + _REPORT_S:
                # The supervisor gives up on ranks that make no progress after a stop request.
                # It sees when this log was last touched, and not the heartbeat.
                if progress_s > reported_s or beat[1] is Phase.SAVING:
                    # A share that became read-only must not end the guard, and with it the rank.
                    with suppress(OSError):
                        os.utime(self._log_fd)
                reported_s = now_s
            if now_s >= next_check_s:
                next_check_s = now_s + _LOCK_S
                if self._is_given_up():
                    return EndCause.LAUNCHER, 0.0, stop_seen_s is not None
            uses_mpi &= beat[1] in (Phase.IMPORTING, Phase.WAITING_FOR_OTHERS)
            if uses_mpi:
                receive_watch.end_blocked(now_s)
            if self._is_cut_off(now_s):
                return EndCause.LAUNCHER, 0.0, stop_seen_s is not None
            limit_s = self._limit_s(beat[1], stop_seen_s is not None)
            if now_s > max(progress_s, stop_seen_s or 0.0) + limit_s:
                return EndCause.STALL, limit_s, stop_seen_s is not None

    def _is_cut_off(self, now_s: float) -> bool:
        """Return whether mpirun, or its daemon here, lost its connection to another node."""
        if self._launch.can_lose_nodes and self._is_head and self._has_begun:
            return False
        return self._stall_watch.any(now_s)

    def _is_given_up(self) -> bool:
        """Return whether the run is over on record: this node, or the head, stood still.

        The job may continue elsewhere, and these ranks must not write to it.
        """
        with suppress(OSError):
            # NFS caches that a file is missing; opening its folder makes it ask again.
            os.close(os.open(self._attempt.path, os.O_RDONLY))
            return self._attempt.exit.exists()
        return False

    def _stop_is_requested(self, now_s: float) -> bool:
        if now_s < self._next_lock_check_s:
            return False
        self._next_lock_check_s = now_s + _LOCK_S
        # A share that is away for a while must not end the rank; it is asked again.
        with suppress(OSError):
            return stop_requested(self._folder.stop_request, self._launch.run)
        return False

    def _limit_s(self, phase: Phase, stop_was_requested: bool) -> float:
        if phase in (Phase.FINISHED, Phase.INTERRUPTED):
            return _EXIT_S
        limit_s = self._launch.config.stall_limit_s
        self._has_begun |= phase not in _BEFORE_TRAINING
        if not self._has_begun:
            # A first import over NFS reads 500 MB; a limit meant for steps says nothing about it.
            limit_s = max(limit_s, _SETUP_LIMIT_S)
        if phase is Phase.WAITING_FOR_OTHERS:
            # The rank that is waited for stands still as long, and its own guard shall speak first.
            return limit_s + max(3.0, 0.1 * limit_s)
        if stop_was_requested and phase is not Phase.SAVING:
            return min(limit_s, self._launch.grace_s)
        return limit_s

    def _reap(self) -> None:
        self._status = process_cleanup.reap().get(self._child, self._status)

    # The rank's end.

    def _request_stacks(self) -> None:
        """Have the rank and its workers write their stacks, those that know how to."""
        deadline = time.monotonic() + _LATE_DUMP_S
        rank = process_identity.process(self._child)
        for process in (rank, *process_cleanup.descendants(self._child)):
            # An unhandled SIGUSR1 would end it.
            if process is None or not _has_usr1(f"/proc/{process.pid}", "SigCgt"):
                continue
            dump_bytes, blocking_threads = (
                os.fstat(self._dump_fd).st_size,
                _blocking_usr1(process.pid),
            )
            process_identity.send_signal(process, signal.SIGUSR1)
            _wait_until_dumped(self._dump_fd, dump_bytes, process.pid, blocking_threads, deadline)

    def _free_shared_memory(self) -> None:
        """Remove what a killed rank left in memory: 16 MiB each time, until the next reboot."""
        with suppress(OSError):
            for segment in self._shared_memory.glob(f"*_segment.*.{self._plan.rank}"):
                segment.unlink(missing_ok=True)
            self._shared_memory.rmdir()  # by the last guard of this node; the others fail here

    def _error_of_rank(self) -> tuple[RankError | None, bool]:
        with suppress(OSError, ValueError):
            return _error_of(read_json(self._attempt.rank_error(self._plan.rank)))
        # The disk may be what ended it.
        with suppress(OSError, ValueError):
            return _error_of(json.loads(_read_memory(self._error_fd)))
        return None, False

    def _log(self, text: str) -> None:
        with suppress(OSError):  # a full disk must not keep the exit record from being tried
            os.write(self._log_fd, text.encode("utf-8", "replace"))

    def _log_tail(self) -> str:
        with suppress(OSError), self._folder.rank_log(self._plan.rank).open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(self._log_start, size - _LOG_TAIL_BYTES))
            lines = file.read(_LOG_TAIL_BYTES).decode("utf-8", "replace").splitlines()
            return "\n".join(lines[-LOG_LINES:])
        return ""


def _error_of(raw: Mapping[str, Any]) -> tuple[RankError, bool]:
    return RankError.from_dict(raw), bool(raw.get("secondary", False))


def _read_memory(descriptor: int) -> str:
    return os.pread(descriptor, _MEMORY_BYTES, 0).decode("utf-8", "replace")


def _wait_until_dumped(
    descriptor: int, previous_bytes: int, pid: int, blocking_threads: Set[str], deadline: float
) -> None:
    """Wait until the signal is taken and its handler has written all that it has to say."""
    requested_s = time.monotonic()
    while (now_s := time.monotonic()) < deadline:
        time.sleep(0.02)
        # A signal is blocked in the thread that handles it.
        if _has_usr1(f"/proc/{pid}", "ShdPnd") or _blocking_usr1(pid) - blocking_threads:
            continue
        if os.fstat(descriptor).st_size > previous_bytes or now_s > requested_s + _DUMP_WAIT_S:
            return


def _blocking_usr1(pid: int) -> set[str]:
    """Return the threads of a process in which SIGUSR1 is blocked now."""
    return {task for task in glob(f"/proc/{pid}/task/*") if _has_usr1(task, "SigBlk")}


def _has_usr1(folder: str, name: str) -> bool:
    """Return whether this set of signals of a process or a thread contains SIGUSR1."""
    with suppress(OSError), open(f"{folder}/status", encoding="utf-8") as file:
        for line in file:
            if line.startswith(f"{name}:"):
                return bool(int(line.split()[1], 16) >> (signal.SIGUSR1 - 1) & 1)
    return False


def _limits() -> tuple[int | None, int | None]:
    """Return how many files a rank can open, and the size of its /dev/shm; None if unlimited."""
    open_files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    shared_memory = None
    with suppress(OSError):
        shared_memory = disk_space("/dev/shm").total_bytes
    return None if open_files == resource.RLIM_INFINITY else open_files, shared_memory


def _cores_of_a_rank() -> int:
    """The cores this process may use, shared with the other ranks on the node."""
    ranks_here = int(os.environ.get("OMPI_COMM_WORLD_LOCAL_SIZE", "1"))
    return max(1, usable_cores() // ranks_here)


def _oom_kills() -> int:
    """Return the number of out-of-memory kills in this cgroup or on this computer."""
    total = 0
    with suppress(OSError, ValueError), open("/proc/vmstat", encoding="ascii") as file:
        total += sum(int(line.split()[1]) for line in file if line.startswith("oom_kill "))
    with suppress(OSError, ValueError):
        group = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()[-1]
        events = Path("/sys/fs/cgroup") / group.split(":", 2)[2].lstrip("/") / "memory.events"
        total += sum(
            int(line.split()[1])
            for line in events.read_text(encoding="ascii").splitlines()
            if line.startswith("oom_kill ")
        )
    return total


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


def _prepare_manual_run(
    folder: JobFolder, run: int, name: str, rank: int
) -> tuple[JobFolder, Launch]:
    """Return the folder of the run called ``name``, and its launch.

    Raises:
        BackendError: The run exists already, or the job's current run is not ``run``.
        OSError: The job's folder cannot be read or written.
        ValueError: Its launch record cannot be used.
    """
    if not _NAME.fullmatch(name):
        raise BackendError(f"“{name}” is not a valid folder name.", "Use letters and digits only.")
    launch = Launch.from_dict(read_json(folder.launch))
    if launch.run != run:
        raise BackendError(
            f"The job started run {launch.run} after this command was copied.",
            "Copy the command again.",
        )
    own_folder = folder.manual_run(name)
    launch = replace(launch, job_id=launch.manual_run_id(name), run=1)
    for path in (
        own_folder.logs,
        own_folder.output,
        own_folder.checkpoints,
        own_folder.attempt(1).path,
    ):
        make_folders(path)
    try:
        os.close(create(own_folder.attempt(1).path / f"begun-{rank}"))
    except FileExistsError as error:
        raise BackendError(
            f"{own_folder.path} holds the results of an earlier run of this command; it is kept.",
            f"Replace {name} at the end of the command by another name.",
        ) from error
    replace_json(own_folder.launch, launch.to_dict())
    if rank == 0:
        _print(f"Training in {own_folder.path}; press Ctrl+C to end it.")
    return own_folder, launch


def _print_refusal(error: Exception) -> int:
    """Print on the terminal why nothing was started."""
    remedy = error.remedy if isinstance(error, BackendError) else ""
    _print(" ".join(filter(None, (str(error), remedy))))
    return 1


def _print(message: str) -> None:
    with suppress(OSError):
        sys.stderr.write(f"{message}\n")
        sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
