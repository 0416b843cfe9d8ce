"""``job create|simulate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from backend.base.errors import BackendError
from backend.base.progress import Progress
from backend.cli.command import Word, command
from backend.cli.printing import Answer, Note, Table, in_figures
from backend.records.base.program_name import COMMAND
from backend.services.context.container import Services
from backend.services.jobs.job_file import read_job_file


@command("job create", one_of=("file", "template"))
def create(
    services: Services,
    progress: Progress,
    file: Annotated[Path | None, Word("FILE.toml")] = None,
    *,
    template: Annotated[str, Word("NAME", "instead of a file")] = "",
    name: Annotated[str, Word("N", "another name for the job")] = "",
) -> Answer:
    """Create a job from a job file or a template."""
    raw = read_job_file(file) if file else services.templates.load(template)
    if not file:
        if "sweep" in raw:
            raise BackendError(
                f"The template “{template}” is a sweep.",
                f"Run {COMMAND} template show {template} > FILE.toml, then job sweep FILE.toml",
            )
        raw["name"] = template
    view = services.jobs.create({**raw, "name": name} if name else raw, progress)
    note = Note(f"Start it: {COMMAND} job start {view.id}")
    return Answer(view, f"Created {view.id}: {view.name}", note)


@command("job simulate")
def simulate(
    services: Services,
    progress: Progress,
    file: Annotated[Path, Word("FILE.toml")],
    *,
    staleness: Annotated[int, Word("N", "updates between pull and push")],
    random: Annotated[bool, "by chance, N on average"] = False,
) -> Answer:
    """Train a job file here in one process, with simulated staleness."""
    found = services.jobs.simulate(read_job_file(file), staleness, random, progress)
    names = list(dict.fromkeys(name for epoch in found.epochs for name in epoch.values))
    rows = (
        (
            str(epoch.epoch),
            str(epoch.steps),
            in_figures(epoch.loss),
            *(in_figures(epoch.values.get(name)) for name in names),
            f"{epoch.staleness_mean:.1f}",
            str(epoch.staleness_max),
        )
        for epoch in found.epochs
    )
    head = ("Epoch", "Updates", "Loss", *names, "Staleness", "Largest")
    return Answer(found, Table(head, rows, "No epochs."))
