"""``job bundle|unbundle|replay|replayed``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from backend.base.progress import Progress
from backend.cli.command import ArgSpec, command
from backend.cli.parameters import JobId, NodePlacements
from backend.cli.printing import Answer, Note, size_text
from backend.cli.session import Session
from backend.records.base.program_name import COMMAND
from backend.records.jobs.state import JobState
from backend.services.context.container import Services

if TYPE_CHECKING:
    from backend.records.bundles.job_archive import ReplayResult


@command("job bundle", reads_jobs=True)
def bundle(
    services: Services,
    progress: Progress,
    id: JobId,
    file: Annotated[Path | None, ArgSpec("FILE", "default: NAME.ringmaster")] = None,
    *,
    with_data: Annotated[bool, "include the dataset's files"] = False,
    checkpoint: Annotated[str, ArgSpec("C", "a name, latest, best or none")] = "",
) -> Answer:
    """Write a job to one file, for another desktop to replay."""
    written_bundle = services.bundles.bundle(
        id, file, with_data=with_data, checkpoint=checkpoint, progress=progress
    )
    checkpoint_text = (
        f"checkpoint {written_bundle.checkpoint}" if written_bundle.checkpoint else "no checkpoint"
    )
    notes = []
    if written_bundle.without_data:
        notes.append(Note("The dataset's files are not included; --with-data includes them."))
    if written_bundle.omitted_variables:
        notes.append(
            Note(f"The values of {', '.join(written_bundle.omitted_variables)} are not in it.")
        )
    size = size_text(written_bundle.bytes)
    return Answer(
        written_bundle,
        f"Wrote {written_bundle.path} ({written_bundle.files} files, {size}, {checkpoint_text}).",
        notes,
    )


@command("job unbundle")
def unbundle(
    services: Services, progress: Progress, file: Annotated[Path, ArgSpec("FILE")]
) -> Answer:
    """Import such a file as a job, after verifying every byte."""
    imported_job = services.bundles.unbundle(file, progress)
    lines = [f"Created {imported_job.view.id}: {imported_job.view.name}. {imported_job.origin}"]
    for label, names in (
        ("Imported", imported_job.imported_items),
        ("Existing", imported_job.reused_items),
    ):
        if names:
            lines.append(f"{label}: {', '.join(names)}")
    hint = Note(f"Train it again: {COMMAND} job replay {imported_job.view.id}")
    return Answer(imported_job, lines, map(Note, imported_job.notes), hint)


@command("job replay", reads_jobs=True)
def replay(
    session: Session,
    id: JobId,
    *,
    on: NodePlacements = (),
    wait: Annotated[bool, "start it, and compare it with the original"] = False,
) -> Answer:
    """Create a job that repeats another: same files, same seed."""
    services = session.services
    view = services.replays.replay(id, on, session.progress)
    if wait:
        services.jobs.lifecycle.start(view.id)
        view = services.queries.wait(view.id)
        if view.state is JobState.FINISHED:
            return _comparison_answer(services.replays.compare(view.id))
    line = f"{view.id}: {view.name}, {view.state_label}"
    if wait:
        return Answer(view, line, has_failed=True)
    start = Note(f"Start it: {COMMAND} job start {view.id}")
    return Answer(view, line, start, Note(f"Then: {COMMAND} job replayed {view.id}"))


@command("job replayed")
def replayed(services: Services, id: JobId) -> Answer:
    """Compare the curves of a replay and its original."""
    return _comparison_answer(services.replays.compare(id))


def _comparison_answer(result: ReplayResult) -> Answer:
    return Answer(result, result.message, has_failed=not result.is_same)
