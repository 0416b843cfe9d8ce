"""One run: from a job's folder to a supervisor that no longer needs this desktop.

Everything that can be refused comes before the claim (`datastore.job_files.claim_run`), and little
comes after it: a desktop that dies in between leaves a run that never began.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from backend.datastore import job_files
from backend.datastore.job_files import JobFile
from backend.launch import mpirun
from backend.launch.placement import rank_plans
from backend.node.start import CODE_ROOT, start_supervisor
from backend.records.files import read_json, replace_json
from backend.records.job import JobConfig
from backend.records.launch import Launch, RankPlan
from backend.records.layout import DataRoot, JobFolder
from backend.records.library import Kind
from backend.records.state import JobState
from backend.records.status import RunStatus

if TYPE_CHECKING:
    from backend.services.library import LibraryService
    from backend.services.nodes import NodeService

KINDS = {
    "model": Kind.MODEL,
    "dataset": Kind.DATASET,
    "loader": Kind.LOADER,
    "validation_dataset": Kind.DATASET,
    "validation_loader": Kind.LOADER,
}
"""What the keys of a job file that name a thing of the library name."""


class RunStarter:
    def __init__(
        self, root: DataRoot, library: LibraryService, nodes: NodeService, python: str
    ) -> None:
        self._root = root
        self._library = library
        self._nodes = nodes
        self._python = python

    def start(
        self,
        folder: JobFolder,
        file: JobFile,
        run: int,
        *,
        resume_from: str = "",
        start_from: str = "",
    ) -> bool:
        """Start run ``run``; False when another desktop, or a second click, was first.

        ``run`` is the number after the run that was seen to be over: counting anew here could
        begin one beside a run that another desktop has started since. A run that resumes nothing
        begins with empty folders: what earlier runs left is moved.

        Raises:
            BackendError: The job cannot run as it was made, or its supervisor did not start.
            OSError: The job's folder cannot be written.
        """
        for key, pin in file.pins.items():
            self._library.verify(KINDS[key], pin)
        launch = self._launch(folder, file, run, resume_from, start_from)
        status = _first_status(folder, file, run, goes_on=bool(resume_from))
        if not job_files.claim_run(folder, run):
            return False
        if run > 1 and not resume_from:
            job_files.move_earlier_runs(folder, run)
        job_files.clear_old_wish(folder, run)
        replace_json(folder.launch, launch.to_dict())
        replace_json(folder.status, status.to_dict())
        start_supervisor(folder, run, self._python)
        return True

    def command(
        self, config: JobConfig, job_id: str, run: int
    ) -> tuple[tuple[str, ...], tuple[RankPlan, ...]]:
        """What the supervisor will execute, and which rank runs where."""
        rooms = self._nodes.rooms()
        ranks = rank_plans(config, rooms)
        # One process by itself needs no mpirun, so it runs where there is none.
        found = None if config.strategy.name == "alone" else self._nodes.mpirun()
        argv = mpirun.command(
            config,
            ranks,
            job_folder=str(self._root.job(job_id).path.absolute()),
            run=run,
            python=self._python,
            mpirun=found.path if found is not None else "",
            version=found.major if found is not None else 5,
            cores={room.node: room.cores for room in rooms},
        )
        return argv, ranks

    def _launch(
        self, folder: JobFolder, file: JobFile, run: int, resume_from: str, start_from: str
    ) -> Launch:
        argv, ranks = self.command(file.config, file.id, run)
        content = {
            key: str(self._library.content(KINDS[key], pin.reference).absolute())
            for key, pin in file.pins.items()
        }
        return Launch(
            job_id=file.id,
            run=run,
            config=file.config,
            argv=argv,
            ranks=ranks,
            model_source=content["model"],
            loader_source=content["loader"],
            dataset_files=content["dataset"],
            validation_loader_source=content.get("validation_loader", ""),
            validation_dataset_files=content.get("validation_dataset", ""),
            resume_from=resume_from,
            start_from=start_from,
            environment=mpirun.environment(
                file.config, job_id=file.id, run=run, code_root=str(CODE_ROOT)
            ),
            hashes={key: pin.sha256 for key, pin in file.pins.items()},
        )


def _first_status(folder: JobFolder, file: JobFile, run: int, *, goes_on: bool) -> RunStatus:
    """STARTING; a run that goes on shows how far the job is from its first moment."""
    now = job_files.now()
    starting = RunStatus(
        state=JobState.STARTING,
        run=run,
        epochs=file.config.epochs,
        world_size=file.config.world_size,
        started=now,
        updated=now,
    )
    try:
        before = RunStatus.from_dict(read_json(folder.status))
    except (OSError, ValueError):
        return starting
    starting = replace(starting, heartbeat=before.heartbeat + 1)
    if not goes_on:
        return starting
    return replace(
        starting,
        epoch=before.epoch,
        step=before.step,
        total_steps=before.total_steps,
        steps_per_epoch=before.steps_per_epoch,
        metrics=before.metrics,
    )
