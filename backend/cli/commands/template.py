"""Saved settings for new jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from backend.cli.command import Word, command
from backend.cli.printing import Answer, Note, Table, as_toml
from backend.records.base.program_name import COMMAND
from backend.services.context.container import Services
from backend.services.jobs.job_file import read_job_file

_Name = Annotated[str, Word("NAME")]


@command("template list")
def list_templates(services: Services) -> Answer:
    """Every template."""
    found = services.templates.list()
    rows = ((one.name, one.error or one.description) for one in found)
    empty = f"There are no templates yet. Make one: {COMMAND} template save NAME FILE.toml"
    return Answer(found, Table(("NAME", "TRAINS"), rows, empty))


@command("template show")
def show(services: Services, name: _Name) -> Answer:
    """Print a template as a job file."""
    return as_toml(services.templates.load(name))


@command("template save")
def save(
    services: Services,
    name: _Name,
    source: Annotated[str, Word("FILE.toml|ID", "a job file, a sweep file, or a job's id or name")],
    *,
    replace: Annotated[bool, "replace an existing template of that name"] = False,
) -> Answer:
    """Save the settings of a job or of a job file as a template."""
    made = services.templates.save(name, _settings(services, source), overwrite=replace)
    use = Note(f"Use it: {COMMAND} job create --template {made.name} --name NAME")
    return Answer(made, f"Saved {made.path}.", use)


def _settings(services: Services, source: str) -> dict[str, Any]:
    path = Path(source)
    if path.suffix.lower() == ".toml" or path.is_file():
        return read_job_file(path)
    return services.jobs.clone(services.queries.find(source))


@command("template rename")
def rename(services: Services, name: _Name, new_name: Annotated[str, Word("NEW")]) -> Answer:
    """Rename a template."""
    made = services.templates.rename(name, new_name)
    return Answer(made, f"Renamed {name} to {made.name}.")


@command("template remove")
def remove(services: Services, name: _Name) -> Answer:
    """Move a template to the trash of the data root."""
    found = services.templates.remove(name)
    return Answer(found, f"Moved {found.name} to {services.trash}.")
