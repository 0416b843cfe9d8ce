"""The content of a report, from the records of its jobs."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from backend.base.errors import BackendError, Cancelled
from backend.base.log import swallowed
from backend.base.progress import Progress
from backend.datastore.bundles.imported_job import environments, safe_stem
from backend.records.base import timestamps
from backend.records.base.number_format import duration, name_list
from backend.records.base.program_name import COMMAND
from backend.records.base.terminal_text import strip_codes
from backend.records.bundles.job_archive import SUFFIX
from backend.records.jobs.comparison import (
    MOST_JOBS,
    ComparedRow,
    ComparedUpdate,
    RowKind,
    best_mode,
    compare,
    rated_metrics,
)
from backend.records.jobs.flat_settings import default_settings, value_text
from backend.records.jobs.history import HistoryUpdate
from backend.records.jobs.metric_names import OF_NO_DATA, VALIDATION, matching_metric, metric_label
from backend.records.jobs.prediction import PredictedSample, PredictionInput
from backend.records.jobs.run_environment import LABELS, differences
from backend.records.jobs.sample_history import answer_text
from backend.records.jobs.settings import value_label
from backend.records.jobs.view import JobView
from backend.records.reports.report import Plot, Report, Sample, Section, Table
from backend.records.studies.study import StartedStudy
from backend.records.studies.table import table_texts
from backend.records.sweeps.search import FAILED, PRUNED, SearchResult
from backend.records.sweeps.spec import TAG
from backend.records.sweeps.summary import job_label, shared_token_count
from backend.services.context.problem_report import HIDDEN
from backend.services.reports.plots import curve_points, draw, has_epochs, study_plot

if TYPE_CHECKING:
    from backend.services.context.container import Services

_MAX_PLOTS = 8
_MAX_CHARS = 6_000
"""Of a note or a traceback: without pictures the file has less than 1 MB."""
_MAX_SAMPLES = 48
_MAIN_RESULTS = ("epochs_done", "seconds")
_BASE64 = re.compile("[A-Za-z0-9+/=]+")
_LEAST_SHOWN = 0.01
_NO_HISTORY = HistoryUpdate()


@dataclass(frozen=True)
class Subject:
    """The jobs of a report; the jobs of a sweep are sorted, the best first."""

    title: str
    views: Sequence[JobView]
    is_sweep: bool = False
    study: StartedStudy | None = None
    search: SearchResult | None = None


class ReportBuilder:
    """Reads the jobs of a report and builds its sections; used once."""

    def __init__(self, services: Services, subject: Subject, progress: Progress) -> None:
        self._services = services
        self._subject = subject
        self._progress = progress
        self._undrawn_texts: list[str] = []
        self.prediction_errors: list[str] = []
        # A job that failed early has only the metric that its settings name.
        rated_views = [view for view in subject.views if view.best_metric is not None]
        self._rated_names = rated_metrics(rated_views or subject.views)
        self._mode = best_mode(next(iter(self._rated_names), ""), subject.views)
        if search := subject.search:
            self._rated_names, self._mode = (search.search.metric,), search.search.mode
        updates: list[ComparedUpdate] = []
        for number, view in enumerate(subject.views):
            progress.step(number, len(subject.views), "Reading the curves")
            updates.append(services.comparison.poll(view.id))
            if subject.is_sweep:
                updates.sort(key=self._rank)
            # The histories of a large sweep need much memory.
            updates[MOST_JOBS:] = [replace(u, history=_NO_HISTORY) for u in updates[MOST_JOBS:]]
        self._updates, self._views = updates[:MOST_JOBS], [update.view for update in updates]
        if search:
            names = {name for update in updates for name in update.figures.metrics}
            self._rated_names = (
                matching_metric(self._rated_names[0], names) or self._rated_names[0],
            )
        self._comparison = compare([(update.view, update.figures) for update in updates])
        labels = [view.name for view in self._views]
        if labels[1:]:
            shared_tokens = shared_token_count(labels)
            labels = [job_label(name, shared_tokens) for name in labels]
        self._names = [
            name if labels.count(name) == 1 else f"{name} ({view.id})"
            for name, view in zip(labels, self._views, strict=True)
        ]

    def _rank(self, update: ComparedUpdate) -> tuple[bool, float]:
        """Return a sort key: the best value of the rated metric first, jobs without it last."""
        metrics = update.figures.metrics
        figures = metrics.get(matching_metric(self._rated_names[0], metrics))
        if figures is None or len(self._rated_names) > 1:
            return figures is None, 0.0
        return False, -figures.highest if self._mode == "max" else figures.lowest

    def build(self, samples: str, checkpoint: str) -> Report:
        """Return the report, with the predictions of a checkpoint for these samples."""
        sections = [*self._study()]
        plots = tuple(self._plots()) if self._views else ()
        if self._views:
            sections += (
                *islice(self._failures(), MOST_JOBS),
                Section("Curves", (*self._curve_texts(), *self._undrawn_texts), plots=plots),
                Section("Results", tables=tuple(self._tables())),
                *self._sample_histories(),
                *self._search(),
                *(self._samples(samples, checkpoint) if samples.strip() else ()),
                *islice(self._notes(), MOST_JOBS),
                *self._environment(),
                self._hashes(),
                self._repetition(),
            )
        view = self._views[0] if len(self._views) == 1 else None
        states = [view.state_label for view in self._views]
        counts = (f"{states.count(state)} {state.lower()}" for state in dict.fromkeys(states))
        return Report(
            sections[0].title if self._subject.study else self._subject.title,
            _subtitle(view) if view else f"{len(self._views)} jobs: {', '.join(counts)}",
            view.state_label if view else "",
            view.state.color_role if view else "",
            tuple(self._figures()) if self._views else (),
            tuple(sections),
            _time(timestamps.utc_now()),
        )

    def _figures(self) -> Iterator[tuple[str, str]]:
        """Yield the main results of the job, or of the best one."""
        best_trial = None if self._subject.search is None else self._subject.search.best
        keys = (*(self._rated_names if best_trial is None else ()), *_MAIN_RESULTS)
        rows = [row for row in self._comparison.results if row.key in keys]
        index = self._best_index(rows) if self._names[1:] else 0
        if index is None:
            return
        if self._names[1:]:
            yield "Best job", self._names[index]
        if best_trial is not None:
            yield f"Best {metric_label(self._rated_names[0])}", f"{best_trial.value:.4g}"
        yield from ((r.label, _value_text(r, index)) for r in rows if r.values[index] is not None)
        for key, pin in self._views[index].pins.items():
            yield _title(key), pin.reference

    def _best_index(self, rows: Sequence[ComparedRow]) -> int | None:
        """Return the job with the best rated value; None if all failed, or none is better."""
        if search := self._subject.search:
            ids = [view.id for view in self._views]
            return ids.index(search.best.job) if search.best and search.best.job in ids else None
        if len(self._rated_names) > 1 or all(view.state.has_failed for view in self._views):
            return None
        for row in rows:
            if row.kind is not RowKind.METRIC:
                continue
            valued_jobs = [n for n, value in enumerate(row.values) if value is not None]
            if any(row.best):
                return row.best.index(True)
            if len(valued_jobs) == 1:
                return valued_jobs[0]
        return None

    def _study(self) -> Iterator[Section]:
        study = self._subject.study
        if study is None:
            return
        table = self._services.studies.table(study)
        texts = [table.question, f"Source: {table.source}.", table.note]
        removed_count = len(study.jobs) - len(self._views)
        if removed_count:
            texts.append(f"{removed_count} of its {len(study.jobs)} jobs were removed.")
        plot = study_plot(table)
        yield Section(
            table.title,
            tuple(filter(None, (*texts, *table.remarks))),
            (Table("Measured and published", *table_texts(table)),),
            () if plot is None else (plot,),
        )

    def _failures(self) -> Iterator[Section]:
        for view, name in zip(self._views, self._names, strict=True):
            error, status = view.error, view.status
            texts = [f"Step {alarm.step}: {alarm.message}" for alarm in status.alarms]
            quotes = []
            if error is not None:
                rank = "" if error.rank is None else f"Rank {error.rank} on {error.node or '?'}: "
                is_said = error.message in status.message
                texts += ["" if is_said else rank + error.message, error.remedy]
                lines = (f"{line.location}  {line.text}" for line in error.evidence)
                quotes = ["\n".join(lines), error.traceback]
            if view.state.has_failed or texts or status.early_finish:
                texts = [status.message, status.early_finish, *texts]
                yield Section(
                    "What happened" if len(self._views) == 1 else f"What happened: {name}",
                    tuple(dict.fromkeys(filter(None, map(_cut, texts)))),
                    quotes=tuple(_cut(strip_codes(quote)) for quote in quotes if quote),
                    is_alarm=view.state.has_failed,
                )

    def _curve_texts(self) -> tuple[str, ...]:
        texts = []
        for update, name in zip(self._updates, self._names, strict=False):
            subject = name if len(self._views) > 1 else "The job"
            if not update.view.run:
                texts.append(f"{subject} has not run yet, so there are no curves.")
            elif not len(update.history.steps):
                texts.append(f"{subject} has no curves: its history is missing, or has no step.")
            texts += update.history.problems
        if len(self._views) > len(self._updates):
            order = "best" if len(self._rated_names) == 1 else "first"
            texts.append(f"The curves are those of the {order} {len(self._updates)} jobs.")
        return tuple(texts)

    def _plots(self) -> Iterator[Plot]:
        histories = [update.history for update in self._updates]
        by_epoch = all(map(has_epochs, histories))
        names = dict.fromkeys((*self._rated_names, "loss"))
        names |= dict.fromkeys(name for history in histories for name in sorted(history.metrics))
        metrics = [n for n in names if n not in OF_NO_DATA or n == OF_NO_DATA[0]]
        is_single = len(self._views) == 1
        # The curves of a single job's training and validation are in one plot.
        plots = {name.removeprefix(VALIDATION) if is_single else name: None for name in metrics}
        for plot in list(plots)[:_MAX_PLOTS]:
            lines = (
                ((histories[0], plot, "training"), (histories[0], VALIDATION + plot, "validation"))
                if is_single
                else [(h, plot, name) for h, name in zip(histories, self._names, strict=False)]
            )
            title = _title(plot if is_single else metric_label(plot))
            x_title = "epoch" if by_epoch else "step"
            try:
                curves = [
                    curve_points(history, metric, name, colour, by_epoch=by_epoch)
                    for colour, (history, metric, name) in enumerate(lines)
                ]
                drawn_curves = [curve for curve in curves if curve is not None]
                if drawn_curves:
                    yield draw(title, x_title, drawn_curves, may_be_log=plot not in OF_NO_DATA)
            except Exception as error:  # noqa: BLE001 - the other curves are worth a report
                swallowed(error)
                self._undrawn_texts.append(f"The curve “{title}” could not be drawn.")

    def _tables(self) -> Iterator[Table]:
        names, differing_rows = self._names, self._comparison.differing
        states = tuple(view.state_label for view in self._views)
        results, state_row = self._comparison.results, _row("State", states)
        if self._subject.is_sweep:
            rated_rows = [row for row in results if row.key in self._rated_names] or results[:1]
            main_rows = (row for row in results if row.key in _MAIN_RESULTS)
            rows = (state_row, *rated_rows, *main_rows, *differing_rows)
            yield _table("Jobs", rows, names, has_job_rows=True)
        else:
            yield _table("Results", (state_row, *results), names if names[1:] else ["Value"])
            if differing_rows:
                yield _table("Settings that differ", differing_rows, names)
        defaults = default_settings(self._views[0].config)
        changes = [r for r in self._comparison.equal if r.values[0] != defaults.get(r.key)]
        yield _table("Settings; all others have their defaults", changes, ["Value"])

    def _samples(self, samples: str, checkpoint: str) -> Iterator[Section]:
        for update, name in zip(self._updates, self._names, strict=False):
            title = f"Predictions of the checkpoint “{checkpoint}”"
            title += f": {name}" if self._names[1:] else ""
            try:
                prediction = self._services.predictions.predict(
                    update.view.id, checkpoint, PredictionInput(samples=samples), self._progress
                )
            except Cancelled:
                raise
            except BackendError as error:
                if not self._names[1:]:
                    raise
                # A job without a checkpoint has curves to show.
                self.prediction_errors.append(f"{name}: {error.with_remedy}")
                yield Section(title, (error.with_remedy,))
                continue
            examples = prediction.examples[:_MAX_SAMPLES]
            texts = list(prediction.notes)
            if len(examples) < prediction.sample_count:
                texts.append(f"{len(examples)} of {prediction.sample_count} samples are shown.")
            yield Section(title, tuple(texts), samples=tuple(map(_sample, examples)))

    def _sample_histories(self) -> Iterator[Section]:
        """Yield the answers of the first, the middle and the last validation; a sweep's best."""
        updates = self._updates[:1] if self._subject.is_sweep else self._updates
        for update, name in zip(updates, self._names, strict=False):
            history = self._services.queries.sample_history(update.view.id)
            last_index = len(history.validations) - 1
            if last_index < 0:
                continue
            indexes = sorted({0, last_index // 2, last_index})
            examples = [history.at(index) for index in indexes]
            epochs = [f"Epoch {history.validations[index].epoch}" for index in indexes]
            rows = (
                (f"{row[0].sample.index}", _cut(row[0].sample.target), *map(answer_text, row))
                for row in zip(*examples, strict=True)
            )
            table = Table(
                f"Samples over time: {name}" if self._names[1:] else "Samples over time",
                ("Validation sample", "Target", *epochs),
                tuple(rows),
                pictures=tuple(map(_sample, examples[-1])),
            )
            yield Section(table.caption, tables=(table,))

    def _search(self) -> Iterator[Section]:
        """Yield the goal, the importance of the settings, and the trials without a full value."""
        result = self._subject.search
        if result is None:
            return
        direction = "lower" if result.search.mode == "min" else "higher"
        names = {view.id: name for view, name in zip(self._views, self._names, strict=True)}
        rows = tuple(
            (
                names[t.job],
                t.state_label,
                "" if t.value is None else f"{t.value:.4g}",
                t.message,
                t.reason,
            )
            for t in result.trials
            if t.state in (PRUNED, FAILED) and t.job in names
        )
        metric = metric_label(self._rated_names[0])
        head = ("", "State", _title(metric), "Values", "Reason")
        yield Section(
            "Search",
            (
                f"The goal is the {metric}; {direction} is better. {result.progress_message}",
                result.error or result.importance_message,
            ),
            (Table("Trials that were given up or failed", head, rows),) if rows else (),
        )

    def _notes(self) -> Iterator[Section]:
        """Yield notes and tags, those that several jobs share once."""
        names_by_notes: dict[tuple[str, str], list[str]] = {}
        for view, name in zip(self._views, self._names, strict=True):
            tags = ", ".join(tag for tag in view.tags if not tag.startswith(TAG))
            if view.notes or tags:
                names_by_notes.setdefault((view.notes, tags), []).append(name)
        for (notes, tags), names in names_by_notes.items():
            title = "Notes" if names == self._names else f"Notes: {name_list(names)}"
            quotes = (_cut(notes),) if notes else ()
            yield Section(title, (f"Tags: {tags}",) if tags else (), quotes=quotes)

    def _environment(self) -> Iterator[Section]:
        runs = [
            (f"{name}, run {run.run}" if self._names[1:] else f"Run {run.run}", run)
            for view, name in zip(self._views, self._names, strict=True)
            for run in environments(self._services.data_root.job(view.id))
        ]
        if not runs:
            return
        title, reference = runs[-1]
        rows = [
            _row(_title(LABELS.get(key, key)), (value_text(value),))
            for key, value in reference.to_dict().items()
            if value and key != "run"
        ]
        yield Section(
            "Environment",
            tuple(
                f"{other_name}, in comparison: {'; '.join(changes)}."
                for other_name, run in runs[:-1]
                if (changes := differences(reference, run))
            )[:_MAX_SAMPLES],
            (_table(title, rows, ["Value"]),),
        )

    def _hashes(self) -> Section:
        rows: dict[tuple[str, ...], None] = {}
        for view in self._views:
            for key, pin in view.pins.items():
                kind = _title(key)
                rows[kind, pin.reference, pin.sha256] = None
        for update, name in zip(self._updates, self._names, strict=False):
            rows["Settings", name, update.view.config.sha256()] = None
            for checkpoint in self._services.queries.checkpoints(update.view.id):
                if checkpoint.is_best or checkpoint.is_latest:
                    rows["Checkpoint", f"{name}, {checkpoint.name}", checkpoint.sha256] = None
        if self._subject.study is not None:
            digest = hashlib.sha256(self._subject.study.text.encode()).hexdigest()
            rows["Study file", self._subject.title, digest] = None
        return Section("Hashes", tables=(Table("SHA-256", ("", "Name", "SHA-256"), tuple(rows)),))

    def _repetition(self) -> Section:
        lines = []
        for update in self._updates:
            bundle = f"{safe_stem(update.view.name)}{SUFFIX}"
            lines.append(f"{COMMAND} job bundle {update.view.id} --with-data  # writes {bundle}")
        lines += [f"{COMMAND} job unbundle FILE", f"{COMMAND} job replay ID --wait"]
        return Section(
            "How to repeat it",
            (
                "A bundle has the model, loader, settings, seed, versions and curves of a job, and "
                "with --with-data the data. On another computer, the last two commands verify it, "
                "train again, and compare the curves.",
            ),
            quotes=("\n".join(lines),),
        )


def _row(text: str, values: tuple[str, ...]) -> ComparedRow:
    return ComparedRow("", text, values, (False,) * len(values))


def _table(
    caption: str, rows: Sequence[ComparedRow], names: Sequence[str], *, has_job_rows: bool = False
) -> Table:
    """Return a table with a column for each name, or with a row for each name."""
    columns = range(len(names))
    texts = [(row.label, *(_value_text(row, column) for column in columns)) for row in rows]
    best_cells = [(n, c + 1) for n, row in enumerate(rows) for c in columns if row.best[c]]
    if has_job_rows:
        head, *lines = zip(("", *names), *texts, strict=True)
        return Table(caption, head, tuple(lines), frozenset((c - 1, n + 1) for n, c in best_cells))
    return Table(caption, ("", *names), tuple(texts), frozenset(best_cells))


def _value_text(row: ComparedRow, column: int) -> str:
    value = row.values[column]
    if value is None:
        return ""
    if isinstance(value, str):
        is_hidden = row.key.startswith("environment.")
        return HIDDEN if is_hidden else _cut(value_label(row.key, value))
    return duration(value) if row.kind is RowKind.SECONDS else f"{value:.4g}"


def _sample(example: PredictedSample) -> Sample:
    sample = example.sample
    guesses = ", ".join(
        guess.name if guess.confidence is None else f"{guess.name} ({guess.confidence:.0%})"
        for guess in example.guesses[:3]
        if guess.confidence is None or guess.confidence >= _LEAST_SHOWN
    )
    answer = guesses or (f"{len(example.boxes)} boxes" if example.boxes else example.prediction)
    target = sample.of_class or sample.target or f"{len(example.truth)} boxes"
    caption = f"Sample {sample.index}: {_cut(answer)}; target {_cut(target)}"
    png = next((part.png for part in sample.parts if _BASE64.fullmatch(part.png)), "")
    frames = (
        (is_true, "M{0:.4f} {1:.4f}H{2:.4f}V{3:.4f}H{0:.4f}Z".format(*corners))
        for is_true, boxes in ((True, example.truth), (False, example.boxes))
        for box in boxes
        if len(corners := [min(max(corner or 0.0, 0.0), 1.0) for corner in box.corners]) == 4
    )
    return Sample(caption, png, tuple(frames))


def _subtitle(view: JobView) -> str:
    start = view.status.started_at
    time = f"started {_time(start)}" if start else f"created {_time(view.created)}"
    return ", ".join((f"Job {view.id}", *([f"by {view.user}"] if view.user else ()), time))


def _title(key: str) -> str:
    return (key[:1].upper() + key[1:]).replace("_", " ")


def _time(stamp: str) -> str:
    """Return the minute of a time: its readers are in other time zones."""
    return f"{stamp[:16].replace('T', ' ')} UTC"


def _cut(text: str) -> str:
    """Return the beginning and the end of a long text."""
    half_chars = _MAX_CHARS // 2
    return text if len(text) <= _MAX_CHARS else f"{text[:half_chars]}\n…\n{text[-half_chars:]}"
