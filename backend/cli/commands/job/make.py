"""``job create|simulate|find-rate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from backend.base.errors import BackendError
from backend.base.progress import Progress
from backend.cli.command import ArgSpec, command
from backend.cli.printing import Answer, Note, Table, number_text
from backend.records.base.program_name import COMMAND
from backend.services.context.container import Services
from backend.services.jobs.job_file import read_job_file


@command("job create", one_of=("file", "template"))
def create(
    services: Services,
    progress: Progress,
    file: Annotated[Path | None, ArgSpec("FILE.toml")] = None,
    *,
    template: Annotated[str, ArgSpec("NAME", "instead of a file")] = "",
    name: Annotated[str, ArgSpec("N", "another name for the job")] = "",
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
    file: Annotated[Path, ArgSpec("FILE.toml")],
    *,
    staleness: Annotated[int, ArgSpec("N", "updates between pull and push")],
    random: Annotated[bool, "by chance, N on average"] = False,
) -> Answer:
    """Train a job file here in one process, with simulated staleness."""
    simulation = services.jobs.simulate(read_job_file(file), staleness, random, progress)
    names = list(dict.fromkeys(name for epoch in simulation.epochs for name in epoch.values))
    rows = (
        (
            str(epoch.epoch),
            str(epoch.steps),
            number_text(epoch.loss),
            *(number_text(epoch.values.get(name)) for name in names),
            f"{epoch.staleness_mean:.1f}",
            str(epoch.staleness_max),
        )
        for epoch in simulation.epochs
    )
    head = ("Epoch", "Updates", "Loss", *names, "Staleness", "Largest")
    return Answer(simulation, Table(head, rows, "No epochs."))


@command("job find-rate")
def find_rate(
    services: Services, progress: Progress, file: Annotated[Path, ArgSpec("FILE.toml")]
) -> Answer:
    """Try rising learning rates on a job file here, and propose one."""
    search = services.jobs.find_rate(read_job_file(file), progress)
    rows = (
        (f"{step.rate:.2g}", number_text(step.loss), number_text(step.smooth_loss))
        for step in search.steps
    )
    return Answer(
        search, Table(("Rate", "Loss", "Smooth"), rows, "No steps."), Note(search.message)
    )
