"""The parts that a new job begins with: only those that are known to fit each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from backend.records.base.timestamps import seconds
from backend.records.jobs.state import JobState
from backend.records.jobs.view import JobView
from backend.records.library.item import (
    PARTS,
    STUDY_FACT,
    TRAINING_FACT,
    Kind,
    LibraryItem,
    Together,
)


def fitting_parts(
    chosen: Mapping[str, str],
    items: Mapping[Kind, Sequence[LibraryItem]],
    worked: Iterable[Together],
    jobs: Iterable[JobView] = (),
) -> dict[str, str]:
    """Return names by the key in the job file; a part of which nothing is known stays open.

    Args:
        chosen: Names that the user chose. Without any, the job is like the newest of ``jobs``, or
            has what was imported since then.
        items: The models, datasets and loaders.
        worked: Names of parts that worked together.
        jobs: The newest first.
    """
    # The parts of a study are for its jobs.
    own = {kind: [item for item in items[kind] if STUDY_FACT not in item.facts] for kind in PARTS}
    names = {kind.value: {item.name for item in own[kind]} for kind in PARTS}
    parts = dict(chosen) or _latest_parts(own, names, jobs)
    known_sets = [{key: name for key, name in vars(t).items() if name} for t in worked]
    # Those with a model first.
    for known in sorted(known_sets, key=len, reverse=True):
        shared = parts.keys() & known.keys()
        is_here = all(name in names[key] for key, name in known.items())
        if is_here and shared and all(parts[key] == known[key] for key in shared):
            parts = {**known, **parts}
    for key, own_names in names.items():
        # Parts of one name belong together.
        namesake = next((name for name in parts.values() if name in own_names), "")
        if key not in parts and namesake:
            parts[key] = namesake
    of_gallery = {item.name for item in own[Kind.MODEL] if TRAINING_FACT in item.facts}
    for key, own_names in names.items():
        # The code of a user with one dataset was written for it; a network of the gallery was not.
        if len(names[Kind.DATASET.value]) == len(own_names) == 1 and not own_names & of_gallery:
            parts.setdefault(key, *own_names)
    return parts


def _latest_parts(
    own: Mapping[Kind, Sequence[LibraryItem]],
    names: Mapping[str, set[str]],
    jobs: Iterable[JobView],
) -> dict[str, str]:
    """Return the parts of the newest job, or what was imported after it, a dataset first."""
    last: dict[str, str] = {}
    last_created_s = 0.0
    for job in jobs:
        used = {key: str(getattr(job.config, key)).partition("@")[0] for key in names}
        made_no_step = job.state is JobState.ERROR and not job.step
        last = {key: name for key, name in used.items() if name in names[key]}
        if last.keys() >= {Kind.DATASET.value, Kind.LOADER.value} and not made_no_step:
            last_created_s = seconds(job.created)
            break
        last = {}
    imported = [item for kind in PARTS for item in own[kind]]
    imported = [item for item in imported if seconds(item.created) > last_created_s]
    if not imported:
        return last
    newest = max(imported, key=lambda item: (item.kind is Kind.DATASET, seconds(item.created)))
    return {newest.kind.value: newest.name}
