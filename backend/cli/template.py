"""``template list|show|save|rename|remove``: saved settings for new jobs."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backend.base.errors import BackendError
from backend.cli.common_options import SubcommandGroup
from backend.cli.printing import OK, print_json, print_line, print_note, print_table
from backend.records.base.program_name import COMMAND
from backend.records.jobs.template import Template
from backend.services.jobs.job_file import read_job_file

if TYPE_CHECKING:
    from backend.services.context.container import Services


def add_words(words: SubcommandGroup) -> None:
    words.leaf("list", "every template")
    _name(words.leaf("show", "print a template as a job file"))
    leaf = words.leaf("save", "save the settings of a job or of a job file as a template")
    _name(leaf)
    leaf.add_argument(
        "source", metavar="FILE.toml|ID", help="a job file, a sweep file, or a job's id or name"
    )
    leaf.add_argument(
        "--replace", action="store_true", help="replace an existing template of that name"
    )
    leaf = words.leaf("rename", "rename a template")
    _name(leaf)
    leaf.add_argument("new_name", metavar="NEW")
    _name(words.leaf("remove", "move a template to the trash of the data root"))


def _name(leaf: argparse.ArgumentParser) -> None:
    leaf.add_argument("name", metavar="NAME")


def list_templates(services: Services, _: argparse.Namespace, as_json: bool) -> int:
    found = services.templates.list()
    if as_json:
        print_json(found)
        return OK
    print_table(
        ("NAME", "TRAINS"),
        ((one.name, one.fault or one.sentence) for one in found),
        f"There are no templates yet. Make one: {COMMAND} template save NAME FILE.toml",
    )
    return OK


def show(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    raw = services.templates.load(arguments.name)
    if as_json:
        print_json(raw)
    else:
        import tomli_w

        sys.stdout.write(tomli_w.dumps(raw))
    return OK


def save(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    raw = settings_of(services, arguments.source)
    made = services.templates.save(arguments.name, raw, replaces=arguments.replace)
    _print(made, as_json, f"Saved {made.path}")
    if not as_json:
        print_note(f"Use it: {COMMAND} job create --template {made.name} --name NAME")
    return OK


def rename(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    made = services.templates.rename(arguments.name, arguments.new_name)
    return _print(made, as_json, f"Renamed {arguments.name} to {made.name}")


def remove(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    found = services.templates.remove(arguments.name)
    trash = services.share.shown(services.data_root.trash)
    return _print(found, as_json, f"Moved {found.name} to {trash}")


def settings_of(services: Services, source: str) -> dict[str, Any]:
    """Return the settings of a job file or of a job."""
    path = Path(source)
    if path.suffix.lower() == ".toml" or path.is_file():
        return read_job_file(path)
    return services.jobs.clone(services.jobs.queries.find(source))


def asked_job(services: Services, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the job file for ``job create``.

    Raises:
        BackendError: There is none, or the template is a sweep.
    """
    if arguments.file:
        raw = read_job_file(arguments.file)
    else:
        raw = services.templates.load(arguments.template)
        if "sweep" in raw:
            raise BackendError(
                f"The template “{arguments.template}” is a sweep.",
                f"Run {COMMAND} template show {arguments.template} > FILE.toml, "
                "then job sweep FILE.toml",
            )
        raw["name"] = arguments.template
    return {**raw, "name": arguments.name} if arguments.name else raw


def _print(template: Template, as_json: bool, words: str) -> int:
    if as_json:
        print_json(template)
    else:
        print_line(f"{words}.")
    return OK
