"""Progress on standard error: bars on a terminal, nothing for scripts."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, Any

from backend.base.progress import Progress
from backend.cli.printing import number_text, print_note

if TYPE_CHECKING:
    from backend.records.jobs.view import JobView


class ProgressBars(Progress):
    """A bar for work, or two bars for a run: its epoch and all of it, with the newest metrics."""

    def __init__(self, is_quiet: bool = False) -> None:
        super().__init__()
        self._is_quiet = is_quiet
        self._bars: list[Any] = []
        self._activity = ""

    def report(self, done_amount: float, total: float, label: str) -> None:
        """Show work whose total may become known later."""
        if self._is_quiet:
            return
        if label != self._activity or len(self._bars) != 1:
            self.close()
            self._activity = label
            self._bars = [_new_bar(0, total=None, desc=label, unit_scale=True, leave=False)]
        (bar,) = self._bars
        bar.total = total or None
        bar.n = done_amount
        bar.refresh()

    def accepts(self, warning: str) -> bool:
        self.close()
        print_note(f"Warning: {warning}")
        return True

    def show(self, view: JobView) -> None:
        """Show a run; only its state until the number of steps is known."""
        if self._is_quiet:
            return
        if view.status.total_steps and view.state.is_live and not view.status.steps_per_epoch:
            self.report(view.step, view.status.total_steps, view.state_label)
            return
        if not view.status.total_steps or not view.status.steps_per_epoch:
            self._show_state(view)
            return
        if len(self._bars) != 2:
            self.close()
            bar_format = "{desc:<16}{percentage:3.0f} %|{bar}| {n_fmt}/{total_fmt}"
            self._bars = [
                _new_bar(0, bar_format=bar_format + "{postfix}"),
                _new_bar(1, bar_format=bar_format + " [{elapsed}<{remaining}]"),
            ]
        from backend.records.jobs.metric_names import OF_NO_DATA

        epoch_bar, run_bar = self._bars
        epoch = max(1, view.status.epoch)
        epoch_bar.set_description_str(f"Epoch {epoch}/{view.epochs}", refresh=False)
        steps = epoch_bar.total = view.status.steps_per_epoch
        epoch_bar.n = min(steps, max(0, view.step - (epoch - 1) * steps))
        figures = [
            f"{name} {number_text(value)}"
            for name, value in view.status.metrics.items()
            if name not in OF_NO_DATA
        ]
        epoch_bar.set_postfix_str("  ".join(figures[:4]), refresh=False)
        run_bar.set_description_str(view.state_label, refresh=False)
        run_bar.total = view.status.total_steps
        run_bar.n = min(view.step, view.status.total_steps)
        epoch_bar.refresh()
        run_bar.refresh()

    def _show_state(self, view: JobView) -> None:
        if len(self._bars) != 1 or self._activity:
            self.close()
            self._bars = [_new_bar(0, bar_format="{desc} {elapsed}", leave=False)]
        self._bars[0].set_description_str(view.state_label)

    def close(self) -> None:
        for bar in self._bars:
            bar.close()
        self._bars = []
        self._activity = ""


def _new_bar(position: int, *, total: float | None = 1, **options: Any) -> Any:
    from tqdm import tqdm

    # Some terminals (serial lines, CI) report 0 columns; nothing would be drawn.
    width = shutil.get_terminal_size().columns
    return tqdm(total=total, file=sys.stderr, position=position, ncols=width, **options)
