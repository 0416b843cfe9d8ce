"""Progress on standard error: bars on a terminal, nothing for scripts."""

from __future__ import annotations

import shutil
import sys
from typing import Any

from tqdm import tqdm

from backend.base.progress import Progress
from backend.cli.printing import in_figures
from backend.records.jobs.metric_names import OF_NO_DATA
from backend.records.jobs.view import JobView


class Bar(Progress):
    """One bar for work whose total may become known later."""

    def __init__(self) -> None:
        super().__init__()
        self._bar: Any = None
        self._what = ""

    def report(self, done: float, total: float, what: str) -> None:
        if what != self._what:
            self.close()
            self._what = what
            self._bar = tqdm(
                desc=what,
                file=sys.stderr,
                unit_scale=True,
                leave=False,
                ncols=shutil.get_terminal_size().columns,
            )
        self._bar.total = total or None
        self._bar.n = done
        self._bar.refresh()

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class RunBars:
    """A bar for the epoch and one for the whole run, with the newest metrics."""

    def __init__(self) -> None:
        self._waiting: Any = None
        self._epoch: Any = None
        self._run: Any = None

    def show(self, view: JobView) -> None:
        if not view.status.total_steps or not view.status.steps_per_epoch:
            self._wait(view)
            return
        if self._run is None:
            self.close()
            self._epoch = _line(
                0, "{desc:<16}{percentage:3.0f} %|{bar}| {n_fmt}/{total_fmt}{postfix}"
            )
            self._run = _line(
                1,
                "{desc:<16}{percentage:3.0f} %|{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}]",
            )
        epoch = max(1, view.status.epoch)
        self._epoch.set_description_str(f"Epoch {epoch}/{view.epochs}", refresh=False)
        self._epoch.total = view.status.steps_per_epoch
        self._epoch.n = min(
            view.status.steps_per_epoch,
            max(0, view.step - (epoch - 1) * view.status.steps_per_epoch),
        )
        figures = [
            f"{name} {in_figures(value)}"
            for name, value in view.status.metrics.items()
            if name not in OF_NO_DATA
        ]
        self._epoch.set_postfix_str("  ".join(figures[:4]), refresh=False)
        self._run.set_description_str(view.state.word, refresh=False)
        self._run.total = view.status.total_steps
        self._run.n = min(view.step, view.status.total_steps)
        self._epoch.refresh()
        self._run.refresh()

    def _wait(self, view: JobView) -> None:
        """Show only the state until the number of steps is known."""
        if self._waiting is None:
            self._waiting = _line(0, "{desc} {elapsed}", leave=False)
        self._waiting.set_description_str(view.state.word)

    def close(self) -> None:
        for bar in (self._waiting, self._epoch, self._run):
            if bar is not None:
                bar.close()
        self._waiting = self._epoch = self._run = None

    def __enter__(self) -> RunBars:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _line(position: int, bar_format: str, *, leave: bool = True) -> Any:
    # Some terminals (serial lines, CI) report 0 columns; nothing would be drawn.
    width = shutil.get_terminal_size().columns
    return tqdm(
        total=1,
        file=sys.stderr,
        position=position,
        bar_format=bar_format,
        leave=leave,
        ncols=width,
    )
