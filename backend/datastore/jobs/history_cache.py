"""Cache of histories, as plain arrays on the desktop's own disk.

Reading a million steps of text takes half a second and more; reading them as numbers takes a
twentieth of that. The cache is optional and never trusted blindly: it is used only while the
beginning of the file, and its bytes just before the cached end, are unchanged. What was appended
since is read from the file.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from backend.base.log import suppress, swallowed
from backend.datastore.jobs.history_reader import Column, HistoryCursor, read_history
from backend.records.base.atomic_files import replace_bytes
from backend.records.jobs.history import HistoryUpdate, RunStart

_SCHEMA = 1
_TAIL_BYTES = 256
WORTH_KEEPING_BYTES = 1_000_000
"""Text of this size takes longer to read than its cache takes to write."""


class HistoryReader:
    """Reads histories; the first read of a long one uses the cache in ``folder``."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    def read(
        self, path: Path, cursor: HistoryCursor | None = None
    ) -> tuple[HistoryUpdate, HistoryCursor]:
        """Read as `read_history`."""
        if cursor is not None and cursor.head:
            return read_history(path, cursor)
        cached_history = self._load(path)
        if cached_history is None:
            update, new_cursor = read_history(path)
            cached_bytes = 0
        else:
            cached_update, cached_cursor = cached_history
            new_update, new_cursor = read_history(path, cached_cursor)
            update = join_updates(cached_update, new_update)
            cached_bytes = cached_cursor.offset
        if new_cursor.offset - cached_bytes > WORTH_KEEPING_BYTES:
            self._save(path, update, new_cursor)
        return replace(update, drop_from=0), new_cursor

    def _file(self, path: Path) -> Path | None:
        if self._folder is None:
            return None
        return self._folder / (hashlib.sha256(str(path.absolute()).encode()).hexdigest() + ".cache")

    def _load(self, path: Path) -> tuple[HistoryUpdate, HistoryCursor] | None:
        file = self._file(path)
        if file is None:
            return None
        try:
            with file.open("rb") as stream:
                raw = json.loads(stream.readline(10_000_000))
                if raw["schema"] != _SCHEMA or raw["tail"] != _tail(path, raw["offset"]):
                    return None
                count = int(raw["count"])
                rows: list[Column] = [
                    np.fromfile(stream, np.float64, count) for _ in raw["metrics"]
                ]
                steps: Column = np.fromfile(stream, np.int64, count)
                epochs: Column = np.fromfile(stream, np.int64, count)
                seconds: Column = np.fromfile(stream, np.float64, count)
            if seconds.size != count:
                return None
            return (
                HistoryUpdate(
                    steps=steps,
                    epochs=epochs,
                    seconds=seconds,
                    metrics=dict(zip(raw["metrics"], rows, strict=True)),
                    run_starts=tuple(RunStart(*start) for start in raw["run_starts"]),
                    problems=tuple(raw["problems"]),
                    started_s=float(raw["began"]),
                ),
                HistoryCursor(
                    offset=int(raw["offset"]),
                    head=bytes.fromhex(raw["head"]),
                    last_step=int(raw["last_step"]),
                    run=int(raw["run"]),
                    started_s=float(raw["began"]),
                    reached_s=float(raw["reached"]),
                ),
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            swallowed(error)
            return None

    def _save(self, path: Path, update: HistoryUpdate, cursor: HistoryCursor) -> None:
        file = self._file(path)
        if file is None:
            return
        header: dict[str, Any] = {
            "schema": _SCHEMA,
            "path": str(path),
            "count": len(update.steps),
            "metrics": list(update.metrics),
            "run_starts": [[start.run, start.first_step] for start in update.run_starts],
            "problems": list(update.problems),
            "offset": cursor.offset,
            "head": cursor.head.hex(),
            "last_step": cursor.last_step,
            "run": cursor.run,
            "began": cursor.started_s,
            "reached": cursor.reached_s,
        }
        # A full disk only makes the next opening slower.
        with suppress(OSError):
            header["tail"] = _tail(path, cursor.offset)
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            content = [
                json.dumps(header).encode() + b"\n",
                *(np.asarray(values, np.float64).tobytes() for values in update.metrics.values()),
                np.asarray(update.steps, np.int64).tobytes(),
                np.asarray(update.epochs, np.int64).tobytes(),
                np.asarray(update.seconds, np.float64).tobytes(),
            ]
            replace_bytes(file, b"".join(content), mode=0o600)


def join_updates(base: HistoryUpdate, update: HistoryUpdate) -> HistoryUpdate:
    """Return ``base`` with ``update`` appended, as one read would have returned both."""
    if update.drop_from == 0 or not len(base.steps):
        return update
    is_kept = (
        np.asarray(base.steps) < update.drop_from if update.drop_from is not None else slice(None)
    )
    steps: Column = np.asarray(base.steps)[is_kept]
    epochs: Column = np.concatenate([np.asarray(base.epochs)[is_kept], update.epochs])
    seconds: Column = np.concatenate([np.asarray(base.seconds)[is_kept], update.seconds])
    metrics: dict[str, Column] = {}
    old_names = [
        name
        for name, values in base.metrics.items()
        if update.drop_from is None or not np.isnan(np.asarray(values)[is_kept]).all()
    ]
    for name in dict.fromkeys([*old_names, *update.metrics]):
        old_values, new_values = base.metrics.get(name), update.metrics.get(name)
        metrics[name] = np.concatenate(
            [
                np.full(len(steps), np.nan)
                if old_values is None
                else np.asarray(old_values)[is_kept],
                np.full(len(update.steps), np.nan)
                if new_values is None
                else np.asarray(new_values),
            ]
        )
    steps_of_both: Column = np.concatenate([steps, update.steps])
    return HistoryUpdate(
        steps=steps_of_both,
        epochs=epochs,
        seconds=seconds,
        metrics=metrics,
        run_starts=tuple(
            start
            for start in base.run_starts
            if update.drop_from is None or start.first_step < update.drop_from
        )
        + update.run_starts,
        problems=base.problems + update.problems,
        started_s=update.started_s or base.started_s,
    )


def _tail(path: Path, offset: int) -> str:
    """Return the bytes just before ``offset``."""
    with path.open("rb") as file:
        file.seek(max(0, offset - _TAIL_BYTES))
        return file.read(min(offset, _TAIL_BYTES)).hex()
