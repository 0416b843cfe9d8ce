"""The ticked rows of the list; the open row is separate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from PySide6.QtCore import QObject, Signal


class JobTicks(QObject):
    """Ids of ticked jobs and tags of ticked sweeps, independent of their rows.

    Signals:
        changed: The set of ticked rows changed.
    """

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._ids: dict[str, None] = {}

    def __contains__(self, line_id: object) -> bool:
        return line_id in self._ids

    def __len__(self) -> int:
        return len(self._ids)

    def __iter__(self) -> Iterator[str]:
        return iter(self._ids)

    def toggle(self, line_id: str) -> None:
        if line_id in self._ids:
            self.keep(set(self._ids) - {line_id})
        else:
            self.add((line_id,))

    def add(self, ids: Iterable[str]) -> None:
        self._change({**self._ids, **dict.fromkeys(ids)})

    def keep(self, ids: Iterable[str]) -> None:
        """Keep only these ids ticked, if they were."""
        kept = set(ids)
        self._change({each: None for each in self._ids if each in kept})

    def clear(self) -> None:
        self._change({})

    def _change(self, ids: dict[str, None]) -> None:
        if ids != self._ids:
            self._ids = ids
            self.changed.emit()
