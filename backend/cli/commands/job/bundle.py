"""``job bundle|unbundle|replay|replayed``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from backend.base.progress import Progress
from backend.cli.command import Word, command
from backend.cli.parameters import JobId, On
from backend.cli.printing import Answer, Note, in_bytes
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
    file: Annotated[Path | None, Word("FILE", "default: NAME.ringmaster")] = None,
    *,
    with_data: Annotated[bool, "include the dataset's files"] = False,
    checkpoint: Annotated[str, Word("C", "a name, latest, best or none")] = "",
) -> Answer:
    """Write a job to one file, for another desktop to replay."""
    made = services.bundles.bundle(
        id, file, with_data=with_data, checkpoint=checkpoint, progress=progress
    )
    included = f"checkpoint {made.checkpoint}" if made.checkpoint else "no checkpoint"
    notes = []
    if made.without_data:
        notes.append(Note("The dataset's files are not included; --with-data includes them."))
    if made.omitted_variables:
        notes.append(Note(f"The values of {', '.join(made.omitted_variables)} are not in it."))
    size = in_bytes(made.bytes)
    return Answer(made, f"Wrote {made.path} ({made.files} files, {size}, {included}).", notes)


@command("job unbundle")
def unbundle(services: Services, progress: Progress, file: Annotated[Path, Word("FILE")]) -> Answer:
    """Import such a file as a job, after verifying every byte."""
    found = services.bundles.unbundle(file, progress)
    lines = [f"Created {found.view.id}: {found.view.name}. {found.origin}"]
    for what, names in (("Imported", found.imported), ("Existing", found.reused)):
        if names:
            lines.append(f"{what}: {', '.join(names)}")
    again = Note(f"Train it again: {COMMAND} job replay {found.view.id}")
    return Answer(found, lines, map(Note, found.notes), again)


@command("job replay", reads_jobs=True)
def replay(
    session: Session,
    id: JobId,
    *,
    on: On = (),
    wait: Annotated[bool, "start it, and compare it with the original"] = False,
) -> Answer:
    """Create a job that repeats another: same files, same seed."""
    services = session.services
    view = services.replays.replay(id, on, session.progress)
    if wait:
        services.jobs.lifecycle.start(view.id)
        view = services.queries.wait(view.id)
        if view.state is JobState.FINISHED:
            return _compared(services.replays.compare(view.id))
    line = f"{view.id}: {view.name}, {view.state.label}"
    if wait:
        return Answer(view, line, failed=True)
    start = Note(f"Start it: {COMMAND} job start {view.id}")
    return Answer(view, line, start, Note(f"Then: {COMMAND} job replayed {view.id}"))


@command("job replayed")
def replayed(services: Services, id: JobId) -> Answer:
    """Compare the curves of a replay and its original."""
    return _compared(services.replays.compare(id))


def _compared(result: ReplayResult) -> Answer:
    return Answer(result, result.message, failed=not result.is_same)
