"""The steps of a script in the order in which a history has them: each once, none backward.

A program writes its validation in a line of its own, at the same step, and may count one metric in
steps and another in epochs; files are written later than lines on stdout.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from backend.training.script_metrics import Point


class StepOrder:
    """Joins the points of a step. The newest step waits for more until nothing new comes."""

    def __init__(self) -> None:
        self._waiting: dict[int, Point] = {}
        self._reported = -1

    def take(self, points: Iterable[Point], is_over: bool = False) -> list[Point]:
        """Add points; return the steps that are complete. Late points count at the newest step."""
        points = sorted(points, key=lambda point: point.step)
        newest = max([*self._waiting, self._reported + 1])
        for point in points:
            step = max(point.step, newest)
            known = self._waiting.get(step, point)
            self._waiting[step] = replace(
                known,
                step=step,
                epoch=max(known.epoch, point.epoch),
                metrics={**known.metrics, **point.metrics},
                total_steps=max(known.total_steps, point.total_steps),
                total_epochs=max(known.total_epochs, point.total_epochs),
            )
        complete = sorted(self._waiting)[: -1 if points and not is_over else None]
        self._reported = max([*complete, self._reported])
        return [self._waiting.pop(step) for step in complete]
