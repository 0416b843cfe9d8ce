"""``job bundle|unbundle|replay|replayed``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from backend.cli.common_options import placement_of, progress_bar
from backend.cli.printing import FAILED, OK, in_bytes, print_json, print_line, print_note
from backend.records.base.program_name import COMMAND
from backend.records.jobs.state import JobState

if TYPE_CHECKING:
    from backend.records.bundles.job_archive import ReplayResult
    from backend.services.context.container import Services


def bundle(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    job_id = services.jobs.queries.find(arguments.id)
    with progress_bar(as_json) as bar:
        made = services.bundles.bundle(
            job_id,
            arguments.file,
            with_data=arguments.with_data,
            checkpoint=arguments.checkpoint,
            progress=bar,
        )
    if as_json:
        print_json(made)
        return OK
    checkpoint = f"checkpoint {made.checkpoint}" if made.checkpoint else "no checkpoint"
    print_line(f"Wrote {made.path} ({made.files} files, {in_bytes(made.bytes)}, {checkpoint}).")
    if made.without_data:
        print_note("The dataset's files are not included; --with-data includes them.")
    if made.left_out:
        print_note(f"The values of {', '.join(made.left_out)} are not in it.")
    return OK


def unbundle(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    with progress_bar(as_json) as bar:
        found = services.bundles.unbundle(arguments.file, bar)
    if as_json:
        print_json(found)
        return OK
    print_line(f"Created {found.view.id}: {found.view.name}. {found.origin}")
    for what, names in (("Imported", found.imported), ("Existing", found.reused)):
        if names:
            print_line(f"{what}: {', '.join(names)}")
    for note in found.notes:
        print_note(note)
    print_note(f"Train it again: {COMMAND} job replay {found.view.id}")
    return OK


def replay(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    job_id = services.jobs.queries.find(arguments.id)
    placement = placement_of(arguments)
    with progress_bar(as_json) as bar:
        view = services.replays.replay(job_id, placement, bar)
    if arguments.wait:
        services.jobs.lifecycle.start(view.id)
        view = services.jobs.queries.wait(view.id)
        if view.state is JobState.FINISHED:
            return _tell(services.replays.compare(view.id), as_json)
    if as_json:
        print_json(view)
    else:
        print_line(f"{view.id}: {view.name}, {view.state.word}")
    if arguments.wait:
        return FAILED
    if not as_json:
        print_note(f"Start it: {COMMAND} job start {view.id}")
        print_note(f"Then: {COMMAND} job replayed {view.id}")
    return OK


def replayed(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    return _tell(services.replays.compare(services.jobs.queries.find(arguments.id)), as_json)


def _tell(verdict: ReplayResult, as_json: bool) -> int:
    if as_json:
        print_json(verdict)
    else:
        print_line(verdict.sentence)
    return OK if verdict.is_same else FAILED
