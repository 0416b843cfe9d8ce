"""The text in the row of a sweep."""

from __future__ import annotations

from PySide6.QtCore import Qt

from backend.records.jobs.metric_names import metric_label
from backend.records.jobs.summary import JobSummary, SweepCount
from widgets.common import formats
from widgets.common.labels import plain_tip
from widgets.common.theme import ColorRole
from widgets.jobs.list.job_columns import JobColumn, cell_text


def state_counts(sweep_count: SweepCount) -> list[tuple[str, ColorRole]]:
    """Return the number of jobs by state; only live and failed jobs are coloured."""
    counts: tuple[tuple[int, str, ColorRole], ...] = (
        (sweep_count.live, "live", "live"),
        (sweep_count.queued, "waiting", "text2"),
        (sweep_count.drafts, "drafts" if sweep_count.drafts > 1 else "draft", "text2"),
        (sweep_count.finished, "finished", "text2"),
        (sweep_count.stopped, "stopped", "text2"),
        (sweep_count.failed, "failed", "bad"),
    )
    return [(f"{formats.count(n)} {label}", color_role) for n, label, color_role in counts if n]


def count_texts(sweep_count: SweepCount) -> list[tuple[str, ColorRole]]:
    """Return ``6 jobs: 2 live, 3 finished, 1 failed`` as texts with their colour roles."""
    counts = state_counts(sweep_count)
    jobs = formats.plural(len(sweep_count.ids), "job")
    if len(counts) == 1:
        label = counts[0][0].rpartition(" ")[2]
        return [(f"{jobs}, all ", "text2"), (label, counts[0][1])]
    texts: list[tuple[str, ColorRole]] = [(f"{jobs}: ", "text2")]
    for colored_text in counts:
        texts += [colored_text, (", ", "text2")]
    return texts[:-1]


def notable_counts(sweep_count: SweepCount) -> list[tuple[str, ColorRole]]:
    """Return ``6 jobs: 1 failed, 2 live``; other columns show the remaining counts."""
    texts: list[tuple[str, ColorRole]] = [(formats.plural(len(sweep_count.ids), "job"), "text2")]
    notable_texts = [
        colored_text
        for colored_text in reversed(state_counts(sweep_count))
        if colored_text[1] != "text2"
    ]
    for number, colored_text in enumerate(notable_texts):
        texts += [(", " if number else ": ", "text2"), colored_text]
    return texts


def count_message(sweep_count: SweepCount) -> str:
    """Return `count_texts` as a single text."""
    return "".join(text for text, _ in count_texts(sweep_count))


def best_job_label(summary: JobSummary) -> str:
    """Return ``validation loss 0.0412 of lr=0.1``, "" if no job has a metric yet."""
    if summary.best_metric is None or summary.sweep is None:
        return ""
    name, value = summary.best_metric
    return f"{metric_label(name)} {formats.metric(value)} of {summary.sweep.best_job}"


def sweep_cell_text(
    summary: JobSummary, column: JobColumn | None, role: int, is_open: bool
) -> str | None:
    """Return the text of a sweep's cell, None where the text of a job applies."""
    if summary.sweep is None:
        return None
    best_label = best_job_label(summary)
    description = f"{count_message(summary.sweep)}." + (
        f" Best: {best_label}." if best_label else ""
    )
    if role == Qt.ItemDataRole.AccessibleTextRole and column in (None, JobColumn.NAME):
        fold_label = "unfolded" if is_open else "folded"
        progress = formats.progress(summary.progress)
        return f"{summary.name}, sweep, {fold_label}, {progress}. {description}"
    if role == Qt.ItemDataRole.ToolTipRole:
        if column in (None, JobColumn.NAME):
            return plain_tip(f"{summary.name}\n{description}")
        if column is JobColumn.STATE:
            return plain_tip(count_message(summary.sweep))
        if column is JobColumn.BEST and best_label:
            return plain_tip(best_label)
        if column is JobColumn.GPUS and summary.uses_gpus:
            return plain_tip(f"{cell_text(summary, column)} used by live jobs")
    return None
