"""Run mpirun for one run, independent of the window, and record how the run ended.

No process waits for it and no pipe leads to it: a reader of mpirun's output that died took mpirun
along by SIGPIPE in 0.47 s. Each of its waits has a limit: for mpirun after its ranks are gone, for
ranks that never start, and for ranks that ignore a stop request.

One thread, no handler: every signal is blocked and taken with `sigtimedwait`.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from backend.base import log, process_signals
from backend.base.errors import BackendError
from backend.base.log import suppress, swallowed
from backend.base.rendezvous_point import SECRET_VARIABLE, RendezvousPoint
from backend.node.diagnosis.log_text import read_logs, read_parts
from backend.node.metrics.energy import EnergyMeter, allocated_nodes
from backend.node.metrics.probe import OtherPrograms
from backend.node.notifications import send as notifications
from backend.node.queue import retry
from backend.node.run import launch_command, remote_cleanup, run_files, usage_log
from backend.node.run.ended_run import EndedRun
from backend.node.run.give_way import GiveWayWatch
from backend.node.run.head_watch import SilenceWatch
from backend.node.run.rank_guard import TMPDIR_VARIABLE
from backend.node.run.run_files import write_until_done
from backend.node.run.run_outcome import final_status, run_exit
from backend.node.system import (
    background_service,
    mpi,
    process_cleanup,
    process_identity,
    temp_dirs,
    wording,
)
from backend.node.system.tcp_watch import BlockedReceiveWatch
from backend.records.base import access_modes, timestamps
from backend.records.base.atomic_files import (
    PreallocatedFile,
    read_json,
    replace_json,
    stored_record,
)
from backend.records.base.layout import RUN_VARIABLE, DataRoot, JobFolder, run_tag
from backend.records.jobs.launch import Launch, RankPlan
from backend.records.jobs.status import (
    ProcessIdentity,
    RankError,
    RankExit,
    RunExit,
    RunStatus,
    last_status,
)
from backend.records.jobs.stop_request import (
    kill_requested,
    pause_requested,
    stop_reason,
    stop_requested,
    stop_requested_by,
)
from backend.records.jobs.usage import NodeUsage, total_energy_j

if TYPE_CHECKING:
    from backend.node.run.grow import GrowthWatch

_END_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
WATCHED_SIGNALS = (signal.SIGCHLD, signal.SIGUSR1, *_END_SIGNALS)
_POLL_S = 0.3
_log = logging.getLogger(__name__)
_LAUNCHER_TERM_S = 5.0
"""From TERM to KILL of mpirun; it needs 2 s itself for ranks that do not go."""
_AFTER_FAILURE_S = 10.0
"""mpirun ends the other ranks within 2.2 s of the first failure, or not at all."""
_REMOTE_RANKS_S = 60.0
"""From the end of all ranks on the head to that of mpirun, where no others can be seen."""
_SETTLE_S = 3.0
"""Guards outlive a killed mpirun for a moment, and write their records in it."""
_START_LIMIT_S = 100.0
_FIRST_STEP_S = 0.6
"""Rank 0 writes twice a second: a status that still says SETUP after this is true."""
_WRITE_LIMIT_S = 600.0
_LOG_LIMIT_S = 2.0
_LOGS_READ = 8
"""Logs of ranks that are read for a cause, 320 KiB of each at most."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="backend.node.run.supervisor", description=__doc__)
    parser.add_argument("--job", type=Path, required=True, help="folder of the job")
    parser.add_argument("--run", type=int, required=True)
    parser.add_argument(
        "--detach", action="store_true", help="return at once and continue in the background"
    )
    options = parser.parse_args(arguments)
    folder = JobFolder(options.job.absolute())
    own_log = folder.attempt(options.run).supervisor_log
    access_modes.set_umask(folder.path)
    if not options.detach:
        with suppress(PermissionError):
            os.setsid()
    elif background_service.detach(own_log):
        return 0
    log.to_file_at_end(own_log)
    Supervisor(folder, options.run).supervise()
    notifications.start_delivery(folder, options.run)
    return 0


class Scheduler(Protocol):
    """A batch system that runs the supervisor, and queues the job again after its end."""

    def request_stop(self) -> None:
        """Request a stop with a checkpoint: SIGUSR1 announces the end of the job."""

    def end_cause(self) -> RankError | None:
        """Return why the batch system ends the job, None if it does not."""

    def pause_reason(self, record: RunExit) -> str:
        """Return why the job continues after this end of a run, "" if it does not."""


class Supervisor:
    """One run from the start of mpirun to ``exit.json``."""

    def __init__(self, folder: JobFolder, run: int, scheduler: Scheduler | None = None) -> None:
        self._scheduler = scheduler
        self._folder = folder
        self._run = run
        self._attempt = folder.attempt(run)
        self._tag = run_tag(folder.job_id, run)
        self._exits: list[RankExit] = []
        self._launcher: ProcessIdentity | None = None
        self._launcher_pid = 0
        self._launcher_status: int | None = None
        self._started_s = 0.0
        self._clock = timestamps.EvenClock()
        self._over_since_s: float | None = None
        self._silent_ranks: list[RankPlan] = []
        self._earlier_log_bytes: dict[int, int] = {}
        self._progress: object = None
        self._progress_s = 0.0
        self._end_signal = ""
        self._ended_early = False
        self._give_up_message = ""
        self._unreached_nodes: tuple[str, ...] = ()
        self._nodes_without_root: tuple[str, ...] = ()
        self._silent_nodes: tuple[str, ...] = ()
        self._waited_s: float | None = None
        self._stop_seen_s: float | None = None
        self._give_way: GiveWayWatch | None = None
        self._grow: GrowthWatch | None = None

    def supervise(self) -> RunExit:
        signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED_SIGNALS)
        process_signals.become_subreaper()
        if self._attempt.exit.exists():
            # Too slow: the run was given up, and that is on record.
            return RunExit.from_dict(read_json(self._attempt.exit))
        replace_json(self._attempt.supervisor, process_identity.own_process().to_dict())
        self._waited_s = run_files.waited_s(self._folder, self._attempt)
        try:
            launch = Launch.from_dict(read_json(self._folder.launch))
        except (OSError, ValueError) as error:
            return self._close(
                EndedRun(self._run, (), (), launcher_error=f"launch.json cannot be used: {error}")
            )
        log_start = self._prepare(launch)
        other_programs = OtherPrograms()
        refusal = self._start(launch)
        nodes = allocated_nodes(launch.ranks)
        if not refusal:
            meter = EnergyMeter(DataRoot(self._folder.path.parent.parent), launch.ranks)
            meter.start()
            self._watch(launch, meter)
            nodes = meter.usage()
        leftovers = self._clear_up(launch)
        first_outcome = next((record.outcome for record in self._exits if record.rank == 0), "")
        if launch.config.script and first_outcome not in ("finished", "interrupted"):
            run_files.record_checkpoints(self._folder)
        checkpoint = run_files.newest_checkpoint(self._folder)
        status = last_status(self._folder)
        return self._close(
            EndedRun(
                run=self._run,
                ranks=launch.ranks,
                exits=tuple(self._exits),
                expendable_ranks=launch.expendable,
                launcher=_launcher_name(launch),
                launcher_code=_exit_code(self._launcher_status),
                launcher_error=refusal,
                launcher_log=run_files.text_from(self._folder.mpirun_log, log_start),
                stop_was_requested=self._stop_seen_s is not None or self._stop_is_requested(),
                stopped_by=stop_requested_by(self._folder.stop_request),
                stop_reason=stop_reason(self._folder.stop_request),
                pause=pause_requested(self._folder.stop_request, self._run),
                ended_early=self._ended_early,
                end_signal=self._end_signal,
                outside_error=self._scheduler.end_cause() if self._scheduler is not None else None,
                give_up_reason=self._give_up_message,
                unreached_nodes=self._unreached_nodes,
                nodes_without_root=self._nodes_without_root,
                silent_nodes=self._silent_nodes,
                data_root=str(self._folder.path.parent.parent),
                newest_checkpoint=checkpoint[0],
                checkpoint_of_run=checkpoint[1] == self._run,
                runs_script=bool(launch.config.script),
                can_resume=bool(checkpoint[0])
                and bool(launch.config.resume_arguments or not launch.config.script),
                other_cpu=other_programs.share(),
                logs=read_logs(
                    self._folder, self._reporting_ranks(launch), self._earlier_log_bytes
                ),
                mpirun_log=read_parts(self._folder.mpirun_log, log_start),
                last_status=status,
                wrote_nothing=bool(launch.config.script)
                and checkpoint[1] != self._run
                and run_files.wrote_nothing(self._folder, launch, status),
                has_no_curve=bool(launch.config.script) and not (status and status.metrics),
                log_end=run_files.end_of(self._folder.rank_log(0)) if launch.config.script else "",
            ),
            leftovers,
            launch,
            status,
            nodes,
        )

    def _prepare(self, launch: Launch) -> int:
        """Reserve the files of the end; return where mpirun's log of this run begins."""
        # Rank 0 may have had no time to reserve that of the status.
        for path in (self._attempt.exit, self._folder.status):
            PreallocatedFile(path).reserve()
        # mpirun starts ranks when it has reached all nodes, so those that can be seen are enough.
        self._silent_ranks = self._visible_ranks(launch)
        self._earlier_log_bytes = {
            plan.rank: run_files.size(self._folder.rank_log(plan.rank)) for plan in launch.ranks
        }
        return run_files.size(self._folder.mpirun_log)

    def _reporting_ranks(self, launch: Launch) -> Sequence[int]:
        """The ranks whose logs may say why the run failed: those that failed first, or not at all.

        A run that ended as it should has none, and its logs are not read.
        """
        finished_ranks = {
            record.rank for record in self._exits if record.outcome in ("finished", "interrupted")
        }
        failed_ranks = [
            record.rank for record in self._exits if record.error and not record.is_secondary
        ]
        failed_ranks.sort(key=launch.can_lose)
        silent_ranks = [plan.rank for plan in launch.ranks if plan.rank not in finished_ranks]
        return tuple(dict.fromkeys((*failed_ranks, *silent_ranks)))[:_LOGS_READ]

    # mpirun's beginning.

    def _start(self, launch: Launch) -> str:
        """Start mpirun; returns why it could not be started, or ""."""
        try:
            access_modes.make_folder(self._folder.logs, exist_ok=True)
            output = access_modes.open_for_writing(self._folder.mpirun_log)
        except PermissionError as error:
            return run_files.refusal(error)
        os.write(output, f"── run {self._run}, {timestamps.utc_now('seconds')} ──\n".encode())
        # The supervisor is on the first node, where rank 0 will listen.
        try:
            self._rendezvous_point = RendezvousPoint(launch.rendezvous_host)
        except OSError as error:
            return f"No port can be reserved for {launch.rendezvous_host}: {error.strerror}."
        try:
            command = launch_command.command(launch)
        except BackendError as error:
            return str(error)
        environment = _environment(launch, self._rendezvous_point)
        parent_pid = os.getpid()
        # The pipe closes when the execution succeeds, and carries the reason when it does not.
        read_end, write_end = os.pipe()
        child_pid = os.fork()
        if child_pid == 0:
            try:
                process_signals.die_with_parent(signal.SIGKILL, parent_pid)
                os.setsid()
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                os.dup2(output, 1)
                os.dup2(output, 2)
                os.chdir("/")
                signal.pthread_sigmask(signal.SIG_SETMASK, ())
                os.execvpe(command[0], command, environment)
            except BaseException as error:  # noqa: BLE001 - a forked child must never return
                reason = error.strerror if isinstance(error, OSError) else repr(error)
                os.write(write_end, str(reason).encode())
                os._exit(127)
        os.close(write_end)
        os.close(output)
        with os.fdopen(read_end, "rb") as pipe:
            reason = pipe.read().decode("utf-8", "replace")
        if reason:
            os.waitpid(child_pid, 0)
            return f"{command[0]} could not be started: {reason}."
        self._launcher_pid = child_pid
        self._launcher = process_identity.process(child_pid)  # None when it has ended already
        self._receive_watch = BlockedReceiveWatch(child_pid)
        return ""

    # The run's life.

    def _watch(self, launch: Launch, meter: EnergyMeter) -> None:
        """Until mpirun is gone."""
        self._give_way = GiveWayWatch(self._folder, launch)
        silence_watch = SilenceWatch(self._folder, launch)
        if launch.continuation is not None and launch.continuation.is_short:
            # Imported only when needed: it needs the queue.
            from backend.node.run.grow import GrowthWatch

            self._grow = GrowthWatch(self._folder, launch)
        self._started_s = self._progress_s = time.monotonic()
        next_check_s = 0.0
        while self._launcher_status is None:
            signal_info = signal.sigtimedwait(WATCHED_SIGNALS, _POLL_S)
            self._reap()
            now_s = time.monotonic()
            if signal_info is not None and signal_info.si_signo == signal.SIGUSR1:
                if self._scheduler is not None:
                    self._scheduler.request_stop()
            elif signal_info is not None and signal_info.si_signo != signal.SIGCHLD:
                self._end_signal = wording.signal_name(signal_info.si_signo)
                return self._end_launcher()
            # A child that ends wakes this up; only looks at the share keep their distance.
            if now_s < next_check_s:
                continue
            next_check_s = now_s + _POLL_S
            self._collect(launch)
            self._receive_watch.end_blocked(now_s)
            meter.sample()
            if self._give_way is not None:
                self._give_way.watch()
            if self._grow is not None:
                self._grow.watch()
            if self._stop_seen_s is None and self._over_since_s is None:
                self._silent_nodes = silence_watch.find_silent_nodes()
            if (
                self._silent_nodes
                or self._failed_long_ago(launch, now_s)
                or self._never_started(launch, now_s)
                or self._must_stop(launch, now_s)
            ):
                return self._end_launcher()
        # A machine that shuts down signals all processes at once; mpirun may be gone first.
        late_signal = signal.sigtimedwait(_END_SIGNALS, _POLL_S) if self._launcher_status else None
        if late_signal is not None:
            self._end_signal = wording.signal_name(late_signal.si_signo)
        return None

    def _failed_long_ago(self, launch: Launch, now_s: float) -> bool:
        """Return whether mpirun should have ended by itself, judging by the ranks' records."""
        # Whether ranks on nodes without the data root are about to exit is not known here.
        visible_ranks = self._visible_ranks(launch)
        ended_ranks = {record.rank for record in self._exits}
        all_ended = all(
            plan.rank in ended_ranks or launch.can_lose(plan.rank) for plan in visible_ranks
        )
        limit_s = (
            _REMOTE_RANKS_S
            if all_ended and len(visible_ranks) < len(launch.ranks)
            else _AFTER_FAILURE_S
        )
        if self._over_since_s is None and (
            all_ended
            or any(record.error and not launch.can_lose(record.rank) for record in self._exits)
        ):
            self._over_since_s = now_s
        if self._over_since_s is None or now_s < self._over_since_s + limit_s:
            return False
        if not all_ended:
            self._give_up_message = "mpirun did not end the other ranks."
        return True

    @staticmethod
    def _visible_ranks(launch: Launch) -> list[RankPlan]:
        """The ranks whose files can be seen from here before the run is over."""
        head = launch.ranks[0].node
        return [plan for plan in launch.ranks if plan.node == head or not launch.is_staged]

    def _never_started(self, launch: Launch, now_s: float) -> bool:
        """Return whether a rank's guard has not opened its log within the limit."""
        self._silent_ranks = [
            plan
            for plan in self._silent_ranks
            if run_files.size(self._folder.rank_log(plan.rank))
            <= self._earlier_log_bytes[plan.rank]
        ]
        if not self._silent_ranks or now_s < self._started_s + _START_LIMIT_S:
            return False
        plan = self._silent_ranks[0]
        self._give_up_message = (
            f"mpirun did not start rank {plan.rank} on {wording.node_label(plan.node)} within "
            f"{_START_LIMIT_S:.0f} s; {self._why_not_started()}."
        )
        return True

    def _why_not_started(self) -> str:
        if not self._receive_watch.blocking_addresses:
            return "logs/mpirun.log may say why"
        addresses = ", ".join(self._receive_watch.blocking_addresses)
        return f"connections from {addresses} to mpirun's ports kept it waiting"

    def _must_stop(self, launch: Launch, now_s: float) -> bool:
        """Return whether the ranks ignore, or cannot see, a stop request."""
        if self._stop_seen_s is None:
            if not self._stop_is_requested():
                return False
            self._stop_seen_s = self._progress_s = now_s
        is_to_end = kill_requested(self._folder.stop_request, self._run)
        if not run_files.has_begun(last_status(self._folder)):
            self._ended_early = is_to_end or now_s > self._stop_seen_s + _FIRST_STEP_S
            return self._ended_early
        if is_to_end:
            self._give_up_message = "The run was killed on request."
            return True
        progress = (run_files.signs_of_work(self._folder, launch), len(self._exits))
        if progress != self._progress:
            self._progress, self._progress_s = progress, now_s
        # The guards end a rank that hangs by their own, finer measure; this is for the case
        # that no guard can.
        limit_s = 2 * launch.grace_s + 10
        if now_s < self._progress_s + limit_s:
            return False
        self._give_up_message = (
            f"No rank made progress for {wording.seconds(limit_s)} after the stop request."
        )
        return True

    def _stop_is_requested(self) -> bool:
        with suppress(OSError):
            return stop_requested(self._folder.stop_request, self._run)
        return False

    def _end_launcher(self) -> None:
        """TERM to mpirun, which ends every rank on every node; KILL when it does not go."""
        launcher = self._launcher
        if launcher is None:
            return
        process_cleanup.end(
            lambda: (launcher,) if process_identity.is_alive(launcher) else (),
            _LAUNCHER_TERM_S,
            self._reap,
        )

    def _reap(self) -> None:
        self._launcher_status = process_cleanup.reap().get(
            self._launcher_pid, self._launcher_status
        )

    def _collect(self, launch: Launch) -> None:
        """Read the exit records that are new, in the order in which they were written."""
        known_ranks = {record.rank for record in self._exits}
        new_records: list[tuple[int, RankExit]] = []
        try:
            names = set(os.listdir(self._attempt.path))
        except OSError as error:
            swallowed(error)
            return
        for plan in launch.ranks:
            path = self._attempt.rank_exit(plan.rank)
            if plan.rank in known_ranks or path.name not in names:
                continue
            try:
                written_ns = path.stat().st_mtime_ns
                new_records.append((written_ns, RankExit.from_dict(read_json(path))))
            except (OSError, ValueError) as error:
                swallowed(error)
                continue
        # Ranks that end after the loss of a node end because of that.
        is_echo = bool(self._silent_nodes)
        self._exits += [
            replace(record, is_secondary=record.is_secondary or is_echo)
            for _, record in sorted(new_records, key=lambda pair: pair[0])
        ]

    # The run's end.

    def _clear_up(self, launch: Launch) -> tuple[int, ...]:
        """Wait for the guards' last words, then end what is left of the run here."""
        deadline = time.monotonic() + _SETTLE_S
        while process_cleanup.tagged(self._tag) and time.monotonic() < deadline:
            self._reap()
            time.sleep(0.02)
        leftovers = process_cleanup.end_tagged(self._tag, 1.0, self._reap)
        # What dropped its environment fell to this process, as the nearest subreaper.
        leftovers += process_cleanup.end(
            lambda: process_cleanup.descendants(os.getpid()), 1.0, self._reap
        )
        temp_dirs.remove(self._tag)
        self._sweep_other_nodes(launch)
        self._collect(launch)
        return tuple(dict.fromkeys(leftovers))

    def _sweep_other_nodes(self, launch: Launch) -> None:
        """Proof that nothing is left there; a node that does not answer clears up by its guards."""
        answers = remote_cleanup.end_on_other_nodes(launch, self._tag, self._folder)
        self._unreached_nodes = tuple(
            node for node, answer in answers.items() if not answer.is_reachable
        )
        self._nodes_without_root = tuple(
            node for node, answer in answers.items() if not answer.sees_folder
        )
        for node, answer in answers.items():
            if answer.message:
                with suppress(OSError), self._folder.mpirun_log.open("a", encoding="utf-8") as file:
                    file.write(f"── after the end, {node}: {answer.message} ──\n")

    def _close(
        self,
        ended_run: EndedRun,
        leftovers: tuple[int, ...] = (),
        launch: Launch | None = None,
        status: RunStatus | None = None,
        nodes: tuple[NodeUsage, ...] = (),
    ) -> RunExit:
        if (record := stored_record(RunExit, self._attempt.exit)) is not None:
            # Another node gave the run up while this one was cut off, and the job continues there.
            return record
        record = run_exit(ended_run, leftovers, timestamps.utc_now())
        has_grown = self._grow is not None and self._grow.continue_run(record)
        if self._give_way is not None and not has_grown and self._scheduler is None:
            self._give_way.continue_run(record)
        record = replace(
            record,
            energy_j=total_energy_j(nodes),
            took_s=round(self._clock.elapsed_s(), 3),
            nodes=nodes,
            waited_s=self._waited_s,
        )
        _log.info("Run %d of %s ended: %s", self._run, self._folder.job_id, record.state.value)
        # Before the end is recorded: no reader takes the job for one that has failed for good.
        if self._scheduler is not None:
            record = replace(record, pause=self._scheduler.pause_reason(record))
        else:
            retry.carry_out(
                self._folder,
                launch,
                retry.plan(
                    self._folder, launch, record, {*self._unreached_nodes, *self._silent_nodes}
                ),
            )
        # Before exit.json: with that, the folder may be moved or removed.
        usage_log.append_run(self._folder, launch, record, record.started_at)
        log.write_out(_LOG_LIMIT_S)
        write_until_done(self._attempt.exit, record.to_dict(), _WRITE_LIMIT_S)
        if self._folder.newest_run() == self._run:
            end_status = final_status(record, status, launch)
            write_until_done(self._folder.status, end_status.to_dict(), _WRITE_LIMIT_S)
        return record


def _environment(launch: Launch, rendezvous_point: RendezvousPoint) -> Mapping[str, str]:
    environment = {**mpi.environment(), **mpi.asking_for_shells(launch.ssh_config)}
    environment.update(launch_command.environment(launch))
    environment.update(rendezvous_point.variables)
    if launch.config.script:
        # Its programs have their own protection, or none, and do not share a port.
        rendezvous_point.release()
        del environment[SECRET_VARIABLE]
    session_folder = temp_dirs.session_folder(environment[RUN_VARIABLE])
    if temp_dirs.make_own(session_folder):
        environment[TMPDIR_VARIABLE] = environment.get("TMPDIR", "")
        environment["TMPDIR"] = str(session_folder)
    return environment


def _launcher_name(launch: Launch) -> str:
    if not launch.config.needs_mpirun:
        return "The guard of the rank"
    return Path(launch.launcher.path).name


def _exit_code(status: int | None) -> int | None:
    """Exit code, or minus the signal, as `subprocess` has it."""
    if status is None:
        return None
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


if __name__ == "__main__":
    sys.exit(main())
