"""``job clone|annotate|tag|remove|restore``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

from backend.cli.command import ArgSpec, command
from backend.cli.parameters import JobId, JobIds
from backend.cli.printing import Answer, toml_answer
from backend.cli.runs import state_answer
from backend.records.base.program_name import COMMAND
from backend.services.context.container import Services
from backend.services.jobs.job_file import write_job_file

_Tags = Annotated[tuple[str, ...], ArgSpec("TAG", "may be repeated")]


@command("job clone", reads_jobs=True)
def clone(
    services: Services,
    id: JobId,
    *,
    output: Annotated[Path | None, ArgSpec("FILE", "write to FILE")] = None,
) -> Answer:
    """Print a job file that repeats a job, to edit and create."""
    raw = services.jobs.clone(id)
    if output is None:
        return toml_answer(raw)
    path = write_job_file(raw, output)
    change = f"Change it, then: {COMMAND} job create {shlex.quote(str(path))}"
    return Answer({"path": str(path)}, f"Wrote {path}. {change}")


@command("job annotate", reads_jobs=True)
def annotate(
    services: Services,
    id: JobId,
    *,
    name: str | None = None,
    notes: str | None = None,
    tag: _Tags | None = None,
) -> Answer:
    """Change the name, the notes or the tags of a job."""
    tags = None if tag is None else tuple(filter(None, tag))
    return state_answer(services.jobs.annotate(id, name=name, notes=notes, tags=tags))


@command("job tag", reads_jobs=True)
def tag(
    services: Services,
    ids: JobIds,
    *,
    add: _Tags = (),
    remove: Annotated[tuple[str, ...], ArgSpec("TAG")] = (),
) -> Answer:
    """Add tags to jobs, or remove them; other tags stay."""
    views = [services.jobs.retag(job_id, add, remove) for job_id in ids]
    return Answer(
        views,
        (f"{view.id}  {view.name}: {', '.join(view.tags) or 'no tags'}" for view in views),
    )


@command("job remove", reads_jobs=True)
def remove(services: Services, id: JobId) -> Answer:
    """Move a job to the trash of the data root."""
    view = services.jobs.remove(id)
    return Answer(view, f"Moved {view.id} to {services.trash}.")


@command("job restore")
def restore(
    services: Services,
    id: Annotated[str, ArgSpec("ID", "a job's id, the beginning of it, or its name")],
) -> Answer:
    """Move a job back from the trash."""
    return state_answer(services.jobs.restore(id))
