"""``demo``: the built-in example from import to exported file, as a user would run it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from backend.base.errors import BackendError
from backend.cli.command import ArgSpec, command
from backend.cli.parameters import parse_count
from backend.cli.printing import Answer, print_note, size_text
from backend.cli.runs import watch
from backend.cli.session import Session, has_display
from backend.records.base.program_name import COMMAND
from backend.records.jobs.state import JobState

if TYPE_CHECKING:
    from backend.records.jobs.view import JobView


@command("demo")
def demo(
    session: Session,
    *,
    workers: Annotated[int, ArgSpec("N", "processes, default 2", parse=parse_count)] = 2,
    headless: Annotated[bool, "train in the terminal, no window"] = False,
) -> Answer | int:
    """Import the built-in example and train it on this computer."""
    if not headless and not session.as_json and has_display():
        return session.open_window(*session.root_and_catalogue, workers)
    from backend.services.context.example import create_example
    from backend.services.tools.training_python import AWAITS_HOROVOD, awaits_horovod

    services = session.services
    view = create_example(services, workers)
    print_note(f"Training “{view.name}” on this computer, {view.world_size} processes ({view.id})")
    services.jobs.lifecycle.start(view.id)
    if awaits_horovod():
        print_note(AWAITS_HOROVOD)
    view = watch(session, view.id)
    if view.state is JobState.FINISHED:
        return _export_answer(session, view)
    if session.as_json:
        return Answer(view, has_failed=True)
    raise BackendError(
        view.error.message
        if view.error
        else view.status.message or f"The job is {view.state_label}.",
        f"Show the details: {COMMAND} job show {view.id}",
    )


def _export_answer(session: Session, view: JobView) -> Answer:
    services = session.services
    best_checkpoint = next(c for c in services.queries.checkpoints(view.id) if c.is_best)
    target = services.data_root.path / "exports" / f"{view.id}.zip"
    target.parent.mkdir(parents=True, exist_ok=True)
    exported_path = services.jobs.export(view.id, best_checkpoint.name, "zip", target).absolute()
    accuracy = best_checkpoint.metrics.get("validation/accuracy")
    checkpoint_path = Path(best_checkpoint.path).absolute()
    return Answer(
        {
            **view.to_json(),
            "validation_accuracy": accuracy,
            "checkpoint": str(checkpoint_path),
            "export": str(exported_path),
        },
        f"Finished: {accuracy or 0:.1%} validation accuracy after epoch {best_checkpoint.epoch} "
        f"of {view.epochs}.",
        f"Checkpoint: {checkpoint_path}",
        f"Exported:   {exported_path} ({size_text(exported_path.stat().st_size)})",
    )
