"""The Compare page: curves of two to eight jobs on one axis, and how the jobs differ."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

from PySide6.QtCore import Qt, QTimer, Signal, Slot
from PySide6.QtGui import (
    QDragEnterEvent,
    QDragLeaveEvent,
    QDropEvent,
    QKeySequence,
    QResizeEvent,
    QShortcut,
)
from PySide6.QtWidgets import QWidget

from backend.records.jobs.comparison import (
    MOST_JOBS,
    ComparedUpdate,
    compare,
    rated_metrics,
    too_many_message,
)
from backend.records.jobs.summary import JobQuery
from backend.records.jobs.view import JobView
from backend.records.sweeps.summary import job_label, shared_token_count
from widgets.common import formats
from widgets.common.buttons import Button, IconButton
from widgets.common.cards import Card, EmptyState, PageHeader, VerticalScrollArea
from widgets.common.drag_and_drop import DraggedJobs, DropOffer, DropOverlay, dragged_jobs
from widgets.common.fields import Slider
from widgets.common.labels import Label, plain_tip
from widgets.common.layout import col, row
from widgets.common.panes import PageStack
from widgets.common.theme import PAGE_MARGIN, S1, S2, S3, S4, S5
from widgets.compare.job_picker import JobPicker
from widgets.compare.parallel_card import ParallelCard
from widgets.compare.plots import ComparePlots, PlottedRun
from widgets.compare.table import CompareTable
from widgets.jobs.list.job_list_model import JobRows
from widgets.plots.axis_choice import LOG_X_KEY, LOG_Y_KEY, ScaleButton, axis_choice
from widgets.plots.curve_data import XAxis
from widgets.plots.run_curves import RunCurves

_NAME_CHARS = 28
_NUMBER_AT_END = re.compile(r"\d[\d.,]*([eE][+-]?\d*)?$")
_NUMBER_AT_START = re.compile(r"^[\d.,]*([eE]?[+-]?\d+)?")
_SMOOTHING = 0.6
_NARROW_W, _CRAMPED_W = 1000, 860


class ComparePage(QWidget):
    """The page of the compared jobs; its owner decides which jobs are compared.

    Signals:
        add_requested, remove_requested, job_opened: A job's id.
        jobs_dropped: The ids of jobs to add to the comparison, as a tuple.
        csv_requested: The user asks for all curves of all compared jobs as one table.
        report_requested: The ids of the compared jobs, whose report the user asks for.
        rows_requested: Search the jobs to choose from; answer with `show_rows`.
        save_requested: A file name, and the bytes to save.

    Attributes:
        plots, parallel: The curves, and the parallel coordinates of a sweep.
    """

    add_requested = Signal(str)
    remove_requested = Signal(str)
    job_opened = Signal(str)
    jobs_dropped = Signal(object)
    csv_requested = Signal()
    report_requested = Signal(object)
    rows_requested = Signal(JobQuery)
    save_requested = Signal(str, object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.ids: tuple[str, ...] = ()
        self._siblings: tuple[JobView, ...] = ()
        self._updates: dict[str, ComparedUpdate] = {}
        self._curves: dict[str, RunCurves] = {}
        self._colours: dict[str, int] = {}
        self._read_errors: dict[str, str] = {}
        self._picker: JobPicker | None = None
        self._make_header()
        self._make_content()
        self._empty_page = EmptyState(
            "chart-line-up",
            "No jobs compared yet",
            "See the curves of two to eight jobs on one axis, and the settings that differ.",
            button="Add a job",
            hint="or drag jobs from Jobs onto Compare",
            button_icon="plus",
        )
        self._empty_page.pressed.connect(self.open_picker)
        self._reading_page = EmptyState("chart-line-up", "Reading curves…")
        self._pages = PageStack()
        self._pages.addWidget(self._reading_page)
        self._pages.addWidget(self._empty_page)
        self._pages.addWidget(self._scroll)
        self.setLayout(col(self._header, (self._pages, 1), gap=0))
        for key, action in (
            (LOG_Y_KEY, self._scale.toggle_log_y),
            (LOG_X_KEY, self._scale.toggle_log_x),
            ("F", self.plots.fit),
            ("S", partial(self._smoothing.setFocus, Qt.FocusReason.ShortcutFocusReason)),
        ):
            QShortcut(QKeySequence(key), self, action)
        self.setAcceptDrops(True)
        self.drop_overlay = DropOverlay(self)
        # Plots and table have a turn each: both at once block keys for 0.14 s
        # (tests/benchmarks/soak.py).
        self._refresh_timer = self._one_shot(self._refresh)
        self._table_timer = self._one_shot(self._show_table)
        self._refresh()

    def _make_content(self) -> None:
        self.plots = ComparePlots(_SMOOTHING)
        self.plots.save_requested.connect(self.save_requested)
        self.table = CompareTable()
        self.table.job_hovered.connect(self.plots.highlight_job)
        self.table.job_opened.connect(self.job_opened)
        self.table.removal_requested.connect(self.remove_requested)
        self.parallel = ParallelCard()
        self.parallel.job_hovered.connect(self.plots.highlight_job)
        self.parallel.job_opened.connect(self.job_opened)
        self.parallel.pictures.saved.connect(self.save_requested)
        self._message = Label("", "small", "text2", wrap=True)
        self._message.setContentsMargins(0, S2, 0, 0)
        add_plot_button = Button(
            "Add plot", kind="quiet", icon="plus", tip="Plot another metric of these jobs"
        )
        add_plot_button.clicked.connect(self.plots.add_plot)
        content = QWidget()
        content.setLayout(
            col(
                (self.plots, 1),
                row((self._message, 1), add_plot_button, gap=S3),
                Card(self.table, margins=(S5, S4, S5, S3)),
                self.parallel,
                gap=S2,
                margins=(PAGE_MARGIN, 0, 0, S5),
            )
        )
        self._scroll = VerticalScrollArea(content, gutter=PAGE_MARGIN)

    # -- input

    def show_rows(self, query: JobQuery, rows: JobRows) -> None:
        """Show the jobs that match the search of the picker."""
        if self._picker is not None:
            self._picker.show_rows(query, rows)

    def show_siblings(self, views: tuple[JobView, ...]) -> None:
        """Set all jobs of the sweeps that the compared jobs belong to."""
        self._siblings = views
        self._show_parallel()

    def set_jobs(self, ids: tuple[str, ...]) -> None:
        """Set the compared jobs. A job that stays keeps its colour."""
        for key in set(self.ids) - set(ids):
            for records in (self._updates, self._curves, self._colours, self._read_errors):
                records.pop(key, None)
        self.ids = ids
        for key in ids:
            if key not in self._colours:
                used_colours = set(self._colours.values())
                self._colours[key] = next(n for n in range(MOST_JOBS) if n not in used_colours)
                self._curves[key] = RunCurves()
        if ids:
            self.plots.prepare()
        self._refresh()

    def show_update(self, update: ComparedUpdate) -> None:
        """Update a job: its view, and points to append."""
        key = update.view.id
        if key not in self._colours:
            return
        self._updates[key] = update
        self._read_errors.pop(key, None)
        self._curves[key].append(update.history)
        self._refresh_timer.start()

    def show_read_error(self, job_id: str, message: str) -> None:
        """Report a job that cannot be read any more; its curves stay."""
        if job_id in self._colours and self._read_errors.get(job_id) != message:
            self._read_errors[job_id] = message
            self._refresh()

    def colour(self, job_id: str) -> int:
        """Return the number of a job's colour."""
        return self._colours[job_id]

    def curves(self, job_id: str) -> RunCurves:
        """Return the drawn curves of a job, for tests."""
        return self._curves[job_id]

    # -- actions

    def offer_for(self, jobs: DraggedJobs) -> DropOffer:
        """Return the effect of a drop of these jobs."""
        if set(jobs.ids) <= set(self.ids):
            verb = "is" if len(jobs.ids) == 1 else "are"
            return DropOffer(f"{jobs.label} {verb} compared already", is_accepted=False)
        refusal = too_many_message(self.ids, jobs.ids)
        return DropOffer(refusal or f"Compare {jobs.label}", is_accepted=not refusal)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        jobs = dragged_jobs(event.mimeData())
        if jobs is None:
            event.ignore()
            return
        # More jobs than fit are accepted, too: the overlay then explains the refusal.
        event.setDropAction(Qt.DropAction.CopyAction)
        event.accept()
        offer = self.offer_for(jobs)
        self.drop_overlay.open(offer.message, "chart-line-up", is_accepted=offer.is_accepted)

    def dragLeaveEvent(self, _event: QDragLeaveEvent) -> None:
        self.drop_overlay.hide()

    def dropEvent(self, event: QDropEvent) -> None:
        self.drop_overlay.hide()
        jobs = dragged_jobs(event.mimeData())
        if jobs is not None:
            event.setDropAction(Qt.DropAction.CopyAction)
            event.accept()
            self.jobs_dropped.emit(jobs.ids)

    @Slot()
    def open_picker(self) -> None:
        if self._picker is not None:
            return
        picker = JobPicker(self)
        picker.job_picked.connect(self.add_requested)
        picker.finished.connect(self._forget_picker)
        picker.rows_requested.connect(self.rows_requested)
        self._picker = picker
        self._show_in_picker()
        picker.request_rows()
        picker.open()

    @Slot()
    def _forget_picker(self) -> None:
        picker, self._picker = self._picker, None
        if picker is not None:
            picker.deleteLater()

    def _show_in_picker(self) -> None:
        if self._picker is not None:
            self._picker.show_compared(self.ids)

    # -- construction

    def _make_header(self) -> None:
        self._axes = axis_choice(XAxis.EPOCH)
        self._axes.key_chosen.connect(self._set_axis)
        self._smoothing = Slider(_SMOOTHING, name="Smoothing", width=72)
        self._smoothing.setToolTip(plain_tip("Smoothing", "S"))
        self._smoothing.share_changed.connect(lambda share: self.plots.set_smoothing(share))
        self._scale = ScaleButton()
        self._scale.log_x_changed.connect(lambda is_log: self.plots.set_log_x(is_log))
        self._scale.log_y_changed.connect(lambda is_log: self.plots.set_log_y(is_log))
        self._csv_button = Button(
            "Save CSV", icon="download-simple", tip="All curves of these jobs in one file"
        )
        self._csv_button.clicked.connect(self.csv_requested)
        self._report_button = IconButton("file-text", "Write a report of these jobs")
        self._report_button.clicked.connect(lambda: self.report_requested.emit(self.ids))
        self._add_button = Button("Add job", icon="plus")
        self._add_button.clicked.connect(self.open_picker)
        self._smoothing_label = Label("Smoothing", "small", "text2")
        self._tools = QWidget()
        self._tools.setLayout(
            row(
                self._axes,
                S1,
                self._smoothing_label,
                self._smoothing,
                self._scale,
                self._csv_button,
                self._report_button,
            )
        )
        self._header = PageHeader("Compare", "", self._tools, self._add_button)

    @Slot(str)
    def _set_axis(self, key: str) -> None:
        self._scale.set_has_log_x(XAxis(key) is not XAxis.CLOCK)
        self.plots.set_axis(XAxis(key))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        is_narrow = self.width() < _NARROW_W
        self._csv_button.setText("CSV" if is_narrow else "Save CSV")
        self._add_button.setText("Add" if is_narrow else "Add job")
        # The slider's tool tip repeats this label; the number of jobs is shown only here.
        self._smoothing_label.setVisible(self.width() >= _CRAMPED_W)

    # -- internals

    def _refresh(self) -> None:
        views = [update.view for update in self._known_updates()]
        names = short_names([view.name for view in views])
        self.plots.show_runs(
            [
                PlottedRun(view.id, name, self._colours[view.id], self._curves[view.id])
                for view, name in zip(views, names, strict=True)
            ],
            rated_metrics(views),
        )
        if views:
            self._table_timer.start()
        count = len(self.ids)
        self._header.subtitle.setText(formats.plural(count, "job") if count else "")
        self._tools.setVisible(bool(count))
        self._add_button.setVisible(bool(count))
        self._add_button.setEnabled(count < MOST_JOBS)
        self._add_button.set_tip(
            "" if count < MOST_JOBS else f"At most {MOST_JOBS} jobs can be compared"
        )
        self._message.setText(self._message_text(views))
        content_page = self._scroll if views or self._read_errors else self._reading_page
        self._pages.setCurrentWidget(content_page if count else self._empty_page)
        self._show_in_picker()

    def _show_table(self) -> None:
        updates = self._known_updates()
        if not updates:
            return
        names = short_names([update.view.name for update in updates])
        comparison = compare([(update.view, update.figures) for update in updates])
        self.table.show_comparison(comparison, self._colours, self._read_errors, names)
        self._show_parallel()

    def _show_parallel(self) -> None:
        views = tuple(update.view for update in self._known_updates())
        self.parallel.show_jobs(views, self._siblings)

    def _known_updates(self) -> list[ComparedUpdate]:
        return [self._updates[key] for key in self.ids if key in self._updates]

    def _one_shot(self, call: Callable[[], object]) -> QTimer:
        timer = QTimer(self, singleShot=True)
        timer.timeout.connect(call)
        return timer

    def _message_text(self, views: list[JobView]) -> str:
        """Return a text about missing curves and jobs, and the reasons."""
        messages = list(dict.fromkeys(self._read_errors.values()))
        if len(views) < len(self.ids) and not messages:
            messages.append("Reading curves…")
        empty_jobs = [view.name for view in views if not self._curves[view.id].names()]
        if empty_jobs:
            names_text = formats.join_names([f"“{name}”" for name in empty_jobs])
            messages.append(
                f"{names_text} {'has' if len(empty_jobs) == 1 else 'have'} no curve yet."
            )
        if len(self.ids) == 1 and not messages:
            messages.append("Add another job to see how they differ.")
        return " ".join(messages)


def short_names(names: Sequence[str]) -> tuple[str, ...]:
    """Shorten names to their differences: common words at the start are left out.

    Long names lose their middle. Equal names get a number.
    """
    common_words = shared_token_count(names) if len(names) > 1 else 0
    short_names = [_cut_middle(job_label(name, common_words)) for name in names]
    name_counts = Counter(short_names)
    occurrences: Counter[str] = Counter()
    numbered_names = []
    for name in short_names:
        occurrences[name] += 1
        numbered_names.append(f"{name} ({occurrences[name]})" if name_counts[name] > 1 else name)
    return tuple(numbered_names)


def _cut_middle(name: str) -> str:
    if len(name) <= _NAME_CHARS:
        return name
    half_chars = (_NAME_CHARS - 1) // 2
    # A part of a number would read as another number.
    start = _NUMBER_AT_END.sub("", name[:half_chars]).rstrip()
    return f"{start}…{_NUMBER_AT_START.sub('', name[-half_chars:]).lstrip()}"
