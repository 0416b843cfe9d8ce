"""``job create|simulate|find-rate|plan|clone|annotate|tag|remove|restore``: job files and jobs."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from backend.base.errors import BackendError
from backend.base.progress import Progress
from backend.cli.command import ArgSpec, command
from backend.cli.parameters import JobId, JobIds, Reason
from backend.cli.printing import (
    Answer,
    Note,
    Properties,
    Table,
    duration_text,
    number_text,
    size_text,
    toml_answer,
)
from backend.cli.runs import state_answer
from backend.records.base.program_name import COMMAND
from backend.records.jobs.plan import DEFAULT_LINK_MBIT, JobPlan
from backend.records.jobs.view import JOULES_A_KWH
from backend.services.context.container import Services
from backend.services.jobs.job_file import read_job_file, write_job_file

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
def remove(services: Services, id: JobId, *, reason: Reason = "") -> Answer:
    """Move a job to the trash of the data root."""
    view = services.jobs.remove(id, reason)
    return Answer(view, f"Moved {view.id} to {services.trash}.")


@command("job restore")
def restore(
    services: Services,
    id: Annotated[str, ArgSpec("ID", "a job's id, the beginning of it, or its name")],
) -> Answer:
    """Move a job back from the trash."""
    return state_answer(services.jobs.restore(id))


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


@command("job plan")
def plan(
    services: Services,
    progress: Progress,
    file: Annotated[Path, ArgSpec("FILE.toml")],
    *,
    link: Annotated[int, ArgSpec("MBIT", "speed of the network between nodes")] = DEFAULT_LINK_MBIT,
) -> Answer:
    """Train a job file on its first node for a moment, and compute what the job needs."""
    job_plan = services.planner.plan(read_job_file(file), link, progress)
    rows = (
        (
            str(plan.nodes),
            str(plan.global_batch),
            str(plan.steps),
            f"{plan.step_s:.3g} s",
            size_text(plan.network_bytes),
            duration_text(plan.lasts_s),
            "-" if plan.energy_j is None else f"{plan.energy_j / JOULES_A_KWH:.2f} kWh",
        )
        for plan in job_plan.by_nodes
    )
    head = ("Nodes", "Global batch", "Steps", "Step", "Sent a step", "Takes", "Energy")
    return Answer(
        job_plan,
        Properties(_needs(job_plan)),
        Table(head, rows, "No figures by nodes."),
        *filter(None, (job_plan.fit_message,)),
        Note(job_plan.assumptions),
    )


def _needs(job_plan: JobPlan) -> Iterator[tuple[str, str]]:
    memory = job_plan.memory
    parts = {
        "Weights": memory.weight_bytes,
        "Gradients": memory.gradient_bytes,
        "Optimizer": memory.optimizer_bytes,
        "Activations": memory.activation_bytes,
        "PyTorch and buffers": memory.other_bytes,
        "Memory of a process": memory.total_bytes,
        "Available to it": memory.capacity_bytes,
    }
    for title, part_bytes in parts.items():
        yield title, "-" if part_bytes is None else size_text(part_bytes, is_binary=True)
    if job_plan.disk_bytes is not None and job_plan.checkpoint_bytes is not None:
        count, file_size = job_plan.checkpoints_kept, size_text(job_plan.checkpoint_bytes)
        yield "Checkpoints", f"{count} x {file_size}, {size_text(job_plan.disk_bytes)}"
