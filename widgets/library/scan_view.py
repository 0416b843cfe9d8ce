"""The tab Scan: read all samples of a dataset, and show the findings."""

from __future__ import annotations

from PySide6.QtCore import QModelIndex, Signal, Slot
from PySide6.QtWidgets import QStackedWidget, QTableView, QWidget

from backend.records.library.preview import SamplePage
from backend.records.library.scan import DatasetScan, ScanFinding
from widgets.common import formats
from widgets.common.banner import Banner
from widgets.common.buttons import IconButton
from widgets.common.cards import Card, EmptyState, ProgressLine, VerticalScrollArea
from widgets.common.labels import Label
from widgets.common.layout import SLACK, STRETCH, col, row
from widgets.common.record_table_model import RowTableModel, TableColumn
from widgets.common.theme import S1, S2, S3, S4
from widgets.common.view_style import TableHeightLimit, share_column_width, style_view
from widgets.library.sample_grid import SampleGrid

_PAGE_GROUPS = 24
_EXPLANATION = (
    "A scan reads all samples of training and validation, and finds broken samples, duplicates, "
    "leaks between the two, and shifted values."
)
_COLUMNS = (
    TableColumn[ScanFinding](
        "Finding", lambda finding: finding.message, lambda finding: finding.message
    ),
    TableColumn[ScanFinding](
        "Samples",
        lambda finding: formats.count(len(finding.groups)) if finding.groups else "–",
        is_figure=True,
    ),
)
_RESULT, _EMPTY, _RUNNING = range(3)


class ScanView(QStackedWidget):
    """A button, then the progress, then the findings with the samples of the selected one.

    Signals:
        scan_requested: Scan; answer with `show_progress`, `show_scan` or `show_error`.
        cancel_requested: Cancel the running scan.
        samples_requested: Pairs of split and index; answer with `show_samples` or
            `show_samples_error`.
    """

    scan_requested = Signal()
    cancel_requested = Signal()
    samples_requested = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._finding = ScanFinding("")
        self._start = 0
        self._make_findings()
        self._make_samples()
        self._banner = Banner()
        self._empty_state = EmptyState("magnifying-glass", "")
        self._empty_state.pressed.connect(self._request_scan)
        start_page = QWidget()
        start_page.setLayout(col(self._banner, (self._empty_state, 1), gap=S3))
        result_page = QWidget()
        result_page.setLayout(
            col(self._summary, (self._findings, 1), (self._samples, 1), SLACK, gap=S3)
        )
        self._progress = ProgressLine("Reading samples")
        self._progress.cancelled.connect(self.cancel_requested)
        running_page = QWidget()
        reading = EmptyState("magnifying-glass", "Reading all samples…", _EXPLANATION)
        running_page.setLayout(col((reading, 1), self._progress, gap=S3))
        for page in (result_page, start_page, running_page):
            self.addWidget(page)
        self.clear()

    def _make_findings(self) -> None:
        self._summary = Label("", "body", "text2", wrap=True)
        self.model = RowTableModel(_COLUMNS)
        self._table = QTableView()
        self._table.setModel(self.model)
        style_view(self._table, "Findings")
        self._table.setSelectionMode(QTableView.SelectionMode.SingleSelection)
        self._table.selectionModel().currentRowChanged.connect(self._show_finding)
        share_column_width(self._table, 0)
        self._findings = Card((self._table, 1), margins=(0, 0, 0, S1))
        TableHeightLimit(self._table, self._findings, S1)

    def _make_samples(self) -> None:
        self._range_label = Label("", "small", "text3", elide="right")
        self._previous_button = IconButton("arrow-left", "Previous samples")
        self._next = IconButton("arrow-right", "Next samples")
        self._previous_button.clicked.connect(lambda: self._show_from(self._start - _PAGE_GROUPS))
        self._next.clicked.connect(lambda: self._show_from(self._start + _PAGE_GROUPS))
        self._errors_label = Label("", "small", "text2", wrap=True)
        self._grid = SampleGrid()
        holder = QWidget()
        holder.setLayout(
            col(
                row((self._range_label, 1), self._previous_button, self._next, gap=S1),
                *(self._errors_label, self._grid, STRETCH),
                gap=S2,
                margins=(S4, S3, S4, S4),
            )
        )
        self._samples = Card((VerticalScrollArea(holder), 1), margins=(0, 0, 0, 0))

    # -- input

    def clear(self) -> None:
        """Show no result: another version or another loader was chosen."""
        if self.currentIndex() == _RUNNING:
            self.cancel_requested.emit()
        self._banner.hide()
        self._empty_state.show_message(
            "magnifying-glass", "Not scanned yet", _EXPLANATION, button="Scan all samples"
        )
        self.setCurrentIndex(_EMPTY)

    def show_progress(self, share: float | None, text: str) -> None:
        self._progress.set_progress(share, text)
        self.setCurrentIndex(_RUNNING)

    def show_error(self, message: str, remedy: str = "") -> None:
        """Show why there is no result."""
        hint = "Fix the problem above, then scan again."
        self._empty_state.show_message("magnifying-glass", "No result", hint, button="Scan again")
        self.setCurrentIndex(_EMPTY)
        self._banner.set_finding("bad", message, remedy)
        self._banner.show()

    def show_scan(self, scan: DatasetScan) -> None:
        findings = scan.findings()
        if not findings:
            self._banner.hide()
            self._empty_state.show_message("check-circle", "No findings", _summary_text(scan))
            self.setCurrentIndex(_EMPTY)
            return
        self._summary.setText(_summary_text(scan))
        self.model.set_records(findings)
        self.setCurrentIndex(_RESULT)
        rows_with_samples = (number for number, finding in enumerate(findings) if finding.groups)
        row_number = next(rows_with_samples, 0)
        self._table.selectRow(row_number)
        # The same row may have been selected in another result.
        self._show_finding(self.model.index(row_number, 0))

    def show_samples(self, sample_keys: object, page: SamplePage) -> None:
        """Show the requested samples, unless another request followed."""
        if sample_keys != self._sample_keys():
            return
        samples_by_key = {
            (page_sample.split, page_sample.sample.index): page_sample.sample
            for page_sample in page.samples
        }
        groups = [group for group in self._groups() if all(key in samples_by_key for key in group)]
        samples = tuple(samples_by_key[key] for group in groups for key in group)
        self._grid.show_samples(samples, "", max((len(group) for group in groups), default=1))
        self._grid.setVisible(bool(samples))
        self._errors_label.setText("\n".join(error.message for error in page.errors))
        self._errors_label.setVisible(bool(page.errors))
        self._range_label.setText(self._range_text())

    def show_samples_error(self, sample_keys: object, message: str) -> None:
        """Show why the samples cannot be read."""
        if sample_keys == self._sample_keys():
            self._errors_label.setText(message)
            self._errors_label.show()
            self._range_label.setText("")

    # -- events

    @Slot()
    def _request_scan(self) -> None:
        self._banner.hide()
        self.show_progress(None, "Starting")
        self.scan_requested.emit()

    @Slot(QModelIndex)
    def _show_finding(self, index: QModelIndex) -> None:
        if index.isValid():
            self._finding = self.model.rows[index.row()]
            self._show_from(0)

    def _show_from(self, start: int) -> None:
        self._start = start
        total = len(self._finding.groups)
        self._samples.setVisible(bool(total))
        for button in (self._previous_button, self._next):
            button.setVisible(total > _PAGE_GROUPS)
        self._previous_button.setEnabled(start > 0)
        self._next.setEnabled(start + _PAGE_GROUPS < total)
        self._errors_label.hide()
        self._grid.hide()
        if total:
            self._range_label.setText("Reading samples…")
            self.samples_requested.emit(self._sample_keys())

    def _groups(self) -> tuple[tuple[tuple[str, int], ...], ...]:
        return self._finding.groups[self._start : self._start + _PAGE_GROUPS]

    def _sample_keys(self) -> tuple[tuple[str, int], ...]:
        return tuple(dict.fromkeys(key for group in self._groups() for key in group))

    def _range_text(self) -> str:
        groups, total = self._groups(), len(self._finding.groups)
        end = self._start + len(groups)
        splits = [split for split, _ in groups[0]]
        noun = "Pairs" if len(splits) == 2 else f"{splits[0].capitalize()} samples"
        text = f"{noun} {formats.count(self._start + 1)} to {formats.count_of(end, total)}"
        if len(set(splits)) == 2:
            text += f"; left {splits[0]}, right {splits[1]}"
        return text


def _summary_text(scan: DatasetScan) -> str:
    counts_text = f"{formats.count(scan.examined_count)} training"
    if scan.validation is not None:
        counts_text += f" and {formats.count(scan.validation.examined_count)} validation"
    count = scan.examined_count + (
        scan.validation.examined_count if scan.validation is not None else 0
    )
    text = f"Read {counts_text} samples ({formats.milliseconds(scan.sample_time_ms)} each)"
    start_s = scan.seconds - count * scan.sample_time_ms / 1000
    text += f"; starting took {formats.duration(start_s)}." if start_s >= 1 else "."
    has_pictures = any(len(shape.shape or ()) == 3 for shape in scan.shapes)
    is_small = has_pictures and not scan.compares_pictures
    return text + (" Pictures below 16 × 16 pixels are not compared." if is_small else "")
