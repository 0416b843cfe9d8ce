"""``demo``: the built-in example from import to exported file, as a user would run it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from backend.base.errors import BackendError
from backend.cli.jobs import watch
from backend.cli.printing import FAILED, OK, in_bytes, print_json, print_line, print_note
from backend.records.base.program_name import COMMAND
from backend.records.jobs.state import JobState
from backend.services.context.example import create_example
from backend.services.tools.training_python import AWAITS_HOROVOD, awaits_horovod

if TYPE_CHECKING:
    from backend.services.context.container import Services


def run_demo(services: Services, workers: int, as_json: bool) -> int:
    view = create_example(services, workers)
    print_note(f"Training “{view.name}” on this computer, {view.world_size} processes ({view.id})")
    services.jobs.lifecycle.start(view.id)
    if awaits_horovod():
        print_note(AWAITS_HOROVOD)
    try:
        view = watch(services, view.id, as_json)
    except KeyboardInterrupt:
        raise BackendError(
            f"The job {view.id} continues; only the waiting has ended.",
            f"To stop the job: {COMMAND} job stop {view.id}",
        ) from None
    if view.state is not JobState.FINISHED:
        if as_json:
            print_json(view)
            return FAILED
        raise BackendError(
            view.error.sentence
            if view.error
            else view.status.message or f"The job is {view.state.word}.",
            f"Show the details: {COMMAND} job show {view.id}",
        )
    best = next(record for record in services.jobs.queries.checkpoints(view.id) if record.is_best)
    output = services.data_root.path / "exports" / f"{view.id}.zip"
    output.parent.mkdir(parents=True, exist_ok=True)
    exported = services.jobs.export(view.id, best.name, "zip", output)
    accuracy = best.metrics.get("validation/accuracy")
    if as_json:
        print_json(
            {
                **view.to_json(),
                "validation_accuracy": accuracy,
                "checkpoint": str(Path(best.path).absolute()),
                "export": str(exported.absolute()),
            }
        )
        return OK
    print_line(
        f"Finished: {accuracy or 0:.1%} validation accuracy after epoch {best.epoch} "
        f"of {view.epochs}."
    )
    print_line(f"Checkpoint: {Path(best.path).absolute()}")
    print_line(f"Exported:   {exported.absolute()} ({in_bytes(exported.stat().st_size)})")
    return OK
