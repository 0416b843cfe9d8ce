"""Progress on standard error: bars on a terminal, nothing for scripts."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, Any

from backend.base.progress import Progress
from backend.cli.printing import in_figures

if TYPE_CHECKING:
    from backend.records.jobs.view import JobView


class Bars(Progress):
    """One bar for work, or two for a run: its epoch and all of it, with the newest metrics."""

    def __init__(self, is_quiet: bool = False) -> None:
        super().__init__()
        self._is_quiet = is_quiet
        self._shown: list[Any] = []
        self._what = ""

    def report(self, done: float, total: float, what: str) -> None:
        """Show work whose total may become known later."""
        if self._is_quiet:
            return
        if what != self._what or len(self._shown) != 1:
            self.close()
            self._what = what
            self._shown = [_line(0, total=None, desc=what, unit_scale=True, leave=False)]
        (bar,) = self._shown
        bar.total = total or None
        bar.n = done
        bar.refresh()

    def show(self, view: JobView) -> None:
        """Show a run; only its state until the number of steps is known."""
        if self._is_quiet:
            return
        if view.status.total_steps and view.state.is_live and not view.status.steps_per_epoch:
            self.report(view.step, view.status.total_steps, view.state.label)
            return
        if not view.status.total_steps or not view.status.steps_per_epoch:
            self._wait(view)
            return
        if len(self._shown) != 2:
            self.close()
            form = "{desc:<16}{percentage:3.0f} %|{bar}| {n_fmt}/{total_fmt}"
            self._shown = [
                _line(0, bar_format=form + "{postfix}"),
                _line(1, bar_format=form + " [{elapsed}<{remaining}]"),
            ]
        from backend.records.jobs.metric_names import OF_NO_DATA

        epoch_bar, run_bar = self._shown
        epoch = max(1, view.status.epoch)
        epoch_bar.set_description_str(f"Epoch {epoch}/{view.epochs}", refresh=False)
        steps = epoch_bar.total = view.status.steps_per_epoch
        epoch_bar.n = min(steps, max(0, view.step - (epoch - 1) * steps))
        figures = [
            f"{name} {in_figures(value)}"
            for name, value in view.status.metrics.items()
            if name not in OF_NO_DATA
        ]
        epoch_bar.set_postfix_str("  ".join(figures[:4]), refresh=False)
        run_bar.set_description_str(view.state.label, refresh=False)
        run_bar.total = view.status.total_steps
        run_bar.n = min(view.step, view.status.total_steps)
        epoch_bar.refresh()
        run_bar.refresh()

    def _wait(self, view: JobView) -> None:
        if len(self._shown) != 1 or self._what:
            self.close()
            self._shown = [_line(0, bar_format="{desc} {elapsed}", leave=False)]
        self._shown[0].set_description_str(view.state.label)

    def close(self) -> None:
        for bar in self._shown:
            bar.close()
        self._shown = []
        self._what = ""


def _line(position: int, *, total: float | None = 1, **how: Any) -> Any:
    from tqdm import tqdm

    # Some terminals (serial lines, CI) report 0 columns; nothing would be drawn.
    width = shutil.get_terminal_size().columns
    return tqdm(total=total, file=sys.stderr, position=position, ncols=width, **how)
