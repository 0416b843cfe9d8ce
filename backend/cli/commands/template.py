"""Saved settings for new jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from backend.cli.command import ArgSpec, command
from backend.cli.printing import Answer, Note, Table, toml_answer
from backend.records.base.program_name import COMMAND
from backend.services.context.container import Services
from backend.services.jobs.job_file import read_job_file

_Name = Annotated[str, ArgSpec("NAME")]


@command("template list")
def list_templates(services: Services) -> Answer:
    """Every template."""
    templates = services.templates.list()
    rows = ((template.name, template.error or template.description) for template in templates)
    empty_hint = f"There are no templates yet. Make one: {COMMAND} template save NAME FILE.toml"
    return Answer(templates, Table(("NAME", "TRAINS"), rows, empty_hint))


@command("template show")
def show(services: Services, name: _Name) -> Answer:
    """Print a template as a job file."""
    return toml_answer(services.templates.load(name))


@command("template save")
def save(
    services: Services,
    name: _Name,
    source: Annotated[
        str, ArgSpec("FILE.toml|ID", "a job file, a sweep file, or a job's id or name")
    ],
    *,
    replace: Annotated[bool, "replace an existing template of that name"] = False,
) -> Answer:
    """Save the settings of a job or of a job file as a template."""
    template = services.templates.save(name, _settings(services, source), overwrite=replace)
    use = Note(f"Use it: {COMMAND} job create --template {template.name} --name NAME")
    return Answer(template, f"Saved {template.path}.", use)


def _settings(services: Services, source: str) -> dict[str, Any]:
    path = Path(source)
    if path.suffix.lower() == ".toml" or path.is_file():
        return read_job_file(path)
    return services.jobs.clone(services.queries.find(source))


@command("template rename")
def rename(services: Services, name: _Name, new_name: Annotated[str, ArgSpec("NEW")]) -> Answer:
    """Rename a template."""
    template = services.templates.rename(name, new_name)
    return Answer(template, f"Renamed {name} to {template.name}.")


@command("template remove")
def remove(services: Services, name: _Name) -> Answer:
    """Move a template to the trash of the data root."""
    template = services.templates.remove(name)
    return Answer(template, f"Moved {template.name} to {services.trash}.")
