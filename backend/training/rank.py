"""One rank of a run: ``python -m backend.training.rank --job FOLDER --run N``.

mpirun (through the guard) starts it once for each slot; started by hand it is rank 0 of 1. Its last
action is a heartbeat with FINISHED or INTERRUPTED. Every other end is an error, and one that Python
can catch is written to ``attempts/<n>/rank-<k>.error.json``.

torch and Horovod are imported only after the environment is set for the job: GPU, number of threads
and Keras' backend are read from it during the import.
"""

from __future__ import annotations

import argparse
import atexit
import importlib
import os
import resource
import signal
import sys
import threading
import traceback
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Protocol

from backend.base.errors import BackendError
from backend.base.log import suppress
from backend.records.base.access_modes import make_folders
from backend.records.base.atomic_files import read_json, replace_json
from backend.records.base.layout import RUN_VARIABLE, JobFolder, run_tag
from backend.records.jobs.heartbeat import Phase, RankHeartbeat, report_to_guard
from backend.records.jobs.launch import Launch, RankPlan, visible_devices
from backend.records.jobs.status import last_status
from backend.training import lazy_dynamo, strategies

# The workers of a process pool import this module, too, and must find the user's modules.
from backend.training.user_code import sources  # noqa: F401
from backend.training.user_code.importing import set_variables

if TYPE_CHECKING:
    import torch

    from backend.training.strategies.base import Strategy
    from backend.training.strategies.rendezvous import Rendezvous
    from backend.training.train_state import Batch, Outcome, Rank0Services

    class Role(Protocol):
        """The work of a rank."""

        batch: Batch

        def run(self) -> Outcome: ...


def main(arguments: list[str] | None = None) -> NoReturn:
    parser = argparse.ArgumentParser(prog="backend.training.rank")
    parser.add_argument("--job", type=Path, required=True)
    parser.add_argument("--run", type=int, required=True)
    options = parser.parse_args(arguments)
    beat = RankHeartbeat.inherited()
    beat.beat(Phase.IMPORTING)
    rank = Rank(JobFolder(options.job), options.run, beat)
    try:
        last_phase = rank.train()
    except BaseException as error:  # noqa: BLE001 - the end of the process; nothing may be lost
        last_error: BaseException = error
        # The handler of a loader whose worker died would interrupt the report. If its signal came
        # together with the error, this call raises what the handler says.
        while True:
            try:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                break
            except BaseException as said:  # noqa: BLE001 - it is recorded instead
                last_error = said
        rank.record_error(last_error)
        _leave(1)
    # User programs may rely on atexit; tearing down the interpreter and torch is skipped.
    with suppress(BaseException):
        atexit._run_exitfuncs()
    beat.beat(last_phase)
    _leave(0)


def _leave(code: int) -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


class Rank:
    """State of the process, which can report its end at any stage."""

    def __init__(self, folder: JobFolder, run: int, beat: RankHeartbeat) -> None:
        self._folder = folder
        self._run = run
        self._beat = beat
        self._rank = int(os.environ.get("OMPI_COMM_WORLD_RANK", "0"))
        self._node = ""
        self._batch_size = 0
        self._trainer: Role | None = None
        self._services: Rank0Services | None = None
        self._strategy: Strategy | Rendezvous | None = None

    def train(self) -> Phase:
        """Run everything, from the launch record to the last checkpoint."""
        launch = Launch.from_dict(read_json(self._folder.launch))
        plan = self._plan(launch)
        self._node = plan.node
        self._batch_size = launch.config.batch_size
        set_environment(launch, plan)
        strategy, device = self._join(launch)
        self._strategy = strategy

        from backend.training.run_environment import write_environment
        from backend.training.train_state import Outcome

        rank0_services: Rank0Services | None = None
        if strategy.rank == 0:
            write_environment(self._folder, self._run, launch, device)
            rank0_services = self._services = self._make_rank0_services(launch)
        self._trainer = self._role(launch, strategy, device, rank0_services)
        outcome = self._trainer.run()
        if rank0_services is not None:
            rank0_services.watcher.close()
            rank0_services.reporter.close()
        strategy.leave()
        return Phase.FINISHED if outcome is Outcome.FINISHED else Phase.INTERRUPTED

    def _role(
        self,
        launch: Launch,
        strategy: Strategy | Rendezvous,
        device: torch.device,
        services: Rank0Services | None,
    ) -> Role:
        from backend.training.strategies.base import Strategy

        if isinstance(strategy, Strategy):
            from backend.training.loop import Trainer

            return Trainer(launch, strategy, device, self._beat, services)
        from backend.training.async_server import AsyncServer, ShardServer
        from backend.training.async_worker import AsyncWorker
        from backend.training.sandblaster import Sandblaster

        if services is not None:
            leader = Sandblaster if launch.config.strategy.has_coordinator else AsyncServer
            return leader(launch, strategy, self._beat, services)
        if strategy.rank < launch.config.strategy.servers:
            return ShardServer(launch, strategy, self._beat)
        return AsyncWorker(launch, strategy, device, self._beat)

    def _plan(self, launch: Launch) -> RankPlan:
        size = int(os.environ.get("OMPI_COMM_WORLD_SIZE", "1"))
        if size != len(launch.ranks):
            raise _size_error(size, len(launch.ranks))
        return next(plan for plan in launch.ranks if plan.rank == self._rank)

    def _join(self, launch: Launch) -> tuple[Strategy | Rendezvous, torch.device]:
        try:
            import torch
        except ImportError as error:
            raise BackendError(
                f"PyTorch cannot be loaded on this node: {error}.", "Set the node up again."
            ) from error
        lazy_dynamo.postpone()
        strategy = strategies.make_strategy(
            launch.config.strategy, len(launch.ranks), launch.rendezvous_host, self._beat
        )
        strategy.load()
        self._beat.beat(Phase.WAITING_FOR_OTHERS)
        # Only now: two threads that import at once may get a partly initialised module.
        import_thread = threading.Thread(target=_import_ahead, name="imports")
        import_thread.start()
        try:
            strategy.join(launch.config.stall_limit_s)
        finally:
            import_thread.join()
        self._beat.beat(Phase.SETUP)
        if strategy.world_size != len(launch.ranks):
            raise _size_error(strategy.world_size, len(launch.ranks))
        if not launch.config.uses_gpus:
            return strategy, torch.device("cpu")
        if not torch.cuda.is_available():
            raise BackendError(
                f"The GPU {os.environ.get('CUDA_VISIBLE_DEVICES', '')} cannot be used: "
                "CUDA finds no device.",
                "Check the node's driver with “nvidia-smi”, or use a PyTorch without CUDA.",
            )
        torch.cuda.set_device(0)
        return strategy, torch.device("cuda", 0)

    def _make_rank0_services(self, launch: Launch) -> Rank0Services:
        from backend.records.jobs.status import BAD_CHECKPOINT, NOT_SAVED, Alarm
        from backend.training.checkpoint import Checkpointer
        from backend.training.reporter import Reporter
        from backend.training.stop_watcher import StopWatcher
        from backend.training.train_state import Rank0Services

        config = launch.config
        reporter = Reporter(
            self._folder,
            run=self._run,
            epochs=config.epochs,
            world_size=len(launch.ranks),
            global_batch=config.global_batch_size,
            previous_status=last_status(self._folder),
            # The parts of a cut network wait for each other in the forward pass.
            times_exchange=not config.uses_gpus and config.strategy.name != "consensus",
            nodes=len(config.placement),
            has_servers=config.strategy.servers > 0,
        )
        checkpointer = Checkpointer(self._folder, self._run, config.checkpoint, config.sha256())
        if launch.resume_from:
            checkpointer.continue_from(Path(launch.resume_from))
        reporter.peak_memory = partial(_peak_memory_bytes, config.uses_gpus)
        reporter.other_failure = lambda: checkpointer.failure
        checkpointer.on_failure = lambda step, message: reporter.add_alarm(
            Alarm(NOT_SAVED, step, message)
        )
        checkpointer.on_nan = lambda step, message: reporter.add_alarm(
            Alarm(BAD_CHECKPOINT, step, message)
        )
        return Rank0Services(
            reporter,
            checkpointer,
            StopWatcher(self._folder.stop_request, self._run, reporter.set_stopping),
        )

    def record_error(self, error: BaseException) -> None:
        """Record the error that ended this rank, and print it to its log."""
        from backend.training.error_report import make_record, traceback_text

        if traceback_text(error):
            traceback.print_exception(error)
        else:  # The message names the cause; the frames are this program's own.
            sys.stderr.write(f"{getattr(error, 'with_remedy', error)}\n")
        trainer = self._trainer
        record = make_record(
            error,
            rank=self._rank,
            node=self._node,
            batch=trainer.batch if trainer is not None else None,
            batch_size=self._batch_size,
        )
        attempt = self._folder.attempt(self._run)
        report_to_guard(record)
        # The disk may be the cause of the end.
        with suppress(OSError):
            make_folders(attempt.path)
            replace_json(attempt.rank_error(self._rank), record)
        if self._services is not None:
            # The last steps before the failure, and the checkpoint that is being written.
            with suppress(BaseException):
                self._services.reporter.close()
            with suppress(BaseException):
                self._services.checkpointer.wait()
        self._wait_for_rank_0(error)

    def _wait_for_rank_0(self, error: BaseException) -> None:
        """Stay until rank 0 has written its files, if all ranks end with this error.

        mpirun ends the others as soon as one rank has left.
        """
        from backend.training.checkpoint import NotSaved
        from backend.training.step_recorder import BadLoss
        from backend.training.strategies.base import Strategy

        is_shared = isinstance(error, (BadLoss, NotSaved))
        if is_shared and isinstance(self._strategy, Strategy):
            with suppress(BaseException):
                self._strategy.gather(None)


def set_environment(launch: Launch, plan: RankPlan) -> None:
    """Set the job's variables and the one GPU of this rank, before torch is imported."""
    os.environ[RUN_VARIABLE] = run_tag(launch.job_id, launch.run)
    set_variables(launch.config.environment)
    if plan.gpu:
        os.environ["CUDA_VISIBLE_DEVICES"] = visible_devices(plan.gpu, os.environ)
    elif not launch.config.uses_gpus:
        # A CPU job uses no GPU, not even through a library that searches for one.
        os.environ["CUDA_VISIBLE_DEVICES"] = ""


def _peak_memory_bytes(uses_gpus: bool) -> int:
    """Return the most memory that this process has had of its GPU, or of the computer."""
    if not uses_gpus:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    import torch

    return int(torch.cuda.max_memory_reserved())


def _import_ahead() -> None:
    """Import the training loop while the ranks still wait for each other.

    The rendezvous is 1.2 s of native code that does not need the interpreter.
    """
    # A module that is missing or broken is reported by the code that needs it.
    with suppress(ImportError):
        importlib.import_module("backend.training.loop")


def _size_error(world_size: int, planned_size: int) -> BackendError:
    return BackendError(
        f"This rank sees {world_size} process{'es' if world_size > 1 else ''}, but the job has "
        f"{planned_size}: the mpirun that started it and its MPI library come from different "
        "installations.",
        "Set the node up again. “Check” on the node's page names both installations.",
    )


if __name__ == "__main__":
    main()
