"""Conversion between records and rows of the catalogue."""

from __future__ import annotations

import json
import sqlite3
from functools import lru_cache
from sys import intern
from typing import Any

from backend.records.base.schema import json_value
from backend.records.base.timestamps import seconds
from backend.records.jobs.config import JobConfig
from backend.records.jobs.job_file import parse_job, without_secrets
from backend.records.jobs.state import JobState
from backend.records.jobs.status import Alarm, Continuation, RankError, RunStatus, finite
from backend.records.jobs.summary import JobSummary, make_summary
from backend.records.jobs.view import JobView
from backend.records.library.item import LibraryItem, Pin


def item_to_row(item: LibraryItem) -> dict[str, Any]:
    """Convert to all columns except ``trusted``."""
    row = item.to_dict()
    row["facts"] = _json(row["facts"])
    return _storable(row)


def row_to_item(row: sqlite3.Row) -> LibraryItem:
    return LibraryItem.from_dict({**row, "facts": json.loads(row["facts"])})


_DETAILS = ("epochs", "alarms", "continued")
"""Keys of a status that have no column, and that `JobView.to_json` needs."""


def job_to_row(view: JobView) -> dict[str, Any]:
    best_name, best_value = view.best_metric or (None, None)
    status = view.status.to_dict()
    return _storable(
        {
            "id": view.id,
            "name": view.name,
            "state": view.state.value,
            "created": view.created,
            "started": view.status.started_at,
            "ended": view.status.ended_at,
            "earlier_s": view.status.earlier_s,
            "earlier_gpu_s": view.status.earlier_gpu_s,
            "energy_j": view.status.total_energy_j,
            "user": view.user,
            "run": view.run,
            "epoch": view.status.epoch,
            "step": view.step,
            "total_steps": view.status.total_steps,
            "steps_per_epoch": view.status.steps_per_epoch,
            "best_name": best_name,
            "best_value": finite(best_value),
            "metrics": _json(json_value(view.status.metrics)),
            "message": view.status.message,
            "error": "" if view.error is None else _json(view.error.to_dict()),
            "details": _json({key: status[key] for key in _DETAILS}),
            "notes": view.notes,
            "tags": _json(list(view.tags)),
            "config": _json(without_secrets(view.config)),
            "pins": _json(json_value(view.pins)),
            "search": searched("\n".join((view.id, view.name, view.notes, *view.tags))),
        }
    )


def searched(text: str) -> str:
    """Fold ``text``. SQLite's LIKE ends a text at its first NUL (sqlite.org/nulinstr)."""
    return text.casefold().replace("\0", " ")


def row_to_job(row: sqlite3.Row) -> JobView | None:
    """Convert to the job as last seen; None if another Ringmaster wrote its settings."""
    config = _config(row["config"])
    if config is None:
        return None
    best_metric = row["best_name"], row["best_value"]
    details = json.loads(row["details"])
    continuation = details["continued"]
    return JobView(
        id=row["id"],
        name=row["name"],
        config=config,
        created=row["created"],
        status=RunStatus(
            JobState(row["state"]),
            run=row["run"],
            epoch=row["epoch"],
            epochs=details["epochs"],
            step=row["step"],
            total_steps=row["total_steps"],
            steps_per_epoch=row["steps_per_epoch"],
            metrics=json.loads(row["metrics"]),
            message=row["message"],
            error=RankError.from_dict(json.loads(row["error"])) if row["error"] else None,
            alarms=tuple(map(Alarm.from_dict, details["alarms"])),
            continuation=None if continuation is None else Continuation.from_dict(continuation),
            started_at=row["started"],
            updated_at=row["ended"],
            earlier_s=row["earlier_s"],
            earlier_gpu_s=row["earlier_gpu_s"],
            earlier_energy_j=0.0,
            energy_j=row["energy_j"],
        ),
        best_metric=None if best_metric[0] is None or best_metric[1] is None else best_metric,
        user=row["user"],
        notes=row["notes"],
        tags=tuple(json.loads(row["tags"])),
        pins={key: Pin(**pin) for key, pin in json.loads(row["pins"]).items()},
    )


LINE_COLUMNS = (
    "id",
    "name",
    "state",
    "created",
    "started",
    "ended",
    "earlier_s",
    "earlier_gpu_s",
    "energy_j",
    "user",
    "run",
    "step",
    "total_steps",
    "best_name",
    "best_value",
    "metrics",
    "message",
    "error",
    "notes",
    "tags",
    "config",
    "pins",
)
"""Columns that `row_to_line` needs."""


def row_to_line(row: sqlite3.Row) -> JobSummary:
    """Convert to a summary of the job as last seen; values that many jobs share are stored once."""
    state = JobState(row["state"])
    settings = json.loads(row["config"])
    best_name, best_value = row["best_name"], row["best_value"]
    reason = _error_message(row["error"]) if row["error"] else ""
    share = _share(row["step"], row["total_steps"])
    nodes, count, uses_gpus = _placement(_json(settings.get("placement", [])))
    return make_summary(
        settings,
        json.loads(row["metrics"]),
        id=row["id"],
        name=row["name"],
        state=state,
        progress=1.0 if state is JobState.FINISHED else share,
        best_metric=(
            None if best_name is None or best_value is None else (intern(best_name), best_value)
        ),
        nodes=nodes,
        world_size=count,
        uses_gpus=uses_gpus,
        created_s=seconds(row["created"]),
        started_s=seconds(row["started"]),
        ended_s=seconds(row["ended"]),
        earlier_s=row["earlier_s"],
        earlier_gpu_s=row["earlier_gpu_s"],
        energy_j=row["energy_j"],
        run=row["run"],
        user=intern(row["user"]),
        notes=row["notes"],
        tags=_tags(row["tags"]),
        reason=reason or (row["message"] if state is JobState.INTERRUPTED else ""),
        pins=_references(row["pins"]),
    )


@lru_cache(maxsize=4096)
def _error_message(error: str) -> str:
    return intern(str(json.loads(error).get("sentence", "")))


@lru_cache(maxsize=4096)
def _share(step: int, total: int) -> float:
    return min(1.0, step / total) if total else 0.0


@lru_cache(maxsize=4096)
def _placement(text: str) -> tuple[tuple[str, ...], int, bool]:
    """Return the nodes, the number of GPUs or processes, and whether these are GPUs."""
    placements = json.loads(text)
    nodes = tuple(intern(str(placement["node"])) for placement in placements)
    gpu_counts = [len(placement.get("gpus", ())) for placement in placements]
    count = sum(
        gpu_count or int(placement.get("processes", 0))
        for gpu_count, placement in zip(gpu_counts, placements, strict=True)
    )
    return nodes, count, any(gpu_counts)


@lru_cache(maxsize=4096)
def _tags(text: str) -> tuple[str, ...]:
    return tuple(intern(tag) for tag in json.loads(text))


@lru_cache(maxsize=4096)
def _references(text: str) -> tuple[tuple[str, str], ...]:
    return tuple((intern(key), Pin(**pin).reference) for key, pin in json.loads(text).items())


@lru_cache(maxsize=4096)
def _config(text: str) -> JobConfig | None:
    """Parse settings. Cached, because lists are read often and settings never change."""
    return parse_job(json.loads(text)).config


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _storable(row: dict[str, Any]) -> dict[str, Any]:
    """Replace lone surrogates, which files may contain: SQLite stores valid UTF-8 only."""
    return {
        key: value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
        for key, value in row.items()
    }
